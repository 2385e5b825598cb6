"""Samples with bad or missing cells, as complete blocks: a source around a source.

What is expected of a sample is learned before the fit (:mod:`corrtensor._robust.completion`) and
stays: the fit sees complete samples (``docs/method.md``, section 13). Of every sample its core is
kept; few samples are kept whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from corrtensor._base.warn import warn
from corrtensor._engine.arrays.origin import choose_pilots, usual
from corrtensor._engine.arrays.source import WORTH_HOLDING, Source
from corrtensor._engine.passes import Blocks, Part, ResidualPass, checked_squares
from corrtensor._engine.products import Factors
from corrtensor._engine.shapes import refuse_infinite
from corrtensor._engine.weights import times
from corrtensor._robust.block import repaired, whole
from corrtensor._robust.cells import GROSS, ROUGHLY, Model
from corrtensor._robust.spread import spread_of
from corrtensor._robust.unseen import Hidden, Unseen

# Samples are taken in pieces of so many bytes.
PIECE = 1 << 22
# A cell of less weight is in doubt; so is a sample whose cells weigh less beside a usual one's.
TRUSTED = 0.5


@dataclass(frozen=True, eq=False)
class CompletedPass:
    """A pass over completed blocks."""

    task: Any
    model: Model

    def __call__(self, blocks: Blocks, cores: Any, **per_sample: Any) -> Any:
        """Run the pass on one chunk."""

        def made() -> Iterator[tuple[int, int, np.ndarray]]:
            for lo, hi, x in blocks:
                yield lo, hi, self.model.complete(x, cores[lo:hi], first=lo).x

        return self.task(made(), **per_sample)


class Found(NamedTuple):
    """What is found of the samples from one place to another, for each of them.

    Its core, how far its cells stray, how many of them are missing, what those in doubt cost, how
    much one that is seen counts on the average; if asked, the sample completed by its core.
    """

    lo: int
    hi: int
    cores: np.ndarray
    strays: np.ndarray | float
    gaps: np.ndarray
    cost: np.ndarray
    trust: np.ndarray
    whole: np.ndarray | None


@dataclass(frozen=True, eq=False)
class CoresPass:
    """The cores of samples, and what else is found with them."""

    model: Model
    whole: bool

    def __call__(self, blocks: Blocks) -> list[Found]:
        """Find them in one chunk."""
        done = []
        for lo, hi, x in blocks:
            Z, block = self.model.found(x, lo)
            away = -np.inf if self.model.width is None else self.model.strays(x, block.expected)
            gaps, cells = block.gaps, math.prod(x.shape[1:])
            trust = block.weights * cells / np.maximum(cells - gaps, 1)
            rows = block.x if self.whole else None
            done.append(Found(lo, hi, Z, away, gaps, self.model.cost_of(block), trust, rows))
        return done


@dataclass(frozen=True, eq=False)
class NewPass:
    """A pass over new samples as they are completed; residuals grow by what doubted cells cost."""

    task: Any
    model: Model

    def __call__(self, blocks: Blocks, **per_sample: Any) -> Any:
        """Run the pass on one chunk."""
        cost: list[Any] = []

        def made() -> Iterator[tuple[int, int, np.ndarray]]:
            for lo, hi, x in blocks:
                whole = not self.model.doubts(x)
                block = None if whole else self.model.found(x, lo)[1]
                cost.append(0.0 if block is None else self.model.cost_of(block))
                yield lo, hi, x if block is None else block.x

        part = self.task(made(), **per_sample)
        if isinstance(self.task, ResidualPass):
            part.squares = [s + more for s, more in zip(part.squares, cost, strict=True)]
        return part


def shares(blocks: Blocks, doubtful: bool) -> tuple[np.ndarray, Any]:
    """Return the share of its cells that each sample shows, and which cells none of them does.

    Infinities are refused, and what cannot be squared, unless it may be a bad cell.
    """
    found: list[np.ndarray] = []
    nowhere: Any = True
    for lo, _, x in blocks:
        refuse_infinite(x, first=lo)
        if not doubtful:
            checked_squares(whole(x), lo)
        gone = np.isnan(x)
        found.append(1 - gone.reshape(len(x), -1).mean(axis=1))
        nowhere = nowhere & gone.all(axis=0)
    return np.concatenate(found), nowhere


class CompletedSource(Source):
    """Samples of another source, completed by what is expected of them.

    Those that fit into memory are completed once, others whenever they are read. ``gaps`` tells
    whether any cell is missing, ``centered`` whether what is expected has a mean. Without a
    ``model``, the median of some samples is expected at first; with a ``bandwidth``, those cells
    alone are in doubt that are gross errors.
    """

    gaps, centered = True, True

    def __init__(
        self,
        inner: Source,
        model: Model | None = None,
        cores: np.ndarray | None = None,
        bandwidth: float | None = None,
    ) -> None:
        self.__dict__.update(vars(inner))
        self.inner = inner
        if model is None:
            # A cell that none of these shows is like a typical one until others tell.
            pilots = inner.take(choose_pilots(self.n_samples, self.sample_shape))
            place = usual(pilots)
            model = Model((place - self.origin) / self.unit, None, self.dtype)
            if bandwidth is not None:
                model = model.doubting(spread_of(pilots - place) / self.unit, GROSS * bandwidth)
        self.model = model
        self.held: Source | None = None
        self.teaching: Any = None
        self.unseen: Unseen | None = None
        self.trust = np.ones(self.n_samples)
        self.told: set[str] = set()
        self.cores = np.zeros((self.n_samples, 0), self.dtype) if cores is None else cores

    def tell(self, words: str, **values: Any) -> None:
        """Warn whoever called the fit, once."""
        if words not in self.told:
            self.told.add(words)
            warn(words.format(**values))

    def settle(self, model: Model, teaching: Any, hidden: Hidden) -> None:
        """Complete all samples by a model from now on; those that fit into memory only once.

        ``teaching`` tells what it was learned from, ``hidden`` what a missing cell hides;
        ``strays`` is then how far the cells of each sample stray on the average, if any is in
        doubt.
        """
        self.cores = np.empty((self.n_samples, *model.core_shape), self.dtype)
        keep = self.inner.here and self.n_samples * self.each <= WORTH_HOLDING
        rows = np.empty((self.n_samples, *self.sample_shape), self.dtype) if keep else None
        self.strays, self.trust, gaps, cost = np.empty((4, self.n_samples))
        for part in self.inner.map(CoresPass(replace(model, accuracy=ROUGHLY), keep)):
            for found in part:
                at = slice(found.lo, found.hi)
                self.cores[at], gaps[at], cost[at] = found.cores, found.gaps, found.cost
                self.strays[at], self.trust[at] = found.strays, found.trust
                if rows is not None:
                    rows[at] = found.whole * self.unit + self.origin
        self.model, self.teaching = model, teaching
        self.held = None if rows is None else self.around(rows)
        known = not gaps.any() and not cost.any()
        self.unseen = None if known else Unseen(hidden.astype(self.dtype), gaps, cost)

    def beside(self, factors: Factors | None) -> np.ndarray | float:
        """Return how much larger the residuals of whole samples, or their norms, should be."""
        return 0.0 if self.unseen is None else self.unseen.beside(factors)

    def trusted(self, weight: np.ndarray | None) -> np.ndarray | None:
        """Return weights of the samples: none of one that is bad almost everywhere."""
        good = self.trust >= TRUSTED * np.median(self.trust)
        return weight if good.all() else times(good.astype(float), weight)

    @property
    def cost(self) -> np.ndarray | float:
        """What the doubted cells of each sample add to its squared residual."""
        return 0.0 if self.unseen is None else self.unseen.cost

    @property
    def each(self) -> int:
        """Bytes of a sample."""
        return math.prod(self.sample_shape) * self.dtype.itemsize

    def blocks(self, lo: int, hi: int) -> Any:
        """Yield ``(start, stop, block)`` from sample ``lo`` to ``hi``, completed."""
        if self.held is not None:
            yield from self.held.blocks(lo, hi)
            return
        with closing(self.inner.blocks(lo, hi)) as blocks:
            for start, stop, x in blocks:
                yield start, stop, self.model.complete(x, self.cores[start:stop], first=start).x

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a pass over the samples as they are completed, as if these were whole."""
        if self.unseen is not None:
            return self.unseen.reduce(self._reduce, task, **per_sample)
        return self._reduce(task, **per_sample)

    def _reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        if self.held is not None:
            return self.held.reduce(task, **per_sample)
        return self.inner.reduce(CompletedPass(task, self.model), cores=self.cores, **per_sample)

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return chosen samples, completed, in double precision."""
        if self.held is not None:
            return self.held.take(indices)
        rows = self.inner.take(indices)
        x = ((rows - self.origin) / self.unit).astype(self.dtype)
        block = self.model.complete(x, self.cores[indices])
        expected = block.expected.astype(np.float64) * self.unit + self.origin
        return repaired(rows, block._replace(expected=expected))

    def chosen(self, drawn: np.ndarray) -> Source:
        """Return a source of some of the samples as they are completed now."""
        if self.held is not None:
            return self.held.chosen(drawn)
        if len(drawn) * self.each > WORTH_HOLDING:
            return CompletedSource(self.inner.chosen(drawn), self.model, self.cores[drawn])
        # Completed once, not in every pass.
        rows = np.empty((len(drawn), *self.sample_shape), self.dtype)
        step = max(1, PIECE // self.each)
        for lo in range(0, len(drawn), step):
            rows[lo : lo + step] = self.take(drawn[lo : lo + step])
        return self.around(rows)

    def around(self, rows: np.ndarray) -> Source:
        """Return a source of completed samples in memory."""
        size = min(self.block_size, len(rows))
        origin, unit = self.origin, self.unit
        return Source(rows, origin=origin, unit=unit, n_jobs=self.n_threads, block_size=size)


class NewSource(Source):
    """Samples of another source, each completed by itself."""

    def __init__(self, inner: Source, model: Model) -> None:
        self.__dict__.update(vars(inner))
        self.inner, self.model = inner, model

    def seen_shares(self) -> np.ndarray | float:
        """Return the share of its cells that each sample shows."""
        each = self.inner.map(partial(shares, doubtful=self.model.width is not None))
        return np.concatenate([share for share, _ in each])

    def blocks(self, lo: int, hi: int) -> Any:
        """Yield ``(start, stop, block)`` from sample ``lo`` to ``hi``."""
        with closing(self.inner.blocks(lo, hi)) as blocks:
            for start, stop, x in blocks:
                whole = not self.model.doubts(x)
                yield start, stop, x if whole else self.model.found(x, start)[1].x

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a pass over the samples as they are completed."""
        return self.inner.reduce(NewPass(task, self.model), **per_sample)


