"""The paper's three tables, ours beside the printed numbers, and the readings that were tried."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

from studies.pages import table
from studies.paper.published import published
from studies.paper.subspaces import RIVALS
from studies.paper.tallies import Number, Record, column_of, mean_of, pick, printed_number

__all__ = [
    "best_printed",
    "choice",
    "nearest_reading",
    "readings",
    "side_by_side",
]

OURS = ("ours", "ours, colour")
ALSO_OURS = ("ours, K-means",)


def measured(number: Number | None) -> str:
    """Return a mean and its spread."""
    if number is None:
        return "-"
    spread = "" if number.spread is None else f" ± {number.spread:.3f}"
    return f"{number.mean:.3f}{spread}"


def cell(number: Number | None, paper: Number | None) -> str:
    """Return what was measured, what is printed, and the difference."""
    if paper is None or number is None:
        return measured(number)
    difference = number.mean - paper.mean
    return f"{measured(number)} ({paper.mean:.3f}: {difference:+.3f})"


def rows_of(where: str) -> list[str]:
    """Return the rows of a printed table in their order."""
    return list(dict.fromkeys(n.row for n in published() if n.where == where))


def side_by_side(
    where: str, records: Sequence[Record], metric: str, head: Callable[[float], str]
) -> list[str]:
    """Return a table: measured ± spread (printed: difference), then our own rows."""
    columns = sorted({column_of(r) for r in records})
    lines = []
    for row in rows_of(where):
        found = pick(records, method=row)
        cells = [
            cell(at(found, column, metric), printed_number(where, row, column, metric))
            for column in columns
        ]
        lines.append([name_of(row), *cells])
    for row in (*OURS, *ALSO_OURS):
        found = pick(records, method=row)
        if found:
            numbers = [at(found, column, metric) for column in columns]
            lines.append([f"**{row}**", *(f"**{measured(n)}**" for n in numbers)])
    best = [best_printed(where, column, metric) for column in columns]
    lines.append(["best printed", *("-" if b is None else f"{b:.3f}" for b in best)])
    return table(["method", *(head(column) for column in columns)], lines)


def choice(records: Sequence[Record]) -> list[str]:
    """Return the accuracy of our rows on data outside the table, mean over the columns."""
    data = sorted({r["case"]["data"] for r in records})
    lines = []
    for row in ("ours", *ALSO_OURS):
        cells = [
            mean_of(pick([r for r in records if r["case"]["data"] == d], method=row), "accuracy")
            for d in data
        ]
        mean = mean_of(pick(records, method=row), "accuracy")
        lines.append([row, *(f"{n.mean:.3f}" if n else "-" for n in (*cells, mean))])
    return table(["method", *data, "all"], lines)


def at(records: Sequence[Record], column: float, metric: str) -> Number | None:
    """Return the mean in one column."""
    return mean_of([r for r in records if column_of(r) == column], metric)


def name_of(row: str) -> str:
    """Return the row's name as the reader knows it."""
    return row if row in RIVALS else f"as printed, {row}"


def best_printed(where: str, column: float, metric: str = "accuracy") -> float | None:
    """Return the best number of a printed column."""
    found = [
        n.mean for n in published() if (n.where, n.column, n.metric) == (where, column, metric)
    ]
    return max(found, default=None)


def reading_of(record: Record) -> tuple[str, ...]:
    """Return how a record reads what the paper leaves open."""
    p = record["parameters"]
    if "means" in p:
        share = p["means"]["cutoff"]
        cutoff = "1/K of the pairs" if share == "auto" else f"{100 * share:g} % of the pairs"
        return p["units"], f"{p['clustered']} clustered", f"cut-off {cutoff}"
    kernel = p["centres"]["kernel"]
    if kernel == "frobenius":
        eq30 = "norm"
    else:
        # A rival's alpha is 2; under the root it counts half.
        alpha = p["subspace"].get("alpha", 2.0)
        eq30 = "entries" if p["centres"]["alpha"] == alpha else "entries, root"
    noise = () if record["experiment"] == "readings1" else (f"noise in {noise_class(p)}",)
    return (p["units"], f"eq. 30: {eq30}", *noise)


def noise_class(parameters: dict[str, Any]) -> str:
    """Return to which class the noise images are said to belong."""
    names = {"random": "random classes", "largest class": "the largest class", "none": "no class"}
    return names[parameters["labels"]]


def distances(
    where: str, records: Sequence[Record], rows: Sequence[str] | None = None
) -> dict[tuple[str, ...], float]:
    """Return for each reading its mean absolute difference from the printed numbers."""
    found: dict[tuple[str, ...], list[float]] = {}
    for r in records:
        paper = printed_number(where, r["method"], column_of(r))
        if r["result"] is None or paper is None or (rows is not None and r["method"] not in rows):
            continue
        off = abs(float(r["result"]["accuracy"]) - paper.mean)
        found.setdefault(reading_of(r), []).append(off)
    return {reading: statistics.fmean(off) for reading, off in found.items()}


def nearest_reading(
    where: str, records: Sequence[Record], rows: Sequence[str] | None = None
) -> str:
    """Return the reading with the smallest mean difference, in words."""
    found = distances(where, records, rows)
    nearest = min(found.items(), key=lambda item: item[1], default=(("none",), 0.0))
    return "; ".join(nearest[0])


def readings(where: str, records: Sequence[Record]) -> list[str]:
    """Return a table of all the readings, the nearest first."""
    methods = list(dict.fromkeys(r["method"] for r in records))
    columns = sorted({column_of(r) for r in records})
    found, rivals = distances(where, records), distances(where, records, RIVALS)
    lines = []
    for reading in sorted(found, key=lambda one: found[one]):
        chosen = [r for r in records if reading_of(r) == reading]
        cells = [
            " / ".join(
                measured(at(pick(chosen, method=method), column, "accuracy")) for column in columns
            )
            for method in methods
        ]
        off = f"{rivals[reading]:.3f}" if reading in rivals else "-"
        lines.append(["; ".join(reading), *cells, off, f"{found[reading]:.3f}"])
    paper = [
        " / ".join(
            "-" if (n := printed_number(where, method, column)) is None else f"{n.mean:.3f}"
            for column in columns
        )
        for method in methods
    ]
    if found:
        lines.append(["**printed**", *paper, "", ""])
    return table(["reading", *methods, "off, baselines", "off, all"], lines)
