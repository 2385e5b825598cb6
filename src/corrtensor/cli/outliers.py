"""Which samples are odd, and why; and what to do with their files: outliers, restore."""

from pathlib import Path
from typing import Annotated, Any

import typer

from corrtensor._base.names import printable
from corrtensor.cli import claims, options, steps
from corrtensor.cli.output import Voice, exit_codes

# Different samples from which something can be said at all, and with some confidence.
FEWEST, FEW = 3, 20
USUAL = "0.95"
COLUMNS = ("rank", "sample", "name", "score", "outlier", "reason")


def outliers(
    where: options.Input,
    model: options.SeenBy = None,
    table: options.Table = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with the pictures, .html.")
    ] = None,
    copy_to: Annotated[
        Path | None, typer.Option(help="Copy the outliers' files into this folder.")
    ] = None,
    move_to: Annotated[
        Path | None,
        typer.Option(help="Move them there, with a manifest that corrtensor restore undoes."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many to print.")] = 20,
    contamination: Annotated[
        float | None, typer.Option(help="Share of outliers to flag, if it is known.")
    ] = None,
    ranks: options.Ranks = USUAL,
    cells: Annotated[bool, typer.Option("--cells", help="Bad pixels make no sample odd.")] = False,
    missing: options.Missing = None,
    size: options.Size = None,
    colour: options.Colour = None,
    axis: options.Axis = 0,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """List the samples from the most unusual on, with the reason; and which are copies.

    Example: corrtensor outliers faces --csv outliers.csv --report outliers.html
    """
    voice = Voice(as_json, quiet)
    options.refuse_beside(model, ranks=ranks != USUAL, cells=cells)
    chosen, shape = (options.parse_ranks(ranks), cells), options.parse_size(size)
    if contamination is not None and not 0 < contamination <= 0.5:
        raise typer.BadParameter(f"--contamination {contamination}: a share lies in (0, 0.5]")
    if copy_to is not None and move_to is not None:
        raise typer.BadParameter("--copy-to and --move-to: one of the two")
    if (copy_to or move_to) is not None and not Path(where).is_dir():
        raise typer.BadParameter(f"{where} is no folder: there are no files to copy or move")
    with exit_codes(voice), claims.claimed(table, report, inputs=[where, model], force=force):
        subspace = None if model is None else steps.load_model(model)
        stack = steps.open_stack(voice, where, shape, colour, axis, missing, like=subspace)
        if subspace is not None:
            steps.check_shape(str(model), subspace, stack, where)
        detector, ranking = ranking_of(voice, subspace, chosen, contamination, stack)
        names = [steps.name_of(stack, k) for k in range(len(stack))]
        said = [(k, names[k], why) for k, why in enumerate(ranking.words(names))]
        rows = [
            (place, *said[k][:2], float(f"{ranking.scores[k]:.6g}"), int(ranking.flagged[k]),
             said[k][2])
            for place, k in enumerate(ranking.order.tolist(), start=1)
        ]  # fmt: skip
        if table is not None:
            skipped = [("", "", s.name, "", "", f"skipped: {s.reason}") for s in stack.skipped]
            steps.write_table(table, COLUMNS, [*rows, *skipped])
        if report is not None:
            write_report(voice, report, detector, ranking, stack, where)
        files = {"csv": table, "report": report}
        files |= act(Path(where), [r[2] for r in rows if r[4]], copy_to, move_to)
        tell(voice, rows[:top], ranking, names, stack, files)


def ranking_of(
    voice: Voice, subspace: Any, chosen: tuple[Any, bool], share: float | None, stack: "steps.Stack"
) -> tuple[Any, Any]:
    """Return a detector, loaded or fitted to the samples, and what it says of them.

    ``chosen`` are ranks, and whether cells may be bad.
    """
    import numpy as np
    from sklearn.frozen import FrozenEstimator

    from corrtensor.corr_tensor import CorrTensor
    from corrtensor.tasks import TensorOutlierDetector, find_duplicates
    from corrtensor.tasks.ranking import rank_samples

    X = steps.samples_of(stack)
    if all(np.isnan(X[k : k + 1]).all() for k in range(len(stack))):
        raise ValueError(f"all {len(stack)} samples are empty: every cell is NaN")
    copies = find_duplicates(X)
    if hasattr(subspace, "offset_"):
        return subspace, rank_samples(subspace, X, copies, own=False)
    distinct = len(stack) - sum(map(len, copies.groups)) + len(copies.groups)
    if distinct < FEW:
        few = "sample is" if distinct == 1 else "samples are"
        voice.note(f"{distinct} different {few} few: hardly anything is known to be usual")
    if distinct < FEWEST and subspace is None:
        return None, rank_samples(None, X, copies)
    own = CorrTensor(chosen[0], cells=chosen[1]) if chosen != (0.95, False) else None
    detector = TensorOutlierDetector(
        own if subspace is None else FrozenEstimator(subspace),
        contamination="auto" if share is None else share,
    )
    steps.fit_with_progress(voice, "fitting", detector, X)
    return detector, rank_samples(detector, X, copies)


def write_report(
    voice: Voice, path: Path, detector: Any, ranking: Any, stack: "steps.Stack", where: str
) -> None:
    """Write the page with the pictures."""
    from corrtensor.report.outlier_page import write_outlier_page

    with voice.progress("writing the page"):
        write_outlier_page(
            path,
            detector,
            steps.samples_of(stack),
            ranking,
            names=stack.names,
            skipped=[(entry.name, entry.reason) for entry in stack.skipped],
            title=Path(where.partition("::")[0]).name,
        )


def act(
    folder: Path, names: list[str], copy_to: Path | None, move_to: Path | None
) -> dict[str, Path | None]:
    """Copy or move the outliers' files; return where they are."""
    from corrtensor.io.moving import copy_files, move_files

    if copy_to is not None:
        copy_files(folder, names, copy_to)
    manifest = None if move_to is None else move_files(folder, names, move_to)
    return {"copied_to": copy_to, "moved_to": move_to, "manifest": manifest}


def tell(
    voice: Voice,
    rows: list[Any],
    ranking: Any,
    names: list[str],
    stack: "steps.Stack",
    files: dict[str, Path | None],
) -> None:
    """Print the most unusual samples, the copies, and which files were written."""
    flagged, groups = int(ranking.flagged.sum()), ranking.duplicates.groups
    record = {
        "n_samples": len(names),
        "n_outliers": flagged,
        "cut": ranking.cut,
        "samples": [
            {**dict(zip(COLUMNS, row, strict=True)), "outlier": bool(row[4])} for row in rows
        ],
        "duplicates": [[names[k] for k in group] for group in groups],
        "skipped": [{"name": entry.name, "reason": entry.reason} for entry in stack.skipped],
    }
    lines = [f"{flagged} of {len(names)} samples are outliers (score above {ranking.cut:.4g})"]
    lines += [
        f"{place:4d}  {'*' if odd else ' '}  {score:>8.4g}  {printable(name)}"
        + (f"  ({printable(why)})" if why else "")
        for place, _, name, score, odd, why in rows
    ]
    if groups:
        copies = sum(map(len, groups)) - len(groups)
        said = f"{copies} {'copy' if copies == 1 else 'copies'}, in groups of the same picture"
        lines.append(said + (":" if rows else ""))
        lines += ["      " + ", ".join(printable(names[k]) for k in g) for g in groups[: len(rows)]]
    voice.result(record, *lines, **files)


def restore(
    manifest: Annotated[Path, typer.Argument(help="The manifest, in the folder moved to.")],
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Move files back that outliers --move-to has moved.

    Example: corrtensor restore odd/corrtensor-moved.jsonl
    """
    voice = Voice(as_json, quiet)
    with exit_codes(voice):
        from corrtensor.io.moving import restore as bring_back

        count = bring_back(manifest)
        voice.result({"n_restored": count}, f"{count} files are back where they were")
