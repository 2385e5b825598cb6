"""Mutated files against their readers: only documented errors, in bounded time and memory."""

from __future__ import annotations

import logging
import shutil
import signal
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from corrtensor._engine.arrays.source import Source
from corrtensor.corr_tensor import CorrTensor
from corrtensor.io import open_labels, open_samples
from corrtensor.storage import load
from studies.torture.seeds import SEEDS, SETTINGS, Files, samples, spoil

__all__ = ["READERS", "Tally", "try_files"]

# Seconds that one file may take.
PATIENCE = 10.0
# So many samples of a file are read after it was opened.
READ = 64


class TooSlow(BaseException):
    """A reader took longer than it may; no reader can mistake it for an error of the file."""


def read_samples(path: Path) -> None:
    """Open samples and read the first, as a fit does."""
    stack = open_samples(path)
    source = Source(stack, n_jobs=1)
    for _ in source.blocks(0, min(source.n_samples, READ)):
        pass


def read_checkpoint(path: Path) -> None:
    """Let a fit go on from a file: it fails, or ends with finite numbers."""
    model = CorrTensor((2, 2), **SETTINGS, checkpoint=path, n_jobs=1).fit(samples())
    parts = (model.mean_, model.residuals_, model.objective_, model.weights_, *model.factors_)
    if not all(np.isfinite(part).all() for part in parts):
        raise AssertionError("a fit that went on from a checkpoint is not finite")


READERS: Mapping[str, Callable[[Path], Any]] = {
    **dict.fromkeys(SEEDS, read_samples),
    "model file": load,
    "checkpoint": read_checkpoint,
    "labels": lambda path: open_labels(path, 12),
}
# What a caller must expect; ModelFileError and InputError are of the first.
DOCUMENTED = (ValueError, OSError)


@dataclass
class Tally:
    """What became of mutated files."""

    tried: int = 0
    read: int = 0
    refused: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the figures of another tally."""
        self.tried += other["tried"]
        self.read += other["read"]
        self.refused += other["refused"]
        self.failures += other["failures"]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return asdict(self)


@contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Raise :class:`TooSlow` inside the block when its time is up."""

    def ring(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def lay_out(folder: Path, files: Files) -> Path:
    """Write files into an empty folder; return the file or folder that a reader is given."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder / next(iter(files)).partition("/")[0]


def where_from(error: BaseException) -> str:
    """Return the kind of an error and the line that raised it, without folders."""
    frames = traceback.extract_tb(error.__traceback__)
    at = "; ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-6:])
    return f"{type(error).__name__}: {str(error)[:200]} ({at})"


def make_seeds(reader: str) -> list[Files]:
    """Return the files that a reader's mutations begin with."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(SEEDS[reader](Path(folder)))


def try_files(
    reader: str,
    first: int,
    count: int,
    seed: int = 0,
    beat: Callable[[int, Tally], None] | None = None,
) -> Tally:
    """Give a reader mutated files.

    Parameters
    ----------
    reader : str
        A name in ``READERS``.
    first, count : int
        Numbers of the files: the same number and seed give the same file.
    seed : int, default=0
        Another series of files.
    beat : callable, default=None
        Called before every file with its number and the tally of those before it.

    Returns
    -------
    tally : Tally
        A failure is any error but those that are documented, and any file that took too long.
    """
    logging.disable(logging.CRITICAL)
    quiet_video()
    seeds, tally = make_seeds(reader), Tally()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(first, first + count):
            if beat is not None:
                beat(number, tally)
            random = Random(f"{reader} {seed} {number}")  # noqa: S311 (nothing is secret here)
            path = lay_out(Path(place), spoil(reader, seeds, random))
            tally.tried += 1
            try:
                with no_longer_than(PATIENCE):
                    READERS[reader](path)
                tally.read += 1
            except DOCUMENTED:
                tally.refused += 1
            except (Exception, TooSlow) as error:
                tally.failures.append({"number": number, "seed": seed, "error": where_from(error)})
    logging.disable(logging.NOTSET)
    return tally


def quiet_video() -> None:
    """Let the decoder of videos keep its complaints to itself."""
    with suppress(ImportError):
        import av.logging

        av.logging.set_level(av.logging.PANIC)
