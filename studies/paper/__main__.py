"""Run the paper's tables and figures, record every fit, and write the page.

Stop it at any moment: started again, it goes on where it was. Where a data set is missing, a
small one that comes with other packages stands in. The paper has 20 trials in tables 1 and 2 and
100 in table 3.

Example: python -m studies.paper table1 fig2 --data DIR --trials 20
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.command import complain, follow, parse, plain_errors, recorder
from studies.paper import COMPANIONS, NAMES, Study, missing_data, study
from studies.paper.page import write_reproduction
from studies.records import Progress, run

ALL = "all"


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = recorder("paper", str(__doc__).splitlines()[0])
    parser.add_argument(
        "names",
        nargs="*",
        default=[ALL],
        metavar="NAME",
        help="what to run: fig1 to fig11, table1 to table3; by default all",
    )
    given = parse(parser, arguments)
    for name in given.names:
        if name not in (*NAMES, ALL):
            parser.error(f"{name}: no such experiment; there are {', '.join((*NAMES, ALL))}")
    with plain_errors():
        if not given.page:
            chosen = [name for name in NAMES if name in given.names or ALL in given.names]
            run_paper(chosen, given.data, given.trials, given.jobs, given.out)
        print(f"page: {write_reproduction(given.out)}")


def run_paper(
    names: Sequence[str], data: Path | None, trials: int | None, jobs: int, out: Path
) -> None:
    """Run tables and figures of the paper, with what is run along."""
    for name, instead in missing_data(data).items():
        complain(f"{name} not found: {instead} stands in for it")
    wanted: list[str] = []
    for name in names:
        one: str | None = name
        while one:
            wanted.append(one)
            one = COMPANIONS.get(one)
    folder = out / "records"
    studies = [study(name, data) for name in wanted]
    done, failed = follow(wanted[0], steps(studies, folder, trials, jobs))
    print(f"{done} records in {folder}, {failed} new failures")


def steps(
    studies: Sequence[Study], folder: Path, trials: int | None, jobs: int
) -> Iterator[tuple[str, Progress]]:
    """Yield the progress of all the studies together."""
    repeats = [trials or one.repeats for one in studies]
    total = sum(len(one.cells) * n for one, n in zip(studies, repeats, strict=True))
    before = 0
    for one, n in zip(studies, repeats, strict=True):
        for step in run(one, folder / f"{one.name}.jsonl", n, jobs):
            yield one.name, Progress(before + step.done, total, step.record)
        before += step.total


if __name__ == "__main__":
    main(sys.argv[1:])
