"""What was decided on samples: which count, and the groups that lie apart, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import EachPass
from corrtensor._robust.isolation import Split, Splits
from corrtensor._robust.metric import Metric


@dataclass(frozen=True, repr=False)
class Group:
    """Samples that lie apart from the others, and what became of them; ``str`` puts it in words.

    ``gap`` counts in mean excesses of the others' tail, ``distance`` in robust standard deviations.
    ``because`` says why a group is kept that would have been rejected. ``keeping`` and
    ``rejecting`` are the costs of a group in doubt, as logarithms (``docs/method.md``, section 6).
    """

    samples: np.ndarray
    rejected: bool
    gap: float
    distance: float
    because: str = ""
    keeping: float = math.nan
    rejecting: float = math.nan

    def __str__(self) -> str:
        what = "1 sample lies" if len(self.samples) == 1 else f"{len(self.samples)} samples lie"
        text = f"{what} apart from the others, {self.distance:.1f} robust standard deviations off"
        if self.because:
            return f"{text}: kept, as {self.because}"
        if math.isnan(self.keeping):
            return f"{text}: rejected"
        return (
            f"{text}, but may be of a rare kind: {'rejected' if self.rejected else 'kept'} by "
            f"what either costs. Kept, they make the error of the others "
            f"{math.exp(self.keeping):.3f} times as large; rejected, that of all samples "
            f"{math.exp(self.rejecting):.3f} times"
        )

    def __repr__(self) -> str:
        return f"<Group: {self}>"


@dataclass(frozen=True)
class Stray:
    """A group whose cells stray as a whole, found among some samples that were drawn."""

    drawn: np.ndarray
    split: Split
    group: Group


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
        accepted = self.accepted[self.kept[self.accepted]]
        return float(max(kept[apart.kept].max(), s[accepted].max(initial=0.0)))

    def without(self, group: Group, split: Split, metric: Metric, source: Source) -> Verdict:
        """Reject a group: of the samples asked those that were judged, of all others by the cut."""
        away = np.concatenate(source.reduce(EachPass(metric.measure)).squares)
        away[self.accepted] = split.values
        beyond = self.kept & (away > split.cut)
        scores = np.where(beyond, away / split.scale, self.scores)
        groups = (*self.groups, replace(group, samples=np.flatnonzero(beyond)))
        return Verdict(self.kept & ~beyond, scores, self.accepted[split.kept], groups)

    def without_strays(self, stray: Stray, away: np.ndarray) -> Verdict:
        """Do as was decided on a group: with those that were drawn, and with others by the cut.

        ``away`` tells how far the cells of all samples stray.
        """
        beyond = self.kept & (away > stray.split.cut)
        beyond[stray.drawn] = ~stray.split.kept
        good, group = stray.drawn[stray.split.kept], stray.group
        if not group.rejected:
            samples = stray.drawn[~stray.split.kept]
            return replace(self, groups=(*self.groups, replace(group, samples=samples)))
        kept = self.kept & ~beyond
        far = np.maximum((away - np.median(away[good])) / stray.split.scale, group.distance)
        groups = (*self.groups, replace(group, samples=np.flatnonzero(beyond)))
        scores = np.where(beyond, far, self.scores)
        return Verdict(kept, scores, self.accepted[kept[self.accepted]], groups)
