"""Speed and memory beside peers and the machine itself, all in one run.

What is compared is run in turns, and medians are taken: other work on the machine slows all of
it alike. A peer that fails is a row that says so.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from corrtensor.methods import make

__all__ = ["BenchRow", "Point", "bench_origin", "run_bench", "run_series"]

SWEEPS = 4
OUTLIERS = 0.05
# After a product of several threads, those of OpenBLAS spin for some 30 ms, on cores that whoever
# comes next would use.
REST = 0.05


@dataclass(frozen=True)
class BenchRow:
    """One comparison. ``ratio`` against ``bar`` decides; without a bar it is for information."""

    case: str
    ours: str
    peer: str
    ratio: float | None = None
    bar: str = ""
    ok: bool | None = None
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a record."""
        return asdict(self)


@dataclass(frozen=True)
class Point:
    """Seconds of a fit as one size varies."""

    series: str
    method: str
    value: int
    seconds: float


def bench_origin() -> dict[str, Any]:
    """Return what the numbers depend on: versions, machine, load."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def known(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    names = ("corrtensor", "numpy", "scipy", "scikit-learn", "tensorly", "kalelinear")
    return {
        "versions": {name: known(name) for name in names},
        "python": platform.python_version(),
        "machine": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "seed": 0,
    }


def in_turns(tasks: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float | Exception]:
    """Return the median seconds of every task, or the error it ended in."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    failed: dict[str, Exception] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            for name, task in tasks.items():
                if name in failed:
                    continue
                time.sleep(REST)
                start = time.perf_counter()
                try:
                    task()
                except Exception as error:
                    failed[name] = error
                seconds[name].append(time.perf_counter() - start)
    return {name: failed.get(name) or median(seconds[name]) for name in tasks}


def draw(
    shape: tuple[int, ...], ranks: tuple[int, ...], dtype: Any, outliers: float = 0.0
) -> np.ndarray:
    """Return samples near a subspace of given ranks, in noise, some of them noise alone."""
    rng = np.random.default_rng(0)
    T = rng.standard_normal((shape[0], *ranks))
    for n, (a, k) in enumerate(zip(shape[1:], ranks, strict=True), start=1):
        U = np.linalg.qr(rng.standard_normal((a, k)))[0] * np.linspace(2, 1, k)
        T = np.moveaxis(np.tensordot(T, U, axes=(n, 1)), -1, n)
    X = (T + 0.1 * rng.standard_normal(T.shape)).astype(dtype)
    X[: int(outliers * len(X))] *= 5 * rng.choice([-1, 1], size=shape[1:])
    return X


def compare(
    case: str,
    times: dict[str, float | Exception],
    peer: str,
    at_least: float | None = None,
    at_most: float | None = None,
) -> BenchRow:
    """Return a row: how many times as long the peer takes, or with ``at_most``, we take."""
    ours, theirs = times["ours"], times[peer]
    bar = f">= {at_least:g}" if at_least else f"<= {at_most:g}" if at_most else ""
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        error = ours if isinstance(ours, Exception) else theirs
        return BenchRow(case, "", peer, None, bar, None, f"{type(error).__name__}: {error}")
    ratio = ours / theirs if at_most else theirs / ours
    ok = ratio >= at_least if at_least else ratio <= at_most if at_most else None
    return BenchRow(case, f"{ours:.3f} s", f"{peer} {theirs:.3f} s", ratio, bar, ok)


def nominal_flops(
    shape: tuple[int, int, int], ranks: tuple[int, int], symmetric: float = 1
) -> float:
    """Return the operations of a sweep over matrices as the plain algorithm does them.

    ``symmetric`` is the share of a product A'A that is counted: 1 in full, 0.5 strictly.
    """
    (n, a, b), (k1, k2) = shape, ranks
    plain = a * b * k2 + a * k1 * k2 + a * b * k1
    return 2.0 * n * (plain + symmetric * (a * a * k2 + b * b * k1))


def gemm(dtype: Any, size: int = 1500) -> Callable[[], Any]:
    """Return a large matrix product."""
    A = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    return lambda: A @ A


