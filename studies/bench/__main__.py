"""Measure speed and memory beside peers and the machine's own limits.

Prints one table, and saves its rows (JSONL), a plot of time against size, and the page. Exit code
1 means that a bar was missed.

Example: python -m studies.bench --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from sklearn.exceptions import ConvergenceWarning

from corrtensor.demo.figure import save_figure
from studies.bench import cases
from studies.bench.figure import draw_bench
from studies.bench.page import speed_page
from studies.command import plain_errors
from studies.pages import write_text

WIDE = 150


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        "python -m studies.bench", description=str(__doc__).splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="smaller cases: two minutes")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bench-out"),
        help="folder for the record, the plot and the page; by default %(default)s",
    )
    given = parser.parse_args(arguments)
    with plain_errors(), warnings.catch_warnings():
        # Sweeps are counted here, not run to the end.
        warnings.simplefilter("ignore", ConvergenceWarning)
        given.out.mkdir(parents=True, exist_ok=True)
        return 0 if run(given.out, given.quick) else 1


def run(out: Path, quick: bool) -> bool:
    """Measure, save rows, plot and page, print the table; tell whether every bar was met."""
    # In a file or a pipe no row need be folded.
    console = Console() if sys.stdout.isatty() else Console(width=WIDE)
    origin, rows = cases.bench_origin(), []
    with (
        open(out / "bench.jsonl", "w", encoding="utf-8") as records,
        Console(stderr=True).status("measuring") as status,
    ):
        records.write(json.dumps({"origin": origin, "quick": quick}) + "\n")
        for row in cases.run_bench(quick):
            rows.append(row)
            records.write(json.dumps(row.as_dict()) + "\n")
            records.flush()
            status.update(row.case)
        status.update("time against size")
        points = cases.run_series(quick)
        for point in points:
            records.write(json.dumps(vars(point)) + "\n")
    save_figure(draw_bench(points, origin), out / "bench.png")
    write_text(out / "speed.md", speed_page(origin, [row.as_dict() for row in rows]))
    console.print(bench_table(rows))
    console.print(f"Records, plot and page: {out}", highlight=False)
    return all(row.ok is not False for row in rows)


def bench_table(rows: Sequence[Any]) -> Table:
    """Return the benchmark's rows as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("case", "ours", "peer"):
        table.add_column(name, overflow="fold")
    for name in ("ratio", "bar", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        verdict = {None: "", True: "ok", False: "short"}[row.ok]
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        if row.ratio is None and row.note:
            verdict = row.note[:40]
        style = "red" if row.ok is False else None
        table.add_row(row.case, row.ours, row.peer, ratio, row.bar, verdict, style=style)
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
