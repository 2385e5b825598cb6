"""The command that names classes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrtensor._base.names import printable
from corrtensor.cli import options
from corrtensor.cli.output import Voice, exit_codes
from corrtensor.cli.steps import (
    check_shape,
    claimed,
    fit_with_progress,
    load_model,
    name_of,
    open_stack,
    table_writer,
)

if TYPE_CHECKING:
    from corrtensor.io import Stack


def add_commands(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(classify)


def classify(
    where: options.Input,
    train: Annotated[
        str | None, typer.Option(help="Samples with labels to learn from.", metavar="INPUT")
    ] = None,
    model: options.Trained = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels to learn from: a text file with one in each line, or an array; by default "
            "the names of the folders that the images are in."
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(help="subspace: one for each class; center: the paper's nearest centre."),
    ] = "subspace",
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Model file to write the classifier to.")
    ] = None,
    table: options.Table = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts of the cross-validation.")] = 5,
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Name the class of every sample, by labelled samples or a model file.

    With neither, the labels of INPUT itself are put to the test: each part of it is classified by
    what was learned from the others.

    Example: corrtensor classify new-faces --train faces --csv names.csv -o faces.ct
    """
    voice = Voice(as_json, quiet)
    if train is not None and model is not None:
        raise typer.BadParameter("give --train or --model, not both")
    if method not in ("subspace", "center"):
        raise typer.BadParameter(f"--method {method}: use subspace or center")
    reading = (options.parse_size(size), colour, axis)
    with exit_codes(voice), claimed(table, out, inputs=[where, train, model, labels]):
        stack = open_stack(voice, where, *reading)
        if model is not None:
            fitted = load_model(model, "predict_proba")
            check_shape(model, fitted, stack, where)
        else:
            source = stack if train is None else open_stack(voice, train, *reading)
            X, y = labelled(source, labels, train or where)
            fitted = classifier(method)
            if train is None:
                found = validate(voice, fitted, X, y, folds)
                say_classes(voice, stack, found, y, table, None)
                return
            check_alike(source, train, stack, where)
            fit_with_progress(voice, "learning", fitted, X, y)
        if out is not None:
            from corrtensor.storage import save

            save(fitted, out)
        say_classes(voice, stack, fitted.predict(stack[:]), stack.labels, table, out)


def classifier(method: str) -> Any:
    """Return an unfitted classifier."""
    from corrtensor.tasks import CorrentropyCenterClassifier, SubspaceClassifier

    return SubspaceClassifier() if method == "subspace" else CorrentropyCenterClassifier()


def labelled(stack: "Stack", labels: str | None, where: str) -> tuple[Any, Any]:
    """Return samples and labels to learn from."""
    from corrtensor.io import open_labels

    y = stack.labels if labels is None else open_labels(labels, len(stack))
    if y is None:
        raise ValueError(
            f"{where} has no labels: put the images of each class into a folder, or give --labels"
        )
    return stack[:], y


def check_alike(one: "Stack", where: str, other: "Stack", there: str) -> None:
    """Raise a ``ValueError`` unless two stacks have samples of one shape."""
    if one.shape[1:] != other.shape[1:]:
        raise ValueError(
            f"{where} has samples of shape {one.shape[1:]}, {there} of {other.shape[1:]}"
        )


def validate(voice: Voice, model: Any, X: Any, y: Any, folds: int) -> Any:
    """Return for each sample the class that a model tells which has not seen it."""
    import numpy as np
    from sklearn.base import clone
    from sklearn.model_selection import StratifiedKFold

    if np.unique(y, return_counts=True)[1].min() < folds:
        raise ValueError(f"a class has fewer than {folds} samples: give fewer --folds, or --train")
    found = np.empty_like(y)
    parts = StratifiedKFold(folds, shuffle=True, random_state=0).split(X.reshape(len(X), -1), y)
    with voice.progress("learning") as update:
        for done, (train, test) in enumerate(parts, start=1):
            found[test] = clone(model).fit(X[train], y[train]).predict(X[test])
            update(done, folds)
    return found


def say_classes(
    voice: Voice, stack: "Stack", found: Any, truth: Any, table: Path | None, out: str | None
) -> None:
    """Print how many samples each class got, and write the class of each."""
    import numpy as np

    known = truth is not None
    if table is not None:
        rows = [
            (k, name_of(stack, k), label, *([truth[k]] if known else []))
            for k, label in enumerate(found.tolist())
        ]
        table_writer(table, ("sample", "name", "class", *(["label"] if known else [])), rows)
    names, counts = np.unique(found, return_counts=True)
    sizes = dict(zip(map(str, names.tolist()), counts.tolist(), strict=True))
    record: dict[str, Any] = {
        "n_samples": len(found),
        "classes": sizes,
        "labels": found,
        "csv": None if table is None else str(table),
        "model": out,
    }
    lines = [f"{printable(name)}: {count} samples" for name, count in sizes.items()]
    if known and np.isin(truth, names).any():
        record["accuracy"] = float((found == truth).mean())
        lines.append(f"{record['accuracy']:.3f} of the labels agree")
    lines += [f"All samples: {table}"] if table is not None else []
    lines += [f"Model: {out}"] if out is not None else []
    voice.result(record, *lines)
