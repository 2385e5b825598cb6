"""What every task asks of a subspace: cores, residuals, and how much each sample counts.

A subspace is any transformer of samples. One rule says whether it is fitted: inside
``sklearn.frozen.FrozenEstimator`` it is taken as it is; any other is cloned and fitted to the
samples of the task, whether it had been fitted before or not.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from corrtensor._base.gaps import OnDisk, with_gaps
from corrtensor._engine.arrays.dask_lazy import is_dask
from corrtensor._engine.arrays.disk import unmapped
from corrtensor._engine.containers import bare
from corrtensor._engine.passes import by_sample
from corrtensor._engine.shapes import (
    as_float,
    check_finite,
    check_in_memory,
    forget_names,
    is_on_disk,
    numbers_of,
    refuse_infinite,
)
from corrtensor.corr_tensor import CorrTensor
from corrtensor.losses.protocol import weights_of
from corrtensor.losses.scale import lower_quantile, weighted_quantiles

# Residuals that differ by no more than this share are those of the same samples.
SAME = 1e-4


def unfitted(subspace: Any, default: Any) -> Any:
    """Return a clone of a subspace; that is an estimator, not its ranks."""
    if subspace is None:
        return default
    if not hasattr(subspace, "fit"):
        raise TypeError(f"subspace={subspace!r} must be an estimator: CorrTensor({subspace!r})?")
    return clone(subspace)


def fit_subspace(subspace: Any, X: Any, sample_weight: ArrayLike | None = None) -> Any:
    """Return a fitted subspace: a frozen one itself, a clone of any other fitted to X."""
    if isinstance(subspace, FrozenEstimator):
        check_is_fitted(subspace)
        return subspace
    subspace = unfitted(subspace, CorrTensor())
    if sample_weight is not None and has_fit_parameter(subspace, "sample_weight"):
        return subspace.fit(X, sample_weight=sample_weight)
    return subspace.fit(X)


def read_floats(task: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Return samples as finite numbers in floating point; keep, or check, their features."""
    X = check_in_memory(task, X, reset=reset)
    check = refuse_infinite if task.__sklearn_tags__().input_tags.allow_nan else check_finite
    check(X)
    return X.astype(as_float(X.dtype), copy=False)


def in_memory(task: Any, X: Any, *, reset: bool = False) -> Any:
    """Return X, or refuse a Dask array: it may be larger than the memory."""
    X = bare(X, task, "fit" if reset else "")
    if is_dask(X):
        raise TypeError(
            f"{type(task).__name__} must see all samples at once here; X is a Dask array of "
            f"{X.nbytes / 1e6:.0f} MB: give X.compute(), or that of a part of it"
        )
    return X


def read_samples(task: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Check samples of any order for a task that has no subspace to do it."""
    X = read_floats(task, in_memory(task, X, reset=reset), reset=reset)
    if reset:
        task.sample_shape_ = X.shape[1:]
    elif X.shape[1:] != task.sample_shape_:
        raise ValueError(
            f"X has samples of shape {X.shape[1:]}; "
            f"{type(task).__name__} was fitted to samples of shape {task.sample_shape_}"
        )
    return X


def name_features(task: Any, subspace: Any) -> None:
    """Give a task the number and the names of the features that its subspace has seen."""
    forget_names(task)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(subspace, name):
            setattr(task, name, getattr(subspace, name))


def cores_of(subspace: Any, X: Any) -> np.ndarray:
    """Return the transformed samples as an array."""
    return np.asarray(subspace.transform(X))


def torn(subspace: Any, X: Any) -> np.ndarray:
    """Return samples in memory with NaN wherever the subspace takes a cell for missing."""
    X = numbers_of(X) if hasattr(X, "iloc") else np.asanyarray(X)
    return np.asarray(with_gaps(X, getattr(subspace, "missing_values", np.nan)))


def filled(subspace: Any, X: Any) -> Any:
    """Return samples with their missing cells filled in; what lies on disk, as it is read.

    So are gross errors, if the subspace has looked for bad cells: they make no odd sample, but
    where they are half of what is seen of it or more. That one is taken as it is, for what would
    be measured is made up.
    """
    if not hasattr(subspace, "repair"):
        return X
    X = unmapped(X)
    if is_on_disk(X):
        return Filled(X, subspace)
    rows = torn(subspace, X)
    gone = np.isnan(rows)
    if hasattr(subspace, "cell_scale_"):
        gross = subspace._gross_cells(X) & ~gone
        cells = tuple(range(1, gross.ndim))
        few = 2 * gross.sum(axis=cells) < (~gone).sum(axis=cells)
        gone |= gross & by_sample(few, gross)
    return np.where(gone, subspace.repair(X), rows) if gone.any() else rows


@dataclass(frozen=True, eq=False)
class Filled(OnDisk):
    """Samples on disk, filled in by a subspace as they are read."""

    subspace: Any

    def __getitem__(self, rows: Any) -> Any:
        return filled(self.subspace, np.asanyarray(self.array[rows]))


def differences(subspace: Any, X: Any) -> np.ndarray:
    """Return the samples less their reconstructions; NaN where a cell is missing."""
    return torn(subspace, X) - np.asarray(subspace.inverse_transform(subspace.transform(X)))


def squared_residuals(subspace: Any, X: Any) -> np.ndarray:
    """Return the squared distance of each sample from the subspace."""
    if hasattr(subspace, "residuals"):
        return np.asarray(subspace.residuals(X))
    lost = differences(subspace, X)
    return np.square(lost.reshape(len(lost), -1)).sum(axis=1)


def sample_weights(subspace: Any, X: Any, *, as_known: bool = False) -> np.ndarray | None:
    """Return how much each sample of a task counts, the largest 1; ``None`` if all do alike.

    A subspace that was fitted to X has its ``weights_``. A frozen one may have seen other samples,
    which their residuals tell: then its loss weighs these by theirs. If they shall count as those
    do that are known to it, 1 is the weight of a usual one of these, and none may have it.
    """
    loss = getattr(subspace, "loss_", None)
    if loss is None:
        return None
    if not isinstance(subspace, FrozenEstimator):
        return np.asarray(subspace.weights_)
    s = np.asarray(squared_residuals(subspace, X))
    known = np.asarray(getattr(subspace, "residuals_", s[:0]))
    if known.shape == s.shape and np.allclose(known, s, rtol=SAME, atol=SAME * s.max(initial=0)):
        return np.asarray(subspace.weights_)
    weights = weights_of(loss, s)
    if as_known and known.size:
        usual = loss.log_weight(np.array([lower_quantile(known)]))[0]
        weights *= np.exp(min(0.0, loss.log_weight(s).max() - usual))
    return weights


def weighted_median(values: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the value that half of the weight lies at or below."""
    return lower_quantile(weighted_quantiles(values, weights))
