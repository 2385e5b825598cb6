"""A block of samples beside what is expected of them, with the weights of their cells."""

from typing import NamedTuple

import numpy as np


def clear(T: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Put zero, in place: by bits, much faster than by a mask, and NaN is no obstacle."""
    bits = T.view(f"i{T.itemsize}")
    np.bitwise_and(bits, where.view(np.int8) - 1, out=bits)
    return T


def whole(x: np.ndarray) -> np.ndarray:
    """Return zero in the place of NaN."""
    return clear(x.copy(), np.isnan(x))


class Block(NamedTuple):
    """Samples and what is expected of them.

    ``moved`` is what the completed samples are away from it, ``weights`` the mean weight of a
    sample's cells, ``spread`` how many times as far as usual they stray. ``doubted`` are the places
    of the cells of less than full weight in the flattened block, ``trust`` the weights there.
    """

    moved: np.ndarray
    weights: np.ndarray
    spread: np.ndarray
    expected: np.ndarray
    missing: np.ndarray
    doubted: np.ndarray
    trust: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """How many cells of each sample are missing."""
        return np.count_nonzero(self.missing.reshape(len(self.missing), -1), axis=1)

    @property
    def x(self) -> np.ndarray:
        """The completed samples."""
        return self.expected + self.moved

    @property
    def cell_weights(self) -> np.ndarray:
        """The weight of every cell."""
        V = (~self.missing).astype(self.moved.dtype)
        V.reshape(-1)[self.doubted] = self.trust
        return V


def repaired(x: np.ndarray, block: Block) -> np.ndarray:
    """Return samples with doubted cells moved to where they are expected, and missing ones put."""
    y = np.where(block.missing, block.expected, x)
    cells, F = y.reshape(-1), block.expected.reshape(-1)[block.doubted]
    cells[block.doubted] = F + block.trust * (cells[block.doubted] - F)
    return y
