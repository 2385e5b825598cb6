"""Commands from files to files: fit, transform, reconstruct."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import claims, options, steps
from corrtensor.cli.output import Voice, exit_codes


def fit(
    where: options.Input,
    out: Annotated[str, typer.Option("-o", "--out", help="Model file to write.")] = "model.ct",
    ranks: options.Ranks = "0.95",
    method: Annotated[
        str, typer.Option(help="Corr-Tensor, MPCA, R1-Tensor, GLRAM, 2DSVD, ...")
    ] = "Corr-Tensor",
    alpha: Annotated[
        float | None, typer.Option(help="Corr-Tensor: power of the residual in the kernel.")
    ] = None,
    beta: Annotated[float | None, typer.Option(help="Corr-Tensor: bandwidth.")] = None,
    breakdown: Annotated[
        float | None,
        typer.Option(
            min=0, max=0.5, help="Corr-Tensor: largest share of outliers; 0 rejects no group."
        ),
    ] = None,
    cells: Annotated[
        bool | None, typer.Option("--cells", help="Corr-Tensor: look for bad pixels, too.")
    ] = None,
    missing: options.Missing = None,
    max_iter: Annotated[int | None, typer.Option(min=1, help="Most sweeps.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="File in which to keep where the fit stands; a killed one goes on."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page about the fit, .html.")
    ] = None,
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    cluster: options.Cluster = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn the structure of samples, outliers aside, and save it as a model.

    Example: corrtensor fit faces --ranks 20,20 -o faces.ct --report faces.html
    """
    voice = Voice(as_json, quiet)
    settings: dict[str, Any] = {"alpha": alpha, "beta": beta, "breakdown": breakdown}
    settings |= {"max_iter": max_iter, "checkpoint": checkpoint, "cells": cells}
    settings["missing_values"] = missing
    model = build(method, options.parse_ranks(ranks), settings)
    shape = options.parse_size(size)
    # The estimator holds the checkpoint.
    files = claims.claimed(out, report, inputs=[where], reused=[checkpoint], force=force)
    with exit_codes(voice), files:
        stack = steps.open_stack(voice, where, shape, colour, axis, missing)
        check_ranks_fit(model, stack)
        from corrtensor.clusters import on_cluster

        with on_cluster(cluster, steps.samples_of(stack) if cluster is None else stack.array) as X:
            seconds = steps.fit_with_progress(voice, "fitting", model, X)
        steps.save_model(model, out)
        record = describe_fit(model, stack, seconds)
        if report is not None:
            from corrtensor.cli.report import write_report

            write_report(voice, report, model, stack, where)
        voice.result(record, *fit_lines(record), model=out, report=report)


def build(method: str, ranks: Any, settings: dict[str, Any]) -> Any:
    """Return the estimator that the options describe."""
    from corrtensor.methods import METHODS, make

    try:
        model = make(method, ranks)
        given = {name: value for name, value in settings.items() if value is not None}
        wrong = [name for name in given if name not in model.get_params()]
        if wrong:
            raise ValueError(f"--{wrong[0].replace('_', '-')} is no setting of {method}")
        model.set_params(**given)
        if hasattr(model, "_loss"):
            model._loss()
        return model
    except (ValueError, TypeError) as error:
        text = str(error)
        if "no such method" in text:
            text = f"--method {method}: there are {', '.join(METHODS)}"
        raise typer.BadParameter(text) from None


def check_ranks_fit(model: Any, stack: "steps.Stack") -> None:
    """Raise a ``BadParameter`` if the ranks do not go with the shape of the samples.

    Two ranks are enough for pictures with colours, which then stay as they are.
    """
    from corrtensor._engine.ranks import check_ranks
    from corrtensor.subspace import MultilinearSubspace

    if isinstance(model, MultilinearSubspace):
        if isinstance(model.ranks, tuple) and len(model.ranks) == 2 and stack.shape[3:] == (3,):
            model.set_params(ranks=(*model.ranks, None))
        try:
            check_ranks(model.ranks, stack.shape[1:])
        except (ValueError, TypeError) as error:
            raise typer.BadParameter(str(error)) from None


def describe_fit(model: Any, stack: "steps.Stack", seconds: float) -> dict[str, Any]:
    """Return what is worth knowing about a fit."""
    weights = getattr(model, "weights_", None)
    low = [] if weights is None else [k for k in weights.argsort() if weights[k] < 0.5]
    return {
        "method": type(model).__name__,
        "n_samples": len(stack),
        "sample_shape": stack.shape[1:],
        "ranks": model.core_shape_,
        "n_iter": getattr(model, "n_iter_", None),
        "converged": getattr(model, "converged_", None),
        "seconds": round(seconds, 3),
        "rejected": [steps.name_of(stack, k) for k in low],
        "skipped": [{"name": entry.name, "reason": entry.reason} for entry in stack.skipped],
    }


