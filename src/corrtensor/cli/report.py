"""Commands that write pages: report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrtensor.cli import options
from corrtensor.cli.output import Voice, exit_codes
from corrtensor.cli.steps import check_shape, claimed, load_model, open_stack, samples_of

if TYPE_CHECKING:
    from corrtensor.io import Stack


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(report)


def report(
    path: options.Model,
    where: options.Input,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page, .html.")] = Path(
        "report.html"
    ),
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page about a model and samples.

    Example: corrtensor report faces.ct faces -o faces.html
    """
    voice = Voice(as_json, quiet)
    shape = options.parse_size(size)
    with exit_codes(voice):
        with claimed(out, inputs=[path, where]):
            model = load_model(path, "transform", "inverse_transform")
            stack = open_stack(voice, where, shape, colour, axis)
            check_shape(path, model, stack, where)
            write_report(voice, out, model, stack, where)
        voice.result({"report": str(out)}, f"Page: {out}")


def write_report(voice: Voice, path: Path, model: Any, stack: "Stack", where: str) -> None:
    """Write the page about a model and samples."""
    from corrtensor.report.page import write_page

    title = Path(where.partition("::")[0]).name
    with voice.progress("writing the page"):
        write_page(
            path,
            model,
            samples_of(stack),
            names=stack.names,
            labels=None if stack.labels is None else stack.labels.tolist(),
            title=title,
        )
