"""The command that writes a page about a model."""

from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import claims, options, steps
from corrtensor.cli.output import Voice, exit_codes


def report(
    path: options.Model,
    where: options.Input,
    out: Annotated[Path, typer.Option("-o", "--out", help="The page, .html.")] = Path(
        "report.html"
    ),
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write a page about a model and samples.

    Example: corrtensor report faces.ct faces -o faces.html
    """
    voice = Voice(as_json, quiet)
    shape = options.parse_size(size)
    with exit_codes(voice):
        with claims.claimed(out, inputs=[path, where], force=force):
            model = steps.load_model(path, "transform", "inverse_transform")
            stack = steps.open_stack(voice, where, shape, colour, axis, like=model)
            steps.check_shape(path, model, stack, where)
            write_report(voice, out, model, stack, where)
        voice.result({}, report=out)


def write_report(voice: Voice, path: Path, model: Any, stack: "steps.Stack", where: str) -> None:
    """Write the page about a model and samples."""
    from corrtensor.report.page import write_page

    title = Path(where.partition("::")[0]).name
    with voice.progress("writing the page"):
        write_page(
            path,
            model,
            steps.samples_of(stack),
            names=stack.names,
            labels=None if stack.labels is None else stack.labels.tolist(),
            title=title,
        )
