"""Many fits in one process: what grows, and whether fits beside each other disturb each other."""

from __future__ import annotations

import gc
import os
import threading
import time
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from corrtensor.corr_tensor import CorrTensor
from corrtensor.methods import METHODS, make
from studies.torture.seeds import samples

__all__ = ["answer", "many_fits", "parallel_fits", "resident"]

# Fits before memory is looked at for the first time.
WARM_UP = 40


def resident() -> int:
    """Return the resident memory of this process in bytes (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def handles() -> int:
    """Return how many files this process has open (Linux)."""
    return len(os.listdir("/proc/self/fd"))


def answer(k: int) -> np.ndarray:
    """Fit one of many small problems by one of the methods; return its reconstructions."""
    names = list(METHODS)
    name = names[k % len(names)]
    X = samples((30, 42) if name == "PCA" else (30, 7, 6), seed=k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = make(name, 2).fit(X)
        return np.asarray(model.inverse_transform(model.transform(X)))


def many_fits(count: int, *, until: float | None = None) -> dict[str, Any]:
    """Fit again and again, and measure what is left of it.

    Parameters
    ----------
    count : int
        How many fits, after a few that warm up.
    until : float, default=None
        When to stop, by ``time.monotonic``.

    Returns
    -------
    figures : dict
        ``fits``; ``growth``, the bytes by which the resident memory grew from the end of the
        warm-up on; ``threads`` and ``files`` more than before.
    """
    for k in range(WARM_UP):
        answer(k)
    gc.collect()
    before = resident(), threading.active_count(), handles()
    fits = 0
    while fits < count and (until is None or time.monotonic() < until):
        answer(fits)
        fits += 1
    gc.collect()
    growth = {
        "growth": resident() - before[0],
        "threads": threading.active_count() - before[1],
        "files": handles() - before[2],
    }
    return {"fits": fits, **growth}


def robust_answer(k: int) -> np.ndarray:
    """Fit with threads of its own; return the weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return CorrTensor((3, 2), n_jobs=2, block_size=8).fit(samples((48, 8, 7), seed=k)).weights_


def parallel_fits(backend: str, count: int = 8, first: int = 0) -> int:
    """Run fits beside each other; return how many differ from the serial ones by a bit.

    Parameters
    ----------
    backend : {"threading", "loky", "multiprocessing"}
        Of joblib: threads, or processes, or forked processes.
    count : int, default=8
        How many fits.
    first : int, default=0
        Other data.

    Returns
    -------
    wrong : int
        Fits whose weights are not those of a fit alone.
    """
    numbers = range(first, first + count)
    # Where a child hangs, that is an error after two minutes.
    parallel = Parallel(n_jobs=count, backend=backend, timeout=120)
    together = parallel(delayed(robust_answer)(k) for k in numbers)
    alone = [robust_answer(k) for k in numbers]
    return sum(not np.array_equal(a, b) for a, b in zip(together, alone, strict=True))
