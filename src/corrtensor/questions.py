"""Which samples are bad? Two questions, the starts that ask them, and what they disagree on.

See ``docs/method.md``, section 6. A start is sought on a subsample, so that its cost does not
grow with the data, and then judged on all samples.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from corrtensor.leverage import Start, plain, without_leverage
from corrtensor.losses import Correntropy, Loss
from corrtensor.minority import minority, multiplicity
from corrtensor.solver import Contested, Options, State
from corrtensor.sources import Source
from corrtensor.starts import spherical, times, transplant, unexplained
from corrtensor.subsample import SUBSAMPLE, compress, draw

STARTS: dict[str, Start] = {
    "tight": unexplained,
    "spherical": spherical,
    "subsets": minority,
}
# Copies are looked for among so many samples; up to so many, or this share, are none.
COPIES_AMONG, FEW_COPIES, FEW_SHARE, MOST_COPIES = 100, 5, 0.05, 0.9
# Samples closer than this share of the typical squared distance are copies beyond doubt.
VERY_CLOSE = 0.001
# Samples among which those far inside are sought: each entry of the cores needs a scale.
FOR_LEVERAGE = 1000
# Starts that look at residuals alone, and so at samples with fewer entries.
COMPRESSED = ("tight",)


@dataclass(frozen=True)
class Answer:
    """A start, the loss to go on with, and the samples on which another question would differ.

    ``inside`` marks the samples that are not set aside for their leverage, if that was asked.
    """

    state: State
    loss: Loss
    contested: Contested = field(default_factory=Contested)
    inside: np.ndarray | None = None


def copied(source: Source) -> np.ndarray:
    """Mark samples of which there are many near-copies: a majority of its own kind."""
    some = np.unique(np.linspace(0, source.n_samples - 1, COPIES_AMONG).astype(int))
    many = np.zeros(source.n_samples, dtype=bool)
    many[some] = multiplicity(source.take(some), VERY_CLOSE) > max(
        FEW_COPIES, FEW_SHARE * len(some)
    )
    # Where hardly anything else is there, copies are what the data are made of.
    return many & (many[some].mean() < MOST_COPIES)


def ask(
    name: str,
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
    *,
    leverage: bool = False,
) -> Answer:
    """Seek a start by its name and carry it over to all samples."""
    norms = start.norms
    assert norms is not None  # noqa: S101
    seek: Start = STARTS.get(name, plain)
    part = draw(source, norms, sample_weight, FOR_LEVERAGE if leverage else SUBSAMPLE)
    weight = None if sample_weight is None else sample_weight[part.drawn]
    if name in COMPRESSED and not leverage:
        part = compress(part, start.ranks, weight)
    start = part.start(start.ranks, options.center is not None, weight)
    given, inside = (part.source, start, loss, options, weight, rng), None
    if leverage:
        if seek in (unexplained, minority):
            # The half that a stricter fit keeps may be the one that bent the subspace.
            seek = partial(seek, strict=False)
        solution, doubted, regions = without_leverage(seek, *given)
        inside = np.all([region.holds(source) for region in regions], axis=0)
        sample_weight = times(inside.astype(float), sample_weight)
    else:
        solution, doubted = seek(*given)
    if part.source is source:
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
    else:
        state = transplant(part.lift(solution), source, norms, sample_weight)
    doubted = (doubted | copied(part.source)) & (solution.weights > 0.5)
    # What grew further than the question asks for is held by a loss that reaches as far.
    assert isinstance(loss, Correntropy)  # noqa: S101
    assert isinstance(solution.loss, Correntropy)  # noqa: S101
    loss = replace(loss, reach=max(loss.reach, solution.loss.reach))
    return Answer(state, loss, Contested(part.drawn[doubted], float(doubted.mean())), inside)
