"""Ranks: those that were asked for, and those that the data tell."""

from typing import Any

import numpy as np

from corrtensor._base.checks import is_number, is_whole

Rank = int | float | str | None
# The share of variance by which ranks that shall come by themselves are first chosen.
FIRST_SHARE = 0.95


def choose_rank(eigenvalues: np.ndarray, rule: float | str, total: float | None = None) -> int:
    """Return how many leading eigenvalues hold a share of ``total``, or stand out by themselves.

    The total is their sum if it is not given. They stand out where two normal populations explain
    the logarithms of the eigenvalues best: the profile likelihood of Zhu and Ghodsi (2006).
    """
    falling = np.maximum(np.sort(eigenvalues)[::-1], 0)
    if not isinstance(rule, str):
        total = falling.sum() if total is None else total
        return int(np.searchsorted(np.cumsum(falling), rule * total * (1 - 1e-12))) + 1
    logs = np.log(falling[falling > 1e-12 * falling[0]])
    if len(logs) < 3:
        return len(logs) or 1
    spread = [
        np.square(logs[:k] - logs[:k].mean()).sum() + np.square(logs[k:] - logs[k:].mean()).sum()
        for k in range(1, len(logs))
    ]
    return int(np.argmin(spread)) + 1


def require_order(order: int | None, shape: tuple[int, ...]) -> None:
    """Raise a ``ValueError`` if samples do not have as many modes as are asked for."""
    if order is not None and len(shape) != order:
        flat = "flatten them by X.reshape(len(X), -1)"
        hint = flat if order == 1 else "for flattened samples, give sample_shape"
        raise ValueError(f"samples of order {order} are needed; these have shape {shape} ({hint})")


def check_ranks(ranks: Any, shape: tuple[int, ...], given: str = "") -> tuple[Rank, ...]:
    """Return one checked rank per mode; ``given`` is what errors say was given."""
    given = given or f"ranks={ranks!r}"
    several = isinstance(ranks, tuple | list) or (isinstance(ranks, np.ndarray) and ranks.ndim == 1)
    entries = tuple(ranks) if several else (ranks,) * len(shape)
    if len(entries) != len(shape):
        raise ValueError(
            f"{given} has {len(entries)} entries; the samples have {len(shape)} modes, "
            f"their shape is {shape}"
        )
    checked = tuple(_check_rank(k, n, shape, given) for n, k in enumerate(entries))
    if all(k is None for k in checked):
        raise ValueError(f"{given} projects no mode of the samples; give one a rank")
    return checked


def _check_rank(k: Any, mode: int, shape: tuple[int, ...], given: str) -> Rank:
    if k is None or (isinstance(k, str) and k == "auto"):
        return k
    if not is_number(k):
        raise TypeError(f"{given}: {k!r} is no int, share of variance, 'auto' or None")
    if not is_whole(k):
        if not 0 < k < 1:
            raise ValueError(
                f"{given}: a share of explained variance lies between 0 and 1, not at {k!r}"
            )
        return float(k)
    if k < 1:
        raise ValueError(f"{given}: a rank is at least 1, not {k!r}")
    if k > shape[mode]:
        raise ValueError(
            f"{given}: mode {mode + 1} of the samples has only {shape[mode]} entries "
            f"(samples of shape {shape})"
        )
    return int(k)
