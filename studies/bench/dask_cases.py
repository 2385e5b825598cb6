"""What a cluster costs: time beside the engine in memory, bytes sent, memory of a worker."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._engine.arrays import dask_held, source_of
from corrtensor._engine.arrays.dask_lazy import require
from corrtensor._engine.passes import SweepPass
from corrtensor.clusters import connect, spread
from corrtensor.losses import Power
from corrtensor.methods import make
from studies.bench.cases import BenchRow, compare, describe, draw, in_turns

__all__ = ["Sent", "bytes_of_sweep", "count_sent", "dask_rows", "seconds_of_pass"]

WORKERS = 2
# What it takes to describe one chunk's tasks of one pass to the scheduler and a worker, and to
# hear of them again; measured.
TALK = 9_000


def bytes_of_sweep(
    n_samples: int,
    shape: Sequence[int],
    ranks: Sequence[int],
    n_chunks: int,
    n_workers: int,
) -> float:
    """Return the bytes that a sweep sends, all of them counted at the sender.

    See ``docs/scaling.md``. Every mode is taken to be projected.
    """
    cells, d = math.prod(shape), len(shape)
    # Numbers of samples pass the scheduler: twice for each pass, and residuals and weights back.
    per_sample = 2 * 8 * n_samples * (d + 2)
    place = 8 * (2 * cells + sum(a * k for a, k in zip(shape, ranks, strict=True)))
    sums = 8 * (cells + sum(a * a for a in shape))
    moved = n_chunks * (1 - 1 / n_workers) + 2
    return per_sample + d * (n_workers + 1) * place + moved * sums + d * n_chunks * TALK


@dataclass
class Sent:
    """Bytes that all processes of a cluster have written to one another."""

    n_bytes: int = 0


def count_here() -> int:
    """Return the bytes written by this process so far; the first call begins to count."""
    TCP = require("distributed.comm.tcp").TCP
    plain = TCP.write
    if hasattr(plain, "n_bytes"):
        return int(plain.n_bytes)

    async def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        n = await plain(self, *args, **kwargs)
        write.n_bytes += n or 0  # type: ignore[attr-defined]
        return n

    write.n_bytes = 0  # type: ignore[attr-defined]
    TCP.write = write
    return 0


@contextmanager
def count_sent(client: Any) -> Iterator[Sent]:
    """Count the bytes that client, scheduler and workers send inside a ``with`` block.

    What they say beside the work, such as that they are alive, is counted too.
    """

    def total() -> int:
        counts = {
            "workers": client.run(count_here),
            "scheduler": client.run_on_scheduler(count_here),
        }
        own = 0 if client.cluster is not None else count_here()
        return sum(counts["workers"].values()) + counts["scheduler"] + own

    sent = Sent()
    before = total()
    yield sent
    sent.n_bytes = total() - before


def pictures(n: int) -> np.ndarray:
    """Return pictures of 64 x 64 bytes near a subspace of ranks 20 x 20, some of them not."""
    return np.clip(12 * draw((n, 64, 64), (20, 20), "float32", 0.05) + 128, 0, 255).astype("uint8")


def threads() -> Any:
    """Return the setting of as many threads as there are workers."""
    return require("dask").config.set(scheduler="threads", num_workers=WORKERS)


def overhead_rows(quick: bool) -> Iterator[BenchRow]:
    """The same array by Dask's threads and by the engine's own."""
    X = pictures(8000 if quick else 40000)
    lazy = require("dask.array").from_array(X, chunks=(16384, 64, 64))

    def fit(data: Any) -> Callable[[], Any]:
        return lambda: make("Corr-Tensor", (20, 20), n_jobs=WORKERS).fit(data)

    with threads():
        times = in_turns({"ours": fit(lazy), "in memory": fit(X)}, 3 if quick else 5)
    case = f"Dask, {WORKERS} threads, {describe(X.shape, (20, 20), 'uint8')}"
    yield compare(case, times, "in memory", at_most=1.3)


def peer_rows(quick: bool) -> Iterator[BenchRow]:
    """Principal components of flattened pictures by another package."""
    X = draw((2000 if quick else 8000, 64, 64), (20, 20), "float32")
    lazy = require("dask.array").from_array(X, chunks=(1000, 64, 64)).persist()
    flat = lazy.reshape(len(X), -1).persist()

    def peer() -> np.ndarray:
        PCA = require("dask_ml.decomposition").PCA
        fitted = PCA(20, svd_solver="randomized", random_state=0).fit(flat)
        return np.asarray(fitted.components_).T

    name = "dask_ml PCA"
    with threads():
        for case, task in {
            f"Dask, PCA of {len(X)}x4096 float32": lambda: make("PCA", 20).fit(flat),
            f"Dask, MPCA of {len(X)}x64x64 float32": lambda: make("MPCA", (20, 20)).fit(lazy),
        }.items():
            times = in_turns({"ours": task, name: peer}, 1 if quick else 3)
            yield compare(case, times, name, at_least=1.0)
        found = {"ours": make("PCA", 20).fit(flat).factors_[0], name: peer()}
    yield variance_row(X.reshape(len(X), -1), found, name)


def variance_row(X: np.ndarray, found: dict[str, np.ndarray], peer: str) -> BenchRow:
    """How much of the variance ours and another package's directions explain."""
    D = X - X.mean(axis=0)
    shares = {k: float(np.square(D @ V).sum() / np.square(D).sum()) for k, V in found.items()}
    case = f"Dask, PCA of {len(X)}x{X.shape[1]} float32, variance that 20 directions explain"
    ours, theirs, ratio = shares["ours"], shares[peer], shares["ours"] / shares[peer]
    return BenchRow(case, f"{ours:.2%}", f"{peer} {theirs:.2%}", ratio, ">= 1", ratio >= 1)


