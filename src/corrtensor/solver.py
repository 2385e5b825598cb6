"""The only loop: weights, mean, factors, until neither objective nor projectors move.

See ``docs/method.md``, sections 2 to 5. Everything here is counted from the source's origin in
the source's unit; :class:`Solution` is in the data's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh

from corrtensor.kernels import Part, ResidualPass, SweepPass, recenter
from corrtensor.losses import Loss, lower_quantile, typical, weights_of
from corrtensor.sketch import basis, nystrom
from corrtensor.sources import Source
from corrtensor.threads import single_blas

# A rise of the objective by more than this share is taken back; by more than the root of it,
# it is no rounding.
ROUNDING = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
# Of matrices of these sizes all eigenvectors come faster than the leading ones alone.
ALL_AT_ONCE = range(32, 129)
# A residual below this share of the median is an exact fit.
EXACT = 1e-3
# Entries that differ by less than this share are equal.
EQUAL = 1e-6
# Sweeps in a row that all together lower the objective by no more than rounding: what still moves
# then is decided by rounding alone.
PATIENCE = 10


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

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The number of columns of each factor."""
        return tuple(None if U is None else U.shape[1] for U in self.factors)

    def basis(self, mode: int) -> np.ndarray | None:
        """Return the directions through which the scatter of a large mode is seen."""
        return basis(self.factors[mode], self.spares.get(mode))


@dataclass(frozen=True)
class Solution:
    """What the solver found, in the data's own units; ``state`` is in the source's.

    ``verdict`` is what was decided before on which samples count, ``prior`` how much each may.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    weights: np.ndarray
    residuals: np.ndarray
    objective: np.ndarray
    n_iter: int
    status: str
    loss: Loss
    state: State
    verdict: Any = None
    prior: np.ndarray | None = None

    @property
    def converged(self) -> bool:
        """Whether the sweeps came to rest."""
        return self.status == "converged"


# How sweeps can end, in words.
STATUS = {
    "converged": "the sweeps came to rest",
    "max_iter": "did not converge in max_iter={n} sweeps; raise max_iter or tol",
    "rose": "stopped after {n} sweeps because another would raise the objective; the loss "
    "is not a concave function of the squared residual, or too few samples count",
    "stopped": "was stopped by its callback after {n} sweeps",
}


@dataclass(frozen=True)
class Snapshot:
    """A fit after a sweep: what is needed to watch it, or to go on from there.

    ``objective`` begins with its value at the start; ``residuals`` are in the data's units;
    ``finished`` tells that no sweep follows; ``cores`` are those of samples with missing cells.
    """

    state: State
    loss: Loss
    objective: tuple[float, ...]
    residuals: np.ndarray
    finished: bool = False
    cores: np.ndarray | None = None


@dataclass(frozen=True)
class Options:
    """How the sweeps are run; what they minimise is the loss.

    ``observe`` is called after every sweep and may end the fit by returning true; ``resume`` is
    where an earlier fit stood.
    """

    center: str | None = "weighted"
    coupled: bool = True
    max_iter: int = 100
    tol: float = 1e-6
    observe: Callable[[Snapshot], object] | None = None
    resume: Snapshot | None = None

    def brief(self, sweeps: int) -> Options:
        """Return these options for a few sweeps on the way, which nobody watches."""
        return replace(self, max_iter=sweeps, observe=None, resume=None)


def fix_signs(U: np.ndarray) -> np.ndarray:
    """Make the largest entry of every column positive; of equal ones, the first."""
    size = np.abs(U)
    # Equal but for rounding, which must not choose.
    largest = U[(size >= (1 - EQUAL) * size.max(axis=0)).argmax(axis=0), np.arange(U.shape[1])]
    return np.ascontiguousarray(U * np.where(largest < 0, -1.0, 1.0))


def leading(S: np.ndarray, k: int) -> np.ndarray:
    """Return the leading eigenvectors of a symmetric matrix, the first first."""
    a = len(S)
    if a in ALL_AT_ONCE:
        U = eigh(S, driver="evd", check_finite=False)[1][:, a - k :]
    else:
        U = eigh(S, subset_by_index=(a - k, a - 1), check_finite=False)[1]
    return fix_signs(U[:, ::-1])


def turned(old: Sequence[np.ndarray | None], new: Sequence[np.ndarray | None]) -> float:
    """Return how far the projectors moved: the largest root mean square sine of the angles."""
    # What U leaves of V, and not 1 - |U'V|^2, in which half of the digits are lost.
    sines = [
        float(np.linalg.norm(V - U @ (U.T @ V))) / math.sqrt(V.shape[1])
        for U, V in zip(old, new, strict=True)
        if U is not None and V is not None
    ]
    return max(sines, default=0.0)


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


def times(weights: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return weights times those the user gave, if any."""
    return weights if sample_weight is None else weights * sample_weight


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
    if part.sums.shift == -math.inf:
        raise ValueError("the loss leaves no sample any weight: its log_weight is -inf for all")
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


