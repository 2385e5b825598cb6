"""The page of the benchmark's rows, written from its record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from studies.pages import table

__all__ = ["read_bench", "speed_page"]

HEAD = """# Speed and memory

Written by `make bench` from its record; do not edit. What is compared was run in turns, and
medians were taken; ratios within one run tell more than seconds. A ratio is how many times as long
the peer takes, or, where the bar begins with <=, how many times as long we take. *Share of GEMM*
is a sweep's operations per second beside those of a large matrix product; *sweep* is least squares
(GLRAM) or the robust one (Corr-Tensor)."""


def read_bench(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what a benchmark's numbers depend on, and its rows.

    Parameters
    ----------
    path : Path
        The record that ``make bench`` writes.

    Returns
    -------
    origin : dict
        Versions and machine.
    rows : list of dict
        One for each comparison.
    """
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return lines[0]["origin"], [line for line in lines if "case" in line]


def verdict(row: Mapping[str, Any]) -> str:
    """Return whether a bar was met, or why nothing was measured."""
    if row["ok"] is None:
        return f"failed: {row['note']}" if row["bar"] else ""
    return "ok" if row["ok"] else "**short**"


def speed_page(
    origin: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], picture: str = "bench.png"
) -> str:
    """Return the page: every row, what it was measured with, and the plot.

    Parameters
    ----------
    origin : mapping
        Versions and machine.
    rows : sequence of mapping
        One for each comparison.
    picture : str, default="bench.png"
        Where the plot of time against size is, seen from the page.

    Returns
    -------
    page : str
        Markdown.
    """
    lines = [
        [
            row["case"],
            row["ours"],
            row["peer"],
            "" if row["ratio"] is None else f"{row['ratio']:.2f}",
            row["bar"],
            verdict(row),
        ]
        for row in rows
    ]
    versions = ", ".join(f"{name} {version}" for name, version in origin["versions"].items())
    parts = [
        HEAD,
        "\n".join(table(["case", "ours", "peer", "ratio", "bar", ""], lines)),
        f"![Seconds of three sweeps against samples, image size and rank]({picture})",
        f"Made with {versions}, Python {origin['python']}, {origin['cores']} cores.",
    ]
    return "\n\n".join(parts) + "\n"
