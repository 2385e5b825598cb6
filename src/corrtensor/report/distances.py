"""How unusual every sample is: outside the subspace, inside it, and both against their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor._engine.containers import bare
from corrtensor.losses.protocol import weights_of
from corrtensor.tasks._subspace import squared_residuals
from corrtensor.tasks.outliers import upper_cut

SIGMA_PER_MAD = 1.4826


@dataclass(frozen=True)
class Distances:
    """Distances of all samples from the subspace (``residual``) and inside it from its middle.

    The limits are where usual distances end, see :class:`corrtensor.TensorOutlierDetector`.
    ``weights`` are ``None`` if the method has none.
    """

    residual: np.ndarray
    score: np.ndarray
    weights: np.ndarray | None
    residual_limit: float
    score_limit: float

    @property
    def unusual(self) -> np.ndarray:
        """The larger of the two distances, each in units of its limit."""
        parts = [
            d / limit if limit > 0 else (d > 0).astype(float)
            for d, limit in (
                (self.residual, self.residual_limit),
                (self.score, self.score_limit),
            )
        ]
        return np.maximum(*parts)


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
    loss, score = getattr(model, "loss_", None), score_distances(model, X)
    weights = None if loss is None else weights_of(loss, s)
    return Distances(
        residual=np.sqrt(s),
        score=score,
        weights=weights,
        residual_limit=float(np.sqrt(upper_cut(s, weights))),
        score_limit=float(np.sqrt(upper_cut(np.square(score), weights))),
    )
