"""How good a clustering or a reconstruction is."""

from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix
from sklearn.utils.validation import check_consistent_length, column_or_1d

__all__ = [
    "clustering_accuracy",
    "normalized_mutual_info",
    "reconstruction_error",
]

BLOCK = 512


def clustering_accuracy(labels_true: Any, labels_pred: Any) -> float:
    """Return the share of samples in the right cluster, under the best naming of the clusters.

    Each cluster is given one class at most, and each class one cluster, so that as many samples
    as possible agree (the paper's AC).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (N,)
        Classes and clusters, numbers or strings. Their counts may differ: what is left over
        counts as wrong.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from corrtensor.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    classes, clusters = _check_labels(labels_true, labels_pred)
    counts = contingency_matrix(classes, clusters)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / len(classes))


def normalized_mutual_info(labels_true: Any, labels_pred: Any) -> float:
    """Return the mutual information over the mean of the two entropies (the paper's NMI, eq. 34).

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (N,)
        Classes and clusters, numbers or strings.

    Returns
    -------
    float
        Between 0 (independent) and 1 (the same but for names). One class and one cluster
        are the same: 1.

    Examples
    --------
    >>> from corrtensor.metrics import normalized_mutual_info
    >>> normalized_mutual_info([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    """
    classes, clusters = _check_labels(labels_true, labels_pred)
    return float(normalized_mutual_info_score(classes, clusters, average_method="arithmetic"))


def _check_labels(labels_true: Any, labels_pred: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return both labellings as numbers 0, 1, ...: any kind of label will do."""
    classes, clusters = column_or_1d(labels_true), column_or_1d(labels_pred)
    check_consistent_length(classes, clusters)
    if len(classes) == 0:
        raise ValueError("there are no labels to compare")
    return np.unique(classes, return_inverse=True)[1], np.unique(clusters, return_inverse=True)[1]


def reconstruction_error(X: Any, X_new: Any) -> float:
    """Return the mean over the samples of the squared distance ``|X_i - X_new_i|^2`` (eq. 27).

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    X_new : array-like of the same shape
        Their reconstructions, mean included: ``model.inverse_transform(model.transform(X))``.

    Returns
    -------
    float
        In squared units of X, not divided by the number of entries.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.metrics import reconstruction_error
    >>> X = np.zeros((10, 3, 2), dtype=np.uint8)
    >>> reconstruction_error(X, X + 2)
    24.0
    """
    X, X_new = np.asarray(X), np.asarray(X_new)
    if X.shape != X_new.shape:
        raise ValueError(f"X has shape {X.shape}, X_new {X_new.shape}: they must be the same")
    if X.ndim < 2 or len(X) == 0:
        raise ValueError(f"X must have samples along axis 0; its shape is {X.shape}")
    total = 0.0
    # By blocks: whole copies in double precision may not fit in memory.
    for start in range(0, len(X), BLOCK):
        block = slice(start, start + BLOCK)
        difference = X[block].astype(np.float64) - X_new[block].astype(np.float64)
        total += float(np.vdot(difference, difference))
    return total / len(X)
