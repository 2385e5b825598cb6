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
from corrtensor._engine.core_distances import CorePass
from corrtensor._engine.eigenvectors import fix_signs, leading
from corrtensor._engine.large_modes import nystrom
from corrtensor._engine.passes import RawPass, ResidualPass, SweepPass
from corrtensor._engine.products import fibres, project, recenter, scatter
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

    Of a large mode's scatter only a root with few columns is kept. ``cores`` are the sums of the
    squares of every entry of a core, ``left`` is that of what the subspace does not explain.
    """

    origin: np.ndarray
    unit: float
    state: State
    recent: np.ndarray
    weight: float = 0.0
    second: Mapping[int, np.ndarray] = field(default_factory=dict)
    cores: np.ndarray | float = 0.0
    left: float = 0.0
    n_seen: int = 0

    @property
    def explained(self) -> Explained:
        """What the subspace explains of all that is remembered, in the data's units."""
        # One less than the number of usual samples.
        each = self.unit**2 / (self.weight - 1 if self.weight > 2 else self.weight or 1.0)
        cores = np.asarray(self.cores)
        return Explained.of(each * cores, each * self.left, math.prod(self.state.mean.shape))


@dataclass(frozen=True)
class Batch:
    """What a batch looked like before it was learned from, in the data's units."""

    residuals: np.ndarray
    weights: np.ndarray
    loss: Loss


def usual_weight(loss: Loss, residuals: np.ndarray) -> float:
    """Return the logarithm of the weight of the median residual."""
    return float(loss.log_weight(np.array([lower_quantile(residuals)]))[0])


def with_a_fit(stream: Stream, loss: Loss, n_samples: int, fit: Explained) -> Stream:
    """Let a stream remember the samples of a fit that it begins with, by their variances."""
    log_w = loss.log_weight(stream.recent) - usual_weight(loss, stream.recent)
    w = np.exp(np.minimum(log_w, math.log(HEAVIEST)))
    weight = float(w.mean()) * n_samples
    each, second = weight / stream.unit**2, {}
    for n, U in enumerate(stream.state.factors):
        if U is None:
            continue
        others = tuple(m for m in range(fit.cores.ndim) if m != n)
        inside = each * fit.cores.sum(axis=others)
        if stream.state.basis(n) is not None:
            second[n] = U * np.sqrt(inside)
            continue
        outside = each * fit.noise * (fit.cores.size // U.shape[1])
        second[n] = U * (inside - outside) @ U.T + outside * np.eye(len(U))
    left = each * fit.noise * (math.prod(stream.state.mean.shape) - fit.cores.size)
    remembers = replace(stream, weight=weight, second=second, n_seen=n_samples)
    return replace(remembers, cores=each * fit.cores, left=left)


def absorb(
    stream: Stream,
    source: Source,
    loss: Loss,
    center: str | None,
    decay: float,
    known: np.ndarray | None = None,
) -> tuple[Stream, Batch]:
    """Let the past fade by ``decay``, add a batch, and move mean and factors.

    The samples count by what the loss says of them, or by weights that are ``known``.
    """
    state = stream.state
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    loss = loss.calibrate(stream.recent)
    part = source.reduce(ResidualPass(source.at(state.mean, state.factors)))
    s, norms = np.concatenate(part.squares) * stream.unit**2, np.concatenate(part.norms)
    log_w = loss.log_weight(s)
    usual = usual_weight(loss, stream.recent)
    w = np.exp(np.minimum(log_w - usual, math.log(HEAVIEST)))

    # Where none is as good as usual, none has the whole weight.
    batch = Batch(s, np.exp(log_w - max(log_w.max(), usual)), loss)
    if known is not None:
        w, batch = known, Batch(s, known, loss)
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
    after = State(mean, tuple(factors), spares=spares)
    cores, left = seen_through(after, stream, decay)
    at, none = source.at(mean, factors), np.zeros(len(s), int)
    cores = cores + source.reduce(CorePass(at), weights=w, counts=none).sums.first
    left += float(w @ np.concatenate(source.reduce(ResidualPass(at), norms=norms).squares))
    followed = replace(stream, state=after, weight=total, second=second, cores=cores, left=left)
    return followed, batch


def seen_through(now: State, past: Stream, decay: float) -> tuple[np.ndarray | float, float]:
    """Return what a subspace explains of what is remembered, and what it leaves.

    What the old factors did not explain is taken to vary alike in all directions.
    """
    if not past.weight:
        return 0.0, 0.0
    old = np.asarray(past.cores)
    free = math.prod(now.mean.shape) - old.size
    noise = past.left / free if free else 0.0
    turns = [
        None if U is None or V is None else np.square(U.T @ V)
        for U, V in zip(past.state.factors, now.factors, strict=True)
    ]
    moved = (past.state.mean - now.mean)[None]
    cores = noise + project((old - noise)[None], turns)[0]
    cores += past.weight * np.square(project(moved, now.factors)[0])
    total = old.sum() + past.left + past.weight * np.square(moved).sum()
    return decay * cores, decay * max(float(total - cores.sum()), 0.0)


def remembered(past: np.ndarray | None, Q: np.ndarray | None) -> np.ndarray | float:
    """Return a remembered scatter, or what it makes of ``Q`` where only a root of it is kept."""
    if past is None:
        return 0.0
    return past if Q is None else past @ (past.T @ Q)
