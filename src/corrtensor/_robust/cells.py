"""Bad and missing cells: what a fit expects of a block, and the block completed by it.

A cell is one number of one sample. ``x`` holds NaN where it is missing. Letters and proofs as in
``docs/method.md``, section 13. Nothing here knows where blocks come from.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from corrtensor._engine.passes import LARGEST_SQUARE, by_sample
from corrtensor._engine.products import expand, project, row_squares
from corrtensor._engine.shapes import refuse_infinite

# The loss of a cell is its square up to here, in squared bandwidths: the cap of section 3.2.
EDGE = 1 / math.sqrt(2)
# From here on a cell weighs nothing, in squared bandwidths.
FARTHEST = 30.0
# Cells of little weight leave room for longer steps: beyond what is proven by this power of the
# mean weight, and no further than for a mean weight of that.
BOLD, SLOWEST = 0.9, 0.2
# Steps towards the core of a new sample, and how much wider than its own the bandwidth begins.
STEPS = 40
NARROWING = ((4.0, 3), (2.0, 3), (1.0, 6))
# A core is found when what is left of the gradient is this share of what it was at first.
FOUND = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


class Block(NamedTuple):
    """Samples completed at a fit, how far each is from it, and the mean weight of its cells.

    ``moved`` is what the completed samples are away from the fit, ``expected``. ``doubted`` are
    the places of the cells of less than full weight in the flattened block, and ``trust`` the
    weights there.
    """

    moved: np.ndarray
    squares: np.ndarray
    weights: np.ndarray
    expected: np.ndarray
    missing: np.ndarray
    doubted: np.ndarray
    trust: np.ndarray
    pull: float = 0.0

    @property
    def x(self) -> np.ndarray:
        """The completed samples."""
        return self.expected + self.moved

    @property
    def pace(self) -> np.ndarray:
        """How far beyond the completed samples to aim."""
        return np.clip(self.weights, SLOWEST, 1) ** -BOLD

    def ahead(self) -> np.ndarray:
        """Return the samples drawn away from the fit by the pace: what the sweeps run on."""
        y = self.moved * by_sample(self.pace, self.moved)
        y += self.expected
        return y

    def weigh(self, T: np.ndarray) -> np.ndarray:
        """Multiply every cell by its weight, in place."""
        T *= np.where(self.missing, self.pull, 1).astype(T.dtype)
        T.reshape(-1)[self.doubted] *= self.trust
        return T


def refuse(x: np.ndarray, first: int) -> None:
    """Name the sample with an infinity, or the one too large."""
    refuse_infinite(x, first=first)
    worst = int(np.nan_to_num(np.abs(x)).reshape(len(x), -1).max(axis=1).argmax())
    raise ValueError(f"sample {first + worst} is too large to be squared beside the others")


@dataclass(frozen=True, eq=False)
class Model:
    """What is expected of samples: ``mean + core x_1 U_1 ...``, and how far a cell may stray.

    Without factors the mean is all that is expected. ``width`` is the bandwidth of every cell;
    ``None`` doubts none of them. ``prior`` is what a square of every entry of a core costs beside
    that of a cell. A missing cell counts by ``pull`` as if it was seen at ``place``.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...] | None
    dtype: np.dtype
    width: np.ndarray | None = None
    prior: np.ndarray | float = 0.0
    pull: float = 0.0
    place: np.ndarray | float = 0.0

    @cached_property
    def U(self) -> list[np.ndarray | None]:
        """The factors in the type of the blocks."""
        assert self.factors is not None  # noqa: S101
        return [None if U is None else U.astype(self.dtype) for U in self.factors]

    @cached_property
    def m(self) -> np.ndarray:
        """The mean in the type of the blocks."""
        return self.mean.astype(self.dtype)

    @cached_property
    def mean_core(self) -> np.ndarray:
        """The core of the mean itself."""
        return project(self.m[None], self.U)

    @cached_property
    def narrow(self) -> np.ndarray:
        """One over the bandwidth of every cell."""
        assert self.width is not None  # noqa: S101
        return (1 / self.width).astype(self.dtype)

    @cached_property
    def cost(self) -> np.ndarray:
        """The prior in the type of the blocks."""
        return np.asarray(self.prior, self.dtype)

    @property
    def core_shape(self) -> tuple[int, ...]:
        """Shape of a core; one empty axis if there is no factor."""
        if self.factors is None:
            return (0,)
        modes = zip(self.mean.shape, self.factors, strict=True)
        return tuple(a if U is None else U.shape[1] for a, U in modes)

    def is_at(self, mean: np.ndarray, factors: tuple[np.ndarray | None, ...]) -> bool:
        """Tell whether this is the fit with these factors and this mean."""
        if self.factors is None or not np.array_equal(self.mean, mean):
            return False
        pairs = zip(self.factors, factors, strict=True)
        return all(
            U is V or (U is not None and V is not None and np.array_equal(U, V)) for U, V in pairs
        )

    def cores(self, x: np.ndarray) -> np.ndarray:
        """Return the cores of completed samples."""
        if self.factors is None:
            return np.zeros((len(x), 0), self.dtype)
        return project(x, self.U) - self.mean_core

    def expected(self, cores: np.ndarray) -> np.ndarray:
        """Return the fit of samples with these cores."""
        if self.factors is None:
            return np.broadcast_to(self.m, (len(cores), *self.m.shape)).copy()
        F = expand(cores, self.U)
        F += self.m
        return F

    def complete(
        self, x: np.ndarray, cores: np.ndarray, wider: float = 1.0, first: int = 0
    ) -> Block:
        """Return samples whose missing and doubted cells were moved to where they are expected.

        ``x`` itself is not changed.
        """
        return self.complete_by(x, self.expected(cores), wider, first)

    def complete_by(self, x: np.ndarray, F: np.ndarray, wider: float, first: int) -> Block:
        """Do so with a given fit."""
        n, cells = len(x), F[0].size
        with np.errstate(over="ignore", invalid="ignore"):
            R, missing = x - F, np.isnan(x)
            gaps = np.count_nonzero(missing.reshape(n, -1), axis=1)
            if gaps.any():
                # Zero in the place of NaN, much faster than by the mask.
                R = np.add(np.fmax(R, 0), np.fmin(R, 0), out=R)
            squares, lost, doubted, v = self.weighed(R, wider)
            if self.pull and gaps.any():
                away = (np.asarray(self.place, x.dtype) - F) * missing
                squares += self.pull * row_squares(away)
                R += x.dtype.type(self.pull) * away
        if not (squares < LARGEST_SQUARE).all():
            refuse(x, first)
        squares *= cells / np.maximum(cells - gaps, 1)
        weights = 1 - (lost + (1 - self.pull) * gaps) / cells
        return Block(R, squares, weights, F, missing, doubted, v, self.pull)

    def weighed(
        self, R: np.ndarray, wider: float
    ) -> tuple[np.ndarray, np.ndarray | float, np.ndarray, np.ndarray]:
        """Multiply residuals by the weights of their cells, in place.

        Returned are what they cost each sample, the weight it loses, and its doubted cells with
        their weights.
        """
        if self.width is None:
            return row_squares(R), 0.0, np.empty(0, np.intp), np.empty(0, R.dtype)
        n, flat, T = len(R), R.reshape(-1), R * self.narrow
        doubted = np.flatnonzero(np.abs(T, out=T) > math.sqrt(EDGE) * wider)
        r, t = flat[doubted], T.reshape(-1)[doubted] / R.dtype.type(wider)
        q = np.minimum(np.square(t), FARTHEST)
        e = np.exp(0.5 - np.square(q))
        v = math.sqrt(2) * q * e
        first = np.searchsorted(doubted, np.arange(n + 1) * (R.size // n))
        sample = np.repeat(np.arange(n), np.diff(first))
        rho = (2 - e) / math.sqrt(2) * np.square(r / t)
        # Zero, but for infinities: these are refused.
        flat[doubted] = r - r
        squares = row_squares(R) + np.bincount(sample, rho, minlength=n)
        flat[doubted] = v * r
        return squares, np.bincount(sample, 1 - v, minlength=n), doubted, v

    def doubts(self, x: np.ndarray) -> bool:
        """Tell whether cells of a block are missing, or may be bad."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.width is not None or bool(np.isnan(x.sum()) and np.isnan(x).any())

    def found(self, x: np.ndarray, first: int = 0) -> tuple[np.ndarray, Block]:
        """Return the cores of new samples, and the samples completed by them.

        Bandwidths begin wide and narrow. Every sample stops by itself, so that its core does not
        depend on the block it is in.
        """
        Z = np.zeros((len(x), *self.core_shape), self.dtype)
        F = self.expected(Z)
        for wider, steps in ((1.0, STEPS),) if self.width is None else NARROWING:
            Z, F = self.descend(x, Z, F, steps, wider, first)
        return Z, self.complete_by(x, F, 1.0, first)

    def descend(
        self,
        x: np.ndarray,
        Z: np.ndarray,
        F: np.ndarray,
        steps: int,
        wider: float = 1.0,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take steps towards the best cores; return these and their fit.

        Conjugate gradients on the squares of the cells, weighted as they stand: no step raises
        the loss of a sample.
        """
        n, D = len(x), np.zeros_like(Z)
        # Cores of whole samples are free.
        cost = self.cost * by_sample(np.isnan(x).reshape(n, -1).any(axis=1), Z)
        before = start = np.ones(n)
        for step in range(steps):
            block = self.complete_by(x, F, wider, first)
            G = project(block.moved, self.U) - cost * Z
            now = row_squares(G)
            start = now if step == 0 else start
            going = now > FOUND[self.dtype] ** 2 * start
            if not going.any():
                break
            D = G if step == 0 else G + by_sample(now / before, D) * D
            slope = inner(D, G)
            # Weights change on the way; a direction that does not descend is begun anew.
            back = slope <= 0
            if back.any():
                D[back], slope[back] = G[back], now[back]
            E = expand(D, self.U)
            curved = inner(block.weigh(E.copy()), E) + inner(cost * D, D)
            t = np.divide(slope, curved, out=np.zeros(n), where=going & (curved > 0))
            Z = Z + by_sample(t, D) * D
            F = F + by_sample(t, E) * E
            before = np.maximum(now, 1e-300)
        return Z, F


def inner(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the inner product of every sample of one block with that of another."""
    return np.vecdot(A.reshape(len(A), -1), B.reshape(len(B), -1)).astype(np.float64)


def repaired(x: np.ndarray, block: Block) -> np.ndarray:
    """Return samples with doubted cells moved towards the fit and missing ones put there."""
    y = np.where(block.missing, block.expected, x)
    cells, F = y.reshape(-1), block.expected.reshape(-1)[block.doubted]
    cells[block.doubted] = F + block.trust * (cells[block.doubted] - F)
    return y


def cell_weights(x: np.ndarray, block: Block) -> np.ndarray:
    """Return the weight of every cell."""
    return block.weigh(np.ones_like(x))


def deviations(scale: np.ndarray) -> Callable[[np.ndarray, Block], np.ndarray]:
    """Return a function that counts residuals in units of a scale."""
    return lambda x, block: (x - block.expected) / scale.astype(x.dtype)
