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
from corrtensor._engine.products import project, row_squares
from corrtensor._engine.solver import rounding_of
from corrtensor._engine.start import leading_of_some, spectral

# Samples that a search looks at, and directions of a mode: more cannot be learned from so few.
SAMPLES = 300
# Entries of a sample that have a variance of their own; what is left shares one. A matter of cost.
ENTRIES = 8192


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
class Frame:
    """A mean, and the leading directions of every mode, in which samples are seen."""

    mean: np.ndarray
    bases: tuple[np.ndarray, ...]
    # The square that rounding leaves of a sample.
    noise: float

    @classmethod
    def of(cls, source: Source, weights: np.ndarray) -> Frame:
        """Return the principal directions of weighted samples."""
        shape, most = source.sample_shape, SAMPLES
        while math.prod(min(a, most) for a in shape) > ENTRIES:
            most -= 1
        small = tuple(min(a, most) if a <= SAMPLES else None for a in shape)
        start = spectral(source, small, weights=weights)
        assert start.norms is not None  # noqa: S101
        bases = tuple(
            leading_of_some(source, weights, start.mean, n, SAMPLES)[:, :most] if U is None else U
            for n, U in enumerate(start.factors)
        )
        return cls(start.mean, bases, rounding_of(start.norms, source.dtype, None))

    def see(self, x: np.ndarray) -> np.ndarray:
        """Return the entries of samples in these directions, and the norm of what is left."""
        y = x - self.mean.astype(x.dtype)
        cores = project(y, [U.astype(x.dtype) for U in self.bases]).reshape(len(y), -1)
        rest = np.maximum(row_squares(y) - row_squares(cores), 0)
        return np.column_stack([cores, np.sqrt(rest).astype(x.dtype)])

    def entries(self, source: Source) -> np.ndarray:
        """Return the same of all samples of a source."""
        size = math.prod(U.shape[1] for U in self.bases) + 1
        entries = np.empty((source.n_samples, size), source.dtype)
        source.fill(entries, self.see)
        return entries


@dataclass(frozen=True)
class Metric:
    """Where samples are expected in a frame, and how much they stray in each direction."""

    frame: Frame
    center: np.ndarray
    variance: np.ndarray

    @classmethod
    def of(cls, frame: Frame, entries: np.ndarray, weights: np.ndarray, shrink: float) -> Metric:
        """Learn the metric of weighted samples."""
        w = (weights / weights.sum()).astype(entries.dtype)
        center = w @ entries
        # What is left has no direction, and so no centre.
        center[-1] = 0
        M = (w @ np.square(entries - center)).astype(np.float64) + frame.noise / len(center)
        variance, floor = separable(M[:-1].reshape([U.shape[1] for U in frame.bases]), shrink)
        pooled = floor + float(M[-1]) / max(frame.mean.size - len(variance), 1)
        return cls(frame, center, np.append(variance, pooled))

    def distances(self, entries: np.ndarray) -> np.ndarray:
        """Return log squared distances."""
        precision = (1 / self.variance).astype(entries.dtype)
        away = (np.square(entries - self.center) @ precision).astype(np.float64)
        # A sample that is the centre itself is near, not at minus infinity.
        return np.log(np.maximum(away, 1e-9 * len(precision)))

    def measure(self, x: np.ndarray) -> np.ndarray:
        """Return the log squared distances of a block of samples."""
        return self.distances(self.frame.see(x))


def count_copies(entries: np.ndarray, share: float) -> np.ndarray:
    """Return how many samples are within a share of the typical squared distance of each."""
    norms = row_squares(entries)
    # None at more than a typical size: a huge sample must not make all others look alike.
    rows = entries / np.sqrt(np.maximum(norms / np.median(norms), 1))[:, None]
    norms = row_squares(rows)
    apart = norms[:, None] + norms - 2 * (rows @ rows.T)
    return np.count_nonzero(apart <= share * np.median(apart), axis=1)
