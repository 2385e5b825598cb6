"""The demo's figure: originals, reconstructions, rejected samples, and the residuals of all."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpecFromSubplotSpec

from corrtensor._base.files import replacing
from corrtensor.demo import CaseResult, Fit

# Blue and vermilion of Okabe and Ito, told apart by all; marks and words say the same again.
GOOD, BAD = "#0072B2", "#D55E00"
REJECTED = 8
TITLES = (
    "Good samples and their reconstructions\n(those on which 2DSVD lost most)",
    "Smallest weights in Corr-Tensor: near 0 is\nrejected (each image in its own grey range)",
    "Squared residuals\nin Corr-Tensor",
)


def draw_demo(results: list[CaseResult], origin: dict[str, Any]) -> Figure:
    """Draw the results of the demo, one band for each case; their origin stands at the foot."""
    figure = Figure(figsize=(13, 2.75 * len(results) + 1.5), dpi=110)
    top = 1 - 1.1 / figure.get_figheight()
    bottom = 0.75 / figure.get_figheight()
    bands = figure.add_gridspec(
        len(results), 3, width_ratios=(4.5, 4.5, 2.8), wspace=0.09, hspace=0.4,
        left=0.065, right=0.95, top=top, bottom=bottom,
    )  # fmt: skip
    for band, result in enumerate(results):
        draw_reconstructions(figure, bands[band, 0], result)
        draw_rejected(figure, bands[band, 1], result)
        axes = figure.add_subplot(bands[band, 2])
        draw_residuals(axes, result)
        if band == 0:
            axes.legend(fontsize=8, loc="upper left", handletextpad=0.2)
    for column, title in enumerate(TITLES):
        box = bands[0, column].get_position(figure)
        y = 1 - 0.2 / figure.get_figheight()
        x = (box.x0 + box.x1) / 2
        figure.text(x, y, title, ha="center", va="top", fontsize=12, weight="bold")
    figure.text(0.02, 0.12 / figure.get_figheight(), footer(origin), fontsize=8, color="0.35")
    return figure


def footer(origin: dict[str, Any]) -> str:
    """Say in two lines where the numbers come from."""
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    ranks = " x ".join(str(k) for k in origin["ranks"])
    return (
        f"corrtensor demo --seed {origin['seed']}: ranks {ranks}, all else at the defaults; "
        f"oracle: the error of {origin['oracle']}.\n{versions}; {origin['machine']}"
    )


def show(
    axes: Any, image: np.ndarray, limits: tuple[float, float], colour: str | None = None
) -> None:
    """Draw one image in grey, in a coloured frame if asked."""
    axes.imshow(image, cmap="gray", vmin=limits[0], vmax=limits[1], interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    for side in axes.spines.values():
        side.set(visible=colour is not None, color=colour, linewidth=2.5)


def draw_reconstructions(figure: Figure, place: Any, result: CaseResult) -> None:
    """Draw each shown sample beside what every method makes of it."""
    case = result.case
    grid = GridSpecFromSubplotSpec(
        len(result.shown), 1 + len(result.fits), place, wspace=0.06, hspace=0.08
    )
    for row, sample in enumerate(result.shown):
        image = case.X[sample]
        limits = float(image.min()), float(image.max())
        axes = figure.add_subplot(grid[row, 0])
        show(axes, image, limits)
        if row == 0:
            axes.set_title("original", fontsize=9)
        for column, fit in enumerate(result.fits, start=1):
            axes = figure.add_subplot(grid[row, column])
            show(axes, fit.reconstructions[row], limits)
            if row == 0:
                axes.set_title(f"{fit.method}\n{fit.times_oracle:.2f} x oracle", fontsize=9)
    box = place.get_position(figure)
    figure.text(
        0.032, (box.y0 + box.y1) / 2, f"{case.data}\n{case.outliers}",
        rotation=90, ha="center", va="center", fontsize=11, weight="bold",
    )  # fmt: skip


def robust(result: CaseResult) -> Fit:
    """Return the last fit, Corr-Tensor, the one whose rejections are shown."""
    return result.fits[-1]


def draw_rejected(figure: Figure, place: Any, result: CaseResult) -> None:
    """Draw the samples of smallest weight, framed and named by what they are."""
    case, weights = result.case, robust(result).weights
    grid = GridSpecFromSubplotSpec(2, REJECTED // 2, place, wspace=0.1, hspace=0.3)
    # Weights that underflow to zero together are told apart by their residuals.
    order = np.lexsort((-robust(result).residuals, weights))[:REJECTED]
    for number, sample in enumerate(order):
        image, bad = case.X[sample], case.is_outlier[sample]
        axes = figure.add_subplot(grid[divmod(number, REJECTED // 2)])
        show(axes, image, (float(image.min()), float(image.max())), BAD if bad else GOOD)
        weight = f"{weights[sample]:.2f}" if weights[sample] >= 0.01 else "< 0.01"
        text = f"{'outlier' if bad else 'good'}: {weight}"
        axes.set_title(text, fontsize=8, color=BAD if bad else GOOD, pad=3)


def draw_residuals(axes: Any, result: CaseResult) -> None:
    """Draw the residual of every sample, good ones as dots, outliers as crosses."""
    case, fit = result.case, robust(result)
    number = np.arange(len(case.X))
    size = 8 if len(case.X) > 200 else 14
    for is_bad, colour, mark, name in ((False, GOOD, "o", "good"), (True, BAD, "x", "outlier")):
        chosen = case.is_outlier == is_bad
        axes.scatter(
            number[chosen], fit.residuals[chosen], s=size, c=colour, marker=mark,
            linewidths=0.9 if is_bad else 0, label=name,
        )  # fmt: skip
    axes.set_yscale("log")
    axes.yaxis.tick_right()
    axes.tick_params(labelsize=8)
    axes.set_xlabel("sample", fontsize=8, labelpad=1)
    axes.spines[["top", "left"]].set_visible(False)
    n_bad = int(case.is_outlier.sum())
    axes.set_title(f"{fit.found} of {n_bad} found, AUC {fit.auc:.3f}", fontsize=9)


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure whole or not at all; the ending says the format."""
    with replacing(path) as file:
        figure.savefig(file.name, format=Path(path).suffix.lstrip(".").lower())
    return Path(path)
