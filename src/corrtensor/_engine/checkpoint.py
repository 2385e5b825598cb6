"""Where a fit stands, kept in a file, so that a killed one can go on.

The file is written after a sweep, at most every few seconds, and is whole or not there at all. It
is of no use to other data or other settings, and says so. A fit that ends removes it.
"""

import hashlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np

from corrtensor._engine.state import Options, Snapshot, State
from corrtensor.io.model_file import ModelFileError, read, write

FORMAT = "corrtensor checkpoint"
# Seconds between two writes.
EVERY = 5.0
# Settings that do not change the result.
IMMATERIAL = ("callback", "checkpoint", "n_jobs", "output", "sample_dim", "verbose")


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
    """The file of one fit, which :func:`corrtensor._base.files.held` keeps for it."""

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
        if not is_checkpoint(kept):
            raise ModelFileError(f"{os.fspath(self.path)} holds no {FORMAT} that can be used")
        theirs, seen = kept["mark"], kept["snapshot"]
        other = [name for name in self.mark if theirs.get(name) != self.mark[name]]
        if other:
            raise ValueError(
                f"checkpoint={os.fspath(self.path)!r} was left by a fit of other "
                f"{' and '.join(other)}: delete it, or give another name"
            )
        return seen if goes_on(start, seen.state) else None

    def keep(self, seen: Snapshot) -> None:
        """Write where the fit stands, unless that was done a moment ago."""
        if seen.finished or time.monotonic() - self.last < EVERY:
            return
        write({"mark": dict(self.mark), "snapshot": seen}, self.path, FORMAT)
        self.last = time.monotonic()


def is_checkpoint(kept: Any) -> bool:
    """Tell whether what a file held is a mark and a snapshot from which a fit could go on."""
    if not isinstance(kept, dict) or not {"mark", "snapshot"} <= kept.keys():
        return False
    mark, seen = kept["mark"], kept["snapshot"]
    if not (isinstance(mark, dict) and isinstance(seen, Snapshot) and is_dataclass(seen.loss)):
        return False
    return (
        is_state(seen.state)
        and isinstance(seen.objective, tuple)
        and len(seen.objective) > 0
        and all(isinstance(value, float) and is_finite(value) for value in seen.objective)
        and all(is_constant(getattr(seen.loss, f.name), f.default) for f in fields(seen.loss))
        and some_sample_counts(seen)
    )


def some_sample_counts(seen: Snapshot) -> bool:
    """Tell whether the loss leaves any sample a weight."""
    s = seen.residuals
    if not isinstance(s, np.ndarray) or s.dtype != np.float64 or s.ndim != 1 or not s.size:
        return False
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.max(seen.loss.log_weight(s))))


def is_constant(value: Any, default: Any) -> bool:
    """Tell whether a field of a loss can be this: a number, or a word where words are."""
    if isinstance(default, str) and (value is None or isinstance(value, str)):
        return True
    return is_finite(value)


def goes_on(start: State, state: State) -> bool:
    """Tell whether a fit from this start could have come to this state: ranks may have changed."""

    def thin(U: np.ndarray | None) -> np.ndarray | None:
        # A mode at its full rank has no factor on the way.
        return None if U is None or U.shape[0] == U.shape[1] else U

    shapes = [
        [None if U is None else U.shape for U in map(thin, factors)]
        for factors in (start.factors, state.factors)
    ]
    if start.mean.shape != state.mean.shape or shapes[0] != shapes[1]:
        return False
    # A weighted mean lies among the samples.
    with np.errstate(over="ignore"):
        return bool(np.vdot(state.mean, state.mean) <= 1.01 * start.norms.max())


def is_finite(value: Any) -> bool:
    """Tell whether this is a number that a double can hold."""
    return isinstance(value, float | int) and abs(value) <= sys.float_info.max


def is_state(state: Any) -> bool:
    """Tell whether this is where a sweep can start: all of it finite, in double precision."""
    if not isinstance(state, State) or not isinstance(state.factors, tuple):
        return False
    if not isinstance(state.spares, Mapping):
        return False
    matrices = [*(U for U in state.factors if U is not None), *state.spares.values()]
    arrays = [state.mean, *matrices]
    return all(
        isinstance(array, np.ndarray) and array.dtype == np.float64 and np.isfinite(array).all()
        for array in arrays
    ) and all(
        U.ndim == 2 and np.allclose(U.T @ U, np.eye(U.shape[1]), rtol=0, atol=1e-6)
        for U in matrices
    )
