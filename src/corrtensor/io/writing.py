"""Samples into files, block by block; a file appears when it is whole.

The ending says what is written: ``.npy``, ``.npz``, ``.h5::name``, ``.zarr``, a table ``.csv``, a
video such as ``.mp4``, or a folder of PNG pictures if there is none.
"""

import csv
import errno
import io
import math
import os
import secrets
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor._base.files import held, refuse_link, refuse_special, replacing, sync_folder
from corrtensor._base.names import cell
from corrtensor.io.arrays import ZARR_MARKS, is_at_home

# Takes the number of the first of some samples, and these.
Write = Callable[[int, np.ndarray], None]
HDF5_SUFFIXES = (".h5", ".hdf5")
# Samples of a stored chunk take about this much.
CHUNK_BYTES = 1 << 20
# Ending of the file, container and encoder, all of them in every build of FFmpeg that PyAV brings.
FORMATS = {".mp4": ("mp4", "libx264"), ".mkv": ("matroska", "libx264"), ".avi": ("avi", "mpeg4")}
FRAMES_PER_SECOND = 25


def split_output(where: str) -> tuple[Path, str]:
    """Return the file and the name of the array in it."""
    path, _, name = where.partition("::")
    return Path(path), name or "samples"


def check_output_name(where: str, *, pictures: bool) -> None:
    """Raise a ``ValueError`` unless something is written under such a name."""
    path, _ = split_output(where)
    suffix = path.suffix.lower()
    known = (".npy", ".npz", *HDF5_SUFFIXES, ".zarr", ".csv", *(FORMATS if pictures else ()))
    if "::" in where and suffix not in (".npz", *HDF5_SUFFIXES):
        raise ValueError(f"{where}: only .npz and .h5 files hold arrays with names")
    if suffix not in known and not (pictures and not suffix):
        folder = ", or a folder for pictures" if pictures else ""
        raise ValueError(f"{where}: the name must end in {', '.join(known)}{folder}")


def check_pictures(where: str | Path, sample: tuple[int, ...]) -> None:
    """Raise a ``ValueError`` if samples of a shape cannot be drawn, but would be under a name."""
    suffix = Path(where).suffix.lower()
    # A PNG picture may be one line, and have a channel of opacity.
    channels, fewest = ((1, 3), 2) if suffix else ((1, 2, 3, 4), 1)
    drawable = len(sample) in (fewest, 2) or (len(sample) == 3 and sample[2] in channels)
    if suffix in ("", *FORMATS) and not drawable:
        raise ValueError(
            f"{where}: samples of shape {' x '.join(map(str, sample))} are no "
            f"{'frames of a video' if suffix else 'pictures'}, which are height x width or "
            "height x width x 3; write .npy"
        )


@contextmanager
def open_output(
    where: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    *,
    names: Sequence[str] | None = None,
    values: tuple[float, float] | None = None,
    deep: bool = False,
    rate: Fraction | None = None,
) -> Iterator[Callable[[np.ndarray], None]]:
    """Open a file for samples that come in order, block by block; no other run may write it.

    ``where`` is the file, or ``file.h5::name``; a name without an ending is a folder of pictures,
    which have ``names``, and in which ``values`` are black and white (by default 0 and 255), of
    65536 shades if they are ``deep``, else of 256. A video has ``rate`` frames a second.
    Yields what takes the next samples.
    """
    path, name = split_output(where)
    check_pictures(path, shape[1:])
    place = 0
    with held(path), open_kind(path, name, shape, dtype, names, values, deep, rate) as write:

        def write_next(rows: np.ndarray) -> None:
            nonlocal place
            write(place, rows)
            place += len(rows)

        yield write_next


