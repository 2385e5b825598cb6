"""Where the fit with doubted cells begins, and how far a good cell may stray.

The fit begins at the plain one of a few samples, and lets go of the cells that it does not explain
by a bandwidth that narrows and widens again (``docs/method.md``, section 13).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from corrtensor._engine.arrays.origin import middle
from corrtensor._engine.solver import solve
from corrtensor._engine.state import Options, State
from corrtensor._robust.completed import CompletedSource
from corrtensor.losses import Power

# Samples, and bytes of them, from which the start is learned; the fewest.
DRAWN, DRAWN_BYTES, FEWEST = 150, 1 << 26, 20
# Bandwidth of a cell in robust standard deviations.
BANDWIDTH = 4.0
# Shares of it on the way: narrow bandwidths let go of what has bent the start.
TIGHTENING = (1.0, 0.5, 0.5, 1.0)
# Wider ones are tried as long as more than a share of the cells, and a share of those doubted, are
# explained by a plain fit: these are no errors but a rare kind, such as faces lit from one side.
WIDER, EXPLAINED, RARE = (1.0, 1.5, 2.25, 3.4), 3e-4, 0.015
# If the widest leaves more than this share of the doubted to be explained, these are strokes.
STROKES = 0.05
# A normal distribution's standard deviation over its median absolute deviation.
SIGMA = 1.4826
DRAWN_BY_HAND = (
    "cells=True: whatever the bandwidth, a plain fit explains cells that would be doubted, as in "
    "drawings and digits, where strokes would be taken for errors: no cell is doubted"
)

# With more than half as many numbers in a core as there are cells, the fit follows the larger part
# of an error in a single cell.
MOST_NUMBERS = 0.5
FOLLOWED = (
    "cells=True: cores of {core} follow most of an error in a single cell of {shape}: no cell is "
    "doubted; give smaller ranks"
)


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
) -> tuple[State, np.ndarray, float]:
    """Return a start that bad cells did not bend; from now on the source doubts cells.

    Also returned are the scale of every cell, in the source's unit, and the bandwidth taken.
    """
    counting = np.flatnonzero(source.share if weights is None else weights * source.share)
    size = max(FEWEST, min(DRAWN, DRAWN_BYTES // (8 * math.prod(source.sample_shape))))
    places = np.linspace(0, len(counting) - 1, min(size, len(counting))).astype(int)
    some = source.some(counting[np.unique(places)])
    start = replace(start, norms=None, squares=None, counted=None)
    plain = solve(some, start, Power(2.0), options.brief(1)).state
    # What is known of these few samples is not known of all.
    plain = replace(plain, norms=None, squares=None, counted=None)
    kept, cores = residual_cells(some), some.cores.copy()
    core, shape = some.cores.shape[1:], source.sample_shape
    if math.prod(core) > MOST_NUMBERS * math.prod(shape):
        warnings.warn(FOLLOWED.format(core=core, shape=shape), UserWarning, stacklevel=7)
        source.settle(plain, np.full(shape, math.inf))
        return plain, spread_of(kept), math.inf
    for wider in WIDER:
        solved, sigma = plain, spread_of(kept)
        some.recall(plain, cores.copy(), some.pull)
        for tight in TIGHTENING:
            some.doubt(wider * tight * bandwidth * sigma)
            solved = solve(some, replace(solved, squares=None), Power(2.0), options.brief(2)).state
            left = residual_cells(some)
            sigma = spread_of(left)
        doubted = np.abs(left) > wider * bandwidth * sigma
        explained = np.abs(kept[doubted]) < np.abs(left[doubted]) / 2
        if explained.sum() <= max(EXPLAINED * kept.size, RARE * explained.size):
            break
    if explained.sum() > max(EXPLAINED * kept.size, STROKES * explained.size):
        warnings.warn(DRAWN_BY_HAND, UserWarning, stacklevel=7)
        wider, solved = math.inf, plain
    state = replace(solved, norms=None, squares=None, counted=None)
    source.settle(state, wider * bandwidth * sigma)
    return state, sigma, wider * bandwidth
