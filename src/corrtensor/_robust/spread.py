"""How far cells stray: good ones, told by a quantile of residuals, and those around one."""

import math
from typing import Any

import numpy as np

# The quantile of absolute residuals, of which a third may be bad, and a normal distribution's
# standard deviation over it.
STRAY, SIGMA = 2 / 3, 1.0337
# It is at most so many times the median, 1.4 for a normal distribution, 1.7 for Cauchy's: where it
# is more, a third of the cells of a place is bad, by chance.
MOST = 3.0
# Columns that are sorted at a time, for the cache.
COLUMNS = 496


def quantiles(rows: np.ndarray, *shares: float) -> np.ndarray:
    """Return quantiles of every column; NaN is no cell."""
    found = np.empty((len(shares), rows[0].size), rows.dtype)
    for some in range(0, rows[0].size, COLUMNS):
        at = slice(some, some + COLUMNS)
        few = rows.reshape(len(rows), -1)[:, at]
        if not np.isnan(few.max(initial=0)):
            places = [int(share * len(few)) for share in shares]
            found[:, at] = np.partition(few, places, axis=0)[places]
            continue
        few = np.sort(few, axis=0)
        seen = np.count_nonzero(~np.isnan(few), axis=0)
        each = np.minimum(np.multiply.outer(shares, seen).astype(int), np.maximum(seen - 1, 0))
        found[:, at] = np.take_along_axis(few, each, axis=0)
    return found.reshape(len(shares), *rows.shape[1:])


def upper(rows: np.ndarray) -> np.ndarray:
    """Return the quantile of every column by which it is told how far cells stray."""
    return quantiles(rows, STRAY)[0]


def spread_of(R: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return how far good cells stray at each place: never less than cells do on the whole."""
    middle, away = quantiles(np.abs(R), 0.5, STRAY)
    # A median of zero tells nothing: most samples are equal there.
    away = np.where(middle > 0, np.fmin(away, MOST * middle), away)
    known = away[~np.isnan(away)]
    typical = max(float(np.median(known)) or float(known.mean()), least) or 1.0
    return SIGMA * np.maximum(np.where(np.isnan(away), typical, away), typical)


def around(T: np.ndarray, places: np.ndarray, most: float) -> np.ndarray:
    """Return the mean of the neighbours of some cells, none of them counted beyond ``most``.

    ``places`` are those in the flattened block. A cell has two neighbours in every mode of more
    than one entry; at an end of it, both are the same.
    """
    cells, at = T.reshape(-1), np.unravel_index(places, T.shape)
    total, count = np.zeros(len(places), T.dtype), 0
    for n in range(1, T.ndim):
        step, last = math.prod(T.shape[n + 1 :]), T.shape[n] - 1
        for end, toward in ((0, -step), (last, step)) if last else ():
            near = cells[places + np.where(at[n] == end, -toward, toward)]
            total += np.clip(near, -most, most)
            count += 1
    return total / max(count, 1)


def strays_of(X: Any) -> float:
    """Return how far cells stray at least, if a file says so, however it is looked at."""
    while not hasattr(X, "strays") and hasattr(X, "array"):
        X = X.array
    return float(getattr(X, "strays", 0.0))