def fit_lines(record: dict[str, Any]) -> tuple[str, str]:
    """Return a fit in words."""
    count = record["n_iter"]
    sweeps = "" if count is None else f" after {count} sweep{'' if count == 1 else 's'}"
    rejected = record["rejected"]
    return (
        f"{record['n_samples']} samples of {steps.times(record['sample_shape'])}, "
        f"cores of {steps.times(record['ranks'])}{sweeps}, {record['seconds']:.1f} s",
        f"{len(rejected)} rejected by the fit (weight below one half){steps.named(rejected)}",
    )


def transform(
    model: options.Model,
    where: options.Input,
    out: Annotated[
        str,
        typer.Option("-o", "--out", help="Where cores go: .npy, .npz, .h5::name, .zarr, .csv."),
    ] = "cores.npy",
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the small core of every sample: its features.

    Example: corrtensor transform faces.ct new-faces -o cores.npy
    """
    write_samples(Voice(as_json, quiet), "transform", model, where, out,
                  (options.parse_size(size), colour, axis), force)  # fmt: skip


def reconstruct(
    model: options.Model,
    where: options.Input,
    out: Annotated[
        str,
        typer.Option(
            "-o",
            "--out",
            help="A folder for PNG pictures, a video such as .mp4, or a .npy, .npz, "
            ".h5::name, .zarr or .csv file.",
        ),
    ] = "reconstructions.npy",
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write every sample as the subspace sees it; cores are taken as well as samples.

    Example: corrtensor reconstruct faces.ct faces -o clean
    """
    write_samples(Voice(as_json, quiet), "reconstruct", model, where, out,
                  (options.parse_size(size), colour, axis), force)  # fmt: skip


def write_samples(
    voice: Voice,
    task: str,
    path: str,
    where: str,
    out: str,
    reading: tuple[Any, Any, int],
    force: bool,
) -> None:
    """Send samples through a model, block by block, into a file."""
    from corrtensor.io.writing import FORMATS, check_output_name, check_pictures, open_output

    pictures = task == "reconstruct"
    try:
        check_output_name(out, pictures=pictures)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    with exit_codes(voice), claims.claimed(inputs=[path, where], later=[out], force=force):
        model = steps.load_model(path, "transform", "inverse_transform")
        stack = steps.open_stack(voice, where, *reading, like=model)
        cores = pictures and tuple(stack.shape[1:]) == model.core_shape_ != model.sample_shape_
        if not cores:
            steps.check_shape(path, model, stack, where)
            steps.note_foreign(voice, path, model, stack)
        from corrtensor._engine.shapes import as_float

        one = model.sample_shape_ if pictures else model.core_shape_
        check_pictures(out, one)
        shape, dtype = (len(stack), *one), as_float(stack.dtype)
        drawn = Path(out).suffix.lower() in ("", *FORMATS)
        shown = model.inverse_transform if cores else None
        shades = black_and_white(voice, stack, out, one, shown) if drawn else {}
        rate = getattr(steps.stored(stack), "rate", None)
        with open_output(out, shape, dtype, names=stack.names, rate=rate, **shades) as write:
            for block in steps.blocks(voice, task, stack):
                small = block if cores else model.transform(block)
                write((model.inverse_transform(small) if pictures else small).reshape(-1, *one))
        record = {"out": out, "n_samples": len(stack), "shape": shape, "dtype": str(dtype)}
        voice.result(record, f"{len(stack)} times {steps.times(one)} numbers: {out}")


def black_and_white(
    voice: Voice,
    stack: "steps.Stack",
    out: str,
    sample: tuple[int, ...],
    shown: Callable[[Any], Any] | None = None,
) -> dict[str, Any]:
    """Return which values shall be black and white in pictures of a shape, and say what is lost.

    Colours and videos have 256 shades, other pictures of more than 8 bits 65536. What is seen is
    what ``shown`` makes of the stack, by default its samples.
    """
    whole = {"uint8": 255.0, "uint16": 65535.0}
    kind, video = str(steps.stored(stack).dtype), bool(Path(out).suffix)
    deep = kind != "uint8" and not video and len(sample) == 2
    if video and any(side % 2 for side in sample[:2]):
        size = steps.times(sample[:2])
        voice.note(f"{size}: videos have even sides, the last row or column is doubled")
    if kind in whole and shown is None:
        if kind == "uint16" and not deep:
            voice.note(f"{out} has 256 shades for the 65536 of the samples; .npy keeps all")
        return {"values": (0.0, whole[kind]), "deep": deep}
    from numpy import isnan

    read = steps.blocks(voice, "range of values", stack)
    seen = [b[~isnan(b)] for b in (read if shown is None else map(shown, read))]
    ends = [(float(b.min()), float(b.max())) for b in seen if b.size] or [(0.0, 1.0)]
    low, high = min(e[0] for e in ends), max(e[1] for e in ends)
    voice.note(
        f"{65536 if deep else 256} shades stand for values: black is {low:g}, white {high:g}; "
        ".npy keeps the numbers"
    )
    return {"values": (low, high), "deep": deep}
