"""What every task asks of a subspace: cores, residuals, and how much each sample counts.

A subspace is any transformer of samples. One rule says whether it is fitted: inside
``sklearn.frozen.FrozenEstimator`` it is taken as it is; any other is cloned and fitted to the
samples of the task, whether it had been fitted before or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import (
    check_array,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from corrtensor.corr_tensor import CorrTensor


def fit_subspace(subspace: Any, X: Any, sample_weight: ArrayLike | None = None) -> Any:
    """Return a fitted subspace: a frozen one itself, a clone of any other fitted to X."""
    if isinstance(subspace, FrozenEstimator):
        check_is_fitted(subspace)
        return subspace
    subspace = clone(CorrTensor() if subspace is None else subspace)
    if sample_weight is not None and has_fit_parameter(subspace, "sample_weight"):
        return subspace.fit(X, sample_weight=sample_weight)
    return subspace.fit(X)


def forget_names(task: Any) -> None:
    """Drop the names of the columns of an earlier table."""
    if hasattr(task, "feature_names_in_"):
        del task.feature_names_in_


def read_samples(task: Any, X: Any, *, reset: bool) -> np.ndarray:
    """Check samples of any order for a task that has no subspace to do it."""
    options: dict[str, Any] = {"dtype": [np.float64, np.float32]}
    if len(X.shape if hasattr(X, "shape") else np.asarray(X).shape) <= 2:
        X = validate_data(task, X, reset=reset, **options)
    else:
        X = check_array(X, allow_nd=True, estimator=task, **options)
        if reset:
            task.n_features_in_ = int(np.prod(X.shape[1:]))
            forget_names(task)
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


def differences(subspace: Any, X: Any) -> np.ndarray:
    """Return the samples less their reconstructions."""
    return np.asarray(X) - np.asarray(subspace.inverse_transform(subspace.transform(X)))


def squared_residuals(subspace: Any, X: Any) -> np.ndarray:
    """Return the squared distance of each sample from the subspace."""
    if hasattr(subspace, "residuals"):
        return np.asarray(subspace.residuals(X))
    lost = differences(subspace, X)
    return np.square(lost.reshape(len(lost), -1)).sum(axis=1)


def sample_weights(subspace: Any, X: Any) -> np.ndarray | None:
    """Return how much each sample of a task counts, the largest 1; ``None`` if all do alike.

    A subspace that was fitted to X has its ``weights_``. A frozen one may have seen other samples:
    its loss weighs these by their residuals.
    """
    loss = getattr(subspace, "loss_", None)
    if loss is None:
        return None
    if not isinstance(subspace, FrozenEstimator):
        return np.asarray(subspace.weights_)
    log_w = loss.log_weight(squared_residuals(subspace, X))
    return np.exp(log_w - log_w.max())


def weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the value that half of the weight lies at or below."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(cumulated, 0.5 * cumulated[-1])]])
