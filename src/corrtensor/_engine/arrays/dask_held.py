"""Where the chunks of a Dask array are between passes: in memory if they fit, else in storage."""

import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from corrtensor._engine.arrays.dask_lazy import require

# Share of the free memory that held chunks may take.
HELD_SHARE = 0.5
# Values up to this size may be sent along with every chunk that needs them.
SMALL = 1 << 20


@dataclass(frozen=True, eq=False)
class Chunk:
    """A chunk that has not been read: the part of the graph that makes it.

    Called inside a task, it is read there, and if that fails it can say which one it was.
    """

    graph: dict[Any, Any]
    key: Any
    lo: int
    hi: int
    sample_shape: tuple[int, ...]

    def __call__(self) -> np.ndarray:
        """Read the chunk."""
        what = f"samples {self.lo} to {self.hi - 1}, the chunk {self.key},"
        try:
            x = np.asarray(require("dask").get(self.graph, self.key))
        except Exception as error:
            raise OSError(f"{what} could not be read: {error}") from error
        shape = (self.hi - self.lo, *self.sample_shape)
        if x.shape != shape:
            raise OSError(f"{what} came with shape {x.shape}, not {shape}")
        return x


@dataclass(frozen=True)
class Holding:
    """All chunks of an array: read before, to be read, or keys of a graph that makes them."""

    chunks: list[Any]
    graph: Mapping[Any, Any] = field(default_factory=dict)


def read(chunk: Any) -> np.ndarray:
    """Return the samples of a chunk, in memory or not."""
    return chunk() if isinstance(chunk, Chunk) else np.asarray(chunk)


def client_of() -> Any:
    """Return the client of the cluster that Dask would compute on, or ``None``."""
    if "distributed" not in sys.modules:
        return None
    get = require("dask.base").get_scheduler()
    client = getattr(get, "__self__", None)
    return client if hasattr(client, "scheduler_info") else None


def free_memory() -> float:
    """Return the bytes that chunks could take: of all workers, or of this machine."""
    client = client_of()
    if client is None:
        try:
            return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (ValueError, OSError, AttributeError):
            return 0.0
    free = 0.0
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        used = worker.get("metrics", {}).get("memory", 0)
        limit = worker.get("memory_limit") or np.inf
        free += max(0.0, limit - used)
    return free


def compute(graph: Mapping[Any, Any], keys: list[Any]) -> Any:
    """Compute keys of a graph by the scheduler that Dask would use; return their values."""
    get = require("dask.base").get_scheduler() or require("dask.threaded").get
    with warnings.catch_warnings():
        # Numbers of samples travel inside the graph, so that they survive the loss of a worker.
        warnings.filterwarnings("ignore", message="Sending large graph")
        return get(graph, keys)


def hold(X: Any) -> Holding:
    """Return the chunks of a Dask array: in memory if they fit, else to be read in every pass."""
    client = client_of()
    if ready := in_memory(X, client):
        return Holding(ready)
    chunks, fits = own_chunks(X), X.nbytes <= HELD_SHARE * free_memory()
    if chunks is None and fits:
        return Holding(in_memory(X.persist(), client))
    if chunks is None:
        # Chunks share work: Dask must order it.
        (X,) = require("dask").optimize(X)
        return Holding(keys_of(X), dict(X.__dask_graph__()))
    if not fits:
        return Holding(chunks)
    if client is not None:
        return Holding(client.map(read, chunks, pure=False))
    keys = [("load", i) for i in range(len(chunks))]
    return Holding(list(compute({k: (c,) for k, c in zip(keys, chunks, strict=True)}, keys)))


def in_memory(X: Any, client: Any) -> list[Any]:
    """Return the chunks that lie on the workers, or in this process if there are none; or []."""
    graph = X.__dask_graph__()
    values = [value_of(graph[k]) if k in graph else None for k in keys_of(X)]
    there = np.ndarray if client is None else require("distributed").Future
    return values if all(isinstance(value, there) for value in values) else []


def value_of(node: Any) -> Any:
    """Return the value that a node of a graph holds, or the node itself."""
    return getattr(node, "value", node)


def own_chunks(X: Any) -> list[Chunk] | None:
    """Return the chunks with the graph of each, or ``None`` if they share work."""
    (X,) = require("dask").optimize(X)
    graph, keys = dict(X.__dask_graph__()), keys_of(X)
    dependencies = require("dask.core").get_dependencies
    owner: dict[Any, Any] = {}
    chunks = []
    for key, (lo, hi) in zip(keys, pairwise(accumulate(X.chunks[0], initial=0)), strict=True):
        part, todo = {}, [key]
        while todo:
            node = todo.pop()
            shared = owner.setdefault(node, key) != key
            if is_future(graph[node]) or (shared and not may_be_copied(graph[node])):
                return None
            part[node] = graph[node]
            todo += [k for k in dependencies(graph, node) if k not in part]
        chunks.append(Chunk(part, key, lo, hi, X.shape[1:]))
    return chunks


def is_future(node: Any) -> bool:
    """Tell whether a node stands for something that lies on a cluster."""
    return type(value_of(node)).__module__.split(".")[0] == "distributed"


def may_be_copied(node: Any) -> bool:
    """Tell whether a node is no work but a small value, such as an open file."""
    if callable(node) and not hasattr(node, "value"):
        return False
    value = value_of(node)
    return not isinstance(value, tuple) and not (
        isinstance(value, np.ndarray) and value.nbytes > SMALL
    )


def keys_of(X: Any) -> list[Any]:
    """Return the keys of all chunks in one list."""
    return list(require("dask.core").flatten(X.__dask_keys__()))
