"""Fig. 1 to 6 of the paper, drawn from the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from studies.paper.pixels import unpack
from studies.paper.tallies import Record, mean_of, pick

__all__ = ["draw_fig1", "draw_fig2", "draw_fig3", "draw_fig4", "draw_fig5", "draw_fig6"]

# Colours of Okabe and Ito; marks and dashes say the same again.
STYLES: dict[str, tuple[str, str, str]] = {
    "2DPCA": ("0.35", "s", "-"),
    "L1-2DPCA": ("#56B4E9", "^", "-"),
    "2DSVD": ("0.6", "o", "-"),
    "R1-2DSVD": ("#E69F00", "v", "-"),
    "N-2DNPP": ("#CC79A7", "<", "-"),
    "S-2DNPP": ("#9A8500", ">", "-"),
    "as printed": ("#D55E00", "x", ":"),
    "as printed, unit norm": ("#D55E00", "+", "--"),
    "default": ("#0072B2", "d", ":"),
    "ours": ("#0072B2", "D", "-"),
    "ours, one-sided": ("#009E73", "P", "-"),
    "oracle": ("black", "", ":"),
    "oracle, one-sided": ("black", "", "-."),
}
KINDS = {"noise": "noise images added", "block": "images partly covered"}


def line(axes: Any, label: str, x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a curve in the style of its method."""
    colour, mark, dash = STYLES[label]
    axes.plot(x, y, dash, color=colour, marker=mark, markersize=5, linewidth=1.3, label=label)


def curve(
    records: Sequence[Record], metric: str, axis: str, **wanted: Any
) -> tuple[list[float], list[float]]:
    """Return a metric along one of the parameters or cases, seeds averaged."""
    chosen = pick(records, **wanted)

    def place(record: Record) -> float:
        return float({**record["parameters"], **record["case"]}[axis])

    x = sorted({place(r) for r in chosen})
    means = (mean_of([r for r in chosen if place(r) == value], metric) for value in x)
    return x, [number.mean for number in means if number is not None]


def draw_fig1(records: Sequence[Record]) -> Figure:
    """Draw the surfaces of the Corr-Loss."""
    figure = Figure(figsize=(12, 4), dpi=80)
    for number, alpha in enumerate((1, 2, 5), start=1):
        result = pick(records, alpha=alpha)[0]["result"]
        a, b = np.meshgrid(result["axis"], result["axis"])
        axes: Any = figure.add_subplot(1, 3, number, projection="3d")
        axes.plot_surface(a, b, np.array(result["loss"]), cmap="viridis", linewidth=0)
        axes.set_title(f"alpha = {alpha}", y=0.98)
        axes.set(xlabel="$a_1$", ylabel="$a_2$")
        axes.view_init(elev=28, azim=-55)
    figure.text(0.02, 0.5, "Corr-Loss, beta = 0.8", rotation=90, va="center")
    figure.subplots_adjust(left=0.04, right=0.96, bottom=0.06, top=0.95, wspace=0.12)
    return figure


