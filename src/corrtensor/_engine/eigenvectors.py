"""Leading eigenvectors with fixed signs, and how far a subspace has turned."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

# Of matrices of these sizes, and of larger ones from this share of them, all eigenvectors come
# faster than the leading ones alone.
ALL_AT_ONCE, SHARE = range(32, 129), 0.3
# Entries that differ by less than this share are equal.
EQUAL = 1e-6


def fix_signs(U: np.ndarray) -> np.ndarray:
    """Make the largest entry of every column positive; of equal ones, the first."""
    size = np.abs(U)
    # Equal but for rounding, which must not choose.
    largest = U[(size >= (1 - EQUAL) * size.max(axis=0)).argmax(axis=0), np.arange(U.shape[1])]
    return np.ascontiguousarray(U * np.where(largest < 0, -1.0, 1.0))


def leading(S: np.ndarray, k: int) -> np.ndarray:
    """Return the leading eigenvectors of a symmetric matrix, the first first."""
    a = len(S)
    if a in ALL_AT_ONCE or (a >= ALL_AT_ONCE.stop and k > SHARE * a):
        U = eigh(S, driver="evd", check_finite=False)[1][:, a - k :]
    else:
        U = eigh(S, subset_by_index=(a - k, a - 1), check_finite=False)[1]
    return fix_signs(U[:, ::-1])


def energies_in(S: np.ndarray, U: np.ndarray) -> np.ndarray:
    """Return what a scatter has of energy along each of some directions."""
    return np.asarray(np.einsum("ij,ij->j", U, S @ U))


def turned(old: Sequence[np.ndarray | None], new: Sequence[np.ndarray | None]) -> float:
    """Return how far the projectors moved: the largest root mean square sine of the angles."""
    # What U leaves of V, and not 1 - |U'V|^2, in which half of the digits are lost.
    sines = [
        float(np.linalg.norm(V - U @ (U.T @ V))) / math.sqrt(V.shape[1])
        for U, V in zip(old, new, strict=True)
        if U is not None and V is not None
    ]
    return max(sines, default=0.0)
