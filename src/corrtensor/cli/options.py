"""Arguments and options that several commands share, and what their texts mean."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

WHAT = (
    "Folder of images, or a .npy, .npz, .mat, .h5, .zarr, .csv, multi-page .tif or video file; "
    "FILE::NAME chooses an array in it."
)
Input = Annotated[str, typer.Argument(metavar="INPUT", help=WHAT, show_default=False)]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model file, written by fit.", show_default=False)
]
Ranks = Annotated[
    str,
    typer.Option(
        help="Rank of each mode, as in 20,20, or one for all: a number, a share of explained "
        "variance such as 0.95, auto, or all not to project the mode."
    ),
]
Size = Annotated[
    str | None,
    typer.Option(help="Resize images to HEIGHTxWIDTH, as in 64x64.", metavar="HxW"),
]
Colour = Annotated[
    bool | None,
    typer.Option(
        "--colour/--grey", help="Three channels or one; by default as the images are.",
        show_default=False,
    ),
]  # fmt: skip
Axis = Annotated[
    int, typer.Option(help="Axis of an array that counts the samples; in MATLAB often -1.")
]
Missing = Annotated[
    float | None,
    typer.Option(
        help="Value that stands for a missing cell, such as 0 or -9999; NaN does in any case, and "
        "what did for a model.",
        show_default=False,
    ),
]
Trained = Annotated[
    str | None, typer.Option("--model", help="Model file to use instead of fitting one.")
]
SeenBy = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="Model of fit to see the samples by; what is usual they still tell themselves. A "
        "detector that was saved judges them by what it has seen.", show_default=False,
    ),
]  # fmt: skip
Table = Annotated[Path | None, typer.Option("--csv", help="Write all samples to this table.")]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Fit on a Dask cluster: local:4 for four processes here, or the address of a "
        "scheduler such as tcp://127.0.0.1:8786.", show_default=False,
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def parse_ranks(text: str) -> Any:
    """Return ranks from ``20,20``, ``0.95``, ``auto`` or ``10,all,0.9``."""
    ranks = tuple(parse_rank(part.strip(), text) for part in text.split(","))
    return ranks[0] if len(ranks) == 1 else ranks


def parse_some_ranks(text: str) -> Any:
    """Return ranks of which one is given at least."""
    if (ranks := parse_ranks(text)) is None:
        raise typer.BadParameter(f"--ranks {text} projects no mode of the samples; give one a rank")
    return ranks


def parse_rank(part: str, text: str) -> Any:
    """Return one rank."""
    if part.lower() == "auto":
        return "auto"
    if part.lower() in ("all", "none"):
        return None
    if re.fullmatch(r"[0-9]+", part) and int(part) >= 1:
        return int(part)
    if re.fullmatch(r"0?\.[0-9]+", part) and 0 < float(part) < 1:
        return float(part)
    raise typer.BadParameter(
        f"--ranks {text}: {part!r} is no rank; use a whole number, a share such as 0.95, "
        "auto, or all"
    )


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Return (height, width) from ``64x48`` or ``64``."""
    if text is None:
        return None
    match = re.fullmatch(r"([1-9][0-9]{0,4})(?:[x,]([1-9][0-9]{0,4}))?", text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"--size {text}: use HEIGHTxWIDTH, as in 64x48")
    height = int(match[1])
    return height, int(match[2] or height)


def refuse_beside(model: object, **given: bool) -> None:
    """Raise a ``BadParameter`` if options of a fit were given beside a model that is fitted."""
    name = next((name for name, on in given.items() if on), None)
    if model is not None and name is not None:
        name = "--" + name.replace("_", "-")
        raise typer.BadParameter(f"{name} is for a fit, and --model {model} is fitted: give one")
