"""Starting points: where the sweeps begin, and which samples count when the scale is set.

``spectral`` is the paper's start, 2DSVD. ``unexplained`` asks the first of the two questions of
``docs/method.md``, section 6; :mod:`corrtensor.minority` asks the second. Both end in ``grow``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, ResidualPass, recenter
from corrtensor.losses import Correntropy, Loss, lower_quantile, weights_of
from corrtensor.sketch import first_basis, leading_of_large
from corrtensor.solver import (
    Options,
    Solution,
    State,
    fix_signs,
    leading,
    measured,
    solve,
    weighted_quantiles,
)
from corrtensor.sources import LARGE, Source
from corrtensor.threads import single_blas

Rank = int | float | str | None

TIGHT_ROUNDS, TIGHT_SWEEPS = 2, 8
GROWING_ROUNDS, GROWING_SWEEPS = 10, 2
MEDIAN_STEPS = 20
# Outliers masked one another if the majority's residuals fall below this share, or if more
# samples than this are dropped, once they are shaken off.
MASKED_MEDIAN, MASKED_SHARE = 0.8, 0.2
# If the tight rounds drop no more than this and explain the majority hardly better, they agree.
AGREED_SHARE = 0.1
# A fit that leaves the majority this share of its residuals is worth growing again, less far.
PROMISING, STRICT = 0.9, 2.5
# A weight below this in the tight rounds is a doubt.
DOUBTED = 0.05
# Rounds end when no weight changes by more than this.
SETTLED = 0.02


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


def times(weights: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return weights times those the user gave, if any."""
    return weights if sample_weight is None else weights * sample_weight


def distances(source: Source, state: State) -> np.ndarray:
    """Return the squared distance of each sample from the mean."""
    # A factor of zeros explains nothing, so all of the sample is residual.
    nothing = (np.zeros((source.sample_shape[0], 1)), *state.factors[1:])
    at = source.at(state.mean, nothing)
    return np.concatenate(source.reduce(ResidualPass(at), norms=state.norms).squares)


def transplant(
    solution: Solution, source: Source, norms: np.ndarray, sample_weight: np.ndarray | None
) -> State:
    """Return a solution found on other samples as a start on these, whose norms are known."""
    mean = (solution.mean - source.origin) / source.unit
    state = measured(source, State(mean, solution.factors, norms))
    assert state.squares is not None  # noqa: S101
    counted = times(weights_of(solution.loss, state.squares * source.unit**2), sample_weight)
    return replace(state, counted=counted)


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
        solution = solve(source, state, loss, options.brief(GROWING_SWEEPS), sample_weight)
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
        if seen is not None and np.abs(solution.weights - seen).max() < SETTLED:
            break
        seen = solution.weights
    return solution


def unexplained(
    source: Source,
    start: State,
    loss: Correntropy,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
    *,
    promising: float = PROMISING,
) -> tuple[Solution, np.ndarray]:
    """Ask what the joint subspace cannot explain; also mark what a stricter question doubts.

    One fit grows from the start itself: it keeps good samples of a rarer kind, but many
    outliers can hold it where it is. Another first passes through tight rounds, a Gaussian
    kernel of twice the median residual, which shake off outliers even when they are almost half
    of the samples, and may lose the rarer kind. Where even these rounds agree with the first
    fit, nothing was masked. Otherwise what grows from them is right when it explains the
    majority much better, or no worse without many samples; when they differ on a few, these
    are explained, and the first is right. Where the tight rounds explained the majority better
    than what grew from them, a third fit grows less far, and is judged in the same way.
    """

    def majority(fit: Solution) -> float:
        return lower_quantile(weighted_quantiles(fit.residuals, sample_weight))

    count = np.ones(source.n_samples) if sample_weight is None else sample_weight

    def share_lost(fit: Solution, other: Solution) -> float:
        return float(count @ ((fit.weights > 0.5) & (other.weights < 0.5)) / count.sum())

    def better(fit: Solution, than: Solution) -> float:
        return majority(fit) / majority(than) if majority(than) > 0 else 1.0

    start = measured(source, start)
    wide = grow(source, start, loss, options, sample_weight)
    state, tight = start, options.brief(TIGHT_SWEEPS)
    for _ in range(TIGHT_ROUNDS):
        shaken = solve(source, state, Correntropy(2.0, 2.0, scale="median"), tight, sample_weight)
        if share_lost(wide, shaken) <= AGREED_SHARE and better(shaken, wide) >= PROMISING:
            return wide, shaken.weights < DOUBTED
        state = replace(shaken.state, counted=times(shaken.weights, sample_weight))
    narrow = grow(source, state, loss, options, sample_weight)
    dropped, gain = share_lost(wide, narrow), better(narrow, wide)
    masked = gain < MASKED_MEDIAN or (dropped > MASKED_SHARE and gain < 1 + SETTLED)
    best = narrow if masked else wide
    if better(shaken, best) < promising:
        # What was shaken off came back: see whether it stays away when less is taken back.
        strict = grow(source, state, replace(loss, reach=STRICT), options, sample_weight)
        kept = count @ (strict.weights > 0.5) / count.sum()
        # Of a few it is no wonder that the rest is explained better without them, and less than
        # half is no majority.
        lost = share_lost(best, strict)
        if lost > MASKED_SHARE and kept > 0.5 and better(strict, best) < MASKED_MEDIAN:
            best = strict
    return best, shaken.weights < DOUBTED


def spherical(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
) -> tuple[Solution, np.ndarray]:
    """Start from the geometric median and the samples scaled to unit distance from it."""
    rows = source.take(np.arange(source.n_samples))
    flat = (rows.reshape(len(rows), -1) - source.origin.ravel()) / source.unit
    weight = np.ones(len(rows)) if sample_weight is None else sample_weight
    center = options.center is not None
    median = weight @ flat / weight.sum() if center else np.zeros(flat.shape[1])
    for _ in range(MEDIAN_STEPS):
        distance = np.sqrt(np.square(flat - median).sum(axis=1))
        pull = weight / np.maximum(distance, 1e-9 * distance.max() + 1e-300)
        median = pull @ flat / pull.sum() if center else median
    directions = ((flat - median) * (pull / np.maximum(weight, 1e-300))[:, None]).reshape(
        rows.shape
    )
    sphere = Source(directions, origin=np.zeros(source.sample_shape), n_jobs=source.n_threads)
    factors = spectral(sphere, start.ranks, centered=False, weights=sample_weight).factors
    state = State(median.reshape(source.sample_shape), factors)
    return grow(source, state, loss, options, sample_weight), np.zeros(len(rows), dtype=bool)
