"""Cells without a value: NaN, the mask of an array, or a value that stands for nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor._base.checks import is_number


def as_float(dtype: np.dtype) -> np.dtype:
    """Return the type to work in: single precision stays single, all else becomes double."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize <= 4 else np.float64)


def check_missing_values(value: Any, dtype: np.dtype) -> None:
    """Raise an error if a value cannot stand for missing cells, in an array of some type."""
    if not is_number(value):
        raise TypeError(f"missing_values={value!r} must be a number, NaN by default")
    if dtype.kind == "f" or np.isnan(value):
        return
    span = np.iinfo(dtype) if dtype.kind in "iu" else None
    if span is None or not span.min <= value <= span.max or value != int(value):
        raise ValueError(
            f"missing_values={value!r} cannot occur in X, which holds {dtype}: give the value that "
            "stands for what is missing, or X in floating point"
        )


def with_gaps(X: Any, missing_values: float = np.nan) -> Any:
    """Return an array with NaN in the place of masked entries, and of those of a value.

    Anything else comes back as it is.
    """
    if isinstance(X, list | tuple) and any(map(np.ma.isMaskedArray, X)):
        X = np.ma.stack(X)
    if np.ma.isMaskedArray(X):
        torn = X.mask is not np.ma.nomask and X.mask.any()
        X = np.ma.filled(X.astype(as_float(X.dtype)), np.nan) if torn else X.data
    if np.isnan(missing_values) or not isinstance(X, np.ndarray):
        return X
    # A Python number is compared in the array's own precision.
    value = np.asarray(missing_values).item()
    gaps = value == X
    X = X.astype(as_float(X.dtype))
    X[gaps] = np.nan
    return X


@dataclass(frozen=True, eq=False)
class OnDisk:
    """An array on disk that is read as floating-point numbers."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """As of the array."""
        return tuple(int(a) for a in self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """Of what is read."""
        return as_float(np.dtype(self.array.dtype))

    @property
    def chunks(self) -> Any:
        """How it is stored."""
        return getattr(self.array, "chunks", None)

    @property
    def name(self) -> Any:
        """Where it is, if it tells."""
        return getattr(self.array, "name", None)


@dataclass(frozen=True, eq=False)
class Gapped(OnDisk):
    """An array in which a value stands for what is missing: NaN when it is read."""

    missing_values: float

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(with_gaps(np.asanyarray(self.array[rows]), self.missing_values))


@dataclass(frozen=True, eq=False)
class Scaled(OnDisk):
    """An array of numbers to be multiplied and added to when they are read."""

    factor: float
    offset: float

    def __getitem__(self, rows: Any) -> np.ndarray:
        x = with_gaps(np.asanyarray(self.array[rows]))
        return np.asarray(x.astype(self.dtype) * self.factor + self.offset)
