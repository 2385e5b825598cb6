"""The command that names classes."""

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor._base.names import printable
from corrtensor.cli import claims, options, steps
from corrtensor.cli.output import Voice, exit_codes

METHODS = {"subspace": "SubspaceClassifier", "center": "CorrentropyCenterClassifier"}


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
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Name the class of every sample, by labelled samples or a model file.

    With neither, the labels of INPUT itself are put to the test: each part of it is classified by
    what was learned from the others.

    Example: corrtensor classify new-faces --train faces --csv names.csv -o faces.ct
    """
    voice = Voice(as_json, quiet)
    refuse_wrong_call(train, model, out, method)
    reading = (options.parse_size(size), colour, axis)
    with (
        exit_codes(voice),
        claims.claimed(table, out, inputs=[where, train, model, labels], force=force),
    ):
        fitted: Any = None if model is None else steps.load_model(model, "predict_proba")
        source = None if train is None else steps.open_stack(voice, train, *reading)
        stack = steps.open_stack(voice, where, *reading, like=fitted or source)
        if model is not None:
            steps.check_shape(model, fitted, stack, where)
        else:
            X, y = labelled(source or stack, labels, train or where)
            fitted = getattr(import_module("corrtensor.tasks"), METHODS[method])()
            if source is None:
                found = validate(voice, fitted, X, y, folds)
                say_classes(voice, stack, found, y, table, None)
                return
            if source.shape[1:] != stack.shape[1:]:
                raise ValueError(
                    f"{train} has samples of shape {source.shape[1:]}, {where} of {stack.shape[1:]}"
                )
            steps.fit_with_progress(voice, "learning", fitted, X, y)
        steps.save_model(fitted, out)
        say_classes(voice, stack, fitted.predict(stack[:]), stack.labels, table, out)


def refuse_wrong_call(train: str | None, model: str | None, out: str | None, method: str) -> None:
    """Raise a ``BadParameter`` if options do not go together."""
    if train is not None and model is not None:
        raise typer.BadParameter("give --train or --model, not both")
    if out is not None and train is None and model is None:
        raise typer.BadParameter(
            f"-o {out} needs --train with samples to learn from: without it labels are only put "
            "to the test"
        )
    if method not in METHODS:
        raise typer.BadParameter(f"--method {method}: use subspace or center")


def labelled(stack: "steps.Stack", labels: str | None, where: str) -> tuple[Any, Any]:
    """Return samples and labels to learn from."""
    from corrtensor.io import open_labels

    y = stack.labels if labels is None else open_labels(labels, len(stack))
    if y is None:
        raise ValueError(
            f"{where} has no labels: put the images of each class into a folder, or give --labels"
        )
    return stack[:], y


def validate(voice: Voice, model: Any, X: Any, y: Any, folds: int) -> Any:
    """Return for each sample the class that a model tells which has not seen it."""
    import numpy as np
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    if np.unique(y, return_counts=True)[1].min() < folds:
        raise ValueError(f"a class has fewer than {folds} samples: give fewer --folds, or --train")
    parts = StratifiedKFold(folds, shuffle=True, random_state=0)
    with voice.progress("learning"):
        return cross_val_predict(model, X, y, cv=parts)


def say_classes(
    voice: Voice, stack: "steps.Stack", found: Any, truth: Any, table: Path | None, out: str | None
) -> None:
    """Print how many samples each class got, and write the class of each."""
    import numpy as np

    known = truth is not None
    if table is not None:
        rows = [
            (k, steps.name_of(stack, k), label, *([truth[k]] if known else []))
            for k, label in enumerate(found.tolist())
        ]
        steps.write_table(table, ("sample", "name", "class", *(["label"] if known else [])), rows)
    names, counts = np.unique(found, return_counts=True)
    sizes = dict(zip(map(str, names.tolist()), counts.tolist(), strict=True))
    record: dict[str, Any] = {"n_samples": len(found), "classes": sizes, "labels": found}
    lines = [
        f"{printable(name)}: {count} sample{'' if count == 1 else 's'}"
        for name, count in sizes.items()
    ]
    if known and np.isin(truth, names).any():
        record["accuracy"] = float((found == truth).mean())
        lines.append(f"{record['accuracy']:.3f} of the labels agree")
    voice.result(record, *lines, csv=table, model=out)
