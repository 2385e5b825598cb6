"""A stack of samples from files, and arrays that are kept in a temporary file meanwhile."""

import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._base.names import visible

Progress = Callable[[int, int], None]
# Of the free space where temporary files go, this share may be used.
SPOOL_SHARE = 0.5


class InputError(ValueError):
    """Files that cannot be used as samples; the message, one line, names the file."""

    def __init__(self, message: str) -> None:
        super().__init__(visible(message))


@contextmanager
def reading(path: Path, what: str, *machine: type[Exception]) -> Iterator[None]:
    """Raise as an :class:`InputError` whatever is raised inside, but for errors of the machine."""
    try:
        yield
    except Exception as error:
        if isinstance(error, (InputError, ImportError, *machine)):
            raise
        # What FFmpeg takes for the name of the file is a number.
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"{path} is no {what}: {why}") from error


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Stack:
    """Samples along axis 0, read when they are asked for, with a name and a label for each, if any.

    ``skipped`` are the files that were left out; ``note`` says what was done to the others, if
    whoever gave them should know.
    """

    array: Any
    names: tuple[str, ...] | None = None
    labels: np.ndarray | None = None
    skipped: tuple[Skipped, ...] = ()
    note: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of samples, then the shape of one."""
        return tuple(int(a) for a in self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return np.dtype(self.array.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.asarray(self.array[key])


class Spool:
    """An array in a temporary file, for samples that are costly to decode twice.

    Samples are added at the end, and read from several threads; the file has no name and is gone
    with the object.
    """

    def __init__(self, sample_shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = (0, *sample_shape), np.dtype(dtype)
        self.row_bytes = math.prod(sample_shape) * self.dtype.itemsize
        # Without a buffer: on a full disk, nothing is left to be written when it is closed.
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it lives as long as this)
        weakref.finalize(self, self._file.close)

    @staticmethod
    def fits(shape: tuple[int, ...], dtype: np.dtype) -> bool:
        """Tell whether there is room for such an array."""
        free = shutil.disk_usage(tempfile.gettempdir()).free
        return math.prod(shape) * np.dtype(dtype).itemsize <= SPOOL_SHARE * free

    def add(self, samples: np.ndarray) -> None:
        """Store more samples."""
        content = np.ascontiguousarray(samples, self.dtype).tobytes()
        while content:
            content = content[self._file.write(content) :]
        self.shape = (self.shape[0] + len(samples), *self.shape[1:])

    def __getitem__(self, rows: slice) -> np.ndarray:
        lo, hi, _ = rows.indices(self.shape[0])
        count, parts, place = max(0, hi - lo) * self.row_bytes, [], lo * self.row_bytes
        while count:
            part = os.pread(self._file.fileno(), min(count, 1 << 26), place)
            if not part:
                raise OSError("a temporary file has lost its end")
            parts.append(part)
            count, place = count - len(part), place + len(part)
        values = np.frombuffer(b"".join(parts), self.dtype)
        return values.reshape(max(0, hi - lo), *self.shape[1:])


def turned(array: Any, axis: int, path: Path, *, reverse: bool = False) -> Any:
    """Return an array with its samples along axis 0; ``reverse`` as in :class:`Turned`."""
    n = len(array.shape)
    if not -n <= axis < n:
        shape = tuple(array.shape[::-1] if reverse else array.shape)
        raise InputError(f"{path} of shape {shape} has no axis {axis}")
    if type(array) is np.ndarray:
        return np.moveaxis(array, axis, 0)
    return array if axis % n == 0 and not reverse else Turned(array, axis, reverse)


class Turned:
    """An array seen with its samples along axis 0, wherever they are stored.

    With ``reverse`` the axes are stored in the reverse order, as MATLAB does in HDF5.
    """

    def __init__(self, array: Any, axis: int, reverse: bool) -> None:
        stored = tuple(int(a) for a in array.shape)
        self.array, self.dtype = array, np.dtype(array.dtype)
        self.reverse = reverse
        shape = stored[::-1] if reverse else stored
        self.axis = axis % len(shape)
        self.shape = (shape[self.axis], *(a for n, a in enumerate(shape) if n != self.axis))

    def __getitem__(self, rows: slice) -> np.ndarray:
        n = len(self.shape)
        stored_axis = n - 1 - self.axis if self.reverse else self.axis
        key = tuple(rows if k == stored_axis else slice(None) for k in range(n))
        block = np.asarray(self.array[key])
        return np.moveaxis(block.T if self.reverse else block, self.axis, 0)


class Flat:
    """An array on disk seen with its samples as vectors."""

    def __init__(self, array: Any) -> None:
        self.array, self.dtype = array, np.dtype(array.dtype)
        self.shape = (int(array.shape[0]), math.prod(int(a) for a in array.shape[1:]))

    def __getitem__(self, rows: slice) -> np.ndarray:
        block = np.asarray(self.array[rows])
        return block.reshape(len(block), self.shape[1])
