"""Run the cells, record every fit, and write the page.

Stop it at any moment: started again, it goes on where it was.

Example: python -m studies.cells --data DIR --quick
"""

from __future__ import annotations

import argparse
import sys

from corrtensor.datasets._places import data_root
from studies.cells import grid
from studies.cells.page import write_cells
from studies.command import record, recorder

NAME = "cells"
DRAWS = 3


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder(NAME, str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one data set")
    record(NAME, parser, arguments, choose, write_cells)


def choose(given: argparse.Namespace) -> tuple[grid.Cells, int]:
    """Return the experiment that is asked for, and its draws."""
    sets = grid.SETS[:1] if given.quick else grid.SETS
    return grid.Cells(data_root(given.data), sets), DRAWS


if __name__ == "__main__":
    main(sys.argv[1:])