@contextmanager
def open_kind(
    path: Path,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    names: Sequence[str] | None,
    values: tuple[float, float] | None,
    deep: bool,
    rate: Fraction | None,
) -> Iterator[Write]:
    """Open a file by its ending."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        with replacing(path) as file:
            write_header(file, shape, dtype)
            yield lambda _, rows: write_rows(file, rows, dtype)
    elif suffix == ".npz":
        with (
            replacing(path) as file,
            zipfile.ZipFile(file, "w") as archive,
            archive.open(f"{name}.npy", "w", force_zip64=True) as member,
        ):
            write_header(member, shape, dtype)
            yield lambda _, rows: write_rows(member, rows, dtype)
    elif suffix in HDF5_SUFFIXES:
        with hdf5_writer(path, name, shape, dtype) as write:
            yield write
    elif suffix == ".zarr":
        require_room(path, shape, dtype)
        with folder_replacing(path, marks=ZARR_MARKS) as folder:
            zarr = need("zarr", "io", "a zarr store")
            array = zarr.create_array(folder, shape=shape, dtype=dtype, chunks=chunks(shape, dtype))
            yield in_order(array)
    elif suffix == ".csv":
        with replacing(path) as file:
            yield table_writer(file, shape, names)
    elif suffix in FORMATS:
        with (
            replacing(path) as file,
            video_writer(file, suffix, shape, values or (0.0, 255.0), rate) as write,
        ):
            yield write
    else:
        with folder_replacing(path) as folder:
            yield picture_writer(folder, names, values or (0.0, 255.0), deep)


def write_header(file: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
    """Write the beginning of a ``.npy`` file."""
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)


def write_rows(file: Any, rows: np.ndarray, dtype: np.dtype) -> None:
    """Write the next samples of a ``.npy`` file."""
    file.write(np.ascontiguousarray(rows, dtype).tobytes())


def table_writer(file: Any, shape: tuple[int, ...], names: Sequence[str] | None) -> Write:
    """Return a function that writes samples as rows of a table, and write its first line.

    Columns are called by the places of their entries: ``x0_3``.
    """
    entries = ["x" + "_".join(map(str, place)) for place in np.ndindex(shape[1:])]
    file.write(",".join(["sample", *(["name"] if names is not None else []), *entries]).encode())

    def write(first: int, rows: np.ndarray) -> None:
        for place, row in enumerate(rows, start=first):
            text = io.StringIO(newline="")
            label = [place] if names is None else [place, cell(names[place])]
            csv.writer(text, lineterminator="").writerow([*label, *row.ravel().tolist()])
            file.write(b"\n" + text.getvalue().encode())

    return write


def chunks(shape: tuple[int, ...], dtype: np.dtype) -> tuple[int, ...]:
    """Return the shape of a stored chunk: whole samples."""
    each = max(1, int(np.prod(shape[1:])) * np.dtype(dtype).itemsize)
    return (max(1, min(shape[0], CHUNK_BYTES // each)), *shape[1:])


def in_order(array: Any) -> Write:
    """Return a function that puts samples into an array."""

    def write(first: int, rows: np.ndarray) -> None:
        array[first : first + len(rows)] = rows

    return write


def require_room(path: Path, shape: tuple[int, ...], dtype: np.dtype, more: int = 0) -> None:
    """Raise an ``OSError`` if the disk is too full for such an array.

    HDF5 and zarr cannot be trusted to end well once a write has failed.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize + more
    if size > shutil.disk_usage(path.absolute().parent).free:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))


@contextmanager
def hdf5_writer(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype) -> Iterator[Write]:
    """Add a dataset to a copy of an HDF5 file, which then takes its place."""
    h5py = need("h5py", "io", "an HDF5 file")
    refuse_link(path)
    there = path.exists()
    if there and path.is_file() and not h5py.is_hdf5(path):
        raise ValueError(f"{path} is there and is no HDF5 file; give another name")
    require_room(path, shape, dtype, path.stat().st_size if there else 0)
    with replacing(path) as new:
        try:
            if there:
                shutil.copyfile(path, new.name)
            with h5py.File(new.name, "a" if there else "w") as file:
                if not is_at_home(h5py, file, str(PurePosixPath(name).parent)):
                    raise ValueError(f"{path}: {name} leads through a link to another file")
                if name in file:
                    del file[name]
                yield in_order(file.create_dataset(name, shape, dtype, chunks=chunks(shape, dtype)))
        except (OSError, RuntimeError) as error:
            # HDF5 tells of a full disk in words, or at the end and by another type.
            full = "No space left" in str(error) or "errno = 28" in str(error)
            code = errno.ENOSPC if full else errno.EIO
            raise OSError(code, os.strerror(code), os.fspath(path)) from error


