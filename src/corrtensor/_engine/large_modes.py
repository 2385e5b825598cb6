"""Factors of modes too large for a square matrix: the scatter is seen through a few directions.

A pass adds up ``T = S Q`` for an orthonormal basis ``Q`` that holds the present factor and some
spare directions. The Nystrom approximation ``T (Q'T)^-1 T'`` never exceeds the scatter ``S`` and
equals it on ``Q``, so its leading vectors explain at least what the present factor does: sweeps
descend as they do with ``S`` itself, and converge where they would (``docs/decisions/0004``).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from corrtensor._engine.ranks import choose_rank

# Of modes beyond this many entries no square matrix is made.
LARGE = 2048
SEED = 0
# Passes that the start of a large mode may take, and when they end: as soon as another would gain
# no more than this share of what is left unexplained. Of samples in single precision less cannot be
# told from rounding.
MOST_PASSES = 24
GAIN = {np.dtype(np.float64): 1e-14, np.dtype(np.float32): 1e-7}
# The width of the first sketch when the rank is not known, and how wide a sketch may grow.
FIRST_SKETCH, MOST_COLUMNS = 64, 512
# How far from orthonormal columns may be for one step to make them so.
NEARLY = 0.1
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
    return tall_qr(np.hstack([U, spare[:, : len(U) - U.shape[1]]]))[0]


def tall_qr(B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ``Q`` and ``R`` of a tall matrix, by matrix products alone where that is safe.

    Cholesky's factor of ``B'B`` makes columns nearly orthonormal, and once more makes them so to
    the last digits, unless they were all but dependent: those are left to Householder.
    """
    if len(B) < 4 * B.shape[1]:
        return np.linalg.qr(B)
    Q, R = B, np.eye(B.shape[1])
    for _ in range(2):
        G = Q.T @ Q
        far = not np.abs(G - np.eye(len(G))).max() < NEARLY
        C, failed = dpotrf(G, clean=True)
        if failed or (far and Q is not B):
            return np.linalg.qr(B)
        Q, R = Q @ dtrtri(C)[0], C @ R
    return Q, R


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
    L, R = tall_qr((T + Q * ridge) @ (V / np.sqrt(values)))
    W, sigma, _ = np.linalg.svd(R)
    return np.square(sigma), L @ W


def first_basis(rank: int | float | str | None, a: int) -> np.ndarray:
    """Return the random directions through which a large mode is first seen."""
    count = rank + n_spare(rank) if isinstance(rank, int) else FIRST_SKETCH
    return tall_qr(random_directions(a, count))[0]


def leading_of_large(
    T: np.ndarray,
    Q: np.ndarray,
    rank: Any,
    energy: float,
    mode: int,
    apply: Callable[[int, np.ndarray], np.ndarray],
    dtype: np.dtype,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return leading values, vectors and spares of a large mode; ``apply(mode, Q)`` gives ``S Q``.

    The sketch grows by block Krylov directions, ``Q, SQ, SSQ, ...``, and passes end when another
    would hardly lower what is left unexplained. For a share of the energy the sketch is widened
    until it holds that share and some spares. ``dtype`` is that of the samples.
    """
    if isinstance(rank, str):
        raise ValueError(
            f"mode {mode + 1} has {len(Q)} entries, too many for ranks={rank!r}; "
            "give an int or a share of explained variance"
        )
    held, block, G = [0.0], Q.shape[1], Q.T @ T
    for _ in range(MOST_PASSES):
        values, W = (part[..., ::-1] for part in np.linalg.eigh((G + G.T) / 2))
        k = rank if isinstance(rank, int) else choose_rank(values, rank, energy)
        if not isinstance(rank, int) and k + n_spare(k) > Q.shape[1]:
            if 2 * Q.shape[1] > LARGE:
                raise ValueError(
                    f"mode {mode + 1} has {len(Q)} entries, and {Q.shape[1]} directions do not "
                    f"hold the share {rank} of its variance; give an int as its rank"
                )
            further, block = T, Q.shape[1]
        else:
            held.append(float(values[:k].sum()))
            if next_gain(held) <= GAIN[dtype] * max(energy - held[-1], GAIN[dtype] * energy):
                break
            if Q.shape[1] + block > max(2 * block, min(16 * block, MOST_COLUMNS)):
                # Keep what is best of the directions; their products with S come for free.
                Q, T, G = Q @ W[:, :block], T @ W[:, :block], np.diag(values[:block])
            further = T[:, -block:]
        new = outside(further, Q, G[:, -further.shape[1] :])
        Q, T, old = beside(Q, new), beside(T, apply(mode, new)), G
        G = Q.T @ T[:, len(old) :]
        G = np.block([[old, G[: len(old)]], [G[: len(old)].T, G[len(old) :]]])
    else:
        # It would still gain: the last directions count, too.
        values, W = (part[..., ::-1] for part in np.linalg.eigh((G + G.T) / 2))
    best = W[:, : k + n_spare(k)]
    V = nystrom(T @ best, Q @ best, 0)[1]
    return values[:k], V[:, :k], V[:, k:]


def next_gain(held: Sequence[float]) -> float:
    """Return about how much another pass would gain: gains fall as they did last, or faster."""
    gains = np.diff(held)
    if not gains[-1] > 0:
        return 0.0
    if len(gains) < 3 or not gains[-2] > 0:
        # The first was no gain over anything.
        return float(gains[-1])
    return float(gains[-1] * min(1.0, gains[-1] / gains[-2]))


def beside(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the columns of both; one after the other in memory, where more are put there fast."""
    return np.hstack([np.asfortranarray(A), np.asfortranarray(B)])


def outside(B: np.ndarray, Q: np.ndarray, inside: np.ndarray | None = None) -> np.ndarray:
    """Return an orthonormal basis of the part of ``B`` that ``Q`` does not hold.

    ``inside`` is ``Q'B``, if it is known.
    """
    B = tall_qr(B - Q @ (Q.T @ B if inside is None else inside))[0]
    # Once more: what is left of a vector almost inside Q is mostly rounding.
    return tall_qr(B - Q @ (Q.T @ B))[0][:, : len(Q) - Q.shape[1]]