def draw_fig2(records: Sequence[Record]) -> Figure:
    """Draw the error of the good images against the number of components."""
    figure = Figure(figsize=(12, 5), dpi=80, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for label in STYLES:
            x, y = curve(records, "error", "npc", method=label, outliers=kind)
            if x:
                line(axes, label, x, y)
        axes.set(yscale="log", title=title, xlabel="number of principal components")
        axes.set_xticks(sorted({r["case"]["npc"] for r in records}))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("mean squared error of the good images")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def draw_fig3(records: Sequence[Record]) -> Figure:
    """Draw the error against alpha (bars, one for each number of components) and beta."""
    figure = Figure(figsize=(13, 6.5), dpi=80, layout="constrained")
    panels = figure.subplots(2, 3)
    for row, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for axes, reading in zip(row, ("as printed", "as printed, unit norm"), strict=False):
            chosen = pick(records, outliers=kind, method=reading, beta=0.8)
            bars(axes, chosen)
            axes.set_title(f"{title}; {reading}", fontsize=10)
        for reading in ("as printed", "as printed, unit norm"):
            at = pick(records, outliers=kind, method=reading, alpha=1.6)
            npcs = [r["case"]["npc"] for r in at if r["parameters"]["beta"] != 0.8]
            if npcs:
                line(row[2], reading, *curve(at, "error", "beta", npc=npcs[0]))
        row[2].set(xscale="log", yscale="log", xlabel="beta")
        row[2].set_title(f"{title}; alpha = 1.6", fontsize=10)
        row[2].xaxis.set_major_formatter("{x:g}")
        plain_numbers(row[2].yaxis)
        row[2].grid(alpha=0.3)
        row[2].legend(frameon=False, fontsize=8)
        row[0].set_ylabel("mean squared error")
    return figure


def plain_numbers(axis: Any) -> None:
    """Write the numbers of a logarithmic axis without powers, some between the decades too."""
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(LogLocator(subs=(2, 5)))
    axis.set_minor_formatter("{x:g}")
    axis.set_tick_params(which="minor", labelsize=8)


def bars(axes: Any, records: Sequence[Record]) -> None:
    """Draw one group of bars for each alpha, one bar for each number of components."""
    alphas = sorted({r["parameters"]["alpha"] for r in records})
    npcs = sorted({r["case"]["npc"] for r in records})
    shades = [str(level) for level in np.linspace(0.8, 0.1, len(npcs))]
    for j, (npc, shade) in enumerate(zip(npcs, shades, strict=True)):
        y = curve(records, "error", "alpha", npc=npc)[1]
        x = np.arange(len(y)) + 0.16 * (j - (len(npcs) - 1) / 2)
        axes.bar(x, y, width=0.16, color=shade, label=f"NPC {npc}")
    axes.set(yscale="log", xlabel="alpha", xticks=range(len(alphas)), xticklabels=alphas)
    plain_numbers(axes.yaxis)
    axes.legend(frameon=False, fontsize=7, ncols=len(npcs), columnspacing=0.8, handlelength=1)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 2)


def draw_fig4(records: Sequence[Record]) -> Figure:
    """Draw the objective after each sweep, relative to the first and the last."""
    figure = Figure(figsize=(10, 3.8), dpi=80, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, KINDS.items(), strict=True):
        for label in ("as printed", "as printed, unit norm", "default"):
            for r in pick(records, method=label, outliers=kind)[:1]:
                J = np.array(r["result"]["objective"])
                span = J[0] - J[-1]
                share = (J - J[-1]) / span if span > 0 else np.zeros(len(J))
                line(axes, label, [float(i) for i in range(1, len(J) + 1)], share.tolist())
        axes.set(title=title, xlabel="sweep")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("objective above its last value,\nas a share of the first sweep's")
    panels[0].legend(frameon=False)
    return figure


def draw_fig5(records: Sequence[Record]) -> Figure:
    """Draw the error of colour images against alpha and beta."""
    figure = Figure(figsize=(10, 3.8), dpi=80, layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, axis, fixed in (
        (panels[0], "alpha", {"beta": 0.8}),
        (panels[1], "beta", {"alpha": 3.0}),
    ):
        for label in ("as printed", "as printed, unit norm"):
            x, y = curve(records, "error", axis, method=label, **fixed)
            line(axes, label, x, y)
        said = ", ".join(f"{key} = {value:g}" for key, value in fixed.items())
        axes.set(yscale="log", xlabel=axis, title=f"noise images added; {said}")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter("")
        axes.grid(alpha=0.3)
    panels[1].set_xscale("log")
    panels[1].xaxis.set_major_formatter("{x:g}")
    panels[0].set_ylabel("mean squared error")
    panels[0].legend(frameon=False)
    return figure


def draw_fig6(records: Sequence[Record]) -> Figure:
    """Draw reconstructions for rising numbers of components, the originals last."""
    chosen = sorted(pick(records), key=lambda r: (r["seed"], r["case"]["npc"]))
    chosen = [r for r in chosen if r["seed"] == chosen[0]["seed"]]
    n = len(chosen[0]["result"]["images"])
    figure = Figure(figsize=(1.9 * (len(chosen) + 1), 2.0 * n + 0.3), dpi=80, layout="constrained")
    panels = figure.subplots(n, len(chosen) + 1, squeeze=False)
    for i in range(n):
        shown = [(f"NPC {r['case']['npc']}", r["result"]["images"][i]) for r in chosen]
        shown.append(("original", chosen[0]["result"]["originals"][i]))
        for axes, (title, image) in zip(panels[i], shown, strict=True):
            axes.imshow(unpack(image), interpolation="nearest")
            axes.set(xticks=[], yticks=[])
            if i == 0:
                axes.set_title(title, fontsize=10)
    return figure
