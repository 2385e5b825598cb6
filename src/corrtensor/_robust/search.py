"""Which samples count: groups are proposed by a metric without scales, and judged one by one.

The rule: ``docs/method.md``, section 6. Some samples are searched, and all are then judged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrtensor._engine.arrays.origin import (
    SINGLE,
    single_holds,
)
from corrtensor._engine.arrays.source import Source, plain
from corrtensor._engine.passes import LARGEST_SQUARE
from corrtensor._engine.products import row_squares
from corrtensor._engine.ranks import Rank
from corrtensor._engine.solver import solve
from corrtensor._engine.start import spectral
from corrtensor._engine.state import Options
from corrtensor._engine.threads import at_once, single_blas
from corrtensor._robust.isolation import FAR, Split, Splits
from corrtensor._robust.metric import SAMPLES, Frame, Metric, count_copies, see
from corrtensor._robust.sizes import rough_distances, with_sizes
from corrtensor._robust.verdict import Group, Verdict
from corrtensor.losses import Power

# The metric that proposes groups is shrunk more than the one that judges them: outliers bend what
# is learned from them, too, and most of all where good samples vary little. The latter is shrunk
# less where teachers are more than twice the entries of a sample: they know small variances, too.
COARSE, FINE = 3.0, 0.3
# Steps towards the metric without scales.
STEPS = 3
# Samples closer than this share of the typical squared distance are copies, and count once there.
COPY = 0.02
# Within this share they are alike, and have one vote together on a group in doubt: with more than
# this share of the votes it is the majority, whatever the number of samples.
ALIKE, MAJORITY = 0.1, 3 / 4
# One thing costs clearly more than another if so many times as much.
CLEARLY = math.log(1.5)
# Fewer samples than this tell nothing about others.
FEWEST = 10
# Of fewer samples a tenth is too few to tell anything: what is no group may still be bad there.
ENOUGH = 10 * FEWEST
# Why a group is kept.
EXCEEDS, COPIES = "they exceed breakdown", "they are the majority where copies count once"
MANY = "they are as many as the others but for chance"


def near(d: np.ndarray) -> np.ndarray:
    """Mark the nearer half, or what is needed to tell anything."""
    return np.asarray(np.argsort(np.argsort(d)) < max(len(d) / 2, 2 * FEWEST))


class Asked:
    """Samples that are looked at; every other one by its rough distance makes a half.

    ``times`` is how many equal ones each stands for.
    """

    def __init__(self, source: Source, away: np.ndarray, times: np.ndarray) -> None:
        self.source, self.away, self.times = source, away, times
        self.odd = np.argsort(np.argsort(away, kind="stable")) % 2 == 1

    def nearest(self) -> np.ndarray:
        """Return the nearest half by Tyler's metric: a sample counts by the inverse square."""
        typical = np.median(self.away) or self.away.max()
        clipped = np.minimum(1.0, typical / np.maximum(self.away, 1e-300))
        frame, entries = seen = see(self.source, clipped)
        weights = clipped = clipped / count_copies(entries, COPY)
        for _ in range(STEPS):
            d = Metric.of(frame, entries, weights, COARSE)[1]
            weights = clipped * np.exp(d.min() - d)
        some = near(d)
        return some if self.are_few(some) else near(self.judged_by(some, seen)[1])

    def judged_by(
        self, some: np.ndarray, seen: tuple[Frame, np.ndarray] | None = None
    ) -> tuple[Metric, np.ndarray]:
        """Return distances from some samples, by halves: none is judged by what it taught.

        They are coarse if all samples are seen in one frame, fine in that of the teachers.
        """
        d, n_entries = np.empty(len(self.away)), math.prod(self.source.sample_shape)

        def judge(half: np.ndarray) -> Metric:
            teachers = some & ~half
            here = teachers | half
            frame, entries = seen or see(self.source.chosen(np.flatnonzero(here)), teachers[here])
            here = here if seen is None else np.ones_like(here)
            few = min(1.0, 2 * n_entries / np.count_nonzero(teachers))
            shrink = COARSE if seen else FINE * few**2
            metric, away = Metric.of(frame, entries, teachers[here], shrink)
            location = float(np.median(away[(half & some)[here]]))
            d[half] = away[half[here]] - location
            return replace(metric, location=location)

        return at_once(judge, (self.odd, ~self.odd), self.source.n_threads)[1], d

    def are_few(self, some: np.ndarray) -> bool:
        """Tell whether a half of some samples is too small to tell anything about others."""
        return bool(min((some & self.odd).sum(), (some & ~self.odd).sum()) < FEWEST)

    def find(self, least: float) -> tuple[Split, Metric] | None:
        """Return a group that is apart, as the others see it, and their metric."""
        some, found = self.nearest(), None
        for first in (True, False, False):
            if self.are_few(some):
                return None
            metric, d = self.judged_by(some)
            splits = Splits(d, least, self.times)
            apart = splits.isolated() or (splits.likeliest() if first else None)
            if apart is None:
                return None
            some, found = apart.kept, (apart, metric)
        return found

    def judge(
        self, split: Split, ranks: tuple[Rank, ...], options: Options, at_all_costs: bool = True
    ) -> Group:
        """Decide on a group that is apart.

        If it is so beyond doubt, or if the others are as foreign to it as it is to them, it is
        rejected. Else it may be of a rarer kind, or of one that varies more, as moving frames do
        beside still ones: then rejecting it must cost less than keeping it. Samples that are alike
        have one vote together: if a group is the majority then, or if it is as large as the rest
        but for chance, it must cost clearly less. If not ``at_all_costs``, rejecting what is
        foreign must not cost clearly more.
        """
        kept = split.kept
        group = Group(np.flatnonzero(~kept), True, split.gap, split.distance)
        if split.beyond_doubt:
            return group
        entries = see(self.source, np.ones(len(kept)))[1]
        votes = 1 / count_copies(entries, ALIKE)
        outvoted = votes[~kept].sum() > MAJORITY * votes.sum()
        foreign = not outvoted and self.is_foreign(split, entries)
        if foreign and at_all_costs:
            return group

        def errors(ranks: tuple[Rank, ...], w: np.ndarray) -> tuple[tuple[Rank, ...], np.ndarray]:
            start = spectral(self.source, ranks, centered=options.center is not None, weights=w)
            fit = solve(self.source, start, Power(2.0), options.brief(1), w)
            return start.ranks, fit.residuals + np.finfo(float).tiny

        fixed, joint = errors(ranks, np.ones(len(kept)))
        own = errors(fixed, kept.astype(float))[1]
        keeping = math.log(joint[kept].mean() / own[kept].mean())
        rejecting = math.log(own.mean() / joint.mean())
        # Of two halves, neither is the one to be left out: a standard deviation of a fair coin.
        many = np.count_nonzero(~kept) > (len(kept) - math.sqrt(len(kept))) / 2
        usual = -CLEARLY if foreign else 0.0
        least = CLEARLY if outvoted or many else usual
        rejected = keeping - rejecting > least
        if foreign and rejected:
            return group
        because = group.because
        if not rejected and (outvoted or keeping - rejecting > usual):
            because = COPIES if outvoted else MANY
        return replace(
            group, rejected=rejected, keeping=keeping, rejecting=rejecting, because=because
        )

    def is_foreign(self, split: Split, entries: np.ndarray) -> bool:
        """Tell whether the others are far from a group, or it is surely no kind of its own."""
        group = ~split.kept
        if self.are_few(group):
            # So few cannot tell. Twice as far off will do, or copies of one sample.
            copies = count_copies(entries, COPY)[group]
            same = copies.min() >= len(copies) and self.times[group].sum() > 1
            return split.distance >= 2 * FAR or bool(same)
        return bool(np.quantile(self.judged_by(group)[1][split.kept], 0.1) > 0)


