"""Starting points: where the sweeps begin, and which samples count when the scale is set.

``spectral`` is the paper's start, 2DSVD. ``unexplained`` asks the first of the two questions of
``docs/method.md``, section 6; :mod:`corrtensor.minority` asks the second. Both end in ``grow``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, ResidualPass, recenter
from corrtensor.losses import Correntropy, Loss
from corrtensor.solver import Options, Solution, State, leading, solve
from corrtensor.sources import Source, single_blas

Rank = int | float | None

TIGHT_ROUNDS, TIGHT_SWEEPS = 2, 8
GROWING_ROUNDS, GROWING_SWEEPS = 10, 2
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
    """Start from 2DSVD: mean and leading eigenvectors of the raw scatters."""
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


def times(weights: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return weights times those the user gave, if any."""
    return weights if sample_weight is None else weights * sample_weight


def transplant(solution: Solution, source: Source, sample_weight: np.ndarray | None) -> State:
    """Return a solution found on other samples as a start on these."""
    mean = (solution.mean - source.origin) / source.unit
    part = source.reduce(ResidualPass(source.at(mean, solution.factors)))
    s = np.concatenate(part.squares)
    log_w = solution.loss.log_weight(s * source.unit**2)
    counted = times(np.exp(log_w - log_w.max()), sample_weight)
    return State(mean, solution.factors, np.concatenate(part.norms), s, counted)


def grow(
    source: Source,
    state: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    seen: np.ndarray | None = None,
) -> Solution:
    """Take back what the fit explains: rounds that set the scale anew from what counts."""
    for _ in range(GROWING_ROUNDS):
        solution = solve(
            source, state, loss, replace(options, max_iter=GROWING_SWEEPS), sample_weight
        )
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
        if seen is not None and np.abs(solution.weights - seen).max() < SETTLED:
            break
        seen = solution.weights
    return solution


def unexplained(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
) -> Solution:
    """Ask what the joint subspace cannot explain.

    Tight rounds, a Gaussian kernel of twice the median residual, shake off outliers even when
    they are almost half of the samples; good samples of a rarer kind go with them, and come
    back as the fit grows.
    """
    state, tight = start, replace(options, max_iter=TIGHT_SWEEPS)
    for _ in range(TIGHT_ROUNDS):
        solution = solve(source, state, Correntropy(2.0, 2.0, scale="median"), tight, sample_weight)
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
    return grow(source, state, loss, options, sample_weight)