@contextmanager
def folder_replacing(path: Path, marks: Sequence[str] = ()) -> Iterator[Path]:
    """Make a folder that takes the place of ``path`` once it is whole.

    A folder that is there and not empty is replaced only if it holds one of ``marks``, files that
    tell what it is: nobody's pictures shall vanish by a slip.
    """
    refuse_link(path)
    target = path.absolute()
    if target.exists() and not target.is_dir():
        refuse_special(target, path)
        raise FileExistsError(errno.EEXIST, "there is a file of this name", str(path))
    if target.is_dir() and any(target.iterdir()) and not any((target / m).exists() for m in marks):
        raise FileExistsError(errno.EEXIST, "the folder is not empty; give a new one", str(path))
    token = secrets.token_hex(6)
    beside = target.with_name(f".{target.name[:100]}.{token}.part")
    try:
        beside.mkdir()
        yield beside
        if target.exists():
            old = target.with_name(f".{target.name[:100]}.{token}.old")
            target.rename(old)
            beside.rename(target)
            shutil.rmtree(old)
        else:
            beside.rename(target)
    except BaseException as error:
        remove_folder(beside)
        if isinstance(error, OSError) and error.errno:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    sync_folder(target.parent)


def remove_folder(folder: Path) -> None:
    """Remove a folder that some thread may still be writing to."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


def picture_writer(
    folder: Path, names: Sequence[str] | None, values: tuple[float, float], deep: bool
) -> Write:
    """Return a function that writes samples as PNG pictures."""
    Image = need("PIL.Image", "io", "a folder of pictures")
    used: set[str] = set()

    def write(first: int, rows: np.ndarray) -> None:
        for place, row in enumerate(rows, start=first):
            name = picture_name(place, names, used)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shades = as_shades(row, values, deep)
            # Pillow knows no third axis of one channel.
            shades = shades[..., 0] if shades.shape[2:] == (1,) else shades
            Image.fromarray(shades).save(folder / name)

    return write


def as_shades(sample: np.ndarray, values: tuple[float, float], deep: bool = False) -> np.ndarray:
    """Return a sample in the 256 shades between two values, or in 65536 of them."""
    low, high = values
    top = 65535 if deep else 255
    shades = np.rint((sample.astype(float) - low) / ((high - low) or 1.0) * top)
    return np.clip(shades, 0, top).astype(np.uint16 if deep else np.uint8)


def picture_name(place: int, names: Sequence[str] | None, used: set[str]) -> str:
    """Return a name for a picture that no other has: its file's with the ending ``.png``."""
    name = f"{place:06d}.png"
    if names is not None:
        if ".." in PurePosixPath(names[place]).parts or names[place].startswith("/"):
            raise ValueError(f"{names[place]!r} is no name for a picture: it leads elsewhere")
        name = PurePosixPath(names[place]).with_suffix(".png").as_posix()
        if name in used:
            name = f"{names[place]}.png"
    used.add(name)
    return name


@contextmanager
def video_writer(
    file: Any,
    suffix: str,
    shape: tuple[int, ...],
    values: tuple[float, float],
    rate: Fraction | None,
) -> Iterator[Write]:
    """Open a video for samples of a shape, ``values`` being black and white, ``rate`` a second.

    Yields a function that takes the next samples.
    """
    av = need("av", "video", "a video file")
    container, encoder = FORMATS[suffix]
    with av.open(file, "w", format=container) as video:
        stream: Any = video.add_stream(encoder, rate=rate or FRAMES_PER_SECOND)
        stream.height, stream.width = (a + a % 2 for a in shape[1:3])
        stream.pix_fmt = "yuv420p"

        def write(_: int, rows: np.ndarray) -> None:
            for row in rows.reshape(len(rows), *shape[1:3], -1):
                pixels = np.broadcast_to(as_shades(row, values), (*shape[1:3], 3))
                # Where their number is odd, the last row or column is repeated.
                even = np.pad(pixels, [(0, shape[1] % 2), (0, shape[2] % 2), (0, 0)], mode="edge")
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(even), format="rgb24")
                for packet in stream.encode(frame):
                    video.mux(packet)

        yield write
        for packet in stream.encode():
            video.mux(packet)