@dataclass(frozen=True)
class Judge:
    """Decides on a group that was found otherwise than by the metric, for a fit at some ranks.

    ``share`` is the largest one of the weight of the samples that may be rejected.
    """

    ranks: tuple[Rank, ...]
    options: Options
    share: float

    def group(self, rows: Source, split: Split, weights: np.ndarray) -> Group:
        """Return what becomes of samples, in a source, that are apart by a split."""
        asked = Asked(rows, split.values, np.ones(rows.n_samples))
        # The others completed these samples: to them, a rarer kind is foreign, too.
        group = asked.judge(split, self.ranks, self.options, at_all_costs=False)
        if group.rejected and weights[~split.kept].sum() > self.share * weights.sum():
            return replace(group, rejected=False, because=EXCEEDS)
        return group


def in_single(some: Source, away: np.ndarray) -> Source:
    """Return samples in single precision, which halves the cost, if it tells them as well apart."""
    if type(some) is not Source or not isinstance(some.X, np.ndarray) or some.dtype == SINGLE:
        return some
    x = np.concatenate([block for _, _, block in some.blocks(0, some.n_samples)])
    if not single_holds(row_squares(x), float(np.median(away))):
        return some
    options: dict[str, Any] = {"n_jobs": some.n_threads, "block_size": some.block_size}
    return plain(x.astype(SINGLE), **options)


