"""Arrays in memory, on disk and in Dask: samples as blocks."""

from typing import Any

from corrtensor._engine.arrays.dask import DaskSource
from corrtensor._engine.arrays.dask_lazy import is_dask
from corrtensor._engine.arrays.source import Source

__all__ = ["source_of"]


def source_of(X: Any, **options: Any) -> Source:
    """Return the source that reads ``X``, with the options of :class:`Source`."""
    return DaskSource(X, **options) if is_dask(X) else Source(X, **options)
