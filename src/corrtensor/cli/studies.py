"""Commands that study the methods: demo, bench, reproduce."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from corrtensor.cli.output import complain

if TYPE_CHECKING:
    import typer

__all__ = ["add_commands"]

EXPERIMENTS = ("robustness",)
FORMATS = (".png", ".pdf", ".svg")
DEMO_NOTE = """
error: on the good samples. x oracle: divided by that of MPCA on them alone.
found: outliers among as many samples of largest residual. The non-faces are
smoother than faces: the subspace explains them, so residuals cannot tell, and
they do little harm."""


def add_commands(app: "typer.Typer") -> None:
    """Add the commands to the application."""
    import typer

    @app.command()
    def demo(
        out: Annotated[
            Path, typer.Option(help="Where the figure goes: .png, .pdf or .svg.")
        ] = Path("corrtensor-demo.png"),
        seed: Annotated[int, typer.Option(min=0, help="What the outliers are drawn from.")] = 0,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
    ) -> None:
        """Fit 2DSVD, R1-2DSVD and Corr-Tensor to real images with outliers.

        Prints one table and saves one figure.

        Example: corrtensor demo --out demo.pdf --seed 1
        """
        if out.suffix.lower() not in FORMATS:
            raise typer.BadParameter(f"{out}: the figure's name must end in {', '.join(FORMATS)}")
        if not out.parent.is_dir():
            raise typer.BadParameter(f"{out}: there is no folder {out.parent}")
        try:
            run_demo_command(out, seed, as_json)
        except ImportError as error:
            complain(f"{error}\nThe demo needs more packages: pip install 'corrtensor[demo]'")
            raise typer.Exit(2) from None

    @app.command()
    def bench(
        quick: Annotated[bool, typer.Option("--quick", help="Smaller cases: two minutes.")] = False,
        out: Annotated[Path, typer.Option(help="Folder for the records and the plot.")] = Path(
            "bench-out"
        ),
    ) -> None:
        """Measure speed and memory beside peers and the machine's own limits.

        Prints one table, and saves its rows (JSONL) and a plot of time against size. Exit code 1
        means that a bar was missed.

        Example: corrtensor bench --quick
        """
        try:
            out.mkdir(parents=True, exist_ok=True)
            passed = run_bench_command(out, quick)
        except ImportError as error:
            complain(f"{error}\nThe benchmark needs more packages: pip install 'corrtensor[bench]'")
            raise typer.Exit(2) from None
        except OSError as error:
            complain(f"{out} cannot be written to: {error}")
            raise typer.Exit(1) from None
        if not passed:
            raise typer.Exit(1)

    @app.command()
    def reproduce(
        names: Annotated[list[str], typer.Argument(help=f"What to run: {', '.join(EXPERIMENTS)}.")],
        data: Annotated[
            Path | None,
            typer.Option(help="Folder of the data sets; by default $CORRTENSOR_DATA."),
        ] = None,
        trials: Annotated[int, typer.Option(min=1, help="Seeds.")] = 1,
        jobs: Annotated[
            int | None, typer.Option(min=1, help="Fits at a time; by default one per core.")
        ] = None,
        out: Annotated[Path, typer.Option(help="Folder of the records, pages and figures.")] = Path(
            "corrtensor-results"
        ),
        quick: Annotated[bool, typer.Option("--quick", help="One rank for each data set.")] = False,
    ) -> None:
        """Run experiments, record every fit, and write the pages.

        Stop it at any moment: started again, it goes on where it was.

        Example: corrtensor reproduce robustness --quick --jobs 2
        """
        wrong = [name for name in names if name not in EXPERIMENTS]
        if wrong:
            raise typer.BadParameter(
                f"{wrong[0]}: no such experiment; there are {', '.join(EXPERIMENTS)}"
            )
        if data is not None and not data.is_dir():
            raise typer.BadParameter(f"{data}: there is no such folder")
        if out.exists() and not out.is_dir():
            raise typer.BadParameter(f"{out} is not a folder")
        try:
            for name in dict.fromkeys(names):
                reproduce_one(name, data, trials, jobs or os.cpu_count() or 1, out, quick)
        except ImportError as error:
            complain(f"{error}\nThis needs more packages: pip install 'corrtensor[demo]'")
            raise typer.Exit(2) from None
        except (ValueError, OSError) as error:
            complain(str(error))
            raise typer.Exit(1) from None


def run_demo_command(out: Path, seed: int, as_json: bool) -> None:
    """Run the demo, save its figure, print its numbers."""
    from rich.console import Console

    with Console(stderr=True).status("fitting three methods to five stacks of images"):
        from corrtensor.experiments import origin, rows, run_demo
        from corrtensor.report import draw_demo, save_figure

        results = run_demo(seed)
        try:
            save_figure(draw_demo(results, origin(seed)), out)
        except OSError as error:
            complain(f"{out} could not be written: {error}")
            raise SystemExit(1) from None
    records = rows(results)
    if as_json:
        print(json.dumps({"rows": records, "origin": origin(seed), "figure": str(out)}, indent=2))
        return
    console = Console()
    console.print(demo_table(records))
    console.print(f"{DEMO_NOTE}\nFigure: {out}", highlight=False, soft_wrap=True)


def reproduce_one(
    name: str, data: Path | None, trials: int, jobs: int, out: Path, quick: bool
) -> None:
    """Run one experiment with a bar that tells the time left, and write its page."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.progress import TimeRemainingColumn as Remaining

    from corrtensor.experiments import robustness
    from corrtensor.experiments.records import run
    from corrtensor.report.robustness import write_robustness

    sets, missing = robustness.find_data(data)
    experiment = robustness.Robustness(sets, data)
    if missing:
        complain(f"not found and left out or replaced by a small one: {', '.join(missing)}")
    records = out / "records" / f"{name}.jsonl"
    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), Elapsed(), Remaining())
    failed = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(name)
        chosen = robustness.quick(experiment) if quick else experiment
        for step in run(chosen, records, trials, jobs):
            bar.update(task, completed=step.done, total=step.total)
            failed += step.record is not None and step.record["error"] is not None
    page = write_robustness(records, out)
    print(f"{step.done} records in {records}, {failed} new failures; page: {page}")


