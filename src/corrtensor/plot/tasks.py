"""Plots of clusters and of the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from corrtensor._base.checks import require_positive
from corrtensor.correntropy import corr_ploss
from corrtensor.plot.models import axes_or_new, fitted, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points of a surface along each error.
SURFACE = 61


def decision_graph(clusters: Any, *, ax: Axes | None = None) -> Axes:
    """Draw density and distance of every sample: clusters begin where both are large.

    Parameters
    ----------
    clusters : DensityPeaksKMeans
        Fitted clusters.
    ax : matplotlib.axes.Axes, default=None
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        The chosen centres as crosses.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> ct.plot.decision_graph(ct.DensityPeaksKMeans(3, random_state=0).fit(X)).get_xlabel()
    'density'
    """
    graph = fitted(clusters, "decision_graph_")
    ax = axes_or_new(ax)
    chosen = np.isin(np.arange(len(graph.rho)), graph.chosen)
    points(ax, graph.rho, graph.delta, chosen, ("samples", "starting centres"))
    ax.set(xlabel="density", ylabel="distance from a denser sample")
    return ax


def loss_surface(
    alpha: float = 2.0,
    beta: float = 0.8,
    *,
    p: float = 2.0,
    extent: float = 3.0,
    ax: Axes | None = None,
) -> Axes:
    """Draw the generalised correntropy loss of two errors as a surface (paper, Fig. 1).

    Parameters
    ----------
    alpha, beta, p : float, default=2.0, 0.8, 2.0
        Shape, width and order of the loss.
    extent : float, default=3.0
        Largest error drawn.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; it must have ``projection="3d"``.

    Returns
    -------
    ax : matplotlib.axes.Axes
        Loss over both errors.

    Examples
    --------
    >>> import corrtensor as ct
    >>> ct.plot.loss_surface(alpha=5).get_zlabel()
    'loss'
    """
    require_positive(extent=extent)
    if ax is not None and not hasattr(ax, "plot_surface"):
        raise ValueError("a surface needs axes with projection='3d'")
    drawn: Any = axes_or_new(ax, projection="3d")
    errors = np.linspace(-extent, extent, SURFACE)
    first, second = np.meshgrid(errors, errors)
    one = np.array([corr_ploss([e], [0.0], alpha, beta, p) for e in errors])
    loss = (one[:, None] + one) / 2
    count = {"rcount": SURFACE, "ccount": SURFACE}
    drawn.plot_surface(first, second, loss, cmap="cividis", linewidth=0, **count)
    drawn.set(xlabel="first error", ylabel="second error", zlabel="loss")
    drawn.set_title(f"alpha = {alpha:g}, beta = {beta:g}, p = {p:g}")
    surface: Axes = drawn
    return surface
