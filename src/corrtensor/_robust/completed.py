"""Samples with bad or missing cells, as complete blocks: a source around a source.

A pass that measures residuals moves the fit by which blocks are completed to its own mean and
factors; all other passes see the blocks as they were completed then. So a sweep runs on samples
that stay what they are while it lasts (``docs/method.md``, section 13). Of every sample its core is
kept, nothing of the data's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corrtensor._engine.arrays.origin import choose_pilots, usual
from corrtensor._engine.arrays.source import WORTH_HOLDING, Source
from corrtensor._engine.passes import Blocks, Part, Projection, SweepPass
from corrtensor._engine.state import State
from corrtensor._engine.weights import times
from corrtensor._robust.cells import Block, Model, repaired

# How much a missing cell counts beside one that is seen, as if it was seen at a usual place; times
# the share of the squares that is not explained.
PULL = 0.3


@dataclass(frozen=True, eq=False)
class Measured(Projection):
    """A projection that knows the residuals of the block at hand: it was completed by them."""

    block: list[Block] = field(default_factory=list)

    def residuals(self, x: np.ndarray, core_squares: np.ndarray, norms: np.ndarray) -> np.ndarray:
        """Return them; the squares of completed samples tell nothing."""
        if self.block:
            return self.block[-1].squares
        return super().residuals(x, core_squares, norms)


@dataclass(frozen=True, eq=False)
class Paced:
    """Logarithms of prior weights, less the pace at which the block at hand is drawn ahead."""

    block: list[Block]
    log_prior: Any

    def __getitem__(self, rows: slice) -> np.ndarray:
        given = 0.0 if self.log_prior is None else self.log_prior[rows]
        return given - np.log(self.block[-1].pace)


@dataclass(frozen=True, eq=False)
class CompletedPass:
    """A pass over completed blocks.

    They are completed at ``model`` by the cores as they are; or, after a step from the model
    ``before``, by those of the samples completed there.
    """

    task: Any
    model: Model
    before: Model | None = None
    room: np.ndarray | None = None
    bold: bool = True
    steps: int = 0

    def __call__(self, blocks: Blocks, cores: Any, **per_sample: Any) -> Any:
        """Run the pass on one chunk; new cores are written in place, or come back with the part."""
        there: list[Block] = []
        moved: list[np.ndarray] = []
        task = self.task
        drawn = self.bold and isinstance(task, SweepPass)
        if getattr(task, "at", None) is not None:
            at = task.at
            task = replace(task, at=Measured(at.mean, at.factors, at.dtype, there))

        def made() -> Iterator[tuple[int, int, np.ndarray]]:
            for lo, hi, x in blocks:
                Z = cores[lo:hi]
                if self.before is not None:
                    old = self.before.complete(x, Z, first=lo)
                    Z = self.model.cores(old.ahead() if self.bold else old.x)
                    if self.steps:
                        Z = self.model.descend(x, Z, self.model.expected(Z), self.steps)[0]
                    if self.room is None:
                        moved.append(Z)
                    else:
                        self.room[lo:hi] = Z
                there[:] = [self.model.complete(x, Z, first=lo)]
                yield lo, hi, there[0].ahead() if drawn else there[0].x

        if drawn and self.task.loss is not None:
            per_sample["log_prior"] = Paced(there, per_sample.get("log_prior"))
        done = task(made(), **per_sample)
        if isinstance(done, Part):
            done.cores += moved
        return done


@dataclass(frozen=True, eq=False)
class RowsPass:
    """What a function makes of every block, with its place."""

    task: Callable[[np.ndarray], np.ndarray]

    def __call__(self, blocks: Blocks) -> list[tuple[int, int, np.ndarray]]:
        """Run it on one chunk."""
        return [(lo, hi, self.task(x)) for lo, hi, x in blocks]


@dataclass(frozen=True, eq=False)
class CountPass:
    """The share of observed cells of every sample, and how far it is from a place."""

    model: Model

    def __call__(self, blocks: Blocks) -> Part:
        """Count in one chunk."""
        part = Part()
        for lo, hi, x in blocks:
            block = self.model.complete(x, np.empty((hi - lo, 0)), first=lo)
            part.norms.append(block.weights)
            part.squares.append(block.squares)
        return part


@dataclass(frozen=True, eq=False)
class FoundPass:
    """The cores of samples that no fit has seen, with their places."""

    model: Model

    def __call__(self, blocks: Blocks) -> list[tuple[int, int, np.ndarray]]:
        """Find them in one chunk."""
        return [(lo, hi, self.model.found(x, lo)[0]) for lo, hi, x in blocks]


def typical_square(part: Part, share: np.ndarray) -> float:
    """Return the squared residual of a usual sample that shows something."""
    seen = np.concatenate(part.squares)[share > 0]
    return (float(np.median(seen)) if len(seen) else 0.0) or 1.0


class CompletedSource(Source):
    """Samples of another source, completed by a fit that moves along with the sweeps.

    Parameters
    ----------
    inner : Source
        Where the samples come from, NaN in the place of missing cells.
    model : Model, default=None
        By what they are completed at first: the median of some of them.
    cores, share : ndarray, default=None
        What is known of them.
    """

    share: np.ndarray
    cores: np.ndarray

    def __init__(
        self,
        inner: Source,
        model: Model | None = None,
        cores: np.ndarray | None = None,
        share: np.ndarray | None = None,
    ) -> None:
        self.__dict__.update(vars(inner))
        self.inner = inner
        if model is None:
            # A cell that none of these shows is like a typical one until others tell.
            place = usual(inner.take(choose_pilots(self.n_samples, self.sample_shape)))
            model = Model((place - self.origin) / self.unit, None, self.dtype)
        self.level, self.spread = 1.0, 1.0
        if share is None:
            part = inner.reduce(CountPass(model))
            share = np.concatenate(part.norms)
            self.spread = typical_square(part, share)
            model = replace(model, pull=PULL, place=model.mean)
        self.model, self.share = model, share
        self.bold, self.steps = True, 0
        self.cores = self._room(model) if cores is None else cores

    def _room(self, model: Model) -> np.ndarray:
        return np.zeros((self.n_samples, *model.core_shape), self.dtype)

    @property
    def pull(self) -> float:
        """How much a missing cell counts."""
        return self.model.pull

    def recall(self, state: State, cores: np.ndarray | None, pull: float) -> None:
        """Go on from a state that was left with these cores and this pull."""
        if cores is not None:
            self.model = replace(self.model, mean=state.mean, factors=state.factors, pull=pull)
            self.cores = cores.astype(self.dtype, copy=False)

    def measure(self, task: Any, **per_sample: np.ndarray | None) -> Part:
        """Run a pass that measures residuals; from now on its fit completes the samples."""
        at, before = task.at, self.model
        if before.is_at(at.mean, at.factors):
            part = self.reduce(task, **per_sample)
            self.level = typical_square(part, self.share) / self.spread
            return part
        # It only falls, and the objective with it.
        pull = min(before.pull, PULL * self.level)
        model = replace(before, mean=at.mean, factors=at.factors, pull=pull)
        room = self.cores if self.cores.shape[1:] == model.core_shape else self._room(model)
        moving = CompletedPass(
            task, model, before, room if self.here else None, self.bold, self.steps
        )
        part = self.inner.reduce(moving, cores=self.cores, **per_sample)
        if not self.here:
            np.concatenate(part.cores, out=room)
            part.cores.clear()
        self.model, self.cores, self.steps = model, room, 0
        self.level = typical_square(part, self.share) / self.spread
        return part

    def doubt(self, width: np.ndarray) -> None:
        """Take other bandwidths of the cells; the fit stays."""
        self.model = replace(self.model, width=width)

    def settle(self, state: State, width: np.ndarray) -> None:
        """Find the cores of all samples at a fit from nothing, as those of new samples."""
        self.model = replace(self.model, mean=state.mean, factors=state.factors, width=width)
        self.cores = self._room(self.model)
        found = self.inner.map(FoundPass(self.model))
        for rows in found:
            for lo, hi, Z in rows:
                self.cores[lo:hi] = Z

    def calm(self) -> bool:
        """Take no longer steps than are proven to descend; tell whether that is news."""
        was, self.bold = self.bold, False
        # The cores have left the state that is gone back to, and must find it again.
        self.steps = 8
        return was

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a pass over the samples as they are completed."""
        return self.inner.reduce(
            CompletedPass(task, self.model, bold=self.bold), cores=self.cores, **per_sample
        )

    def fill(self, out: Any, task: Callable[[np.ndarray], np.ndarray]) -> None:
        """Write what a task makes of every completed block into ``out``."""
        for rows in self.inner.map(CompletedPass(RowsPass(task), self.model), cores=self.cores):
            for lo, hi, made in rows:
                out[lo:hi] = made.reshape(hi - lo, *out.shape[1:])

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return chosen samples, completed, in double precision."""
        rows = self.inner.take(indices)
        model = replace(self.model, dtype=np.dtype(np.float64))
        x = (rows - self.origin) / self.unit
        block = model.complete(x, self.cores[indices].astype(np.float64))
        return repaired(rows, block._replace(expected=block.expected * self.unit + self.origin))

    def chosen(self, drawn: np.ndarray) -> Source:
        """Return a source of some of the samples as they are completed now."""
        if len(drawn) * math.prod(self.sample_shape) * self.dtype.itemsize > WORTH_HOLDING:
            return self.some(drawn)
        # Completed once, not in every pass.
        return Source(
            self.take(drawn).astype(self.dtype),
            origin=self.origin,
            unit=self.unit,
            n_jobs=self.n_threads,
            block_size=min(self.block_size, len(drawn)),
        )

    def some(self, drawn: np.ndarray) -> CompletedSource:
        """Return a source of some of the samples, completed alike."""
        some = CompletedSource(
            self.inner.chosen(drawn), self.model, self.cores[drawn], self.share[drawn]
        )
        some.level, some.spread = self.level, self.spread
        return some


@dataclass(frozen=True, eq=False)
class NewPass:
    """A pass over samples that no fit has seen: every block is completed from nothing."""

    task: Any
    model: Model

    def __call__(self, blocks: Blocks, **per_sample: Any) -> Any:
        """Run the pass on one chunk."""
        there: list[Block] = []
        at = self.task.at
        task = replace(self.task, at=Measured(at.mean, at.factors, at.dtype, there))

        def made() -> Iterator[tuple[int, int, np.ndarray]]:
            for lo, hi, x in blocks:
                there[:] = [self.model.found(x, lo)[1]] if self.model.doubts(x) else []
                yield lo, hi, there[0].x if there else x

        return task(made(), **per_sample)


class NewSource(Source):
    """Samples of another source, each completed by itself at a fit that stays where it is."""

    def __init__(self, inner: Source, model: Model) -> None:
        self.__dict__.update(vars(inner))
        self.inner, self.model = inner, model

    def blocks(self, lo: int, hi: int) -> Any:
        """Yield ``(start, stop, block)`` from sample ``lo`` to ``hi``."""
        with closing(self.inner.blocks(lo, hi)) as blocks:
            for start, stop, x in blocks:
                whole = not self.model.doubts(x)
                yield start, stop, x if whole else self.model.found(x, start)[1].x

    def measure(self, task: Any, **per_sample: np.ndarray | None) -> Part:
        """Run a pass that measures residuals."""
        # Residuals are those of the best cores, as in a fit, and not of the likeliest.
        free = replace(self.model, prior=0.0)
        return self.inner.reduce(NewPass(task, free), **per_sample)


def completed(
    inner: Source, weight: np.ndarray | None
) -> tuple[CompletedSource, np.ndarray | None]:
    """Return a source of completed samples, and how much each may count.

    A sample without an observed cell does not count.
    """
    source = CompletedSource(inner)
    seen = source.share > 0
    if seen.all():
        return source, weight
    counting = times(seen.astype(float), weight)
    if np.count_nonzero(counting) < 2:
        raise ValueError(
            f"{np.count_nonzero(~seen)} of {len(seen)} samples have no observed cell, all are NaN: "
            "at least two samples that count must show something"
        )
    return source, counting
