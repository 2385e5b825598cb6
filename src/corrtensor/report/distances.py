"""How unusual every sample is: outside the subspace, inside it, and both against their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor.losses.protocol import weights_of
from corrtensor.tasks._subspace import squared_residuals
from corrtensor.tasks.outliers import upper_cut

__all__ = ["Distances", "distances", "score_distances"]

SIGMA_PER_MAD = 1.4826


@dataclass(frozen=True)
class Distances:
    """Distances of all samples, and where usual ones end.

    Parameters
    ----------
    residual : ndarray of shape (n_samples,)
        Distance from the subspace: what it does not explain.
    score : ndarray of shape (n_samples,)
        Distance inside the subspace from its middle.
    weights : ndarray of shape (n_samples,) or None
        How much each sample counts, the largest 1; ``None`` if the method has no weights.
    residual_limit, score_limit : float
        Where usual distances end, see :class:`corrtensor.TensorOutlierDetector`.
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
    """Measure how unusual samples are to a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : array of shape (n_samples, a_1, ..., a_d)
        Samples, in memory or on disk.

    Returns
    -------
    distances : Distances
        One number of each kind for every sample.
    """
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
