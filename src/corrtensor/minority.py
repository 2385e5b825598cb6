"""The start that asks what does not look like the majority.

Fits of a few random samples compete; each is improved by keeping the better half of the samples
and fitting again, as in the minimum covariance determinant. The best one grows. Copies of one
sample count once: a cluster without residuals would win any half.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corrtensor.kernels import ResidualPass
from corrtensor.losses import Correntropy, Power, lower_quantile
from corrtensor.solver import Options, Solution, State, rounding_of, solve, weighted_quantiles
from corrtensor.sources import Source
from corrtensor.starts import REACH, Rank, grow, leaves_apart, spectral, times, unexplained

# Random starts, the trimming steps each is given, and those the best one is given.
TRIALS, TRIAL_STEPS, BEST_STEPS = 40, 2, 10
LEAST_SAMPLES = 4
# A fit of the majority has no larger median residual than this times that of the other question.
LOST = 1.5
# Samples that fit the majority's subspace almost as well as one that was fitted to them, too, look
# like it, where what is rejected with them in lies far out.
FITTING = 1.5
# Samples among which the trials are judged.
JURY = 300
# Samples closer than this share of the typical squared distance are copies of one.
COPY = 0.02


def multiplicity(rows: np.ndarray, copy: float = COPY) -> np.ndarray:
    """Return for every sample how many there are of it, near-copies included."""
    rows = rows.reshape(len(rows), -1)
    rows = rows - np.median(rows, axis=0)
    squares = np.einsum("ij,ij->i", rows, rows)
    # A sample times 50 must not make all the others look alike.
    rows = rows / np.sqrt(np.maximum(squares, np.median(squares) or 1.0))[:, None]
    squares = np.einsum("ij,ij->i", rows, rows)
    distances = squares[:, None] + squares - 2 * rows @ rows.T
    typical = np.median(distances)
    return (distances <= copy * typical).sum(axis=1) if typical > 0 else np.ones(len(rows))


def better_half(s: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Mark the samples of smallest residual that make up half of the weight."""
    order = np.argsort(s)
    kept = np.cumsum(weight[order]) <= weight.sum() / 2
    kept[: min(2, len(s))] = True
    mask = np.zeros(len(s), dtype=bool)
    mask[order[kept]] = True
    return mask


@dataclass(frozen=True)
class Trials:
    """Samples among which small fits compete."""

    rows: np.ndarray
    weight: np.ndarray
    ranks: tuple[Rank, ...]
    options: Options
    n_jobs: int

    @property
    def n_drawn(self) -> int:
        """The fewest samples that can span a subspace of these ranks."""
        shape = self.rows.shape[1:]
        cells = int(np.prod(shape))
        needed = [
            k * a // cells + 1 for k, a in zip(self.ranks, shape, strict=True) if k is not None
        ]
        return min(len(self.rows), max(LEAST_SAMPLES, *needed))

    def fit(self, chosen: np.ndarray) -> tuple[Solution, np.ndarray]:
        """Return a least squares fit of some samples, and the residuals of all."""
        origin = None if self.options.center is not None else np.zeros(self.rows.shape[1:])
        source = Source(self.rows[chosen], origin=origin, n_jobs=self.n_jobs)
        start = spectral(source, self.ranks, centered=self.options.center is not None)
        once = self.options.brief(1)
        fitted = solve(source, start, Power(2.0), once, self.weight[chosen])
        everyone = Source(self.rows, origin=fitted.mean, n_jobs=self.n_jobs)
        zero = np.zeros(self.rows.shape[1:])
        part = everyone.reduce(ResidualPass(everyone.at(zero, fitted.factors)))
        return fitted, np.concatenate(part.squares) * everyone.unit**2

    def concentrate(self, chosen: np.ndarray, steps: int) -> tuple[float, np.ndarray, Solution]:
        """Fit, keep the better half, fit again; return its cost, the half and the fit."""
        for _ in range(steps):
            fitted, s = self.fit(chosen)
            kept = np.flatnonzero(better_half(s, self.weight))
            if np.array_equal(kept, chosen):
                break
            chosen = kept
        return float(self.weight[kept] @ s[kept]), kept, fitted


def overtaken(grown: Solution, other: Solution, weight: np.ndarray, noise: float) -> bool:
    """Tell whether the other question has the better answer to this one, too.

    Outliers inside a small subspace of their own can win the half and then never grow. And growth
    from the better half can stop among good samples, where their residuals are of two sizes.
    """

    def median(fit: Solution) -> float:
        return max(noise, lower_quantile(weighted_quantiles(fit.residuals, weight)))

    if median(grown) > LOST * median(other):
        return True
    more = (other.weights > 0.5) & (grown.weights < 0.5)
    # A kind of its own needs directions of its own.
    fitting = weight[more] @ (grown.residuals - FITTING * other.residuals)[more] < 0
    return bool(fitting and leaves_apart(other, weight))


def minority(
    source: Source,
    start: State,
    loss: Correntropy,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
    *,
    strict: bool = True,
) -> tuple[Solution, np.ndarray]:
    """Fit the majority, then let it grow; nothing it takes in is doubted."""
    rows = source.take(np.arange(source.n_samples))
    once = times(1.0 / multiplicity(rows), sample_weight)
    jury = np.arange(len(rows))
    if len(rows) > JURY:
        jury = np.sort(rng.choice(len(rows), JURY, replace=False))
    trials = Trials(rows[jury], once[jury], start.ranks, options, source.n_threads)
    odds = trials.weight / trials.weight.sum()
    draws = [rng.choice(len(jury), trials.n_drawn, replace=False, p=odds) for _ in range(TRIALS)]
    best = min((trials.concentrate(np.sort(d), TRIAL_STEPS) for d in draws), key=lambda t: t[0])
    fitted = trials.concentrate(best[1], BEST_STEPS)[2]
    mean = (fitted.mean - source.origin) / source.unit
    part = source.reduce(ResidualPass(source.at(mean, fitted.factors)))
    s = np.concatenate(part.squares)
    counted = better_half(s, once) * once
    state = State(mean, fitted.factors, np.concatenate(part.norms), s, counted)
    grown = grow(source, state, loss, options, once)
    wide = replace(loss, reach=REACH["unexplained"])
    other = unexplained(source, start, wide, options, once, rng, strict=strict)[0]
    assert state.norms is not None  # noqa: S101
    noise = rounding_of(state.norms, source.dtype, once) * source.unit**2
    taken = other if overtaken(grown, other, once, noise) else grown
    return taken, np.zeros(len(rows), dtype=bool)
