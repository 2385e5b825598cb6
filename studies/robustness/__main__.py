"""Run the robustness grid, record every fit, and write the page.

Stop it at any moment: started again, it goes on where it was.

Example: python -m studies.robustness --data DIR --quick
"""

from __future__ import annotations

import argparse
import sys

from studies.command import complain, record, recorder
from studies.robustness import grid
from studies.robustness.page import write_robustness

NAME = "robustness"
DRAWS = 5


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder(NAME, str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one draw of a few small data sets")
    record(NAME, parser, arguments, choose, write_robustness)


def choose(given: argparse.Namespace) -> tuple[grid.Robustness, int]:
    """Return the experiment that is asked for, and its draws."""
    sets, missing = grid.find_data(given.data)
    if missing:
        complain(f"not found and left out: {', '.join(missing)}")
    experiment = grid.Robustness(sets, given.data)
    return (grid.quick(experiment), 1) if given.quick else (experiment, DRAWS)


if __name__ == "__main__":
    main(sys.argv[1:])
