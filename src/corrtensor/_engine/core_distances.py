"""Distances inside the subspace: how far a core lies from those of the samples that count.

A sample may be explained well and still be unlike the others. See ``docs/method.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from corrtensor._engine.arrays.origin import middle
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import Blocks, Part, Projection, weighted_sum
from corrtensor._engine.products import Factors, expand, project
from corrtensor._engine.shapes import check_finite

# Samples, and bytes of their cores, from which location and scale are learned; and the fewest.
DRAWN, DRAWN_BYTES, FEWEST_DRAWN = 500, 1 << 24, 20
# Of many samples this share is drawn, but no more than that.
SHARE_DRAWN, MOST_DRAWN = 16, 2000
# A normal distribution's standard deviation over its median and its mean absolute deviation.
SIGMA_PER_MEDIAN, SIGMA_PER_MEAN = 1.4826, 1.2533
# An entry of a core that varies less than this share of a typical one tells nothing.
RELATIVE_FLOOR = 1e-3


@dataclass(frozen=True)
class CoreModel:
    """Location and scale of every entry of a core, in the data's units."""

    location: np.ndarray
    scale: np.ndarray

    def distances(self, cores: np.ndarray) -> np.ndarray:
        """Return the distance of each core from the location, in units of the scale."""
        z = ((cores - self.location) / self.scale).reshape(len(cores), -1)
        # The largest is taken out, so that no square overflows.
        largest = np.maximum(np.abs(z).max(axis=1), 1e-300)
        z /= largest[:, None]
        return np.asarray(largest * np.sqrt(np.vecdot(z, z)))

    def moved(self, old: Factors, new: Factors, step: np.ndarray) -> CoreModel:
        """Return the same model seen through other factors, from a mean that lies a step away."""
        place = expand(self.location[None], old) - step
        turns = [
            None if U is None or V is None else np.square(U.T @ V)
            for U, V in zip(old, new, strict=True)
        ]
        largest = self.scale.max()
        variances = project(np.square(self.scale / largest)[None], turns)
        return CoreModel(project(place, new)[0], floored(largest * np.sqrt(variances[0])))


def floored(scale: np.ndarray) -> np.ndarray:
    """Keep all scales above a share of a typical one; where nothing varies, they are 1."""
    largest = float(scale.max())
    if largest == 0:
        return np.ones_like(scale)
    typical = largest * math.sqrt(float(np.square(scale / largest).mean()))
    return np.maximum(scale, RELATIVE_FLOOR * typical)


def systematic(s: np.ndarray, weights: np.ndarray, size: int) -> np.ndarray:
    """Draw samples by their weights, evenly over their residuals; nothing is left to chance.

    As many are drawn as the weights amount to: each once, if all have the same or none.
    """
    order = np.argsort(s, kind="stable")
    cumulated = np.cumsum(weights[order])
    effective = round(float(cumulated[-1] ** 2 / np.square(weights).sum()))
    count = min(size, len(s), max(FEWEST_DRAWN, effective))
    levels = (np.arange(count) + 0.5) / count * cumulated[-1] * (1 - 1e-12)
    return np.sort(order[np.searchsorted(cumulated, levels)])


def summarise(cores: np.ndarray) -> CoreModel:
    """Return the median and the median absolute deviation of every entry of cores."""
    location = middle(cores)
    away = np.abs(cores - location)
    scale = SIGMA_PER_MEDIAN * middle(away)
    # Where more than half of the samples agree, as in the corners of digits.
    still = scale == 0
    scale[still] = SIGMA_PER_MEAN * away[:, still].mean(axis=0)
    return CoreModel(location, floored(scale))


@dataclass(frozen=True)
class CorePass:
    """The cores of samples that are drawn, and the weighted sum of the squares of all."""

    at: Projection

    def __call__(self, blocks: Blocks, weights: np.ndarray, counts: np.ndarray) -> Part:
        """Add up one chunk; ``counts`` says how often each sample is drawn."""
        part = Part()
        part.sums.shift = 0.0
        # The mean is taken from the cores, not from the samples: they are smaller.
        center = project(self.at.m[None], self.at.U)
        for lo, hi, x in blocks:
            cores, w = project(x, self.at.U), weights[lo:hi]
            cores -= center
            cores = cores[(slice(None), *map(slice, self.at.core_shape))]
            part.cores.append(np.repeat(cores, counts[lo:hi], axis=0).astype(np.float64))
            part.sums.add(float(w.sum()), weighted_sum(w, np.square(cores)), {})
        return part


def learn(
    source: Source,
    mean: np.ndarray,
    factors: Factors,
    s: np.ndarray,
    weights: np.ndarray,
    energies: Mapping[int, np.ndarray],
) -> tuple[CoreModel, np.ndarray]:
    """Learn the location and the scale of the cores from some samples that count.

    ``s`` are the residuals; mean and factors are those of the fit. Also returned is the mean square
    of every entry: weighted, of all samples if they are few, else of those drawn by their weights.
    ``energies`` are those of all samples along the directions of a mode: to these they are scaled.
    """
    at, n = source.at((mean - source.origin) / source.unit, factors), source.n_samples
    size = min(MOST_DRAWN, max(DRAWN, n // SHARE_DRAWN))
    size = min(size, max(FEWEST_DRAWN, DRAWN_BYTES // (8 * math.prod(at.core_shape))))
    drawn = systematic(s, weights, size)
    if drawn[0] == drawn[-1]:
        # One sample has all the weight, and no spread.
        drawn = systematic(s, np.ones(n), size)
    counts = np.bincount(drawn, minlength=n)
    if n > DRAWN:
        some = np.flatnonzero(counts)
        source, weights, counts = source.chosen(some), counts[some], counts[some]
    part = source.reduce(CorePass(at), weights=weights, counts=counts)
    cores = np.concatenate(part.cores) * source.unit
    squares = np.asarray(part.sums.first) / part.sums.weight
    for mode, energy in energies.items():
        by_mode = np.moveaxis(squares, mode, -1)
        drawn_energy = by_mode.sum(axis=tuple(range(by_mode.ndim - 1)))
        by_mode *= energy / np.where(drawn_energy > 0, drawn_energy, 1.0)
    return summarise(cores), squares * source.unit**2


@dataclass(frozen=True)
class ScorePass:
    """Distances inside the subspace, of samples counted from the mean in some unit."""

    factors: tuple[np.ndarray | None, ...]
    model: CoreModel
    unit: float
    dtype: np.dtype

    @cached_property
    def U(self) -> list[np.ndarray | None]:
        """The factors in the type of the blocks."""
        return [None if U is None else U.astype(self.dtype) for U in self.factors]

    def __call__(self, blocks: Blocks) -> Part:
        """Measure one chunk."""
        part = Part()
        for lo, _, x in blocks:
            check_finite(x, first=lo)
            cores = project(x, self.U).astype(np.float64)
            part.squares.append(self.model.distances(cores * self.unit))
        return part
