"""What all made outliers share: which samples, how many, and which values they may take."""

from typing import Any

import numpy as np

from corrtensor._base.checks import is_number, is_whole

Seed = int | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None


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
