"""The shape of the samples: axis 0 counts them, the other axes are their modes.

Every estimator takes samples as tensors, ``(N, a, b, ...)``, or flattened, ``(N, a*b*...)``
with ``sample_shape=(a, b, ...)``. What comes in flat goes out flat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Protocol, runtime_checkable

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from corrtensor.checks import is_whole
from corrtensor.chunked import is_dask, merged, unwrapped

__all__ = ["Sliceable", "TensorTransformer", "as_float", "unchanged_on_error"]


@runtime_checkable
class Sliceable(Protocol):
    """An array that may live on disk: zarr, h5py, memmap, Dask, or anything like them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, samples along axis 0."""
        ...

    @property
    def dtype(self) -> np.dtype:
        """Its type."""
        ...

    def __getitem__(self, key: Any) -> Any: ...


def as_float(dtype: np.dtype) -> np.dtype:
    """Return the type to work in: single precision stays single, all else becomes double."""
    return np.dtype(np.float32 if dtype in (np.float16, np.float32) else np.float64)


def is_on_disk(X: Any) -> bool:
    """Tell whether ``X`` must be read slice by slice (not a NumPy array, list or table)."""
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "iloc") or hasattr(X, "tocsr"):
        return False
    return isinstance(X, Sliceable) and not np.isscalar(X)


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


@contextmanager
def unchanged_on_error(estimator: Any) -> Iterator[None]:
    """Give an estimator back all its attributes if a fit fails or is interrupted."""
    state = vars(estimator)
    before = dict(state)
    try:
        yield
    except BaseException:
        state.clear()
        state.update(before)
        raise


def count_axes(X: Any) -> int:
    """Return how many axes an array, a table or a nested list has."""
    return len(X.shape if hasattr(X, "shape") else np.asarray(X).shape)


def forget_names(estimator: Any) -> None:
    """Drop the names of the columns of an earlier table."""
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def check_nonempty(X: Any) -> None:
    """Raise a ``ValueError`` if an array has no samples, or samples without entries."""
    if 0 in X.shape:
        raise ValueError(f"X of shape {tuple(X.shape)} has an empty axis")


class MissingCells(ValueError):
    """Some cells of the samples are NaN; none is infinite."""


def with_gaps(X: Any) -> Any:
    """Return an array with NaN in the place of masked entries; anything else as it is."""
    if not np.ma.isMaskedArray(X):
        return X
    if X.mask is np.ma.nomask or not X.mask.any():
        return X.data
    return X.astype(as_float(X.dtype)).filled(np.nan)


def refuse_masked(X: Any) -> None:
    """Raise a ``ValueError`` if entries of an array are masked: they would count all the same."""
    parts = X if isinstance(X, list | tuple) else (X,)
    masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if np.ma.isMaskedArray(part))
    if masked:
        raise ValueError(
            f"{masked} entries of X are masked, and samples with missing entries cannot be used: "
            "leave those samples out, or fill them, as in X.filled(0)"
        )


def check_in_memory(estimator: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Return X as an array of real numbers; keep, or check, the number and names of features."""
    if estimator.__sklearn_tags__().input_tags.allow_nan:
        X = with_gaps(X)
    refuse_masked(X)
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
        raise ValueError(f"X must hold real numbers; its type is {X.dtype}")
    return X


