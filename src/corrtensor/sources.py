"""Where samples come from, block by block, and how a pass is mapped over them and reduced.

The samples are cut into chunks, chunks into blocks. A chunk is worked through by one thread
with one BLAS thread; parts are merged in the order of the chunks. Both cuts depend on the data
alone, so the number of threads never changes a bit of the result.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from corrtensor.kernels import Factors, Part, Projection
from corrtensor.samples import Sliceable, as_float, check_finite

# A block of samples and its projections should stay in the cache of one core.
BLOCK_BYTES = 1 << 21
# Fewer rows than this make thin matrix products, however long the rows are.
MIN_FIBRES = 256
MAX_CHUNKS = 64
PILOTS = 64
# Without a shift of origin, this much of the mean's energy beside the variation's is safe.
SAFE_MEAN = {np.dtype(np.float64): 1e3, np.dtype(np.float32): 30.0}


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
            counts = [lib["num_threads"] for lib in self._controller.info() if lib["user_api"] == "blas"]
        return min(counts, default=os.cpu_count() or 1)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        outside = self.threads()
        with self._lock:
            if self._users == 0:
                self._outside = outside
                assert self._controller is not None  # noqa: S101
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._limit.restore_original_limits()
                    self._limit = None


single_blas = _SingleBlas()
os.register_at_fork(after_in_child=lambda: single_blas.__init__())  # type: ignore[misc]


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: those BLAS may use, unless ``n_jobs`` says otherwise."""
    if n_jobs is None:
        return single_blas.threads()
    return int(effective_n_jobs(n_jobs))


class Source:
    """Samples as blocks of floating-point numbers, counted from a fixed origin.

    Parameters
    ----------
    X : array of shape (N, a_1, ..., a_d)
        In memory or on disk; slices along axis 0 are all that is asked of it.
    origin : ndarray, default=None
        What is subtracted from every sample. By default nothing, or, when the samples are all
        far from zero, the mean of a few: sums of squares would lose their digits otherwise.
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
        n_jobs: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self.X = X
        self.n_samples = int(X.shape[0])
        self.sample_shape = tuple(int(a) for a in X.shape[1:])
        self.dtype = as_float(np.dtype(X.dtype))
        self.n_threads = count_threads(n_jobs)
        self.block_size = block_size or self._choose_block_size()
        self.unit = 1.0
        pilots = self.take(np.unique(np.linspace(0, self.n_samples - 1, PILOTS).astype(int)))
        largest = float(np.max(np.abs(pilots), initial=0.0))
        if largest and not 1e-60 < largest < 1e60:
            self.unit = 2.0 ** math.floor(math.log2(largest))
        self.origin = self._choose_origin(pilots) if origin is None else origin
        self._shifted = bool(self.origin.any())

    def _choose_block_size(self) -> int:
        cells = math.prod(self.sample_shape)
        rows = BLOCK_BYTES // (cells * self.dtype.itemsize)
        size = max(1, rows, MIN_FIBRES * max(self.sample_shape) // cells)
        stored = getattr(self.X, "chunks", None)
        if stored and size > stored[0]:
            size -= size % stored[0]
        return min(size, self.n_samples)

    def _choose_origin(self, pilots: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            pilots = pilots / self.unit
            mean = pilots.mean(axis=0)
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
            rows = self.X[indices]
        else:
            rows = np.stack([self._read(int(i), int(i) + 1)[0] for i in indices])
        rows = rows.astype(np.float64)
        check_finite(rows)
        return rows

    def _read(self, lo: int, hi: int) -> np.ndarray:
        try:
            return np.asarray(self.X[lo:hi])
        except Exception as error:
            name = getattr(self.X, "name", None) or getattr(self.X, "filename", None) or "X"
            raise OSError(f"samples {lo} to {hi - 1} of {name} could not be read: {error}") from error

    def _block(self, lo: int, hi: int) -> np.ndarray:
        x = self._read(lo, hi)
        if x.shape != (hi - lo, *self.sample_shape):
            raise OSError(
                f"samples {lo} to {hi - 1} came with shape {x.shape}, "
                f"not {(hi - lo, *self.sample_shape)}"
            )
        if self._shifted:
            # Integers are subtracted in double precision, or they would wrap around.
            x = np.subtract(x, self.origin.astype(self.dtype), dtype=self.dtype)
        else:
            x = np.ascontiguousarray(x, dtype=self.dtype)
        return x if self.unit == 1.0 else x / self.dtype.type(self.unit)

    def blocks(self, lo: int, hi: int) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield ``(start, stop, block)`` from sample ``lo`` to ``hi``."""
        for start in range(lo, hi, self.block_size):
            stop = min(start + self.block_size, hi)
            yield start, stop, self._block(start, stop)

    def chunks(self) -> list[tuple[int, int]]:
        """Cut the samples: whole blocks, enough of them to outweigh the sums they add up to."""
        cells = math.prod(self.sample_shape)
        sums = cells + max(min(a, 2048) for a in self.sample_shape) ** 2
        n_blocks = -(-self.n_samples // self.block_size)
        wanted = self.n_samples * cells // (4 * sums)
        n_chunks = max(1, min(MAX_CHUNKS, n_blocks, wanted))
        edges = np.linspace(0, n_blocks, n_chunks + 1).astype(int) * self.block_size
        edges = np.minimum(edges, self.n_samples).tolist()
        return list(zip(edges[:-1], edges[1:], strict=True))

    def map(self, task: Callable[..., Any], **per_sample: np.ndarray | None) -> Iterator[Any]:
        """Run a task on every chunk; yield the results in order."""

        def run(chunk: tuple[int, int]) -> Any:
            return task(self.blocks(*chunk), **per_sample)

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
        for part in self.map(task, **per_sample):
            total.sums.merge(part.sums)
            total.norms += part.norms
            total.squares += part.squares
            total.log_weights += part.log_weights
        return total