def draw(away: np.ndarray, counting: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose samples evenly by distance: all kinds are there, in whatever order; copies once.

    Return them, and of each sample of how many copies it is one, beside the usual number, if many.
    """
    places = np.linspace(0, len(counting) - 1, min(SAMPLES, len(counting))).astype(int)
    rising = np.argsort(away[counting], kind="stable")
    drawn = np.sort(counting[rising[places]])
    _, first, copies = np.unique(away[drawn], return_index=True, return_counts=True)
    times = np.ones(len(away))
    often = copies / np.median(copies)
    # Samples drawn with replacement are there a few times by chance.
    times[drawn[first]] = np.where(often >= FEWEST, often, 1.0)
    return drawn[np.sort(first)], times


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
    away = rough_distances(source)
    drawn, times = draw(away, np.flatnonzero(counting))
    # What cannot be squared is refused by name at the start of the sweeps.
    if not away.max() < LARGEST_SQUARE:
        return replace(verdict, accepted=drawn[:0])
    # Beside a heap of equal samples, which are met exactly, residuals tell nothing of the others.
    few = len(drawn) < ENOUGH and bool((times == 1).all())
    verdict = with_sizes(verdict, source, away, drawn, few, breakdown)
    if len(drawn) < 2 * FEWEST:
        return replace(verdict, accepted=drawn[:0])
    verdict = replace(verdict, accepted=drawn)
    # A share of those looked at is that of all but for chance: two standard deviations.
    least = (1 - breakdown) * len(drawn) - math.sqrt(len(drawn))
    # One BLAS thread: the number of threads must not change the last digits.
    with single_blas():
        while True:
            some = source.chosen(verdict.accepted)
            how = away[verdict.accepted], times[verdict.accepted]
            asked = Asked(in_single(some, how[0]), *how)
            found = asked.find(least)
            if found is not None and asked.source is not some:
                # What is rejected, and how far off it is, single precision does not decide.
                asked = Asked(some, *how)
                found = asked.find(least)
            if found is None:
                # Where so few cannot tell, their residuals must: by the loss.
                return verdict if verdict.pull is None else replace(verdict, accepted=drawn[:0])
            group = asked.judge(found[0], ranks, options)
            further = verdict.without(group, *found, source) if group.rejected else verdict
            if not group.rejected or counting @ ~further.kept > breakdown * counting.sum():
                because = EXCEEDS if group.rejected else group.because
                group = replace(group, samples=verdict.accepted[group.samples])
                group = replace(group, rejected=False, because=because)
                verdict = replace(verdict, groups=(*verdict.groups, group), pull=None)
                return replace(verdict, gross=None) if because else verdict
            verdict = further
