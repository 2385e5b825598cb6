"""Run the cells, record every fit, and write the page.

Stop it at any moment: started again, it goes on where it was.

Example: python -m studies.cells --data DIR --quick
"""

from __future__ import annotations

import sys
from pathlib import Path

from corrtensor.datasets._places import data_root
from studies.cells import grid
from studies.cells.page import write_cells
from studies.command import follow, parse, plain_errors, recorder
from studies.records import run

NAME = "cells"
DRAWS = 1


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder(NAME, str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one data set")
    given = parse(parser, arguments)
    records = given.out / "records" / f"{NAME}.jsonl"
    if given.page and not records.is_file():
        parser.error(f"{records}: no records yet; run it without --page")
    with plain_errors():
        if not given.page:
            trials = given.trials or (1 if given.quick else DRAWS)
            run_grid(given.data, trials, given.jobs, records, given.quick)
        print(f"page: {write_cells(records, given.out)}")


def run_grid(data: Path | None, trials: int, jobs: int, records: Path, quick: bool) -> None:
    """Run what is not recorded yet."""
    experiment = grid.Cells(data_root(data), grid.SETS[:1] if quick else grid.SETS)
    done, failed = follow(NAME, ((NAME, step) for step in run(experiment, records, trials, jobs)))
    print(f"{done} records in {records}, {failed} new failures")


if __name__ == "__main__":
    main(sys.argv[1:])
