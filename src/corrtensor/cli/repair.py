"""The command that gives samples back without their bad and missing cells."""

from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import options
from corrtensor.cli.fit_transform import black_and_white, build, check_ranks_fit
from corrtensor.cli.output import Voice, exit_codes
from corrtensor.cli.steps import (
    blocks,
    check_shape,
    claimed,
    fit_with_progress,
    load_model,
    open_stack,
    samples_of,
    times,
)


def repair(
    where: options.Input,
    out: Annotated[
        str,
        typer.Option(
            "-o", "--out", help="A folder for PNG pictures, or a .npy, .npz, .h5::name, .zarr file."
        ),
    ] = "repaired.npy",
    doubted: Annotated[
        str | None,
        typer.Option(help="Also write which cells were doubted, white: the foreground of a clip."),
    ] = None,
    trained: options.Trained = None,
    ranks: options.Ranks = "0.95",
    cells: Annotated[
        bool, typer.Option(help="Look for bad cells; if not, only missing ones are filled.")
    ] = True,
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Replace bad and missing cells (pixels, bands; NaN) by what the other samples say of them.

    Example: corrtensor repair clip.mp4 --ranks 20,20 -o background --doubted foreground
    """
    from corrtensor.io.writing import check_output_name, open_output

    voice = Voice(as_json, quiet)
    for name in filter(None, (out, doubted)):
        try:
            check_output_name(name, pictures=True)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    files = [name for name in (out, doubted) if name is not None]
    inputs = [name for name in (where, trained) if name is not None]
    with exit_codes(voice), claimed(inputs=inputs, later=files):
        stack = open_stack(voice, where, options.parse_size(size), colour, axis)
        if trained is None:
            model = build("Corr-Tensor", options.parse_ranks(ranks), {"cells": cells})
            check_ranks_fit(model, stack)
            fit_with_progress(voice, "fitting", model, samples_of(stack))
        else:
            model = load_model(trained, "repair")
            check_shape(trained, model, stack, where)
        if doubted is not None and not getattr(model, "cells", False):
            raise typer.BadParameter("--doubted needs a model that was fitted with --cells")
        from corrtensor._engine.shapes import as_float

        shape, dtype = tuple(stack.shape), as_float(stack.dtype)
        span = None if Path(out).suffix else black_and_white(voice, stack)
        with open_output(out, shape, dtype, names=stack.names, values=span) as write:
            for block in blocks(voice, "repair", stack):
                write(model.repair(block))
        if doubted is not None:
            with open_output(doubted, shape, dtype, names=stack.names, values=(0.0, 1.0)) as write:
                for block in blocks(voice, "doubted cells", stack):
                    write(1 - model.cell_weights(block))
        record: dict[str, Any] = {"out": out, "doubted": doubted, "n_samples": len(stack)}
        voice.result({**record, "shape": shape}, f"{times(shape)} numbers: {out}")
