"""What one block of samples adds to the statistics: the only hot code.

A block ``x`` is an array ``(n, a_1, ..., a_d)`` of samples less the source's origin. All
means here are counted from that origin too. Letters as in ``docs/method.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corrtensor.losses import Loss
from corrtensor.samples import check_finite

Factors = Sequence[np.ndarray | None]
Blocks = Iterable[tuple[int, int, np.ndarray]]

# Where |x|^2 - |core|^2 falls below this share of |x|^2, the difference has lost too many
# digits and the residual itself is formed.
CANCELLED = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}
# Squares beyond this cannot be added up safely.
LARGEST_SQUARE = 1e290


def contract(T: np.ndarray, U: np.ndarray, mode: int) -> np.ndarray:
    """Return ``T x_mode U'`` for every sample of ``T``."""
    before, a, after = T.shape[: mode + 1], T.shape[mode + 1], T.shape[mode + 2 :]
    width = math.prod(after)
    if width == 1:
        P = T.reshape(-1, a) @ U
    else:
        P = np.matmul(U.T, T.reshape(-1, a, width))
    return P.reshape(*before, U.shape[1], *after)


def project(T: np.ndarray, factors: Factors, skip: int | None = None) -> np.ndarray:
    """Project every sample by all the factors but one, those that shrink it most first."""
    modes = [n for n, U in enumerate(factors) if U is not None and n != skip]
    for n in sorted(modes, key=lambda n: factors[n].shape[1] / factors[n].shape[0]):  # type: ignore[union-attr]
        T = contract(T, factors[n], n)  # type: ignore[arg-type]
    return T


def expand(cores: np.ndarray, factors: Factors) -> np.ndarray:
    """Return ``core x_1 U_1 ... x_d U_d`` for every core."""
    for n, U in enumerate(factors):
        if U is not None:
            cores = contract(cores, U.T, n)
    return cores


def unfold(T: np.ndarray, mode: int) -> np.ndarray:
    """Return all fibres of one mode as the rows of a matrix ``(n * rest, a_mode)``."""
    return np.moveaxis(T, mode + 1, -1).reshape(-1, T.shape[mode + 1])


def scatter(P: np.ndarray, mode: int, sketch: np.ndarray | None = None) -> np.ndarray:
    """Return the sum over the samples of ``P_(mode) P_(mode)'``, or that times ``sketch``."""
    if sketch is not None:
        A = unfold(P, mode)
        return A.T @ (A @ sketch)
    if mode + 2 == P.ndim:
        A = P.reshape(-1, P.shape[-1])
        return A.T @ A
    B = np.moveaxis(P, mode + 1, 0).reshape(P.shape[mode + 1], -1)
    return B @ B.T


def row_squares(T: np.ndarray) -> np.ndarray:
    """Return the squared norm of every sample."""
    rows = T.reshape(len(T), -1)
    return np.einsum("ij,ij->i", rows, rows).astype(np.float64)


@dataclass
class Sums:
    """Weighted sums of one pass, kept as ``exp(shift)`` times moderate numbers."""

    shift: float = -math.inf
    weight: float = 0.0
    first: np.ndarray | float = 0.0
    second: dict[int, np.ndarray] = field(default_factory=dict)

    def rescale(self, shift: float) -> None:
        """Express the sums in a larger unit, so that no weight overflows."""
        if shift <= self.shift:
            return
        factor = math.exp(self.shift - shift)
        self.shift = shift
        self.weight *= factor
        self.first = self.first * factor
        self.second = {n: S * factor for n, S in self.second.items()}

    def add(self, weight: float, first: Any, second: dict[int, np.ndarray]) -> None:
        """Add terms that are already in this unit; arrays once owned are added to in place."""
        self.weight += weight
        if isinstance(self.first, np.ndarray):
            self.first += first
        else:
            self.first = np.asarray(first, dtype=np.float64) + self.first
        for n, S in second.items():
            if n in self.second:
                self.second[n] += S
            else:
                self.second[n] = S.astype(np.float64)

    def merge(self, other: Sums) -> None:
        """Add the sums of another part of the data."""
        if other.shift == -math.inf:
            return
        self.rescale(other.shift)
        other.rescale(self.shift)
        self.add(other.weight, other.first, other.second)


@dataclass
class Part:
    """What one chunk gives back: values for its samples, and its share of the sums."""

    sums: Sums = field(default_factory=Sums)
    norms: list[np.ndarray] = field(default_factory=list)
    squares: list[np.ndarray] = field(default_factory=list)
    log_weights: list[np.ndarray] = field(default_factory=list)


