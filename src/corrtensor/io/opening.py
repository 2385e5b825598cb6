"""Which reader opens what."""

import errno
import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from corrtensor._base.files import open_regular
from corrtensor.io.arrays import (
    NUMBERS,
    ZARR_MARKS,
    open_hdf5,
    open_mat,
    open_npy,
    open_npz,
    open_zarr,
)
from corrtensor.io.csv_table import TABLE_SUFFIXES, open_table, read_table
from corrtensor.io.images import IMAGE_SUFFIXES, count_frames, open_folder
from corrtensor.io.stack import InputError, Progress, Stack, turned
from corrtensor.io.tiff import open_tiff
from corrtensor.io.video import VIDEO_SUFFIXES, open_video

HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".nc")
TIFF_SUFFIXES = (".tif", ".tiff")
# Bytes that any file may claim, and how often its own size a larger one may.
BELIEVED, MOST_COMPRESSED = 1 << 28, 10_000
# Bytes of a label in a text file, on average.
LONGEST_LABEL = 1 << 12

# What opens a file by its ending: one of several arrays by its name, or the only one.
NAMED = {".npz": open_npz, **dict.fromkeys(HDF5_SUFFIXES, open_hdf5), ".zarr": open_zarr}
PLAIN = {
    ".npy": open_npy,
    **dict.fromkeys(TIFF_SUFFIXES, open_tiff),
    **dict.fromkeys(TABLE_SUFFIXES, open_table),
}
SUFFIXES = (*PLAIN, ".mat", *NAMED, *VIDEO_SUFFIXES)


