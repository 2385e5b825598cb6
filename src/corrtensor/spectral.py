"""2DSVD: the mean, and the leading eigenvectors of the scatters of the raw samples.

The start of every iteration (``docs/method.md``, section 2), and a published method by itself.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, recenter
from corrtensor.sketch import first_basis, leading_of_large
from corrtensor.solver import State, fix_signs, leading
from corrtensor.sources import LARGE, Source
from corrtensor.threads import single_blas

Rank = int | float | str | None


def choose_rank(eigenvalues: np.ndarray, rule: float | str) -> int:
    """Return how many leading eigenvalues hold a share of their sum, or stand out by themselves.

    They stand out where two normal populations explain the logarithms of the eigenvalues best:
    the profile likelihood of Zhu and Ghodsi (2006).
    """
    falling = np.maximum(np.sort(eigenvalues)[::-1], 0)
    if not isinstance(rule, str):
        return int(np.searchsorted(np.cumsum(falling), rule * falling.sum() * (1 - 1e-12))) + 1
    logs = np.log(falling[falling > 1e-12 * falling[0]])
    if len(logs) < 3:
        return len(logs) or 1
    spread = [
        np.square(logs[:k] - logs[:k].mean()).sum() + np.square(logs[k:] - logs[k:].mean()).sum()
        for k in range(1, len(logs))
    ]
    return int(np.argmin(spread)) + 1


def spectral(
    source: Source,
    ranks: tuple[Rank, ...],
    *,
    centered: bool = True,
    weights: np.ndarray | None = None,
) -> State:
    """Start from 2DSVD: mean and leading eigenvectors of the raw scatters."""
    shape = source.sample_shape
    modes = tuple(n for n, k in enumerate(ranks) if k is not None)
    large = {n for n in modes if shape[n] > LARGE}
    # Of a large mode the first pass sees the scatter through random directions.
    seen = {n: first_basis(ranks[n], shape[n]) for n in large}
    part = source.reduce(RawPass(modes, seen), weights=weights)
    total, first = part.sums.weight, np.asarray(part.sums.first)
    mean = first / total if centered else np.zeros(shape)
    whole: list[np.ndarray | None] = [None] * len(ranks)
    factors = list(whole)
    spares = {}
    norms = np.concatenate(part.norms)

    def centred(S: np.ndarray, n: int, Q: np.ndarray | None) -> np.ndarray:
        return recenter(S, total, first, mean, whole, n, Q) if centered else S

    def apply(n: int, Q: np.ndarray) -> np.ndarray:
        again = source.reduce(RawPass((n,), {n: Q}), weights=weights)
        return centred(again.sums.second[n], n, Q)

    with single_blas():
        for n in modes:
            k, S = ranks[n], centred(part.sums.second[n], n, seen.get(n))
            if n in large:
                energy = float(norms.sum() if weights is None else norms @ weights)
                energy -= total * float(np.vdot(mean, mean))
                U, spares[n] = leading_of_large(S, seen[n], k, energy, n, apply)
                factors[n] = fix_signs(U)
                continue
            if isinstance(k, float | str):
                k = choose_rank(eigh(S, eigvals_only=True, check_finite=False), k)
            factors[n] = leading(S, k)  # type: ignore[arg-type]
    return State(mean, tuple(factors), norms, spares=spares)


def survey(source: Source, *, centered: bool = True, weights: np.ndarray | None = None) -> State:
    """Return the mean and the samples' norms alone: no mode has a factor."""
    part = source.reduce(RawPass(()), weights=weights)
    mean = (
        np.asarray(part.sums.first) / part.sums.weight if centered else np.zeros_like(source.origin)
    )
    return State(mean, (None,) * mean.ndim, np.concatenate(part.norms))
