"""Full numeric arrays of MATLAB files of version 5, the one before HDF5.

Other readers trust what the file says about itself, and a damaged file can end the process.
"""

import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from corrtensor._base.files import open_regular

HEADER = 128
# Of its numbers, by how the header ends.
ORDERS = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}
MATRIX, COMPRESSED = 14, 15
# Types of stored numbers and classes of arrays, by their codes in the file.
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8"}
STORED |= {13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8"}
CLASSES |= {15: "u8"}
COMPLEX = 0x0800
# Bytes that anything packed may claim, and how often its own size if it claims more.
BELIEVED, MOST_COMPRESSED = 1 << 26, 200
# What stands before the numbers of a variable fits into so many bytes, packed into no more.
PREAMBLE = 1 << 14


@dataclass(frozen=True)
class Variable:
    """An array in a file: where its bytes are, and where among these its numbers."""

    place: int
    length: int
    packed: bool
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    start: int
    stored: np.dtype

    @property
    def size(self) -> int:
        """Bytes of its numbers."""
        return math.prod(self.shape) * self.stored.itemsize


class Elements:
    """The first bytes of a variable, element by element."""

    def __init__(self, content: bytes, order: str) -> None:
        self.content, self.order, self.place = content, order, 0

    def tag(self) -> tuple[int, int, int]:
        """Return type, length and place of what comes next."""
        if len(self.content) < self.place + 8:
            raise ValueError("it ends too early")
        code, length = np.frombuffer(self.content, f"{self.order}u4", 2, self.place).tolist()
        self.place += 8
        if code >> 16:
            # Few bytes, in the place of the length.
            return code & 0xFFFF, code >> 16, self.place - 4
        return code, length, self.place

    def numbers(self, *codes: int) -> np.ndarray:
        """Return the numbers of an element of one of these types, and go on behind it."""
        code, length, place = self.tag()
        if code not in codes or place + length > len(self.content):
            raise ValueError(f"an element of type {code} and {length} bytes is out of place")
        if place == self.place:
            self.place += length + -length % 8
        return np.frombuffer(self.content[place : place + length], self.order + STORED[code])


def list_variables(path: Path) -> list[Variable]:
    """Return the full numeric arrays of a file, real ones only, in the order of the file.

    Text, cells, structures and sparse matrices are left out.
    """
    found = []
    with open_regular(path) as file:
        order = ORDERS.get(file.read(HEADER)[124:])
        if order is None:
            raise ValueError("it has not the header of version 5")
        size, place = os.fstat(file.fileno()).st_size, HEADER
        while place < size:
            file.seek(place)
            code, length, _ = Elements(file.read(8), order).tag()
            place += 8
            if length > size - place or code not in (MATRIX, COMPRESSED):
                raise ValueError(f"byte {place} begins no variable, or one that is cut short")
            found.append(variable_at(file, place, length, code == COMPRESSED, order))
            place += length
    return [variable for variable in found if variable is not None]


def variable_at(
    file: BinaryIO, place: int, length: int, packed: bool, order: str
) -> Variable | None:
    """Return what is said of a variable before its numbers; ``None`` for those of other kinds."""
    content = file.read(min(length, PREAMBLE))
    elements = Elements(
        zlib.decompressobj().decompress(content, PREAMBLE) if packed else content, order
    )
    if packed and elements.tag()[0] != MATRIX:
        raise ValueError("a compressed element is no array")
    flags = int(elements.numbers(6)[0])
    kind = CLASSES.get(flags & 0xFF)
    if kind is None or flags & COMPLEX:
        return None
    shape = tuple(elements.numbers(5).tolist())
    name = elements.numbers(1, 2).tobytes().decode("latin-1")
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"an array of shape {shape}")
    code, size, start = elements.tag()
    if code not in STORED:
        raise ValueError(f"{name} is stored as numbers of type {code}")
    stored = np.dtype(order + STORED[code])
    variable = Variable(place, length, packed, name, shape, np.dtype(kind), start, stored)
    if size != variable.size:
        raise ValueError(f"{name} of shape {shape} is said to lie in {size} bytes")
    return variable


def read_variable(path: Path, variable: Variable) -> np.ndarray:
    """Return the array of a variable in the type that MATLAB knows it by."""
    size, length = variable.size, variable.length
    if variable.packed and size > max(BELIEVED, MOST_COMPRESSED * length):
        raise ValueError(f"{size} bytes are said to be packed into {length}")
    with open_regular(path) as file:
        file.seek(variable.place)
        content = file.read(length)
    if variable.packed:
        # With room for what fills it up; the checksum is looked at when all is read.
        unpack = zlib.decompressobj()
        content = unpack.decompress(content, variable.start + size + 8)
        if not unpack.eof:
            raise ValueError("it ends too early, or is longer than it says")
    numbers = np.frombuffer(content, variable.stored, math.prod(variable.shape), variable.start)
    return numbers.astype(variable.dtype, copy=False).reshape(variable.shape, order="F")
