"""Records: one JSON object per line, so that a run may be killed at any moment and resumed.

A record is known by its key: experiment, case, method, parameters and seed. The file is only
ever appended to, and every record is on disk before the next is begun. A line that a kill tore
is dropped; a trial whose key is there is not run again; a trial that fails leaves a record with
the error.
"""

from __future__ import annotations

import json
import os
import platform
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

__all__ = ["Experiment", "Progress", "Trial", "key_of", "read_records", "run"]

KEY = ("experiment", "case", "method", "parameters", "seed")
PACKAGES = ("corrtensor", "numpy", "scipy", "scikit-learn")
# The folders of an absolute path; its last part stays.
FOLDERS = re.compile(r"(?<![\w.])(?:[A-Za-z]:)?[/\\](?:[^\s'\":;,/\\]+[/\\])*")


@dataclass(frozen=True)
class Trial:
    """One fit to be measured; all of it is its key.

    Parameters
    ----------
    experiment : str
        Name of the experiment.
    case : mapping
        What it is run on: strings and numbers.
    method : str
        The name the reader sees.
    parameters : mapping
        Arguments of the method: what JSON can hold.
    seed : int
        What everything random in it is drawn from.
    """

    experiment: str
    case: Mapping[str, Any]
    method: str
    parameters: Mapping[str, Any]
    seed: int


class Experiment(Protocol):
    """What :func:`run` asks of an experiment: a value that can be pickled."""

    @property
    def name(self) -> str:
        """The name in the records."""
        ...

    def trials(self, n: int) -> list[Trial]:
        """Return what is to be measured, with seeds 0 to n - 1."""
        ...

    def measure(self, trial: Trial) -> Mapping[str, Any]:
        """Return the numbers of one trial."""
        ...


@dataclass(frozen=True)
class Progress:
    """How many of the trials are recorded, and the newest record (``None`` at the beginning)."""

    done: int
    total: int
    record: Mapping[str, Any] | None = None


def key_of(record: Trial | Mapping[str, Any]) -> str:
    """Return what two records of the same trial share."""
    fields = asdict(record) if isinstance(record, Trial) else record
    return json.dumps([fields[name] for name in KEY], sort_keys=True)


def read_records(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the records of a file; none if there is no file.

    Parameters
    ----------
    path : path-like
        The file, one JSON object per line. What follows the last end of line was torn by a
        kill and is left out.

    Returns
    -------
    records : list of dict
        In the order of the file; of several with one key, the first.
    """
    path = Path(path)
    content = path.read_bytes() if path.exists() else b""
    records: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            record = json.loads(line)
            records.setdefault(key_of(record), record)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}, line {number} is no record ({error!r}); mend or remove the line"
            ) from error
    return list(records.values())


class Log:
    """A file of records, open for appending."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file = path.open("a+b")
        self.file.seek(0)
        self.file.truncate(self.file.read().rfind(b"\n") + 1)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record; it is on disk when this returns."""
        self.file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def origin() -> dict[str, Any]:
    """Return where a number comes from: versions and the kind of machine, no names or paths."""
    return {
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "machine": {
            "cpus": os.cpu_count(),
            "platform": f"{platform.system()} {platform.machine()}",
        },
    }


def attempt(experiment: Experiment, trial: Trial) -> dict[str, Any]:
    """Run one trial; return its record, also when it fails."""
    result, failure = None, None
    began = time.perf_counter()
    try:
        result = dict(experiment.measure(trial))
        json.dumps(result, allow_nan=False)
    except Exception as error:
        result, failure = None, f"{type(error).__name__}: {FOLDERS.sub('', str(error))}"
    seconds = round(time.perf_counter() - began, 4)
    return {**asdict(trial), "result": result, "error": failure, "seconds": seconds, **origin()}


def prepare(threads: int) -> None:
    """Set up a worker: its share of the cores, and an end when its parent is killed."""
    threadpool_limits(threads)
    parent = parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def attempts(
    experiment: Experiment, trials: Iterable[Trial], jobs: int
) -> Iterator[dict[str, Any]]:
    """Yield the record of every trial as it is done."""
    if jobs == 1:
        for trial in trials:
            yield attempt(experiment, trial)
        return
    threads = max(1, (os.cpu_count() or 1) // jobs)
    # Threads of BLAS do not survive a fork.
    context = get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=prepare, initargs=(threads,))
    try:
        for future in as_completed([pool.submit(attempt, experiment, trial) for trial in trials]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def run(
    experiment: Experiment, path: str | os.PathLike[str], trials: int = 1, jobs: int = 1
) -> Iterator[Progress]:
    """Run what is not recorded yet.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    path : path-like
        The file of records; made if missing.
    trials : int, default=1
        How many seeds.
    jobs : int, default=1
        Trials at a time, each in a process with its share of the cores; 1 for this process.

    Yields
    ------
    progress : Progress
        First how much was there already, then one for every new record.
    """
    if trials < 1 or jobs < 1:
        raise ValueError(f"trials={trials}, jobs={jobs}: both must be at least 1")
    wanted = experiment.trials(trials)
    known = {key_of(record) for record in read_records(path)}
    left = [trial for trial in wanted if key_of(trial) not in known]
    done = len(wanted) - len(left)
    with Log(Path(path)) as log:
        yield Progress(done, len(wanted))
        for record in attempts(experiment, left, jobs):
            log.append(record)
            done += 1
            yield Progress(done, len(wanted), record)
