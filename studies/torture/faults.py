"""Faults in the middle of fits and writes: the estimator as before, files whole, threads gone."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._engine import checkpoint
from corrtensor._engine.threads import single_blas
from corrtensor.corr_tensor import CorrTensor
from corrtensor.storage import load, save
from studies.torture.reading import where_from
from studies.torture.seeds import samples

__all__ = ["FAULTS", "Broken", "inject", "left_as_it_was"]

# Many sweeps, many blocks, two threads.
LONG: Mapping[str, Any] = {"scale": "median", "tol": 0.0, "max_iter": 12}
SHAPE = (160, 8, 7)


class Broken(AssertionError):
    """A promise that did not hold."""


def require(holds: bool, promise: str) -> None:
    """Raise :class:`Broken` unless the promise holds."""
    if not holds:
        raise Broken(promise)


class Unsteady:
    """Samples that slice like an array on disk; one read of them raises an error."""

    def __init__(self, X: np.ndarray, fails_at: int, error: BaseException) -> None:
        self.X, self.shape, self.dtype = X, X.shape, X.dtype
        self.fails_at, self.error = fails_at, error
        self.lock, self.reads = threading.Lock(), 0

    def __getitem__(self, rows: Any) -> np.ndarray:
        with self.lock:
            self.reads += 1
            if self.reads == self.fails_at:
                raise self.error
        return np.asarray(self.X[rows])


@contextmanager
def left_as_it_was(model: Any) -> Iterator[None]:
    """Check, after an error in the block, that nothing of it is left but the error.

    Parameters
    ----------
    model : estimator
        Whose attributes must be the same afterwards.

    Raises
    ------
    Broken
        An attribute changed, a thread is still there, or BLAS is still held to one thread.
    """
    before = pickle.dumps(dict(sorted(vars(model).items())))
    threads, blas = set(threading.enumerate()), single_blas.threads()
    try:
        yield
    except Broken:
        raise
    except BaseException:
        # The traceback is still held here, as an interactive session holds it.
        after = pickle.dumps(dict(sorted(vars(model).items())))
        require(after == before, "the estimator changed")
        left = remaining(threads)
        require(not left, f"threads are left: {sorted(thread.name for thread in left)}")
        require(single_blas._users == 0, "BLAS is still held to one thread")
        require(single_blas.threads() == blas, "BLAS has another number of threads than before")
        raise


def remaining(before: set[threading.Thread]) -> set[threading.Thread]:
    """Return the threads that are new and do not end by themselves within a second.

    An interrupt can fall into the wait for threads that were told to end.
    """
    patience = time.monotonic() + 1.0
    while (left := set(threading.enumerate()) - before) and time.monotonic() < patience:
        time.sleep(0.01)
    return left


def fitted() -> Any:
    """Return a fitted model, whose next fit will meet a fault."""
    model = CorrTensor((3, 2), **LONG, n_jobs=2, block_size=16)
    return quiet_fit(model, samples((40, 8, 7), seed=9))


def quiet_fit(model: Any, X: Any) -> Any:
    """Fit without the warning that few sweeps call for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X)


@cache
def count_reads() -> int:
    """Return how often a fit reads."""
    steady = Unsteady(samples(SHAPE), 0, OSError())
    quiet_fit(fitted(), steady)
    return steady.reads


def fail_reading(error: BaseException, rng: np.random.Generator) -> None:
    """Let one read of a fit fail, in whatever pass it falls."""
    model = fitted()
    X = Unsteady(samples(SHAPE), int(rng.integers(1, count_reads() + 1)), error)
    kind = type(error)
    try:
        with left_as_it_was(model):
            quiet_fit(model, X)
    except kind:
        return
    raise Broken(f"{kind.__name__} did not come through")


def interrupt(rng: np.random.Generator) -> None:
    """Send a signal after a random time: it may fall between any two steps."""

    def ring(*_: Any) -> None:
        raise KeyboardInterrupt

    model, X = fitted(), Unsteady(samples(SHAPE), 0, OSError())
    began = time.perf_counter()
    quiet_fit(fitted(), X)
    duration = time.perf_counter() - began
    usual = signal.signal(signal.SIGALRM, ring)
    try:
        # The interrupt is what is tried; left_as_it_was tells what it left behind.
        with suppress(KeyboardInterrupt), left_as_it_was(model):
            signal.setitimer(signal.ITIMER_REAL, float(rng.uniform(1e-5, duration)))
            quiet_fit(model, X)
            # It was too fast to be interrupted.
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, usual)


@contextmanager
def file_size_limited(size: int) -> Iterator[None]:
    """Let the system refuse to write more than so many bytes to any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def no_room(rng: np.random.Generator) -> None:
    """Let the system refuse a write in the middle of a model file."""
    model = fitted()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ct"
        save(CorrTensor((1, 1)), path)
        before = path.read_bytes()
        save(model, Path(folder) / "whole.ct")
        size = (Path(folder) / "whole.ct").stat().st_size
        try:
            with file_size_limited(int(rng.integers(0, size))):
                save(model, path)
        except OSError:
            require(path.read_bytes() == before, "the old file is not whole")
        else:
            raise Broken("a write that failed was not reported")
        require(sorted(os.listdir(folder)) == ["model.ct", "whole.ct"], "a part is left behind")
        load(path)


def kill(rng: np.random.Generator) -> None:
    """Kill processes in the middle of a fit with a checkpoint until one of them ends."""
    X = samples((60, 8, 7))
    settings = {**LONG, "max_iter": 20, "n_jobs": 1}
    whole = quiet_fit(CorrTensor((3, 2), **settings), X)
    with tempfile.TemporaryDirectory() as folder:
        done, kept = Path(folder) / "done.npy", Path(folder) / "fit.ckpt"
        for wait in [*rng.uniform(0.0, 0.05, size=4), None]:
            child = os.fork()
            if child == 0:
                fit_to_the_end(CorrTensor((3, 2), **settings, checkpoint=kept), X, done)
            if wait is not None:
                time.sleep(wait)
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            if done.exists():
                break
        require(done.exists(), "the fit did not go on to its end")
        answer = np.load(done)
        require(np.array_equal(answer, whole.weights_), "it ended with another result")
        require(not kept.exists(), "the checkpoint is left behind")


def fit_to_the_end(model: Any, X: np.ndarray, done: Path) -> None:
    """Fit, keep the weights in a file that appears when it is whole, and leave the process."""
    try:
        checkpoint.EVERY = 0.0
        quiet_fit(model, X)
        beside = done.with_suffix(".part.npy")
        np.save(beside, model.weights_)
        os.replace(beside, done)
    finally:
        os._exit(0)


FAULTS: Mapping[str, Callable[[np.random.Generator], None]] = {
    "read error": lambda rng: fail_reading(OSError("the disk is gone"), rng),
    "interrupt in a read": lambda rng: fail_reading(KeyboardInterrupt(), rng),
    "end of a thread": lambda rng: fail_reading(SystemExit(), rng),
    "no memory": lambda rng: fail_reading(MemoryError("no memory left"), rng),
    "signal at any moment": interrupt,
    "no room for a file": no_room,
    "kill -9": kill,
}


def inject(kind: str, number: int) -> str | None:
    """Let one fault happen and look at what is left.

    Parameters
    ----------
    kind : str
        A name in ``FAULTS``.
    number : int
        What everything random is drawn from.

    Returns
    -------
    failure : str or None
        The promise that did not hold.
    """
    try:
        FAULTS[kind](np.random.default_rng(number))
    except Exception as error:
        return where_from(error)
    return None
