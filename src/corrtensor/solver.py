"""The only loop: weights, mean, factors, until neither objective nor projectors move.

See ``docs/method.md``, sections 2 to 5. Everything here is counted from the source's origin in
the source's unit; :class:`Solution` is in the data's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import Part, SweepPass, project, unfold
from corrtensor.losses import Loss
from corrtensor.sources import Source, single_blas


@dataclass(frozen=True)
class State:
    """Where a sweep starts: a mean and one orthonormal factor per mode (``None``: left whole)."""

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    norms: np.ndarray


@dataclass(frozen=True)
class Solution:
    """What the solver found."""

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    weights: np.ndarray
    residuals: np.ndarray
    norms: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool
    loss: Loss


@dataclass(frozen=True)
class Options:
    """How the sweeps are run; what they minimise is the loss."""

    center: str | None = "weighted"
    coupled: bool = True
    max_iter: int = 100
    tol: float = 1e-6


def fix_signs(U: np.ndarray) -> np.ndarray:
    """Make the largest entry of every column positive."""
    largest = U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])]
    return U * np.where(largest < 0, -1.0, 1.0)


def leading(S: np.ndarray, k: int) -> np.ndarray:
    """Return the leading eigenvectors of a symmetric matrix, the first first."""
    a = len(S)
    U = eigh(S, subset_by_index=(a - k, a - 1), check_finite=False)[1]
    return fix_signs(U[:, ::-1])


def turned(old: Sequence[np.ndarray | None], new: Sequence[np.ndarray | None]) -> float:
    """Return how far the projectors moved: the largest root mean square sine of the angles."""
    sines = [
        math.sqrt(max(0.0, 1 - float(np.square(U.T @ V).sum()) / U.shape[1]))
        for U, V in zip(old, new, strict=True)
        if U is not None and V is not None
    ]
    return max(sines, default=0.0)


def weighted_quantiles(s: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return residuals in which every sample counts by its weight, for the calibration."""
    if weight is None:
        return s
    order = np.argsort(s)
    cumulated = np.cumsum(weight[order])
    # Odd, so that its middle is the weighted median itself.
    levels = (np.arange(2001) + 0.5) / 2001 * cumulated[-1] * (1 - 1e-12)
    return s[order[np.searchsorted(cumulated, levels)]]


def next_state(source: Source, state: State, first: Part, options: Options) -> State:
    """Finish a sweep whose first pass is done: the mean, then every mode in turn."""
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    sums = first.sums
    factors = list(state.factors)
    mean = state.mean
    S = sums.second[modes[0]]
    if options.center == "weighted":
        mean = np.asarray(sums.first) / sums.weight
        # The scatter was taken about the old mean (docs/method.md, section 4).
        step = unfold(project((mean - state.mean)[None], factors, modes[0]), modes[0])
        S = S - sums.weight * (step.T @ step)
    factors[modes[0]] = leading(S, factors[modes[0]].shape[1])  # type: ignore[union-attr]
    log_w = np.concatenate(first.log_weights)
    weights = np.exp(log_w - log_w.max())
    for n in modes[1:]:
        part = source.reduce(SweepPass(mean, tuple(factors), n), weights=weights)
        factors[n] = leading(part.sums.second[n], factors[n].shape[1])  # type: ignore[union-attr]
    return State(mean, tuple(factors), state.norms)


def solve(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None = None,
) -> Solution:
    """Sweep from a start to a stationary point of the objective."""
    unit = source.unit
    log_prior = None
    if sample_weight is not None:
        with np.errstate(divide="ignore"):
            log_prior = np.log(sample_weight)
    first_mode = next(n for n, U in enumerate(start.factors) if U is not None)
    mode = first_mode if options.coupled else None

    def look(state: State, loss: Loss | None) -> Part:
        look_pass = SweepPass(
            state.mean,
            state.factors,
            mode if loss is not None else None,
            loss,
            unit,
            update_mean=options.center == "weighted",
        )
        return source.reduce(look_pass, norms=state.norms, log_prior=log_prior)

    def cost(s: np.ndarray) -> float:
        value = loss.value(s * unit**2)
        return float(value.sum() if sample_weight is None else value @ sample_weight)

    state = start
    s = np.concatenate(look(state, None).squares)
    # Residuals at the level of rounding tell nothing of the scale.
    noise = np.square(64 * np.finfo(source.dtype).eps) * float(np.median(start.norms))
    loss = loss.calibrate(np.maximum(weighted_quantiles(s, sample_weight), noise) * unit**2)
    objective: list[float] = []
    moved, converged = math.inf, not options.coupled
    while True:
        part = look(state, loss)
        s = np.concatenate(part.squares)
        objective.append(cost(s))
        if len(objective) > 1:
            fallen = objective[-2] - objective[-1]
            still = fallen <= options.tol * abs(objective[-2])
            converged = still and moved <= math.sqrt(options.tol)
        if converged or len(objective) > options.max_iter:
            break
        with single_blas():
            new = next_state(source, state, part, options)
        moved = turned(state.factors, new.factors)
        state = new
    log_w = np.concatenate(part.log_weights)
    return Solution(
        mean=source.origin + unit * state.mean,
        factors=state.factors,
        weights=np.exp(log_w - log_w.max()),
        residuals=s * unit**2,
        norms=state.norms,
        objective=np.array(objective[1:] or objective),
        n_iter=max(1, len(objective) - 1),
        converged=converged,
        loss=loss,
    )
