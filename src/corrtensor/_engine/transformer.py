"""What the estimators share: checks of samples, flat or not, and names of what comes out."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from corrtensor._base.gaps import Gapped, check_missing_values, with_gaps
from corrtensor._engine.arrays.dask_lazy import is_dask, merged
from corrtensor._engine.arrays.disk import unmapped
from corrtensor._engine.containers import opened
from corrtensor._engine.labels import table_wanted
from corrtensor._engine.shapes import (
    as_float,
    check_in_memory,
    check_nonempty,
    forget_names,
    is_on_disk,
    resolve_shape,
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


# How the cores of tensors come out of ``transform``.
OUTPUTS = ("auto", "tensor", "flat")


class TensorTransformer(TransformerMixin, BaseEstimator):
    """What the estimators share: checks of X, flat or not, and names of what comes out.

    A subclass stores ``sample_shape``, ``sample_dim`` and ``output`` (or their defaults) in its
    constructor, calls ``_check(X, reset=True)`` and ``_choose_output(y)`` in ``fit``, and sets
    ``core_shape_``, the shape of one transformed sample.
    """

    sample_shape: tuple[int, ...] | None
    sample_shape_: tuple[int, ...]
    core_shape_: tuple[int, ...]
    output: str
    output_: str

    def _choose_output(self, y: object) -> None:
        """Decide how cores come out: flat, as tensors, or in the form of the samples.

        Targets are a sign of what follows: a classifier or a regression, which wants a table.
        """
        if self.output not in OUTPUTS:
            raise ValueError(f"output={self.output!r}: use {', '.join(map(repr, OUTPUTS))}")
        self.output_ = "flat" if self.output == "auto" and y is not None else self.output

    def _gives_flat(self, flat: bool) -> bool:
        """Tell whether cores come out flat, of samples that came in flat or not."""
        chosen = getattr(self, "output_", "auto")
        table = table_wanted(self)
        if table and chosen == "tensor" and len(self.core_shape_) > 1:
            raise ValueError(
                f"output='tensor' gives cores of shape {self.core_shape_}, which no table of "
                f"{table} holds: use output='auto' or 'flat', or set_output(transform='default')"
            )
        return chosen == "flat" or (chosen == "auto" and (flat or table is not None))

    def _inverse_is_flat(self, flat: bool) -> bool:
        """Tell whether samples come back flat, from cores that came in flat or not."""
        # Flat cores of a model that makes them of tensors stand for tensors.
        flat_in = len(self.sample_shape_) == 1 or self.sample_shape is not None
        return flat and (flat_in or getattr(self, "output_", "auto") != "flat")

    def get_feature_names_out(self, input_features: object = None) -> np.ndarray:
        """Return the names of the entries of a core, in the order of flat output.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        names : ndarray of str
            The name of the class and the place of the entry along each mode: ``corrtensor0_3``.
        """
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        places = np.ndindex(self.core_shape_)
        return np.array([prefix + "_".join(map(str, place)) for place in places], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _check(self, X: Any, *, reset: bool = False) -> tuple[Any, bool]:
        """Return X as ``(N, *sample_shape_)`` in its own type, and whether it came in flat.

        Whether the numbers are finite is left to whoever reads them all: see
        :func:`check_finite` and the engine, which both name the sample.
        """
        given = opened(X, self, "fit" if reset else "")
        X = given.X
        if reset:
            self.__dict__.pop("labels_in_", None)
            if given.labels is not None:
                self.labels_in_ = given.labels
        if not reset and self._is_one_sample(X):
            raise ValueError(f"X of shape {X.shape} is one sample, not several: give X[None]")
        if is_dask(X):
            if np.ma.isMaskedArray(X._meta):
                kind = as_float(X.dtype)
                X = X.map_blocks(with_gaps, dtype=kind, meta=np.empty((0,) * X.ndim, kind))
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
            self.sample_shape_ = tuple(X.shape[1:])
            if self.sample_shape is not None:
                self.sample_shape_ = resolve_shape(self.sample_shape, math.prod(X.shape[1:]))
            check_missing_values(self._missing_values, np.dtype(X.dtype))
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
        return self._with_gaps(X), flat

    def _is_one_sample(self, X: Any) -> bool:
        """Tell whether X is a single sample in its own shape, which no table of samples has."""
        shape = getattr(self, "sample_shape_", ())
        return (
            len(shape) > 1
            and getattr(X, "shape", None) == shape
            and shape[1:] != (math.prod(shape),)
        )

    @property
    def _missing_values(self) -> float:
        return getattr(self, "missing_values", np.nan)

    def _with_gaps(self, X: Any) -> Any:
        """Return samples with NaN in the place of the value that stands for missing cells."""
        if np.isnan(self._missing_values):
            return X
        if is_dask(X):
            kind, empty = as_float(X.dtype), (0,) * X.ndim
            return X.map_blocks(
                with_gaps, self._missing_values, dtype=kind, meta=np.empty(empty, kind)
            )
        X = unmapped(X)
        read = with_gaps if isinstance(X, np.ndarray) else Gapped
        return read(X, self._missing_values)

    def _check_cores(self, cores: Any) -> tuple[np.ndarray, bool]:
        """Return transformed samples as ``(N, *core_shape_)``, and whether they came flat."""
        check_is_fitted(self)
        cores = check_array(cores, allow_nd=True, dtype="numeric")
        flat = cores.ndim == 2
        if cores.shape[1:] not in (self.core_shape_, (math.prod(self.core_shape_),)):
            raise ValueError(
                f"transformed samples have shape {self.core_shape_}; "
                f"an array of shape {cores.shape} was given"
            )
        return cores.reshape(len(cores), *self.core_shape_), flat
