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
SAMPLES = 256
# Entries of a sample that have a variance of their own; what is left shares one. A matter of cost.
ENTRIES = 8192
# Copies are looked for first by one entry in so many, the leading ones.
LEADING = 4


def separable(M: np.ndarray, shrink: float) -> tuple[np.ndarray, float]:
    """Fit a product of one factor per mode to variances; return it, and its least value.

    ``shrink`` times its mean is added to every factor, so that nothing counts without bounds.
    """
    factors = [np.ones(a) for a in M.shape]
    for _ in range(3):
        for n, a in enumerate(M.shape):
            v = M
            for m in reversed(range(M.ndim)):
                v = v if m == n else np.moveaxis(v, m, -1) @ (1 / factors[m])
            v = v * (a / M.size)
            factors[n] = v + shrink * v.mean()
    # The mean of a factor is 1 + shrink times that of what was shrunk.
    floor = math.prod(shrink / (1 + shrink) * float(v.mean()) for v in factors)
    return reduce(np.multiply.outer, factors).reshape(-1), floor


@dataclass(frozen=True)
class Frame:
    """A mean and leading directions of every mode; the square that rounding leaves of a sample."""

    mean: np.ndarray
    bases: tuple[np.ndarray, ...]
    noise: float

    def see(self, x: np.ndarray) -> np.ndarray:
        """Return the entries of samples in these directions, and the norm of what may be left."""
        cores = project(x, [U.astype(x.dtype) for U in self.bases]).reshape(len(x), -1)
        cores -= project(self.mean[None], self.bases).reshape(1, -1).astype(x.dtype)
        if cores.size == x.size:
            return cores
        rest = np.maximum(row_squares(x - self.mean.astype(x.dtype)) - row_squares(cores), 0)
        return np.column_stack([cores, np.sqrt(rest).astype(x.dtype)])


@dataclass(frozen=True)
class Metric:
    """Where samples are expected in a frame, and how much they stray in each direction."""

    frame: Frame
    center: np.ndarray
    variance: np.ndarray
    # Median of the distances of good samples.
    location: float = 0.0

    @classmethod
    def of(
        cls, frame: Frame, entries: np.ndarray, weights: np.ndarray, shrink: float
    ) -> tuple[Metric, np.ndarray]:
        """Learn the metric of weighted samples; return it, and the distances of all."""
        w = (weights / weights.sum()).astype(entries.dtype)
        center = w @ entries
        directions = [U.shape[1] for U in frame.bases]
        k = math.prod(directions)
        # What is left has no direction, and so no centre.
        center[k:] = 0
        squares = entries - center
        np.square(squares, out=squares)
        M = (w @ squares).astype(np.float64) + frame.noise / len(center)
        variance, floor = separable(M[:k].reshape(directions), shrink)
        pooled = floor + M[k:] / max(frame.mean.size - k, 1)
        metric = cls(frame, center, np.append(variance, pooled))
        return metric, metric.distances(squares)

    def distances(self, squares: np.ndarray) -> np.ndarray:
        """Return log squared distances, from the squares of entries less the centre."""
        # Where cells differ like 1 and 1e20, single precision does not hold every inverse, nor
        # distances, which are the largest number then.
        limits = np.finfo(squares.dtype)
        inverse = 1 / np.maximum(self.variance, limits.tiny)
        with np.errstate(over="ignore", invalid="ignore"):
            away = squares @ inverse.astype(squares.dtype)
        away = np.fmin(away, limits.max).astype(np.float64)
        # A sample that is the centre itself is near, not at minus infinity.
        return np.log(np.maximum(away, 1e-9 * len(self.variance)))

    def measure(self, x: np.ndarray) -> np.ndarray:
        """Return the log squared distances of a block of samples, from where good ones are."""
        entries = self.frame.see(x)
        entries -= self.center
        return self.distances(np.square(entries, out=entries)) - self.location


def see(source: Source, weights: np.ndarray) -> tuple[Frame, np.ndarray]:
    """Return the principal directions of weighted samples, and the entries of all in these."""
    shape, most, some = source.sample_shape, SAMPLES, np.flatnonzero(weights)
    while math.prod(min(a, most) for a in shape) > ENTRIES:
        most -= 1
    small = tuple(min(a, most) if a <= SAMPLES else None for a in shape)
    teachers, w = source if len(some) == len(weights) else source.chosen(some), weights[some]
    start = spectral(teachers, small, weights=w.astype(float))
    bases = tuple(
        leading_of_some(teachers, w, start.mean, n, SAMPLES)[:, :most] if U is None else U
        for n, U in enumerate(start.factors)
    )
    frame = Frame(start.mean, bases, rounding_of(start.norms, source.dtype, None))
    k = math.prod(U.shape[1] for U in bases)
    entries = np.empty((len(weights), k + (k < math.prod(shape))), source.dtype)
    source.fill(entries, frame.see)
    return frame, entries


def count_copies(entries: np.ndarray, share: float) -> np.ndarray:
    """Return how many samples are within a share of the typical squared distance of each."""
    norms = row_squares(entries)
    # None at more than a typical size: a huge sample must not make all others look alike.
    sizes = np.sqrt(np.maximum(norms, np.median(norms)))
    each = (1 / np.where(sizes > 0, sizes, 1)).astype(entries.dtype)

    def apart(rows: np.ndarray) -> np.ndarray:
        rows = (rows * each[:, None]).astype(np.float32, copy=False)
        norms = row_squares(rows)
        return norms[:, None] + norms - 2 * (rows @ rows.T)

    # The median distance is at most twice the mean, and that at most twice the mean norm: who is
    # farther than this share of it by the leading entries alone is no copy.
    reach = 4 * share * float(norms @ np.square(each, dtype=np.float64)) / len(norms)
    leading = entries[:, : -(-entries.shape[1] // LEADING)]
    if np.count_nonzero(apart(leading) <= reach) == len(norms):
        return np.ones(len(norms), int)
    away = apart(entries)
    # At least itself, whatever rounding says.
    return np.maximum(np.count_nonzero(away <= share * np.median(away), axis=1), 1)
