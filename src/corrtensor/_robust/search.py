"""Which samples count: groups are proposed by a metric without scales, and judged one by one.

The rule stands in ``docs/method.md``, section 6. A search looks at a few hundred samples, so that
its cost does not grow with the data; what it found is then carried over to all of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from corrtensor._engine.arrays.origin import PILOTS, middle
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import LARGEST_SQUARE
from corrtensor._engine.products import row_squares
from corrtensor._engine.ranks import Rank
from corrtensor._engine.solver import solve
from corrtensor._engine.start import spectral
from corrtensor._engine.state import Options
from corrtensor._engine.threads import single_blas
from corrtensor._robust.isolation import FAR, Split, Splits, spread
from corrtensor._robust.metric import SAMPLES, Frame, Metric, count_copies
from corrtensor.losses import Power

# The metric that proposes groups is shrunk more than the one that judges them: outliers bend what
# is learned from them, too, and most of all where good samples vary little.
COARSE, FINE = 1.0, 0.3
# Steps towards the metric without scales.
STEPS = 4
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

    def keeping(self, group: Group) -> Verdict:
        """Note a group that is kept."""
        group = replace(group, samples=self.accepted[group.samples], rejected=False)
        return replace(self, groups=(*self.groups, group))

    def rejecting(self, group: Group, split: Split, others: Judgement, source: Source) -> Verdict:
        """Reject a group: of the samples asked those that were judged, of all others by the cut."""
        away = np.empty(len(self.kept))
        source.fill(away, others.metric.measure)
        away -= others.location
        beyond = self.kept & (away > split.cut)
        beyond[self.accepted] = ~split.kept
        return Verdict(
            self.kept & ~beyond,
            np.where(beyond, away / others.scale, self.scores),
            self.accepted[split.kept],
            (*self.groups, replace(group, samples=np.flatnonzero(beyond))),
        )


class Judgement(NamedTuple):
    """A metric, median and spread of some samples in it, and distances of all from that median."""

    metric: Metric
    location: float
    scale: float
    distances: np.ndarray


class Asked:
    """Samples that are looked at, and how far each is from their rough middle.

    Every other one by that distance makes a half, so that both have near ones and far ones.
    """

    def __init__(self, source: Source, away: np.ndarray) -> None:
        self.source, self.away = source, away
        self.odd = np.argsort(np.argsort(away, kind="stable")) % 2 == 1

    def without_scales(self) -> np.ndarray:
        """Return distances by Tyler's metric: a sample counts by the inverse of its square."""
        typical = np.median(self.away) or self.away.max()
        clipped = np.minimum(1.0, typical / np.maximum(self.away, 1e-300))
        frame = Frame.of(self.source, clipped)
        entries = frame.entries(self.source)
        weights = clipped = clipped / count_copies(entries, COPY)
        for _ in range(STEPS):
            d = Metric.of(frame, entries, weights, COARSE).distances(entries)
            weights = clipped * np.exp(d.min() - d)
        return d

    def judged_by(self, some: np.ndarray) -> Judgement:
        """Return distances from some samples, by halves: none is judged by what it taught."""
        d = np.empty(len(self.away))
        for half in (self.odd, ~self.odd):
            teachers, judged = (self.source.chosen(np.flatnonzero(m)) for m in (some & ~half, half))
            frame = Frame.of(teachers, np.ones(teachers.n_samples))
            metric = Metric.of(frame, frame.entries(teachers), np.ones(teachers.n_samples), FINE)
            d[half] = metric.distances(frame.entries(judged))
            location, scale = spread(d[half & some])
            d[half] -= location
        return Judgement(metric, location, scale, d)

    def are_few(self, some: np.ndarray) -> bool:
        """Tell whether a half of some samples is too small to tell anything about others."""
        return bool(min((some & self.odd).sum(), (some & ~self.odd).sum()) < FEWEST)

    def find(self, least: float) -> tuple[Split, Judgement] | None:
        """Return a group that is apart from the others, as these see it.

        The nearest half judges all; then all below the likeliest gap; then all that are not apart.
        """
        d = self.without_scales()
        learned = np.argsort(np.argsort(d)) < max(least, 2 * FEWEST)
        for first in (True, False, False):
            if self.are_few(learned):
                return None
            others = self.judged_by(learned)
            # A share of those looked at is that of all but for chance: two standard deviations.
            splits = Splits(others.distances, least - math.sqrt(len(d)))
            found = splits.isolated() or (splits.likeliest() if first else None)
            if found is None:
                return None
            learned = found.kept
        return None if found is None else (found, others)

    def judge(self, split: Split, ranks: tuple[Rank, ...], options: Options) -> Group:
        """Decide on a group that is apart.

        If it is so beyond doubt, or if the others are as foreign to it as it is to them, it is
        rejected. Else it may be of a rarer kind, or of one that varies more, as moving frames do
        beside still ones: then rejecting it must cost less than keeping it.
        """
        kept = split.kept
        group = Group(np.flatnonzero(~kept), True, split.gap, split.distance)
        if split.beyond_doubt or self.is_foreign(split):
            return group
        fixed, joint = self.errors(ranks, np.ones(len(kept)), options)
        own = self.errors(fixed, kept.astype(float), options)[1]
        keeping = math.log(joint[kept].mean() / own[kept].mean())
        rejecting = math.log(own.mean() / joint.mean())
        return replace(group, rejected=keeping > rejecting, keeping=keeping, rejecting=rejecting)

    def is_foreign(self, split: Split) -> bool:
        """Tell whether the others are far from a group, or it is surely no kind of its own."""
        group = ~split.kept
        if not self.are_few(group):
            return bool(np.quantile(self.judged_by(group).distances[split.kept], 0.1) > 0)
        # They cannot tell what is foreign to them. Twice as far as is needed will do, or that
        # they are copies of one sample.
        frame = Frame.of(self.source, np.ones(len(group)))
        copies = count_copies(frame.entries(self.source), COPY)[group]
        return split.distance >= 2 * FAR or bool(copies.min() >= len(copies) > 1)

    def errors(
        self, ranks: tuple[Rank, ...], weights: np.ndarray, options: Options
    ) -> tuple[tuple[Rank, ...], np.ndarray]:
        """Return the ranks of a plain fit to weighted samples, and the squared residuals of all."""
        start = spectral(self.source, ranks, centered=options.center is not None, weights=weights)
        fit = solve(self.source, start, Power(2.0), options.brief(1), weights)
        return start.ranks, fit.residuals + np.finfo(float).tiny


