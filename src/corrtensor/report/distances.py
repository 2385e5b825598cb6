"""How unusual every sample is: by the one score, and outside and inside the subspace."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from corrtensor._engine.containers import bare
from corrtensor._engine.core_distances import summarise
from corrtensor.tasks._subspace import sample_weights, squared_residuals, weighted_median
from corrtensor.tasks.outliers import TensorOutlierDetector
from corrtensor.tasks.reasons import reasons

# Of a normal distribution: its 99 % point, and its standard deviation over its median deviation.
NORMAL_99, SIGMA_PER_MAD = 2.3263, 1.4826


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
    return summarise(cores).distances(cores)


def distances(model: Any, X: Any) -> Distances:
    """Measure how unusual samples, in memory or on disk, are to a fitted model."""
    X = bare(X, model)
    s = squared_residuals(model, X)
    detector = TensorOutlierDetector(FrozenEstimator(model)).fit(X)
    measured = detector.measure(X)
    score = score_distances(model, X)
    weights = sample_weights(FrozenEstimator(model), X, as_known=True)
    return Distances(
        residual=np.sqrt(s),
        score=score,
        weights=weights,
        residual_limit=float(np.sqrt(usual_end(s, weights))),
        score_limit=float(np.sqrt(usual_end(np.square(score), weights))),
        unusual=measured["score"] / -detector.offset_,
        reasons=reasons(measured, -detector.offset_),
    )


def usual_end(s: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return where usual squared distances end: about one in a hundred lies beyond.

    Their cube roots are nearly normal (Wilson and Hilferty), so that the median and the median
    deviation of those that count tell, as in ROBPCA.
    """
    roots = np.cbrt(s)
    median = weighted_median(roots, weights)
    sigma = SIGMA_PER_MAD * weighted_median(np.abs(roots - median), weights)
    return (median + NORMAL_99 * sigma) ** 3
