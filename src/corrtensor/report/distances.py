"""How unusual every sample is: by the one score, and outside and inside the subspace."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from corrtensor._engine.containers import bare
from corrtensor.losses.protocol import weights_of
from corrtensor.tasks._subspace import squared_residuals, weighted_median
from corrtensor.tasks.outliers import TensorOutlierDetector
from corrtensor.tasks.reasons import reasons

# Clean samples beyond a limit at least.
BEYOND = 0.01
# Robust standard deviations above the median at which samples are first set aside, and of a limit.
FIRST_CUT, CUT = 2.5, 3.75
# A normal distribution's standard deviation over its median and its mean absolute deviation.
SIGMA_PER_MAD, SIGMA_PER_MEAN = 1.4826, 1.2533
MAX_ROUNDS = 50


@dataclass(frozen=True)
class Distances:
    """Distances of all samples from the subspace (``residual``) and inside it from its middle.

    The limits are where usual distances end. ``weights`` are ``None`` if the method has none.
    ``unusual`` is the score of :class:`corrtensor.TensorOutlierDetector`, 1 at its cut: the one
    ranking; ``reasons`` are what stands out of those beyond it.
    """

    residual: np.ndarray
    score: np.ndarray
    weights: np.ndarray | None
    residual_limit: float
    score_limit: float
    unusual: np.ndarray
    reasons: list[tuple[str, ...]]


def score_distances(model: Any, X: Any) -> np.ndarray:
    """Return the distance of each sample inside the subspace from its middle."""
    if hasattr(model, "score_distances"):
        return np.asarray(model.score_distances(X))
    cores = np.asarray(model.transform(X))
    cores = cores.reshape(len(cores), -1)
    off = np.abs(cores - np.median(cores, axis=0))
    unit = SIGMA_PER_MAD * np.median(off, axis=0)
    # Where most samples agree, there is no unit to count in.
    unit[unit == 0] = unit.max() or 1.0
    return np.sqrt(np.square(off / unit).mean(axis=1, dtype=float))


def distances(model: Any, X: Any) -> Distances:
    """Measure how unusual samples, in memory or on disk, are to a fitted model."""
    X = bare(X, model)
    s = squared_residuals(model, X)
    detector = TensorOutlierDetector(FrozenEstimator(model)).fit(X)
    measured = detector.measure(X)
    loss, score = getattr(model, "loss_", None), score_distances(model, X)
    weights = None if loss is None else weights_of(loss, s)
    return Distances(
        residual=np.sqrt(s),
        score=score,
        weights=weights,
        residual_limit=float(np.sqrt(upper_cut(s, weights))),
        score_limit=float(np.sqrt(upper_cut(np.square(score), weights))),
        unusual=measured["score"] / -detector.offset_,
        reasons=reasons(measured, -detector.offset_),
    )


def upper_cut(s: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return where clean squared distances end: the limits drawn in the outlier map.

    Where their cube roots, nearly normal, exceed the median by 3.75 robust standard deviations, or
    the largest hundredth begins; learned from those within, by their weights, until no sample
    changes sides.
    """
    roots = np.cbrt(s)
    weights = np.ones(len(s)) if weights is None else weights
    cut = cut_above(roots, weights, FIRST_CUT, skewed=False)
    kept = np.zeros(len(s), dtype=bool)
    for _ in range(MAX_ROUNDS):
        below = roots <= cut
        if np.array_equal(below, kept):
            break
        kept = below
        cut = cut_above(roots[kept], weights[kept], CUT, skewed=True)
    place = len(s) - 1 - int(BEYOND * len(s))
    # Rounding may put the cube of a root below its residual: what is kept lies within the cut.
    end = max(cut**3, s[roots <= cut].max())
    return float(min(end, np.partition(s, place)[place]))


def cut_above(roots: np.ndarray, weights: np.ndarray, sigmas: float, *, skewed: bool) -> float:
    """Return the median plus so many robust standard deviations."""
    median = weighted_median(roots, weights)
    off = np.abs(roots - median)
    sigma = SIGMA_PER_MAD * weighted_median(off, weights)
    if skewed:
        # Before anything was set aside, the upper half may be full of outliers.
        upper = roots >= median
        sigma = max(sigma, SIGMA_PER_MAD * weighted_median(off[upper], weights[upper]))
    if sigma == 0:
        # Half of the samples are equally far out, such as copies of one sample.
        sigma = SIGMA_PER_MEAN * float(np.average(off, weights=weights))
    return median + sigmas * sigma
