"""Outliers beyond the paper's: they stick together, or look much like the good samples.

The rules for ``X``, ``n`` and ``rng`` are those of :mod:`corrtensor.datasets.outliers`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corrtensor.datasets.outliers import (
    Seed,
    add,
    added_count,
    check_samples,
    choose,
    noise_images,
    value_range,
)
from studies.planted import expand, orthonormal

__all__ = ["near_copies", "negatives", "pattern_outliers", "transposed_outliers"]


def near_copies(
    X: Any, n: float, rng: Seed, *, noise: float = 0.01
) -> tuple[np.ndarray, np.ndarray]:
    """Add n near-copies of one image of uniform noise.

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of outliers, or their share of the returned data.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.
    noise : float, default=0.01
        Standard deviation of the difference between the copies, as a share of the range of X.

    Returns
    -------
    X_with_outliers, is_outlier : ndarray
        As for :func:`dummy_outliers`.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.harder_outliers import near_copies
    >>> X, is_outlier = near_copies(np.zeros((60, 8, 8)), 0.4, rng=0)
    >>> X.shape, bool(X[is_outlier].std(axis=0).max() < 0.02)
    ((100, 8, 8), True)
    """
    X = check_samples(X)
    if not (noise >= 0 and math.isfinite(noise)):
        raise ValueError(f"noise={noise}: a finite number >= 0 is needed")
    rng = np.random.default_rng(rng)
    low, high = value_range(X)
    one = noise_images(1, X, rng)
    spread = noise * (high - low)
    count = added_count(n, len(X))
    return add(X, to_range(one + spread * rng.standard_normal((count, *X.shape[1:])), X))


def pattern_outliers(
    X: Any, n: float, rng: Seed, *, rank: int = 5
) -> tuple[np.ndarray, np.ndarray]:
    """Add n images ``P C_i Q'`` of one pattern: P and Q are fixed, the core C_i is random.

    Subspaces explain such outliers easily, so that their residuals are small. Each has the
    median norm of the samples; their entries may leave the range of X.

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of outliers, or their share of the returned data.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.
    rank : int, default=5
        Rank of the pattern in every mode; in a mode with fewer entries, their number.

    Returns
    -------
    X_with_outliers, is_outlier : ndarray
        As for :func:`dummy_outliers`, but integers come back as float64: rounding would
        break the pattern.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.harder_outliers import pattern_outliers
    >>> X, is_outlier = pattern_outliers(np.ones((60, 20, 16)), 40, rng=0)
    >>> int(np.linalg.matrix_rank(np.hstack(X[is_outlier])))
    5
    """
    X = check_samples(X)
    if rank < 1:
        raise ValueError(f"rank={rank}: at least 1 is needed")
    rng = np.random.default_rng(rng)
    X = X.astype(X.dtype if X.dtype.kind == "f" else np.float64, copy=False)
    norm = np.median(np.linalg.norm(X.reshape(len(X), -1), axis=1))
    if norm == 0:
        raise ValueError("half of the samples are zero: the outliers would be, too")
    factors = tuple(orthonormal(size, min(rank, size), rng) for size in X.shape[1:])
    cores = rng.standard_normal((added_count(n, len(X)), *(U.shape[1] for U in factors)))
    squares = (cores**2).sum(axis=tuple(range(1, cores.ndim)), keepdims=True)
    cores *= norm / np.sqrt(squares)
    return add(X, expand(cores, factors).astype(X.dtype))


def negatives(X: Any, n: float, rng: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Replace n samples by their negatives: black + white - X.

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of samples to replace, or their share.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.

    Returns
    -------
    X_with_outliers, is_outlier : ndarray
        As for :func:`block_outliers`.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.harder_outliers import negatives
    >>> X, is_outlier = negatives(np.full((4, 2, 2), 55, dtype=np.uint8), 1, rng=0)
    >>> int(X[is_outlier].max())
    200
    """
    X = check_samples(X)
    low, high = value_range(X)
    is_outlier = choose(n, len(X), np.random.default_rng(rng))
    spoiled = X.copy()
    # Small integers would overflow on the way.
    wide = X[is_outlier].astype(X.dtype if X.dtype.kind == "f" else np.int64)
    spoiled[is_outlier] = low + high - wide
    return spoiled, is_outlier


def transposed_outliers(X: Any, n: float, rng: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Transpose n samples in their first two modes.

    Samples that are not square are stretched back to their shape by repeating and leaving
    out rows and columns.

    Parameters
    ----------
    X : array-like of shape (N, a, b, ...)
        The samples.
    n : int or float
        Number of samples to replace, or their share.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.

    Returns
    -------
    X_with_outliers, is_outlier : ndarray
        As for :func:`block_outliers`.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.harder_outliers import transposed_outliers
    >>> X, is_outlier = transposed_outliers(np.array([[[1, 2], [3, 4]]]), 1, rng=0)
    >>> X[0].tolist()
    [[1, 3], [2, 4]]
    """
    X = check_samples(X)
    if X.ndim < 3:
        raise ValueError(f"X of shape {X.shape} holds vectors, which have no transpose")
    is_outlier = choose(n, len(X), np.random.default_rng(rng))
    rows, columns = X.shape[1:3]
    # The middle of each new row and column, in the old ones.
    i = (2 * np.arange(rows) + 1) * columns // (2 * rows)
    j = (2 * np.arange(columns) + 1) * rows // (2 * columns)
    spoiled = X.copy()
    spoiled[is_outlier] = np.swapaxes(X[is_outlier], 1, 2)[:, i][:, :, j]
    return spoiled, is_outlier


def to_range(values: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Cut values off at the range of X, and give them its type."""
    values = np.clip(values, *value_range(X))
    return (values if X.dtype.kind == "f" else np.rint(values)).astype(X.dtype)