def demo_table(records: list[dict[str, Any]]) -> Any:
    """Return the demo's numbers as a table; the best of each case stands out."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("data", "outliers", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("error", "x oracle", "found", "AUC"):
        table.add_column(name, justify="right", no_wrap=True)
    case = None
    for record in records:
        key = record["data"], record["outliers"]
        if case not in (None, key):
            table.add_section()
        best = min(r["error"] for r in records if (r["data"], r["outliers"]) == key)
        table.add_row(
            *(("", "") if key == case else key),
            record["method"],
            f"{record['error']:.3f}",
            f"{record['times_oracle']:.3f}",
            f"{record['found']}/{record['n_outliers']}",
            f"{record['auc']:.3f}",
            style="bold" if record["error"] == best else None,
        )
        case = key
    return table


def run_bench_command(out: Path, quick: bool) -> bool:
    """Run the benchmark, save rows and plot, print the table; tell whether every bar was met."""
    from rich.console import Console

    from corrtensor.experiments.bench import bench_origin, run_bench, run_series
    from corrtensor.report import save_figure
    from corrtensor.report.bench_figure import draw_bench

    console, origin, rows = Console(), bench_origin(), []
    with (
        open(out / "bench.jsonl", "w", encoding="utf-8") as records,
        Console(stderr=True).status("measuring") as status,
    ):
        records.write(json.dumps({"origin": origin, "quick": quick}) + "\n")
        for row in run_bench(quick):
            rows.append(row)
            records.write(json.dumps(row.as_dict()) + "\n")
            records.flush()
            status.update(row.case)
        status.update("time against size")
        points = run_series(quick)
        for point in points:
            records.write(json.dumps(vars(point)) + "\n")
    save_figure(draw_bench(points, origin), out / "bench.png")
    console.print(bench_table(rows))
    console.print(f"Records and plot: {out}", highlight=False)
    return all(row.ok is not False for row in rows)


def bench_table(rows: list[Any]) -> Any:
    """Return the benchmark's rows as a table."""
    from rich import box
    from rich.table import Table

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
