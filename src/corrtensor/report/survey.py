"""What a report page needs to know about the samples, read block by block."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corrtensor._engine.arrays.source import Source, plain
from corrtensor._engine.products import expand, project
from corrtensor._engine.subspace_transformer import SubspaceTransformer
from corrtensor.report.distances import Distances, distances
from corrtensor.report.pictures import Painter

# Charts hold at most so many samples, and their tiles together so many pixels.
MOST_POINTS, TILE_PIXELS = 20_000, 4_000_000
SMALLEST_TILE, LARGEST_TILE = 14, 48


class Subspace:
    """A fitted model: cores of samples, and back, whatever the type of their numbers."""

    def __init__(self, model: Any) -> None:
        if not isinstance(model, SubspaceTransformer):
            raise TypeError(
                f"a fitted subspace such as CorrTensor is needed, not {type(model).__name__}"
            )
        check_is_fitted(model)
        self.shape: tuple[int, ...] = tuple(model.sample_shape_)
        self.core_shape: tuple[int, ...] = tuple(model.core_shape_)
        self.mean, self.factors = model._mean, model._factors
        self.model, self.doubts = model, bool(getattr(model, "cells", False))

    def whole(self, x: np.ndarray) -> np.ndarray:
        """Return samples without the cells that are missing, or bad to the model."""
        return np.asarray(self.model.repair(x)) if self.doubts or np.isnan(x).any() else x

    def cores(self, x: np.ndarray) -> np.ndarray:
        """Return the cores of samples."""
        return project(self.whole(x) - self.mean, self.factors)

    def back(self, cores: np.ndarray) -> np.ndarray:
        """Return the samples that cores stand for."""
        return expand(cores, self.factors) + self.mean


@dataclass(frozen=True)
class Survey:
    """What was read from the samples.

    ``order`` has all samples, the most unusual first; ``drawn`` those in charts, in order of their
    numbers, and ``tiles`` a small picture of each of these. ``core_energy`` is the weighted mean
    square of every entry of the cores, ``energy`` that of the samples less the mean. ``torn`` tells
    whether cells of the samples may be replaced; ``weights`` are all 1 for a method without.
    """

    subspace: Subspace
    source: Source
    distances: Distances
    weights: np.ndarray
    painter: Painter
    order: np.ndarray
    drawn: np.ndarray
    tiles: list[np.ndarray]
    core_energy: np.ndarray
    energy: float
    torn: bool


def survey(model: Any, X: Any) -> Survey:
    """Read all samples, in memory or on disk, and measure them by a fitted subspace."""
    subspace = Subspace(model)
    checked, _ = model._check(X)
    measured = distances(model, X)
    source = plain(checked, block_size=model.block_size, missing=True)
    order = np.argsort(-measured.unusual, kind="stable")
    middle = float(np.median(measured.unusual))
    painter = Painter.of(source, np.flatnonzero(measured.unusual <= max(1.0, middle)))
    drawn = choose_drawn(order)
    # So large that all together stay small.
    side = min(LARGEST_TILE, max(SMALLEST_TILE, math.isqrt(TILE_PIXELS // len(drawn))))
    weights = np.ones(source.n_samples) if measured.weights is None else measured.weights
    tiles, squares, energy = [], np.zeros(subspace.core_shape), 0.0
    torn = subspace.doubts
    wanted = np.zeros(source.n_samples, dtype=bool)
    wanted[drawn] = True
    for lo, hi, x in source.blocks(0, source.n_samples):
        w, torn = weights[lo:hi], torn or bool(np.isnan(x).any())
        cores = subspace.cores(x)
        squares += np.tensordot(w, np.square(cores), axes=1)
        norms = np.square(cores.reshape(len(cores), -1)).sum(axis=1)
        energy += float(w @ (norms + np.square(measured.residual[lo:hi])))
        shown = x[wanted[lo:hi]]
        tiles += [painter.sample(s, painter.limits_for(s), side) for s in shown]
    total = float(weights.sum())
    return Survey(
        subspace=subspace, source=source, distances=measured, weights=weights, painter=painter,
        order=order, drawn=drawn, tiles=tiles, core_energy=squares / total, energy=energy / total,
        torn=torn,
    )  # fmt: skip


def choose_drawn(order: np.ndarray) -> np.ndarray:
    """Return the samples that charts show: all, or the most unusual and an even draw."""
    if len(order) <= MOST_POINTS:
        return np.arange(len(order))
    half = MOST_POINTS // 2
    rest = order[half:]
    even = rest[np.linspace(0, len(rest) - 1, half).astype(int)]
    return np.sort(np.concatenate([order[:half], even]))
