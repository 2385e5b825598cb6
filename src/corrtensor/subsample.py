"""Fewer samples with fewer entries: where a search is cheap, and how its answer is carried back.

See ``docs/method.md``, section 6. Samples are chosen evenly by their norm, not at random: all
kinds are there, and the order of the samples does not matter. Where the ranks are small beside
the samples, these are then projected onto bases somewhat larger than the ranks ask for; what
lies outside is kept as a number, so that residuals stay those of whole samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from corrtensor.kernels import Factors, expand, project
from corrtensor.losses import lower_quantile
from corrtensor.solver import Solution, State
from corrtensor.sources import LARGE, Source
from corrtensor.starts import spectral, times

# Samples that a search is given.
SUBSAMPLE = 500
# Bases are this many times the rank and this many directions wider...
WIDER, MORE = 1.5, 8
# ... and used if no more than this share of the entries is left.
WORTHWHILE = 0.6


@dataclass(frozen=True)
class Reduced:
    """Samples to search among, and the way back to those they came from.

    ``norms`` are the squared norms of whole samples, ``bases`` what they were projected on.
    """

    source: Source
    drawn: np.ndarray
    norms: np.ndarray
    origin: np.ndarray
    bases: Factors = ()

    def start(
        self, ranks: tuple[int | None, ...], centered: bool, sample_weight: np.ndarray | None
    ) -> State:
        """Return 2DSVD of these samples."""
        start = spectral(self.source, ranks, centered=centered, weights=sample_weight)
        return replace(start, norms=self.norms)

    def lift(self, solution: Solution) -> Solution:
        """Return a solution for these samples as one for whole samples."""
        if not self.bases:
            return solution
        factors = tuple(
            U if U is None or V is None else V @ U
            for U, V in zip(solution.factors, self.bases, strict=True)
        )
        mean = self.origin + expand(solution.mean[None], self.bases)[0]
        return replace(solution, mean=mean, factors=factors)


def draw(source: Source, norms: np.ndarray, sample_weight: np.ndarray | None, size: int) -> Reduced:
    """Choose samples that count evenly by norm, or take all if they are few."""
    counting = np.ones(len(norms)) if sample_weight is None else sample_weight
    drawn = np.flatnonzero(counting)
    if len(drawn) == source.n_samples <= size:
        return Reduced(source, drawn, norms, source.origin)
    if len(drawn) > size:
        places = np.linspace(0, len(drawn) - 1, size).astype(int)
        drawn = np.sort(drawn[np.argsort(norms[drawn], kind="stable")[places]])
    return Reduced(source.chosen(drawn), drawn, norms[drawn], source.origin)


def compress(
    reduced: Reduced, ranks: tuple[int | None, ...], sample_weight: np.ndarray | None
) -> Reduced:
    """Project samples onto wider bases than the ranks ask for, where that pays."""
    source, shape = reduced.source, reduced.source.sample_shape
    wide = tuple(
        None if k is None or WIDER * k + MORE >= a else math.ceil(WIDER * k) + MORE
        for k, a in zip(ranks, shape, strict=True)
    )
    kept = tuple(a if k is None else k for k, a in zip(wide, shape, strict=True))
    if math.prod(kept) > WORTHWHILE * math.prod(shape) or max(shape) > LARGE:
        return reduced
    # No sample may claim more of the bases than a typical one, however large it is.
    typical = lower_quantile(reduced.norms)
    clipped = np.minimum(1.0, typical / np.maximum(reduced.norms, 1e-300))
    # About the origin, so that the bases hold the mean as well.
    bases = spectral(source, wide, centered=False, weights=times(clipped, sample_weight)).factors
    V = [None if U is None else U.astype(source.dtype) for U in bases]
    rows = np.empty((source.n_samples, *kept), source.dtype)
    source.fill(rows, lambda x: project(x, V) * source.dtype.type(source.unit))
    small = Source(rows, origin=np.zeros(kept), unit=source.unit, n_jobs=source.n_threads)
    return replace(reduced, source=small, bases=bases)