def store(folder: str, n: int) -> Any:
    """Write ``n`` pictures to disk, uncompressed, in chunks of 4 MB; return them as an array."""
    zarr = require("zarr")
    path = Path(folder) / f"{n}.zarr"
    chunks = (1024, 64, 64)
    stored = zarr.create_array(
        path, shape=(n, 64, 64), chunks=chunks, dtype="uint8", compressors=None
    )
    some = pictures(min(n, 16384))
    for lo in range(0, n, len(some)):
        stored[lo : lo + len(some)] = some[: n - lo]
    return stored


@contextmanager
def reading_again() -> Iterator[None]:
    """Hold no chunk in memory inside a ``with`` block."""
    share, dask_held.HELD_SHARE = dask_held.HELD_SHARE, 0.0
    try:
        yield
    finally:
        dask_held.HELD_SHARE = share


def seconds_of_pass(X: Any) -> np.ndarray:
    """Return the seconds of a pass over pictures, by clock and of CPU: the mean of two kinds."""
    source = source_of(X)
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 20)))[0]
    at = source.at(np.zeros((64, 64)), (U, U))
    # Any norms will do that are larger than those of bytes: residuals must not cancel.
    norms = np.full(len(X), 64.0 * 64 * 256**2)
    began = np.array([time.perf_counter(), time.process_time()])
    source.reduce(SweepPass(at, 0, Power(1.0)), norms=norms)
    source.reduce(SweepPass(at, 1), weights=np.ones(len(X)))
    return (np.array([time.perf_counter(), time.process_time()]) - began) / 2


def growth_rows(quick: bool) -> Iterator[BenchRow]:
    """How a pass grows with the number of samples on disk."""
    before: tuple[int, float] | None = None
    for n in (10_000, 30_000) if quick else (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory() as folder, threads(), reading_again():
            clock, cpu = seconds_of_pass(spread(store(folder, n))).tolist()
        case = f"Dask, {n}x64x64 uint8 zarr, read in every pass"
        ratio = None if before is None else cpu / n * before[0] / before[1]
        beside = "" if before is None else f"; ratio: CPU of a sample beside {before[0]} samples"
        note = f"{cpu:.2f} s of CPU, {1e6 * cpu / n:.1f} us a sample{beside}"
        bar, ok = ("", None) if ratio is None else ("<= 1.2", ratio <= 1.2)
        yield BenchRow(case, f"{clock:.2f} s a pass", "", ratio, bar, ok, note)
        before = (n, cpu)


def peak_here() -> float:
    """Return the most memory this process ever had, in megabytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def cluster_rows(quick: bool) -> Iterator[BenchRow]:
    """Memory of a worker, and bytes sent."""
    n = 8000 if quick else 40_000
    with tempfile.TemporaryDirectory() as folder, connect(f"local:{WORKERS}") as client:
        lazy = spread(store(folder, n))
        before = max(client.run(peak_here).values())
        with reading_again():
            make("Corr-Tensor", (20, 20), max_iter=2).fit(lazy)
        peak = max(client.run(peak_here).values())
        case = f"Dask, memory of a worker, {n}x64x64 uint8, chunks of 64 MB"
        ours, note = f"{peak:.0f} MB", f"VmHWM; before the fit {before:.0f} MB"
        yield BenchRow(case, ours, "allowed 400 MB", peak / 400, "<= 1", peak <= 400, note)
    with connect(f"local:{WORKERS}") as client:
        n, n_chunks = 60_000, 6
        X = np.random.default_rng(0).integers(0, 255, (n, 8, 8)).astype(np.uint8)
        lazy = require("dask.array").from_array(X, chunks=(n // n_chunks, 8, 8)).persist()
        sent = {}
        for count in (1, 2, 6):
            with count_sent(client) as counted:
                make("Corr-Tensor", (3, 3), scale="median", max_iter=count, tol=0.0).fit(lazy)
            sent[count] = counted.n_bytes
        measured, formula = (
            (sent[6] - sent[2]) / 4,
            bytes_of_sweep(n, (8, 8), (3, 3), n_chunks, WORKERS),
        )
        ratio = measured / formula
        case = f"Dask, bytes of a sweep, {n}x8x8 uint8, {n_chunks} chunks, {WORKERS} workers"
        ours, peer = f"{measured / 1e6:.2f} MB", f"formula {formula / 1e6:.2f} MB"
        yield BenchRow(case, ours, peer, ratio, "0.8 to 1.2", 0.8 <= ratio <= 1.2)


def dask_rows(quick: bool = False) -> Iterator[BenchRow]:
    """Yield one row after the other; what fails is a row that says so."""
    for rows in (overhead_rows, peer_rows, cluster_rows, growth_rows):
        try:
            yield from rows(quick)
        except Exception as error:
            yield BenchRow(
                f"Dask, {rows.__name__}", "", "", note=f"{type(error).__name__}: {error}"
            )
