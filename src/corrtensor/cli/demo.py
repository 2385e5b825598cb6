"""The command that shows what the library does: demo."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import options
from corrtensor.cli.output import complain

FORMATS = (".png", ".pdf", ".svg")
DEMO_NOTE = """
error: on the good samples. x oracle: divided by that of MPCA on them alone.
found: outliers among as many samples of largest residual. The non-faces are
smoother than faces: the subspace explains them, so residuals cannot tell, and
they do little harm."""


def demo(
    out: Annotated[Path, typer.Option(help="Where the figure goes: .png, .pdf or .svg.")] = Path(
        "corrtensor-demo.png"
    ),
    seed: Annotated[int, typer.Option(min=0, help="What the outliers are drawn from.")] = 0,
    bands: Annotated[
        int, typer.Option(min=1, max=5, help="How many of the stacks the figure shows.")
    ] = 5,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit 2DSVD, R1-2DSVD and Corr-Tensor to real images with outliers.

    Prints one table and saves one figure.

    Example: corrtensor demo --out demo.pdf --seed 1
    """
    if out.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{out}: the figure's name must end in {', '.join(FORMATS)}")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"{out}: there is no folder {out.parent}")
    if out.exists() and not force:
        raise typer.BadParameter(f"{out} is there: give another name, or --force to replace it")
    try:
        run_demo_command(out, seed, bands, as_json)
    except ImportError as error:
        complain(f"{error}\nThe demo needs more packages: pip install 'corrtensor[demo]'")
        raise typer.Exit(2) from None


def run_demo_command(out: Path, seed: int, bands: int, as_json: bool) -> None:
    """Run the demo, save its figure, print its numbers."""
    from rich.console import Console

    with Console(stderr=True).status("fitting three methods to five stacks of images"):
        from corrtensor.demo import origin, rows, run_demo
        from corrtensor.demo.figure import draw_demo, save_figure

        results = run_demo(seed)
        try:
            save_figure(draw_demo(results[:bands], origin(seed)), out)
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
