"""Samples as a task looks at them: in their own shape, block by block, or some that count."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from corrtensor._engine.arrays.dask_lazy import is_dask
from corrtensor._engine.arrays.source import plain
from corrtensor._engine.containers import bare
from corrtensor._engine.shapes import check_finite, is_on_disk, numbers_of, refuse_infinite

# Most samples that are drawn, and the bytes they may take; so many are drawn in any case.
DRAWN, DRAWN_BYTES, FEWEST_DRAWN = 2000, 1 << 27, 100


def in_shape(X: Any, shape: tuple[int, ...]) -> Any:
    """Return samples that have been checked in their own shape."""
    X = bare(X)
    if is_dask(X) or is_on_disk(X):
        return X
    X = numbers_of(X)
    return X.reshape(len(X), *shape)


def blocks_of(
    X: Any, shape: tuple[int, ...], block_size: int | None = None, *, missing: bool = False
) -> Iterator[np.ndarray]:
    """Yield blocks of samples in double precision; NaN is an error unless cells may be missing."""
    X = in_shape(X, shape)
    source = plain(X, block_size=block_size)
    for lo, _, x in source.blocks(0, source.n_samples):
        (refuse_infinite if missing else check_finite)(x, first=lo)
        yield x.astype(np.float64, copy=False)


def draw(
    X: Any, shape: tuple[int, ...], weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return some of the samples that count, in double precision, and their numbers."""
    X = in_shape(X, shape)
    counting = np.flatnonzero(np.ones(X.shape[0]) if weights is None else weights >= 0.5)
    counting = counting if len(counting) > 1 else np.arange(X.shape[0])
    most = min(DRAWN, max(FEWEST_DRAWN, DRAWN_BYTES // (8 * math.prod(shape))))
    numbers = counting[
        np.unique(np.linspace(0, len(counting) - 1, min(len(counting), most)).astype(int))
    ]
    if is_dask(X):
        x = np.asarray(X[numbers].compute(), dtype=np.float64)
        check_finite(x, at=numbers)
        return x, numbers
    return plain(X).take(numbers), numbers