def share_rows(quick: bool) -> Iterator[BenchRow]:
    """How near a sweep comes to the machine's large matrix product."""
    cases = [
        ((2000, 100, 100), (50, 50), "float64", (0.6, 0.55)),
        ((20000, 28, 28), (15, 15), "float64", (0.4, 0.45)),
        ((4000, 64, 64), (20, 20), "float32", (0.5, 0.6)),
    ]
    for shape, ranks, dtype, bars in cases:
        # Of pure noise no sweep is the last one.
        X = np.random.default_rng(0).standard_normal(shape).astype(dtype)
        for name, wanted in zip(("GLRAM", "Corr-Tensor"), bars[: 1 if quick else 2], strict=False):
            once, more = (sweeps_of(name, X, ranks, s) for s in (1, 1 + SWEEPS))
            case = f"{name} sweep, {describe(shape, ranks, dtype)}, share of GEMM"
            bar_text = f">= {wanted:g}"
            tasks = {"gemm": gemm(dtype), "once": once, "more": more}
            times = in_turns(tasks, 5 if quick else 9)
            if errors := [e for e in times.values() if isinstance(e, Exception)]:
                yield BenchRow(case, "", "GEMM", bar=bar_text, note=str(errors[0]))
                continue
            seconds = (times["more"] - times["once"]) / SWEEPS  # type: ignore[operator]
            rate = 2 * 1500**3 / times["gemm"]  # type: ignore[operator]
            full, strict = (
                nominal_flops(shape, ranks, count) / seconds / rate for count in (1, 0.5)
            )
            yield BenchRow(
                case,
                f"{seconds * 1e3:.0f} ms",
                f"GEMM {rate / 1e9:.0f} GF/s",
                full,
                bar_text,
                full >= wanted,
                f"symmetric products counted in full; at half: {strict:.2f}",
            )


def describe(shape: tuple[int, ...], ranks: tuple[int, ...], dtype: str) -> str:
    """Return a case in a few characters."""
    return f"{'x'.join(map(str, shape))} {dtype} ranks {'x'.join(map(str, ranks))}"


def sweeps_of(name: str, X: np.ndarray, ranks: tuple[int, ...], sweeps: int) -> Callable[[], Any]:
    """Return a fit of so many sweeps, however little they still change."""
    options = {"scale": "median"} if name == "Corr-Tensor" else {}

    def fit() -> None:
        model = make(name, ranks, max_iter=sweeps, tol=0.0, **options).fit(X)
        if model.n_iter_ != sweeps:
            raise RuntimeError(f"{name} converged in {model.n_iter_} of {sweeps} sweeps")

    return fit


def peer_rows(quick: bool) -> Iterator[BenchRow]:
    """The same work done by other packages."""
    shape, ranks = (2000 if quick else 4000, 64, 64), (20, 20)
    X = np.random.default_rng(0).standard_normal(shape).astype("float32")
    sweeps, repeats = 2 if quick else 5, 1 if quick else 3
    case = f"{describe(shape, ranks, 'float32')}, {sweeps} sweeps"

    def tucker() -> None:
        from tensorly.decomposition import partial_tucker

        partial_tucker(X, rank=list(ranks), modes=[1, 2], n_iter_max=sweeps, tol=0.0)

    def mpca() -> None:
        from kalelinear.transformer import MPCA

        MPCA(max_iter=sweeps, output_shape=ranks).fit(X)

    few = {"ours": sweeps_of("GLRAM", X, ranks, sweeps), "tensorly.partial_tucker": tucker}
    yield compare(case, in_turns(few, repeats), "tensorly.partial_tucker", at_least=60)
    few = {"ours": sweeps_of("MPCA", X, ranks, sweeps), "kalelinear.MPCA": mpca}
    yield compare(case, in_turns(few, 3 if quick else 5), "kalelinear.MPCA", at_least=8)


