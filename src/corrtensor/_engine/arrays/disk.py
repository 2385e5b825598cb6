"""Arrays that lie in files: read, not mapped, and called by their names."""

import mmap
import os
from typing import Any

import numpy as np


class MappedFile:
    """A memory-mapped array that is read from its file instead.

    Pages touched through a mapping count as resident memory, and touching one beyond the end
    of a file that was cut short kills the process. A read does neither.
    """

    def __init__(self, X: np.ndarray, mapped: np.memmap) -> None:
        self.shape, self.dtype, self.name = X.shape, X.dtype, str(mapped.filename)
        start = np.frombuffer(mapped._mmap, np.uint8).__array_interface__["data"][0]  # type: ignore[attr-defined]
        before = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
        self.offset = before + X.__array_interface__["data"][0] - start

    def __getitem__(self, rows: slice) -> np.ndarray:
        x = np.empty((rows.stop - rows.start, *self.shape[1:]), self.dtype)
        each = x.nbytes // len(x)
        with open(self.name, "rb", buffering=0) as file:
            file.seek(self.offset + rows.start * each)
            view, done = x.reshape(-1).view(np.uint8), 0
            while done < x.nbytes:
                got = file.readinto(view[done:])  # type: ignore[arg-type]
                if not got:
                    raise OSError(f"the file ends after {file.tell()} bytes")
                done += got
        return x


def unmapped(X: Any) -> Any:
    """Return a mapped array as one that is read from its file; anything else as it is."""
    base = X
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    # A private mapping may differ from the file.
    if not isinstance(base, np.memmap) or base.filename is None or base.mode == "c":
        return X
    # Nor can a file that was deleted be read, though its mapping is whole.
    if not os.path.isfile(base.filename):
        return X
    return MappedFile(X, base) if X.flags.c_contiguous and X.size else X


def name_of(X: Any) -> str:
    """Return the name of the file that an array lives in, as far as it tells."""
    where = getattr(X, "store", None) or getattr(getattr(X, "file", None), "filename", None)
    name = getattr(X, "name", None) or getattr(X, "filename", None)
    return " ".join(str(part) for part in (where, name) if part) or "X"


def check_output(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return an array to write into: a new one, or the given one if it fits."""
    if out is None:
        return np.empty(shape, dtype)
    if tuple(getattr(out, "shape", ())) != shape:
        raise ValueError(
            f"out has shape {getattr(out, 'shape', None)}; what is written has shape {shape}"
        )
    if not np.can_cast(dtype, np.dtype(out.dtype), "same_kind"):
        raise ValueError(f"out holds {out.dtype}; what is written is {dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out is read-only")
    return out
