"""Texture: the energy of samples in shells of directions, from coarse to fine."""

from itertools import pairwise

import numpy as np

from corrtensor._engine.large_modes import LARGE

# Shells of a mode end at 1, 4, 16, 64, ...
RATIO = 4
# So many fibres for each direction tell directions apart; those of fewer hold more than the others
# in the samples that they were learned from, and in no other one.
TELLING = 16


def directions(x: np.ndarray) -> tuple[np.ndarray | None, ...]:
    """Return all directions of every mode by falling energy.

    ``None`` for a mode that is too large, or of which too few fibres tell.
    """
    bases: list[np.ndarray | None] = []
    for mode, a in enumerate(x.shape[1:], start=1):
        if a > LARGE or x.size < TELLING * a * a:
            bases.append(None)
            continue
        rows = np.moveaxis(x, mode, 0).reshape(a, -1)
        bases.append(np.linalg.eigh(rows @ rows.T)[1][:, ::-1].copy())
    return tuple(bases)


def shell_energies(x: np.ndarray, bases: tuple[np.ndarray | None, ...]) -> np.ndarray:
    """Return the mean square of the coefficients in each combination of shells."""
    for mode, U in enumerate(bases, start=1):
        if U is not None:
            x = np.moveaxis(np.tensordot(x, U, axes=(mode, 0)), -1, mode)
    energy = np.square(x)
    for mode, U in enumerate(bases, start=1):
        size = energy.shape[mode]
        starts = [lo for lo, _ in pairwise(shells(size))] if U is not None else [0]
        counts = np.diff([*starts, size]).reshape(-1, *[1] * (energy.ndim - mode - 1))
        energy = np.add.reduceat(energy, starts, axis=mode) / counts
    return energy.reshape(len(x), -1)


def shells(size: int) -> list[int]:
    """Return where the shells of a mode end, beginning with 0."""
    edges = [0, 1]
    while edges[-1] < size:
        edges.append(min(size, edges[-1] * RATIO))
    return edges


def fine(bases: tuple[np.ndarray | None, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Return 1 for the shells of fine detail: the finer half of those of the first two modes.

    The last one alone would not do: of pictures that were enlarged it holds nothing but rounding.
    """
    counts = [1 if U is None else len(shells(a)) - 1 for a, U in zip(shape, bases, strict=True)]
    marks = np.zeros(counts)
    marks[tuple(slice(c // 2 if n < 2 else 0, None) for n, c in enumerate(counts))] = 1.0
    return marks.reshape(-1)
