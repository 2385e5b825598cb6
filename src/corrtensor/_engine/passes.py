"""What one block of samples adds to the statistics.

Hot code, as are the products, and ``_robust.cells`` where cells are bad or missing. A block ``x``
is an array ``(n, a_1, ..., a_d)`` of samples less the source's origin. All means here are counted
from that origin too. Letters as in ``docs/method.md``, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from corrtensor._engine.products import (
    Factors,
    core_squares,
    expand,
    fibres,
    project,
    row_squares,
    scatter,
    unfold,
)
from corrtensor._engine.shapes import check_finite, refuse_large
from corrtensor.losses import Loss

Blocks = Iterable[tuple[int, int, np.ndarray]]

# Where |x|^2 - |core|^2 falls below this share of |x|^2, the difference has lost too many
# digits and the residual itself is formed.
CANCELLED = {np.dtype(np.float64): 1e-7, np.dtype(np.float32): 1e-3}
# Squares beyond this cannot be added up safely.
LARGEST_SQUARE = 1e290


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
    cores: list[np.ndarray] = field(default_factory=list)

    def merge(self, other: Part) -> None:
        """Add another part: its sums, and the values of its samples behind those that are there."""
        self.sums.merge(other.sums)
        for name in ("norms", "squares", "log_weights", "cores"):
            getattr(self, name).extend(getattr(other, name))


def working_copy(factors: Factors, dtype: np.dtype) -> list[np.ndarray | None]:
    """Return the factors as the products like them: C order, the block's type, wide by eights.

    Columns of zeros change no projection; they are added where they are cheap, because
    products of other widths are slow.
    """
    padded = []
    for U in factors:
        if U is not None:
            a, k = U.shape
            more = -k % 8
            wide = np.zeros((a, k + more if 10 * more <= k else k), dtype)
            wide[:, :k] = U
            U = wide
        padded.append(U)
    return padded


def by_sample(w: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Shape one number per sample so that it multiplies the samples of ``T``."""
    return w.astype(T.dtype).reshape(-1, *[1] * (T.ndim - 1))


