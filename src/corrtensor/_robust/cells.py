"""What is expected of samples with bad and missing cells, and samples completed by it.

A cell is one number of one sample. ``x`` holds NaN where it is missing. Letters and reasons as in
``docs/method.md``, section 13. Nothing here knows where blocks come from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from corrtensor._engine.passes import LARGEST_SQUARE, by_sample
from corrtensor._engine.products import expand, inner, merged, project, row_squares
from corrtensor._engine.shapes import refuse_infinite, refuse_large
from corrtensor._robust.block import Block, clear
from corrtensor._robust.spread import SIGMA, around, upper

# The loss of a cell is its square up to here, in squared bandwidths: the cap of section 3.2.
EDGE = 1 / math.sqrt(2)
# What a cell of no weight costs, in squared bandwidths: the limit of the same loss.
DEAREST = math.sqrt(2)
# From here on a cell weighs nothing, in squared bandwidths.
FARTHEST = 30.0
# Residuals of neighbours go together: so many cells tell as much as one of white noise would.
CORRELATED = 3.0
# The cells of a vector may stray so many times as far as usual: by chance, more of them may be bad
# than of the thousands of a picture.
FARTHER = 2.0
# Errors are gross beyond so many bandwidths of how far cells vary before a sample is known.
GROSS, GROSS_OF_VECTORS = 5.0, 2.0
# Most steps towards a core; with cells in doubt, some while only gross errors are, then some at
# bandwidths so many times as wide.
STEPS, UNKNOWING, NARROWING = 30, 4, ((1.0, 3), (0.7, 3), (1.0, 3))
# Bytes of samples that take their steps at a time: they and what is made of them stay in the cache.
CACHED = 1 << 20
# So many cells tell how far those of a sample stray.
ENOUGH = 1024
# Cores of vectors with at most so many numbers are found exactly, and what rounding leaves of the
# squares of a direction that no cell tells.
EXACT, RIDGE = 128, 1e-12
# A core is found when its gradient is this share of what white noise as large as the residuals
# would make of it; roughly, which does for a fit and residuals: of a block that is missing, more
# steps tell better what one sample hides, and worse how samples vary; coarsely, to tell how large
# the errors are.
FOUND, ROUGHLY, COARSELY = 1e-2, 1e-1, 0.4
# The least share of a sample that is seen to stand for all of it.
LEAST = 0.1
# How far the cells of a sample stray on the average: none counts for more than so many bandwidths,
# for a few gross errors make no bad sample.
ASTRAY, NOT_AT_ALL = 2.0, 1e-9


def gross(mean: np.ndarray) -> float:
    """Return how many bandwidths off an error is gross: fewer where few cells tell of a core."""
    return GROSS_OF_VECTORS if mean.ndim == 1 else GROSS


@dataclass(frozen=True, eq=False)
class Model:
    """What is expected of samples: ``mean + core x_1 U_1 ...``, and how far a cell may stray.

    Without factors the mean is all that is expected. ``prior`` is what a square of every entry of
    a core costs beside that of a cell. ``width`` is the bandwidth of every cell, ``None`` doubts
    none of them; ``usual`` is how far two thirds of a usual sample's cells stray, in bandwidths.
    ``accuracy`` tells when a core is found.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...] | None
    dtype: np.dtype
    prior: np.ndarray | float = 0.0
    width: np.ndarray | None = None
    usual: float = 1.0
    accuracy: float = FOUND

    @cached_property
    def U(self) -> list[np.ndarray | None]:
        """The factors in the type of the blocks, thin modes in one."""
        assert self.factors is not None  # noqa: S101
        factors = merged(self.factors, self.mean.shape)
        return [None if U is None else U.astype(self.dtype) for U in factors]

    def projected(self, R: np.ndarray) -> np.ndarray:
        """Return the cores of residuals from the mean."""
        T = R.reshape(len(R), *self.mean.shape[: len(self.U) - 1], -1)
        return project(T, self.U).reshape(len(R), *self.core_shape)

    def expanded(self, cores: np.ndarray) -> np.ndarray:
        """Return what cores add to the mean."""
        T = cores.reshape(len(cores), *self.core_shape[: len(self.U) - 1], -1)
        return expand(T, self.U).reshape(len(cores), *self.mean.shape)

    @cached_property
    def m(self) -> np.ndarray:
        """The mean in the type of the blocks."""
        return self.mean.astype(self.dtype)

    @cached_property
    def narrow(self) -> np.ndarray:
        """One over the bandwidth of every cell."""
        assert self.width is not None  # noqa: S101
        return (1 / self.width).astype(self.dtype)

    @cached_property
    def cost(self) -> np.ndarray:
        """The prior in the type of the blocks."""
        return np.asarray(self.prior, self.dtype)

    @cached_property
    def narrowing(self) -> list[tuple[Model, float, int]]:
        """Models with wide and narrow bandwidths, and steps with each of them.

        Before anything is known of a core, cells may stray as far as samples vary there.
        """
        assert self.width is not None  # noqa: S101
        noise = CORRELATED * np.square(np.median(self.width))
        cores = np.broadcast_to(noise / np.maximum(self.prior, 1e-30), self.core_shape)
        squares = [None if U is None else np.square(U) for U in self.factors or ()]
        off = gross(self.mean)
        wide = off * np.sqrt(np.square(self.width) + expand(cores[None], squares)[0])
        unknowing = replace(self, width=wide, usual=self.usual / off)
        return [(unknowing, 1.0, UNKNOWING), *((self, times, few) for times, few in NARROWING)]

    @property
    def core_shape(self) -> tuple[int, ...]:
        """Shape of a core; one empty axis if there is no factor."""
        if self.factors is None:
            return (0,)
        modes = zip(self.mean.shape, self.factors, strict=True)
        return tuple(a if U is None else U.shape[1] for a, U in modes)

    def doubting(self, scale: np.ndarray, bandwidth: float) -> Model:
        """Return a model that doubts cells which stray so many times their scale."""
        return replace(self, width=bandwidth * scale, usual=1 / (SIGMA * bandwidth))

    def expected(self, cores: np.ndarray) -> np.ndarray:
        """Return what is expected of samples with these cores."""
        if self.factors is None:
            return np.broadcast_to(self.m, (len(cores), *self.m.shape)).copy()
        F = self.expanded(cores)
        F += self.m
        return F

    def complete(self, x: np.ndarray, cores: np.ndarray, first: int = 0) -> Block:
        """Return samples whose missing and doubted cells were moved to where they are expected.

        ``x`` itself is not changed.
        """
        F = self.expected(cores)
        return self.complete_by(x, F, self.spread(x, F), first)

    def complete_by(self, x: np.ndarray, F: np.ndarray, spread: np.ndarray, first: int) -> Block:
        """Do so with what is expected, and how far the cells of each sample stray."""
        n, cells = len(x), F[0].size
        with np.errstate(over="ignore", invalid="ignore"):
            R, missing = x - F, np.isnan(x)
            gaps = np.count_nonzero(missing.reshape(n, -1), axis=1)
            if gaps.any():
                clear(R, missing)
            lost, doubted, trust = self.weighed(R, spread)
            # A cell of no weight may be as large as it likes.
            if not (row_squares(R) < LARGEST_SQUARE).all():
                refuse_infinite(x, first=first)
                refuse_large(x, first=first)
        weights = 1 - (lost + gaps) / cells
        return Block(R, weights, spread, F, missing, doubted, trust)

    def spread(self, x: np.ndarray, F: np.ndarray) -> np.ndarray:
        """Return how many times as far as usual the cells of each sample may stray."""
        n = len(x)
        if self.width is None:
            return np.ones(n)
        some: Any = slice(None)
        if self.m.size > ENOUGH:
            some = np.linspace(0, self.m.size - 1, ENOUGH).astype(int)
        with np.errstate(over="ignore", invalid="ignore"):
            R = x.reshape(n, -1)[:, some] - F.reshape(n, -1)[:, some]
            middles = upper(np.abs(R * self.narrow.reshape(-1)[some]).T)
        most = FARTHER if x.ndim == 2 else math.inf
        return np.fmin(np.fmax(np.asarray(middles, np.float64) / self.usual, 1.0), most)

    def strays(self, x: np.ndarray, F: np.ndarray) -> np.ndarray:
        """Return the logarithm of how far each sample's cells stray on the average, in bandwidths.

        No less than a number that means not at all, also where no cell is seen.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            T = np.abs((x - F) * self.narrow).reshape(len(x), -1)
        seen = np.maximum(T.shape[1] - np.count_nonzero(np.isnan(T), axis=1), 1)
        away = np.minimum(clear(T, np.isnan(T)), ASTRAY, out=T).sum(axis=1, dtype=np.float64) / seen
        return np.log(np.maximum(away, NOT_AT_ALL))

    def weighed(
        self, R: np.ndarray, spread: np.ndarray
    ) -> tuple[np.ndarray | float, np.ndarray, np.ndarray]:
        """Multiply residuals by the weights of their cells, in place.

        A cell is in doubt by how far it strays beyond its neighbours: of what is rare and good,
        as a shadow, most strays together. Not in vectors, for columns of a table stand in any
        order; nor before a core is known, for samples are smooth. Returned are the weight that each
        sample loses, its doubted cells, and their weights.
        """
        if self.width is None:
            return 0.0, np.empty(0, np.intp), np.empty(0, R.dtype)
        n, T, edge = len(R), R * self.narrow, math.sqrt(EDGE)
        T /= by_sample(spread, T)
        far = np.flatnonzero(np.abs(T) > edge)
        alone = self.factors is None or T.ndim == 2
        beyond = np.abs(T.reshape(-1)[far] - (0.0 if alone else around(T, far, edge)))
        doubted = far[beyond > edge]
        q = np.minimum(np.square(beyond[beyond > edge]), FARTHEST)
        v = math.sqrt(2) * q * np.exp(0.5 - np.square(q))
        first = np.searchsorted(doubted, np.arange(n + 1) * (R.size // n))
        sample = np.repeat(np.arange(n), np.diff(first))
        R.reshape(-1)[doubted] *= v
        return np.bincount(sample, 1 - v, minlength=n), doubted, v

    def cost_of(self, block: Block) -> np.ndarray:
        """Return what the doubted cells of each sample cost, by which a residual is larger.

        A cell of no weight costs as much as the loss of a cell can: how far off it is does not
        matter, but that it is.
        """
        if self.width is None:
            return np.zeros(len(block.spread))
        sample, cell = np.divmod(block.doubted, self.m.size)
        squares = (1 - block.trust) * np.square(self.width.reshape(-1)[cell])
        return DEAREST * np.square(block.spread) * np.bincount(sample, squares, len(block.spread))

    def doubts(self, x: np.ndarray) -> bool:
        """Tell whether cells of a block are missing, or may be bad."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.width is not None or bool(np.isnan(x.sum()) and np.isnan(x).any())

    def found(self, x: np.ndarray, first: int = 0) -> tuple[np.ndarray, Block]:
        """Return the cores of samples, and the samples completed by them.

        A narrow bandwidth lets go of what has bent the core, and the last one takes back what is
        good. The core of a sample does not depend on the block it is in.
        """
        Z = np.zeros((len(x), *self.core_shape), self.dtype)
        F = self.expected(Z)
        stages = [(self, 1.0, STEPS)] if self.width is None else self.narrowing
        for model, wider, few in stages:
            Z, F = model.descend(x, Z, F, few, wider * model.spread(x, F), first)
        return Z, self.complete_by(x, F, self.spread(x, F), first)

    def descend(
        self,
        x: np.ndarray,
        Z: np.ndarray,
        F: np.ndarray,
        steps: int,
        spread: np.ndarray,
        first: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Take steps towards the likeliest cores; return these and what they make expected.

        ``spread`` tells how many times as far as usual the cells of each sample may stray.
        """
        cores, expected = np.empty_like(Z), np.empty_like(F)
        each = F[0].nbytes * (Z.shape[1] if self.is_exact else 1)
        some = max(1, CACHED // each)
        for lo in range(0, len(x), some):
            at = slice(lo, lo + some)
            cores[at] = self.nearer(x[at], Z[at], F[at], steps, spread[at], first + lo)
            expected[at] = self.expected(cores[at])
        return cores, expected

    def nearer(
        self,
        x: np.ndarray,
        Z: np.ndarray,
        F: np.ndarray,
        steps: int,
        spread: np.ndarray,
        first: int,
    ) -> np.ndarray:
        """Take steps towards the likeliest cores of a few samples.

        Conjugate gradients on the squares of the cells, weighted as they are at first, and on the
        prior; entries of a core that hardly vary take shorter steps.
        """
        block = self.complete_by(x, F, spread, first)
        if self.is_exact:
            return self.likeliest(block, Z)
        V, R = block.cell_weights, block.moved
        shorter = 1 / (by_sample(np.maximum(block.weights, LEAST).astype(F.dtype), Z) + self.cost)
        white = shorter.reshape(len(x), -1).sum(axis=1, dtype=np.float64) / F[0].size
        # What rounding leaves of a gradient points anywhere.
        rounding = np.square(64 * np.finfo(self.dtype).eps) * (row_squares(R) + row_squares(Z))
        D, before = np.zeros_like(Z), np.ones(len(x))
        for step in range(steps):
            G = self.projected(R) - self.cost * Z
            P = shorter * G
            now = inner(G, P)
            going = now > np.maximum(self.accuracy**2 * white * row_squares(R), rounding)
            if not going.any():
                break
            D = P if step == 0 else P + by_sample(now / before, D) * D
            E = self.expanded(D)
            VE = V * E
            curved = inner(VE, E) + inner(self.cost * D, D)
            t = np.divide(now, curved, out=np.zeros(len(x)), where=going & (curved > 0))
            Z = Z + by_sample(t, D) * D
            VE *= by_sample(t, E)
            R -= VE
            before = np.maximum(now, 1e-300)
        return Z

    @property
    def is_exact(self) -> bool:
        """Whether cores are few numbers of a vector, for which one equation each is solved.

        Where a band of spectra is missing, steps hardly tell directions that differ in it alone.
        """
        few = self.mean.ndim == 1 and 0 < self.core_shape[0] <= EXACT
        return few and self.U[0] is not None

    def likeliest(self, block: Block, Z: np.ndarray) -> np.ndarray:
        """Return the likeliest cores of vectors at the weights of a block, from cores near them."""
        U, cost = np.asarray(self.U[0], np.float64), np.broadcast_to(self.cost, Z.shape[1:])
        A = np.matmul(U.T * block.cell_weights[:, None], U) + np.diag(cost + RIDGE)
        G = block.moved @ U - cost * Z
        return Z + np.linalg.solve(A, G[..., None])[..., 0].astype(Z.dtype)
