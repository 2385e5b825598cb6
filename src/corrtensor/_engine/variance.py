"""How much of the variation a subspace explains, and how likely samples are under it.

Samples count by their weights in the fit. See ``docs/method.md``, section 10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# The least share of the mean variance of an entry that is noise and not rounding.
LEAST_NOISE = 1e-12


@dataclass(frozen=True)
class Explained:
    """Variances, in the data's squared units, of samples that count by their weights.

    ``cores`` is that of every entry of a core, ``noise`` that of one entry of a sample less its
    reconstruction, ``total`` that of all entries of a sample together.
    """

    cores: np.ndarray
    noise: float
    total: float

    @classmethod
    def of(cls, cores: np.ndarray, left: float, n_entries: int) -> Explained:
        """Return it by the variances of cores, and what is left of samples of so many entries."""
        free = n_entries - cores.size
        return cls(cores, left / free if free else 0.0, float(cores.sum()) + left)

    @property
    def ratio(self) -> np.ndarray:
        """The share of the total that each entry of a core explains."""
        return self.cores / (self.total or 1.0)

    @property
    def by_mode(self) -> tuple[np.ndarray, ...]:
        """The shares of the directions of each mode; those of a mode add up to the same."""
        modes = range(self.cores.ndim)
        return tuple(self.ratio.sum(axis=tuple(m for m in modes if m != n)) for n in modes)


def explained(squares: np.ndarray, s: np.ndarray, weights: np.ndarray, n_entries: int) -> Explained:
    """Tell what a subspace explains, from the mean squares of the entries of cores.

    ``s`` are the squared residuals of the samples, which have so many entries.
    """
    count = float(weights.sum())
    # One less than the number of samples, if all count alike.
    freedom = count - float(np.square(weights).sum()) / count or count
    return Explained.of(squares * (count / freedom), float(weights @ s) / freedom, n_entries)


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

    def log_likelihood(
        self, distances: np.ndarray, s: np.ndarray, seen: np.ndarray | float
    ) -> np.ndarray:
        """Return it for samples with some score distances and squared residuals.

        ``seen`` is the share of their entries that they show: these tell as much of every
        direction. The others were completed, and make nothing likelier.
        """
        shares, which = np.unique(seen, return_inverse=True)
        signal, count = self.variances.ravel() - self.noise, self.variances.size
        logs = np.array([np.log(share * signal + self.noise).sum() for share in shares])
        entries = shares * (count + self.n_free)
        logs += (entries - count) * math.log(self.noise) + entries * math.log(2 * math.pi)
        beside = s / self.noise if self.n_free else 0.0
        # Who shows nothing is as likely as can be, wherever he was completed to.
        told = np.where(np.asarray(seen) > 0, np.square(distances) + beside, 0.0)
        return -0.5 * (told + logs[which.ravel()])


def log_likelihood_of_noise(
    squares: np.ndarray, n_entries: int, seen: np.ndarray | float
) -> np.ndarray:
    """Return that of samples as normal noise of their own size, given their squared norms."""
    each = np.maximum(squares / n_entries, np.finfo(float).tiny)
    return -0.5 * seen * n_entries * (1 + np.log(2 * math.pi * each))


def mean_of_best(values: np.ndarray, left_out: float) -> float:
    """Return the mean of all values but the least, of which a share is left out."""
    kept = max(1, math.ceil((1 - left_out) * len(values) - 1e-9))
    return float(np.sort(values)[-kept:].mean())
