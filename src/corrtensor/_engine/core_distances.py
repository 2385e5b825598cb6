"""Distances inside the subspace: how far a core lies from those of the samples that count.

A sample may be explained well and still be unlike the others. See ``docs/method.md``, section 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.arrays.origin import middle
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import Blocks, Part
from corrtensor._engine.products import Factors, expand, project
from corrtensor._engine.shapes import check_finite

# Samples, and bytes of their cores, from which location and scale are learned; and the fewest.
DRAWN, DRAWN_BYTES, FEWEST_DRAWN = 500, 1 << 24, 20
# A normal distribution's standard deviation over its median and its mean absolute deviation.
SIGMA_PER_MEDIAN, SIGMA_PER_MEAN = 1.4826, 1.2533
# An entry of a core that varies less than this share of a typical one tells nothing.
RELATIVE_FLOOR = 1e-3


@dataclass(frozen=True)
class CoreModel:
    """Location and scale of every entry of a core, in the data's units."""

    location: np.ndarray
    scale: np.ndarray

    def shaped(self, shape: Sequence[int]) -> CoreModel:
        """Return the model with the entries arranged otherwise."""
        return CoreModel(self.location.reshape(shape), self.scale.reshape(shape))

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


def weighted_median(T: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the median of every column, rows counting by their weights."""
    if np.ptp(w) == 0:
        return middle(T)
    order = np.argsort(T, axis=0)
    shares = np.cumsum(w[order], axis=0) / w.sum()
    # The middle of the two middle values where one ends at half of the weight, as for a median.
    places = np.stack([(shares < 0.5 - 1e-9).sum(axis=0), (shares <= 0.5 + 1e-9).sum(axis=0)])
    return np.asarray(np.take_along_axis(np.sort(T, axis=0), places, axis=0).mean(axis=0))


def summarise(cores: np.ndarray, w: np.ndarray) -> CoreModel:
    """Return the median and the median absolute deviation of every entry of flattened cores."""
    location = weighted_median(cores, w)
    deviations = np.abs(cores - location)
    scale = SIGMA_PER_MEDIAN * weighted_median(deviations, w)
    # Where more than half of the samples agree, as in the corners of digits.
    mean = np.average(deviations, axis=0, weights=w)
    return CoreModel(location, floored(np.where(scale > 0, scale, SIGMA_PER_MEAN * mean)))


def learn(
    source: Source, mean: np.ndarray, factors: Factors, s: np.ndarray, weights: np.ndarray
) -> CoreModel:
    """Learn the location and the scale of the cores from some samples that count.

    ``s`` are the residuals; mean and factors are those of the fit.
    """
    modes = zip(source.sample_shape, factors, strict=True)
    shape = [a if U is None else U.shape[1] for a, U in modes]
    size = min(DRAWN, max(FEWEST_DRAWN, DRAWN_BYTES // (8 * math.prod(shape))))
    drawn, counts = np.unique(systematic(s, weights, size), return_counts=True)
    if len(drawn) < 2:
        # One sample has all the weight, and no spread.
        drawn, counts = np.unique(systematic(s, np.ones(len(s)), size), return_counts=True)
    m = ((mean - source.origin) / source.unit).astype(source.dtype)
    U = [None if V is None else V.astype(source.dtype) for V in factors]
    cores = np.empty((len(drawn), math.prod(shape)))
    source.chosen(drawn).fill(cores, lambda x: project(x - m, U))
    cores = np.repeat(cores, counts, axis=0) * source.unit
    return summarise(cores, np.ones(len(cores))).shaped(shape)


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


class CoreDistances:
    """What a subspace learns of its cores, and how far those of other samples are from them."""

    _mean: Any
    _factors: Any
    residuals_: np.ndarray
    core_location_: np.ndarray
    core_scale_: np.ndarray
    _source: Any

    def _learn_cores(self, source: Source, weights: np.ndarray) -> None:
        cores = learn(source, self._mean, self._factors, self.residuals_, weights)
        self.core_location_, self.core_scale_ = cores.location, cores.scale

    @by_chunks
    def score_distances(self, X: Any) -> np.ndarray:
        """Return how far the core of each sample is from those of the samples that count.

        Beside the residuals this tells good leverage from bad: a sample that the subspace
        explains may still be unlike the others (the outlier map of ROBPCA, Hubert et al. 2005).

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, in memory or on disk.

        Returns
        -------
        distances : ndarray of shape (n_samples,)
            Root of the sum of squares of the core's entries, each less ``core_location_`` and
            divided by ``core_scale_``. Normal cores of k entries lie near the root of k.

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import MultilinearSubspace
        >>> X = np.random.default_rng(0).normal(size=(200, 6, 5))
        >>> model = MultilinearSubspace(ranks=(3, 2)).fit(X)
        >>> bool(abs(np.median(model.score_distances(X)) - np.sqrt(3 * 2)) < 0.3)
        True
        """
        source, _ = self._source(X)
        model = CoreModel(self.core_location_, self.core_scale_)
        measured = source.reduce(ScorePass(self._factors, model, source.unit, source.dtype))
        return np.concatenate(measured.squares)
