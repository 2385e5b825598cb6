"""The only loop: weights, mean, factors, until neither objective nor projectors move.

See ``docs/method.md``, sections 2 to 5. Everything here is counted from the source's origin in
the source's unit; :class:`Solution` is in the data's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import Part, ResidualPass, SweepPass, recenter
from corrtensor.losses import Loss, lower_quantile
from corrtensor.sketch import basis, nystrom
from corrtensor.sources import Source, single_blas

# A rise of the objective by more than this share is no longer rounding.
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
# A residual below this share of the median is an exact fit.
EXACT = 1e-3


@dataclass(frozen=True)
class State:
    """Where a sweep starts: a mean and one orthonormal factor per mode (``None``: left whole).

    What is already known of the samples comes along: their squared norms, their squared
    residuals here, and how much each should count when the scale is set. ``spares`` are further
    directions of large modes (:mod:`corrtensor.sketch`).
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    norms: np.ndarray | None = None
    squares: np.ndarray | None = None
    counted: np.ndarray | None = None
    spares: Mapping[int, np.ndarray] = field(default_factory=dict)

    def basis(self, mode: int) -> np.ndarray | None:
        """Return the directions through which the scatter of a large mode is seen."""
        return basis(self.factors[mode], self.spares.get(mode))


@dataclass(frozen=True)
class Solution:
    """What the solver found, in the data's own units; ``state`` is in the source's."""

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    weights: np.ndarray
    residuals: np.ndarray
    objective: np.ndarray
    n_iter: int
    converged: bool
    loss: Loss
    state: State


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
    return np.ascontiguousarray(U * np.where(largest < 0, -1.0, 1.0))


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


def next_state(source: Source, state: State, part: Part, center: str | None) -> State:
    """Finish a sweep whose first pass is done: the mean, then every mode in turn."""
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    factors, spares = list(state.factors), {}
    weights = np.exp(np.concatenate(part.log_weights) - part.sums.shift)
    total, first = part.sums.weight, np.asarray(part.sums.first)
    mean = first / total if center == "weighted" else state.mean
    for n in modes:
        Q, k = state.basis(n), factors[n].shape[1]  # type: ignore[union-attr]
        if n != modes[0]:
            part = source.reduce(SweepPass(source.at(mean, factors), n, sketch=Q), weights=weights)
        S = part.sums.second[n]
        if center is not None:
            S = recenter(S, total, first, mean, factors, n, Q)
        if Q is None:
            factors[n] = leading(S, k)
        else:
            V = nystrom(S, Q, k)[1]
            factors[n], spares[n] = fix_signs(V[:, :k]), V[:, k:]
    return State(mean, tuple(factors), spares=spares)


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

    def cost(s: np.ndarray) -> float:
        value = loss.value(s * unit**2)
        return float(value.sum() if sample_weight is None else value @ sample_weight)

    # A mode at its full rank loses nothing and never changes: it need not be projected.
    thin = [U is not None and U.shape[1] < U.shape[0] for U in start.factors]
    state = replace(
        start, factors=tuple(U if t else None for U, t in zip(start.factors, thin, strict=True))
    )
    if state.norms is None or state.squares is None:
        part = source.reduce(ResidualPass(source.at(state.mean, state.factors)), norms=state.norms)
        known = np.concatenate(part.norms) if state.norms is None else state.norms
        state = replace(state, norms=known, squares=np.concatenate(part.squares))
    s, norms = state.squares, state.norms
    assert s is not None  # noqa: S101
    assert norms is not None  # noqa: S101
    # Residuals at the level of rounding tell nothing of the scale.
    typical = lower_quantile(weighted_quantiles(norms, sample_weight))
    noise = np.square(64 * np.finfo(source.dtype).eps) * typical
    counted = sample_weight if state.counted is None else state.counted
    # Nor do a few exact fits beside honest residuals.
    telling = s > EXACT * lower_quantile(weighted_quantiles(s, sample_weight))
    if not telling.all() and (telling if counted is None else telling * counted).any():
        counted = telling * (1.0 if counted is None else counted)
    loss = loss.calibrate(np.maximum(weighted_quantiles(s, counted), noise) * unit**2)
    objective = [cost(s)]
    converged, moved, before = not (options.coupled and any(thin)), math.inf, None
    while not converged:
        at, centred = source.at(state.mean, state.factors), options.center is not None
        mode = thin.index(True)
        sweep = SweepPass(at, mode, loss, unit, centred, state.basis(mode))
        part = source.reduce(sweep, norms=norms, log_prior=log_prior)
        s = np.concatenate(part.squares)
        if before is not None:
            objective.append(cost(s))
            fallen, size = objective[-2] - objective[-1], abs(objective[-2])
            converged = fallen <= options.tol * size and moved <= math.sqrt(options.tol)
            if fallen < -ROUNDING[source.dtype] * size:
                # Too few samples count to decide every direction: what rounding decides is no
                # improvement, and the sweep is taken back.
                objective.pop()
                (state, s), converged = before, True
            if converged or len(objective) > options.max_iter:
                break
        before = (state, s)
        with single_blas():
            new = next_state(source, state, part, options.center)
        moved, state = turned(state.factors, new.factors), new
    log_w = loss.log_weight(s * unit**2)
    weights = np.exp(log_w - log_w.max())
    factors = tuple(
        V if U is None else U for U, V in zip(state.factors, start.factors, strict=True)
    )
    return Solution(
        mean=source.origin + unit * state.mean,
        factors=factors,
        weights=weights,
        residuals=s * unit**2,
        objective=np.array(objective[1:] or objective),
        n_iter=max(1, len(objective) - 1),
        converged=converged,
        loss=loss,
        state=State(state.mean, factors, norms, s),
    )
