"""Arrays in files: .npy, .npz, .mat, HDF5 and zarr, read slice by slice where the file allows it.

What is compressed in ``.npz`` is unpacked first; of ``.mat`` in version 5 an array is read at once.
``file::name`` chooses an array of a file that holds several. Without a name, the only array of
two or more axes is taken.
"""

import base64
import io
import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.extras import need
from corrtensor._base.files import check_regular, is_inside, open_regular
from corrtensor._base.gaps import Gapped, Scaled
from corrtensor.io.stack import InputError, Spool, reading, turned

NUMBERS = "fiub"
# One of these files is in every zarr store.
ZARR_MARKS = ("zarr.json", ".zarray", ".zgroup")
# No array needs a longer description.
LONGEST_HEADER = 1 << 14
# Groups in groups in an HDF5 file.
DEEPEST = 64
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
    with reading(path, ".npy file that can be used", *NOT_THE_FILE):
        with open_regular(path) as file:
            shape, fortran, dtype, start = read_npy_header(file)
        return mapped(path, start, shape, fortran, dtype)


def read_npy_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Return shape, order and type from the beginning of a ``.npy`` file, and its length.

    A header may say that it is 4 GB long, and would be read before it is doubted.
    """
    head = io.BytesIO(file.read(LONGEST_HEADER))
    if np.lib.format.read_magic(head) == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(head)
    else:
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(head)
    return shape, fortran, dtype, head.tell()


def mapped(
    path: Path, start: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype
) -> np.ndarray:
    """Map an array that lies in a file."""
    if dtype.hasobject or min(shape, default=1) < 0:
        raise InputError(f"{path} cannot be used: {shape} of {dtype}")
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def open_npz(path: Path, name: str | None, least: int) -> Any:
    """Map an array of a ``.npz`` file, or unpack it into a temporary file if it is compressed."""
    with reading(path, ".npz file that can be used", *NOT_THE_FILE):
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            shapes = {}
            for info in archive.infolist():
                # A member is called after its array; what has folders in its name is none.
                if info.filename.endswith(".npy") and not set(info.filename) & set("/\\"):
                    with archive.open(info) as member:
                        shapes[info.filename.removesuffix(".npy")] = read_npy_header(member)[0]
            chosen = choose(path, shapes, name, least)
            info = archive.getinfo(f"{chosen}.npy")
            with archive.open(info) as member:
                shape, fortran, dtype, start = read_npy_header(member)
                if dtype.hasobject or math.prod(shape) * dtype.itemsize != info.file_size - start:
                    raise InputError(f"{path}::{chosen} cannot be used: {shape} of {dtype}")
                if info.compress_type != zipfile.ZIP_STORED:
                    member.seek(start)
                    return unpack(path, member, shape, fortran, dtype)
            offset = start_of(file, info) + start
        return mapped(path, offset, shape, fortran, dtype)


def start_of(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """Return where in an archive the bytes of a stored member begin."""
    file.seek(info.header_offset)
    local = file.read(30)
    name, extra = (int.from_bytes(local[k : k + 2], "little") for k in (26, 28))
    return info.header_offset + 30 + name + extra


def unpack(path: Path, member: Any, shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> Any:
    """Return a compressed array as one in a temporary file; in memory, if in Fortran order."""
    stored = shape[::-1] if fortran else shape
    if not Spool.fits(stored, dtype):
        raise InputError(
            f"{path}: there is no room to unpack {shape} of {dtype}; save it uncompressed"
        )
    spool = Spool(stored[1:], dtype)
    rows = max(1, (1 << 20) // max(1, spool.row_bytes))
    for lo in range(0, stored[0] if spool.row_bytes else 0, rows):
        block = member.read(min(rows, stored[0] - lo) * spool.row_bytes)
        spool.add(np.frombuffer(block, dtype).reshape(-1, *stored[1:]))
    # Stored by columns: the samples are along the last of the stored axes.
    return np.asarray(spool[:]).T if fortran else spool


def open_hdf5(path: Path, name: str | None, least: int) -> Any:
    """Open a dataset of an HDF5 file whose numbers are in the file, or in others beside it."""
    h5py = need("h5py", "io", "an HDF5 file")
    with open_regular(path) as plain:
        if plain.read(3) == b"CDF":
            raise InputError(
                f"{path} is netCDF of version 3, which is not read: save it as version 4, "
                "which is HDF5, as nccopy -k nc4 does"
            )
    with reading(path, "HDF5 file that can be read", MemoryError):
        file = h5py.File(path, "r")
        shapes = {key: item.shape for key, item in datasets_of(h5py, file, path)}
        dataset = file[choose(path, shapes, name.strip("/") if name else None, least)]
        refuse_elsewhere(h5py, dataset, path)
        # Of a type that NumPy lacks, this raises.
        np.dtype(dataset.dtype)
        return as_meant(dataset, dataset.attrs)


def as_meant(array: Any, attributes: Mapping[str, Any]) -> Any:
    """Return an array that reads as its file says it is meant, in the words of netCDF and xarray.

    ``_FillValue`` or ``missing_value`` is NaN; all else is multiplied by ``scale_factor``, and
    ``add_offset`` is added. What zarr itself calls the fill value of an array is zero as a rule;
    xarray means it only in version 2.
    """
    values = [attributes.get(name) for name in ("_FillValue", "missing_value")]
    version = getattr(getattr(array, "metadata", None), "zarr_format", None)
    if version == 2 and "_ARRAY_DIMENSIONS" in attributes:
        values.append(array.fill_value)
    for value in values:
        if version == 3 and isinstance(value, str):
            # xarray's way to put a floating-point number into JSON.
            with suppress(ValueError, struct.error):
                value = struct.unpack("<d", base64.b64decode(value))[0]
        known = np.ravel(np.asarray([] if value is None else value))
        for one in known if known.dtype.kind in "fiu" else ():
            if not np.isnan(one):
                array = Gapped(array, one.item())
    factor = one_number(attributes, "scale_factor", 1.0)
    offset = one_number(attributes, "add_offset", 0.0)
    return array if (factor, offset) == (1.0, 0.0) else Scaled(array, factor, offset)


def one_number(attributes: Mapping[str, Any], name: str, otherwise: float) -> float:
    """Return an attribute that is one finite number, or else another one."""
    found = np.ravel(np.asarray(attributes.get(name, otherwise)))
    if found.size != 1 or found.dtype.kind not in "fiu" or not np.isfinite(found[0]):
        return otherwise
    return float(found[0])


def datasets_of(h5py: Any, file: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a file by their names, each once; links to elsewhere are left out.

    HDF5's own walk ends the process where groups lie too deep in each other.
    """
    waiting, seen = [("", 0, file)], set()
    while waiting:
        place, depth, item = waiting.pop()
        told = h5py.h5o.get_info(item.id)
        if (told.fileno, told.addr) in seen:
            continue
        seen.add((told.fileno, told.addr))
        if isinstance(item, h5py.Dataset):
            if item.shape is not None:
                yield place, item
        elif isinstance(item, h5py.Group):
            if depth > DEEPEST:
                raise InputError(f"{path}: its groups lie more than {DEEPEST} deep in each other")
            for key in sorted(item, reverse=True):
                if isinstance(item.get(key, getlink=True), h5py.HardLink):
                    waiting.append((f"{place}/{key}".lstrip("/"), depth + 1, item[key]))