def measured(source: Source, state: State) -> State:
    """Return a state that knows its samples' norms and residuals."""
    if state.norms is not None and state.squares is not None:
        return state
    part = source.measure(ResidualPass(source.at(state.mean, state.factors)), norms=state.norms)
    norms = np.concatenate(part.norms) if state.norms is None else state.norms
    return replace(state, norms=norms, squares=np.concatenate(part.squares))


def rounding_of(norms: np.ndarray, dtype: np.dtype, sample_weight: np.ndarray | None) -> float:
    """Return the squared residual that rounding leaves: it tells nothing of the scale."""
    return float(np.square(64 * np.finfo(dtype).eps)) * typical(
        weighted_quantiles(norms, sample_weight)
    )


def calibrated(loss: Loss, source: Source, state: State, sample_weight: np.ndarray | None) -> Loss:
    """Freeze what of a loss depends on the data, from the residuals that tell of it."""
    s, norms = state.squares, state.norms
    assert s is not None  # noqa: S101
    assert norms is not None  # noqa: S101
    noise = rounding_of(norms, source.dtype, sample_weight)
    counted = sample_weight if state.counted is None else state.counted
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
    unit, log_prior = source.unit, None
    if sample_weight is not None:
        with np.errstate(divide="ignore"):
            log_prior = np.log(sample_weight)

    # A sample that shows half of its cells costs half.
    counted = sample_weight if source.share is None else times(source.share, sample_weight)

    def cost(s: np.ndarray) -> float:
        value = loss.value(s * unit**2)
        return float(value.sum() if counted is None else value @ counted)

    # A mode at its full rank loses nothing and never changes: it need not be projected.
    thin = [U is not None and U.shape[1] < U.shape[0] for U in start.factors]

    def thinned(state: State) -> State:
        kept = (U if t else None for U, t in zip(state.factors, thin, strict=True))
        return replace(state, factors=tuple(kept))

    state = measured(source, thinned(start))
    s, norms = state.squares, state.norms
    assert s is not None  # noqa: S101
    assert norms is not None  # noqa: S101
    if options.resume is None:
        loss = calibrated(loss, source, state, sample_weight)
        objective = [cost(s)]
    else:
        state, loss = thinned(options.resume.state), options.resume.loss
        objective = list(options.resume.objective)
        source.recall(state, options.resume.cores)
    moved, before = math.inf, None
    status = "" if options.coupled and any(thin) else "converged"
    while not status:
        at, centred = source.at(state.mean, state.factors), options.center is not None
        mode = thin.index(True)
        if before is not None and len(objective) == options.max_iter:
            # Nothing follows: only the residuals are wanted.
            part = source.measure(ResidualPass(at), norms=norms)
        else:
            sweep = SweepPass(at, mode, loss, unit, centred, state.basis(mode))
            part = source.measure(sweep, norms=norms, log_prior=log_prior)
        s = np.concatenate(part.squares)
        if before is not None:
            objective.append(cost(s))
            fallen, size = objective[-2] - objective[-1], abs(objective[-2])
            if fallen < -ROUNDING[source.dtype] * size:
                # Too few samples count to decide every direction: what rounding decides is no
                # improvement, and the sweep is taken back.
                objective.pop()
                state, s = before
                if source.calm():
                    before = None
                    continue
                small = fallen >= -math.sqrt(ROUNDING[source.dtype]) * size
                exact = lower_quantile(s) <= rounding_of(norms, source.dtype, sample_weight)
                status = "converged" if small or exact or state.spares else "rose"
            elif at_rest(objective, moved, options.tol, ROUNDING[source.dtype]):
                status = "converged"
            elif len(objective) > options.max_iter:
                status = "max_iter"
            seen = Snapshot(
                state, loss, tuple(objective), s * unit**2, bool(status), source.cores
            )
            if options.observe is not None and options.observe(seen):
                status = status or "stopped"
            if status:
                break
        before = (state, s)
        with single_blas():
            new = next_state(source, state, part, options.center)
        moved, state = turned(state.factors, new.factors), new
    factors = tuple(
        V if U is None else U for U, V in zip(state.factors, start.factors, strict=True)
    )
    return Solution(
        mean=source.origin + unit * state.mean,
        factors=factors,
        weights=weights_of(loss, s * unit**2),
        residuals=s * unit**2,
        objective=np.array(objective[1:] or objective),
        n_iter=max(1, len(objective) - 1),
        status=status,
        loss=loss,
        state=State(state.mean, factors, norms, s),
    )
