"""Fig. 1: surfaces of the Corr-Loss between a pair of numbers and zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from corrtensor.correntropy import ggd_constants
from studies.paper.study import Folder, Study, grid
from studies.records import Trial

__all__ = ["studies"]

ALPHAS, BETA = (1, 2, 5), 0.8
REACH, POINTS, DIGITS = 3.0, 41, 5


def surface(trial: Trial, folder: Folder) -> dict[str, Any]:
    """Return eq. (11) for A = (a1, a2), B = 0 on a square grid."""
    alpha, beta = trial.parameters["alpha"], trial.parameters["beta"]
    gamma, decay = ggd_constants(alpha, beta)
    a = np.linspace(-REACH, REACH, POINTS)
    kernel = gamma * np.exp(-decay * np.abs(a) ** alpha)
    loss = gamma - (kernel[:, None] + kernel[None, :]) / 2
    return {
        "gamma": gamma,
        "axis": a.round(DIGITS).tolist(),
        "loss": loss.round(DIGITS).tolist(),
    }


def studies(folder: Folder = None) -> list[Study]:
    """Return Fig. 1; it needs no data."""
    methods = {f"alpha={a}": {"alpha": a, "beta": BETA} for a in ALPHAS}
    cells = grid([{"data": "none"}], methods)
    return [Study("fig1", surface, cells)]