def weighted_sum(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the sum of the weighted samples."""
    return (w.astype(x.dtype) @ x.reshape(len(x), -1)).reshape(x.shape[1:])


def checked_squares(x: np.ndarray, first: int) -> np.ndarray:
    """Return the squared norms; numbers that cannot be squared and added are refused."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = row_squares(x)
    if not (norms < LARGEST_SQUARE).all():
        check_finite(x, first=first)
        refuse_large(x, first=first)
    return norms


@dataclass(frozen=True)
class EachPass:
    """One number for every sample, which a function tells of a block."""

    measure: Callable[[np.ndarray], np.ndarray]

    def __call__(self, blocks: Blocks) -> Part:
        """Measure one chunk."""
        return Part(squares=[self.measure(x) for _, _, x in blocks])


@dataclass(frozen=True)
class RawPass:
    """The pass behind 2DSVD: weighted sum and scatters of all modes, nothing projected.

    Once ``again`` says that sum and norms are known, only scatters are wanted.
    """

    modes: tuple[int, ...]
    sketches: Mapping[int, np.ndarray] = field(default_factory=dict)
    again: bool = False

    def __call__(self, blocks: Blocks, weights: np.ndarray | None = None) -> Part:
        """Add up one chunk."""
        part = Part()
        part.sums.shift = 0.0
        for lo, hi, x in blocks:
            w = np.ones(hi - lo) if weights is None else weights[lo:hi]
            first: Any = 0.0
            if not self.again:
                part.norms.append(checked_squares(x, lo))
                first = weighted_sum(w, x)
            part.sums.add(float(w.sum()), first, self.scatters(x, w))
        return part

    def scatters(self, x: np.ndarray, w: np.ndarray | None = None) -> dict[int, np.ndarray]:
        """Return the weighted scatters of samples."""
        second = {}
        for n in self.modes:
            A = unfold(x, n)
            own = not np.may_share_memory(A, x)
            second[n] = scatter(A, self.sketches.get(n), w, own=own)
        return second


@dataclass(frozen=True)
class Projection:
    """A mean and factors, with what every block needs of them made once for a type."""

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    dtype: np.dtype

    @cached_property
    def U(self) -> list[np.ndarray | None]:
        """The factors as the products like them."""
        return working_copy(self.factors, self.dtype)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """The shape of a core, without columns of zeros."""
        modes = zip(self.mean.shape, self.factors, strict=True)
        return tuple(a if U is None else U.shape[1] for a, U in modes)

    @cached_property
    def m(self) -> np.ndarray:
        """The mean in the type of the blocks."""
        return self.mean.astype(self.dtype)

    @cached_property
    def mean_square(self) -> float:
        """The squared norm of the mean."""
        return float(np.vdot(self.mean, self.mean))

    @cached_property
    def beside(self) -> np.ndarray:
        """What of the mean the subspace does not explain."""
        m = self.mean[None]
        return (m - expand(project(m, self.factors), self.factors)).ravel()

    @cached_property
    def both(self) -> np.ndarray | None:
        """Of vectors, the factor and what is beside it of the mean: one product sees both."""
        U = self.factors[0]
        if len(self.factors) > 1 or U is None:
            return None
        wide = np.zeros((len(U), -(-(U.shape[1] + 1) // 8) * 8), self.dtype)
        wide[:, : U.shape[1]], wide[:, U.shape[1]] = U, self.beside
        return wide

    def seen(self, x: np.ndarray, A: np.ndarray | None, mode: int) -> tuple[np.ndarray, Any]:
        """Return the squares of the cores of x, and its products with what is beside of the mean.

        ``A`` are the fibres of a mode, if they are known.
        """
        if self.both is not None:
            P, k = x @ self.both, self.core_shape[0]
            return np.einsum("ij,ij->i", P[:, :k], P[:, :k]).astype(np.float64), P[:, k]
        squares = row_squares(project(x, self.U)) if A is None else core_squares(A, self.U[mode])
        flat, m = x.reshape(len(x), -1), self.beside.astype(x.dtype)
        return squares, flat @ m if self.mean_square else 0.0

    def residuals(
        self, x: np.ndarray, norms: np.ndarray, A: np.ndarray | None = None, mode: int = 0
    ) -> np.ndarray:
        """Return ``|x - mean|^2 - |core|^2``, or the residual itself where that cancels."""
        # The cores are those of x itself: the mean's part in the subspace drops out.
        inside, along = self.seen(x, A, mode)
        s = norms - inside
        if self.mean_square:
            s -= 2 * along
            s += float(self.beside @ self.beside)
        lost = np.flatnonzero(~(s > CANCELLED[x.dtype] * (norms + self.mean_square)))
        if lost.size:
            d = x[lost] - self.m
            s[lost] = row_squares(d - expand(project(d, self.U), self.U))
        return s


@dataclass(frozen=True)
class ResidualPass:
    """Squared residuals alone; ``unseen`` is what the gaps of samples are expected to add."""

    at: Projection

    def __call__(self, blocks: Blocks, norms: np.ndarray | None = None, unseen: Any = None) -> Part:
        """Measure one chunk."""
        part = Part()
        for lo, hi, x in blocks:
            squares = checked_squares(x, lo) if norms is None else norms[lo:hi]
            s = self.at.residuals(x, squares)
            part.norms.append(squares)
            part.squares.append(s if unseen is None else s + unseen[lo:hi])
        return part


@dataclass(frozen=True)
class SweepPass:
    """One pass of a sweep: residuals and weights if a loss is given, then one mode's scatter.

    Without a loss the weights of the samples are taken as they are, and residuals that are known
    are not measured again. ``centred`` says whether the weighted sum of the samples is wanted.
    """

    at: Projection
    mode: int
    loss: Loss | None = None
    unit: float = 1.0
    centred: bool = True
    sketch: np.ndarray | None = None

    def __call__(
        self,
        blocks: Blocks,
        norms: np.ndarray | None = None,
        log_prior: np.ndarray | None = None,
        weights: np.ndarray | None = None,
        squares: np.ndarray | None = None,
        unseen: np.ndarray | None = None,
    ) -> Part:
        """Measure and add up one chunk."""
        part = Part()
        part.sums.shift = -math.inf if weights is None else 0.0
        for lo, hi, x in blocks:
            A = fibres(x, self.at.U, self.mode)
            first: Any = 0.0
            if weights is not None:
                w = weights[lo:hi]
            else:
                assert self.loss is not None  # noqa: S101
                if squares is not None:
                    s = squares[lo:hi]
                else:
                    assert norms is not None  # noqa: S101
                    s = self.at.residuals(x, norms[lo:hi], A, self.mode)
                    s = s if unseen is None else s + unseen[lo:hi]
                log_w = self.loss.log_weight(s * self.unit**2)
                if log_prior is not None:
                    log_w = log_w + log_prior[lo:hi]
                part.squares.append(s)
                part.log_weights.append(log_w)
                if not (top := float(log_w.max())) > -math.inf:
                    continue
                part.sums.rescale(top)
                w = np.exp(log_w - part.sums.shift)
                first = weighted_sum(w, x) if self.centred else first
            S = scatter(A, self.sketch, w, own=not np.may_share_memory(A, x))
            part.sums.add(float(w.sum()), first, {self.mode: S})
        return part

    def scatters(self, x: np.ndarray) -> dict[int, np.ndarray]:
        """Return the scatter of samples."""
        return {self.mode: scatter(fibres(x, self.at.U, self.mode), self.sketch)}
