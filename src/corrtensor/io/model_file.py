"""Model files.

A model file is a zip archive of ``model.json`` and one ``.npy`` for each array, uncompressed;
its last bytes are a checksum of all the others. ``docs/model-files.md`` has the format.
"""

import errno
import hashlib
import io
import json
import math
import os
import zipfile
from importlib.metadata import version
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.files import open_regular, replacing
from corrtensor._base.names import visible
from corrtensor.io.arrays import read_npy_header
from corrtensor.io.encoding import ARRAY_KINDS, decode, encode

FORMAT, VERSION = "corrtensor model", 1
HEADER = "model.json"
COMMENT = b"sha256:"
DIGITS = 64


def blame(error: Exception) -> None:
    """Raise again what is about the machine; anything else that reading raises is the file's."""
    # A place that lies makes the archive seek to before the beginning.
    about_the_file = isinstance(error, OSError) and error.errno == errno.EINVAL
    if isinstance(error, OSError | MemoryError) and not about_the_file:
        raise error


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or is of a version that is not known here.

    It is a ``ValueError``.

    Parameters
    ----------
    message : str
        Names the file and what is wrong with it; it becomes one line.

    See Also
    --------
    load : Raises it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import corrtensor as ct
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.ct"
    ...     _ = path.write_bytes(b"no model")
    ...     try:
    ...         ct.load(path)
    ...     except ct.ModelFileError:
    ...         print("refused")
    refused
    """

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


def write(value: Any, path: str | os.PathLike[str], kind: str) -> None:
    """Write what :mod:`corrtensor.io.encoding` can hold to a file of some format."""
    tree, arrays = encode(value)
    header = {"format": kind, "version": VERSION, "corrtensor": version("corrtensor")}
    text = json.dumps({**header, "arrays": len(arrays), "model": tree}, allow_nan=False)
    with replacing(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            # One date for all: the same model gives the same bytes.
            archive.writestr(zipfile.ZipInfo(HEADER), text)
            for k, array in enumerate(arrays):
                with archive.open(zipfile.ZipInfo(f"{k}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            archive.comment = COMMENT + b"0" * DIGITS
        digest = checksum(file)
        file.seek(-DIGITS, os.SEEK_END)
        file.write(digest)


def checksum(file: BinaryIO) -> bytes:
    """Return the SHA-256, in hexadecimal, of all but the digits at the end."""
    left = file.seek(0, os.SEEK_END) - DIGITS
    file.seek(0)
    sha = hashlib.sha256()
    while left > 0:
        block = file.read(min(left, 1 << 20))
        if not block:
            break
        sha.update(block)
        left -= len(block)
    return sha.hexdigest().encode()


def read(path: str | os.PathLike[str], kind: str) -> Any:
    """Return what :func:`write` has put into a file of this format."""
    with open_regular(path) as file:
        check_whole(file, path, kind)
        with zipfile.ZipFile(file) as archive:
            header = read_header(archive, path, kind)
            try:
                arrays = [read_array(archive, k) for k in range(header["arrays"])]
                return decode(header["model"], arrays)
            except Exception as error:
                blame(error)
                raise ModelFileError(f"{path} holds no {kind}: {error}") from error


def is_model_file(path: Any) -> bool:
    """Tell by its last bytes whether a file is a model file."""
    with open_regular(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - DIGITS - len(COMMENT)))
        return file.read(len(COMMENT)) == COMMENT


def check_whole(file: BinaryIO, path: Any, kind: str) -> None:
    """Raise a :class:`ModelFileError` unless the checksum agrees."""
    if file.read(4) != b"PK\x03\x04":
        raise ModelFileError(f"{path} is no {kind} file")
    size = file.seek(0, os.SEEK_END)
    digest = checksum(file)
    file.seek(max(0, size - DIGITS - len(COMMENT)))
    end = file.read()
    if end != COMMENT + digest:
        raise ModelFileError(
            f"{path} is no {kind} file, or it was cut short or altered: its checksum does not agree"
        )
    try:
        infos = zipfile.ZipFile(file).infolist()
    except Exception as error:
        blame(error)
        raise ModelFileError(f"{path} is no {kind} file: {error}") from error
    plain = all(i.compress_type == zipfile.ZIP_STORED and not i.flag_bits & 1 for i in infos)
    if not plain or sum(info.file_size for info in infos) > size:
        raise ModelFileError(f"{path} claims to hold more than its {size} bytes")


def read_header(archive: zipfile.ZipFile, path: Any, kind: str) -> dict[str, Any]:
    """Return the JSON of a file whose format and version are known."""
    try:
        header = json.loads(archive.read(HEADER))
        named = header["format"], header["version"]
    except Exception as error:
        blame(error)
        raise ModelFileError(f"{path} is no {kind} file: {error}") from error
    if named[0] != kind:
        raise ModelFileError(f"{path} is no {kind} file: its format is {named[0]!r}")
    if named[1] != VERSION:
        raise ModelFileError(
            f"{path} is a {kind} file of version {named[1]!r}, written by corrtensor "
            f"{header.get('corrtensor')!r}; this corrtensor reads version {VERSION}"
        )
    return dict(header)


def read_array(archive: zipfile.ZipFile, k: int) -> np.ndarray:
    """Return one array, after a look at whether its size is that of its bytes."""
    data = archive.read(f"{k}.npy")
    shape, fortran, dtype, start = read_npy_header(io.BytesIO(data))
    size, known = len(data) - start, dtype.kind in ARRAY_KINDS and dtype.itemsize > 0
    if not known or math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"array {k} is said to be {shape} of {dtype}, in {size} bytes")
    flat = np.frombuffer(data, dtype, offset=start)
    return flat.reshape(shape, order="F" if fortran else "C").copy(order="K")
