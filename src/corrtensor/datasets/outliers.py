"""The paper's outliers, put in on purpose, with the truth beside them.

Every function takes samples ``X`` (axis 0 counts them), how many outliers, and a source of random
numbers; it leaves ``X`` alone and returns ``(X_with_outliers, is_outlier)``. Some *add* outliers
after the samples; the others *replace* samples drawn at random. The number ``n`` is a whole number,
or a share in [0, 1) of the returned data: 0.3 added to 70 samples makes 100.

"Black" and "white" are the ends of the range of values of ``X``: 0 and 255 for bytes, 0 and 1 for
floats that lie in [0, 1], else the smallest and the largest entry.
"""

import math
from typing import Any

import numpy as np

from corrtensor._base.checks import is_number, is_whole

Seed = int | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None


def dummy_outliers(X: Any, n: float, rng: Seed) -> tuple[np.ndarray, np.ndarray]:
    """Add n images of uniform noise (the paper's "dummy images").

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of outliers, or their share of the returned data.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.

    Returns
    -------
    X_with_outliers : ndarray of shape (N + n, ...)
        The samples, then the outliers, in the type of X.
    is_outlier : ndarray of bool
        The truth.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.datasets import dummy_outliers
    >>> X, is_outlier = dummy_outliers(np.zeros((165, 10, 10)), 30, rng=0)
    >>> X.shape, int(is_outlier.sum())
    ((195, 10, 10), 30)
    """
    X = check_samples(X)
    rng = np.random.default_rng(rng)
    return add(X, noise_images(added_count(n, len(X)), X, rng))


def block_outliers(
    X: Any, n: float, rng: Seed, *, sides: tuple[float, float] = (0.3, 0.7)
) -> tuple[np.ndarray, np.ndarray]:
    """Cover a part of n samples by a rectangle of black and white dots.

    The rectangle lies in the first two modes (the first, for vectors) and goes through all the
    others: a dot covers all the channels of a colour image.

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of samples to replace, or their share.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.
    sides : (float, float), default=(0.3, 0.7)
        Smallest and largest side of the rectangle, as a share of the side of the sample.

    Returns
    -------
    X_with_outliers : ndarray of the shape and type of X
        The samples, n of them spoiled.
    is_outlier : ndarray of bool
        The truth.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.datasets import block_outliers
    >>> X, is_outlier = block_outliers(np.full((165, 10, 10), 0.5), 30, rng=0)
    >>> X.shape, int(is_outlier.sum()), np.unique(X).tolist()
    ((165, 10, 10), 30, [0.0, 0.5, 1.0])
    """
    X = check_samples(X)
    smallest, largest = sides
    if not 0 < smallest <= largest <= 1:
        raise ValueError(f"sides={sides}: two shares are needed, 0 < smallest <= largest <= 1")
    rng = np.random.default_rng(rng)
    is_outlier = choose(n, len(X), rng)
    black, white = value_range(X)
    spoiled = X.copy()
    for sample in np.flatnonzero(is_outlier):
        window = []
        for size in X.shape[1:3]:
            length = max(1, round(rng.uniform(smallest, largest) * size))
            start = rng.integers(0, size - length, endpoint=True)
            window.append(slice(start, start + length))
        covered = spoiled[sample][tuple(window)]
        dots = rng.random(covered.shape[:2] + (1,) * (covered.ndim - 2)) < 0.5
        covered[...] = np.where(dots, black, white)
    return spoiled, is_outlier


def magnified_outliers(
    X: Any, n: float, rng: Seed, *, magnitude: float = 50.0
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply n samples by a number.

    Parameters
    ----------
    X : array-like of shape (N, ...)
        The samples.
    n : int or float
        Number of samples to replace, or their share.
    rng : int, Generator or None
        Seed or source of the random numbers, as for :func:`numpy.random.default_rng`.
    magnitude : float, default=50.0
        What to multiply by.

    Returns
    -------
    X_with_outliers, is_outlier : ndarray
        As for :func:`block_outliers`, but integers come back as float64: bytes would overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.datasets import magnified_outliers
    >>> X, is_outlier = magnified_outliers(np.ones((100, 4, 4)), 0.05, rng=0)
    >>> int(is_outlier.sum()), X[is_outlier].mean().item()
    (5, 50.0)
    """
    X = check_samples(X)
    if not math.isfinite(magnitude):
        raise ValueError(f"magnitude={magnitude}: a finite number is needed")
    is_outlier = choose(n, len(X), np.random.default_rng(rng))
    spoiled = X.astype(X.dtype if X.dtype.kind == "f" else np.float64)
    spoiled[is_outlier] *= magnitude
    return spoiled, is_outlier


def check_samples(X: Any) -> np.ndarray:
    """Return X as an array of samples with finite real entries."""
    X = np.asarray(X)
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must hold real numbers; its type is {X.dtype}")
    if X.ndim < 2 or 0 in X.shape:
        raise ValueError(f"X must have samples along axis 0; its shape is {X.shape}")
    if not np.isfinite(X.min()) or not np.isfinite(X.max()):
        raise ValueError("X contains NaN or infinity: its range of values is unknown")
    return X


def check_amount(n: float) -> None:
    """Check that n is a number of outliers or a share."""
    if not is_number(n) or n < 0 or not (is_whole(n) or n < 1):
        raise ValueError(
            f"n={n!r}: give a whole number of outliers >= 0, or their share of the returned data, "
            "at least 0 and less than 1"
        )


def added_count(n: float, n_good: int) -> int:
    """Return how many outliers to add to ``n_good`` samples: n, or so that their share is n."""
    check_amount(n)
    return int(n) if is_whole(n) else round(n * n_good / (1 - n))


def choose(n: float, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the samples to spoil, n of them or a share n: a mask."""
    check_amount(n)
    count = int(n) if is_whole(n) else round(n * n_samples)
    if count > n_samples:
        raise ValueError(f"n={n}: there are only {n_samples} samples to make outliers of")
    is_outlier = np.zeros(n_samples, dtype=bool)
    is_outlier[rng.choice(n_samples, count, replace=False)] = True
    return is_outlier


def add(X: np.ndarray, outliers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Put outliers after the samples; return all of them and the truth."""
    is_outlier = np.repeat([False, True], [len(X), len(outliers)])
    return np.concatenate([X, outliers]), is_outlier


def value_range(X: np.ndarray) -> tuple[float, float]:
    """Return the values that X may take: by its type if that says so, otherwise those it has.

    Bytes go from 0 to 255, booleans from 0 to 1; floats that all lie in [0, 1] are taken for
    images in [0, 1]; everything else goes from ``X.min()`` to ``X.max()``.
    """
    if X.dtype == np.uint8:
        return 0, 255
    low, high = X.min().item(), X.max().item()
    if X.dtype.kind == "b" or (X.dtype.kind == "f" and low >= 0 and high <= 1):
        return 0, 1
    if low == high:
        raise ValueError(f"all entries of X are {low}: there is no range to draw outliers from")
    return low, high


def noise_images(n: int, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw n samples of uniform noise, of the type and the range of X."""
    low, high = value_range(X)
    shape = (n, *X.shape[1:])
    if X.dtype.kind == "f":
        return rng.uniform(low, high, shape).astype(X.dtype)
    return rng.integers(int(low), int(high), shape, dtype=X.dtype.type, endpoint=True)
