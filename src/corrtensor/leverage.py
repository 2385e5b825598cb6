"""Samples that the subspace explains, but that lie far from all others inside it.

Such leverage points have small residuals because they bend the subspace towards themselves, so no
loss of the residuals lets go of them. See ``docs/method.md``, section 6. A start is sought, the
samples that are far inside its subspace are set aside, and it is sought again without them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from corrtensor.dask_source import source_of
from corrtensor.kernels import project
from corrtensor.losses import NORMAL_QUARTILE, Loss, lower_quantile
from corrtensor.minority import better_half
from corrtensor.scores import DRAWN, CoreModel, ScorePass, summarise, systematic
from corrtensor.solver import Options, Solution, State, solve, weighted_quantiles
from corrtensor.sources import Source
from corrtensor.starts import spectral, times

Start = Callable[..., tuple[Solution, np.ndarray]]

# Good distances end so many standard deviations of their logarithm above the median, but at no
# less than so many medians: a core with somewhat larger entries than usual does little harm.
REACH, LEAST = 4.0, 1.75
# Ratios of quartiles above this are no spread but a sign of copies.
WIDEST = 10.0
# Fewer samples than this tell nothing about one another; a half has no fewer than this.
FEWEST, FEWEST_HALF = 20, 25
# What is kept grows no faster than this: while it is small, outliers look nearer than they are.
FASTEST = 1.25
# Times that a start is sought, and steps in which the samples near inside are found each time.
ROUNDS, STEPS = 5, 10


@dataclass(frozen=True)
class Inside:
    """Where a subspace has its good cores: within ``cut`` of a location."""

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    cores: CoreModel
    cut: float

    def holds(self, source: Source) -> np.ndarray:
        """Mark the samples whose cores are inside, in one pass."""
        here = source_of(
            source.X, origin=self.mean, n_jobs=source.n_threads, block_size=source.block_size
        )
        measure = ScorePass(self.factors, self.cores, here.unit, here.dtype)
        return np.concatenate(here.reduce(measure).squares) <= self.cut


def plain(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
) -> tuple[Solution, np.ndarray]:
    """Sweep from the start as it is, the paper's way; nothing is doubted."""
    return solve(source, start, loss, options, sample_weight), np.zeros(source.n_samples, bool)


def cores_of(source: Source, solution: Solution) -> np.ndarray:
    """Return the flattened core of every sample, in the data's units."""
    here = source_of(
        source.X, origin=solution.mean, n_jobs=source.n_threads, block_size=source.block_size
    )
    U = [None if V is None else V.astype(here.dtype) for V in solution.factors]
    shape = project(np.zeros((1, *here.sample_shape), here.dtype), U).shape[1:]
    cores = np.empty((here.n_samples, *shape))
    here.fill(cores, lambda x: project(x, U) * here.unit)
    return cores.reshape(here.n_samples, -1)


def edge(distances: np.ndarray, weight: np.ndarray) -> float:
    """Return where the distances of the samples that count should end.

    Their logarithms are roughly normal; the smaller of the two quartile distances is the one
    that outliers have not stretched.
    """
    spread = weighted_quantiles(distances, weight)
    low, middle, high = (lower_quantile(spread, share) for share in (0.25, 0.5, 0.75))
    if low == 0:
        # So many copies of one core have no spread to compare the others with.
        return math.inf
    ratio = min(middle / low, high / middle, WIDEST)
    return middle * max(LEAST, ratio ** (REACH / NORMAL_QUARTILE))


@dataclass(frozen=True)
class Cores:
    """Flattened cores, the residuals by which they are drawn, and how much each counts."""

    flat: np.ndarray
    s: np.ndarray
    weight: np.ndarray

    def measure(self, kept: np.ndarray) -> tuple[CoreModel, np.ndarray]:
        """Learn from the kept samples; return the distances of all."""
        w = self.weight * kept
        drawn = np.flatnonzero(w)
        if len(drawn) > DRAWN:
            drawn = systematic(self.s, w, DRAWN)
            w = np.ones_like(w)
        model = summarise(self.flat[drawn], w[drawn])
        return model, model.distances(self.flat)

    def half(self, kept: np.ndarray) -> np.ndarray:
        """Return the half of the samples nearest to one another, unless it is too small."""
        for _ in range(STEPS if self.weight.sum() >= 2 * FEWEST_HALF else 0):
            nearest = better_half(self.measure(kept)[1], self.weight)
            if np.array_equal(nearest, kept):
                break
            kept = nearest
        return kept

    def settle(self, kept: np.ndarray) -> tuple[CoreModel, float, np.ndarray]:
        """Keep all that is within the edge of what is kept, until nothing changes."""
        enough = self.weight.sum() >= FEWEST
        for _ in range(STEPS):
            model, distance = self.measure(kept)
            cut = edge(distance, self.weight * kept) if enough else math.inf
            most = min(len(kept), int(FASTEST * kept.sum()) + 1)
            near = distance <= min(cut, np.partition(distance, most - 1)[most - 1])
            if np.array_equal(near, kept):
                break
            kept = near
        return model, cut, distance <= cut

    def majority(self, kept: np.ndarray) -> tuple[CoreModel, float, np.ndarray]:
        """Settle on a set that holds at least half of the samples, or on all of them."""
        for _ in range(2):
            model, cut, near = self.settle(kept)
            if 2 * self.weight[near].sum() >= self.weight.sum():
                return model, cut, near
            # Outliers of little spread won the half: what is far from them is the majority.
            kept = ~near
        return model, math.inf, np.ones_like(near)


def without_leverage(
    seek: Start,
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
) -> tuple[Solution, np.ndarray, list[Inside]]:
    """Seek a start until no sample that counts in it is far inside.

    Returned are the solution, what it doubts, and every region that samples had to be inside of.
    """
    weight = np.ones(source.n_samples) if sample_weight is None else sample_weight
    allowed = np.ones(source.n_samples, dtype=bool)
    regions: list[Inside] = []
    for _ in range(ROUNDS):
        prior = sample_weight if allowed.all() else weight * allowed
        solution, doubted = seek(source, start, loss, options, prior, rng)
        typical = lower_quantile(weighted_quantiles(solution.weights, weight * allowed))
        counts = allowed & (solution.weights >= 0.5 * typical)
        cores = Cores(cores_of(source, solution), solution.residuals, weight * counts)
        model, cut, near = cores.majority(counts if regions else cores.half(counts))
        shape = [
            a if U is None else U.shape[1]
            for a, U in zip(source.sample_shape, solution.factors, strict=True)
        ]
        regions.append(Inside(solution.mean, solution.factors, model.shaped(shape), cut))
        if near[counts].all():
            break
        allowed &= near
        start = spectral(
            source,
            start.ranks,
            centered=options.center is not None,
            weights=times(allowed, sample_weight),
        )
    return solution, doubted, regions
