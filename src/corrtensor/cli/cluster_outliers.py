"""Commands that answer a question about every sample: outliers, cluster."""

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
    samples_of,
    table_writer,
)

if TYPE_CHECKING:
    from corrtensor.io import Stack


def add_commands(app: typer.Typer) -> None:
    """Add the commands to the application."""
    app.command()(outliers)
    app.command()(cluster)


def outliers(
    where: options.Input,
    model: options.Trained = None,
    table: options.Table = None,
    distance: Annotated[
        str,
        typer.Option(
            help="features: unlike the others in any way; orthogonal: far from the subspace."
        ),
    ] = "features",
    top: Annotated[int, typer.Option(min=0, help="How many to print.")] = 20,
    contamination: Annotated[
        float | None, typer.Option(help="Share of outliers to flag, if it is known.")
    ] = None,
    ranks: options.Ranks = "0.95",
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List the samples from the most unusual on.

    Example: corrtensor outliers faces --csv outliers.csv
    """
    voice = Voice(as_json, quiet)
    chosen, shape = options.parse_ranks(ranks), options.parse_size(size)
    if distance not in ("features", "orthogonal"):
        raise typer.BadParameter(f"--distance {distance}: use features or orthogonal")
    if contamination is not None and not 0 < contamination <= 0.5:
        raise typer.BadParameter(f"--contamination {contamination}: a share lies in (0, 0.5]")
    with exit_codes(voice), claimed(table, inputs=[where, model]):
        subspace = None if model is None else load_model(model)
        stack = open_stack(voice, where, shape, colour, axis)
        if subspace is not None:
            check_shape(str(model), subspace, stack, where)
        detector = detector_of(subspace, chosen, distance, contamination)
        if subspace is None or not hasattr(subspace, "offset_"):
            fit_with_progress(voice, "fitting", detector, samples_of(stack))
        scores = detector.score_samples(samples_of(stack))
        say_outliers(voice, stack, scores, detector.offset_, table, top)


def detector_of(subspace: Any, ranks: Any, distance: str, contamination: float | None) -> Any:
    """Return a detector: the loaded one, or one with the loaded or a new subspace."""
    from sklearn.frozen import FrozenEstimator

    from corrtensor.corr_tensor import CorrTensor
    from corrtensor.tasks import TensorOutlierDetector

    if hasattr(subspace, "offset_"):
        return subspace
    inner = CorrTensor(ranks) if subspace is None else FrozenEstimator(subspace)
    return TensorOutlierDetector(
        None if subspace is None and ranks == 0.95 else inner,
        contamination="auto" if contamination is None else contamination,
        distance=distance,
    )


def say_outliers(
    voice: Voice, stack: "Stack", scores: Any, offset: float, table: Path | None, top: int
) -> None:
    """Print the most unusual samples, and write all of them."""
    order = scores.argsort(kind="stable").tolist()
    rows = [
        (place, k, name_of(stack, k), float(f"{-scores[k]:.6g}"), int(scores[k] < offset))
        for place, k in enumerate(order, start=1)
    ]
    if table is not None:
        table_writer(table, ("rank", "sample", "name", "distance", "outlier"), rows)
    flagged = sum(row[-1] for row in rows)
    first = [
        {"rank": r, "sample": k, "name": n, "distance": -float(scores[k]), "outlier": bool(f)}
        for r, k, n, _, f in rows[:top]
    ]
    record = {
        "n_samples": len(rows),
        "n_outliers": flagged,
        "cut": -offset,
        "samples": first,
        "csv": None if table is None else str(table),
        "skipped": [{"name": entry.name, "reason": entry.reason} for entry in stack.skipped],
    }
    lines = [f"{flagged} of {len(rows)} samples are outliers (distance above {-offset:.4g})"]
    lines += [
        f"{r:4d}  {'*' if f else ' '}  {d:>10.6g}  {printable(n)}" for r, k, n, d, f in rows[:top]
    ]
    if table is not None:
        lines.append(f"All samples: {table}")
    voice.result(record, *lines)


def cluster(
    where: options.Input,
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=1, help="How many.")] = 8,
    model: options.Trained = None,
    table: options.Table = None,
    out: Annotated[
        str | None, typer.Option("-o", "--out", help="Model file to write the clusters to.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Source of the random starts.")] = 0,
    ranks: options.Ranks = "0.95",
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put samples into clusters that outliers do not move.

    Example: corrtensor cluster faces -k 10 --csv clusters.csv
    """
    voice = Voice(as_json, quiet)
    chosen, shape = options.parse_ranks(ranks), options.parse_size(size)
    with exit_codes(voice), claimed(table, out, inputs=[where, model]):
        loaded = None if model is None else load_model(model, "transform")
        stack = open_stack(voice, where, shape, colour, axis)
        if loaded is not None:
            check_shape(str(model), loaded, stack, where)
        found = clusters_of(loaded, chosen, clusters, seed)
        fit_with_progress(voice, "clustering", found, samples_of(stack))
        if out is not None:
            from corrtensor.storage import save

            save(found, out)
        say_clusters(voice, stack, found, table, out)


def clusters_of(subspace: Any, ranks: Any, count: int, seed: int) -> Any:
    """Return unfitted clusters on a new subspace, or on a loaded one as it is."""
    from sklearn.frozen import FrozenEstimator

    from corrtensor.corr_tensor import CorrTensor
    from corrtensor.tasks import DensityPeaksKMeans

    inner = CorrTensor(ranks) if subspace is None else FrozenEstimator(subspace)
    return DensityPeaksKMeans(count, subspace=inner, random_state=seed)


def say_clusters(
    voice: Voice, stack: "Stack", found: Any, table: Path | None, out: str | None
) -> None:
    """Print the sizes of the clusters, and write who is in which."""
    import numpy as np

    labels = found.labels_
    if table is not None:
        rows = [
            (k, name_of(stack, k), int(labels[k]), float(f"{found.weights_[k]:.6g}"))
            for k in range(len(labels))
        ]
        table_writer(table, ("sample", "name", "cluster", "weight"), rows)
    sizes = np.bincount(labels, minlength=found.n_clusters).tolist()
    record: dict[str, Any] = {
        "n_samples": len(labels),
        "sizes": sizes,
        "labels": labels,
        "inertia": found.inertia_,
        "csv": None if table is None else str(table),
        "model": out,
    }
    lines = [f"cluster {k}: {size} samples" for k, size in enumerate(sizes)]
    if stack.labels is not None:
        from corrtensor.metrics import clustering_accuracy

        record["accuracy"] = clustering_accuracy(stack.labels, labels)
        lines.append(f"agreement with the labels: {record['accuracy']:.3f}")
    lines += [f"All samples: {table}"] if table is not None else []
    lines += [f"Model: {out}"] if out is not None else []
    voice.result(record, *lines)
