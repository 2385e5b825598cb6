"""How it is learned what is expected of samples: from some of them, in rounds.

A round takes steps towards the samples' cores, completes the samples, and makes one sweep of least
squares (``docs/method.md``, section 13).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrtensor._engine.arrays.origin import SINGLE, single_holds, usual
from corrtensor._engine.arrays.source import Source, plain
from corrtensor._engine.passes import Blocks, SweepPass, by_sample, weighted_sum
from corrtensor._engine.products import row_squares
from corrtensor._engine.ranks import Rank
from corrtensor._engine.solver import narrowed, next_state
from corrtensor._engine.start import spectral
from corrtensor._engine.state import State
from corrtensor._engine.threads import single_blas
from corrtensor._robust.block import Block, clear, whole
from corrtensor._robust.cells import CACHED, CORRELATED, LEAST, RIDGE, ROUGHLY, Model, gross
from corrtensor._robust.completed import CompletedSource, CoresPass
from corrtensor._robust.spread import spread_of, strays_of

# Samples, and bytes of them, from which it is learned; the fewest.
DRAWN, DRAWN_BYTES, FEWEST = 500, 1 << 25, 20
# Before outliers are sought, no sample counts for more than one of so many times the usual square.
FAR = 4.0
# The most that an entry of a core may cost beside a cell.
DEAREST = 1e3
# Most rounds of learning: where what is expected is wider than the fit, and has room for what is
# wrong, and at the fit's own ranks, where a missing band of spectra takes many. They end when what
# is expected moves by less than this share of what is not explained. Steps towards the cores in
# each.
ROUNDS, STILL, STEPS = (3, 50), 0.03, 2
# What is expected of vectors, in their gaps, is moved on by this share of how far the round has
# moved it.
FURTHER, SETTLED = 0.7, 0.9
# Samples that miss less than this share of what samples miss on the average tell the first
# directions, where they are so many times as many as these.
LITTLE, MANY = 0.5, 2
# Shares of the bandwidth before all of it: a narrow one lets go of what has bent the start. Most
# rounds at each where what is expected is wider than the fit, and has room for what is wrong.
TIGHTENING, DOUBTING = (0.45, 0.45), 2


@dataclass(frozen=True, eq=False)
class StepsPass:
    """Steps towards the cores of samples, and the samples completed there."""

    model: Model

    def __call__(self, blocks: Blocks, cores: Any) -> list[tuple[int, int, Block]]:
        """Take them in one chunk."""
        done = []
        for lo, hi, x in blocks:
            F = self.model.expected(cores[lo:hi])
            spread = self.model.spread(x, F)
            _, F = self.model.descend(x, cores[lo:hi], F, STEPS, spread, first=lo)
            done.append((lo, hi, self.model.complete_by(x, F, spread, lo)))
        return done


def prior_of(noise: float, variance: np.ndarray) -> np.ndarray:
    """Return what cores cost by their variances: noise over signal."""
    usual = CORRELATED * noise
    return np.asarray(usual / np.maximum(variance, usual / DEAREST + np.finfo(float).tiny))


def swept(source: Source, state: State, weights: np.ndarray, centered: bool) -> State:
    """Return a state after one sweep of least squares."""
    modes = [n for n, U in enumerate(state.factors) if U is not None]
    if not modes:
        return state
    Q = narrowed(state.basis(modes[0]), source.dtype)
    sweep = SweepPass(source.at(state.mean, state.factors), modes[0], sketch=Q)
    part = source.reduce(sweep, weights=weights)
    part.sums.first, part.log_weights = weighted_sum(weights, source.X), [np.log(weights)]
    with single_blas():
        return next_state(source, state, part, "weighted" if centered else None)


@dataclass(frozen=True, eq=False)
class Guess:
    """What is expected of some samples so far, and what that makes expected of them.

    ``scale`` is how far cells stray, once that is settled.
    """

    model: Model
    cores: np.ndarray
    expected: np.ndarray
    noise: float
    scale: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Learner:
    """Some samples that were drawn, with their gaps, counted from a place; it is learned from them.

    ``drawn`` are their numbers among all, ``begin`` is where gaps begin, ``least`` how far cells
    stray at least. Without a mean the place is the origin.
    """

    x: np.ndarray
    weights: np.ndarray
    drawn: np.ndarray
    place: np.ndarray
    begin: np.ndarray
    n_threads: int
    centered: bool = True
    searched: bool = True
    least: float = 0.0

    @property
    def of_vectors(self) -> bool:
        """Whether samples are vectors: of their few cells, and directions, many may be bad."""
        return self.x.ndim == 2

    def begun(self, y: np.ndarray, ranks: tuple[Rank, ...]) -> State:
        """Return 2DSVD of the samples, completed so."""
        rows = plain(y, n_jobs=self.n_threads)
        return spectral(rows, ranks, centered=self.centered, weights=self.weights)

    def guess(
        self,
        state: State,
        y: np.ndarray,
        F: np.ndarray | None = None,
        noise: float = 0.0,
        weights: np.ndarray | None = None,
    ) -> Guess:
        """Return what samples tell that were completed so, by ``F``, which leaves this noise.

        Without ``F``, what the state leaves of them is added to the noise.
        """
        weights = self.weights if weights is None else weights
        model = Model(state.mean, state.factors, y.dtype)
        cores = model.projected(y - model.m)
        if F is None:
            F = model.expected(cores)
            noise += float(np.square(y - F).mean())
        mean_square = (weights / weights.sum()).astype(y.dtype) @ np.square(
            cores.reshape(len(y), -1)
        )
        variance = mean_square.reshape(model.core_shape).astype(np.float64)
        return Guess(replace(model, prior=prior_of(noise, variance)), cores, F, noise)

    def scale(self, guess: Guess) -> np.ndarray:
        """Return how far cells stray."""
        if guess.scale is not None:
            return guess.scale
        return spread_of((self.x - guess.expected)[self.weights > 0], self.least)

    def model(self, guess: Guess, bandwidth: float | None) -> Model:
        """Return what is expected, with cells in doubt that stray so far."""
        if bandwidth is None or math.isinf(bandwidth):
            return guess.model
        return guess.model.doubting(self.scale(guess), bandwidth)

    def tame(self) -> np.ndarray:
        """Return weights by which a far sample counts as one that is just far."""
        away = np.empty(len(self.x))
        step = max(1, CACHED // self.x[0].nbytes)
        with np.errstate(over="ignore", invalid="ignore"):
            for at in (slice(lo, lo + step) for lo in range(0, len(away), step)):
                few = self.x[at] - self.begin
                seen = np.count_nonzero(~np.isnan(few).reshape(len(few), -1), axis=1)
                away[at] = row_squares(clear(few, np.isnan(few))) / np.maximum(seen, 1)
        # Most may be equal.
        limit = FAR * (np.median(away) or away.max())
        return np.divide(limit, away, out=np.ones_like(away), where=away > limit)

    def some(self, chosen: np.ndarray | slice) -> Learner:
        """Return some of the samples."""
        few = {name: getattr(self, name)[chosen] for name in ("x", "weights", "drawn")}
        return replace(self, **few)

    def once(self, guess: Guess) -> tuple[Learner, Guess, np.ndarray]:
        """Return samples that are equal once, each with the weight of all of them.

        The last array tells of each sample which of these it is.
        """
        seen: dict[bytes, int] = {}
        which = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in self.x])
        first = np.unique(which, return_index=True)[1]
        few = replace(guess, cores=guess.cores[first], expected=guess.expected[first])
        weights = np.bincount(which, self.weights)
        return replace(self.some(first), weights=weights), few, which

    def better(self, guess: Guess, bandwidth: float | None) -> Guess:
        """Complete the samples and learn from them."""
        model = self.model(guess, bandwidth)
        y, F, squares, cells = np.empty_like(self.x), np.empty_like(self.x), 0.0, 0.0
        torn = plain(self.x, n_jobs=self.n_threads, missing=True)
        weights = np.empty(len(y))
        by_columns = model.width is None and self.many(model)
        for rows in torn.map(StepsPass(model), cores=guess.cores):
            for lo, hi, block in rows:
                # Who strays farther tells less.
                less = np.square(block.spread) if self.of_vectors else 1.0
                weights[lo:hi] = w = self.weights[lo:hi] / less
                squares += float(w @ row_squares(block.moved))
                cells += float(w @ block.weights) * model.m.size
                F[lo:hi] = block.expected
                # What is seen of a sample stands for what is not.
                more = by_sample(1 / np.maximum(block.weights, LEAST), y)
                y[lo:hi] = block.expected + block.moved * more
                if self.of_vectors and not by_columns:
                    ahead = FURTHER * (1 - block.cell_weights)
                    y[lo:hi] += ahead * (block.expected - guess.expected[lo:hi])
        noise = squares / max(cells, 1.0)
        if by_columns:
            y = self.by_columns(model, F, noise)
            if noise > SETTLED * guess.noise:
                y += FURTHER * np.isnan(self.x) * (y - guess.expected)
        start = State(model.mean, model.factors)  # type: ignore[arg-type]
        state = swept(plain(y, n_jobs=self.n_threads), start, weights, self.centered)
        return replace(self.guess(state, y, F, noise, weights), scale=guess.scale)

    def many(self, model: Model) -> bool:
        """Tell whether columns of vectors are shown by many more samples than directions."""
        few = np.count_nonzero(~np.isnan(self.x)) < MANY * model.core_shape[0] * self.x[0].size
        return self.searched and model.is_exact and not few

    def by_columns(self, model: Model, F: np.ndarray, noise: float) -> np.ndarray:
        """Return what is expected of vectors if each column is what those tell that show it.

        A step of EM: least squares upon the cores, with what is not known of these. What a column
        no sample shows stays as it is.
        """
        assert model.factors is not None  # noqa: S101
        U, seen = np.asarray(model.factors[0], np.float64), (~np.isnan(self.x)).astype(float)
        Z = model.projected(F - model.m).astype(np.float64)
        n, k = Z.shape
        if self.centered:
            Z, U = np.column_stack([Z, np.ones(n)]), np.column_stack([U, model.mean])
        step = max(1, CACHED // U.nbytes)
        few = (seen[lo : lo + step, None] for lo in range(0, n, step))
        told = np.concatenate([np.matmul(U[:, :k].T * v, U[:, :k]) for v in few])
        cost = np.diag(np.broadcast_to(model.prior, k) + RIDGE)
        squares = Z[:, :, None] * Z[:, None]
        squares[:, :k, :k] += noise * np.linalg.inv(told + cost)
        squares = squares.reshape(n, -1) * self.weights[:, None]
        stays = RIDGE * squares.sum(axis=0)[:: Z.shape[1] + 1].sum()
        sums = (self.weights[:, None] * whole(self.x)).T @ Z + stays * U
        step = max(1, CACHED // squares[0].nbytes)
        for at in (slice(lo, lo + step) for lo in range(0, len(U), step)):
            A = (seen[:, at].T @ squares).reshape(-1, Z.shape[1], Z.shape[1])
            A += stays * np.eye(Z.shape[1])
            U[at] = np.linalg.solve(A, sums[at, :, None])[..., 0]
        return (Z @ U.T).astype(self.x.dtype)

    def best(self, guess: Guess, bandwidth: float | None, own: bool) -> Guess:
        """Learn in rounds until what is expected no longer moves."""
        rounds = ROUNDS[own or self.many(guess.model)]
        for _ in range(DOUBTING if bandwidth is not None and not own else rounds):
            before, guess = guess, self.better(guess, bandwidth)
            moved = float(np.square(guess.expected - before.expected).mean())
            if moved <= STILL * guess.noise:
                break
        return guess

    def taught(self, guess: Guess, bandwidth: float | None, own: bool = False) -> Guess:
        """Learn, with cells in doubt at a narrow bandwidth first.

        At the fit's ``own`` ranks there is no room for what is wrong with some cells.
        """
        if bandwidth is not None:
            for share in TIGHTENING:
                guess = self.best(guess, share * bandwidth, own)
            if self.of_vectors:
                # What a wide one lets in must not widen it: the scale is that of the narrow one.
                guess = replace(guess, scale=self.scale(guess))
        return self.best(guess, bandwidth, own)

    def start(self, ranks: tuple[Rank, ...], bandwidth: float | None) -> Guess:
        """Return what is expected at first: as those tell that miss little, if they are enough."""
        gaps = np.isnan(self.x).reshape(len(self.x), -1).mean(axis=1)
        little = gaps < LITTLE * np.average(gaps, weights=self.weights)
        largest = max((k for k in ranks if isinstance(k, int)), default=1)
        if np.count_nonzero(little) < MANY * largest:
            return self.from_medians(ranks, bandwidth)
        few = self.some(little)
        guess = few.taught(few.from_medians(ranks, bandwidth), bandwidth, self.of_vectors)
        model = replace(few.model(guess, bandwidth), accuracy=ROUGHLY)
        torn = plain(self.x, n_jobs=self.n_threads, missing=True)
        rows = [found.whole for part in torn.map(CoresPass(model, True)) for found in part]
        state = State(model.mean, model.factors)  # type: ignore[arg-type]
        return self.guess(state, np.concatenate(rows))

    def from_medians(self, ranks: tuple[Rank, ...], bandwidth: float | None) -> Guess:
        """Return what is expected at first of samples that begin at their median."""
        y = first = self.filled(None if bandwidth is None else gross(self.begin) * bandwidth)
        if bandwidth is not None and self.of_vectors:
            first = self.filled(TIGHTENING[0] * bandwidth)
        return self.guess(self.begun(first, ranks), y)

    def filled(self, far: float | None) -> np.ndarray:
        """Return samples with their gaps, and cells that stray too far, where those begin."""
        x = self.x - self.begin
        y = whole(x)
        if far is not None and math.isfinite(far):
            scale = spread_of(x, self.least)
            model = Model(np.zeros(x.shape[1:]), None, x.dtype).doubting(scale, far)
            step = max(1, CACHED // x[0].nbytes)
            with np.errstate(over="ignore", invalid="ignore"):
                for few in (slice(lo, lo + step) for lo in range(0, len(x), step)):
                    model.weighed(y[few], model.spread(x[few], np.zeros_like(x[few])))
        return y + self.begin


def drawn_from(
    source: CompletedSource, ranks: tuple[Rank, ...], weights: np.ndarray | None, searched: bool
) -> Learner:
    """Draw some samples that count; unless they were searched, none for more than a usual one."""
    counting = np.arange(source.n_samples) if weights is None else np.flatnonzero(weights)
    largest = max((k for k in ranks if isinstance(k, int)), default=0)
    size = min(DRAWN, DRAWN_BYTES // (8 * math.prod(source.sample_shape)))
    size = max(FEWEST, 2 * largest, size)
    places = np.linspace(0, len(counting) - 1, min(size, len(counting))).astype(int)
    drawn = counting[np.unique(places)]
    x, squares = np.empty((len(drawn), *source.sample_shape), source.dtype), np.empty(len(drawn))
    for lo, hi, block in source.inner.chosen(drawn).blocks(0, len(drawn)):
        x[lo:hi] = block
    # Those that do not count have no say in where it begins.
    middle = usual(x)
    place = middle if source.centered else np.zeros(source.sample_shape)
    step = max(1, CACHED // x[0].nbytes)
    with np.errstate(over="ignore", invalid="ignore"):
        x -= place.astype(source.dtype)
        for lo in range(0, len(x), step):
            squares[lo : lo + step] = row_squares(whole(x[lo : lo + step]))
    if single_holds(squares, float(np.median(squares))):
        # What is expected need not be known to more digits than samples tell of it.
        x = x.astype(SINGLE)
    w = np.ones(len(drawn)) if weights is None else weights[drawn]
    begin = (middle - place).astype(x.dtype)
    how = source.n_threads, source.centered, searched, strays_of(source.X) / source.unit
    learner = Learner(x, w, drawn, place, begin, *how)
    return learner if searched else replace(learner, weights=w * learner.tame())
