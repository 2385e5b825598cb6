"""What the estimators share: checks of samples, flat or not, and names of what comes out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from corrtensor._engine.arrays.dask_lazy import is_dask, merged, unwrapped
from corrtensor._engine.shapes import (
    as_float,
    check_in_memory,
    check_nonempty,
    count_axes,
    forget_names,
    is_on_disk,
    resolve_shape,
    with_gaps,
)


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
            if np.ma.isMaskedArray(X._meta) and self.__sklearn_tags__().input_tags.allow_nan:
                kind = as_float(X.dtype)
                X = X.map_blocks(with_gaps, dtype=kind, meta=np.empty((0,) * X.ndim, kind))
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
