"""Samples in a Dask array: passes run where the chunks are, and only statistics come back.

It is the same block function as in memory (:mod:`corrtensor._engine.passes`); only the map and the
reduction differ. A pass is one graph, or several of about a thousand chunks each: its factors are
one value of a graph that every worker fetches once, numbers that belong to samples travel with
their chunk, sums are merged in a tree on the workers. ``docs/scaling.md`` counts the
bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any
from uuid import uuid4

import numpy as np

from corrtensor._engine.arrays.dask_held import Chunk, client_of, compute, hold, read
from corrtensor._engine.arrays.dask_lazy import merged
from corrtensor._engine.arrays.source import Source, progress
from corrtensor._engine.passes import Part, Sums
from corrtensor._engine.threads import single_blas

# Sums merged by one task.
FAN_IN = 8
# Threads of one process share the chunks: so many pieces of work keep all of them busy.
PIECES = 32
# Bytes of numbers of samples that travel in one graph, and chunks that are in it at least.
WAVE_BYTES, WAVE_CHUNKS = 1 << 26, 1024


@dataclass(frozen=True, eq=False)
class Rows:
    """Numbers of some samples, asked for by the samples' places in the whole array."""

    values: np.ndarray
    first: int

    def __getitem__(self, at: slice) -> np.ndarray:
        return self.values[at.start - self.first : at.stop - self.first]


@dataclass(frozen=True, eq=False)
class Work:
    """A task and how its blocks are cut: what a worker needs once for all its chunks."""

    task: Callable[..., Any]
    cut: Source

    def __call__(self) -> Work:
        """Return itself: as a task, it is sent once, and again when a worker is lost."""
        return self


@dataclass(frozen=True, eq=False)
class Piece:
    """A run of samples of one chunk, ``first`` the place of the chunk in the array."""

    chunk: int
    first: int
    lo: int
    hi: int
    per_sample: Mapping[str, Rows] = field(default_factory=dict)

    def given(self, per_sample: Mapping[str, np.ndarray]) -> Piece:
        """Return the piece with what is known of its samples."""
        lo, hi = self.first + self.lo, self.first + self.hi
        return replace(self, per_sample={k: Rows(v[lo:hi], lo) for k, v in per_sample.items()})

    def __call__(self, work: Work, chunk: Any) -> Any:
        """Run a task on these samples."""
        x, first = read(chunk)[self.lo : self.hi], self.first + self.lo
        here = copy(work.cut)
        here.X, here.n_samples = x, len(x)
        blocks = ((first + lo, first + hi, rows) for lo, hi, rows in here.blocks(0, len(x)))
        with single_blas():
            return work.task(blocks, **self.per_sample)


@dataclass(frozen=True, eq=False)
class Pick:
    """Some samples of a chunk, by their places in it."""

    at: np.ndarray

    def __call__(self, chunk: Any) -> np.ndarray:
        """Read them."""
        return read(chunk)[self.at]


def values_of(part: Part) -> Part:
    """Return what of a part belongs to its samples."""
    lists = (part.norms, part.squares, part.log_weights, part.cores)
    return Part(Sums(), *([np.concatenate(values)] if values else [] for values in lists))


def merge(parts: Sequence[Sums]) -> Sums:
    """Add up sums in their order."""
    total = Sums()
    for part in parts:
        # Rescaling writes into both; a result that Dask holds may be asked for again.
        total.merge(copy(part))
    return total


