"""Fig. 7 to 11 of the paper, drawn from the records: recognition and clustering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from studies.paper.figures import STYLES
from studies.paper.pixels import unpack
from studies.paper.tallies import Record, mean_of, pick

__all__ = ["draw_fig7", "draw_fig8", "draw_fig9", "draw_fig10", "draw_fig11"]

BLUE, VERMILION = STYLES["ours"][0], STYLES["as printed"][0]
READINGS = {"pixels": (VERMILION, "x", ":"), "unit norm": (BLUE, "o", "-")}


def subspace_value(record: Record, key: str) -> float:
    """Return an argument of the subspace."""
    return float(record["parameters"]["subspace"][key])


def accuracy_map(records: Sequence[Record]) -> tuple[list[float], list[float], np.ndarray]:
    """Return alphas, betas and the accuracy at each pair, p = 2."""
    chosen = [r for r in pick(records) if subspace_value(r, "p") == 2 and capped(r)]
    alphas = sorted({subspace_value(r, "alpha") for r in chosen})
    betas = sorted({subspace_value(r, "beta") for r in chosen})
    values = np.full((len(alphas), len(betas)), np.nan)
    for i, alpha in enumerate(alphas):
        for j, beta in enumerate(betas):
            here = [
                r
                for r in chosen
                if subspace_value(r, "alpha") == alpha and subspace_value(r, "beta") == beta
            ]
            number = mean_of(here, "accuracy")
            values[i, j] = np.nan if number is None else number.mean
    return alphas, betas, values


def capped(record: Record) -> bool:
    """Tell whether the weight is held flat below its peak."""
    return bool(record["parameters"]["subspace"].get("cap", True))


def by_order(records: Sequence[Record], cap: bool = True) -> tuple[list[float], list[float]]:
    """Return orders p and the accuracies at the alpha and beta at which p varies."""
    known = [r for r in pick(records) if capped(r) == cap]
    varied = [r for r in known if subspace_value(r, "p") != 2]
    if not varied:
        return [], []
    fixed = {key: subspace_value(varied[0], key) for key in ("alpha", "beta")}
    chosen = [
        r for r in known if all(subspace_value(r, key) == value for key, value in fixed.items())
    ]
    orders = sorted({subspace_value(r, "p") for r in chosen})
    means = [mean_of(at_value(chosen, "p", p), "accuracy") for p in orders]
    return orders, [number.mean for number in means if number is not None]


def draw_recognition(records: Sequence[Record]) -> Figure:
    """Draw the accuracy over alpha and beta, and over p."""
    figure = Figure(figsize=(11, 4.2), dpi=80, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    alphas, betas, values = accuracy_map(records)
    image = left.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (i, j), value in np.ndenumerate(values):
        if np.isfinite(value):
            colour = "white" if value < middle else "black"
            left.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour, fontsize=9)
    left.set(xlabel="beta", ylabel="alpha", title="accuracy, p = 2")
    left.set_xticks(range(len(betas)), [f"{b:g}" for b in betas])
    left.set_yticks(range(len(alphas)), [f"{a:g}" for a in alphas])
    figure.colorbar(image, ax=left)
    for cap, name, style in ((True, "with the cap", "o-"), (False, "as printed, no cap", "x:")):
        orders, means = by_order(records, cap)
        right.plot(orders, means, style, color=BLUE if cap else VERMILION, label=name)
    right.set(xlabel="p", ylabel="accuracy", title="accuracy against the order p")
    right.margins(y=0.3)
    right.legend(frameon=False)
    right.grid(alpha=0.3)
    return figure


draw_fig7 = draw_fig8 = draw_recognition


def panels_of(records: Sequence[Record], size: float) -> tuple[Figure, list[tuple[Any, Record]]]:
    """Return a figure with one panel for each method, and the record it shows."""
    first = min(r["seed"] for r in records)
    chosen = {r["method"]: r for r in pick(records) if r["seed"] == first}
    # Sorted by name, what is ours comes last.
    order = [name for name in STYLES if name in chosen]
    order += sorted(name for name in chosen if name not in STYLES)
    rows = -(-len(order) // 5)
    figure = Figure(figsize=(5 * size, rows * (size + 0.25)), dpi=80, layout="constrained")
    panels = figure.subplots(rows, 5, squeeze=False).ravel()
    for axes in panels[len(order) :]:
        axes.set_axis_off()
    return figure, [(axes, chosen[name]) for axes, name in zip(panels, order, strict=False)]


def draw_fig9(records: Sequence[Record]) -> Figure:
    """Draw density against distance for every image; the chosen centres stand out."""
    figure, shown = panels_of(records, 2.6)
    for axes, record in shown:
        result = record["result"]
        rho, delta = np.array(result["rho"]), np.array(result["delta"])
        chosen = np.array(result["chosen"], dtype=int)
        axes.scatter(rho, delta, s=9, color="0.55", linewidths=0)
        axes.scatter(rho[chosen], delta[chosen], s=34, color=VERMILION, marker="D")
        axes.set_title(f"{record['method']}\nAC {result['accuracy']:.2f}", fontsize=9)
        axes.tick_params(labelsize=7)
        axes.set_xlabel("density", fontsize=8)
        axes.set_ylabel("distance", fontsize=8)
    return figure


def draw_fig10(records: Sequence[Record]) -> Figure:
    """Draw the similarity of all pairs of images, ordered by the clusters found."""
    figure, shown = panels_of(records, 1.9)
    for axes, record in shown:
        result = record["result"]
        image = axes.imshow(unpack(result["similarity"]), cmap="cividis", vmin=0, vmax=1)
        sizes = np.unique(result["found"], return_counts=True)[1]
        edges = np.cumsum(sizes)[:-1] - 0.5
        for edge in edges:
            axes.axhline(edge, color="white", linewidth=0.4)
            axes.axvline(edge, color="white", linewidth=0.4)
        axes.set(xticks=[], yticks=[])
        axes.set_title(f"{record['method']}\nNMI {result['nmi']:.2f}", fontsize=9)
    figure.colorbar(image, ax=figure.axes[: len(shown)], shrink=0.6, label="similarity")
    return figure


def draw_fig11(records: Sequence[Record]) -> Figure:
    """Draw accuracy and NMI against alpha and against beta."""
    figure = Figure(figsize=(11, 6), dpi=80, layout="constrained")
    panels = figure.subplots(2, 2, sharey="row", sharex="col")
    ways = (("alpha", "beta", 0.7), ("beta", "alpha", 6))
    for row, (metric, name) in zip(panels, (("accuracy", "AC"), ("nmi", "NMI")), strict=True):
        for axes, (axis, fixed, value) in zip(row, ways, strict=True):
            for units, (colour, mark, dash) in READINGS.items():
                chosen = [
                    r for r in pick(records, units=units) if subspace_value(r, fixed) == value
                ]
                x = sorted({subspace_value(r, axis) for r in chosen})
                y = [
                    number.mean
                    for v in x
                    if (number := mean_of(at_value(chosen, axis, v), metric)) is not None
                ]
                axes.plot(x, y, dash, color=colour, marker=mark, label=f"as printed, {units}")
            axes.grid(alpha=0.3)
        row[0].set_ylabel(name)
    panels[0, 0].set_title("beta = 0.7")
    panels[0, 1].set_title("alpha = 6")
    panels[1, 0].set_xlabel("alpha")
    panels[1, 1].set_xlabel("beta")
    panels[0, 0].legend(frameon=False)
    return figure


def at_value(records: Sequence[Record], axis: str, value: float) -> list[Record]:
    """Return the records with one value of an argument of the subspace."""
    return [r for r in records if subspace_value(r, axis) == value]
