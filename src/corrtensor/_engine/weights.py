"""Weights that a user gives to samples."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight


def times(weights: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return weights times those the user gave, if any."""
    return weights if sample_weight is None else weights * sample_weight


def check_weight(sample_weight: ArrayLike | None, X: Any) -> np.ndarray | None:
    """Return checked weights of samples, or ``None`` if all count alike."""
    if sample_weight is None:
        return None
    given = np.asarray(sample_weight)
    if given.dtype.kind not in "fiubO":
        raise ValueError(
            f"sample_weight must be numeric, one number for each sample, not {given.flat[0]!s:.20}"
        )
    if given.ndim > 1:
        raise ValueError(
            f"sample_weight has the shape {given.shape}: give one number for each of the "
            f"{X.shape[0]} samples"
        )
    if given.dtype.kind == "f" and not np.isfinite(given).all():
        place = int((~np.isfinite(given)).reshape(-1).argmax())
        kind = "NaN" if np.isnan(given.reshape(-1)[place]) else "infinity"
        raise ValueError(
            f"Input sample_weight contains {kind}: the first is of sample {place}; "
            "give a number, 0 leaves it out"
        )
    weight: np.ndarray = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
    )
    if np.count_nonzero(weight) < 2:
        raise ValueError("sample_weight leaves fewer than two samples that count")
    largest = float(weight.max())
    # Weights count beside one another; huge or tiny ones would overflow in sums.
    return weight if 1e-30 < largest < 1e30 else weight / largest


def log_of(sample_weight: np.ndarray | None) -> np.ndarray | None:
    """Return logarithms of weights, of which some may be zero."""
    if sample_weight is None:
        return None
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(sample_weight))
