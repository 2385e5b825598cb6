"""Products of tensors and matrices, for a block of samples at a time.

A block ``x`` is an array ``(n, a_1, ..., a_d)``. Letters as in ``docs/method.md``, section 4.
"""

import math
from collections.abc import Collection, Sequence
from functools import reduce

import numpy as np
from threadpoolctl import threadpool_info

Factors = Sequence[np.ndarray | None]
# Trailing modes of fewer entries than this make thin products; they are merged into the mode
# before them, as long as the Kronecker product of the factors has no more rows than the limit.
THIN, LARGEST_KRON = 8, 1024
# Bytes that are copied at a time to be multiplied at once.
COPIED = 1 << 19
# The kernels of OpenBLAS for AVX-512 take small matrices as they lie; for others the samples of a
# block are one long product.
AVX512 = {"SkylakeX", "Cooperlake", "SapphireRapids"}
LONG = AVX512.isdisjoint(lib.get("architecture") for lib in threadpool_info())


def merged(factors: Factors, shape: tuple[int, ...]) -> Factors:
    """Return factors of samples of a shape, those of thin trailing modes merged into one."""
    first = len(shape) - 1
    while first and math.prod(shape[first:]) < THIN:
        first -= 1
    tail, sizes = factors[first:], shape[first:]
    if len(tail) == 1 or tail[0] is None or math.prod(sizes) > LARGEST_KRON:
        return factors
    whole = [np.eye(a) if U is None else U for a, U in zip(sizes, tail, strict=True)]
    return [*factors[:first], reduce(np.kron, whole)]


def contract(T: np.ndarray, U: np.ndarray, mode: int) -> np.ndarray:
    """Return ``T x_mode U'`` for every sample of ``T``."""
    before, a, after = T.shape[: mode + 1], T.shape[mode + 1], T.shape[mode + 2 :]
    width = math.prod(after)
    if width == 1:
        P = T.reshape(-1, a) @ U
    elif width < THIN and a * width <= LARGEST_KRON:
        P = T.reshape(-1, a * width) @ np.kron(U, np.eye(width, dtype=U.dtype))
    else:
        P = np.matmul(U.T, T.reshape(-1, a, width))
    return P.reshape(*before, U.shape[1], *after)


def project(T: np.ndarray, factors: Factors, skip: Collection[int] = ()) -> np.ndarray:
    """Project every sample by the factors."""
    return in_turn(T, [(n, U) for n, U in enumerate(factors) if U is not None and n not in skip])


def expand(cores: np.ndarray, factors: Factors) -> np.ndarray:
    """Return ``core x_1 U_1 ... x_d U_d`` for every core."""
    return in_turn(cores, [(n, U.T) for n, U in enumerate(factors) if U is not None][::-1])


def in_turn(T: np.ndarray, factors: Sequence[tuple[int, np.ndarray]]) -> np.ndarray:
    """Contract several modes, in the order that takes the fewest multiplications.

    Of two modes, from a to k entries each, the one with the larger 1/k - 1/a comes first.
    """
    for n, U in sorted(factors, key=lambda pair: 1 / len(pair[1]) - 1 / pair[1].shape[1]):
        T = contract(T, U, n)
    return T


def unfold(T: np.ndarray, mode: int) -> np.ndarray:
    """Return the fibres of one mode of every sample as rows: ``(n, rest, a_mode)``.

    In memory the mode comes last, or else first: both serve the products, and moving it first
    copies long runs of numbers, where moving it last would copy them one by one.
    """
    n, a = len(T), T.shape[mode + 1]
    if mode == T.ndim - 2:
        return T.reshape(n, -1, a)
    return np.moveaxis(T, mode + 1, 0).reshape(a, n, -1).transpose(1, 2, 0)


def fibres(x: np.ndarray, factors: Factors, mode: int) -> np.ndarray:
    """Return the fibres of one mode of the samples projected by all the other factors."""
    shape = x.shape[mode + 2 :]
    tail = [np.eye(a) if U is None else U for a, U in zip(shape, factors[mode + 1 :], strict=True)]
    small = math.prod(shape[1:]) < THIN and math.prod(shape) <= LARGEST_KRON
    if not tail or (len(tail) > 1 and not small) or factors[mode + 1] is None:
        return unfold(project(x, factors, (mode,)), mode)
    K = reduce(np.kron, tail).astype(x.dtype, copy=False)
    if mode == 0 and LONG:
        # One long product: a run of fibres of all samples for each column.
        P = K.T @ x.reshape(-1, len(K)).T
        return P.reshape(-1, *x.shape[:2]).transpose(1, 0, 2)
    # Projecting what follows the mode can put the mode first in memory, at no cost.
    T = project(x, factors[:mode]).reshape(-1, x.shape[mode + 1], len(K))
    B = np.empty((T.shape[1], len(T), K.shape[1]), x.dtype)
    np.matmul(T, K, out=B.transpose(1, 0, 2))
    return B.reshape(len(B), len(x), -1).transpose(1, 2, 0)


