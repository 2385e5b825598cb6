"""What the commands of the studies share: options, a bar that tells the time left, exit codes.

Exit codes: 0 done, 1 the data or records cannot be used, 2 the call is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from studies.records import Experiment, Progress, run

__all__ = ["complain", "follow", "parse", "plain_errors", "record", "recorder"]


def at_least_one(text: str) -> int:
    """Return a whole number above zero."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number above 0")
    return int(text)


def recorder(study: str, description: str) -> argparse.ArgumentParser:
    """Return the parser of a study that records fit by fit, with the options all of them have."""
    parser = argparse.ArgumentParser(f"python -m studies.{study}", description=description)
    parser.add_argument(
        "--data", type=Path, help="folder of the data sets; by default $CORRTENSOR_DATA"
    )
    parser.add_argument(
        "--trials", type=at_least_one, help="seeds; by default as many as run in minutes"
    )
    parser.add_argument(
        "--jobs",
        type=at_least_one,
        default=os.cpu_count() or 1,
        help="fits at a time; by default one per core",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("corrtensor-results"),
        help="folder of the records, pages and figures; by default %(default)s",
    )
    parser.add_argument(
        "--page", action="store_true", help="write only the page, from what is recorded"
    )
    return parser


def parse(
    parser: argparse.ArgumentParser, arguments: list[str] | None = None
) -> argparse.Namespace:
    """Parse the command line of a study; end the process where the call is wrong."""
    given = parser.parse_args(arguments)
    if given.data is not None and not given.data.is_dir():
        parser.error(f"{given.data}: there is no such folder")
    if given.out.exists() and not given.out.is_dir():
        parser.error(f"{given.out} is not a folder")
    return given


def complain(message: str) -> None:
    """Print what is not a result."""
    print(message, file=sys.stderr)


def record(
    name: str,
    parser: argparse.ArgumentParser,
    arguments: list[str] | None,
    choose: Callable[[argparse.Namespace], tuple[Experiment, int]],
    write: Callable[[Path, Path], Path],
) -> None:
    """Run what a study has not recorded yet, and write its page.

    ``choose`` returns the experiment that the options ask for, and its usual number of seeds.
    """
    given = parse(parser, arguments)
    records = given.out / "records" / f"{name}.jsonl"
    if given.page and not records.is_file():
        parser.error(f"{records}: no records yet; run it without --page")
    with plain_errors():
        if not given.page:
            experiment, seeds = choose(given)
            steps = run(experiment, records, given.trials or seeds, given.jobs)
            done, failed = follow(name, ((name, step) for step in steps))
            print(f"{done} records in {records}, {failed} new failures")
        print(f"page: {write(records, given.out)}")


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors into one line and an exit code."""
    try:
        yield
    except ImportError as error:
        complain(f"{error}\nThis needs more packages: pip install --editable '.[studies]'")
        raise SystemExit(2) from None
    except (ValueError, OSError) as error:
        complain(str(error))
        raise SystemExit(1) from None


def follow(name: str, steps: Iterator[tuple[str, Progress]]) -> tuple[int, int]:
    """Run steps behind a bar that tells the time left; return records and new failures."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), MofNCompleteColumn(), Elapsed(), Remaining())
    done = failed = 0
    with Bar(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name)
        for current, step in steps:
            bar.update(task, description=current, completed=step.done, total=step.total)
            done = step.done
            failed += step.record is not None and step.record["error"] is not None
    return done, failed
