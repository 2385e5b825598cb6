"""The numbers that the paper prints, by table, row and column."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

__all__ = ["Printed", "published"]


@dataclass(frozen=True)
class Printed:
    """A number of the paper.

    Parameters
    ----------
    where : str
        ``table1`` to ``table3``, or the figure that the text speaks of.
    row : str
        The method, named as in the records.
    column : float
        Training images, share of them, or number of components.
    metric : str
        ``accuracy`` or ``nmi``.
    mean : float
        The number.
    spread : float or None
        What stands after the plus or minus.
    """

    where: str
    row: str
    column: float
    metric: str
    mean: float
    spread: float | None


@lru_cache(maxsize=1)
def published() -> tuple[Printed, ...]:
    """Return all the printed numbers.

    Returns
    -------
    numbers : tuple of Printed
        From the file ``published.csv`` beside this module.

    Examples
    --------
    >>> from studies.paper.published import published
    >>> best = max(n.mean for n in published() if n.where == "table1")
    >>> best
    0.7783
    """
    text = (files("studies.paper") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Printed(
            line["where"],
            line["row"],
            float(line["column"]),
            line["metric"],
            float(line["mean"]),
            float(line["spread"]) if line["spread"] else None,
        )
        for line in csv.DictReader(text.splitlines())
    )
