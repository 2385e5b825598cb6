"""Where samples come from, block by block, and how a pass is mapped over them and reduced.

The samples are cut into chunks, chunks into blocks. A chunk is worked through by one thread
with one BLAS thread; parts are merged in the order of the chunks. Both cuts depend on the data
alone, so the number of threads never changes a bit of the result.
"""

from __future__ import annotations

import logging
import math
import mmap
import os
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from corrtensor.kernels import Factors, Part, Projection
from corrtensor.samples import Sliceable, as_float, check_finite

# A block of samples and its projections should stay in the cache of one core.
BLOCK_BYTES = 1 << 22
# Fewer rows than this make thin matrix products, however long the rows are.
MIN_FIBRES = 256
# Of modes beyond this many entries no square matrix is made: see corrtensor.sketch.
LARGE = 2048
MAX_CHUNKS = 64
PILOTS, PILOT_BYTES = 64, 1 << 25
# A stored chunk (zarr, HDF5) up to this size is read once, however many blocks it holds.
SPAN_BYTES = 1 << 25
# Samples of this size, or the inverse of it, can be squared, summed and squared again.
SAFE_SIZE = {np.dtype(np.float64): 1e60, np.dtype(np.float32): 1e9}
# Without a shift of origin, this much of the mean's energy beside the variation's is safe.
SAFE_MEAN = {np.dtype(np.float64): 1e3, np.dtype(np.float32): 30.0}


progress = logging.getLogger("corrtensor.progress")


class _SingleBlas:
    """One BLAS thread while any fit is running; nested and parallel fits share the limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None
        self._controller: ThreadpoolController | None = None

    def threads(self) -> int:
        """Return how many threads BLAS may use now, or the cores where that is unknown."""
        with self._lock:
            if self._controller is None:
                self._controller = ThreadpoolController()
            if self._limit is not None:
                return self._outside
            counts = [
                lib["num_threads"] for lib in self._controller.info() if lib["user_api"] == "blas"
            ]
        return min(counts, default=os.cpu_count() or 1)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        outside, entered = self.threads(), False
        # An interrupt can come between any two lines: what was begun is ended all the same.
        try:
            with self._lock:
                if self._users == 0:
                    self._outside = outside
                    self._limit = self._set_threads(1)
                self._users += 1
                entered = True
            yield
        except BaseException:
            with self._lock:
                if not entered and self._users == 0:
                    self._limit = None
                    self._set_threads(outside)
            raise
        finally:
            if entered:
                with self._lock:
                    self._users -= 1
                    if self._users == 0:
                        self._limit.restore_original_limits()
                        self._limit = None

    def _set_threads(self, count: int) -> Any:
        assert self._controller is not None  # noqa: S101
        return self._controller.limit(limits=count, user_api="blas")


single_blas = _SingleBlas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: single_blas.__init__())  # type: ignore[misc]


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: those BLAS may use, unless ``n_jobs`` says otherwise."""
    if n_jobs is None:
        return single_blas.threads()
    return int(effective_n_jobs(n_jobs))


class MappedFile:
    """A memory-mapped array that is read from its file instead.

    Pages touched through a mapping count as resident memory, and touching one beyond the end
    of a file that was cut short kills the process. A read does neither.
    """

    def __init__(self, X: np.ndarray, mapped: np.memmap) -> None:
        self.shape, self.dtype, self.name = X.shape, X.dtype, str(mapped.filename)
        start = np.frombuffer(mapped._mmap, np.uint8).__array_interface__["data"][0]  # type: ignore[attr-defined]
        before = mapped.offset - mapped.offset % mmap.ALLOCATIONGRANULARITY
        self.offset = before + X.__array_interface__["data"][0] - start

    def __getitem__(self, rows: slice) -> np.ndarray:
        x = np.empty((rows.stop - rows.start, *self.shape[1:]), self.dtype)
        each = x.nbytes // len(x)
        with open(self.name, "rb", buffering=0) as file:
            file.seek(self.offset + rows.start * each)
            view, done = x.reshape(-1).view(np.uint8), 0
            while done < x.nbytes:
                got = file.readinto(view[done:])  # type: ignore[arg-type]
                if not got:
                    raise OSError(f"the file ends after {file.tell()} bytes")
                done += got
        return x


def unmapped(X: Any) -> Any:
    """Return a mapped array as one that is read from its file; anything else as it is."""
    base = X
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    # A private mapping may differ from the file.
    if not isinstance(base, np.memmap) or base.filename is None or base.mode == "c":
        return X
    # Nor can a file that was deleted be read, though its mapping is whole.
    if not os.path.isfile(base.filename):
        return X
    return MappedFile(X, base) if X.flags.c_contiguous and X.size else X


def name_of(X: Any) -> str:
    """Return the name of the file that an array lives in, as far as it tells."""
    where = getattr(X, "store", None) or getattr(getattr(X, "file", None), "filename", None)
    name = getattr(X, "name", None) or getattr(X, "filename", None)
    return " ".join(str(part) for part in (where, name) if part) or "X"


