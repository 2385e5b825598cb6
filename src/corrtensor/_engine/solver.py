"""The sweeps of a fit: weights, mean, factors, until neither objective nor projectors move.

See ``docs/method.md``, sections 2 to 5. What bad and missing cells should be is learned before, in
rounds of a sweep each (:mod:`corrtensor._robust.learning`). Everything here is counted from the
source's origin in the source's unit; :class:`Solution` is in the data's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import energies_in, fix_signs, leading, turned
from corrtensor._engine.large_modes import nystrom
from corrtensor._engine.passes import CANCELLED, Part, ResidualPass, SweepPass
from corrtensor._engine.products import recenter
from corrtensor._engine.state import Options, Snapshot, Solution, State
from corrtensor._engine.threads import single_blas
from corrtensor._engine.weights import log_of
from corrtensor.losses import Loss
from corrtensor.losses.protocol import weights_of
from corrtensor.losses.scale import lower_quantile, typical, weighted_quantiles

# A rise of the objective by more than this share is taken back, or by more than is left of digits
# where residuals are small beside the samples; by more than the root of it, it is no rounding.
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
# A residual below this share of the median is an exact fit.
EXACT = 1e-3
# Sweeps in a row that all together lower the objective by no more than rounding: what still moves
# then is decided by rounding alone.
PATIENCE = 10


def at_rest(objective: Sequence[float], moved: float, tol: float, rounding: float) -> bool:
    """Tell whether the sweeps may end; with ``tol=0`` all of them are run.

    Either the last one changed neither objective nor projectors, or several in a row gained no
    more than rounding.
    """
    size = abs(objective[-2])
    if objective[-2] - objective[-1] <= tol * size and moved < math.sqrt(tol):
        return True
    long = tol > 0 and len(objective) > PATIENCE
    return long and objective[-1 - PATIENCE] - objective[-1] <= rounding * size


def cost_of(loss: Loss, s: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the objective: the weighted sum of what residuals cost."""
    value = loss.value(s)
    return float(value.sum() if weight is None else value @ weight)


def ending(objective: Sequence[float], moved: float, options: Options, rounding: float) -> str:
    """Tell how the last sweep ends the fit; nothing if another follows."""
    if objective[-1] - objective[-2] > rounding * abs(objective[-2]):
        return "rose"
    if at_rest(objective, moved, options.tol, rounding):
        return "converged"
    return "max_iter" if len(objective) > options.max_iter else ""


def next_state(source: Source, state: State, part: Part, center: str | None) -> State:
    """Finish a sweep whose first pass is done: the mean, then every mode in turn."""
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    factors, spares, energies = list(state.factors), {}, {}
    if part.sums.shift == -math.inf:
        raise ValueError("the loss leaves no sample any weight: its log_weight is -inf for all")
    weights = np.exp(np.concatenate(part.log_weights) - part.sums.shift)
    total, first = part.sums.weight, np.asarray(part.sums.first)
    mean = first / total if center == "weighted" else state.mean
    for n in modes:
        Q, k = state.basis(n), factors[n].shape[1]  # type: ignore[union-attr]
        if n != modes[0]:
            sweep = SweepPass(source.at(mean, factors), n, sketch=narrowed(Q, source.dtype))
            part = source.reduce(sweep, weights=weights)
        S = part.sums.second[n]
        if center is not None:
            S = recenter(S, total, first, mean, factors, n, Q)
        if Q is None:
            factors[n] = U = leading(S, k)
            energies = {n: energies_in(S, U) / total}
        else:
            V, energies = nystrom(S, Q, k)[1], {}
            factors[n], spares[n] = fix_signs(V[:, :k]), V[:, k:]
    return State(mean, tuple(factors), spares=spares, energies=energies)


def narrowed(Q: np.ndarray | None, dtype: np.dtype) -> np.ndarray | None:
    """Return a basis in the type of the blocks, once for all of them."""
    return None if Q is None else Q.astype(dtype, copy=False)


def measured(source: Source, state: State) -> State:
    """Return a state that knows its samples' norms and residuals."""
    if state.norms is not None and state.squares is not None:
        return state
    part = source.reduce(ResidualPass(source.at(state.mean, state.factors)), norms=state.norms)
    norms = np.concatenate(part.norms) if state.norms is None else state.norms
    return replace(state, norms=norms, squares=np.concatenate(part.squares))


def rounding_in(s: np.ndarray, norms: np.ndarray, dtype: np.dtype) -> float:
    """Return what of the objective may be rounding: residuals are differences of norms."""
    whole = float(np.median(norms))
    left = max(float(np.median(s)) / whole, CANCELLED[dtype]) if whole else 1.0
    return max(ROUNDING[dtype], 16 * float(np.finfo(dtype).eps) / left)


def rounding_of(norms: np.ndarray, dtype: np.dtype, sample_weight: np.ndarray | None) -> float:
    """Return the squared residual that rounding leaves: it tells nothing of the scale."""
    return float(np.square(64 * np.finfo(dtype).eps)) * typical(
        weighted_quantiles(norms, sample_weight)
    )


