"""How similar samples are, cluster by cluster: the paper's Fig. 10."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.distance import pdist, squareform
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

__all__ = ["similarity_matrix"]

TINY = 1e-12


def similarity_matrix(features: Any, labels: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return how similar the samples are, ordered by cluster (the paper's Fig. 10).

    The similarity of two samples at distance d is ``exp(-d^2 / m)``, where m is the median of d^2
    over all the pairs. Hence it does not change when the features are rotated, shifted or
    scaled, and a good clustering shows as bright squares along the diagonal. The paper does
    not say which similarity it draws.

    Parameters
    ----------
    features : array-like of shape (N, ...)
        One vector, matrix or tensor for each sample; for instance cores.
    labels : array-like of shape (N,), default=None
        Clusters to order by; samples of one cluster keep their order. By default the
        samples stay as they are.

    Returns
    -------
    similarity : ndarray of shape (N, N)
        Symmetric, in [0, 1], ones on the diagonal.
    order : ndarray of int of shape (N,)
        Which sample each row and column stands for.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.paper.similarity import similarity_matrix
    >>> similarity, order = similarity_matrix([[0.0], [5.0], [0.1]], labels=[1, 2, 1])
    >>> order.tolist(), bool(similarity[0, 1] > 0.99)
    ([0, 2, 1], True)
    """
    features = check_array(features, allow_nd=True, dtype=np.float64)
    order = np.arange(len(features))
    if labels is not None:
        labels = column_or_1d(labels)
        check_consistent_length(features, labels)
        order = np.argsort(labels, kind="stable")
    vectors = features.reshape(len(features), -1)[order]
    pairs = pdist(vectors, "sqeuclidean")
    if not pairs.any():
        return np.ones((len(vectors), len(vectors))), order
    # Where most samples are alike the median is zero: alike is then 1, and all else 0.
    scale = max(np.median(pairs), TINY * pairs.mean())
    return np.exp(-squareform(pairs) / scale), order
