"""Damage folders of real pictures in eight ways, and see who finds it.

Stop it at any moment: started again, it goes on where it was.

Example: python -m studies.outliers --data DIR
"""

from __future__ import annotations

import sys

from studies.command import complain, follow, parse, plain_errors, recorder
from studies.outliers.benchmark import NAME, Benchmark, find_folders
from studies.outliers.page import write_outliers
from studies.records import run

SEEDS = 4


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder(NAME, str(__doc__).splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="FOLDER", help="some folders, by name")
    given = parse(parser, arguments)
    records = given.out / "records" / f"{NAME}.jsonl"
    if given.page and not records.is_file():
        parser.error(f"{records}: no records yet; run it without --page")
    with plain_errors():
        if not given.page:
            folders, missing = find_folders(given.data)
            if missing:
                complain(f"not found and left out: {', '.join(missing)}")
            folders = tuple(f for f in folders if not given.only or f.name in given.only)
            benchmark = Benchmark(folders, given.data)
            steps = run(benchmark, records, given.trials or SEEDS, given.jobs)
            done, failed = follow(NAME, ((NAME, step) for step in steps))
            print(f"{done} records in {records}, {failed} new failures")
        print(f"page: {write_outliers(records, given.out)}")


if __name__ == "__main__":
    main(sys.argv[1:])