class DaskSource(Source):
    """The samples of a Dask array; its chunks are merged along all axes but the first.

    Threads are the scheduler's affair; ``n_jobs`` counts for what the client does itself.
    """

    here = False

    def __init__(self, X: Any, **options: Any) -> None:
        X = merged(X)
        self.edges = list(accumulate(X.chunks[0], initial=0))
        self.distributed = client_of() is not None
        self.held = hold(X)
        super().__init__(X, **options)

    def _choose_span(self) -> int:
        return self.block_size

    def _cut(self) -> Source:
        """Return a source without samples: a worker puts its own into it."""
        cut, here = Source.__new__(Source), ("X", "held", "edges", "distributed", "memory")
        cut.__dict__ = {k: v for k, v in vars(self).items() if k not in here}
        return cut

    def pieces(self) -> list[Piece]:
        """Cut the chunks: on a cluster not at all, among threads into whole blocks."""
        each = 1 if self.distributed else max(1, PIECES // len(self.held.chunks))
        pieces = []
        for i, (lo, hi) in enumerate(pairwise(self.edges)):
            n_blocks = -(-(hi - lo) // self.block_size)
            cuts = np.linspace(0, n_blocks, min(each, n_blocks) + 1).astype(int) * self.block_size
            places = np.minimum(cuts, hi - lo).tolist()
            pieces += [Piece(i, lo, a, b) for a, b in pairwise(places)]
        return pieces

    def _waves(self, n_arrays: int) -> Iterator[list[Piece]]:
        """Yield the pieces of one graph after the other: what travels in one is bounded."""
        pieces = self.pieces()
        each = 8 * n_arrays * max(piece.hi - piece.lo for piece in pieces)
        size = max(WAVE_CHUNKS, WAVE_BYTES // max(1, each))
        yield from (pieces[i : i + size] for i in range(0, len(pieces), size))

    def _graph(
        self, wave: list[Piece], task: Callable[..., Any], per_sample: Mapping[str, np.ndarray]
    ) -> tuple[dict[Any, Any], list[Any]]:
        """Return the graph of a pass over some pieces, and the keys of their results."""
        name = f"{type(task).__name__.lower()}-{uuid4().hex}"
        graph: dict[Any, Any] = {f"work-{name}": (Work(task, self._cut()),), **self.held.graph}
        keys = []
        several = len(wave) > len({piece.chunk for piece in wave})
        for i, piece in enumerate(wave):
            chunk = self.held.chunks[piece.chunk]
            if several and isinstance(chunk, Chunk):
                # Read once for all the pieces cut from it.
                graph.setdefault(loaded := (f"load-{name}", piece.chunk), (chunk,))
                chunk = loaded
            keys.append((name, i))
            graph[name, i] = (piece.given(per_sample), f"work-{name}", chunk)
        return graph, keys

    def map(
        self, task: Callable[..., Any], **per_sample: np.ndarray | None
    ) -> Generator[Any, None, None]:
        """Run a task on every piece; yield the results in order."""
        known = {name: values for name, values in per_sample.items() if values is not None}
        for wave in self._waves(len(known) + 2):
            with single_blas():
                yield from compute(*self._graph(wave, task, known))

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a task on every piece and merge the parts; on a cluster, the sums in a tree."""
        if not self.distributed:
            return super().reduce(task, **per_sample)
        known = {name: values for name, values in per_sample.items() if values is not None}
        total = Part()
        for wave in self._waves(len(known) + 2):
            graph, keys = self._graph(wave, task, known)
            root = grow_tree(graph, keys)
            wanted = [(f"values-{name}", i) for name, i in keys]
            graph.update({w: (values_of, key) for w, key in zip(wanted, keys, strict=True)})
            sums, *parts = compute(graph, [root, *wanted])
            total.sums.merge(sums)
            for part in parts:
                total.merge(part)
            progress.debug("samples to %d of %d", wave[-1].first + wave[-1].hi, self.n_samples)
        return total

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return chosen samples as they are, in double precision."""
        owner = np.searchsorted(self.edges, indices, side="right") - 1
        name, chunks = f"take-{uuid4().hex}", np.unique(owner).tolist()
        graph = dict(self.held.graph)
        for i in chunks:
            graph[name, i] = (Pick(indices[owner == i] - self.edges[i]), self.held.chunks[i])
        rows = np.empty((len(indices), *self.sample_shape))
        for i, found in zip(chunks, compute(graph, [(name, i) for i in chunks]), strict=True):
            rows[owner == i] = found
        self._check(rows, at=indices)
        return rows


def grow_tree(graph: dict[Any, Any], keys: list[Any]) -> Any:
    """Add the tree that merges the sums of some parts; return the key of its root."""
    name = f"merge-{keys[0][0]}"
    level: list[Any] = [(f"sums-{key[0]}", key[1]) for key in keys]
    graph.update({leaf: (attrgetter("sums"), key) for leaf, key in zip(level, keys, strict=True)})
    height = 0
    while height == 0 or len(level) > 1:
        height += 1
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [(name, height, i) for i in range(len(groups))]
        graph.update({key: (merge, group) for key, group in zip(level, groups, strict=True)})
    return level[0]
