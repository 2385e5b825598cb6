"""The shape of the samples: axis 0 counts them, the other axes are their modes.

Every estimator takes samples as tensors, ``(N, a, b, ...)``, or flattened, ``(N, a*b*...)``
with ``sample_shape=(a, b, ...)``. What comes in flat goes out flat, but for cores with
``output="tensor"``.
"""

import math
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from corrtensor._base.checks import is_whole
from corrtensor._base.gaps import as_float as as_float
from corrtensor._base.gaps import with_gaps


def is_on_disk(X: Any) -> bool:
    """Tell whether ``X`` must be read slice by slice (not a NumPy array, list or table).

    Such are arrays of zarr, HDF5 and Dask, and whatever else has a shape, a type and slices.
    """
    if isinstance(X, np.ndarray | np.generic) or hasattr(X, "iloc") or hasattr(X, "tocsr"):
        return False
    return all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__"))


def resolve_shape(sample_shape: tuple[int, ...], n_features: int) -> tuple[int, ...]:
    """Check a sample shape against the number of features; one entry may be -1."""
    entries = (
        sample_shape if isinstance(sample_shape, tuple | list | np.ndarray) else (sample_shape,)
    )
    if not all(is_whole(a) for a in entries):
        raise TypeError(f"sample_shape={sample_shape!r} must be a tuple of integers")
    shape = tuple(int(a) for a in entries)
    known = math.prod(a for a in shape if a != -1)
    if shape.count(-1) == 1 and known > 0 and n_features % known == 0:
        return tuple(n_features // known if a == -1 else a for a in shape)
    if not shape or min(shape) < 1 or math.prod(shape) != n_features:
        raise ValueError(
            f"sample_shape={sample_shape!r} does not multiply up to the {n_features} features of X"
        )
    return shape


def count_axes(X: Any) -> int:
    """Return how many axes an array, a table or a nested list has."""
    return len(X.shape if hasattr(X, "shape") else np.asarray(X).shape)


def forget_names(estimator: Any) -> None:
    """Drop the names of the columns of an earlier table."""
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_nonempty(X: Any) -> None:
    """Raise a ``ValueError`` if an array has no samples, or samples without entries."""
    if 0 in np.shape(X):
        raise ValueError(f"X of shape {np.shape(X)} has an empty axis")


class MissingCells(ValueError):
    """Some cells of the samples are NaN; none is infinite."""


def refuse_columns(X: Any) -> None:
    """Raise a ``ValueError`` that names the columns of a table which are no numbers."""
    wrong = []
    for place, (name, kind) in enumerate(X.dtypes.items()):
        numeric = kind.kind in "fiubc"
        if kind.kind == "O":
            # Of any type, and numbers all the same.
            with suppress(TypeError, ValueError):
                numeric = X.iloc[:, place].to_numpy(dtype=float) is not None
        if not numeric:
            wrong.append(f"{name!r} ({kind})")
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise ValueError(
            f"X must hold real numbers; those of its columns {', '.join(wrong[:5])}{more} are none"
        )


def check_in_memory(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Return X as an array of real numbers; keep, or check, the number and names of features."""
    X = with_gaps(X)
    if hasattr(X, "iloc") and hasattr(X, "dtypes") and count_axes(X) == 2:
        check_nonempty(X)
        refuse_columns(X)
    options = {"ensure_all_finite": False, "dtype": "numeric"}
    if count_axes(X) <= 2:
        X = validate_data(estimator, X, reset=reset, **options)
    else:
        X = check_array(X, allow_nd=True, estimator=estimator, **options)
        check_nonempty(X)
        if reset:
            estimator.n_features_in_ = math.prod(X.shape[1:])
            forget_names(estimator)
    if X.dtype.kind not in "fiub":
        more = ". A missing cell is NaN, not None" if X.dtype.kind == "O" else ""
        raise ValueError(f"X must hold real numbers; its type is {X.dtype}{more}")
    return X


def numbers_of(X: Any) -> np.ndarray:
    """Return samples in memory that have been checked as an array, NaN where a cell is missing."""
    options = {"ensure_all_finite": False, "dtype": "numeric", "ensure_min_samples": 0}
    return check_array(with_gaps(X), allow_nd=True, **options)


def check_finite(X: np.ndarray, *, first: int = 0, at: np.ndarray | None = None) -> None:
    """Raise a ``ValueError`` that names the first sample with a NaN or an infinity.

    The samples are those from ``first`` on, or those with the indices ``at``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    refuse_infinite(X, first=first, at=at)
    bad = np.isnan(X.reshape(len(X), -1)).any(axis=1)
    if bad.any():
        raise MissingCells(
            f"X contains NaN: {counted(bad, first, at)}; repair of a CorrTensor that was fitted to "
            "them fills what is missing"
        )


def refuse_infinite(X: np.ndarray, *, first: int = 0, at: np.ndarray | None = None) -> None:
    """Raise a ``ValueError`` that names the first sample with an infinity; NaN is in order."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = np.isinf(X.reshape(len(X), -1)).any(axis=1)
    if bad.any():
        raise ValueError(
            f"X contains infinity: {counted(bad, first, at)}; "
            "a cell that is missing is NaN; if infinity stands for it, give it as missing_values"
        )


def refuse_large(X: np.ndarray, *, first: int) -> None:
    """Raise a ``ValueError`` that names the sample with the largest number, and this."""
    rows = np.nan_to_num(X.reshape(len(X), -1))
    place = int(np.abs(rows).argmax())
    raise ValueError(
        f"sample {first + place // rows.shape[1]} is too large to be squared beside the others: it "
        f"holds {rows.flat[place]!s}; if that stands for a missing cell, give it as "
        "missing_values; if not, scale the samples, or leave it out"
    )


def counted(bad: np.ndarray, first: int, at: np.ndarray | None) -> str:
    """Return in words how many samples of a block are bad, and which is the first."""
    worst = first + int(bad.argmax()) if at is None else at[bad.argmax()]
    together = f"{int(bad.sum())} of {len(bad)} samples looked at together"
    return f"{together}, the first is sample {worst}"
