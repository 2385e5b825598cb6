"""Readers in processes of their own: a crash, a hang or a hunger for memory ends only those."""

from __future__ import annotations

import multiprocessing
import resource
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from studies.torture.reading import PATIENCE, Tally, try_files

__all__ = ["try_files_apart"]

# Bytes of address space that a reader may take beyond what its process has already.
ALLOWANCE = 2 << 30
# How many files one process reads.
BATCH = 10_000


def limit_memory() -> None:
    """Let this process have no more address space than it has now, and the allowance."""
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + ALLOWANCE, now + ALLOWANCE))


def peak() -> int:
    """Return the most resident memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def work(pipe: Connection, reader: str, first: int, count: int, seed: int) -> None:
    """Read files; report before each what became of those before it."""
    # The first imports what it needs, which is not to be counted.
    try_files(reader, first, 1, seed)
    limit_memory()
    before = peak()

    def report(number: int, tally: Tally) -> None:
        pipe.send((number, {**tally.as_dict(), "growth": peak() - before}))

    report(first + count, try_files(reader, first, count, seed, beat=report))


def try_files_apart(
    reader: str, count: int, *, seed: int = 0, until: float | None = None
) -> dict[str, Any]:
    """Give a reader mutated files in a process with little memory.

    Parameters
    ----------
    reader : str
        A name in ``studies.torture.reading.READERS``.
    count : int
        How many files.
    seed : int, default=0
        Another series of files.
    until : float, default=None
        When to stop, by ``time.monotonic``.

    Returns
    -------
    figures : dict
        Those of a tally, and ``growth``: by how many bytes the resident memory grew at most. A
        process that died or fell silent is a failure, and the next goes on behind the file.
    """
    total, growth, number = Tally(), 0, 0
    context = multiprocessing.get_context("spawn")
    while number < count and (until is None or time.monotonic() < until):
        mine, theirs = context.Pipe(duplex=False)
        last = min(number + BATCH, count)
        process = context.Process(target=work, args=(theirs, reader, number, last - number, seed))
        process.start()
        theirs.close()
        figures: dict[str, Any] = {}
        # A reader that is silent for long hangs where no alarm reaches it.
        with suppress(EOFError):
            while number < last and mine.poll(6 * PATIENCE):
                number, figures = mine.recv()
                if until is not None and time.monotonic() > until:
                    last = count = number
        process.kill()
        process.join()
        if figures:
            growth = max(growth, figures.pop("growth"))
            total.add(figures)
        if number < last:
            error = f"its process ended with exit code {process.exitcode}"
            lost = {"number": number, "seed": seed, "error": error}
            total.add({"tried": 1, "read": 0, "refused": 0, "failures": [lost]})
            number += 1
    return {**total.as_dict(), "growth": growth}
