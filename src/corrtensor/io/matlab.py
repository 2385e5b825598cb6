"""Full numeric arrays of MATLAB files of version 5, the one before HDF5.

Other readers trust what the file says about itself, and a damaged file can end the process.
"""

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.files import open_regular

HEADER = 128
MATRIX, COMPRESSED = 14, 15
# Types of stored numbers and classes of arrays, by their codes in the file.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"}
STORED |= {13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8"}
CLASSES |= {15: "u8"}
COMPLEX = 0x0800
# Bytes that anything packed may claim, and how often its own size if it claims more.
BELIEVED, MOST_COMPRESSED = 1 << 26, 200
# The flags, shape and name of a variable fit into so many bytes.
PREAMBLE = 1 << 12


@dataclass(frozen=True)
class Variable:
    """An array in a file: where it is, and what the file says about it."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    place: int
    length: int
    packed: bool


class Content:
    """The bytes of one variable, in the order in which they are stored."""

    def __init__(self, file: BinaryIO, place: int, length: int, packed: bool, order: str) -> None:
        self.file, self.left, self.order = file, length, order
        self.unpack = zlib.decompressobj() if packed else None
        self.waiting = self.back = b""
        file.seek(place)

    def read(self, count: int) -> bytes:
        """Return exactly so many bytes."""
        parts, missing = [], count
        while missing:
            part = self._some(missing)
            if not part:
                raise ValueError("it ends too early")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _some(self, count: int) -> bytes:
        if self.back:
            part, self.back = self.back[:count], self.back[count:]
            return part
        if self.unpack is None:
            part = self.file.read(min(count, self.left, 1 << 24))
            self.left -= len(part)
            return part
        while True:
            if not self.waiting:
                self.waiting = self.file.read(min(self.left, 1 << 16))
                self.left -= len(self.waiting)
            ended = not self.waiting
            part = self.unpack.decompress(self.waiting, count)
            self.waiting = self.unpack.unconsumed_tail
            if part or ended or self.unpack.eof:
                return part

    def finish(self) -> None:
        """Read to the end of what is compressed: only there its checksum is looked at."""
        while self.unpack is not None and not self.unpack.eof:
            if not self._some(1 << 16) and not self.unpack.eof:
                raise ValueError("it ends too early")

    def numbers(self, kind: str, count: int) -> np.ndarray:
        """Return so many numbers."""
        dtype = np.dtype(self.order + kind)
        return np.frombuffer(self.read(count * dtype.itemsize), dtype)

    def element(self) -> tuple[int, int, int]:
        """Return type and length of what comes next, and how many bytes fill it up."""
        code, length = (int(value) for value in self.numbers("u4", 2))
        if code >> 16:
            # Few bytes, in the place of the length.
            self.back = length.to_bytes(4, "little" if self.order == "<" else "big")
            code, length = code & 0xFFFF, code >> 16
            return code, length, 4 - length
        return code, length, -length % 8

    def small(self, codes: tuple[int, ...]) -> np.ndarray:
        """Return the numbers of a short element of one of these types."""
        code, length, fill = self.element()
        if code not in codes or length > PREAMBLE or fill < 0:
            raise ValueError(f"an element of type {code} and {length} bytes is out of place")
        kind = STORED[code]
        values = self.numbers(kind, length // np.dtype(kind).itemsize)
        self.read(length % np.dtype(kind).itemsize + fill)
        return values


def is_version_5(path: Path) -> bool:
    """Tell whether a file has the header of version 5."""
    with open_regular(path) as file:
        head = file.read(HEADER)
    return len(head) == HEADER and head[124:] in (b"\x00\x01IM", b"\x01\x00MI")


def list_variables(path: Path) -> list[Variable]:
    """Return the full numeric arrays of a file, real ones only, in the order of the file.

    Text, cells, structures and sparse matrices are left out.
    """
    with open_regular(path) as file:
        return [variable for variable in variables_of(file) if variable is not None]


def variables_of(file: BinaryIO) -> Iterator[Variable | None]:
    """Yield what is known of every variable; ``None`` for those of other kinds."""
    size = file.seek(0, 2)
    file.seek(HEADER - 2)
    order, place = "<" if file.read(2) == b"IM" else ">", HEADER
    while place < size:
        tag = Content(file, place, 8, False, order)
        code, length = (int(value) for value in tag.numbers("u4", 2))
        place += 8
        if length > size - place or code not in (MATRIX, COMPRESSED):
            raise ValueError(f"byte {place} begins no variable, or one that is cut short")
        yield preamble(Content(file, place, length, code == COMPRESSED, order), place, length)[0]
        place += length


def preamble(content: Content, place: int, length: int) -> tuple[Variable | None, Content]:
    """Read what stands before the numbers of a variable."""
    packed = content.unpack is not None
    if packed and content.element()[0] != MATRIX:
        raise ValueError("a compressed element is no array")
    flags = int(content.small((6,))[0])
    kind = CLASSES.get(flags & 0xFF)
    if kind is None or flags & COMPLEX:
        return None, content
    shape = tuple(int(a) for a in content.small((5,)))
    name = content.small((1, 2)).tobytes().decode("latin-1")
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"an array of shape {shape}")
    return Variable(name, shape, np.dtype(kind), place, length, packed), content


def read_variable(path: Path, variable: Variable) -> Any:
    """Return the array of a variable in the type that MATLAB knows it by."""
    with open_regular(path) as file:
        file.seek(HEADER - 2)
        order = "<" if file.read(2) == b"IM" else ">"
        content = Content(file, variable.place, variable.length, variable.packed, order)
        preamble(content, variable.place, variable.length)
        code, length, _ = content.element()
        count = math.prod(variable.shape)
        if code not in STORED or length != count * np.dtype(STORED[code]).itemsize:
            raise ValueError(f"{variable.shape} numbers of type {code} in {length} bytes")
        if variable.packed and length > max(BELIEVED, MOST_COMPRESSED * variable.length):
            raise ValueError(f"{length} bytes are said to be packed into {variable.length}")
        stored = content.numbers(STORED[code], count)
        content.finish()
    return stored.astype(variable.dtype, copy=False).reshape(variable.shape, order="F")