class Source:
    """Samples as blocks of floating-point numbers, counted from a fixed origin.

    Parameters
    ----------
    X : array of shape (N, a_1, ..., a_d)
        In memory or on disk; slices along axis 0 are all that is asked of it.
    origin : ndarray, default=None
        What is subtracted from every sample. By default nothing, or, when the samples are all
        far from zero, the median of a few: sums of squares would lose their digits otherwise.
    unit : float, default=None
        What every sample is then divided by: a power of two if they are huge or tiny, else 1.
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use.
    block_size : int, default=None
        Samples per block.
    """

    def __init__(
        self,
        X: Sliceable,
        *,
        origin: np.ndarray | None = None,
        unit: float | None = None,
        n_jobs: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self.X = X = unmapped(X)
        self.n_samples = int(X.shape[0])
        self.sample_shape = tuple(int(a) for a in X.shape[1:])
        self.dtype = as_float(np.dtype(X.dtype))
        self.n_threads = count_threads(n_jobs)
        self.block_size = block_size or self._choose_block_size()
        self.span = self._choose_span()
        self.unit = unit or 1.0
        pilots = self.take(self._choose_pilots())
        with np.errstate(over="ignore"):
            largest = float(np.median(np.abs(pilots).reshape(len(pilots), -1).max(axis=1)))
        if (
            unit is None
            and largest
            and not 1 / SAFE_SIZE[self.dtype] < largest < SAFE_SIZE[self.dtype]
        ):
            if not 1e-152 < largest < 1e152:
                raise ValueError(
                    f"samples are about {largest:.0e} in size: their squares cannot be represented"
                )
            self.unit = 2.0 ** math.floor(math.log2(largest))
        self.origin = self._choose_origin(pilots) if origin is None else origin
        self._shifted = bool(self.origin.any())

    def _choose_block_size(self) -> int:
        cells, longest = math.prod(self.sample_shape), max(self.sample_shape)
        rows = BLOCK_BYTES // (cells * self.dtype.itemsize)
        fibres = MIN_FIBRES if longest <= LARGE else MIN_FIBRES // 4
        size = max(1, rows, fibres * longest // cells)
        return max(1, min(size, self.n_samples))

    def _choose_span(self) -> int:
        """Return how many samples to read at once: whole stored chunks, if they are not huge."""
        stored = int(np.max((getattr(self.X, "chunks", None) or (1,))[0]))
        if stored <= self.block_size:
            return self.block_size - self.block_size % stored
        each = math.prod(self.sample_shape) * np.dtype(self.X.dtype).itemsize
        return stored if stored * each <= SPAN_BYTES else self.block_size

    def _choose_pilots(self) -> np.ndarray:
        affordable = PILOT_BYTES // (8 * math.prod(self.sample_shape))
        count = min(self.n_samples, PILOTS, max(4, affordable))
        return np.unique(np.linspace(0, max(0, self.n_samples - 1), count).astype(int))

    def _choose_origin(self, pilots: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            pilots = pilots / self.unit
            # The median: one gross sample must not move the origin away from all the others.
            mean = np.median(pilots, axis=0)
            spread = np.median(np.square(pilots - mean).sum(axis=tuple(range(1, pilots.ndim))))
            if not np.square(mean).sum() > SAFE_MEAN[self.dtype] * spread:
                return np.zeros_like(mean)
        return mean * self.unit

    def at(self, mean: np.ndarray, factors: Factors) -> Projection:
        """Return a mean and factors made ready for these blocks."""
        return Projection(mean, tuple(factors), self.dtype)

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
        check_finite(rows, at=indices)
        return rows

    def _read(self, lo: int, hi: int) -> np.ndarray:
        try:
            x = np.asarray(self.X[lo:hi])
        except MemoryError:
            raise
        except Exception as error:
            raise OSError(
                f"samples {lo} to {hi - 1} of {name_of(self.X)} could not be read: {error}"
            ) from error
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
        starts = range(lo, hi, self.span)
        if isinstance(self.X, np.ndarray):
            yield from ((start, self._read(start, min(start + self.span, hi))) for start in starts)
            return
        with ThreadPoolExecutor(1) as reader:
            ahead = None
            for start in starts:
                now = ahead or reader.submit(self._read, start, min(start + self.span, hi))
                rows, after = now.result(), start + self.span
                ahead = (
                    reader.submit(self._read, after, min(after + self.span, hi))
                    if after < hi
                    else None
                )
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
        sums = cells + max(min(a, LARGE) for a in self.sample_shape) ** 2
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
            if self.n_threads == 1 or len(chunks) == 1:
                yield from map(run, chunks)
                return
            with ThreadPoolExecutor(min(self.n_threads, len(chunks))) as pool:
                yield from pool.map(run, chunks)

    def reduce(self, task: Callable[..., Part], **per_sample: np.ndarray | None) -> Part:
        """Run a task on every chunk and merge the parts."""
        total = Part()
        with closing(self.map(task, **per_sample)) as parts:
            for part in parts:
                total.sums.merge(part.sums)
                total.norms += part.norms
                total.squares += part.squares
                total.log_weights += part.log_weights
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
                check_finite(x, first=lo)
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


def check_output(out: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """Return an array to write into: a new one, or the given one if it fits."""
    if out is None:
        return np.empty(shape, dtype)
    if tuple(getattr(out, "shape", ())) != shape:
        raise ValueError(
            f"out has shape {getattr(out, 'shape', None)}; what is written has shape {shape}"
        )
    if not np.can_cast(dtype, np.dtype(out.dtype), "same_kind"):
        raise ValueError(f"out holds {out.dtype}; what is written is {dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out is read-only")
    return out
