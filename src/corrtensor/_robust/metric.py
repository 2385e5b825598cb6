"""A distance between samples that neither a subspace nor their scale decides.

Samples are seen in the principal directions of their modes. An entry counts by the inverse of its
variance, and the variances are a product of one factor per mode: a shrunk Kronecker covariance.
See ``docs/method.md``, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import leading
from corrtensor._engine.products import project, row_squares, unfold
from corrtensor._engine.solver import rounding_of
from corrtensor._engine.start import spectral

# Entries of a sample that have a variance of their own, and directions of a mode; what is left
# shares one variance. A matter of cost.
ENTRIES, DIRECTIONS = 8192, 256


def separable(M: np.ndarray, shrink: float) -> tuple[np.ndarray, float]:
    """Fit a product of one factor per mode to variances; return it, and its least value.

    ``shrink`` times its mean is added to every factor, so that nothing counts without bounds.
    """
    factors = [np.ones(a) for a in M.shape]
    for _ in range(3):
        for n, a in enumerate(M.shape):
            others = [np.ones(a) if m == n else 1 / v for m, v in enumerate(factors)]
            T = np.moveaxis(M * reduce(np.multiply.outer, others), n, 0)
            v = T.reshape(a, -1).mean(axis=1)
            factors[n] = v + shrink * v.mean()
    # The mean of a factor is 1 + shrink times that of what was shrunk.
    floor = math.prod(shrink / (1 + shrink) * float(v.mean()) for v in factors)
    return reduce(np.multiply.outer, factors).reshape(-1), floor


@dataclass(frozen=True)
class Metric:
    """Where samples are expected, and how far they stray in each direction."""

    mean: np.ndarray
    bases: tuple[np.ndarray, ...]
    center: np.ndarray
    variance: np.ndarray
    pooled: float

    def of(self, cores: np.ndarray, squares: np.ndarray, rest: np.ndarray) -> np.ndarray:
        """Return the log squared distance, from the entries, their squares and what is left."""
        precision = 1 / self.variance
        pull = self.center * precision
        away = squares @ precision - 2 * (cores @ pull) + float(self.center @ pull)
        # A sample that is the centre itself is near, not at minus infinity.
        return np.log(np.maximum(away + rest / self.pooled, 1e-9 * len(precision)))

    def measure(self, x: np.ndarray) -> np.ndarray:
        """Return the log squared distances of a block of samples."""
        y = x - self.mean.astype(x.dtype)
        cores = project(y, [U.astype(x.dtype) for U in self.bases]).reshape(len(y), -1)
        rest = np.maximum(row_squares(y) - row_squares(cores), 0)
        return self.of(cores, np.square(cores), rest)


@dataclass(frozen=True)
class Coordinates:
    """Samples in the leading directions of their modes, about a mean; what is left as a number."""

    mean: np.ndarray
    bases: tuple[np.ndarray, ...]
    cores: np.ndarray
    squares: np.ndarray
    rest: np.ndarray
    n_pooled: int
    noise: float

    def metric(self, weights: np.ndarray, shrink: float) -> Metric | None:
        """Learn the metric of weighted samples; ``None`` if only rounding tells these apart."""
        w = (weights / weights.sum()).astype(self.cores.dtype)
        center = w @ self.cores
        M = np.maximum(w @ self.squares - np.square(center), 0).astype(np.float64)
        if not M.sum() > self.noise:
            return None
        variance, floor = separable(M.reshape([U.shape[1] for U in self.bases]), shrink)
        pooled = floor + float(w @ self.rest) / max(self.n_pooled, 1)
        return Metric(self.mean, self.bases, center.astype(np.float64), variance, pooled)

    def distances(self, metric: Metric) -> np.ndarray:
        """Return the log squared distance of every sample."""
        return metric.of(self.cores, self.squares, self.rest)

    def copies(self, share: float) -> np.ndarray:
        """Return how many samples are within a share of the typical squared distance of each."""
        norms = self.squares.sum(axis=1)
        # None at more than a typical size: a huge sample must not make all others look alike.
        rows = self.cores / np.sqrt(np.maximum(norms / np.median(norms), 1))[:, None]
        norms = row_squares(rows)
        apart = norms[:, None] + norms - 2 * (rows @ rows.T)
        return np.count_nonzero(apart <= share * np.median(apart), axis=1)


def leading_of_some(source: Source, weights: np.ndarray, mean: np.ndarray, mode: int) -> np.ndarray:
    """Return the leading directions of a large mode, learned from some of its fibres."""
    shape, n = source.sample_shape, source.n_samples
    others = math.prod(shape) // shape[mode]
    places = np.linspace(0, others - 1, min(others, -(-2 * DIRECTIONS // n))).astype(int)
    A = np.empty((n, len(places), shape[mode]))
    source.fill(A, lambda x: unfold(x - mean.astype(x.dtype), mode)[:, places])
    A = (A * np.sqrt(weights)[:, None, None])[weights > 0].reshape(-1, shape[mode])
    if len(A) >= shape[mode]:
        return leading(A.T @ A, DIRECTIONS)
    # By way of the smaller Gram matrix; an orthonormal basis also where that has no energy left.
    return np.linalg.qr(A.T @ leading(A @ A.T, min(len(A), DIRECTIONS)))[0]


def see(source: Source, norms: np.ndarray, weights: np.ndarray) -> Coordinates:
    """Return all samples of a source in the principal directions of the weighted ones."""
    shape, most = source.sample_shape, DIRECTIONS
    while math.prod(min(a, most) for a in shape) > ENTRIES:
        most -= 1
    small = tuple(min(a, most) if a <= DIRECTIONS else None for a in shape)
    start = spectral(source, small, weights=weights)
    bases = tuple(
        leading_of_some(source, weights, start.mean, n)[:, :most] if U is None else U
        for n, U in enumerate(start.factors)
    )
    U, m = [V.astype(source.dtype) for V in bases], start.mean.astype(source.dtype)
    cores = np.empty((len(norms), math.prod(V.shape[1] for V in bases)), source.dtype)
    source.fill(cores, lambda x: project(x - m, U))
    n_pooled, rest = math.prod(shape) - cores.shape[1], np.zeros(len(norms))
    if n_pooled:
        source.fill(rest, lambda x: row_squares(x - m))
        rest = np.maximum(rest - row_squares(cores), 0)
    noise = rounding_of(norms, source.dtype, None)
    return Coordinates(start.mean, bases, cores, np.square(cores), rest, n_pooled, noise)
