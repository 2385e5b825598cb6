"""Samples in the containers of other libraries: xarray, pandas, and arrays that speak DLPack.

What they hold goes in, and what comes out goes back into the same kind. Axis 0 counts the samples
in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from corrtensor._engine.labels import BY_CELL, Labels, is_xarray, open_xarray


@dataclass(frozen=True)
class Opened:
    """Samples as an array that the estimators read, and how a method's result goes back."""

    X: Any
    back: Callable[[Any, str], Any]
    labels: Labels | None = None


def opened(X: Any, estimator: Any = None, method: str = "") -> Opened:
    """Open a container, for a method of an estimator; for ``fit``, whatever it knew before.

    ``back(value, method)`` puts what the method returns into the same kind of container.
    """
    if is_xarray(X):
        named = open_xarray(X, estimator, method)
        return Opened(named.values, named.back, named.labels)
    if hasattr(X, "to_dask_array"):
        raise TypeError("X is a table of Dask: give X.to_dask_array(lengths=True)")
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return Opened(X, lambda value, name: like_table(X, value) if name in BY_CELL else value)
    if hasattr(X, "__dlpack__") and not isinstance(X, np.ndarray | np.generic):
        return open_foreign(X)
    return Opened(X, lambda value, _: value)


def bare(X: Any, estimator: Any = None, method: str = "") -> Any:
    """Return what a container holds, samples along axis 0; anything else as it is."""
    return opened(X, estimator, method).X


def like_table(X: Any, values: Any) -> Any:
    """Return values, one for each cell of a table of pandas, as such a table."""
    if np.shape(values) != X.shape:
        return values
    return type(X)(values, index=X.index, columns=X.columns)


def open_foreign(X: Any) -> Opened:
    """Open an array of another library without a copy; what comes back is one of it too."""
    library = import_module(type(X).__module__.split(".")[0])
    space = X.__array_namespace__() if hasattr(X, "__array_namespace__") else library
    try:
        # A tensor that collects gradients does not show its numbers; no gradient passes here.
        values = np.from_dlpack(X.detach() if hasattr(X, "detach") else X)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"X is a {library.__name__} array that NumPy cannot see ({error}): "
            "move it to the CPU, as numbers of at most 64 bits"
        ) from error

    def back(value: Any, method: str) -> Any:
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fiub"
        return space.from_dlpack(value) if numbers else value

    return Opened(values, back)
