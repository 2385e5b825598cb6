"""Damage folders of real pictures in eight ways, and see who finds it.

Stop it at any moment: started again, it goes on where it was.

Example: python -m studies.outliers --data DIR
"""

from __future__ import annotations

import argparse
import sys

from studies.command import complain, record, recorder
from studies.outliers.benchmark import NAME, Benchmark, find_folders
from studies.outliers.page import write_outliers

SEEDS = 4


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder(NAME, str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="FOLDER", help="some folders, by name")
    record(NAME, parser, arguments, choose, write_outliers)


def choose(given: argparse.Namespace) -> tuple[Benchmark, int]:
    """Return the folders that are asked for, and their seeds."""
    folders, missing = find_folders(given.data)
    if missing:
        complain(f"not found and left out: {', '.join(missing)}")
    folders = tuple(f for f in folders if not given.only or f.name in given.only)
    return Benchmark(folders, given.data), SEEDS


if __name__ == "__main__":
    main(sys.argv[1:])