class TensorTransformer(  # type: ignore[call-arg]
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None
):
    """What the estimators share: checks of X, flat or not, and names of what comes out.

    A subclass stores ``sample_shape`` (or ``None``) in its constructor, calls ``_check(X,
    reset=True)`` in ``fit``, and sets ``core_shape_``, the shape of one transformed sample.

    ``set_output`` concerns flat samples: a table has two axes, so tensors stay arrays.
    """

    sample_shape: tuple[int, ...] | None
    sample_shape_: tuple[int, ...]
    core_shape_: tuple[int, ...]
    fit: Any
    transform: Any

    def __init_subclass__(cls, **options: Any) -> None:
        plain = vars(cls).get("transform")
        super().__init_subclass__(**options)
        if plain is None:
            return
        tabular = vars(cls)["transform"]

        @wraps(plain)
        def transform(self: Any, X: Any, *args: Any, **params: Any) -> Any:
            method = tabular if count_axes(X) <= 2 else plain
            return method(self, X, *args, **params)

        cls.transform = transform

    def fit_transform(self, X: Any, y: object = None, **fit_params: Any) -> Any:
        """Fit, then transform the same samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.
        y : object, default=None
            Ignored.
        **fit_params : dict
            Further arguments of ``fit``.

        Returns
        -------
        X_new : ndarray, or a table if one was asked for and the samples are flat
            Transformed samples.
        """
        if count_axes(X) <= 2:
            return super().fit_transform(X, y, **fit_params)
        return self.fit(X, y, **fit_params).transform(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: Any, *, reset: bool = False) -> tuple[Any, bool]:
        """Return X as ``(N, *sample_shape_)`` in its own type, and whether it came in flat.

        Whether the numbers are finite is left to whoever reads them all: see
        :func:`check_finite` and the engine, which both name the sample.
        """
        X = unwrapped(X)
        if is_dask(X):
            if np.ma.isMaskedArray(X._meta):
                raise ValueError("X is a Dask array with masks: fill it, as in da.ma.filled(X, 0)")
            X = merged(X)
        if is_on_disk(X):
            if np.dtype(X.dtype).kind not in "fiub":
                raise ValueError(f"X must hold real numbers; its type is {X.dtype}")
            if len(X.shape) < 2:
                raise ValueError(f"X must have samples along axis 0; its shape is {X.shape}")
            check_nonempty(X)
            if reset:
                self.n_features_in_ = math.prod(X.shape[1:])
                forget_names(self)
        else:
            X = check_in_memory(self, X, reset=reset)
        if reset:
            wanted = getattr(self, "sample_shape", None)
            self.sample_shape_ = tuple(X.shape[1:])
            if wanted is not None:
                self.sample_shape_ = resolve_shape(wanted, math.prod(X.shape[1:]))
        flat = len(X.shape) == 2
        if not flat and tuple(X.shape[1:]) != self.sample_shape_:
            raise ValueError(
                f"X has samples of shape {tuple(X.shape[1:])}; "
                f"{type(self).__name__} works on samples of shape {self.sample_shape_}"
            )
        if isinstance(X, np.ndarray) or is_dask(X):
            X = X.reshape(len(X), *self.sample_shape_)
        elif tuple(X.shape[1:]) != self.sample_shape_:
            raise ValueError(
                f"an array on disk must have its samples unflattened: its shape is {X.shape}, "
                f"sample_shape={self.sample_shape_}"
            )
        return X, flat

    def _check_cores(self, cores: Any) -> tuple[np.ndarray, bool]:
        """Return transformed samples as ``(N, *core_shape_)``, and whether they came flat."""
        check_is_fitted(self)
        cores = check_array(cores, allow_nd=True, ensure_min_samples=0, dtype="numeric")
        flat = cores.ndim == 2
        if cores.shape[1:] not in (self.core_shape_, (math.prod(self.core_shape_),)):
            raise ValueError(
                f"transformed samples have shape {self.core_shape_}; "
                f"an array of shape {cores.shape} was given"
            )
        return cores.reshape(len(cores), *self.core_shape_), flat

    @property
    def _n_features_out(self) -> int:
        return math.prod(self.core_shape_)


def flatten_if(T: np.ndarray, flat: bool) -> np.ndarray:
    """Give samples back the way they came."""
    return T.reshape(len(T), -1) if flat else T


def check_finite(
    X: np.ndarray, *, name: str = "X", first: int = 0, at: np.ndarray | None = None
) -> None:
    """Raise a ``ValueError`` that names the first sample with a NaN or an infinity.

    The samples are those from ``first`` on, or those with the indices ``at``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = ~np.isfinite(X.reshape(len(X), -1)).all(axis=1)
    if bad.any():
        kind = ValueError if np.isinf(X).any() else MissingCells
        raise kind(
            f"{name} contains NaN or infinity: {int(bad.sum())} of {len(X)} samples read, "
            f"the first is sample {first + int(bad.argmax()) if at is None else at[bad.argmax()]}"
        )


def refuse_infinite(X: np.ndarray, *, first: int = 0, at: np.ndarray | None = None) -> None:
    """Raise a ``ValueError`` that names the first sample with an infinity; NaN is in order."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    bad = np.isinf(X.reshape(len(X), -1)).any(axis=1)
    if bad.any():
        raise ValueError(
            f"X contains infinity: {int(bad.sum())} of {len(X)} samples read, the first is sample "
            f"{first + int(bad.argmax()) if at is None else at[bad.argmax()]}; "
            "a cell that is missing is NaN, as in X[np.isinf(X)] = np.nan"
        )
