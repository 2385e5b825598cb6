"""2DSVD: the mean, and the leading eigenvectors of the scatters of the raw samples.

The start of all sweeps (``docs/method.md``, section 1), and a published method by itself.
"""

import math

import numpy as np
from scipy.linalg import eigh

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import energies_in, fix_signs, leading
from corrtensor._engine.large_modes import LARGE, first_basis, leading_of_large, outside
from corrtensor._engine.passes import Part, RawPass
from corrtensor._engine.products import recenter, unfold
from corrtensor._engine.ranks import Rank, choose_rank
from corrtensor._engine.sharing import mark, once
from corrtensor._engine.state import State
from corrtensor._engine.threads import single_blas

# Directions that hold this share of the energy of the first come out of a Gram matrix orthonormal
# to ten digits (to four in single precision).
CLEAR = 1e-6


def spectral(
    source: Source,
    ranks: tuple[Rank, ...],
    *,
    centered: bool = True,
    weights: np.ndarray | None = None,
) -> State:
    """Start from 2DSVD: mean and leading eigenvectors of the raw scatters."""
    shape = source.sample_shape
    modes = tuple(n for n, k in enumerate(ranks) if k is not None)
    large = {n for n in modes if shape[n] > LARGE}
    # Of a large mode the first pass sees the scatter through random directions.
    seen = {n: first_basis(ranks[n], shape[n]) for n in large}
    sketches = {n: Q.astype(source.dtype) for n, Q in seen.items()}

    def raw() -> Part:
        return source.reduce(RawPass(modes, sketches), weights=weights)

    part = raw() if large else once(source, ("raw", modes, mark(weights)), raw)
    total, first = part.sums.weight, np.asarray(part.sums.first)
    mean = first / total if centered else np.zeros(shape)
    whole: list[np.ndarray | None] = [None] * len(ranks)
    factors = list(whole)
    spares, energies = {}, {}
    norms = np.concatenate(part.norms)

    def centred(S: np.ndarray, n: int, Q: np.ndarray | None) -> np.ndarray:
        return recenter(S, total, first, mean, whole, n, Q) if centered else S

    def apply(n: int, Q: np.ndarray) -> np.ndarray:
        again = source.reduce(
            RawPass((n,), {n: Q.astype(source.dtype)}, again=True), weights=weights
        )
        return centred(again.sums.second[n], n, Q)

    with single_blas():
        for n in modes:
            k, S = ranks[n], centred(part.sums.second[n], n, seen.get(n))
            if n in large:
                squares = norms + source.beside(None)
                energy = float(squares.sum() if weights is None else squares @ weights)
                energy -= total * float(np.vdot(mean, mean))
                energies[n], U, spares[n] = leading_of_large(
                    S, seen[n], k, energy, n, apply, source.dtype
                )
                factors[n] = fix_signs(U)
                continue
            if isinstance(k, float | str):
                k = choose_rank(eigh(S, eigvals_only=True, check_finite=False), k)
            factors[n] = U = leading(S, k)  # type: ignore[arg-type]
            energies[n] = energies_in(S, U)
    taught = np.ones(len(norms)) if weights is None else weights
    # Of several modes, none was projected by the others.
    known = {n: e / total for n, e in energies.items() if len(modes) == 1}
    return State(mean, tuple(factors), norms, spares=spares, taught=taught, energies=known)


def leading_of_some(
    source: Source, weights: np.ndarray, mean: np.ndarray, mode: int, k: int
) -> np.ndarray:
    """Return about ``k`` leading directions of a large mode, learned from some of its fibres."""
    shape, n = source.sample_shape, source.n_samples
    others = math.prod(shape) // shape[mode]
    places = np.linspace(0, others - 1, min(others, -(-2 * k // n))).astype(int)
    A = np.empty((n, len(places), shape[mode]), source.dtype)
    source.fill(A, lambda x: unfold(x - mean.astype(x.dtype), mode)[:, places])
    A, root = A.reshape(-1, shape[mode]), np.repeat(np.sqrt(weights), len(places))
    if len(A) >= shape[mode]:
        A = A.astype(np.float64) * root[:, None]
        return leading(A.T @ A, k)
    # By way of the smaller Gram matrix; an orthonormal basis also where that has no energy left.
    double = A.astype(np.float64, copy=False)
    V = leading(double @ double.T * np.outer(root, root), min(int(np.count_nonzero(root)), k))
    B = (A.T @ (root[:, None] * V).astype(A.dtype)).astype(np.float64, copy=False)
    energies = np.einsum("ij,ij->j", B, B)
    clear = int(np.count_nonzero(energies > CLEAR * energies.max()))
    B[:, :clear] /= np.sqrt(energies[:clear])
    if clear < B.shape[1]:
        B[:, clear:] = outside(B[:, clear:], B[:, :clear])
    return B


def refuse_identical(
    start: State, sample_weight: np.ndarray | None, eps: float, shape: tuple[int, ...]
) -> None:
    """Raise a ``ValueError`` when the samples that count do not differ."""
    w = np.ones(len(start.norms)) if sample_weight is None else sample_weight
    square = float(w @ start.norms)
    if square - w.sum() * float(np.vdot(start.mean, start.mean)) <= 16 * eps * square:
        raise ValueError(
            f"all {np.count_nonzero(w)} samples of shape {shape} are identical: "
            "there is no subspace to learn"
        )
