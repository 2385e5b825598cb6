"""Starting points: where the first sweep begins.

The start of the paper is 2DSVD: the plain mean, and the leading eigenvectors of the scatter of
each mode of the raw data.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, recenter
from corrtensor.losses import Correntropy, Loss
from corrtensor.solver import Options, State, leading, solve
from corrtensor.sources import Source, single_blas

Rank = int | float | None

TIGHT_ROUNDS, ROUNDS, SWEEPS_A_ROUND = 2, 12, 2
# Rounds end when no weight changes by more than this.
SETTLED = 0.02


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


def graduated(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None = None,
) -> State:
    """Let go of all that is far, then take back what the fit explains.

    Two tight rounds, a Gaussian kernel of twice the median residual, shake off outliers even
    when they are almost half of the samples, but good samples of a rarer kind go with them.
    Rounds with the loss itself follow, its scale set anew from the samples that count: what
    the growing fit explains comes back, and outliers do not.
    """
    state, rounds = start, replace(options, max_iter=SWEEPS_A_ROUND)
    before = None
    for n in range(ROUNDS):
        stage = Correntropy(2.0, 2.0, scale="median") if n < TIGHT_ROUNDS else loss
        solution = solve(source, state, stage, rounds, sample_weight)
        counted = solution.weights * (1.0 if sample_weight is None else sample_weight)
        state = replace(solution.state, counted=counted)
        if n > TIGHT_ROUNDS and np.abs(solution.weights - before).max() < SETTLED:
            break
        before = solution.weights
    return state
