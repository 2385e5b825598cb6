"""Mutated files, faults in the middle of fits, many fits: the run of ``docs/reliability.md``."""

import argparse
import logging
import sys

from studies.torture.run import torture

if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m studies.torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=25.0, help="how long to run")
    parser.add_argument("--out", default="torture.json", help="file for the figures")
    parser.add_argument("--seed", type=int, default=0, help="other files and faults")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("corrtensor").setLevel(logging.INFO)
    figures = torture(given.minutes, given.out, given.seed)
    sys.exit(1 if figures["failures"] else 0)
