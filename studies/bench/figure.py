"""Time against size, drawn from what the benchmark measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from studies.bench.cases import Point

__all__ = ["draw_bench"]


def draw_bench(points: Sequence[Point], origin: dict[str, Any]) -> Figure:
    """Draw one panel for each size that was varied.

    Parameters
    ----------
    points : sequence of Point
        Seconds of fits.
    origin : dict
        Versions and machine, written below the figure.

    Returns
    -------
    figure : matplotlib.figure.Figure
        Not tied to any window.
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(point.series for point in points))
    figure = Figure(figsize=(3.6 * len(names), 3.4), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for method in dict.fromkeys(p.method for p in points):
            chosen = [p for p in points if (p.series, p.method) == (name, method)]
            axes.loglog([p.value for p in chosen], [p.seconds for p in chosen], "o-", label=method)
        axes.set(xlabel=name, ylabel="seconds, three sweeps")
        # The sizes measured, in plain numbers: powers of ten would overlap.
        sizes = sorted({p.value for p in points if p.series == name})
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xticks([], minor=True)
        axes.grid(alpha=0.3, which="both")
    figure.axes[0].legend(frameon=False)
    versions = ", ".join(f"{k} {v}" for k, v in origin["versions"].items())
    figure.supxlabel(f"{versions}; {origin['cores']} cores", fontsize=7)
    return figure
