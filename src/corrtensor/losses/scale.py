"""Quantiles of residuals: what is typical, and where good ones end."""

import math

import numpy as np

# Below this share of the median residual a smaller residual earns no more weight.
RELATIVE_FLOOR = 1e-10
# Good residuals end at no less and no more than these multiples of their median.
EDGE_LEAST, EDGE_MOST = 1.5, 64.0
NORMAL_QUARTILE = 0.6745


def lower_quantile(s: np.ndarray, share: float = 0.5) -> float:
    """Return a quantile that is always one of the residuals, by default the median."""
    place = int((len(s) - 1) * share)
    return float(np.partition(s, place)[place])


def typical(s: np.ndarray) -> float:
    """Return the median, or, where more than half are zero, what still has the right units."""
    return lower_quantile(s) or float(np.mean(s)) or 1.0


def upper_edge(s: np.ndarray, reach: float) -> float:
    """Return where good residuals end: ``reach`` standard deviations of log s above the median.

    Quartiles tell the standard deviation. The lower one is safe from outliers, the upper one
    knows the side that matters: the smaller answer is taken (``docs/method.md``, section 2).
    """
    median = typical(s)
    below = median / max(lower_quantile(s, 0.25), 1e-6 * median)
    above = max(lower_quantile(s, 0.75) / median, 1.0)
    sigma = math.log(min(below, above)) / NORMAL_QUARTILE
    return median * min(max(math.exp(reach * sigma), EDGE_LEAST), EDGE_MOST)


def weighted_quantiles(s: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return residuals in which every sample counts by its weight, for the calibration."""
    if weight is None:
        return s
    # Odd, so that its middle is the weighted median itself.
    levels = (np.arange(2001) + 0.5) / 2001 * (1 - 1e-12)
    return np.quantile(s, levels, weights=weight, method="inverted_cdf")
