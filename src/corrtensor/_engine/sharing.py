"""What fits of the same samples with other ranks have in common: made once, kept by the source."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

from corrtensor._engine.arrays.source import Source

Made = TypeVar("Made")


def shared(memory: dict[Any, Any] | None, make: Callable[[], Source]) -> Source:
    """Return the source of all fits that share a memory; without one, a source of its own."""
    if memory is None:
        return make()
    source: Source = memory.get("source") or make()
    source.memory, memory["source"] = memory, source
    return source


def once(source: Source, name: Hashable, make: Callable[[], Made]) -> Made:
    """Return what was made by this name before, if the source remembers; else make it."""
    if source.memory is None:
        return make()
    if name not in source.memory:
        source.memory[name] = make()
    made: Any = source.memory[name]
    return made


def mark(weights: np.ndarray | None) -> bytes | None:
    """Return a name for weights: another for others."""
    return None if weights is None else weights.tobytes()
