"""Factors of modes too large for a square matrix: the scatter is seen through a few directions.

A pass adds up ``T = S Q`` for an orthonormal basis ``Q`` that holds the present factor and some
spare directions. The Nystrom approximation ``T (Q'T)^-1 T'`` never exceeds the scatter ``S`` and
equals it on ``Q``, so its leading vectors explain at least what the present factor does: sweeps
descend as they do with ``S`` itself, and come to rest where they would (``docs/decisions/0004``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# Of modes beyond this many entries no square matrix is made.
LARGE = 2048
SEED = 0
# Passes that the start of a large mode may take, and the gain at which they end, as a share of
# what is left unexplained.
MOST_PASSES, GAIN = 24, 1e-10
# The width of the first sketch when the rank is not known, and how wide a sketch may grow.
FIRST_SKETCH, MOST_COLUMNS = 64, 256
# A share of the scatter's trace, added so that every direction has some energy.
RIDGE = 1e-12


def n_spare(k: int) -> int:
    """Return how many directions are carried along beside the factor's own."""
    return 10 + k // 2


def basis(U: np.ndarray | None, spare: np.ndarray | None = None) -> np.ndarray | None:
    """Return an orthonormal basis of a large factor and its spares; ``None`` for a small one."""
    if U is None or len(U) <= LARGE:
        return None
    if spare is None:
        spare = random_directions(len(U), n_spare(U.shape[1]))
    return np.linalg.qr(np.hstack([U, spare[:, : len(U) - U.shape[1]]]))[0]


def random_directions(a: int, count: int) -> np.ndarray:
    """Return directions drawn with a fixed seed."""
    return np.random.default_rng(SEED).standard_normal((a, min(a, count)))


def nystrom(T: np.ndarray, Q: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return falling eigenvalues and eigenvectors of the scatter ``S`` seen as ``T = S Q``.

    The first ``k`` columns of ``Q`` are the present factor: where the data say nothing, it stays.
    """
    G = Q.T @ T
    # What G lacks in symmetry is rounding, of which there is much in single precision. Eigenvalues
    # below it may be negative, and their roots would turn noise into energy.
    rounding = float(np.linalg.norm(G - G.T))
    ridge = np.where(np.arange(len(G)) < k, 2, 1) * (RIDGE * float(np.trace(G)) + rounding or 1.0)
    values, V = np.linalg.eigh((G + G.T) / 2 + np.diag(ridge))
    values = np.maximum(values, ridge.min() / 2)
    # Left singular vectors by way of a thin QR: only q x q matrices are decomposed.
    L, R = np.linalg.qr((T + Q * ridge) @ (V / np.sqrt(values)))
    W, sigma, _ = np.linalg.svd(R)
    return np.square(sigma), L @ W


def first_basis(rank: int | float | str | None, a: int) -> np.ndarray:
    """Return the random directions through which a large mode is first seen."""
    count = rank + n_spare(rank) if isinstance(rank, int) else FIRST_SKETCH
    return np.linalg.qr(random_directions(a, count))[0]


def leading_of_large(
    T: np.ndarray,
    Q: np.ndarray,
    rank: int | float | str | None,
    energy: float,
    mode: int,
    apply: Callable[[int, np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return leading vectors and spares of a large mode; ``apply(mode, Q)`` is a pass for ``S Q``.

    The sketch grows by block Krylov directions, ``Q, SQ, SSQ, ...``, and passes end when what is
    left unexplained settles. For a share of the energy it is widened until it holds that share
    and some spares.
    """
    if isinstance(rank, str):
        raise ValueError(
            f"mode {mode + 1} has {len(Q)} entries, too many for ranks={rank!r}; "
            "give an int or a share of explained variance"
        )
    held, block = 0.0, Q.shape[1]
    for _ in range(MOST_PASSES):
        values, W = (part[..., ::-1] for part in np.linalg.eigh(Q.T @ T))
        k = rank_in_sketch(values, rank, energy)
        if not isinstance(rank, int) and k + n_spare(k) > Q.shape[1]:
            if 2 * Q.shape[1] > LARGE:
                raise ValueError(
                    f"mode {mode + 1} has {len(Q)} entries, and {Q.shape[1]} directions do not "
                    f"hold the share {rank} of its variance; give an int as its rank"
                )
            further, block = T, Q.shape[1]
        else:
            gained, held = float(values[:k].sum()) - held, float(values[:k].sum())
            if gained <= GAIN * max(energy - held, GAIN * energy):
                break
            if Q.shape[1] + block > max(2 * block, min(8 * block, MOST_COLUMNS)):
                # Keep what is best of the directions; their products with S come for free.
                Q, T = Q @ W[:, :block], T @ W[:, :block]
            further = T[:, -block:]
        new = outside(further, Q)
        Q, T = np.hstack([Q, new]), np.hstack([T, apply(mode, new)])
    V = nystrom(T, Q, 0)[1]
    return V[:, :k], V[:, k : k + n_spare(k)]


def outside(B: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis of the part of ``B`` that ``Q`` does not hold."""
    B = np.linalg.qr(B - Q @ (Q.T @ B))[0]
    # Once more: what is left of a vector almost inside Q is mostly rounding.
    return np.linalg.qr(B - Q @ (Q.T @ B))[0][:, : len(Q) - Q.shape[1]]


def rank_in_sketch(values: np.ndarray, rank: int | float | None, energy: float) -> int:
    """Return a rank as it is, or how many eigenvalues hold a share of the energy."""
    if isinstance(rank, int):
        return rank
    assert rank is not None  # noqa: S101
    return int(np.searchsorted(np.cumsum(values), rank * energy * (1 - 1e-12))) + 1
