"""Where a fit stands, kept in a file, so that a killed one can go on.

The file is written after a sweep, at most every few seconds, and is whole or not there at all. It
is of no use to other data or other settings, and says so. A fit that ends removes it.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corrtensor.solver import Options, Snapshot, State
from corrtensor.storage import read, write

__all__ = ["Checkpoint", "fingerprint"]

FORMAT = "corrtensor checkpoint"
# Seconds between two writes.
EVERY = 5.0
# Settings that do not change the result.
IMMATERIAL = ("callback", "checkpoint", "n_jobs")


def fingerprint(
    start: State, settings: Mapping[str, Any], sample_weight: np.ndarray | None
) -> dict[str, str]:
    """Return what tells one fit from another: its settings, and its data by their moments.

    The samples' squared norms and their mean come from the first pass over the data, which
    every fit makes.
    """
    sha = hashlib.sha256()
    weight = np.empty(0) if sample_weight is None else sample_weight
    for array in (start.norms, start.mean, weight):
        sha.update(np.ascontiguousarray(array).tobytes())
    simple = {
        name: type(value).__name__ if isinstance(value, np.random.RandomState) else repr(value)
        for name, value in settings.items()
        if name not in IMMATERIAL
    }
    return {"data": sha.hexdigest(), **simple}


@dataclass
class Checkpoint:
    """The file of one fit."""

    path: str | os.PathLike[str]
    mark: Mapping[str, str]
    last: float = field(default=-np.inf, init=False)

    def options(self, options: Options, start: State) -> Options:
        """Return options with which a fit goes on where it stood, and keeps where it stands."""

        def observe(seen: Snapshot) -> object:
            self.keep(seen)
            return options.observe is not None and options.observe(seen)

        return replace(options, observe=observe, resume=self.resume(start))

    def resume(self, start: State) -> Snapshot | None:
        """Return where the fit stood, if one of these ranks was begun before."""
        try:
            kept = read(self.path, FORMAT)
        except FileNotFoundError:
            return None
        theirs, seen = kept["mark"], kept["snapshot"]
        other = [name for name in self.mark if theirs.get(name) != self.mark[name]]
        if other:
            raise ValueError(
                f"checkpoint={os.fspath(self.path)!r} was left by a fit of other "
                f"{' and '.join(other)}: delete it, or give another name"
            )
        # A mode at its full rank has no factor on the way.
        same = all(
            V is None or (U is not None and U.shape == V.shape)
            for U, V in zip(start.factors, seen.state.factors, strict=True)
        )
        return seen if same else None

    def keep(self, seen: Snapshot) -> None:
        """Write where the fit stands, unless that was done a moment ago."""
        if seen.finished or time.monotonic() - self.last < EVERY:
            return
        write({"mark": dict(self.mark), "snapshot": seen}, self.path, FORMAT)
        self.last = time.monotonic()

    def remove(self) -> None:
        """Delete the file of a fit that has ended."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)
