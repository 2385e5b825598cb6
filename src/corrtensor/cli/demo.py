"""The command that shows what the library does: demo."""

from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import claims, options
from corrtensor.cli.output import Voice, exit_codes

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
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Fit 2DSVD, R1-2DSVD and Corr-Tensor to real images with outliers.

    Prints one table and saves one figure.

    Example: corrtensor demo --out demo.pdf --seed 1
    """
    if out.suffix.lower() not in FORMATS:
        raise typer.BadParameter(f"{out}: the figure's name must end in {', '.join(FORMATS)}")
    voice = Voice(as_json)
    with exit_codes(voice), claims.claimed(out, inputs=[], force=force):
        from corrtensor._base.extras import need

        need("matplotlib.figure", "demo", "the demo")
        with voice.progress("fitting three methods to five stacks of images"):
            from corrtensor.demo import origin, rows, run_demo
            from corrtensor.demo.figure import draw_demo, save_figure

            results = run_demo(seed)
            save_figure(draw_demo(results, origin(seed)), out)
        records = rows(results)
        if not as_json:
            from rich.console import Console

            Console().print(demo_table(records))
        record = {"rows": records, "origin": origin(seed)}
        voice.result(record, *DEMO_NOTE.splitlines(), figure=out)


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
