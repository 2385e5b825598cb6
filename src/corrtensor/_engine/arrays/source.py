"""Where samples come from, block by block, and how a pass is mapped over them and reduced.

The samples are cut into chunks, chunks into blocks. A chunk is worked through by one thread
with one BLAS thread; parts are merged in the order of the chunks. Both cuts depend on the data
alone, so the number of threads never changes a bit of the result.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from corrtensor._base.gaps import with_gaps
from corrtensor._engine.arrays.disk import name_of, unmapped
from corrtensor._engine.arrays.origin import (
    choose_origin,
    choose_pilots,
    choose_unit,
    middle,
    usual,
)
from corrtensor._engine.large_modes import LARGE
from corrtensor._engine.passes import Part, Projection
from corrtensor._engine.products import Factors
from corrtensor._engine.shapes import as_float, check_finite, refuse_infinite
from corrtensor._engine.threads import count_threads, in_team, single_blas, threads

# A block of samples and its projections should stay in the cache of one core.
BLOCK_BYTES = 1 << 22
# Fewer rows than this make thin matrix products, however long the rows are.
MIN_FIBRES = 256
# Columns of what is added up for a large mode, roughly.
SKETCHED = 64
MAX_CHUNKS, FEW_BLOCKS = 64, 4
# A stored chunk (zarr, HDF5) up to this size is read once, however many blocks it holds.
SPAN_BYTES = 1 << 25
# Chosen samples are copied once if they take no more memory than this; those on disk, than that.
WORTH_COPYING, WORTH_HOLDING = 1 << 24, 1 << 26

progress = logging.getLogger("corrtensor.progress")


class Source:
    """Samples as blocks of floating-point numbers, counted from a fixed origin in a fixed unit.

    ``X`` is an array in memory or on disk; slices along axis 0 are all that is asked of it. By
    default the origin is zero, or, when the samples are all far from it, the median of a few: sums
    of squares would lose their digits otherwise. The unit is a power of two if the samples are huge
    or tiny, else 1. ``n_jobs`` are threads, ``block_size`` samples per block. ``missing`` says that
    NaN is a cell without a value, and no error; ``doubtful``, that others may be anything.
    """

    # Whether passes run in this process and share its memory.
    here = True
    # Which samples show any of their cells.
    seen: np.ndarray | bool = True
    # What several fits have in common: see corrtensor._engine.sharing.
    memory: dict[Any, Any] | None = None

    def __init__(
        self,
        X: Any,
        *,
        origin: np.ndarray | None = None,
        unit: float | None = None,
        n_jobs: int | None = None,
        block_size: int | None = None,
        missing: bool = False,
        doubtful: bool = False,
    ) -> None:
        self.X = X = unmapped(X)
        self.missing = missing
        self.n_samples = int(X.shape[0])
        self.sample_shape = tuple(int(a) for a in X.shape[1:])
        self.dtype = as_float(np.dtype(X.dtype))
        self.n_threads = count_threads(n_jobs)
        self.block_size = block_size or self._choose_block_size()
        self.span = self._choose_span()
        if origin is None or unit is None:
            pilots = self.take(choose_pilots(self.n_samples, self.sample_shape))
            pilots = np.where(np.isnan(pilots), usual(pilots), pilots) if missing else pilots
            unit = choose_unit(pilots, self.dtype, doubtful) if unit is None else unit
            if origin is None:
                origin = choose_origin(pilots, middle(pilots), unit, self.dtype)
        self.origin, self.unit = origin, unit
        self._shifted = bool(self.origin.any())

    def _choose_block_size(self) -> int:
        cells, longest = math.prod(self.sample_shape), max(self.sample_shape)
        # Of a large mode every block adds up to much: blocks are longer there.
        much, fibres = (1, MIN_FIBRES) if longest <= LARGE else (2, MIN_FIBRES // 4)
        rows = much * BLOCK_BYTES // (cells * self.dtype.itemsize)
        size = max(1, rows, fibres * longest // cells)
        return max(1, min(size, self.n_samples))

    def _choose_span(self) -> int:
        """Return how many samples to read at once: whole stored chunks, if they are not huge."""
        stored = int(np.max((getattr(self.X, "chunks", None) or (1,))[0]))
        if stored <= self.block_size:
            return self.block_size - self.block_size % stored
        each = math.prod(self.sample_shape) * np.dtype(self.X.dtype).itemsize
        return stored if stored * each <= SPAN_BYTES else self.block_size

    @property
    def in_memory(self) -> bool:
        """Whether nothing is gained by reading ahead."""
        if isinstance(self.X, Chosen):
            return self.X.source.in_memory
        return isinstance(self.X, np.ndarray)

    def at(self, mean: np.ndarray, factors: Factors) -> Projection:
        """Return a mean and factors made ready for these blocks."""
        return Projection(mean, tuple(factors), self.dtype)

    def beside(self, factors: Factors | None) -> np.ndarray | float:
        """Return how much larger the residuals of whole samples, or their norms, should be."""
        return 0.0

    @property
    def cost(self) -> np.ndarray | float:
        """What is added to each squared residual, for cells that are in doubt."""
        return 0.0

    def seen_shares(self) -> np.ndarray | float:
        """Return the share of its cells that each sample shows, or that all do."""
        return 1.0

    def take(self, indices: np.ndarray) -> np.ndarray:
        """Return chosen samples as they are, in double precision."""
        if isinstance(self.X, np.ndarray):
            rows = self.X[indices].astype(np.float64, copy=False)
        else:
            rows = np.empty((len(indices), *self.sample_shape))
            # Samples of one stored chunk are read together, others one by one.
            reach = self.span if getattr(self.X, "chunks", None) else 1
            for first in np.unique(indices // reach) * reach:
                here = indices // reach == first // reach
                read = self._read(int(first), min(int(first) + reach, self.n_samples))
                rows[here] = read[indices[here] - first]
        self._check(rows, at=indices)
        return rows

    def _check(self, rows: np.ndarray, **names: Any) -> None:
        # NaN is in order where it is expected.
        check = refuse_infinite if self.missing else check_finite
        check(rows, **names)

    def chosen(self, drawn: np.ndarray) -> Source:
        """Return a source of some of the samples, counted from the same origin."""
        rows: Any = Chosen(self, drawn)
        size = len(drawn) * math.prod(self.sample_shape) * self.dtype.itemsize
        if isinstance(self.X, np.ndarray):
            rows = self.X[drawn] if size <= WORTH_COPYING else rows
        elif size <= WORTH_HOLDING:
            rows = np.empty((len(drawn), *self.sample_shape), self.dtype)
            # In pieces: they come in double precision.
            step = max(1, WORTH_COPYING * len(drawn) // size)
            for lo in range(0, len(drawn), step):
                rows[lo : lo + step] = self.take(drawn[lo : lo + step])
        # Some blocks even of few samples: for all threads, and for what the passes make of them.
        few = MIN_FIBRES * max(self.sample_shape) // math.prod(self.sample_shape)
        block_size = min(self.block_size, len(drawn), max(few, -(-len(drawn) // FEW_BLOCKS)))
        return Source(
            rows,
            origin=self.origin,
            unit=self.unit,
            n_jobs=self.n_threads,
            block_size=block_size,
            missing=self.missing,
        )

    def _read(self, lo: int, hi: int) -> np.ndarray:
        try:
            x = np.asanyarray(self.X[lo:hi])
        except MemoryError:
            raise
        except Exception as error:
            raise OSError(
                f"samples {lo} to {hi - 1} of {name_of(self.X)} could not be read: {error}"
            ) from error
        # Some arrays on disk, such as those of netCDF, mask what is missing.
        x = np.asarray(with_gaps(x))
        if x.shape != (hi - lo, *self.sample_shape):
            raise OSError(
                f"samples {lo} to {hi - 1} of {name_of(self.X)} came with shape {x.shape}, "
                f"not {(hi - lo, *self.sample_shape)}"
            )
        return x

    def _counted_from_origin(self, x: np.ndarray) -> np.ndarray:
        if self._shifted:
            # Integers are subtracted in double precision, or they would wrap around.
            x = np.subtract(x, self.origin.astype(self.dtype), dtype=self.dtype)
        else:
            x = np.ascontiguousarray(x, dtype=self.dtype)
        return x if self.unit == 1.0 else x / self.dtype.type(self.unit)

    def _reads(self, lo: int, hi: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield ``(start, rows)``; from disk, the next rows are read while these are used."""

        def get(start: int) -> np.ndarray:
            return self._read(start, min(start + self.span, hi))

        starts = range(lo, hi, self.span)
        if self.in_memory:
            yield from ((start, get(start)) for start in starts)
            return
        with ThreadPoolExecutor(1) as reader:
            ahead = None
            for start in starts:
                now = ahead or reader.submit(get, start)
                rows, after = now.result(), start + self.span
                ahead = reader.submit(get, after) if after < hi else None
                yield start, rows

    def blocks(self, lo: int, hi: int) -> Generator[tuple[int, int, np.ndarray], None, None]:
        """Yield ``(start, stop, block)`` from sample ``lo`` to ``hi``."""
        for first, rows in self._reads(lo, hi):
            for start in range(0, len(rows), self.block_size):
                x = self._counted_from_origin(rows[start : start + self.block_size])
                yield first + start, first + start + len(x), x

    def chunks(self) -> list[tuple[int, int]]:
        """Cut the samples: whole reads, enough of them to outweigh the sums they add up to."""
        cells = math.prod(self.sample_shape)
        sums = cells + max(a * (a if a <= LARGE else SKETCHED) for a in self.sample_shape)
        n_reads = -(-self.n_samples // self.span)
        wanted = self.n_samples * cells // (4 * sums)
        n_chunks = max(1, min(MAX_CHUNKS, n_reads, wanted))
        edges = np.linspace(0, n_reads, n_chunks + 1).astype(int) * self.span
        edges = np.minimum(edges, self.n_samples).tolist()
        return list(pairwise(edges))

    def map(
        self, task: Callable[..., Any], **per_sample: np.ndarray | None
    ) -> Generator[Any, None, None]:
        """Run a task on every chunk; yield the results in order."""

        def run(chunk: tuple[int, int]) -> Any:
            # Closed here, not when a traceback that somebody keeps is forgotten: a reader waits.
            with closing(self.blocks(*chunk)) as blocks:
                done = task(blocks, **per_sample)
            progress.debug("samples %d to %d of %d", chunk[0], chunk[1] - 1, self.n_samples)
            return done

        chunks = self.chunks()
        with single_blas():
            if self.n_threads == 1 or len(chunks) == 1 or in_team():
                yield from map(run, chunks)
                return
            with threads(self.n_threads) as pool:
                waiting: deque[Future[Any]] = deque()
                try:
                    for chunk in chunks:
                        waiting.append(pool.submit(run, chunk))
                    while waiting:
                        done = waiting[0].result()
                        waiting.popleft()
                        yield done
                finally:
                    # The pool lives on: nothing of this pass may still be running after it.
                    for future in waiting:
                        future.cancel()
                    wait(waiting)

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a task on every chunk and merge the parts."""
        total = Part()
        with closing(self.map(task, **per_sample)) as parts:
            for part in parts:
                total.merge(part)
        return total

    def fill(self, out: Any, task: Callable[[np.ndarray], np.ndarray]) -> None:
        """Write what a task makes of every block into ``out``, an array in memory or on disk.

        Should anything fail on the way, all of ``out`` is filled with NaN: half of a result
        must not look like a whole one.
        """
        # Blocks of two threads may share a stored chunk, which is written as a whole.
        lock: Any = nullcontext() if isinstance(out, np.ndarray) else threading.Lock()

        def write(blocks: Iterator[tuple[int, int, np.ndarray]]) -> None:
            for lo, hi, x in blocks:
                self._check(x, first=lo)
                rows = task(x).reshape(hi - lo, *out.shape[1:])
                with lock:
                    try:
                        out[lo:hi] = rows
                    except Exception as error:
                        raise OSError(
                            f"samples {lo} to {hi - 1} could not be written to {name_of(out)}: "
                            f"{error}"
                        ) from error

        try:
            with closing(self.map(write)) as parts:
                for _ in parts:
                    continue
        except BaseException as error:
            with suppress(Exception):
                for lo in range(0, self.n_samples, self.span):
                    out[lo : lo + self.span] = np.nan
            error.add_note("The output is not complete; it has been filled with NaN.")
            raise


def plain(X: Any, **options: Any) -> Source:
    """Return samples as they are: nothing subtracted, nothing scaled."""
    return Source(X, origin=np.zeros(1), unit=1.0, **options)


@dataclass(frozen=True)
class Chosen:
    """Some samples of a source, copied block by block when they are asked for."""

    source: Source
    drawn: np.ndarray

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return (len(self.drawn), *self.source.sample_shape)

    @property
    def dtype(self) -> np.dtype:
        """As of an array."""
        return np.dtype(self.source.X.dtype)

    def __getitem__(self, rows: slice) -> np.ndarray:
        X, drawn = self.source.X, self.drawn[rows]
        return X[drawn] if isinstance(X, np.ndarray) else self.source.take(drawn)