def lies_by_fibre(A: np.ndarray) -> bool:
    """Tell whether the first fibres of all samples come first in memory, then the second ones."""
    return A.transpose(1, 0, 2).flags.c_contiguous and not A.flags.c_contiguous


def scatter(
    A: np.ndarray,
    sketch: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    *,
    own: bool = False,
) -> np.ndarray:
    """Return ``A'WA`` of the rows of all samples, or that times ``sketch``.

    ``own`` tells that ``A`` is nobody else's and may be overwritten.
    """
    if weights is not None and (weights == 1).all():
        weights = None
    first, turned = A.transpose(2, 0, 1), A.transpose(1, 0, 2)
    if sketch is None and not any(B.flags.c_contiguous for B in (A, first, turned)):
        # It must be copied: a few samples at a time, which stay in the cache.
        few = max(1, COPIED // A[:1].nbytes)
        S = np.zeros((len(first), len(first)), A.dtype)
        for i in range(0, len(A), few):
            # One sample alone may lie as it is wanted, and is still somebody's.
            B = first[:, i : i + few].copy().transpose(1, 2, 0)
            S += scatter(B, None, None if weights is None else weights[i : i + few], own=True)
        return S
    if weights is not None and sketch is None:
        root = np.sqrt(weights).astype(A.dtype)
        runs, each = (first, A.shape[1]) if first.flags.c_contiguous else (turned, A.shape[2])
        if own and runs.flags.c_contiguous:
            # One long run of all samples for each entry of the mode, or for each fibre.
            runs = runs.reshape(len(runs), -1)
            np.multiply(runs, np.repeat(root, each), out=runs)
        else:
            A = np.multiply(A, root[:, None, None], out=A if own else None)
    by_fibre = lies_by_fibre(A)
    rows = (A.transpose(1, 0, 2) if by_fibre else A).reshape(-1, A.shape[-1])
    if sketch is None:
        return rows.T @ rows
    cores = rows @ sketch.astype(A.dtype, copy=False)
    if weights is not None:
        # The product is far smaller than what it came from.
        w = weights.astype(A.dtype)
        cores *= (np.tile if by_fibre else np.repeat)(w, A.shape[1])[:, None]
    return rows.T @ cores


def recenter(
    S: np.ndarray,
    weight: float,
    first: np.ndarray,
    mean: np.ndarray,
    factors: Factors,
    mode: int,
    sketch: np.ndarray | None,
) -> np.ndarray:
    """Turn a scatter about the origin into one about ``mean`` (``docs/method.md``, section 4)."""
    C = fibres(mean[None], factors, mode)[0]
    F = fibres((first / weight)[None], factors, mode)[0]
    right = (C, F) if sketch is None else (C @ sketch, F @ sketch)
    return S - weight * (F.T @ right[0] + C.T @ right[1] - C.T @ right[0])


def inner(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the inner product of every sample of one block with that of another."""
    return np.vecdot(A.reshape(len(A), -1), B.reshape(len(B), -1)).astype(np.float64)


def row_squares(T: np.ndarray) -> np.ndarray:
    """Return the squared norm of every sample."""
    rows = T.reshape(len(T), -1)
    return np.vecdot(rows, rows).astype(np.float64)


def core_squares(A: np.ndarray, U: np.ndarray | None) -> np.ndarray:
    """Return the squared norm of every sample's core, from the fibres of one mode."""
    assert U is not None  # noqa: S101
    if not lies_by_fibre(A):
        return row_squares((A.reshape(-1, len(U)) @ U).reshape(len(A), -1))
    cores = U.T @ A.transpose(1, 0, 2).reshape(-1, len(U)).T
    squares = np.einsum("ki,ki->i", cores, cores).reshape(-1, len(A))
    return np.asarray(squares.sum(axis=0, dtype=np.float64))
