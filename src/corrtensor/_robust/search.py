"""Which samples count: groups are proposed by a metric without scales, and judged one by one.

The rule stands in ``docs/method.md``, section 6. A search looks at a few hundred samples, so that
its cost does not grow with the data; what it found is then carried over to all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from corrtensor._engine.arrays.origin import PILOTS, middle
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.products import row_squares
from corrtensor._engine.ranks import Rank
from corrtensor._engine.solver import solve
from corrtensor._engine.start import spectral
from corrtensor._engine.state import Options
from corrtensor._engine.threads import single_blas
from corrtensor._robust.isolation import FAR, Split, Splits, spread
from corrtensor._robust.metric import Metric, see
from corrtensor.losses import Power

# Samples that a search looks at.
SAMPLES = 300
# The metric that proposes groups is shrunk more than the one that judges them: outliers bend what
# is learned from them, too, and most of all where good samples vary little.
COARSE, FINE = 1.0, 0.3
# Steps towards the metric without scales.
STEPS = 8
# Samples closer than this share of the typical squared distance are copies, and count once there.
COPY = 0.02
# Fewer samples than this tell nothing about others.
FEWEST = 10


@dataclass(frozen=True)
class Group:
    """Samples that lie apart from the others, and what became of them; ``str`` puts it in words.

    ``gap`` counts in mean excesses of the others' tail, ``distance`` in robust standard deviations.
    Where it was in doubt, ``keeping`` is the logarithm of the factor by which the error of the
    others grows if the group is kept, ``rejecting`` of that of all if it is not.
    """

    samples: np.ndarray
    rejected: bool
    gap: float
    distance: float
    keeping: float = math.nan
    rejecting: float = math.nan

    def __str__(self) -> str:
        what = "1 sample lies" if len(self.samples) == 1 else f"{len(self.samples)} samples lie"
        text = f"{what} apart from the others, {self.distance:.1f} robust standard deviations off"
        if math.isnan(self.keeping):
            return f"{text}: {'rejected' if self.rejected else 'kept, as they exceed breakdown'}"
        return (
            f"{text}, but may be of a rare kind: {'rejected' if self.rejected else 'kept'}, a "
            f"close call. Keeping costs the others a factor {math.exp(self.keeping):.2f} in error, "
            f"rejecting costs all {math.exp(self.rejecting):.2f}"
        )


@dataclass(frozen=True)
class Verdict:
    """Which samples count; how far off rejected ones are, and which were looked at and kept."""

    kept: np.ndarray
    scores: np.ndarray
    accepted: np.ndarray
    groups: tuple[Group, ...] = ()

    def largest_good(self, s: np.ndarray, noise: float) -> float:
        """Return the largest squared residual of a sample that is kept and not apart by it."""
        kept = s[self.kept]
        apart = Splits(np.log(np.maximum(kept, noise)), len(kept) / 2).isolated()
        if apart is None or not apart.beyond_doubt:
            return float(kept.max())
        return float(max(kept[apart.kept].max(), s[self.accepted].max()))


class Finding(NamedTuple):
    """A group that is apart, and the metric of the others by which further samples are judged."""

    split: Split
    metric: Metric
    location: float
    scale: float


def rough_distances(source: Source) -> np.ndarray:
    """Return the squared distances from the median of some samples."""
    some = np.unique(np.linspace(0, source.n_samples - 1, PILOTS).astype(int))
    place = ((middle(source.take(some)) - source.origin) / source.unit).astype(source.dtype)
    away = np.empty(source.n_samples)
    source.fill(away, lambda x: row_squares(x - place))
    return away


def distances(
    source: Source, norms: np.ndarray, learned: np.ndarray
) -> tuple[Metric, np.ndarray] | None:
    """Return the metric of some samples, and the distances of all."""
    seen = see(source, norms, learned.astype(float))
    metric = seen.metric(learned.astype(float), FINE)
    return None if metric is None else (metric, seen.distances(metric))


def propose(source: Source, norms: np.ndarray) -> Iterator[np.ndarray]:
    """Yield distances by which a group may be apart, the likelier ones first.

    First those of the metric without scales: Tyler's estimate, in which a sample counts by the
    inverse of its squared distance. Then those from the half that this metric finds far: a large
    group of little variety can make itself the centre.
    """
    away = rough_distances(source)
    typical = np.median(away) or away.max()
    clipped = np.minimum(1.0, typical / np.maximum(away, 1e-300))
    seen = see(source, norms, clipped)
    weights = clipped = clipped / seen.copies(COPY)
    for _ in range(STEPS):
        metric = seen.metric(weights, COARSE)
        if metric is None:
            return
        d = seen.distances(metric)
        weights = clipped * np.exp(d.min() - d)
    yield d
    far = (d > np.median(d)).astype(float)
    metric = seen.metric(far, COARSE) if far.any() else None
    if metric is not None:
        yield seen.distances(metric)


def crossed(
    source: Source, norms: np.ndarray, learned: np.ndarray
) -> tuple[Metric, float, float, np.ndarray] | None:
    """Return distances from some samples, none judged by what was learned from it.

    Each half judges the other, from the median of its own. Also returned are the metric of one
    half, and the median and spread of the other half in it; nothing if a half does not vary.
    """
    d = np.zeros(len(norms))
    for half in (odd(norms), ~odd(norms)):
        judged = distances(source, norms, learned & ~half)
        if judged is None:
            return None
        metric, mine = judged[0], judged[1][learned & half]
        location, scale = spread(mine, np.ones(len(mine)))
        d = np.where(half, judged[1] - location, d)
    return metric, location, scale, d


def odd(norms: np.ndarray) -> np.ndarray:
    """Mark every other sample by norm, so that both halves have small ones and large ones."""
    return np.asarray(np.argsort(np.argsort(norms, kind="stable")) % 2 == 1)


def are_few(norms: np.ndarray, chosen: np.ndarray) -> bool:
    """Tell whether a half of some samples is too small to tell anything about others."""
    halves = (chosen & odd(norms), chosen & ~odd(norms))
    return min(int(np.count_nonzero(half)) for half in halves) < FEWEST


def confirm(source: Source, norms: np.ndarray, d: np.ndarray, least: float) -> Finding | None:
    """Let the samples below the likeliest gap judge all; twice, if they find a group apart."""
    split = Splits(d, least).likeliest()
    judged = None if split is None else distances(source, norms, split.kept)
    # The share among those looked at is that in all but for chance: two standard deviations.
    least -= math.sqrt(len(norms))
    apart = None if judged is None else Splits(judged[1], least).isolated()
    if apart is None or are_few(norms, apart.kept):
        return None
    others = crossed(source, norms, apart.kept)
    apart = None if others is None else Splits(others[3], least).isolated()
    return None if others is None or apart is None else Finding(apart, *others[:3])


def judge(
    source: Source, norms: np.ndarray, split: Split, ranks: tuple[Rank, ...], options: Options
) -> Group:
    """Decide on a group that is apart.

    If it is so beyond doubt, or if the others are as foreign to it as it is to them, it is
    rejected. Else it may be of a rarer kind, or of one that varies more, as moving frames do
    beside still ones: then rejecting it must cost less than keeping it.
    """
    kept = split.kept
    group = Group(np.flatnonzero(~kept), True, split.gap, split.distance)
    if split.beyond_doubt:
        return group
    if are_few(norms, ~kept):
        # They cannot tell what is foreign to them, unless they are copies of one sample; twice as
        # far as is needed will do.
        if split.distance >= 2 * FAR:
            return group
        size = len(group.samples)
        if see(source, norms, np.ones(len(norms))).copies(COPY)[~kept].min() >= size > 1:
            return group
    else:
        theirs = crossed(source, norms, ~kept)
        if theirs is None or np.quantile(theirs[3][kept], 0.1) > 0:
            return group

    def errors(ranks: tuple[Rank, ...], w: np.ndarray) -> tuple[tuple[Rank, ...], np.ndarray]:
        start = spectral(source, ranks, centered=options.center is not None, weights=w)
        fit = solve(source, start, Power(2.0), options.brief(1), w)
        return start.ranks, fit.residuals + np.finfo(float).tiny

    fixed, joint = errors(ranks, np.ones(len(kept)))
    own = errors(fixed, kept.astype(float))[1]
    keeping = math.log(joint[kept].mean() / own[kept].mean())
    rejecting = math.log(own.mean() / joint.mean())
    return replace(group, rejected=keeping > rejecting, keeping=keeping, rejecting=rejecting)


def draw(source: Source, norms: np.ndarray, counting: np.ndarray) -> np.ndarray:
    """Choose samples evenly by norm: all kinds are there, in whatever order, and copies once."""
    places = np.linspace(0, len(counting) - 1, min(SAMPLES, len(counting))).astype(int)
    drawn = np.sort(counting[np.argsort(norms[counting], kind="stable")[places]])
    marks = np.stack([norms[drawn], rough_distances(source.chosen(drawn))])
    return drawn[np.sort(np.unique(marks, axis=1, return_index=True)[1])]


def search(
    source: Source,
    norms: np.ndarray,
    ranks: tuple[Rank, ...],
    options: Options,
    sample_weight: np.ndarray | None,
    breakdown: float,
) -> Verdict:
    """Find the groups of samples that are apart, one after the other, and judge them."""
    counting = np.ones(len(norms)) if sample_weight is None else sample_weight
    drawn = draw(source, norms, np.flatnonzero(counting))
    verdict = Verdict(np.ones(len(norms), bool), np.full(len(norms), -np.inf), drawn)
    if breakdown == 0:
        return verdict
    if len(drawn) < 2 * FEWEST:
        return replace(verdict, accepted=drawn[:0])
    least = (1 - breakdown) * len(drawn)
    again = True
    # One BLAS thread: the number of threads must not change the last digits.
    with single_blas():
        while again:
            again = False
            asked = source.chosen(verdict.accepted), norms[verdict.accepted]
            for d in propose(*asked):
                found = confirm(*asked, d, least)
                if found is None:
                    continue
                group = judge(*asked, found.split, ranks, options)
                if group.rejected:
                    carried = carry_over(found, group, source, verdict)
                    if again := bool(counting @ ~carried.kept <= breakdown * counting.sum()):
                        verdict = carried
                        break
                group = replace(group, samples=verdict.accepted[group.samples], rejected=False)
                # Found in two ways, it is still one group.
                others = (g for g in verdict.groups if not np.array_equal(g.samples, group.samples))
                verdict = replace(verdict, groups=(*others, group))
    return verdict


def carry_over(found: Finding, group: Group, source: Source, verdict: Verdict) -> Verdict:
    """Reject a group: of the samples asked those that were judged, of all others by the cut."""
    away, asked = np.empty(len(verdict.kept)), verdict.accepted
    source.fill(away, found.metric.measure)
    away -= found.location
    beyond = verdict.kept & (away > found.split.cut)
    beyond[asked] = ~found.split.kept
    return Verdict(
        verdict.kept & ~beyond,
        np.where(beyond, away / found.scale, verdict.scores),
        asked[found.split.kept],
        (*verdict.groups, replace(group, samples=np.flatnonzero(beyond))),
    )
