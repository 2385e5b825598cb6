"""From a few samples: what to count all of them from, and in which unit."""

import math

import numpy as np

PILOTS, PILOT_BYTES = 64, 1 << 25
# Samples of this size, or the inverse of it, can be squared, summed and squared again.
SAFE_SIZE = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e9}
# Without a shift of origin, this much of the mean's energy beside the variation's is safe.
SAFE_MEAN = {np.dtype(np.float64): 1e3, np.dtype(np.float32): 30.0}
# Squares that single precision can hold beside their inverses.
SINGLE, LARGEST_SINGLE = np.dtype(np.float32), 1e18


def middle(rows: np.ndarray) -> np.ndarray:
    """Return the median of every column: as ``np.median``, faster for few long rows."""
    # Columns are sorted fastest where they lie in a row.
    columns, n = np.moveaxis(rows, 0, -1).copy(), len(rows)
    columns.sort(axis=-1)
    if not np.isnan(columns[..., -1:]).any():
        return np.asarray((columns[..., (n - 1) // 2] + columns[..., n // 2]) / 2)
    # NaN comes last: the median of what is there, or NaN if nothing is.
    seen = np.count_nonzero(~np.isnan(columns), axis=-1)
    places = np.stack([np.maximum(seen - 1, 0) // 2, np.minimum(seen // 2, n - 1)], axis=-1)
    return np.asarray(np.take_along_axis(columns, places, axis=-1).mean(axis=-1))


def usual(rows: np.ndarray) -> np.ndarray:
    """Return the median of every column; of all columns, where one shows nothing."""
    place = middle(rows)
    known = place[~np.isnan(place)]
    return np.where(np.isnan(place), np.median(known) if known.size else 0.0, place)


def choose_pilots(n_samples: int, sample_shape: tuple[int, ...]) -> np.ndarray:
    """Return the places of a few samples, evenly spread."""
    affordable = PILOT_BYTES // (8 * math.prod(sample_shape))
    count = min(n_samples, PILOTS, max(4, affordable))
    return np.unique(np.linspace(0, max(0, n_samples - 1), count).astype(int))


def choose_unit(pilots: np.ndarray, dtype: np.dtype, doubtful: bool = False) -> float:
    """Return a power of two in which huge or tiny samples are moderate; 1 for all others.

    Of ``doubtful`` samples some cells may be anything, and most tell how large they are.
    """
    with np.errstate(over="ignore"):
        rows = pilots.reshape(len(pilots), -1)
        largest = float(np.median(np.maximum(rows.max(axis=1), -rows.min(axis=1))))
    if doubtful and largest >= SAFE_SIZE[dtype]:
        largest = float(np.median(np.abs(rows[rows != 0])))
    if not largest or 1 / SAFE_SIZE[dtype] < largest < SAFE_SIZE[dtype]:
        return 1.0
    if not 1e-152 < largest < 1e152:
        raise ValueError(
            f"samples are about {largest:.0e} in size: their squares cannot be represented"
        )
    return 2.0 ** math.floor(math.log2(largest))


def choose_origin(
    pilots: np.ndarray, place: np.ndarray, unit: float, dtype: np.dtype
) -> np.ndarray:
    """Return zero, or the median of samples, their ``place``, if all are far from it.

    The median: one gross sample must not move the origin away from all the others.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        y = pilots - place
        y /= unit
        spread = np.median(np.square(y, out=y).sum(axis=tuple(range(1, y.ndim))))
        if not np.square(place / unit).sum() > SAFE_MEAN[dtype] * spread:
            return np.zeros_like(place)
    return place


def single_holds(norms: np.ndarray, typical: float) -> bool:
    """Tell whether single precision holds samples of these squared norms, and tells them apart.

    ``typical`` is their usual squared distance from one another.
    """
    moderate = typical > 1 / LARGEST_SINGLE and norms.max() < LARGEST_SINGLE * min(typical, 1.0)
    return bool(moderate and np.median(norms) <= SAFE_MEAN[SINGLE] * typical)
