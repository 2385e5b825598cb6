"""Yale faces: 15 people under 11 conditions, 243 x 320 pixels, or cropped to 64 x 64."""

import operator
import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from corrtensor.datasets._places import (
    data_root,
    matching,
    missing,
    read_archive,
    read_picture,
    read_pnm,
    resize,
    whole_folder,
)

CONDITIONS = (
    "centerlight glasses happy leftlight noglasses normal rightlight sad sleepy surprised wink"
)
PEOPLE, SHAPE = 15, (243, 320)
FOLDERS = ("yale", "yalefaces")
FILE_NAME = rf"subject(\d\d)(?:\.({CONDITIONS.replace(' ', '|')}))?(?:\.(gif|png|pgm))?"


def load_yale(
    data_dir: str | os.PathLike[str] | None = None,
    *,
    size: tuple[int, int] | None = None,
    aligned: bool = False,
) -> Bunch:
    """Load the Yale faces from ``yale.npz`` or from the original images.

    Parameters
    ----------
    data_dir : path-like, default=None
        The folder with the files. By default the folder that the environment variable
        ``CORRTENSOR_DATA`` names, else ``corrtensor`` in scikit-learn's data home.
        ``yale.npz`` is taken first; else images named like ``subject01.happy``, bare or
        with ``.gif``, ``.png`` or ``.pgm``, in the folder itself or in ``yale`` or
        ``yalefaces``. As in the original archive, ``subject01.gif`` is subject 1 under
        ``centerlight``. All 165 must be there; where one is there twice, a bare name comes
        before ``.gif``, ``.pgm``, ``.png``; other files are ignored.
    size : (int, int), default=None
        Rows and columns to resize to, by averaging areas; by default the images stay as stored.
    aligned : bool, default=False
        Take the aligned crop of 64 x 64 pixels, which comes only as ``yale64.npz``.

    Returns
    -------
    Bunch
        ``images`` (uint8, shape (165, 243, 320), by person and condition), ``target`` (the
        person, 1 to 15), ``conditions`` (not for the aligned crop), ``description`` and
        ``source`` (the file or folder read).

    Examples
    --------
    With the files in place, ``load_yale(size=(100, 100)).images`` has shape (165, 100, 100).
    Without them, the error says what to put where:

    >>> from corrtensor.datasets import load_yale
    >>> load_yale("no-such-folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: Yale faces not found in no-such-folder (there is no such folder)...
    """
    if size is not None:
        size = _check_size(size)
    root = data_root(data_dir)
    source = root / ("yale64.npz" if aligned else "yale.npz")
    extra = {}
    if source.is_file():
        with read_archive(source) as arrays:
            images, target = arrays["images"], arrays["labels"]
            if not aligned:
                extra["conditions"] = arrays["conditions"]
    elif aligned:
        raise missing("Aligned Yale faces", root, ["yale64.npz (arrays images, labels)"])
    else:
        conditions = CONDITIONS.split()
        names = [f"subject{k:02d}.{one}" for k in range(1, PEOPLE + 1) for one in conditions]
        forms = [
            "yale.npz (arrays images, labels, conditions)",
            "the 165 images subject01.centerlight to subject15.wink, bare or with .gif, .png or "
            f".pgm (and subject01.gif as it is), here or in one of {', '.join(FOLDERS)}",
        ]
        paths, source = whole_folder("Yale faces", root, FOLDERS, _named_pictures, names, forms)
        images = np.stack([_read(path) for path in paths])
        target = np.repeat(np.arange(1, PEOPLE + 1), len(conditions))
        extra["conditions"] = np.tile(np.array(conditions), PEOPLE)
    if size is not None:
        images = resize(images, size)
    rows, columns = images.shape[1:]
    return Bunch(
        images=images,
        target=target,
        **extra,
        description=f"Yale faces: 165 grey images of {rows} x {columns} pixels, 15 people, 11 each",
        source=str(source),
    )


def _check_size(size: tuple[int, int]) -> tuple[int, int]:
    try:
        rows, columns = (operator.index(side) for side in size)
    except (TypeError, ValueError):
        rows = columns = 0
    if min(rows, columns) < 1:
        raise ValueError(f"size={size!r}: give two positive whole numbers, (rows, columns)")
    return rows, columns


def _named_pictures(folder: Path) -> dict[str, Path]:
    """Map person and condition to the file that comes first."""
    found: dict[str, tuple[bool, str, Path]] = {}
    for match, path in matching(folder, FILE_NAME):
        person, condition, ending = match.groups()
        if condition is None and (person, (ending or "").lower()) != ("01", "gif"):
            continue
        key = f"subject{person}.{(condition or 'centerlight').lower()}"
        candidate = (condition is None, (ending or "").lower(), path)
        found[key] = min(found.get(key, candidate), candidate)
    return {key: path for key, (_, _, path) in found.items()}


def _read(path: Path) -> np.ndarray:
    if path.suffix.lower() == ".pgm":
        return read_pnm(path, SHAPE)
    return read_picture(path, SHAPE)
