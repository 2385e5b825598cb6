"""Steps of several commands: samples are opened, models fitted, loaded and saved, tables written.

Also what is said of models and samples that do not go together, and names and shapes in words.
"""

import csv
import io
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrtensor._base.names import printable
from corrtensor.cli.output import Voice

if TYPE_CHECKING:
    import numpy as np

    from corrtensor.io import Stack as Stack

BLOCK_BYTES = 1 << 24
# So many samples tell how much they differ, and so many times less is hardly.
ENOUGH, HARDLY = 5, 10


def open_stack(
    voice: Voice,
    where: str,
    size: tuple[int, int] | None = None,
    colour: bool | None = None,
    axis: int = 0,
    missing: float | None = None,
    like: Any = None,
) -> "Stack":
    """Open samples, and list what had to be left out; ``missing`` reads as NaN.

    Pictures are read at the size of the samples of a model, or stack, that they shall be ``like``.
    """
    from corrtensor._base.gaps import Gapped, check_missing_values
    from corrtensor.io import open_samples
    from corrtensor.io.opening import is_zarr

    shape: Any = getattr(like, "shape", ())[1:]
    known: Any = getattr(like, "sample_shape_", shape)
    pictures = os.path.isdir(where) and not is_zarr(Path(where))
    if pictures and known[2:] in ((), (3,)) and len(known) > 1:
        size, colour = size or known[:2], len(known) == 3 if colour is None else colour
    with voice.progress("reading images") as update:
        stack = open_samples(where, size=size, colour=colour, axis=axis, progress=update)
    if stack.note:
        voice.note(stack.note)
    voice.list_skipped(stack.skipped, len(stack))
    if missing is None:
        return stack
    try:
        check_missing_values(missing, stack.dtype)
    except ValueError:
        raise ValueError(
            f"--missing {missing:.12g} cannot occur in {where}, which holds {stack.dtype}"
        ) from None
    if stack.dtype.kind in "iu" and not any(
        (block == missing).any() for block in blocks(voice, "missing cells", stack)
    ):
        voice.note(f"--missing {missing:.12g} occurs nowhere in {where}: no cell is missing")
    return replace(stack, array=Gapped(stack.array, missing))


def stored(stack: "Stack") -> Any:
    """Return the array as it lies in its file, however it is looked at, but for its unit."""
    from corrtensor._base.gaps import Scaled

    array = stack.array
    while hasattr(array, "array") and not isinstance(array, Scaled):
        array = array.array
    return array


def samples_of(stack: "Stack") -> Any:
    """Return what an estimator takes: an array as it is, anything else as the stack."""
    import numpy as np

    return stack.array if isinstance(stack.array, np.ndarray) else stack


def fit_with_progress(voice: Voice, label: str, model: Any, X: Any, *more: Any) -> float:
    """Fit a model, show its sweeps if it tells them, and return the seconds it took."""
    began = time.perf_counter()
    params = model.get_params()
    watched = [name for name in params if name.rpartition("__")[2] == "callback"]
    with voice.progress(label) as update:

        def watch(sweep: int, *_: Any, **__: Any) -> None:
            update(sweep, params.get("max_iter"))

        model.set_params(**dict.fromkeys(watched, watch))
        try:
            model.fit(X, *more)
        finally:
            model.set_params(**dict.fromkeys(watched))
    return time.perf_counter() - began


def load_model(path: str, *needs: str) -> Any:
    """Load a model file whose model has the given methods."""
    from corrtensor.storage import load

    model = load(path)
    missing = [name for name in needs if not hasattr(model, name)]
    if missing:
        raise ValueError(
            f"{path} holds a {type(model).__name__}, which cannot {missing[0].replace('_', ' ')}"
        )
    return model


def save_model(model: Any, path: str | None) -> None:
    """Write a model file, if one is wanted."""
    from corrtensor.storage import save

    if path is not None:
        save(model, path)


def note_foreign(voice: Voice, path: str, model: Any, stack: "Stack") -> None:
    """Say so if a model explains none of the samples looked at, or they hardly differ beside its.

    The subspace explains dark pictures of any kind.
    """
    import numpy as np
    from sklearn.frozen import FrozenEstimator

    from corrtensor._engine.arrays.origin import choose_pilots
    from corrtensor.tasks._subspace import sample_weights

    some = choose_pilots(len(stack), tuple(stack.shape[1:]))
    rows = np.stack([np.asarray(stack[i : i + 1])[0] for i in some.tolist()])
    weights = sample_weights(FrozenEstimator(model), rows, as_known=True)
    if weights is not None and (weights < 0.5).all():
        voice.note(
            f"{path} explains none of {len(some)} samples: are they of another kind than those "
            "it was fitted to, or in other units?"
        )
        return
    cores = np.asarray(model.transform(rows)).reshape(len(rows), -1)
    there, here = float(np.sum(getattr(model, "explained_variance_", 0))), cores.var(axis=0).sum()
    if len(rows) >= ENOUGH and 0 < here < there / HARDLY**2:
        voice.note(
            f"the samples differ {math.sqrt(there / here):.0f} times less from each other than "
            f"those that {path} was fitted to: are they in other units?"
        )


def check_shape(path: str, model: Any, stack: "Stack", where: str) -> None:
    """Raise a ``ValueError`` unless the samples have the shape of the model's."""
    wanted = getattr(model, "sample_shape_", None)
    if wanted is not None and tuple(stack.shape[1:]) != tuple(wanted):
        raise ValueError(
            f"{where} has samples of shape {times(stack.shape[1:])}; "
            f"the model in {path} is one of samples of shape {times(wanted)}"
        )


def blocks(voice: Voice, label: str, stack: "Stack") -> Iterator["np.ndarray"]:
    """Yield the samples in blocks, with a bar."""
    step = max(1, BLOCK_BYTES // (stack.dtype.itemsize * math.prod(stack.shape[1:])))
    with voice.progress(label) as update:
        for lo in range(0, len(stack), step):
            yield stack[lo : lo + step]
            update(min(lo + step, len(stack)), len(stack))


def name_of(stack: "Stack", k: int) -> str:
    """Return the name of a sample: its file, or its number."""
    return stack.names[k] if stack.names is not None else str(k)


def named(names: Sequence[str]) -> str:
    """Return the first names of a list behind a colon; nothing if there are none."""
    first = ", ".join(printable(name) for name in names[:5])
    return f": {first}{', ...' if len(names) > 5 else ''}" if names else ""


def times(shape: Sequence[int]) -> str:
    """Return a shape in words: ``64 x 64``."""
    return " x ".join(map(str, shape))


def write_table(path: str | Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table as CSV; the file appears when it is whole.

    Text is written as :func:`corrtensor._base.names.cell` writes names; numbers are numbers.
    """
    from corrtensor._base.files import replacing
    from corrtensor._base.names import cell

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([cell(value) if isinstance(value, str) else value for value in row])
    with replacing(path) as file:
        file.write(text.getvalue().encode("utf-8"))
