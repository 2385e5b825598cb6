"""The command that runs the paper's tables and figures, and the robustness grid."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from corrtensor.cli.output import complain

if TYPE_CHECKING:
    import typer

__all__ = ["add_command"]

PAPER = (*(f"fig{i}" for i in range(1, 12)), *(f"table{i}" for i in range(1, 4)))
ROBUSTNESS, ALL = "robustness", "all"
NAMES = (*PAPER, ALL, ROBUSTNESS)


def add_command(app: "typer.Typer") -> None:
    """Add the command to the application."""
    import typer

    @app.command()
    def reproduce(
        names: Annotated[
            list[str],
            typer.Argument(help="What to run: fig1 to fig11, table1 to table3, all, robustness."),
        ],
        data: Annotated[
            Path | None,
            typer.Option(help="Folder of the data sets; by default $CORRTENSOR_DATA."),
        ] = None,
        trials: Annotated[
            int | None,
            typer.Option(min=1, help="Seeds; by default as many as run in minutes."),
        ] = None,
        jobs: Annotated[
            int | None, typer.Option(min=1, help="Fits at a time; by default one per core.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder of the records, pages and figures.")] = Path(
            "corrtensor-results"
        ),
        quick: Annotated[
            bool, typer.Option("--quick", help="robustness: one rank for each data set.")
        ] = False,
    ) -> None:
        """Run the paper's tables and figures, record every fit, and write the page.

        Stop it at any moment: started again, it goes on where it was. Where a data set is
        missing, a small one that comes with other packages stands in. The paper has 20 trials
        in tables 1 and 2 and 100 in table 3.

        Example: corrtensor reproduce table1 fig2 --data DIR --trials 20
        """
        wrong = [name for name in names if name not in NAMES]
        if wrong:
            raise typer.BadParameter(
                f"{wrong[0]}: no such experiment; there are {', '.join(NAMES)}"
            )
        if data is not None and not data.is_dir():
            raise typer.BadParameter(f"{data}: there is no such folder")
        if out.exists() and not out.is_dir():
            raise typer.BadParameter(f"{out} is not a folder")
        workers = jobs or os.cpu_count() or 1
        chosen = [name for name in PAPER if name in names or ALL in names]
        try:
            if ROBUSTNESS in names:
                run_robustness(data, trials or 1, workers, out, quick)
            if chosen:
                run_paper(chosen, data, trials, workers, out)
        except ImportError as error:
            complain(f"{error}\nThis needs more packages: pip install 'corrtensor[demo]'")
            raise typer.Exit(2) from None
        except (ValueError, OSError) as error:
            complain(str(error))
            raise typer.Exit(1) from None


def show(name: str, steps: Iterator[tuple[str, Any]]) -> tuple[int, int]:
    """Run steps behind a bar that tells the time left; return records and new failures."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    text = TextColumn("{task.description}")
    columns = (text, BarColumn(), MofNCompleteColumn(), Elapsed(), Remaining())
    done = failed = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name)
        for current, step in steps:
            bar.update(task, description=current, completed=step.done, total=step.total)
            done = step.done
            failed += step.record is not None and step.record["error"] is not None
    return done, failed


def run_robustness(data: Path | None, trials: int, jobs: int, out: Path, quick: bool) -> None:
    """Run the robustness grid and write its page."""
    from corrtensor.experiments import robustness
    from corrtensor.experiments.records import run
    from corrtensor.report.robustness import write_robustness

    sets, missing = robustness.find_data(data)
    experiment = robustness.Robustness(sets, data)
    if missing:
        complain(f"not found and left out or replaced by a small one: {', '.join(missing)}")
    chosen = robustness.quick(experiment) if quick else experiment
    records = out / "records" / f"{ROBUSTNESS}.jsonl"
    done, failed = show(
        ROBUSTNESS, ((ROBUSTNESS, step) for step in run(chosen, records, trials, jobs))
    )
    page = write_robustness(records, out)
    print(f"{done} records in {records}, {failed} new failures; page: {page}")


def run_paper(
    names: list[str], data: Path | None, trials: int | None, jobs: int, out: Path
) -> None:
    """Run tables and figures of the paper, and write the page from all that is recorded."""
    from corrtensor.experiments.paper import COMPANIONS, missing_data, study
    from corrtensor.report.reproduction import write_reproduction

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
    done, failed = show(wanted[0], paper_steps(studies, folder, trials, jobs))
    page = write_reproduction(out)
    print(f"{done} records in {folder}, {failed} new failures; page: {page}")


def paper_steps(
    studies: list[Any], folder: Path, trials: int | None, jobs: int
) -> Iterator[tuple[str, Any]]:
    """Yield the progress of all the studies together."""
    from corrtensor.experiments.records import Progress, run

    repeats = [trials or study.repeats for study in studies]
    total = sum(len(study.cells) * n for study, n in zip(studies, repeats, strict=True))
    before = 0
    for study, n in zip(studies, repeats, strict=True):
        for step in run(study, folder / f"{study.name}.jsonl", n, jobs):
            yield study.name, Progress(before + step.done, total, step.record)
        before += step.total
