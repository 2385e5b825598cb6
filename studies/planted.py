"""Samples with a planted low-rank structure: the truth is known."""

from __future__ import annotations

import math

import numpy as np

from corrtensor.datasets.outliers import Seed

__all__ = ["expand", "orthonormal", "planted"]


def planted(
    n: int,
    shape: tuple[int, ...],
    ranks: tuple[int, ...],
    *,
    noise: float = 0.0,
    rng: Seed = None,
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Make samples with a planted low-rank structure and known factors.

    ``X_i = C_i x_1 U_1 ... x_d U_d + noise``. The factors are random and orthonormal, the cores
    Gaussian with mean zero.

    Parameters
    ----------
    n : int
        Number of samples.
    shape, ranks : tuple of int
        Size of a sample in each mode, and rank of each mode.
    noise : float, default=0.0
        Standard deviation of the Gaussian noise of each entry; that of the structure is 1.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.

    Returns
    -------
    X : ndarray of shape (n, a_1, ..., a_d)
        The samples, float64.
    factors : tuple of ndarray
        One orthonormal matrix of shape ``(shape[k], ranks[k])`` for each mode.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.planted import planted
    >>> X, (L, R) = planted(50, (8, 6), (3, 2), rng=0)
    >>> bool(np.allclose(X, L @ (L.T @ X @ R) @ R.T))
    True
    """
    if len(shape) != len(ranks) or not shape:
        raise ValueError(f"shape={shape} and ranks={ranks}: give one entry of each for every mode")
    for k, (size, rank) in enumerate(zip(shape, ranks, strict=True), start=1):
        if not 1 <= rank <= size:
            raise ValueError(f"ranks={ranks}: mode {k} of the samples has {size} entries")
    if n < 1:
        raise ValueError(f"n={n}: at least one sample is needed")
    if not (noise >= 0 and math.isfinite(noise)):
        raise ValueError(f"noise={noise}: a finite number >= 0 is needed")
    rng = np.random.default_rng(rng)
    factors = tuple(orthonormal(size, rank, rng) for size, rank in zip(shape, ranks, strict=True))
    unit = math.sqrt(math.prod(shape) / math.prod(ranks))
    X = expand(unit * rng.standard_normal((n, *ranks)), factors)
    return X + noise * rng.standard_normal(X.shape), factors


def orthonormal(size: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a matrix with orthonormal columns."""
    return np.linalg.qr(rng.standard_normal((size, rank)))[0]


def expand(cores: np.ndarray, factors: tuple[np.ndarray, ...]) -> np.ndarray:
    """Multiply each core by ``factors[k]`` in its mode k."""
    for k, U in enumerate(factors, start=1):
        cores = np.moveaxis(np.tensordot(cores, U, axes=(k, 1)), -1, k)
    return cores
