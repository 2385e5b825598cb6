"""Memory of a fit in a process of its own: beside an array in memory, and of one on disk."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from studies.bench.cases import BenchRow

__all__ = ["memory_rows"]

MEMORY = """
    import sys, warnings, numpy as np, corrtensor as ct
    warnings.simplefilter("ignore")
    def resident(field):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(l.split()[1]) for l in lines if l.startswith(field)) / 1024
    def fit(X):
        ct.CorrTensor((20, 20), max_iter=2).fit(X)
    fit(np.random.default_rng(0).normal(size=(60, 100, 100)))
    {load}
    before = resident("VmRSS")
    open("/proc/self/clear_refs", "w").write("5")
    fit(X)
    print(before, resident("VmHWM"))
"""


def peak_memory(load: str) -> tuple[float, float]:
    """Return the resident megabytes of a fresh process before a fit and at its peak."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(MEMORY).format(load=load)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    before, peak = done.stdout.split()
    return float(before), float(peak)


def memory_rows(quick: bool) -> Iterator[BenchRow]:
    """Extra memory for an array in memory, and resident memory for one on disk."""
    megabytes = 160 if quick else 640
    n = megabytes * 1_000_000 // 80_000
    load = f"X = np.random.default_rng(0).random(({n}, 100, 100))"
    allowed = 0.1 * megabytes + 64
    case = f"extra memory, {megabytes} MB float64 in memory"
    try:
        before, peak = peak_memory(load)
        extra = peak - before
        peer = f"allowed {allowed:.0f} MB"
        yield BenchRow(
            case,
            f"{extra:.0f} MB",
            peer,
            extra / allowed,
            "<= 1",
            extra <= allowed,
            "VmHWM - VmRSS",
        )
    except Exception as error:
        yield BenchRow(case, "", "", bar="<= 1", note=f"{type(error).__name__}: {error}")
    gigabytes = 0.5 if quick else 4
    case = f"resident memory, {gigabytes:g} GB uint8 memmap"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sparse.bin"
        n = int(gigabytes * 1e9) // 10_000
        sparse_file(path, n)
        try:
            _, peak = peak_memory(
                f'X = np.memmap({str(path)!r}, "uint8", "r", shape=({n}, 100, 100))'
            )
            note = "VmHWM of the whole process: RssAnon + RssFile at its peak"
            yield BenchRow(
                case, f"{peak:.0f} MB", "allowed 400 MB", peak / 400, "<= 1", peak <= 400, note
            )
        except Exception as error:
            yield BenchRow(case, "", "", bar="<= 1", note=f"{type(error).__name__}: {error}")


def sparse_file(path: Path, n: int) -> None:
    """Make a file of ``n`` images of 10,000 bytes, mostly holes: a few hundred are noise."""
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.truncate(n * 10_000)
        for at in range(0, n, max(1, n // 400)):
            file.seek(at * 10_000)
            file.write(rng.integers(0, 255, 10_000, dtype=np.uint8).tobytes())
