"""Which samples are bad? Two questions, the starts that ask them, and what they disagree on.

See ``docs/method.md``, section 6. A start is sought on a subsample, so that its cost does not
grow with the data, and then judged on all samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from corrtensor.losses import Loss
from corrtensor.minority import minority
from corrtensor.solver import Options, Solution, State
from corrtensor.sources import Source
from corrtensor.starts import spectral, spherical, times, transplant, unexplained

# How far above the median good residuals reach, in standard deviations of their logarithm.
REACH = {"unexplained": 4.5, "minority": 1.8}
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
