"""LFWcrop: faces in the wild, cropped to 64 x 64 pixels, in colour or grey."""

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from corrtensor.datasets._places import (
    data_root,
    incomplete,
    matching,
    missing,
    read_archive,
    read_pnm,
)

# The paper's people, and how many images LFWcrop has of each.
PEOPLE = {
    "Colin_Powell": 236,
    "Donald_Rumsfeld": 121,
    "George_W_Bush": 530,
    "Gerhard_Schroeder": 109,
    "Tony_Blair": 144,
    "Amelie_Mauresmo": 21,
}
SIDE = 64


def load_lfwcrop(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    color: bool = True,
    people: Iterable[str] | None = None,
) -> Bunch:
    """Load LFWcrop faces from ``lfwcrop_subset.npz`` or from the original folders.

    Parameters
    ----------
    data_dir : path-like, default=None
        The folder with the files. By default the folder that the environment variable
        ``CORRTENSOR_DATA`` names, else ``corrtensor`` in scikit-learn's data home.
        ``lfwcrop_subset.npz`` (six people) is taken first, else the folder
        ``lfwcrop_color/faces`` with files like ``Tony_Blair_0001.ppm``. Other files are ignored.
    color : bool, default=True
        Colour images, or grey ones: those of ``lfwcrop_grey/faces`` (``.pgm``) where it is
        there, otherwise 0.299 R + 0.587 G + 0.114 B, rounded.
    people : iterable of str, default=None
        Whose images to take, in this order, named as in the files. By default the six
        people of the paper.

    Returns
    -------
    Bunch
        ``images`` (uint8, shape (N, 64, 64, 3), or (N, 64, 64) in grey, by person and
        number), ``target`` (an index into ``target_names``), ``target_names``, ``numbers``
        (those of the file names), ``description`` and ``source`` (the file or folder read).

    Examples
    --------
    With the files in place, ``load_lfwcrop(people=["Amelie_Mauresmo"]).images`` has shape
    (21, 64, 64, 3). Without them, the error says what to put where:

    >>> from corrtensor.datasets import load_lfwcrop
    >>> load_lfwcrop("no-such-folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: LFWcrop faces not found in no-such-folder (there is no such folder)...
    """
    people = [people] if isinstance(people, str) else people
    names = list(PEOPLE) if people is None else list(dict.fromkeys(people))
    if not names:
        raise ValueError("people is empty: name at least one person, or leave it out")
    root = data_root(data_dir)
    source = root / "lfwcrop_subset.npz"
    folder = None if color else _faces(root, color)
    if folder is None and source.is_file() and set(names) <= PEOPLE.keys():
        images, target, numbers = _from_archive(source, names)
    else:
        grey = folder is not None
        folder = folder or _faces(root, color=True)
        if folder is None and source.is_file():
            raise _unknown(sorted(set(names) - PEOPLE.keys()), list(PEOPLE), source)
        if folder is None:
            forms = ["lfwcrop_subset.npz (arrays images, names, numbers)"]
            for kind in ("color",) if color else ("color", "grey"):
                name = f"Colin_Powell_0001.{'ppm' if kind == 'color' else 'pgm'}"
                forms.append(f"the folder lfwcrop_{kind}/faces with {name} and so on")
            raise missing("LFWcrop faces", root, forms)
        images, target, numbers = _from_folder(folder, names, color=not grey)
        source = folder
    if not color and images.ndim == 4:
        # Whole numbers, so that halves are rounded alike on every machine.
        shades = images.astype(np.uint32) @ np.array([299, 587, 114], np.uint32)
        images = ((shades + 500) // 1000).astype(np.uint8)
    kind = "colour" if color else "grey"
    return Bunch(
        images=images,
        target=target,
        target_names=np.array(names),
        numbers=numbers,
        description=f"LFWcrop faces: {len(images)} {kind} images of 64 x 64 pixels, "
        f"{len(names)} people",
        source=str(source),
    )


def _faces(root: Path, color: bool) -> Path | None:
    """Return the folder with images of this kind, if there is one."""
    whole = root / ("lfwcrop_color" if color else "lfwcrop_grey")
    places = (whole / "faces", whole, root / "faces", root)
    return next((place for place in places if matching(place, _file_name(color))), None)


def _file_name(color: bool) -> str:
    return rf"([^.].*)_(\d{{4}})\.{'ppm' if color else 'pgm'}"


def _from_archive(path: Path, names: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    with read_archive(path) as arrays:
        images, people, numbers = arrays["images"], arrays["names"], arrays["numbers"]
    rows = [np.flatnonzero(people == name) for name in names]
    chosen = np.concatenate(rows)
    return images[chosen], np.repeat(np.arange(len(names)), [len(r) for r in rows]), numbers[chosen]


def _from_folder(
    folder: Path, names: list[str], color: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    files: dict[str, dict[int, Path]] = {}
    for match, path in matching(folder, _file_name(color)):
        files.setdefault(match[1], {})[int(match[2])] = path
    unknown = [name for name in names if name not in files]
    if unknown:
        raise _unknown(unknown, list(files), folder)
    shape = (SIDE, SIDE, 3) if color else (SIDE, SIDE)
    images, target, numbers = [], [], []
    for k, name in enumerate(names):
        total = PEOPLE.get(name, max(files[name]))
        absent = [f"{name}_{j:04d}" for j in range(1, total + 1) if j not in files[name]]
        if absent:
            raise incomplete(f"LFWcrop faces of {name}", folder, absent, total)
        for j in range(1, total + 1):
            images.append(read_pnm(files[name][j], shape))
            target.append(k)
            numbers.append(j)
    return np.stack(images), np.array(target), np.array(numbers)


def _unknown(names: Sequence[str], known: list[str], source: Path) -> ValueError:
    close = difflib.get_close_matches(names[0], known, n=3, cutoff=0.5) or sorted(known)[:3]
    return ValueError(
        f"people: {source} has no images of {', '.join(map(repr, names))}; "
        f"it has those of {len(known)} people, such as {', '.join(map(repr, close))}"
    )