def split(where: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Return the file and the array in it: ``file.h5::name``."""
    path, mark, name = os.fspath(where).partition("::")
    if mark and not name:
        raise InputError(f"{where}: the name of an array is missing after ::")
    return Path(path), name or None


def open_samples(
    where: str | os.PathLike[str],
    *,
    size: tuple[int, int] | None = None,
    colour: bool | None = None,
    axis: int = 0,
    progress: Progress | None = None,
) -> Stack:
    """Open a stack of samples, whatever it is stored in.

    Parameters
    ----------
    where : path-like
        A folder of images; or a ``.npy``, ``.npz``, ``.mat``, HDF5, zarr, multi-page TIFF or
        video file; or a table of numbers, ``.csv`` or ``.tsv``, with one sample in every line.
        ``file::name`` chooses an array of several.
    size : (int, int), default=None
        Height and width that images and frames are resized to.
    colour : bool, default=None
        Whether images and frames have three channels or one; by default as they come.
    axis : int, default=0
        Which axis of an array counts the samples; in MATLAB often the last, -1.
    progress : callable, default=None
        Called with (done, total) while images are read.

    Returns
    -------
    stack : Stack
        Slices are read when they are asked for. All in memory is only a table, or an array from
        ``.mat`` of version 5, or from a compressed ``.npz`` in Fortran order.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from corrtensor.io import open_samples
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(Path(folder) / "faces.npz", images=np.zeros((9, 4, 3)), ages=np.ones(9))
    ...     stack = open_samples(Path(folder) / "faces.npz")
    >>> stack.shape
    (9, 4, 3)
    """
    path, name = split(where)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such file or folder", str(path))
    suffix = path.suffix.lower()
    if path.is_dir() and not is_zarr(path):
        if name is not None:
            raise InputError(f"{path} is a folder of images; it has no array {name}")
        if axis != 0:
            raise InputError(f"{path} is a folder of images; only an array has an axis {axis}")
        return open_folder(path, size=size, colour=colour, progress=progress)
    if suffix in VIDEO_SUFFIXES:
        return Stack(checked(open_video(path, size, colour), where, path))
    if size is not None or colour is not None:
        raise InputError(f"{path}: only a folder of images or a video can be resized or recoloured")
    if suffix in TABLE_SUFFIXES and name is None:
        table = read_table(path)
        numbers = turned(table.numbers, axis, path)
        # They are names of lines, not of columns.
        names = None if axis % 2 else table.names
        return Stack(checked(numbers, where, path), names, note=table.note)
    return Stack(checked(open_array(path, name, axis), where, path))


def open_array(path: Path, name: str | None, axis: int, least: int = 2) -> Any:
    """Open an array in a file by its ending, with its samples first."""
    suffix = path.suffix.lower()
    if suffix == ".mat":
        return open_mat(path, name, least, axis)
    kind = ".zarr" if is_zarr(path) else suffix
    if kind in NAMED:
        array = NAMED[kind](path, name, least)
    elif name is not None:
        raise InputError(f"{path} has no arrays with names; leave out ::{name}")
    elif kind in PLAIN:
        array = PLAIN[kind](path)
    elif suffix in IMAGE_SUFFIXES:
        refuse_image(path)
    else:
        raise InputError(
            f"{path}: files that end in {suffix or 'nothing'} are not known; "
            f"a folder of images, or one of {', '.join(SUFFIXES)}"
        )
    return turned(array, axis, path)


def refuse_image(path: Path) -> NoReturn:
    """Raise an :class:`InputError` that says what to give instead of an image."""
    count = 1
    with suppress(Exception):
        count = count_frames(path)
    if count > 1:
        raise InputError(
            f"{path} is an image of {count} frames, which are not read; "
            "give a video such as .mp4, or a folder of the frames"
        )
    raise InputError(f"{path} is one image, hence one sample; give the folder of the images")


def is_zarr(path: Path) -> bool:
    """Tell whether this is a zarr store."""
    inside = any((path / name).is_file() for name in ZARR_MARKS)
    return inside or path.suffix.lower() == ".zarr"


def checked(array: Any, where: Any, path: Path) -> Any:
    """Return an array of samples; raise an :class:`InputError` if it is none."""
    if np.dtype(array.dtype).kind not in NUMBERS:
        raise InputError(f"{where} holds {array.dtype}; samples are made of real numbers")
    if len(array.shape) < 2 or 0 in array.shape:
        raise InputError(
            f"{where} has the shape {tuple(array.shape)}; samples are along axis 0, and each has "
            "at least one axis of its own"
        )
    refuse_hollow(array, where, path)
    return array


def refuse_hollow(array: Any, where: Any, path: Path) -> None:
    """Raise an :class:`InputError` if an array claims far more than its file can hold.

    What a small file says of its size is believed up to a bound: reading would ask for as much
    memory.
    """
    chunk = math.prod(int(a) for a in getattr(array, "chunks", None) or (1,))
    claimed = max(math.prod(int(a) for a in array.shape), chunk) * np.dtype(array.dtype).itemsize
    if claimed <= BELIEVED:
        return
    stored = 0
    inside = (Path(folder) / name for folder, _, names in os.walk(path) for name in names)
    for file in [path] if path.is_file() else inside:
        stored += file.stat().st_size
        if claimed <= MOST_COMPRESSED * stored:
            return
    raise InputError(
        f"{where} claims the shape {tuple(array.shape)}, {claimed:.1e} bytes, in {stored} bytes"
    )


def open_labels(where: str | os.PathLike[str], count: int) -> np.ndarray:
    """Read one label for each of ``count`` samples, strings or numbers as they are stored.

    From a text file with one label in every line, or from an array of one axis in any file that
    :func:`open_samples` opens.
    """
    path, name = split(where)
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path))
    if path.suffix.lower() in (".txt", ".csv"):
        try:
            with open_regular(path) as file:
                text = file.read(LONGEST_LABEL * (count + 1) + 1)
            if len(text) > LONGEST_LABEL * (count + 1):
                raise InputError(f"{path} is too long for {count} labels")
            lines = text.decode("utf-8").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is no text file: {error}") from error
        labels = np.array([line.strip() for line in lines])
    else:
        array = open_array(path, name, 0, least=1)
        refuse_hollow(array, where, path)
        labels = np.ravel(np.asarray(array[:]))
    if labels.dtype.kind == "S":
        labels = labels.astype(str)
    if labels.shape != (count,) or labels.dtype.kind not in "iubU":
        raise InputError(
            f"{where} holds {labels.dtype} of shape {labels.shape}; "
            f"{count} labels are needed, strings or integers"
        )
    return labels