def rough_distances(source: Source) -> np.ndarray:
    """Return the squared distances from the median of some samples, and from the origin."""
    some = np.unique(np.linspace(0, source.n_samples - 1, PILOTS).astype(int))
    place = ((middle(source.take(some)) - source.origin) / source.unit).astype(source.dtype)
    both = np.empty((source.n_samples, 2))
    with np.errstate(over="ignore"):
        source.fill(both, lambda x: np.column_stack([row_squares(x - place), row_squares(x)]))
    return both


def draw(rough: np.ndarray, counting: np.ndarray) -> np.ndarray:
    """Choose samples evenly by distance: all kinds are there, in whatever order; copies once."""
    places = np.linspace(0, len(counting) - 1, min(SAMPLES, len(counting))).astype(int)
    drawn = np.sort(counting[np.argsort(rough[counting, 0], kind="stable")[places]])
    return drawn[np.sort(np.unique(rough[drawn], axis=0, return_index=True)[1])]


def search(
    source: Source,
    ranks: tuple[Rank, ...],
    options: Options,
    sample_weight: np.ndarray | None,
    breakdown: float,
) -> Verdict:
    """Find the groups of samples that are apart, one after the other, and judge them."""
    n = source.n_samples
    counting = np.ones(n) if sample_weight is None else sample_weight
    verdict = Verdict(np.ones(n, bool), np.full(n, -np.inf), np.arange(n))
    if breakdown == 0:
        return verdict
    rough = rough_distances(source)
    drawn = draw(rough, np.flatnonzero(counting))
    # What cannot be squared is refused by name at the start of the sweeps.
    if len(drawn) < 2 * FEWEST or not rough.max() < LARGEST_SQUARE:
        return replace(verdict, accepted=drawn[:0])
    verdict, least = replace(verdict, accepted=drawn), (1 - breakdown) * len(drawn)
    # One BLAS thread: the number of threads must not change the last digits.
    with single_blas():
        while True:
            asked = Asked(source.chosen(verdict.accepted), rough[verdict.accepted, 0])
            found = asked.find(least)
            if found is None:
                return verdict
            group = asked.judge(found[0], ranks, options)
            further = verdict.rejecting(group, *found, source) if group.rejected else verdict
            if not group.rejected or counting @ ~further.kept > breakdown * counting.sum():
                return verdict.keeping(group)
            verdict = further
