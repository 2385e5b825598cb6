"""Plots of fitted models with matplotlib: ``ct.plot``.

Every function draws on the axes or the figure it is given, or makes new ones, and returns them.
Blue and vermilion are those of Okabe and Ito, told apart by all eyes; marks differ too.
"""

from corrtensor.plot.models import (
    convergence,
    factors,
    outlier_map,
    reconstructions,
    scree,
    weights,
)
from corrtensor.plot.tasks import decision_graph, loss_surface

__all__ = [
    "convergence",
    "decision_graph",
    "factors",
    "loss_surface",
    "outlier_map",
    "reconstructions",
    "scree",
    "weights",
]
