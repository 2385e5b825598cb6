"""Dask arrays, as far as every layer must know them: chunks of samples, and methods by chunks.

Nothing here imports Dask unless it is given a Dask array.
"""

import math
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from corrtensor._base.extras import need
from corrtensor._base.warn import warn
from corrtensor._engine.arrays.disk import check_output
from corrtensor._engine.containers import opened

# What a fitted estimator knows of every sample it was fitted to, and how its output is to be
# wrapped: workers need none of it.
LEFT_HERE = {"weights_", "residuals_", "outlier_scores_", "labels_", "diagnostics_"}
LEFT_HERE |= {"decision_graph_", "_stream"}
LEFT_HERE |= {"_sklearn_output_config", "callback"}


def require(name: str) -> Any:
    """Import a module that comes with Dask."""
    return need(name, "dask", "a Dask array")


def is_dask(X: Any) -> bool:
    """Tell whether ``X`` is a Dask array."""
    return type(X).__module__.split(".")[0] == "dask" and hasattr(X, "to_delayed")


def merged(X: Any) -> Any:
    """Return a Dask array that is cut along the samples alone."""
    if any(map(math.isnan, X.shape)):
        raise ValueError(
            f"X has chunks of unknown size, its shape is {X.shape}; call X.compute_chunk_sizes()"
        )
    whole = tuple((a,) for a in X.shape[1:])
    if X.chunks[1:] == whole:
        return X
    warn(
        f"X is cut along other axes than the samples', {X.numblocks[1:]} times: the pieces are "
        f"merged, and up to {X.nbytes / 1e6:.0f} MB move between workers each time they are read; "
        "X.rechunk((n, " + "-1, " * (X.ndim - 2) + "-1)), stored, avoids that",
    )
    return X.rechunk((X.chunks[0], *whole))


def by_chunks(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of a fitted estimator take Dask arrays and the containers of other libraries.

    What it returns is of the same kind; of Dask arrays, lazy. The method must treat samples one
    by one. It is asked about a single sample of zeros first, which tells the shape and the type
    of what it returns, and checks the shape of the samples.
    """

    @wraps(method)
    def wrapped(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        given = opened(X, self, method.__name__)
        out = args[0] if args else kwargs.get("out")
        X = given.X
        if not is_dask(X):
            made = method(self, X, *args, **kwargs)
            return made if out is not None else given.back(made, method.__name__)
        check_is_fitted(self)
        X = merged(X)
        one = method(self, np.zeros((1, *X.shape[1:]), X.dtype))
        lazy = X.map_blocks(
            _call,
            require("dask").delayed(slim(self), traverse=False),
            method.__name__,
            dtype=one.dtype,
            drop_axis=list(range(1, X.ndim)),
            new_axis=list(range(1, one.ndim)),
            chunks=(X.chunks[0], *((k,) for k in one.shape[1:])),
            meta=one[:0],
        )
        return given.back(lazy, method.__name__) if out is None else _stored(lazy, out)

    return wrapped


def slim(model: Any) -> Any:
    """Return a copy of a fitted estimator for the workers: one thread, nothing per sample."""
    if isinstance(model, list):
        return [slim(entry) for entry in model]
    if not isinstance(model, BaseEstimator):
        return model
    few = copy(model)
    few.__dict__ = {k: slim(v) for k, v in vars(model).items() if k not in LEFT_HERE}
    if hasattr(few, "n_jobs"):
        few.n_jobs = 1
    return few


def _call(x: np.ndarray, model: Any, name: str, block_info: Any = None) -> Any:
    """Call a method on one chunk."""
    try:
        if not len(x):
            return getattr(model, name)(np.zeros((1, *x.shape[1:]), x.dtype))[:0]
        return getattr(model, name)(x)
    except (ValueError, OSError) as error:
        lo, hi = block_info[0]["array-location"][0] if block_info else (0, len(x))
        raise type(error)(f"in the chunk of samples {lo} to {hi - 1}: {error}") from error


class Closable:
    """An output that can be closed: threads of Dask run on for a while after one has failed.

    In another process it is the output itself.
    """

    def __init__(self, out: Any) -> None:
        self.out, self.lock, self.closed = out, threading.Lock(), False

    def __setitem__(self, at: Any, rows: Any) -> None:
        with self.lock:
            if not self.closed:
                self.out[at] = rows

    def __reduce__(self) -> Any:
        return _itself, (self.out,)

    def __dask_tokenize__(self) -> int:
        return id(self)

    def close(self) -> None:
        """Wait for what is being written, and take nothing more."""
        with self.lock:
            self.closed = True


def _itself(out: Any) -> Any:
    return out


def _stored(lazy: Any, out: Any) -> Any:
    """Compute a Dask array into another array; NaN everywhere if that fails."""
    check_output(out, lazy.shape, lazy.dtype)
    target = Closable(out)
    try:
        lazy.store(target, lock=True)
    except BaseException as error:
        target.close()
        with suppress(Exception):
            lo = 0
            for n in lazy.chunks[0]:
                out[lo : lo + n] = np.nan
                lo += n
        error.add_note("The output is not complete; it has been filled with NaN.")
        raise
    return out
