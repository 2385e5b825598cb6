"""Arrays in files: .npy, .npz, .mat, HDF5 and zarr, each read slice by slice.

``file::name`` chooses an array of a file that holds several. Without a name, the only array of
two or more axes is taken.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor.inputs.stack import InputError, Spool, Turned, need

__all__ = ["choose", "open_hdf5", "open_mat", "open_npy", "open_npz", "open_zarr"]

NUMBERS = "fiub"
# So many chunks may be missing from any store, and so many for each file from a larger one.
FEW_CHUNKS, MOST_MISSING = 4096, 1000
# These are about the machine; anything else that reading raises is about the file.
NOT_THE_FILE = (OSError, MemoryError)


def choose(path: Path, shapes: Mapping[str, tuple[int, ...]], name: str | None, least: int) -> str:
    """Return the name of the array to take; raise if there is none, or no telling which."""
    listing = ", ".join(f"{key} {shape}" for key, shape in list(shapes.items())[:12]) or "none"
    if name is not None:
        if name in shapes:
            return name
        raise InputError(f"{path} has no array {name}; its arrays: {listing}")
    fit = [key for key, shape in shapes.items() if len(shape) >= least]
    if len(fit) == 1:
        return fit[0]
    if not fit:
        raise InputError(f"{path} holds no array of at least {least} axes; its arrays: {listing}")
    raise InputError(
        f"{path} holds several arrays: {listing}; choose one, as in {path.name}::{fit[0]}"
    )


def open_npy(path: Path) -> Any:
    """Map a ``.npy`` file."""
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except NOT_THE_FILE:
        raise
    except Exception as error:
        raise InputError(f"{path} is no .npy file that can be used: {error}") from error


def read_npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return shape, order and type from the beginning of a ``.npy`` file."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def open_npz(path: Path, name: str | None, least: int) -> Any:
    """Map an array of a ``.npz`` file, or unpack it into a temporary file if it is compressed."""
    try:
        with zipfile.ZipFile(path) as archive:
            shapes = {}
            for info in archive.infolist():
                if info.filename.endswith(".npy"):
                    with archive.open(info) as member:
                        shapes[info.filename.removesuffix(".npy")] = read_npy_header(member)[0]
            chosen = choose(path, shapes, name, least)
            info = archive.getinfo(f"{chosen}.npy")
            with archive.open(info) as member:
                shape, fortran, dtype = read_npy_header(member)
                start = member.tell()
                if dtype.hasobject or math.prod(shape) * dtype.itemsize != info.file_size - start:
                    raise InputError(f"{path}::{chosen} cannot be used: {shape} of {dtype}")
                if info.compress_type != zipfile.ZIP_STORED:
                    return unpack(path, member, shape, fortran, dtype)
        order: Any = "F" if fortran else "C"
        offset = start_of(path, info) + start
        return np.memmap(path, dtype, "r", offset, shape, order)
    except (InputError, *NOT_THE_FILE):
        raise
    except Exception as error:
        raise InputError(f"{path} is no .npz file that can be used: {error}") from error


def start_of(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where in an archive the bytes of a stored member begin."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
    name, extra = (int.from_bytes(local[k : k + 2], "little") for k in (26, 28))
    return info.header_offset + 30 + name + extra


def unpack(path: Path, member: Any, shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> Any:
    """Return a compressed array as one in a temporary file."""
    stored = shape[::-1] if fortran else shape
    if not Spool.fits(stored, dtype):
        raise InputError(
            f"{path}: there is no room to unpack {shape} of {dtype}; save it uncompressed"
        )
    spool, place = Spool(stored, dtype), 0
    while block := member.read(1 << 20):
        spool.write_bytes(place, block)
        place += len(block)
    # Stored by columns: the samples are along the last of the stored axes.
    return np.asarray(spool[:]).T if fortran else spool


def open_hdf5(path: Path, name: str | None, least: int) -> Any:
    """Open a dataset of an HDF5 file."""
    h5py = need("h5py", "io", "an HDF5 file")
    shapes: dict[str, tuple[int, ...]] = {}

    def note(key: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            shapes[key] = item.shape

    try:
        file = h5py.File(path, "r")
        file.visititems(note)
        dataset = file[choose(path, shapes, name.strip("/") if name else None, least)]
        # Of a type that NumPy lacks, this raises.
        np.dtype(dataset.dtype)
        return dataset
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{path} is no HDF5 file that can be read: {error}") from error


def open_mat(path: Path, name: str | None, least: int, axis: int) -> Any:
    """Open a variable of a MATLAB file with its samples first; version 7.3 is HDF5 inside.

    Older versions are compressed as a whole: their variables are read at once.
    """
    if os.path.getsize(path) > 512 and need("h5py", "io", "a MATLAB file").is_hdf5(path):
        # MATLAB stores axes in the reverse order.
        return Turned(open_hdf5(path, name, least), axis, reverse=True)
    try:
        array = read_mat(path, name, least)
    except (InputError, OSError):
        raise
    except Exception as error:
        # Not enough memory as well: such a file is read at once, and may claim any size.
        raise InputError(f"{path} is no MATLAB file that can be read: {error!r}") from error
    if not -array.ndim <= axis < array.ndim:
        raise InputError(f"{path} of shape {array.shape} has no axis {axis}")
    return np.moveaxis(array, axis, 0)


def read_mat(path: Path, name: str | None, least: int) -> np.ndarray:
    """Return a variable of a MATLAB file of version 5 or 4."""
    from corrtensor.inputs.matlab import is_version_5, list_variables, read_variable

    if is_version_5(path):
        variables = {variable.name: variable for variable in list_variables(path)}
        shapes = {key: variable.shape for key, variable in variables.items()}
        return read_variable(path, variables[choose(path, shapes, name, least)])
    from scipy.io import loadmat, whosmat

    shapes = {key: shape for key, shape, kind in whosmat(path) if kind in ("double", "single")}
    chosen = choose(path, shapes, name, least)
    if math.prod(shapes[chosen]) > os.path.getsize(path):
        raise InputError(f"{path}::{chosen} claims the shape {shapes[chosen]}: it is cut short")
    array = loadmat(path, variable_names=[chosen])[chosen]
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}::{chosen} is no full array")
    return array


def open_zarr(path: Path, name: str | None, least: int) -> Any:
    """Open an array of a zarr store."""
    zarr = need("zarr", "io", "a zarr store")
    try:
        node = zarr.open(path, mode="r")
        if not isinstance(node, zarr.Group):
            if name is not None:
                raise InputError(f"{path} is one array; it has none called {name}")
            return with_chunks(node, path)
        members = dict(node.members(max_depth=None))
        shapes = {key: m.shape for key, m in members.items() if isinstance(m, zarr.Array)}
        return with_chunks(members[choose(path, shapes, name, least)], path)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} is no zarr store that can be read: {error}") from error


def with_chunks(array: Any, path: Path) -> Any:
    """Return a zarr array; raise an :class:`InputError` if nearly all of its chunks are missing.

    Each costs time even so, and a store of a few bytes can claim any number of them.
    """
    stored = getattr(array, "shards", None) or array.chunks
    claimed = math.prod(-(-a // max(1, c)) for a, c in zip(array.shape, stored, strict=True))
    if claimed > FEW_CHUNKS:
        files = sum(len(names) for _, _, names in os.walk(path))
        if claimed > MOST_MISSING * files:
            raise InputError(
                f"{path} claims the shape {array.shape} in {claimed} chunks; it has {files} files"
            )
    return array
