"""Starting points: where the first sweep begins.

The start of the paper is 2DSVD: the plain mean, and the leading eigenvectors of the scatter of
each mode of the raw data.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, recenter
from corrtensor.solver import State, leading
from corrtensor.sources import Source, single_blas

Rank = int | float | None


def share_rank(eigenvalues: np.ndarray, share: float) -> int:
    """Return how many leading eigenvalues hold a share of their sum."""
    falling = np.maximum(np.sort(eigenvalues)[::-1], 0)
    return int(np.searchsorted(np.cumsum(falling), share * falling.sum() * (1 - 1e-12))) + 1


def spectral(
    source: Source,
    ranks: tuple[Rank, ...],
    *,
    centered: bool = True,
    weights: np.ndarray | None = None,
) -> State:
    """Start from 2DSVD: mean and raw scatters of (weighted) samples."""
    modes = tuple(n for n, k in enumerate(ranks) if k is not None)
    part = source.reduce(RawPass(modes), weights=weights)
    total, first = part.sums.weight, np.asarray(part.sums.first)
    mean = first / total if centered else np.zeros(source.sample_shape)
    whole = [None] * len(ranks)
    factors: list[np.ndarray | None] = list(whole)
    with single_blas():
        for n in modes:
            S = part.sums.second[n]
            if centered:
                S = recenter(S, total, first, mean, whole, n)
            k = ranks[n]
            if isinstance(k, float):
                k = share_rank(eigh(S, eigvals_only=True, check_finite=False), k)
            factors[n] = leading(S, k)  # type: ignore[arg-type]
    return State(mean, tuple(factors), np.concatenate(part.norms))
