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

# The least share of the mean variance of an entry that is noise and not rounding.
LEAST_NOISE = 1e-12


@dataclass(frozen=True)
class VariancePass:
    """The weighted sum of the squares of all entries of the cores."""

    at: Projection

    def __call__(self, blocks: Blocks, weights: np.ndarray) -> Part:
        """Add up one chunk."""
        part = Part()
        part.sums.shift = 0.0
        factors = [None if U is None else U.astype(self.at.dtype) for U in self.at.factors]
        for lo, hi, x in blocks:
            w = weights[lo:hi]
            squares = np.square(project(x - self.at.m, factors))
            part.sums.add(float(w.sum()), weighted_sum(w, squares), {})
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
    part = source.reduce(VariancePass(at), weights=weights)
    count = float(weights.sum())
    # One less than the number of samples, if all count alike.
    freedom = count - float(np.square(weights).sum()) / count or count
    cores = np.asarray(part.sums.first) / freedom * source.unit**2
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


def mean_of_best(values: np.ndarray, left_out: float) -> float:
    """Return the mean of all values but the least, of which a share is left out."""
    kept = max(1, math.ceil((1 - left_out) * len(values) - 1e-9))
    return float(np.sort(values)[-kept:].mean())
