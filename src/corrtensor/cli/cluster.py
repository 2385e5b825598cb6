"""The command that puts samples into clusters."""

from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor.cli import claims, options, steps
from corrtensor.cli.output import Voice, exit_codes


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
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put samples into clusters that outliers do not move.

    Example: corrtensor cluster faces -k 10 --csv clusters.csv
    """
    voice = Voice(as_json, quiet)
    chosen, shape = options.parse_ranks(ranks), options.parse_size(size)
    with exit_codes(voice), claims.claimed(table, out, inputs=[where, model], force=force):
        loaded = None if model is None else steps.load_model(model, "transform")
        stack = steps.open_stack(voice, where, shape, colour, axis, like=loaded)
        if loaded is not None:
            steps.check_shape(str(model), loaded, stack, where)
        found = clusters_of(loaded, chosen, clusters, seed)
        steps.fit_with_progress(voice, "clustering", found, steps.samples_of(stack))
        steps.save_model(found, out)
        say_clusters(voice, stack, found, table, out)


def clusters_of(subspace: Any, ranks: Any, count: int, seed: int) -> Any:
    """Return unfitted clusters on a new subspace, or on a loaded one as it is."""
    from sklearn.frozen import FrozenEstimator

    from corrtensor.corr_tensor import CorrTensor
    from corrtensor.tasks import DensityPeaksKMeans

    inner = CorrTensor(ranks) if subspace is None else FrozenEstimator(subspace)
    return DensityPeaksKMeans(count, subspace=inner, random_state=seed)


def say_clusters(
    voice: Voice, stack: "steps.Stack", found: Any, table: Path | None, out: str | None
) -> None:
    """Print the sizes of the clusters, and write who is in which."""
    import numpy as np

    labels = found.labels_
    if table is not None:
        rows = [
            (k, steps.name_of(stack, k), int(labels[k]), float(f"{found.weights_[k]:.6g}"))
            for k in range(len(labels))
        ]
        steps.write_table(table, ("sample", "name", "cluster", "weight"), rows)
    sizes = np.bincount(labels, minlength=found.n_clusters).tolist()
    record: dict[str, Any] = {
        "n_samples": len(labels),
        "sizes": sizes,
        "labels": labels,
        "inertia": found.inertia_,
    }
    lines = [f"cluster {k}: {size} samples" for k, size in enumerate(sizes)]
    if stack.labels is not None:
        from corrtensor.metrics import clustering_accuracy

        record["accuracy"] = clustering_accuracy(stack.labels, labels)
        lines.append(f"agreement with the labels: {record['accuracy']:.3f}")
    voice.result(record, *lines, csv=table, model=out)