@dataclass(frozen=True)
class RawPass:
    """The pass behind 2DSVD: weighted mean and scatters of all modes, nothing projected."""

    modes: tuple[int, ...]
    center: np.ndarray
    sketches: dict[int, np.ndarray] = field(default_factory=dict)

    def __call__(self, blocks: Blocks, weights: np.ndarray | None = None) -> Part:
        """Add up one chunk."""
        part = Part()
        part.sums.shift = 0.0
        for lo, hi, x in blocks:
            with np.errstate(over="ignore", invalid="ignore"):
                norms = row_squares(x)
            if not (norms < LARGEST_SQUARE).all():
                check_finite(x, first=lo)
                raise ValueError(
                    f"sample {lo + int(norms.argmax())} is too large to be squared beside the others"
                )
            w = np.ones(hi - lo) if weights is None else weights[lo:hi]
            first = w.astype(x.dtype) @ x.reshape(len(x), -1)
            P = x - self.center.astype(x.dtype)
            if weights is not None:
                P *= np.sqrt(w).astype(x.dtype).reshape(-1, *[1] * (x.ndim - 1))
            second = {n: scatter(P, n, self.sketches.get(n)) for n in self.modes}
            part.sums.add(float(w.sum()), first.reshape(x.shape[1:]), second)
            part.norms.append(norms)
        return part


@dataclass(frozen=True)
class SweepPass:
    """One pass of a sweep: residuals and weights if a loss is given, then one mode's scatter.

    Without a loss the weights of the samples are taken as they are; without a mode only the
    residuals are measured.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    mode: int | None = None
    loss: Loss | None = None
    unit: float = 1.0
    sketch: np.ndarray | None = None
    update_mean: bool = True

    def __call__(
        self,
        blocks: Blocks,
        norms: np.ndarray | None = None,
        log_prior: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ) -> Part:
        """Measure and add up one chunk."""
        part = Part()
        mean = None
        for lo, hi, x in blocks:
            if mean is None or mean.dtype != x.dtype:
                mean = self.mean.astype(x.dtype)
                factors = [None if U is None else U.astype(x.dtype) for U in self.factors]
                projected_mean = project(mean[None], factors, self.mode)
            P = project(x, factors, self.mode)
            P = np.subtract(P, projected_mean, out=None if P is x else P)
            if weights is None:
                s = self.measure(x, P, mean, factors, None if norms is None else norms[lo:hi])
                part.squares.append(s)
                if self.loss is None:
                    continue
                log_w = self.loss.log_weight(s * self.unit**2)
                if log_prior is not None:
                    log_w = log_w + log_prior[lo:hi]
                part.log_weights.append(log_w)
                if self.mode is None or not (top := float(log_w.max())) > -math.inf:
                    continue
                part.sums.rescale(top)
                w = np.exp(log_w - part.sums.shift)
            else:
                part.sums.shift = 0.0
                w = weights[lo:hi]
            self.add_block(part.sums, x, P, w)
        return part

    def measure(
        self,
        x: np.ndarray,
        P: np.ndarray,
        mean: np.ndarray,
        factors: Factors,
        norms: np.ndarray | None,
    ) -> np.ndarray:
        """Return the squared residual of every sample of a block."""
        U = None if self.mode is None else factors[self.mode]
        cores = P if U is None else contract(P, U, self.mode)  # type: ignore[arg-type]
        if norms is None:
            norms = row_squares(x)
            if not np.isfinite(norms).all():
                check_finite(x)
        size = norms + float(np.vdot(self.mean, self.mean))
        s = size - row_squares(cores)
        if self.mean.any():
            s -= 2 * (x.reshape(len(x), -1) @ mean.ravel())
        lost = np.flatnonzero(~(s > CANCELLED[x.dtype] * size))
        if lost.size:
            s[lost] = row_squares(x[lost] - mean - expand(cores[lost], factors))
        return s

    def add_block(self, sums: Sums, x: np.ndarray, P: np.ndarray, w: np.ndarray) -> None:
        """Add the weighted mean and the scatter of a block; ``P`` is spent."""
        first = 0.0
        if self.update_mean and self.loss is not None:
            first = (w.astype(x.dtype) @ x.reshape(len(x), -1)).reshape(x.shape[1:])
        P *= np.sqrt(w).astype(P.dtype).reshape(-1, *[1] * (P.ndim - 1))
        assert self.mode is not None  # noqa: S101
        sums.add(float(w.sum()), first, {self.mode: scatter(P, self.mode, self.sketch)})
