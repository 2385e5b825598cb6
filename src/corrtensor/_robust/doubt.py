"""Where the fit with doubted cells begins, and how far a good cell may stray.

Bad cells bend a plain start, and what is bent explains them. So the subspace is grown from a
median, a few directions at a time, while cells that are far from what is expected hardly count
(``docs/method.md``, section 7).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from corrtensor._engine.arrays.origin import middle
from corrtensor._engine.solver import solve
from corrtensor._engine.start import spectral
from corrtensor._engine.state import Options, State
from corrtensor._robust.completed import CompletedSource
from corrtensor.losses import Power

# Samples, and bytes of them, from which the start is learned; the fewest.
DRAWN, DRAWN_BYTES, FEWEST = 150, 1 << 26, 20
# Bandwidth of a cell in robust standard deviations: at the end, and while the subspace grows.
BANDWIDTH, TIGHT = 4.0, 1.5
# A normal distribution's standard deviation over its median absolute deviation.
SIGMA = 1.4826


def growing(ranks: tuple[int | None, ...]) -> Iterator[tuple[int | None, ...]]:
    """Yield ranks that grow threefold from 2 up to those wanted."""
    k, most = 2, max((r for r in ranks if r is not None), default=0)
    while k < most:
        yield tuple(None if r is None else min(r, k) for r in ranks)
        k *= 3
    yield ranks


def spread_of(R: np.ndarray) -> np.ndarray:
    """Return how far good cells stray at each place: never less than cells do on the whole."""
    away = middle(np.abs(R))
    known = away[~np.isnan(away)]
    typical = float(np.median(known)) or float(known.mean()) or 1.0
    return SIGMA * np.maximum(np.where(np.isnan(away), typical, away), typical)


def residual_cells(source: CompletedSource) -> np.ndarray:
    """Return the residuals of all cells of a few samples, NaN where they are missing."""
    R = np.concatenate([x for _, _, x in source.inner.blocks(0, source.n_samples)])
    return R - source.model.expected(source.cores)


def doubted_start(
    source: CompletedSource,
    start: State,
    options: Options,
    weights: np.ndarray | None,
    bandwidth: float,
) -> State:
    """Return a start that bad cells did not bend; from now on the source doubts cells."""
    counting = np.flatnonzero(source.share if weights is None else weights * source.share)
    size = max(FEWEST, min(DRAWN, DRAWN_BYTES // (8 * math.prod(source.sample_shape))))
    places = np.linspace(0, len(counting) - 1, min(size, len(counting))).astype(int)
    some = source.chosen(counting[np.unique(places)])
    x = np.concatenate([x for _, _, x in some.inner.blocks(0, some.n_samples)])
    place = middle(x)
    place = np.where(np.isnan(place), source.model.mean, place)
    sigma = spread_of(x - place)
    some.restart(place, TIGHT * sigma)
    centered = options.center is not None
    for ranks in growing(start.ranks):
        first = spectral(some, ranks, centered=centered)
        solved = solve(some, first, Power(2.0), options.brief(2))
        sigma = spread_of(residual_cells(some))
        some.doubt(TIGHT * sigma)
    for _ in range(2):
        some.doubt(bandwidth * sigma)
        # What was measured with other bandwidths counts no more.
        again = replace(solved.state, squares=None)
        solved = solve(some, again, Power(2.0), options.brief(2))
        sigma = spread_of(residual_cells(some))
    state = replace(solved.state, norms=None, squares=None)
    source.settle(state, bandwidth * sigma)
    return state
