"""Threads: as many as the user allows, each with one BLAS thread, started once for a fit."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

from corrtensor._base.checks import is_whole


class _SingleBlas:
    """One BLAS thread while any fit is running; nested and parallel fits share the limit."""

    def __init__(self) -> None:
        # A generator that holds the limit may be collected while this thread holds the lock.
        self._lock = threading.RLock()
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
            counts = [
                lib["num_threads"] for lib in self._controller.info() if lib["user_api"] == "blas"
            ]
        return min(counts, default=os.cpu_count() or 1)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        outside, entered = self.threads(), False
        # An interrupt can come between any two lines: what was begun is ended all the same.
        try:
            with self._lock:
                self._users += 1
                entered = True
                if self._limit is None:
                    self._outside = outside
                    self._limit = self._set_threads(1)
            yield
        finally:
            if entered:
                with self._lock:
                    self._users -= 1
                    if self._users == 0:
                        self._release()

    def _release(self) -> None:
        limit, self._limit = self._limit, None
        try:
            if limit is not None:
                limit.restore_original_limits()
                return
        except BaseException:
            self._set_threads(self._outside)
            raise
        self._set_threads(self._outside)

    def _set_threads(self, count: int) -> Any:
        assert self._controller is not None  # noqa: S101
        return self._controller.limit(limits=count, user_api="blas")


class _Team(threading.local):
    """The threads that a fit has started, as the thread that runs the fit sees them."""

    pool: ThreadPoolExecutor | None = None
    size = 0
    inside = False


single_blas = _SingleBlas()
_team = _Team()


def _forget() -> None:
    """Begin anew in a forked process, where no other thread lives on."""
    single_blas.__init__()  # type: ignore[misc]
    _team.pool, _team.inside = None, False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads: those BLAS may use, unless ``n_jobs`` says otherwise."""
    if n_jobs is None:
        return single_blas.threads()
    if not is_whole(n_jobs):
        raise TypeError(f"n_jobs={n_jobs!r} must be a whole number, or None")
    return int(effective_n_jobs(n_jobs))


def in_team() -> bool:
    """Tell whether this thread is one of a team: it does alone what it was given."""
    return _team.inside


def _join_team() -> None:
    _team.inside = True


@contextmanager
def team(size: int) -> Iterator[None]:
    """Share one pool among all passes that this thread runs inside; threads start when needed."""
    outer = _team.pool, _team.size
    with ThreadPoolExecutor(size, initializer=_join_team) as pool:
        try:
            _team.pool, _team.size = pool, size
            yield
        finally:
            _team.pool, _team.size = outer


@contextmanager
def threads(size: int) -> Iterator[ThreadPoolExecutor]:
    """Yield the pool of the fit that is running, or one that ends with the block."""
    if _team.pool is not None and _team.size == size:
        yield _team.pool
        return
    with ThreadPoolExecutor(size, initializer=_join_team) as pool:
        yield pool


def at_once(task: Callable[[Any], Any], items: Iterable[Any], size: int) -> list[Any]:
    """Run a task on some items, on as many threads; return the results in order."""
    if size == 1 or in_team():
        return list(map(task, items))
    with threads(size) as pool:
        return list(pool.map(task, items))
