"""Starting points: where the sweeps begin, and which samples count when the scale is set.

``spectral`` is the paper's start, 2DSVD. ``unexplained`` asks the first of the two questions of
``docs/method.md``, section 6; :mod:`corrtensor.minority` asks the second. Both end in ``grow``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import RawPass, ResidualPass, recenter
from corrtensor.losses import Correntropy, Loss, Power, lower_quantile, weights_of
from corrtensor.sketch import first_basis, leading_of_large
from corrtensor.solver import (
    Options,
    Solution,
    State,
    calibrated,
    fix_signs,
    leading,
    measured,
    rounding_of,
    solve,
    weighted_quantiles,
)
from corrtensor.sources import LARGE, Source
from corrtensor.threads import single_blas

Rank = int | float | str | None

# How far above the median good residuals reach, in standard deviations of their logarithm.
REACH = {"unexplained": 4.5, "minority": 1.6}
TIGHT_ROUNDS, TIGHT_SWEEPS = 2, 8
GROWING_ROUNDS, GROWING_SWEEPS = 10, 2
MEDIAN_STEPS = 20
# Outliers masked one another if the majority's residuals fall below this share, or if more
# samples than this are dropped, once they are shaken off.
MASKED_MEDIAN, MASKED_SHARE = 0.8, 0.2
# A tight sweep that drops no more than this, and leaves the majority this much, agrees.
AGREED_SHARE, AGREED_MEDIAN = 0.1, 0.98
# A fit that leaves the majority this share of its residuals is worth growing again, less far.
PROMISING, STRICT = 0.9, 2.5
# A few good samples of a rare kind may lie so many times the reach out, if the majority's residuals
# grow by no more than this when they come back.
FURTHER, FEW, BEARABLE = 2.0, 0.02, 1.1
# What is rejected is apart if it lies so many squared widths of the loss out, but for this share.
APART, NEAREST = 4.0, 0.1
# Parts of the samples, each judged by a fit to the others.
FOLDS = 5
# A weight below this is next to nothing; in the tight rounds, a doubt.
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


def survey(
    source: Source,
    ranks: tuple[Rank, ...],
    *,
    centered: bool = True,
    weights: np.ndarray | None = None,
) -> State:
    """Return the mean and the samples' norms; the factors are zeros, yet to be sought."""
    shape = source.sample_shape
    part = source.reduce(RawPass(()), weights=weights)
    mean = np.asarray(part.sums.first) / part.sums.weight if centered else np.zeros(shape)
    nothing = (
        None if k is None else np.zeros((a, int(k))) for a, k in zip(shape, ranks, strict=True)
    )
    return State(mean, tuple(nothing), np.concatenate(part.norms))


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
) -> Solution:
    """Take back what the fit explains: rounds that set the scale anew from what counts."""
    seen = None
    for _ in range(GROWING_ROUNDS):
        solution = solve(source, state, loss, options.brief(GROWING_SWEEPS), sample_weight)
        state = replace(solution.state, counted=times(solution.weights, sample_weight))
        if seen is not None and np.abs(solution.weights - seen).max() < SETTLED:
            break
        seen = solution.weights
    return solution


def afresh(source: Source, known: State, weights: np.ndarray, options: Options) -> State:
    """Return 2DSVD of the samples that count, with what is known of all of them."""
    start = spectral(source, known.ranks, centered=options.center is not None, weights=weights)
    mean = start.mean if options.center == "weighted" else known.mean
    return replace(start, mean=mean, norms=known.norms)


def distrusted(
    source: Source,
    fit: Solution,
    loss: Correntropy,
    options: Options,
    sample_weight: np.ndarray | None,
) -> Solution:
    """Leave out samples that a fit without them does not explain; take back what is explained.

    Where the ranks are large beside the samples, a few outliers that count are explained only
    because they count.
    """
    kept, s = fit.weights > 0.5, fit.residuals.copy()
    # Each fold has small and large residuals.
    fold = np.argsort(np.argsort(s, kind="stable")) % FOLDS

    def weight_of(counted: np.ndarray) -> np.ndarray:
        return times(counted.astype(float), sample_weight)

    def least_squares(counted: np.ndarray, sweeps: int) -> Solution:
        weight = weight_of(counted)
        start = afresh(source, fit.state, weight, options)
        return solve(source, start, Power(2.0), options.brief(sweeps), weight)

    for f in range(FOLDS):
        if (kept & (fold != f)).sum() < 2:
            return fit
        s[fold == f] = least_squares(kept & (fold != f), 1).residuals[fold == f]
    judged = replace(fit.state, squares=s / source.unit**2, counted=weight_of(kept))
    trusted = calibrated(replace(loss, reach=STRICT), source, judged, sample_weight)
    clean = kept & (weights_of(trusted, s) > 0.5)
    if clean.sum() in (0, kept.sum()):
        return fit
    state = replace(least_squares(clean, GROWING_SWEEPS).state, counted=weight_of(clean))
    return grow(source, state, loss, options, sample_weight)


