"""The files of the data sets: where they are, whether they are whole, what is in them."""

import gzip
import hashlib
import io
import math
import os
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import get_data_home

from corrtensor._base.extras import need

VARIABLE = "CORRTENSOR_DATA"
GAP = rb"(?:\s|#.*\n)+"
PNM_HEADER = re.compile(rb"P([56])" + GAP + rb"(\d+)" + GAP + rb"(\d+)" + GAP + rb"(\d+)\s")
GZIP_MAGIC = b"\x1f\x8b"
IDX_OF_BYTES = b"\0\0\x08"

# Each known archive: the sha256 of its accepted contents, and their sizes in bytes.
# The second of MNIST is the file that Keras hands out: the same arrays, packed anew.
ARCHIVES: dict[str, dict[str, int]] = {
    "mnist.npz": {
        "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64": 11_490_519,
        "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1": 11_490_434,
    },
    "orl.npz": {
        "3f2d3390be2c7a501d19bc98a4a233e8008336b447ce299d2807c52984e573b6": 3_687_891,
    },
    "yale.npz": {
        "f004742f69614a59424f3d605e4bf410c6a06c81b545d0e1f9ac13250904c56b": 5_439_568,
    },
    "yale64.npz": {
        "b36ade0ed72854d4655035d034a090caa5272540fb183acec0fcc63a006964e1": 601_996,
    },
    "lfwcrop_subset.npz": {
        "b0c089ce426be0b56ae1ca9289dd40cda6dbafab520b0a763e433e7ad71dd1bf": 13_198_800,
    },
}


def data_root(data_dir: str | os.PathLike[str] | None) -> Path:
    """Return the data folder: the argument, else the variable, else scikit-learn's data home."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    return Path(get_data_home()) / "corrtensor"


def missing(title: str, root: Path, forms: Iterable[str]) -> FileNotFoundError:
    """Make the error that says which files to put where."""
    where = f"in {root}" if root.is_dir() else f"in {root} (there is no such folder)"
    return FileNotFoundError(
        "\n".join(
            [
                f"{title} not found {where}. Nothing is downloaded; put one of these there:",
                *(f"  - {form}" for form in forms),
                f"or name another folder with data_dir= or the environment variable {VARIABLE}.",
            ]
        )
    )


def incomplete(title: str, folder: Path, absent: Sequence[str], total: int) -> ValueError:
    """Make the error for a folder that holds only a part of a data set."""
    named = ", ".join(absent[:3]) + (", ..." if len(absent) > 3 else "")
    return ValueError(f"{title} in {folder}: {len(absent)} of {total} images are missing ({named})")


def whole_folder(
    title: str,
    root: Path,
    folders: Sequence[str],
    named: Callable[[Path], Mapping[str, Path]],
    wanted: Sequence[str],
    forms: Iterable[str],
) -> tuple[list[Path], Path]:
    """Return the wanted files, by their names, and the first folder that has them.

    One with a part of them is an error, and so is none.
    """
    for folder in (root, *(root / name for name in folders)):
        found = named(folder)
        absent = [name for name in wanted if name not in found]
        if not absent:
            return [found[name] for name in wanted], folder
        if len(absent) < len(wanted):
            raise incomplete(title, folder, absent, len(wanted))
    raise missing(title, root, forms)


def matching(folder: Path, pattern: str) -> list[tuple[re.Match[str], Path]]:
    """List the files whose whole name fits ``pattern``, in any case; strays are passed over."""
    if not folder.is_dir():
        return []
    found = (
        (re.fullmatch(pattern, path.name, re.IGNORECASE), path) for path in sorted(folder.iterdir())
    )
    return [(match, path) for match, path in found if match and path.is_file()]


def read_archive(path: Path) -> Any:
    """Open a known ``.npz`` after checking its sum."""
    content = path.read_bytes()
    sums = ARCHIVES[path.name]
    found = hashlib.sha256(content).hexdigest()
    if found not in sums:
        expected, size = next(iter(sums.items()))
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {size} bytes with sha256 {expected} expected, "
            f"{len(content)} bytes with sha256 {found} found. Fetch it again."
        )
    return np.load(io.BytesIO(content), allow_pickle=False)


def read_pnm(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Read a binary PGM or PPM image of 8 bits that must have this shape."""
    content = path.read_bytes()
    header = PNM_HEADER.match(content)
    if header is None:
        raise ValueError(f"{path} is corrupt, or not a binary PGM or PPM image")
    kind, width, height, largest = (int(number) for number in header.groups())
    if largest != 255:
        raise ValueError(f"{path} has grey levels up to {largest}; 255 expected")
    found = (height, width) if kind == 5 else (height, width, 3)
    check_shape(path, found, shape)
    pixels = content[header.end() :]
    if len(pixels) != math.prod(found):
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {math.prod(found)} bytes of pixels expected, "
            f"{len(pixels)} found"
        )
    return np.frombuffer(pixels, np.uint8).reshape(found)


def read_picture(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Read a GIF or PNG image as grey levels; it must have this shape."""
    image = need("PIL.Image", "data", f"reading {path.name}")
    try:
        with image.open(path, formats=("GIF", "PNG")) as picture:
            pixels = np.asarray(picture.convert("L"))
    # Pillow raises any of these on files that are cut off or garbled.
    except (OSError, EOFError, SyntaxError, ValueError, IndexError) as error:
        raise ValueError(f"{path} is corrupt, or not an image: {error}") from error
    check_shape(path, pixels.shape, shape)
    return pixels


def check_shape(path: Path, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise when an image has not the shape of its data set."""
    if found != expected:
        raise ValueError(f"{path} holds an image of shape {found}; {expected} expected")


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes, packed with gzip or not (told by its content, not its name)."""
    content = path.read_bytes()
    if content[:2] == GZIP_MAGIC:
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is corrupt or half-downloaded: {error}") from error
    order = content[3] if len(content) > 3 else 0
    start = 4 + 4 * order
    if content[:3] != IDX_OF_BYTES or order == 0 or len(content) < start:
        raise ValueError(f"{path} is corrupt, or not an IDX file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", order, 4))
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {math.prod(shape)} bytes for shape {shape} "
            f"expected, {len(content) - start} found"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def resize(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize grey images to ``(rows, columns)``; each new pixel averages the area it covers."""
    image = need("PIL.Image", "data", f"size={size}")
    rows, columns = size
    box = image.Resampling.BOX
    return np.stack([image.fromarray(one).resize((columns, rows), box) for one in images])
