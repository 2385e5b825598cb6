"""The long run: every reader, every fault, many fits; one JSON file with the figures."""

from __future__ import annotations

import importlib
import json
import logging
import os
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from corrtensor._base.files import replacing
from studies.torture.faults import FAULTS, inject
from studies.torture.isolated import ALLOWANCE, try_files_apart
from studies.torture.load import many_fits, parallel_fits
from studies.torture.reading import PATIENCE, READERS

__all__ = ["torture"]

# Shares of the time.
FILES, FAULTY, FITS = 0.6, 0.25, 0.15
PACKAGES = (
    *("corrtensor", "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl"),
    *("h5py", "zarr", "tifffile", "pillow", "av"),
)
log = logging.getLogger("corrtensor.torture")


def torture(minutes: float, out: str | os.PathLike[str], seed: int = 0) -> dict[str, Any]:
    """Run for some minutes and write the figures.

    Parameters
    ----------
    minutes : float
        How long; every part gets its share.
    out : path-like
        The JSON file.
    seed : int, default=0
        Other files and faults.

    Returns
    -------
    figures : dict
        What was written; ``failures`` counts all of them.
    """
    began = time.monotonic()
    files = mutated_files(60 * minutes * FILES, seed)
    faults = injected_faults(60 * minutes * FAULTY, seed)
    fits = repeated_fits(60 * minutes * FITS)
    # Part of the tests, beside which this is run; at the end, as the memory that processes are
    # started with counts as theirs.
    crafted = importlib.import_module("tests.crafted").try_all()
    log.info("crafted: %s", crafted)
    wrong = sum(fits["parallel"].values())
    failures = [
        *crafted["failures"],
        *(f for figures in files.values() for f in figures["failures"]),
        *(f for figures in faults.values() for f in figures["failures"]),
        *([f"{wrong} parallel fits differ"] if wrong else []),
    ]
    figures = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "minutes": round((time.monotonic() - began) / 60, 1),
        "seed": seed,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "inputs": sum(figures["tried"] for figures in files.values()),
        "faults": sum(figures["injected"] for figures in faults.values()),
        "failures": len(failures),
        "memory allowed": ALLOWANCE,
        "seconds allowed": PATIENCE,
        "crafted": crafted,
        "readers": files,
        "injected": faults,
        "load": fits,
    }
    with replacing(out) as file:
        file.write(json.dumps(figures, indent=1).encode() + b"\n")
    return figures


def mutated_files(seconds: float, seed: int) -> dict[str, Any]:
    """Give every reader mutated files for its share of the time."""
    figures = {}
    for reader in READERS:
        until = time.monotonic() + seconds / len(READERS)
        figures[reader] = try_files_apart(reader, 10**9, seed=seed, until=until)
        log.info("%s: %s", reader, {k: v for k, v in figures[reader].items() if k != "failures"})
        for failure in figures[reader]["failures"]:
            log.error("%s: %s", reader, failure)
    return figures


def injected_faults(seconds: float, seed: int) -> dict[str, Any]:
    """Let every fault happen for its share of the time."""

    def repeat(kind: str, until: float) -> dict[str, Any]:
        failures, count = [], 0
        while time.monotonic() < until:
            failure = inject(kind, 10**6 * seed + count)
            if failure is not None:
                failures.append({"number": count, "seed": seed, "error": failure})
                log.error("%s: %s", kind, failure)
            count += 1
        log.info("%s: %d injected, %d failures", kind, count, len(failures))
        return {"injected": count, "failures": failures}

    return {kind: repeat(kind, time.monotonic() + seconds / len(FAULTS)) for kind in FAULTS}


def repeated_fits(seconds: float) -> dict[str, Any]:
    """Fit many times in a row, and beside each other."""
    backends: list[tuple[str, Callable[[], int]]] = [
        ("threads", lambda: parallel_fits("threading")),
        ("processes", lambda: parallel_fits("loky")),
        ("forked processes", lambda: parallel_fits("multiprocessing")),
    ]
    series = many_fits(10**9, until=time.monotonic() + seconds)
    log.info("fits: %s", series)
    return {**series, "parallel": {name: run() for name, run in backends}}
