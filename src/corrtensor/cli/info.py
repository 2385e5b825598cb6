"""The command that tells what is in a file."""

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor._base.names import printable
from corrtensor.cli import options, steps
from corrtensor.cli.output import Voice, exit_codes


def info(
    where: Annotated[
        str, typer.Argument(metavar="FILE", help="Model file, or samples.", show_default=False)
    ],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Tell what is in a model file, or in samples.

    Example: corrtensor info faces.ct
    """
    from corrtensor.io.model_file import is_model_file

    voice = Voice(as_json, quiet)
    with exit_codes(voice):
        path = Path(where)
        model_file = path.suffix.lower() == ".ct" or (path.is_file() and is_model_file(path))
        record = describe_model(where) if model_file else describe_stack(voice, where)
        voice.result(record, *(f"{key}: {shown(item)}" for key, item in record.items()))


def describe_model(where: str) -> dict[str, Any]:
    """Return what a model file holds."""
    model = steps.load_model(where)
    record: dict[str, Any] = {"file": where, "class": type(model).__name__}
    record["parameters"] = {
        key: value if isinstance(value, int | float | str | None) else repr(value)
        for key, value in model.get_params(deep=False).items()
    }
    for name in ("sample_shape_", "core_shape_", "n_iter_", "converged_", "n_features_in_"):
        if hasattr(model, name):
            record[name.rstrip("_")] = getattr(model, name)
    if hasattr(model, "classes_"):
        record["classes"] = [str(label) for label in model.classes_]
    if getattr(model, "weights_", None) is not None:
        record["n_samples"] = len(model.weights_)
        record["n_rejected"] = int((model.weights_ < 0.5).sum())
    return record


def describe_stack(voice: Voice, where: str) -> dict[str, Any]:
    """Return what samples look like."""
    stack = steps.open_stack(voice, where)
    record: dict[str, Any] = {
        "file": where,
        "n_samples": len(stack),
        "sample_shape": stack.shape[1:],
        "dtype": str(stack.dtype),
        "skipped": len(stack.skipped),
    }
    if stack.labels is not None:
        record["labels"] = dict(sorted(Counter(map(str, stack.labels.tolist())).items()))
    return record


def shown(item: Any) -> str:
    """Return an entry of a record as text."""
    if isinstance(item, dict):
        return ", ".join(f"{printable(str(key))}={value}" for key, value in item.items())
    if isinstance(item, tuple):
        return steps.times(item)
    return ", ".join(map(printable, item)) if isinstance(item, list) else str(item)
