"""The command that gives samples back without their bad and missing cells."""

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import claims, options, steps
from corrtensor.cli.fit_transform import black_and_white, build, check_ranks_fit
from corrtensor.cli.output import Voice, exit_codes

PICTURES = (
    "A folder for PNG pictures, a video such as .mp4, or a .npy, .npz, .h5::name, .zarr, .csv"
)
# Ranks unless they are given: a share of every mode, more would explain the damage as well; and of
# the frames of a clip as vectors, in which one direction is the light.
SHARE, LIGHT = 0.2, 1

Foreground = Annotated[
    str | None,
    typer.Option(
        help=f"Also write which cells were replaced, white on black. {PICTURES}.",
        show_default=False,
    ),
]
Ranks = Annotated[
    str | None,
    typer.Option(
        help="As of fit; by default a fifth of each mode, of a clip 1. One number for a clip takes "
        "its frames as vectors, several as pictures.",
        show_default=False,
    ),
]
Clip = Annotated[
    bool | None,
    typer.Option(
        help="Samples are the frames of a camera that stands still; those of a video are.",
        show_default=False,
    ),
]


def repair(
    where: options.Input,
    out: Annotated[str, typer.Option("-o", "--out", help=f"{PICTURES}.")] = "repaired.npy",
    foreground: Foreground = None,
    trained: options.Trained = None,
    ranks: Ranks = None,
    clip: Clip = None,
    cells: Annotated[
        bool, typer.Option(help="Look for bad cells; if not, only missing ones are filled.")
    ] = True,
    missing: options.Missing = None,
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Replace bad and missing cells (pixels, bands; NaN) by what the other samples say of them.

    Of a clip, that is the background. Example: corrtensor repair clip.mp4 -o background.mp4
    --foreground mask.mp4
    """
    from corrtensor.io.writing import check_output_name, check_pictures

    voice = Voice(as_json, quiet)
    options.refuse_beside(
        trained, ranks=ranks is not None, clip=clip is not None, no_cells=not cells
    )
    files = [name for name in (out, foreground) if name is not None]
    for name in files:
        try:
            check_output_name(name, pictures=True)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    chosen = None if ranks is None else options.parse_some_ranks(ranks)
    shape = options.parse_size(size)
    with exit_codes(voice), claims.claimed(inputs=[where, trained], later=files, force=force):
        model = None if trained is None else steps.load_model(trained, "repair")
        stack = steps.open_stack(voice, where, shape, colour, axis, missing, model)
        sample = stack.shape[1:]
        check_pictures(out, sample)
        if foreground is not None:
            # Where colours were replaced is drawn without them.
            check_pictures(foreground, sample[:2] if len(sample) == 3 else sample)
        if trained is None:
            clip = hasattr(steps.stored(stack), "rate") if clip is None else clip
            model = fitted(voice, stack, chosen, clip, cells)
            apart = [int(k) for g in model.diagnostics_["groups"] if g.rejected for k in g.samples]
            outlying = [steps.name_of(stack, k) for k in sorted(apart)]
            if outlying:
                voice.note(
                    f"outliers as a whole, of which others tell little, {len(outlying)} of "
                    f"{len(stack)} samples{steps.named(outlying)}; corrtensor outliers says why"
                )
        else:
            steps.check_shape(trained, model, stack, where)
            steps.note_foreign(voice, trained, model, stack)
            if not hasattr(model, "cell_scale_"):
                voice.note(f"{trained} was fitted without --cells: only missing cells are filled")
        counts = write(voice, model, stack, out, foreground)
        record = {"out": out, "foreground": foreground, "n_samples": len(stack)}
        lines = [in_words(stack.shape, counts), f"Repaired: {out}"]
        lines += [f"What was replaced: {foreground}"] if foreground is not None else []
        voice.result({**record, "shape": stack.shape, **counts}, *lines)


def in_words(shape: tuple[int, ...], counts: dict[str, int]) -> str:
    """Say how many cells were replaced."""
    total = sum(counts.values())
    words = [f"{counts[k]:,} {k} ({counts[k] / total:.2%})" for k in ("doubted", "missing")]
    return (
        f"{shape[0]} samples of {steps.times(shape[1:])}: {' and '.join(words)} cells replaced, "
        "all others as they were"
    )


def fitted(voice: Voice, stack: "steps.Stack", ranks: Any, clip: bool, cells: bool) -> Any:
    """Return a model of the samples; of a clip, frames are vectors unless they have many ranks."""
    from dataclasses import replace

    from corrtensor.io.stack import Flat

    if clip and not isinstance(ranks, tuple):
        stack = replace(stack, array=Flat(stack.array))
    usual = tuple(min(a, max(2, round(SHARE * a))) for a in stack.shape[1:])
    model = build("Corr-Tensor", ranks or (LIGHT if clip else usual), {"cells": cells})
    check_ranks_fit(model, stack)
    steps.fit_with_progress(voice, "fitting", model, steps.samples_of(stack))
    return model


def write(
    voice: Voice, model: Any, stack: "steps.Stack", out: str, foreground: str | None
) -> dict[str, int]:
    """Write the repaired samples, and where they differ; return how many cells do."""
    import numpy as np

    from corrtensor._base.gaps import as_float, with_gaps
    from corrtensor.io.writing import FORMATS, open_output

    shape, drawn = tuple(stack.shape), ("", *FORMATS)
    flat = tuple(model.sample_shape_) != shape[1:]
    shades: dict[str, Any] = {}
    if Path(out).suffix.lower() in drawn:
        shades = black_and_white(voice, stack, out, shape[1:])
    colours = len(shape) == 4 and Path(foreground or "").suffix.lower() in drawn
    named: dict[str, Any] = {
        "names": stack.names,
        "rate": getattr(steps.stored(stack), "rate", None),
    }
    counts = {"missing": 0, "doubted": 0, "kept": 0}
    with ExitStack() as files:
        kind, mask = as_float(stack.dtype), np.dtype(np.uint8)
        write = files.enter_context(open_output(out, shape, kind, **shades, **named))
        tell = None
        if foreground is not None:
            seen = shape[:3] if colours else shape
            tell = files.enter_context(
                open_output(foreground, seen, mask, values=(0.0, 1.0), **named)
            )
        for block in steps.blocks(voice, "repair", stack):
            whole = model.repair(block.reshape(len(block), -1) if flat else block)
            whole = whole.reshape(block.shape)
            write(whole)
            # Good cells come back as they are.
            other = whole != block
            gaps = int(np.isnan(with_gaps(block, model.missing_values)).sum())
            counts["missing"] += gaps
            counts["doubted"] += int(other.sum()) - gaps
            counts["kept"] += int((~other).sum())
            if tell is not None:
                tell((other.any(axis=-1) if colours else other).astype(mask))
    return counts
