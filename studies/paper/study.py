"""A study: one table or figure of the paper as a value, and the cells that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from studies.records import Trial

__all__ = ["Cell", "Folder", "Study", "grid"]

Folder = str | Path | None
Task = Callable[[Trial, Folder], Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One number to be measured: on what, under which name, with which arguments."""

    case: Mapping[str, Any]
    method: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Study:
    """A table or a figure.

    Parameters
    ----------
    name : str
        As in ``python -m studies.paper``.
    task : callable
        From a trial and the folder of the data to its numbers.
    cells : tuple of Cell
        What is measured, once for every seed.
    repeats : int, default=1
        Seeds unless told otherwise.
    folder : str, Path or None, default=None
        Where the data sets are.
    shuffled : bool, default=True
        Whether cells are run in a mixed order, so that the time left can be told. Cells that
        share a fit are better left in theirs.
    """

    name: str
    task: Task
    cells: tuple[Cell, ...]
    repeats: int = 1
    folder: Folder = None
    shuffled: bool = True

    def trials(self, n: int) -> list[Trial]:
        """Return what is to be measured, with seeds 0 to n - 1."""
        order = np.arange(len(self.cells))
        if self.shuffled:
            order = np.random.default_rng(0).permutation(len(self.cells))
        chosen = [self.cells[i] for i in order]
        return [
            Trial(self.name, cell.case, cell.method, cell.parameters, seed)
            for seed in range(n)
            for cell in chosen
        ]

    def measure(self, trial: Trial) -> Mapping[str, Any]:
        """Return the numbers of one trial."""
        return self.task(trial, self.folder)


def grid(
    cases: Iterable[Mapping[str, Any]], methods: Mapping[str, Mapping[str, Any]]
) -> tuple[Cell, ...]:
    """Return every method on every case."""
    return tuple(
        Cell(case, name, parameters)
        for case, (name, parameters) in product(list(cases), methods.items())
    )
