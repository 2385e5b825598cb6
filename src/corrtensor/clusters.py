"""Work on a cluster: connect to one, and lay a stored array out in chunks for its workers."""

import logging
import math
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import numpy as np

from corrtensor._base.checks import require_count
from corrtensor._base.extras import need
from corrtensor._engine.arrays.dask_lazy import is_dask, require
from corrtensor._engine.arrays.disk import unmapped
from corrtensor._engine.containers import bare

__all__ = ["connect", "on_cluster", "spread"]

CHUNK_BYTES = 1 << 26
PATIENCE = 10.0


@contextmanager
def connect(cluster: str, *, timeout: float = PATIENCE) -> Iterator[Any]:
    """Compute on a cluster while inside a ``with`` block.

    Parameters
    ----------
    cluster : str
        ``"local:4"`` for four worker processes of one thread on this machine, started here and
        ended with the block; or the address of a running scheduler, ``"tcp://host:8786"``.
    timeout : float, default=10.0
        Seconds to wait for a scheduler.

    Yields
    ------
    client : distributed.Client
        What Dask computes with inside the block.

    Examples
    --------
    >>> from corrtensor.clusters import connect, spread
    >>> with connect("local:2") as client:  # doctest: +SKIP
    ...     model = ct.CorrTensor((20, 20)).fit(spread(zarr.open_array("big.zarr")))
    """
    match = re.fullmatch(r"local:([1-9][0-9]{0,3})", cluster)
    if match is None and not re.fullmatch(r"(tcp|tls|ucx|ws|wss)://.+", cluster):
        raise ValueError(
            f"cluster={cluster!r}: use 'local:4' for four processes here, "
            "or the address of a scheduler such as 'tcp://127.0.0.1:8786'"
        )
    distributed = require("distributed")
    if match is None:
        try:
            client = distributed.Client(cluster, timeout=timeout)
        except OSError as error:
            raise OSError(f"cluster={cluster!r}: no scheduler answers there: {error}") from None
        with client:
            yield client
        return
    local = distributed.LocalCluster(
        n_workers=int(match[1]),
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.ERROR,
    )
    with local, distributed.Client(local) as client:
        yield client


@contextmanager
def on_cluster(cluster: str | None, X: Any) -> Iterator[Any]:
    """Yield X as a cluster takes it while connected to one; without a cluster, X itself."""
    if cluster is None:
        yield X
        return
    with connect(cluster):
        yield spread(X)


def spread(X: Any, chunk_bytes: int = CHUNK_BYTES) -> Any:
    """Return an array as a Dask array in chunks of samples, read by whoever works on them.

    Parameters
    ----------
    X : array of shape (n_samples, ...)
        In memory or on disk: zarr, HDF5, memmap, or anything with slices along axis 0 that can be
        sent to another process. Files must be there for every worker, under the same name.
    chunk_bytes : int, default=67108864
        Size of a chunk, about: it holds whole stored chunks.

    Returns
    -------
    lazy : dask.array.Array
        Nothing of it has been read.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.clusters import spread
    >>> spread(np.zeros((100, 8, 8)), chunk_bytes=10 * 8 * 8 * 8).chunks[0]  # doctest: +SKIP
    (10, 10, 10, 10, 10, 10, 10, 10, 10, 10)
    """
    X = bare(X)
    if is_dask(X):
        return X
    require_count(chunk_bytes=chunk_bytes)
    shape, dtype = tuple(int(a) for a in X.shape), np.dtype(X.dtype)
    slices = X if type(X) is np.ndarray else sendable(X)
    stored = int(np.max((getattr(X, "chunks", None) or (1,))[0]))
    each = max(1, math.prod(shape[1:]) * dtype.itemsize)
    rows = max(stored, chunk_bytes // each // stored * stored, 1)
    return require("dask.array").from_array(
        slices,
        chunks=(min(rows, shape[0]), *shape[1:]),
        name=f"samples-{uuid4().hex}",
        meta=np.empty((0,) * len(shape), dtype),
    )


class Slices:
    """An array on disk that can be sent to another process and is opened there."""

    def __init__(self, X: Any) -> None:
        self.shape, self.dtype = tuple(X.shape), np.dtype(X.dtype)
        self.ndim = len(self.shape)
        file: Any = getattr(X, "file", None)
        self.place = (file.filename, X.name) if hasattr(file, "filename") else None
        self.X: Any = unmapped(X) if self.place is None else None

    def __getitem__(self, key: Any) -> np.ndarray:
        rows = key[0] if isinstance(key, tuple) else key
        if self.place is None:
            return np.asarray(self.X[rows])
        with need("h5py", "io", "an HDF5 file").File(self.place[0], "r") as file:
            return np.asarray(file[self.place[1]][rows])


def sendable(X: Any) -> Slices:
    """Return an array on disk as one that other processes can read."""
    slices = Slices(X)
    try:
        pickle.dumps(slices)
    except Exception as error:
        raise TypeError(
            f"{type(X).__name__} of shape {slices.shape} cannot be read by other processes "
            f"({error}); store it as .zarr, .h5 or .npy first"
        ) from error
    return slices
