"""How much of the variation a subspace explains, and how likely samples are under it.

Samples count by their weights in the fit. See ``docs/method.md``, section 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import Blocks, Part, Projection, weighted_sum
from corrtensor._engine.products import Factors, project

# Of many samples every fourth is looked at, but no fewer than so many: a pass over all would take
# a twentieth of a fit.
MOST_SKIPPED, FEWEST_SEEN = 4, 1000
# The least share of the mean variance of an entry that is noise and not rounding.
LEAST_NOISE = 1e-12


@dataclass(frozen=True)
class VariancePass:
    """The weighted sum of the squares of all entries of the cores, of every ``step``-th sample."""

    at: Projection
    step: int = 1

    def __call__(self, blocks: Blocks, weights: np.ndarray) -> Part:
        """Add up one chunk."""
        part = Part()
        part.sums.shift = 0.0
        # The mean is taken from the cores, not from the samples: they are smaller.
        center = project(self.at.m[None], self.at.U)
        for lo, hi, x in blocks:
            w = weights[lo:hi][:: self.step]
            cores = project(x[:: self.step], self.at.U)
            cores -= center
            part.sums.add(float(w.sum()), weighted_sum(w, np.square(cores, out=cores)), {})
        return part


@dataclass(frozen=True)
class Explained:
    """Variances, in the data's squared units, of samples that count by their weights.

    ``cores`` is that of every entry of a core, ``noise`` that of one entry of a sample less its
    reconstruction, ``total`` that of all entries of a sample together.
    """

    cores: np.ndarray
    noise: float
    total: float

    @property
    def ratio(self) -> np.ndarray:
        """The share of the total that each entry of a core explains."""
        return self.cores / (self.total or 1.0)

    @property
    def by_mode(self) -> tuple[np.ndarray, ...]:
        """The shares of the directions of each mode; those of a mode add up to the same."""
        modes = range(self.cores.ndim)
        return tuple(self.ratio.sum(axis=tuple(m for m in modes if m != n)) for n in modes)


def explained(
    source: Source, mean: np.ndarray, factors: Factors, s: np.ndarray, weights: np.ndarray
) -> Explained:
    """Measure what a subspace explains of the samples; ``s`` are their squared residuals."""
    at = source.at((mean - source.origin) / source.unit, factors)
    step = min(MOST_SKIPPED, max(1, source.n_samples // FEWEST_SEEN))
    part = source.reduce(VariancePass(at, step), weights=weights)
    if part.sums.weight == 0 and step > 1:
        # All the weight lies on samples between.
        part = source.reduce(VariancePass(at), weights=weights)
    count = float(weights.sum())
    # One less than the number of samples, if all count alike.
    freedom = count - float(np.square(weights).sum()) / count or count
    shape = zip(source.sample_shape, factors, strict=True)
    own = tuple(slice(a if U is None else U.shape[1]) for a, U in shape)
    squares = np.asarray(part.sums.first)[own] / part.sums.weight
    cores = squares * (count / freedom) * source.unit**2
    left = float(weights @ s) / freedom
    free = math.prod(source.sample_shape) - cores.size
    return Explained(cores, left / free if free else 0.0, float(cores.sum()) + left)


@dataclass(frozen=True)
class Gaussian:
    """Independent normal entries of the cores, and normal noise of one size beside them.

    The probabilistic PCA of Tipping and Bishop (1999), if samples are vectors.
    """

    variances: np.ndarray
    noise: float
    n_free: int

    @classmethod
    def of(cls, variances: np.ndarray, noise: float, n_entries: int) -> Gaussian:
        """Return the model; no direction varies less than the noise."""
        n_free = n_entries - variances.size
        total = float(variances.sum()) + n_free * noise
        least = max(noise, LEAST_NOISE * total / n_entries, np.finfo(float).tiny)
        return cls(np.maximum(variances, least), least, n_free)

    def log_likelihood(self, distances: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return it for samples with some score distances and squared residuals."""
        logs = float(np.log(self.variances).sum()) + self.n_free * math.log(self.noise)
        logs += (self.variances.size + self.n_free) * math.log(2 * math.pi)
        beside = s / self.noise if self.n_free else 0.0
        return -0.5 * (np.square(distances) + beside + logs)


def log_likelihood_of_noise(squares: np.ndarray, n_entries: int) -> np.ndarray:
    """Return that of samples as normal noise of their own size, given their squared norms."""
    each = np.maximum(squares / n_entries, np.finfo(float).tiny)
    return -0.5 * n_entries * (1 + np.log(2 * math.pi * each))


def mean_of_best(values: np.ndarray, left_out: float) -> float:
    """Return the mean of all values but the least, of which a share is left out."""
    kept = max(1, math.ceil((1 - left_out) * len(values) - 1e-9))
    return float(np.sort(values)[-kept:].mean())
