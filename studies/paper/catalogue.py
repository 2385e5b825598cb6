"""Every study by its name."""

from __future__ import annotations

from studies.paper import clusters, recognition, reconstruction, surfaces
from studies.paper.images import STAND_INS, find
from studies.paper.study import Folder, Study

__all__ = ["COMPANIONS", "NAMES", "missing_data", "study"]

FIGURES = tuple(f"fig{i}" for i in range(1, 12))
TABLES = ("table1", "table2", "table3")
NAMES = (*FIGURES, *TABLES)
# What is run along: the readings of what the paper leaves open, and how ours was chosen.
COMPANIONS = {
    "table1": "readings1",
    "table2": "readings2",
    "table3": "readings3",
    "readings3": "choice3",
}
PLACES = {
    **dict.fromkeys(("fig1",), surfaces),
    **dict.fromkeys(("fig2", "fig3", "fig4", "fig5", "fig6"), reconstruction),
    **dict.fromkeys(("table1", "readings1", "fig7", "table2", "readings2", "fig8"), recognition),
    **dict.fromkeys(("table3", "readings3", "choice3", "fig9", "fig10", "fig11"), clusters),
}


def study(name: str, folder: Folder = None) -> Study:
    """Return a table or figure of the paper, on the data that can be had.

    Parameters
    ----------
    name : str
        ``fig1`` to ``fig11``, ``table1`` to ``table3``, or ``readings1`` to ``readings3``,
        ``choice3``.
    folder : str or Path, default=None
        Where the data sets are; by default as the loaders look for them.

    Returns
    -------
    study : Study
        To be given to :func:`studies.records.run`.

    Examples
    --------
    >>> from studies.paper import study
    >>> len(study("fig1").trials(1))
    3
    """
    if name not in PLACES:
        raise ValueError(f"name={name!r}: no such study; there are {', '.join(PLACES)}")
    return next(s for s in PLACES[name].studies(folder) if s.name == name)


def missing_data(folder: Folder = None) -> dict[str, str]:
    """Return the data sets that are not there, and what stands in for each.

    Parameters
    ----------
    folder : str or Path, default=None
        Where to look; by default as the loaders do.

    Returns
    -------
    missing : dict
        From names to names.
    """
    found = {name: find(name, folder) for name in STAND_INS}
    return {name: instead for name, instead in found.items() if instead != name}
