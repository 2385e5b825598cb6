"""What was decided on samples: which count, and the groups that lie apart, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import EachPass
from corrtensor._engine.weights import times
from corrtensor._robust.isolation import Split, Splits, spread
from corrtensor._robust.metric import Metric

# What cannot be divided by, or be a logarithm, is this.
SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, repr=False)
class Group:
    """Samples that lie apart from the others, and what became of them; ``str`` puts it in words.

    ``gap`` counts in mean excesses of the others' tail, ``distance`` in robust standard deviations;
    samples that are gross by their size have no such gap, and NaN there.
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
    """Which samples count; how far off rejected ones are, and which were looked at and kept.

    ``sizes`` are squared distances from the middle, in typical ones; by these alone samples are
    ``gross``. ``pull`` says how much each of few samples has to say about the start.
    """

    kept: np.ndarray
    scores: np.ndarray
    accepted: np.ndarray
    groups: tuple[Group, ...] = ()
    sizes: np.ndarray | None = None
    gross: np.ndarray | None = None
    pull: np.ndarray | None = None

    def first(self, prior: np.ndarray | None) -> np.ndarray | None:
        """Return how much samples count at the start: none for its size, gross ones nothing."""
        if self.pull is not None:
            return times(self.pull, prior)
        if self.gross is not None and (self.gross & self.kept).any():
            return times((~self.gross).astype(float), prior)
        return prior

    def without_gross(self, s: np.ndarray, prior: np.ndarray | None) -> Verdict:
        """Reject gross samples that a subspace of the others explains worse than any of these."""
        if self.gross is None or self.sizes is None or not (self.gross & self.kept).any():
            return self
        others = self.kept & ~self.gross & (True if prior is None else prior > 0)
        beyond = self.kept & self.gross & (s > s[others].max())
        if not beyond.any():
            return self
        logs = np.log(np.maximum(self.sizes, SMALLEST))
        location, scale = spread(logs[others])
        far = (logs - location) / (scale or 1.0)
        distance = float(np.quantile(far[beyond], 0.1))
        return replace(
            self,
            kept=self.kept & ~beyond,
            scores=np.where(beyond, far, self.scores),
            accepted=self.accepted[~beyond[self.accepted]],
            groups=(*self.groups, Group(np.flatnonzero(beyond), True, math.nan, distance)),
        )

    def largest_good(self, s: np.ndarray, noise: float) -> float:
        """Return the largest squared residual of a sample that is kept and not apart by it.

        Of few samples, which their residuals judge: of so many as are surely good but for chance.
        """
        kept = s[self.kept]
        if not len(self.accepted):
            most = int(len(kept) / 2 + math.sqrt(len(kept) / 2))
            return float(np.sort(kept)[min(most, len(kept)) - 1])
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
        kept = self.kept & ~beyond
        return replace(
            self, kept=kept, scores=scores, accepted=self.accepted[split.kept], groups=groups
        )

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
        accepted = self.accepted[kept[self.accepted]]
        return replace(self, kept=kept, scores=scores, accepted=accepted, groups=groups)
