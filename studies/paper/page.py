"""The page that sets the paper's tables and figures beside ours, written from the records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from corrtensor.demo.figure import save_figure
from studies.pages import origins, table, write_text
from studies.paper import figures, figures_tasks
from studies.paper.sections import FIGURES
from studies.paper.subspaces import RIVALS
from studies.paper.tables import choice, nearest_reading, readings, side_by_side
from studies.paper.tallies import Record, Studies, failures, read_studies, small
from studies.paper.verdicts import verdicts
from studies.paper.words import (
    CHOICE,
    CONCLUSIONS,
    INTRODUCTION,
    OPEN,
    PROTOCOLS,
    STANDS_IN,
)

__all__ = ["reproduction_page", "write_reproduction"]

PAGE, PICTURES = "reproduction.md", "reproduction"
PAPER_TRIALS = {"table1": 20, "table2": 20, "table3": 100}
DRAWN = {
    f"fig{i}": getattr(figures if i < 7 else figures_tasks, f"draw_fig{i}") for i in range(1, 12)
}


def trials_of(records: Sequence[Record]) -> int:
    """Return the number of seeds."""
    return len({r["seed"] for r in records})


def data_of(records: Sequence[Record]) -> str:
    """Return the names of the data sets."""
    return ", ".join(sorted({r["case"]["data"] for r in records}))


def coverage(studies: Studies) -> list[str]:
    """Say what was run."""
    rows = [
        [
            name,
            data_of(records),
            str(trials_of(records)),
            str(PAPER_TRIALS.get(name, "-")),
            str(len(records)),
            str(len(failures(records))),
            f"{sum(r['seconds'] for r in records) / 60:.1f}",
        ]
        for name, records in studies.items()
    ]
    head = ["study", "data", "trials", "in the paper", "records", "failed", "minutes"]
    return [
        *table(head, rows),
        "",
        "Minutes are the sum over all fits, on a machine that did other work at the same time.",
    ]


def share(column: float) -> str:
    """Return the head of a column of Table II."""
    return f"{100 * column:.0f} %"


def table_section(studies: Studies, number: int) -> list[str]:
    """Return one of the three tables, and the readings tried."""
    name, tried = f"table{number}", f"readings{number}"
    records = studies.get(name, [])
    if not records:
        return []
    title = {1: "recognition of digits", 2: "recognition of faces", 3: "clusters of faces"}[number]
    lines = [f"## Table {'I' * number}: {title} ({data_of(records)})", "", *PROTOCOLS[number], ""]
    heads = {1: lambda n: f"{n:g} each", 2: share, 3: lambda n: f"NPC {n:g}"}
    lines += ["Measured ± spread over seeds (printed: difference).", ""]
    for metric in ("accuracy", "nmi") if number == 3 else ("accuracy",):
        if number == 3:
            lines += [{"accuracy": "Accuracy (AC):", "nmi": "NMI:"}[metric], ""]
        lines += [*side_by_side(name, records, metric, heads[number]), ""]
    found = studies.get(tried, [])
    if found:
        lines += [
            "Readings tried.",
            f"Nearest for the baselines: **{nearest_reading(name, found, RIVALS)}**;",
            f"for all methods: **{nearest_reading(name, found)}**.",
            "*Off* is the mean of the absolute differences from the printed numbers"
            + (", at 10 / 50 components." if number == 3 else "."),
            "",
            *readings(name, found),
            "",
        ]
    others = studies.get("choice3", [])
    if number == 3 and others and not small(others):
        lines += [*CHOICE, "", *choice(others), ""]
    return [*lines, *(STANDS_IN if small(records) else CONCLUSIONS[number]), ""]


def figure_section(studies: Studies, name: str) -> list[str]:
    """Return one figure with what it says."""
    if name not in studies:
        return []
    title, say = FIGURES[name]
    records = studies[name]
    data = data_of(records)
    number = name.removeprefix("fig")
    return [
        f"## Fig. {number}: {title}",
        "",
        f"![Fig. {number}: {title}]({PICTURES}/{name}.png)",
        "",
        *([] if data == "none" else [f"Data: {data}; {trials_of(records)} trial(s).", ""]),
        *say(records),
        "",
    ]


def reproduction_page(studies: Studies) -> str:
    """Write the page.

    Parameters
    ----------
    studies : mapping
        Records by study, as :func:`studies.paper.tallies.read_studies` returns them.

    Returns
    -------
    page : str
        Markdown. Every measured number in it comes from the records.
    """
    everything = [r for records in studies.values() for r in records]
    lines = [
        INTRODUCTION,
        "",
        "## In short",
        "",
        *table(["claim", "measured", "verdict"], [v.row() for v in verdicts(studies)]),
        "",
        OPEN,
        "",
        *(line for number in (1, 2, 3) for line in table_section(studies, number)),
        *(line for name in FIGURES for line in figure_section(studies, name)),
        "## Origin",
        "",
        *coverage(studies),
        "",
        f"Records: `records/*.jsonl`. {origins(everything)}",
    ]
    return "\n".join(lines) + "\n"


def write_reproduction(folder: str | os.PathLike[str]) -> Path:
    """Write page and figures from the records of a folder.

    Parameters
    ----------
    folder : path-like
        With ``records/fig1.jsonl`` and so on; ``reproduction.md`` and the folder
        ``reproduction`` go beside them. Figures without records are left out.

    Returns
    -------
    page : Path
        The page.
    """
    folder = Path(folder)
    studies = read_studies(folder / "records")
    if not studies:
        raise FileNotFoundError(
            f"{folder} holds no records of the paper's tables and figures; run `make paper` first"
        )
    (folder / PICTURES).mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        if name in studies:
            save_figure(draw(studies[name]), folder / PICTURES / f"{name}.png")
    return write_text(folder / PAGE, reproduction_page(studies))
