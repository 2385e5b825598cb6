"""Commands that write pages: report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrtensor.cli import options
from corrtensor.cli.output import Voice, exit_codes
from corrtensor.cli.steps import (
    check_shape,
    claimed,
    load_model,
    open_stack,
    samples_of,
)

if TYPE_CHECKING:
    from corrtensor.inputs import Stack

__all__ = ["add_commands", "write_report"]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(report)


def report(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|FOLDER",
            help="Model file, or a folder of records that reproduce has written.",
            show_default=False,
        ),
    ],
    where: Annotated[
        str | None, typer.Argument(metavar="[INPUT]", help=options.WHAT, show_default=False)
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page, .html.")] = Path(
        "report.html"
    ),
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page about a model and samples, or about a folder of records.

    Example: corrtensor report faces.ct faces -o faces.html
    """
    voice = Voice(as_json, quiet)
    shape = options.parse_size(size)
    records = Path(subject).is_dir()
    if not records and where is None:
        raise typer.BadParameter("a page about a model needs samples: give INPUT")
    if records and where is not None:
        raise typer.BadParameter(f"{subject} is a folder of records: it goes without INPUT")
    with exit_codes(voice):
        if records:
            from corrtensor.report.reproduction import write_reproduction

            page = write_reproduction(Path(subject))
        else:
            with claimed(out, inputs=[subject, where]):
                model = load_model(subject, "transform", "inverse_transform")
                stack = open_stack(voice, str(where), shape, colour, axis)
                check_shape(subject, model, stack, str(where))
                write_report(voice, out, model, stack, str(where))
            page = out
        voice.result({"report": str(page)}, f"Page: {page}")


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