def calibrated(loss: Loss, source: Source, state: State, sample_weight: np.ndarray | None) -> Loss:
    """Freeze what of a loss depends on the data, from the residuals that tell of it."""
    s, norms = state.squares, state.norms
    noise = rounding_of(norms, source.dtype, sample_weight)
    counted = sample_weight
    # Nor do a few exact fits beside honest residuals.
    telling = s > EXACT * lower_quantile(weighted_quantiles(s, sample_weight))
    if not telling.all() and (telling if counted is None else telling * counted).any():
        counted = telling * (1.0 if counted is None else counted)
    return loss.calibrate(np.maximum(weighted_quantiles(s, counted), noise) * source.unit**2)


def solve(
    source: Source,
    start: State,
    loss: Loss,
    options: Options,
    sample_weight: np.ndarray | None = None,
) -> Solution:
    """Sweep from a start to a stationary point of the objective."""
    unit, log_prior = source.unit, log_of(sample_weight)
    # A mode at its full rank loses nothing and never changes: it need not be projected.
    thin = [U is not None and U.shape[1] < U.shape[0] for U in start.factors]
    state = measured(source, thinned(start, thin))
    s, norms = state.squares, state.norms
    if options.resume is None:
        loss = calibrated(loss, source, state, sample_weight)
        objective = [cost_of(loss, s * unit**2, sample_weight)]
    else:
        state, loss = thinned(options.resume.state, thin), options.resume.loss
        objective, s = list(options.resume.objective), options.resume.residuals / unit**2
    moved, before, centred = math.inf, None, options.center is not None
    rounding = rounding_in(s, norms, source.dtype)
    done = not any(thin) or settled(source, options, state, loss, log_prior)
    status = "" if options.coupled and not done else "converged"
    while not status:
        at, mode = source.at(state.mean, state.factors), thin.index(True)
        sweep = SweepPass(at, mode, loss, unit, centred, narrowed(state.basis(mode), source.dtype))
        add_up = partial(source.reduce, sweep, log_prior=log_prior)
        if before is None:
            part = add_up(squares=s)
        else:
            # A turn loses about its square of the energy. Where no sweep seems to follow, only the
            # residuals are wanted.
            last = moved**2 * np.median(norms) < options.tol * np.median(s)
            last = last or len(objective) == options.max_iter
            part = source.reduce(ResidualPass(at), norms=norms) if last else add_up(norms=norms)
            s = np.concatenate(part.squares)
            objective.append(cost_of(loss, s * unit**2, sample_weight))
            status = ending(objective, moved, options, rounding)
            if status == "rose":
                # Taken back: where few samples count, rounding decides some directions.
                risen = objective.pop() - objective[-1]
                state, s = before
                exact = lower_quantile(s) <= rounding_of(norms, source.dtype, sample_weight)
                small = risen <= math.sqrt(rounding) * abs(objective[-1])
                status = "converged" if small or exact or state.spares else "rose"
            seen = Snapshot(state, loss, tuple(objective), s * unit**2, bool(status))
            if options.observe is not None and options.observe(seen):
                status = status or "stopped"
            if status:
                break
            if last:
                part = add_up(squares=s)
        before = (state, s)
        with single_blas():
            new = next_state(source, state, part, options.center)
        moved, state = turned(state.factors, new.factors), new
    found = zip(state.factors, start.factors, strict=True)
    factors = tuple(V if U is None else U for U, V in found)
    state = State(state.mean, factors, norms, s, energies=state.energies)
    return solution_of(source, state, loss, objective, status)


def settled(
    source: Source, options: Options, state: State, loss: Loss, log_prior: np.ndarray | None
) -> bool:
    """Tell whether vectors count just as they did when mean and factor were learned from them.

    Samples of one mode have nothing else that a sweep would project by: it would change nothing.
    """
    if options.observe is not None or options.tol == 0:
        return False
    if state.taught is None or state.squares is None or len(state.factors) > 1:
        return False
    log_w = loss.log_weight(state.squares * source.unit**2) + (
        0.0 if log_prior is None else log_prior
    )
    taught = state.taught / state.taught.max()
    return bool(np.array_equal(np.exp(log_w - log_w.max()), taught))


def thinned(state: State, thin: Sequence[bool]) -> State:
    """Return a state without the factors that are not thin."""
    kept = (U if t else None for U, t in zip(state.factors, thin, strict=True))
    return replace(state, factors=tuple(kept))


def solution_of(
    source: Source, state: State, loss: Loss, objective: list[float], status: str
) -> Solution:
    """Return what was found, in the data's own units."""
    residuals = state.squares * source.unit**2
    return Solution(
        mean=source.origin + source.unit * state.mean,
        factors=state.factors,
        weights=weights_of(loss, residuals),
        residuals=residuals,
        objective=np.array(objective[1:] or objective),
        n_iter=max(1, len(objective) - 1),
        status=status,
        loss=loss,
        state=state,
    )
