"""Records of the paper's studies, grouped: means, spreads, and the printed numbers beside them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.paper.catalogue import COMPANIONS, NAMES
from studies.paper.images import stands_in
from studies.paper.published import published
from studies.records import read_records

__all__ = [
    "Number",
    "column_of",
    "failures",
    "mean_of",
    "pick",
    "printed_number",
    "read_studies",
    "small",
]

Record = Mapping[str, Any]
Studies = Mapping[str, Sequence[Record]]

STUDIES = (*NAMES, *COMPANIONS.values())


@dataclass(frozen=True)
class Number:
    """A mean over seeds and their standard deviation, ``None`` for one seed."""

    mean: float
    spread: float | None


def read_studies(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the records of every study found; where real data were run, of these alone."""
    found = {}
    for name in STUDIES:
        records = [r for r in read_records(folder / f"{name}.jsonl") if r["experiment"] == name]
        real = [r for r in records if not stands_in(r["case"]["data"])]
        if records:
            found[name] = real or records
    return found


def small(records: Sequence[Record]) -> bool:
    """Tell whether the data only stand in for the paper's."""
    return any(stands_in(r["case"]["data"]) for r in records)


def failures(records: Sequence[Record]) -> list[Record]:
    """Return the records of trials that failed."""
    return [r for r in records if r["error"] is not None]


def column_of(record: Record) -> float:
    """Return the column of a table that a record belongs to."""
    case = record["case"]
    return float(case["train"] if "train" in case else case["npc"])


def pick(records: Sequence[Record], **wanted: Any) -> list[Record]:
    """Return the records that were measured and agree in case, method or parameters."""

    def agrees(record: Record) -> bool:
        known = {**record["parameters"], **record["case"], "method": record["method"]}
        return all(known.get(key) == value for key, value in wanted.items())

    return [r for r in records if r["result"] is not None and agrees(r)]


def mean_of(records: Sequence[Record], metric: str) -> Number | None:
    """Return the mean of a metric over records, or ``None`` where there are none."""
    values = [float(r["result"][metric]) for r in records if r["result"] is not None]
    if not values:
        return None
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Number(statistics.fmean(values), spread)


def printed_number(where: str, row: str, column: float, metric: str = "accuracy") -> Number | None:
    """Return what the paper prints, or ``None``."""
    for number in published():
        if (number.where, number.row, number.column, number.metric) == (where, row, column, metric):
            return Number(number.mean, number.spread)
    return None
