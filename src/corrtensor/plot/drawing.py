"""What all plots share: axes, marks, colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor.report.pictures import unit_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes


USUAL, UNUSUAL, LIMIT = "#0072B2", "#D55E00", "0.45"


def pyplot() -> Any:
    """Import matplotlib, or say how to install it."""
    return need("matplotlib.pyplot", "plot", "a plot")


def axes_or_new(ax: Axes | None, **options: Any) -> Any:
    """Return the axes, or those of a new figure."""
    if ax is not None:
        return ax
    return pyplot().subplots(layout="constrained", subplot_kw=options)[1]


def fitted(model: Any, name: str) -> Any:
    """Return an attribute of a fitted model, or say that it has none."""
    if not hasattr(model, name):
        raise ValueError(f"{type(model).__name__} has no {name}: fit it, or use another method")
    return getattr(model, name)


def show(ax: Any, picture: np.ndarray, limits: tuple[float, float], cmap: str = "gray") -> None:
    """Draw a line, a grey or a colour picture."""
    if picture.ndim == 1:
        ax.plot(picture, color=USUAL, linewidth=1)
        ax.set_ylim(*limits)
    elif picture.ndim == 3:
        ax.imshow(unit_range(picture, limits), interpolation="nearest")
    else:
        ax.imshow(picture, cmap=cmap, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    ax.set(xticks=[], yticks=[])


def points(
    ax: Any, x: np.ndarray, y: np.ndarray, marked: np.ndarray, words: tuple[str, str]
) -> None:
    """Draw usual points as dots and marked ones as crosses, with a legend if there are both."""
    ax.scatter(x[~marked], y[~marked], s=14, color=USUAL, linewidths=0, alpha=0.8, label=words[0])
    if marked.any():
        ax.scatter(x[marked], y[marked], s=26, color=UNUSUAL, marker="x", label=words[1])
        ax.legend(frameon=False)