def vector_rows(quick: bool) -> Iterator[BenchRow]:
    """Samples that are vectors: scikit-learn's PCA beside the plain and the robust one."""
    for n, a in ((4000, 4096), (2000, 20000), (50000, 300)):
        X = draw((n // 4 if quick else n, a), (25,), "float32")
        tasks: dict[str, Callable[[], Any]] = {
            "sklearn PCA": partial(sklearn_directions, X, 20),
            "PCA": partial(make("PCA", 20).fit, X),
            "Corr-Tensor": partial(make("Corr-Tensor", 20).fit, X),
        }
        times = in_turns(tasks, 3 if quick else 5)
        for name in ("PCA", "Corr-Tensor"):
            seen = {"ours": times[name], "sklearn PCA": times["sklearn PCA"]}
            case = f"{name} of {describe(X.shape, (20,), 'float32')}"
            yield compare(case, seen, "sklearn PCA", at_least=1.0)
        yield same_subspace(X, 20)


def sklearn_directions(X: np.ndarray, k: int) -> np.ndarray:
    """Return scikit-learn's principal directions as columns."""
    from sklearn.decomposition import PCA

    return np.asarray(PCA(k, random_state=0).fit(X).components_.T)


def same_subspace(X: np.ndarray, k: int) -> BenchRow:
    """How far our leading directions are from scikit-learn's: the largest sine."""
    V = sklearn_directions(X, k).astype(float)
    U = make("PCA", k).fit(X).factors_[0].astype(float)
    sine = float(np.linalg.norm(U - V @ (V.T @ U), 2))
    case = f"PCA of {describe(X.shape, (k,), 'float32')}, largest sine to sklearn's"
    return BenchRow(case, f"{sine:.1e}", "sklearn PCA", sine, "<= 0.0001", sine <= 1e-4)


def engine_rows(quick: bool) -> Iterator[BenchRow]:
    """What robustness costs, and how time grows with the number of samples."""
    ranks = (20, 20)
    for n, most in ((400, 2.0), (4000, 1.3)):
        for kind in ("float32", "float64"):
            yield price_of_robustness((n, 64, 64), ranks, kind, most)
    shape = (4000 if quick else 8000, 64, 64)
    X = draw(shape, ranks, "float32", OUTLIERS)
    tasks: dict[str, Callable[[], Any]] = {
        "ours": lambda: make("Corr-Tensor", ranks).fit(X),
        "GLRAM": lambda: make("GLRAM", ranks).fit(X),
    }
    case = f"robust fit to convergence, {describe(shape, ranks, 'float32')}"
    yield compare(case, in_turns(tasks, 3 if quick else 7), "GLRAM", at_most=1.5)
    tasks = {
        "ours": lambda: make("Corr-Tensor", ranks).fit(X),
        "breakdown=0": lambda: make("Corr-Tensor", ranks, breakdown=0).fit(X),
    }
    case = f"search for outlying groups, {describe(shape, ranks, 'float32')}"
    yield compare(case, in_turns(tasks, 3 if quick else 7), "breakdown=0", at_most=1.3)
    X = np.random.default_rng(0).standard_normal(shape).astype("float32")
    twice = np.concatenate([X, X])
    for name in ("MPCA", "Corr-Tensor"):
        tasks = {"ours": sweeps_of(name, twice, ranks, 3), "N": sweeps_of(name, X, ranks, 3)}
        case = f"{name}, 2N = {len(twice)} samples beside N"
        yield compare(case, in_turns(tasks, 5 if quick else 9), "N", at_most=2.2)


def price_of_robustness(
    shape: tuple[int, ...], ranks: tuple[int, ...], kind: str, most: float
) -> BenchRow:
    """Time a robust fit of samples of which none is wrong, beside a plain one."""
    X = draw(shape, ranks, kind, 0)
    tasks: dict[str, Callable[[], Any]] = {
        "ours": lambda: make("Corr-Tensor", ranks).fit(X),
        "MPCA": lambda: make("MPCA", ranks).fit(X),
    }
    case = f"robust fit of good samples, {describe(shape, ranks, kind)}"
    return compare(case, in_turns(tasks, 7), "MPCA", at_most=most)


def machine_rows() -> Iterator[BenchRow]:
    """What the machine can do."""
    a = np.ones(1 << 24)
    b = np.empty_like(a)
    tasks: dict[str, Callable[[], Any]] = {
        "float64": gemm("float64"),
        "float32": gemm("float32"),
        "copy": lambda: np.copyto(b, a),
    }
    times = in_turns(tasks, 5)
    for name in ("float64", "float32"):
        rate = 2 * 1500**3 / times[name] / 1e9  # type: ignore[operator]
        yield BenchRow(f"large GEMM, {name}", "", f"{rate:.0f} GF/s")
    yield BenchRow("memory, copy", "", f"{2 * a.nbytes / times['copy'] / 1e9:.1f} GB/s")  # type: ignore[operator]


def run_bench(quick: bool = False) -> Iterator[BenchRow]:
    """Yield one row after the other."""
    yield from machine_rows()
    yield from share_rows(quick)
    yield from peer_rows(quick)
    yield from vector_rows(quick)
    yield from engine_rows(quick)
    from studies.bench.dask_cases import dask_rows
    from studies.bench.memory_cases import memory_rows
    from studies.bench.path_cases import path_rows

    yield from path_rows(quick)
    yield from memory_rows(quick)
    yield from dask_rows(quick)


def run_series(quick: bool = False) -> list[Point]:
    """Return how long a fit of three sweeps takes as N, image size and rank grow."""
    points = []
    cases: dict[str, list[tuple[int, tuple[int, int, int], int]]] = {
        "samples N": [(n, (n, 32, 32), 10) for n in (1000, 2000, 4000, 8000, 16000)],
        "image size a x a": [(a, (1000, a, a), 10) for a in (16, 32, 64, 96, 128)],
        "rank k x k": [(k, (1000, 64, 64), k) for k in (4, 8, 16, 32, 48)],
    }
    for series, settings in cases.items():
        for value, shape, k in settings[: 3 if quick else None]:
            X = draw(shape, (k, k), "float64")
            methods = ("MPCA", "Corr-Tensor")
            times = in_turns({m: sweeps_of(m, X, (k, k), 3) for m in methods}, 3)
            points += [
                Point(series, m, value, t)
                for m in methods
                if not isinstance(t := times[m], Exception)
            ]
    return points
