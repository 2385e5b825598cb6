"""Samples at a small size, and which of them are alike."""

import math
from functools import lru_cache

import numpy as np

# Samples are compared at a size of at most this in each of the first two modes.
VIEW = 32
# A correlation above this is that of a sample with itself, or with a copy.
ITSELF = 1 - 1e-5
# The likes of a sample, and the closest of these.
LIKES, CLOSEST = 10, 5
# Turns, in right angles, by which a picture may have got into a wrong position.
TURNS = (1, 2, 3)


def is_picture(shape: tuple[int, ...]) -> bool:
    """Tell whether samples of a shape can be looked at: rows, columns, and perhaps colours."""
    return len(shape) == 2 or (len(shape) == 3 and shape[2] <= 4)


def turns(small: np.ndarray) -> tuple[int, ...]:
    """Return by how many right angles samples are turned: only pictures are."""
    return TURNS if is_picture(small.shape[1:]) and min(small.shape[1:3]) > 1 else ()


def turn(x: np.ndarray, k: int) -> np.ndarray:
    """Turn pictures by right angles; those that are not square keep their shape."""
    a, b = x.shape[1:3]
    y = np.rot90(x, k, axes=(1, 2))
    rows = np.arange(a) * y.shape[1] // a
    return y[:, rows][:, :, np.arange(b) * y.shape[2] // b]


def view(x: np.ndarray, most: int = VIEW) -> np.ndarray:
    """Return samples at a small size: means over equal parts of each of the first two modes."""
    for mode in (1, 2):
        if mode < x.ndim and x.shape[mode] > most:
            x = np.moveaxis(np.tensordot(x, means(x.shape[mode], most), axes=(mode, 1)), -1, mode)
    return x


@lru_cache(16)
def means(size: int, count: int) -> np.ndarray:
    """Return the matrix that takes means over so many equal parts, which may cut entries."""
    edges = np.linspace(0, size, count + 1)
    entries = np.arange(size)
    ends = np.minimum(edges[1:, None], entries + 1) - np.maximum(edges[:-1, None], entries)
    return np.maximum(ends, 0) * (count / size)


def normalised(x: np.ndarray) -> np.ndarray:
    """Return samples as vectors of mean zero and norm one; constant ones become zero."""
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    flat = flat - flat.mean(axis=1, keepdims=True)
    largest = np.abs(flat).max(axis=1, keepdims=True)
    flat /= np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    return flat / np.where(norms > 0, norms, 1)


def correlations(x: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the correlations of samples with references; with itself, -1."""
    C = normalised(x) @ references.T
    C[C > ITSELF] = -1.0
    return C


def closest(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the most similar references, and how similar they are, stretched as Fisher does."""
    most = min(LIKES, C.shape[1])
    likes = np.argpartition(C, C.shape[1] - most, axis=1)[:, -most:]
    order = np.argsort(-np.take_along_axis(C, likes, axis=1), axis=1, kind="stable")
    likes = np.take_along_axis(likes, order, axis=1)
    best = np.take_along_axis(C, likes[:, :CLOSEST], axis=1).mean(axis=1)
    return likes, np.arctanh(np.clip(best, -0.99, 0.99))


def compare(small: np.ndarray, references: np.ndarray) -> dict[str, np.ndarray]:
    """Return the likes of each sample, and how alike they are as it is and turned."""
    C = correlations(small, references)
    likes, like = closest(C)
    turned = [closest(correlations(turn(small, k), references))[1] for k in turns(small)]
    # What is left out as itself must not be the most similar negative, nor may rounding tell an
    # exact negative from it.
    negative = closest(np.where(C > -ITSELF, -C, -1))[1]
    return {"likes": likes, "like": like, "turned": np.stack([*turned, negative], axis=1)}
