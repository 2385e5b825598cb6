"""When a group of samples is apart from the others: a gap beyond what their own tail allows.

The logarithm of a distance has, beyond its upper quartile, about an exponential tail. Then the gap
below the k largest of n values is exponential too, with mean theta / k (Renyi), theta being the
tail's mean excess. See ``docs/method.md``, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

# How often good samples may be called apart, in all positions together.
FALSE_ALARM = 0.01
# The gap below a group is at least so many mean excesses of the tail of the others, and nine tenths
# of it lie so many robust standard deviations above their median; either down to half of that, if
# the other is larger by as much.
GAP, FAR = 2.0, 4.0
# Quartiles; those of a normal distribution are so many standard deviations apart.
QUARTILES, QUARTILES_APART = (0.25, 0.5, 0.75), 1.349
# Logarithms that differ by less are the same but for rounding.
SAME = 1e-6


@dataclass(frozen=True)
class Split:
    """Samples that are kept, beside a group beyond a gap; ``values`` are those that tell.

    ``gap`` counts in mean excesses of the kept samples' tail, less the uncertainty of that mean;
    ``distance`` of the group in robust standard deviations: ``scale``. ``cut`` lies in the gap.
    """

    values: np.ndarray
    kept: np.ndarray
    gap: float
    distance: float
    scale: float
    cut: float

    @property
    def beyond_doubt(self) -> bool:
        """Whether a single sample so far off would be called apart, by the gap alone."""
        return self.distance >= FAR and self.gap >= math.log(len(self.kept) / FALSE_ALARM)


def spread(values: np.ndarray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return the median of weighted values, and a robust standard deviation."""
    low, median, high = np.quantile(values, QUARTILES, weights=weights, method="inverted_cdf")
    return float(median), float(high - low) / QUARTILES_APART


class Splits:
    """All ways to cut off the largest of values that keep at least so many, and have a spread.

    ``times`` is how often a value counts where the size of a group is evidence: there alone.
    """

    def __init__(self, values: np.ndarray, least: float, times: np.ndarray | None = None) -> None:
        self.values, self.order = values, np.argsort(values, kind="stable")
        x, n = values[self.order], len(values)
        kept = np.arange(n - 1, max(math.ceil(least), 1) - 1, -1)
        low, middle, high = (x[(kept * share).astype(int)] for share in QUARTILES)
        # The tail is what lies at the upper quartile and above.
        tail = kept - (kept * 0.75).astype(int)
        sums = np.concatenate([[0.0], np.cumsum(x)])
        excess = (sums[kept] - sums[kept - tail]) / tail - high
        sigma = (high - low) / QUARTILES_APART
        some = (excess > SAME) & (sigma > SAME)
        self.kept, tail, excess = kept[some], tail[some], excess[some]
        gap = x[self.kept] - x[self.kept - 1]
        often = np.ones(n) if times is None else times[self.order]
        beyond = np.cumsum(often[::-1])[n - 1 - self.kept]
        # If all were of one kind, those beyond the gap would tell of the tail, too: as censored.
        joint = excess + beyond / tail * (x[self.kept - 1] - high[some])
        # A mean excess is itself an estimate: ratios of exponentials follow Fisher's F.
        self.gaps = tail * np.log1p(gap / excess / tail)
        self.evidence = tail * np.log1p(beyond * gap / joint / tail)
        nearest = x[self.kept + (n - 1 - self.kept) // 10]
        self.scales = sigma[some]
        self.distances = (nearest - middle[some]) / self.scales
        self.cuts = (x[self.kept - 1] + x[self.kept]) / 2

    def __getitem__(self, i: int) -> Split:
        kept = np.zeros(len(self.order), dtype=bool)
        kept[self.order[: self.kept[i]]] = True
        numbers = (self.gaps, self.distances, self.scales, self.cuts)
        return Split(self.values, kept, *(float(each[i]) for each in numbers))

    def isolated(self) -> Split | None:
        """Return the smallest group that is apart."""
        apart = self.evidence >= math.log(len(self.order) / FALSE_ALARM)
        apart &= (self.gaps >= GAP / 2) & (self.distances >= FAR / 2)
        apart &= self.gaps * self.distances >= GAP * FAR
        return self[int(apart.argmax())] if apart.any() else None

    def likeliest(self) -> Split | None:
        """Return the group below the gap that is least likely to be chance, if none is expected."""
        some = self.evidence >= math.log(len(self.order))
        return self[int(self.evidence.argmax())] if some.any() else None