def leaves_apart(fit: Solution, sample_weight: np.ndarray | None) -> bool:
    """Tell whether a fit rejects anything, and that far beyond the width of its loss."""
    assert isinstance(fit.loss, Correntropy)  # noqa: S101
    rejected = times((fit.weights < 0.5).astype(float), sample_weight)
    if not rejected.any():
        return False
    nearest = lower_quantile(weighted_quantiles(fit.residuals, rejected), NEAREST)
    # Not a power: that of a huge width is an error, not infinity.
    return nearest > APART * fit.loss.width * fit.loss.width


def unexplained(
    source: Source,
    start: State,
    loss: Correntropy,
    options: Options,
    sample_weight: np.ndarray | None,
    rng: np.random.RandomState,
    *,
    strict: bool = True,
) -> tuple[Solution, np.ndarray]:
    """Ask what the joint subspace cannot explain; also mark what a stricter question doubts.

    One fit grows from the start itself: it keeps good samples of a rarer kind, but many
    outliers can hold it where it is. Another first passes through tight rounds, a Gaussian
    kernel of twice the median residual, which shake off outliers even when they are almost half
    of the samples, and may lose the rarer kind. Where one tight sweep, from 2DSVD of what the
    first fit keeps, agrees with that fit, nothing is masked. Otherwise what grows from them is
    right when it explains the majority much better, or no worse without many samples; when they
    differ on a few, these are explained, and the first is right. Where the tight rounds explained
    the majority better than what grew from them, a third fit grows less far; a fourth judges
    every sample by a fit without it. At last the result grows further than usual, and what that
    adds stays if it is little, costs little, and is far from all that is left out.
    """
    count = np.ones(source.n_samples) if sample_weight is None else sample_weight

    def share(of: np.ndarray) -> float:
        return float(count @ of / count.sum())

    def lost(fit: Solution, other: Solution) -> float:
        return share((fit.weights > 0.5) & (other.weights < 0.5))

    def gain(fit: Solution, other: Solution) -> float:
        """Return what the other leaves of the majority's residuals, beyond rounding."""
        left, of = (
            max(noise, lower_quantile(weighted_quantiles(f.residuals, sample_weight)))
            for f in (other, fit)
        )
        return left / of if of > 0 else 1.0

    def masked(fit: Solution, other: Solution) -> bool:
        better = gain(fit, other)
        return better < MASKED_MEDIAN or (lost(fit, other) > MASKED_SHARE and better < 1 + SETTLED)

    def with_rare(fit: Solution) -> Solution:
        """Return what grows further from the fit, if all that adds is a few of a rare kind."""
        if not strict or loss.scale != "auto":
            return fit
        state = replace(fit.state, counted=times(fit.weights, sample_weight))
        further = replace(loss, reach=FURTHER * loss.reach)
        reached = weights_of(calibrated(further, source, state, sample_weight), fit.residuals)
        if not ((reached > DOUBTED) & (fit.weights < 0.5)).any():
            return fit
        far = grow(source, state, further, options, sample_weight)
        rare = lost(far, fit) <= FEW and gain(fit, far) < BEARABLE and not lost(fit, far)
        return far if rare and leaves_apart(far, sample_weight) else fit

    start = measured(source, start)
    assert start.norms is not None  # noqa: S101
    noise = rounding_of(start.norms, source.dtype, sample_weight) * source.unit**2
    best = grow(source, start, loss, options, sample_weight)
    tight = Correntropy(2.0, 2.0, scale="median")
    # Seen afresh: outliers that are gone may have bent the start towards a worse optimum.
    kept = times((best.weights > 0.5).astype(float), sample_weight)
    fresh = afresh(source, start, kept, options)
    glance = solve(source, fresh, tight, options.brief(1), sample_weight)
    if lost(best, glance) <= AGREED_SHARE and gain(best, glance) >= AGREED_MEDIAN:
        return with_rare(best), glance.weights < DOUBTED
    state = start
    for _ in range(TIGHT_ROUNDS):
        shaken = solve(source, state, tight, options.brief(TIGHT_SWEEPS), sample_weight)
        state = replace(shaken.state, counted=times(shaken.weights, sample_weight))
    narrow = grow(source, state, loss, options, sample_weight)
    best = narrow if masked(best, narrow) else best
    if strict and gain(best, shaken) < PROMISING:
        # What was shaken off came back: see whether it stays away when less is taken back.
        less = grow(source, state, replace(loss, reach=STRICT), options, sample_weight)
        # Of a few it is no wonder that the rest is explained better without them, and less than
        # half is no majority.
        if (
            lost(best, less) > MASKED_SHARE
            and share(less.weights > 0.5) > 0.5
            and gain(best, less) < MASKED_MEDIAN
        ):
            best = less
    if strict:
        apart = distrusted(source, best, loss, options, sample_weight)
        best = apart if masked(best, apart) else best
    return with_rare(best), shaken.weights < DOUBTED


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
