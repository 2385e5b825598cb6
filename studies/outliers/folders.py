"""Folders of pictures, some of them damaged in eight ways, with the truth beside them.

Six kinds of damage are in the pixels and are to be ranked first. The other two are not: copies of
good pictures (the same bytes, resized, recompressed), which are to be grouped, and files that
end too early, which are to be skipped.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from corrtensor.datasets._places import data_root

__all__ = ["DAMAGE", "FOLDERS", "Folder", "Truth", "load_good", "make_folder"]

Place = str | Path | None
# Good pictures in a folder, as far as the set goes, and how many of each kind of damage.
SIZE, OF_EACH = 600, 6
# Standard deviation of the noise, of 255, and radius of the blur as a share of the shorter side.
NOISE, BLUR = 60.0, 0.05


@dataclass(frozen=True)
class Folder:
    """Pictures that belong together: which arrays they are drawn from.

    ``aside`` says that the rules as they are were chosen without this folder.
    """

    name: str
    sets: tuple[tuple[str, str], ...]
    aside: bool = False


ORL, LFW = ("orl.npz", "images"), ("lfwcrop_subset.npz", "images")
MNIST = ("mnist.npz", "x_train")
PALMS, USPS = ("palm.npz", "images"), ("usps_subset.npz", "images")
STRANGE = ("video_escalator.npz", "frames")
FOLDERS = (
    Folder("ORL", (ORL,)),
    Folder("LFW", (LFW,), aside=True),
    Folder("MNIST", (MNIST,), aside=True),
    Folder("mixed", (ORL, LFW, MNIST), aside=True),
    Folder("palms", (PALMS,)),
    Folder("USPS", (USPS,)),
    Folder("mixed, all five", (ORL, LFW, MNIST, PALMS, USPS)),
)


@lru_cache(4)
def load(place: Place, name: str, key: str) -> np.ndarray:
    """Return the bytes of one set."""
    with np.load(data_root(place) / name, allow_pickle=False) as arrays:
        X = arrays[key]
    return X if X.dtype == np.uint8 else np.rint(255 * (X + 1) / 2).astype(np.uint8)


def load_good(place: Place, folder: Folder, rng: np.random.Generator) -> list[np.ndarray]:
    """Return the pictures of a folder, drawn without repeats."""
    each = SIZE // len(folder.sets)
    drawn = []
    for name, key in folder.sets:
        X = load(place, name, key)
        rows = np.sort(rng.choice(len(X), min(each, len(X)), replace=False))
        drawn += list(X[rows])
    return [drawn[i] for i in rng.permutation(len(drawn))]


def resized(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a picture in another size."""
    size = shape[1], shape[0]
    return np.asarray(Image.fromarray(x).resize(size, Image.Resampling.LANCZOS))


def noisy(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Add strong noise."""
    return np.clip(x + NOISE * rng.normal(size=x.shape), 0, 255).astype(np.uint8)


def half_black(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Make the left, right, upper or lower half black."""
    y, axis = x.copy(), int(rng.integers(2))
    half = y.shape[axis] // 2
    part = slice(half) if rng.integers(2) else slice(half, None)
    y[(slice(None),) * axis + (part,)] = 0
    return y


def blurred(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Put the picture out of focus."""
    radius = max(1.0, BLUR * min(x.shape[:2]))
    return np.asarray(Image.fromarray(x).filter(ImageFilter.GaussianBlur(radius)))


def rotated(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Turn by a right angle, to the left or to the right."""
    return resized(np.ascontiguousarray(np.rot90(x, rng.choice([1, 3]))), x.shape)


def negative(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Turn black into white."""
    return 255 - x


def other_object(x: np.ndarray, rng: np.random.Generator, strange: np.ndarray) -> np.ndarray:
    """Take a piece of a scene with an escalator instead."""
    frame = strange[rng.integers(len(strange))]
    top, left = (int(rng.integers(a - 63)) for a in frame.shape)
    piece = resized(frame[top : top + 64, left : left + 64], x.shape)
    return np.repeat(piece[..., None], 3, axis=2) if x.ndim == 3 else piece


DAMAGE: dict[str, Callable[[np.ndarray, np.random.Generator, np.ndarray], np.ndarray]] = {
    "noise": noisy,
    "half black": half_black,
    "blur": blurred,
    "rotation": rotated,
    "negative": negative,
    "other object": other_object,
}


@dataclass
class Truth:
    """What was done to which file: kinds by name, pairs of copies, and files that end early."""

    kinds: dict[str, str] = field(default_factory=dict)
    copies: list[tuple[str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def png(x: np.ndarray) -> bytes:
    """Return a picture as the bytes of a file."""
    buffer = io.BytesIO()
    Image.fromarray(x).save(buffer, "PNG")
    return buffer.getvalue()


def copy_of(x: np.ndarray, way: int) -> tuple[bytes, str]:
    """Return a copy and the ending of its name: the same bytes, resized or recompressed."""
    if way == 0:
        return png(x), ".png"
    if way == 1:
        a, b = x.shape[:2]
        return png(resized(x, (round(1.5 * a), round(1.5 * b)))), ".png"
    buffer = io.BytesIO()
    Image.fromarray(x).save(buffer, "JPEG", quality=75)
    return buffer.getvalue(), ".jpg"


def make_folder(
    where: Path, folder: Folder, seed: int, place: Place = None, *, damage: bool = True
) -> Truth:
    """Write the pictures of a folder, damaged or not, and return what was done."""
    rng = np.random.default_rng([seed, *folder.name.encode()])
    pictures, strange = load_good(place, folder, rng), load(place, *STRANGE)
    truth = Truth()
    names = [f"{i:04d}.png" for i in range(len(pictures))]
    todo = [kind for kind in DAMAGE for _ in range(OF_EACH)] if damage else []
    # Damaged ones stand anywhere: the pictures are in random order, and names must not tell.
    places = rng.choice(len(pictures), len(todo) + 2 * OF_EACH, replace=False).tolist()
    for kind in todo:
        i = places.pop()
        pictures[i] = DAMAGE[kind](pictures[i], rng, strange)
        truth.kinds[names[i]] = kind
    files = {name: png(x) for name, x in zip(names, pictures, strict=True)}
    if damage:
        for k in range(OF_EACH):
            i = places.pop()
            content, ending = copy_of(pictures[i], k % 3)
            files[name := f"c{i:04d}{ending}"] = content
            truth.copies.append((names[i], name))
        for _ in range(OF_EACH):
            name = names[places.pop()]
            files[name] = files[name][: len(files[name]) // 2]
            truth.broken.append(name)
    for name, content in files.items():
        (where / name).write_bytes(content)
    return truth