def refuse_elsewhere(h5py: Any, dataset: Any, path: Path) -> None:
    """Raise an :class:`InputError` if numbers would come from a file that nobody gave us.

    A virtual dataset may be made of plain ones, in its own file or in files of its folder.
    """
    if dataset.external:
        raise InputError(f"{path}::{dataset.name} lies in another file, which is not read")
    for source in dataset.virtual_sources() if dataset.is_virtual else ():
        other = path if source.file_name == "." else path.parent / source.file_name
        # A percent sign stands for many files.
        if "%" in source.file_name or not is_inside(other, path.parent) or not other.is_file():
            raise InputError(
                f"{path}::{dataset.name} is made of {source.file_name}, which is no file in the "
                "folder of the first and is not read"
            )
        with h5py.File(other, "r") as file:
            found = file.get(source.dset_name) if is_at_home(h5py, file, source.dset_name) else None
            if not isinstance(found, h5py.Dataset) or found.is_virtual or found.external:
                raise InputError(f"{path}::{dataset.name} is made of what is no plain dataset")


def is_at_home(h5py: Any, file: Any, name: str) -> bool:
    """Tell whether a name in a file, as far as it is there, leads through no link to elsewhere."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    links = (file.get("/".join(parts[: k + 1]), getlink=True) for k in range(len(parts)))
    return all(link is None or isinstance(link, h5py.HardLink) for link in links)


def open_mat(path: Path, name: str | None, least: int, axis: int) -> Any:
    """Open a variable of a MATLAB file with its samples first; version 7.3 is HDF5 inside.

    Version 5 is compressed as a whole: its variables are read at once.
    """
    from corrtensor.io.matlab import list_variables, read_variable

    check_regular(path)
    if os.path.getsize(path) > 512 and need("h5py", "io", "a MATLAB file").is_hdf5(path):
        # MATLAB stores axes in the reverse order.
        return turned(open_hdf5(path, name, least), axis, path, reverse=True)
    # Not enough memory is the file's fault: it is read at once, and may claim any size.
    with reading(path, "MATLAB file that can be read", OSError):
        variables = {variable.name: variable for variable in list_variables(path)}
        shapes = {key: variable.shape for key, variable in variables.items()}
        array = read_variable(path, variables[choose(path, shapes, name, least)])
    return turned(array, axis, path)


def open_zarr(path: Path, name: str | None, least: int) -> Any:
    """Open an array of a zarr store, which is a local folder."""
    zarr = need("zarr", "io", "a zarr store")
    from corrtensor.io.zarr_store import Folder, check_codecs

    with reading(path, "zarr store that can be read"):
        array = zarr.open(Folder(path, read_only=True), mode="r")
        if isinstance(array, zarr.Group):
            members = dict(array.members(max_depth=None))
            shapes = {key: m.shape for key, m in members.items() if isinstance(m, zarr.Array)}
            array = members[choose(path, shapes, name, least)]
        elif name is not None:
            raise InputError(f"{path} is one array; it has none called {name}")
        check_codecs(array, path)
        return as_meant(with_chunks(array, path), array.attrs)


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
