"""How far cells stray: good ones, told by a quantile of residuals, and those around one."""

import math

import numpy as np

# The quantile of absolute residuals, of which a third may be bad, and a normal distribution's
# standard deviation over it.
STRAY, SIGMA = 2 / 3, 1.0337
# Columns that are sorted at a time, for the cache.
COLUMNS = 496


def upper(rows: np.ndarray) -> np.ndarray:
    """Return a quantile of every column by which it is told how far cells stray; NaN is no cell."""
    found = np.empty(rows.shape[1:], rows.dtype)
    for some in range(0, rows[0].size, COLUMNS):
        at = slice(some, some + COLUMNS)
        few = rows.reshape(len(rows), -1)[:, at]
        if not np.isnan(few.max(initial=0)):
            last = int(STRAY * len(few))
            found.reshape(-1)[at] = np.partition(few, last, axis=0)[last]
            continue
        few = np.sort(few, axis=0)
        seen = np.count_nonzero(~np.isnan(few), axis=0)
        place = np.minimum((STRAY * seen).astype(int), np.maximum(seen - 1, 0))
        found.reshape(-1)[at] = np.take_along_axis(few, place[None], axis=0)[0]
    return found


def spread_of(R: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return how far good cells stray at each place: never less than cells do on the whole."""
    away = upper(np.abs(R))
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