def completed(
    inner: Source, weight: np.ndarray | None, bandwidth: float | None, centered: bool
) -> tuple[CompletedSource, np.ndarray | None]:
    """Return a source of completed samples, and how much each may count.

    A sample without an observed cell does not count. What is expected has a mean, also if the fit
    has none; but where no sample shows a cell, directions alone may tell what is in it.
    """
    each, hidden = zip(*inner.map(partial(shares, doubtful=bandwidth is not None)), strict=True)
    share, nowhere = np.concatenate(each), np.logical_and.reduce(hidden)
    seen = share > 0
    counting = weight if seen.all() else times(seen.astype(float), weight)
    if counting is not None and np.count_nonzero(counting) < 2:
        raise ValueError(
            f"{np.count_nonzero(~seen)} of {len(seen)} samples have no observed cell, all are NaN: "
            "at least two samples that count must show something"
        )
    if nowhere.any() and centered:
        warn(
            f"{np.count_nonzero(nowhere)} of the {nowhere.size} cells are missing in every sample: "
            "the mean there, and what repair puts there, is a guess; with center=None there is "
            "no mean, and other cells tell",
        )
    source = CompletedSource(inner, bandwidth=bandwidth)
    source.gaps, source.seen = bool((share < 1).any()), seen
    source.centered = centered or not nowhere.any()
    return source, counting
