"""Which samples are bad? Two questions, the starts that ask them, and what they disagree on.

See ``docs/method.md``, section 6. A start is sought on a subsample, so that its cost does not
grow with the data, and then judged on all samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from corrtensor.kernels import project
from corrtensor.losses import Correntropy, Loss, upper_edge
from corrtensor.minority import minority
from corrtensor.solver import Options, Solution, State, weighted_quantiles
from corrtensor.sources import Source
from corrtensor.starts import grow, spectral, spherical, times, transplant, unexplained

# How far above the median good residuals reach, in standard deviations of their logarithm.
REACH = {"unexplained": 4.5, "minority": 1.8}
LEVERAGE_REACH = 4.0
STARTS: dict[str, Callable[..., tuple[Solution, np.ndarray]]] = {
    "tight": unexplained,
    "spherical": spherical,
    "subsets": minority,
}
# Samples, and bytes of them, on which a start is sought.
SUBSAMPLE, SUBSAMPLE_BYTES = 1000, 1 << 27


@dataclass(frozen=True)
class Answer:
    """A start, and the samples on which another question would have another answer."""

    state: State
    contested: np.ndarray


def ask(
    name: str,
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
) -> Answer:
    """Seek a start by its name and carry it over to all samples."""
    drawn = np.arange(source.n_samples)
    part, weight = source, sample_weight
    size = min(SUBSAMPLE, max(2, SUBSAMPLE_BYTES // (8 * math.prod(source.sample_shape))))
    if source.n_samples > size:
        # Evenly by norm, not at random: all kinds are there, and their order does not matter.
        assert start.norms is not None  # noqa: S101
        places = np.linspace(0, source.n_samples - 1, size).astype(int)
        drawn = np.argsort(start.norms, kind="stable")[places]
        part = Source(source.take(drawn), n_jobs=source.n_threads)
        weight = None if sample_weight is None else sample_weight[drawn]
        ranks = tuple(None if U is None else U.shape[1] for U in start.factors)
        start = spectral(part, ranks, centered=options.center is not None, weights=weight)
    solution, doubted = STARTS[name](part, start, loss, options, weight, rng)
    if part is source:
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
    else:
        state = transplant(solution, source, sample_weight)
    return Answer(state, drawn[doubted & (solution.weights > 0.5)])


def score_distances(source: Source, state: State) -> np.ndarray:
    """Return how far each core lies from the others: its mean square in robust units.

    Location and scale are the median and the median absolute deviation of each entry over a
    part of the samples, which is cheap however many entries a core has.
    """
    factors = source.at(state.mean, state.factors).U
    some = np.unique(np.linspace(0, source.n_samples - 1, SUBSAMPLE).astype(int))
    rows = (source.take(some) - source.origin) / source.unit
    cores = project(rows.astype(source.dtype), factors).reshape(len(some), -1)
    location = np.median(cores, axis=0)
    scale = 1.4826 * np.median(np.abs(cores - location), axis=0)
    # Columns of padding, and entries that never vary, have nothing to say.
    used = scale > 1e-6 * scale.max(initial=0.0)
    if not used.any():
        return np.ones(source.n_samples)
    distances = np.empty(source.n_samples)

    def task(blocks: object) -> None:
        for lo, hi, x in blocks:  # type: ignore[attr-defined]
            z = project(x, factors).reshape(hi - lo, -1)[:, used] - location[used]
            distances[lo:hi] = np.square(z / scale[used]).mean(axis=1)

    for _ in source.map(task):
        continue
    return distances


def without_leverage(
    source: Source, state: State, loss: Loss, options: Options, sample_weight: np.ndarray | None
) -> tuple[State, np.ndarray]:
    """Let go of samples far out inside the subspace; return a start and what is left of weights."""
    kept = np.ones(source.n_samples)
    for _ in range(2):
        d = score_distances(source, state)
        edge = upper_edge(weighted_quantiles(d, state.counted), LEVERAGE_REACH)
        kernel = Correntropy(4.0, 1.0, scale=math.sqrt(edge))
        log_w = kernel.log_weight(d)
        kept = kept * np.exp(log_w - log_w.max())
        weight = times(kept, sample_weight)
        solution = grow(source, replace(state, counted=weight), loss, options, weight)
        state = replace(solution.state, counted=times(solution.weights, weight))
    return state, kept
