"""Data that are seen once: sums that forget, and factors that follow them.

Approximate, and documented as such (``docs/decisions/0006``): what is remembered of a mode is the
scatter of samples projected by the factors *of their time*, with the weights they had then. On a
stationary stream both errors fade; on a drifting one, forgetting is what is wanted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import fix_signs, leading
from corrtensor._engine.large_modes import nystrom
from corrtensor._engine.passes import RawPass, ResidualPass, SweepPass
from corrtensor._engine.products import fibres, recenter, scatter
from corrtensor._engine.state import State
from corrtensor._engine.threads import single_blas
from corrtensor._engine.variance import Explained
from corrtensor.losses import Loss
from corrtensor.losses.scale import lower_quantile

# Residuals remembered for the scale. A new kind of sample is let in when it makes up most of them.
RECENT = 1000
# Weights are counted from that of the median residual, and kept below this.
HEAVIEST = 1e3


@dataclass(frozen=True)
class Stream:
    """What is remembered: the place, recent residuals, and sums of weights and scatters.

    Of a large mode's scatter only a root with few columns is kept.
    """

    origin: np.ndarray
    unit: float
    state: State
    recent: np.ndarray
    weight: float = 0.0
    second: Mapping[int, np.ndarray] = field(default_factory=dict)
    n_seen: int = 0


@dataclass(frozen=True)
class Batch:
    """What a batch looked like before it was learned from, in the data's units."""

    residuals: np.ndarray
    weights: np.ndarray
    loss: Loss


def begin(
    source: Source,
    mean: np.ndarray,
    factors: tuple[np.ndarray | None, ...],
    residuals: np.ndarray,
) -> Stream:
    """Start a stream where a fit of its first batch has converged."""
    state = State((mean - source.origin) / source.unit, factors)
    return Stream(source.origin, source.unit, state, residuals[-RECENT:])


def usual_weight(loss: Loss, residuals: np.ndarray) -> float:
    """Return the logarithm of the weight of the median residual."""
    return float(loss.log_weight(np.array([lower_quantile(residuals)]))[0])


def with_a_fit(stream: Stream, loss: Loss, n_samples: int, fit: Explained) -> Stream:
    """Let a stream remember the samples of a fit that it begins with, by their variances."""
    log_w = loss.log_weight(stream.recent) - usual_weight(loss, stream.recent)
    w = np.exp(np.minimum(log_w, math.log(HEAVIEST)))
    weight = float(w.mean()) * n_samples
    second = {}
    for n, U in enumerate(stream.state.factors):
        if U is None:
            continue
        others = tuple(m for m in range(fit.cores.ndim) if m != n)
        inside = weight / stream.unit**2 * fit.cores.sum(axis=others)
        if stream.state.basis(n) is not None:
            second[n] = U * np.sqrt(inside)
            continue
        outside = weight / stream.unit**2 * fit.noise * (fit.cores.size // U.shape[1])
        second[n] = U * (inside - outside) @ U.T + outside * np.eye(len(U))
    return replace(stream, weight=weight, second=second, n_seen=n_samples)


def absorb(
    stream: Stream, source: Source, loss: Loss, center: str | None, decay: float
) -> tuple[Stream, Batch]:
    """Let the past fade by ``decay``, add a batch, and move mean and factors."""
    state = stream.state
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    loss = loss.calibrate(stream.recent)
    part = source.reduce(ResidualPass(source.at(state.mean, state.factors)))
    s = np.concatenate(part.squares) * stream.unit**2
    log_w = loss.log_weight(s)
    usual = usual_weight(loss, stream.recent)
    w = np.exp(np.minimum(log_w - usual, math.log(HEAVIEST)))

    # Where none is as good as usual, none has the whole weight.
    batch = Batch(s, np.exp(log_w - max(log_w.max(), usual)), loss)
    stream = replace(
        stream,
        recent=np.concatenate([stream.recent, s])[-RECENT:],
        n_seen=stream.n_seen + len(s),
    )
    added = float(w.sum())
    if added == 0:
        return stream, batch
    first = np.asarray(source.reduce(RawPass(()), weights=w).sums.first)
    past = decay * stream.weight
    total = past + added
    here = first / added if center is not None else state.mean
    mean = state.mean + (here - state.mean) * (added / total if stream.weight else 1.0)
    factors, spares, second = list(state.factors), {}, {}
    with single_blas():
        for n in modes:
            Q, k = state.basis(n), factors[n].shape[1]  # type: ignore[union-attr]
            part = source.reduce(SweepPass(source.at(here, factors), n, sketch=Q), weights=w)
            S = part.sums.second[n]
            if center is not None:
                # Both scatters are about their own means: what is between those comes on top.
                S = recenter(S, added, first, here, factors, n, Q)
                F = fibres((here - state.mean)[None], factors, n)
                S = S + past * added / total * scatter(F, Q)
            S = S + decay * remembered(stream.second.get(n), Q)
            if Q is None:
                factors[n], second[n] = leading(S, k), S
            else:
                values, V = nystrom(S, Q, k)
                factors[n], spares[n] = fix_signs(V[:, :k]), V[:, k:]
                second[n] = V * np.sqrt(values)
    followed = replace(
        stream,
        state=State(mean, tuple(factors), spares=spares),
        weight=total,
        second=second,
    )
    return followed, batch


def remembered(past: np.ndarray | None, Q: np.ndarray | None) -> np.ndarray | float:
    """Return a remembered scatter, or what it makes of ``Q`` where only a root of it is kept."""
    if past is None:
        return 0.0
    return past if Q is None else past @ (past.T @ Q)
