"""Plots of a fitted subspace and of its samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor.report.distances import Distances, distances
from corrtensor.report.model_pictures import ordinary_and_unusual
from corrtensor.report.pictures import unit_range, value_limits, view_of
from corrtensor.report.survey import Subspace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMED = 5
USUAL, UNUSUAL, LIMIT = "#0072B2", "#D55E00", "0.45"


def reconstructions(
    model: Any, X: Any, *, samples: Sequence[int] | None = None, figure: Figure | None = None
) -> Figure:
    """Draw samples, what the model makes of them, and where the two differ.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : array-like of shape (n_samples, a_1, ..., a_d)
        Samples, in memory or on disk.
    samples : sequence of int, default=None
        Which ones; by default the most unusual three and three ordinary ones.
    figure : matplotlib.figure.Figure, default=None
        Where to draw.

    Returns
    -------
    figure : matplotlib.figure.Figure
        One column for each sample: itself, its reconstruction, their difference (each column's
        in a range of its own, from dark at zero to bright).

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> figure = ct.plot.reconstructions(ct.CorrTensor(ranks=(4, 4)).fit(X), X, samples=[0, 1])
    >>> len(figure.axes)
    6
    """
    subspace = Subspace(model)
    checked, _ = model._check(X)
    if samples is None:
        samples = ordinary_and_unusual(np.argsort(-distances(model, X).unusual), 3).tolist()
    x = np.stack([np.asarray(checked[i : i + 1])[0] for i in samples]).astype(float)
    y, view = subspace.back(subspace.cores(x)), view_of(subspace.shape)
    figure = figure or pyplot().figure(figsize=(1.7 * len(x) + 0.4, 5), layout="constrained")
    grid = figure.subplots(3, len(x), squeeze=False)
    for column, (i, sample, made) in enumerate(zip(samples, x, y, strict=True)):
        limits = value_limits(sample[np.isfinite(sample)])
        show(grid[0, column], view.picture(sample), limits)
        show(grid[1, column], view.picture(made), limits)
        size = view.magnitude(sample - made)
        show(grid[2, column], size, (0.0, float(np.nanmax(size)) or 1.0), "cividis")
        grid[0, column].set_title(f"sample {i}", fontsize=9)
    for row, words in enumerate(("sample", "reconstruction", "difference")):
        grid[row, 0].set_ylabel(words)
    return figure


def weights(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the weight of every sample of the fit.

    Parameters
    ----------
    model : estimator
        A fitted subspace with ``weights_``.
    ax : matplotlib.axes.Axes, default=None
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        Weight against sample; below one half as crosses.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> ct.plot.weights(ct.CorrTensor(ranks=(4, 4)).fit(X)).get_ylabel()
    'weight'
    """
    w = fitted(model, "weights_")
    ax = axes_or_new(ax)
    low = w < 0.5
    words = ("usual", f"weight below one half ({low.sum()})")
    points(ax, np.arange(len(w)), w, low, words)
    ax.axhline(0.5, color=LIMIT, linestyle="--", linewidth=1)
    ax.set(xlabel="sample", ylabel="weight", ylim=(-0.04, 1.04))
    return ax


def convergence(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the objective after each sweep.

    Parameters
    ----------
    model : estimator
        A fitted subspace with ``objective_``.
    ax : matplotlib.axes.Axes, default=None
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        Objective against sweep.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> ct.plot.convergence(ct.CorrTensor(ranks=(4, 4)).fit(X)).get_xlabel()
    'sweep'
    """
    values = fitted(model, "objective_")
    ax = axes_or_new(ax)
    ax.plot(np.arange(1, len(values) + 1), values, "o-", color=USUAL)
    ax.locator_params(axis="x", integer=True)
    ax.ticklabel_format(axis="y", useOffset=False)
    ax.set(xlabel="sweep", ylabel="objective")
    return ax


def outlier_map(
    model: Any, X: Any, *, names: Sequence[object] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw orthogonal distance against score distance: outside and inside the subspace.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : array-like of shape (n_samples, a_1, ..., a_d)
        Samples, in memory or on disk.
    names : sequence of str, default=None
        Names of the samples; the most unusual five beyond the cut are written beside them.
    ax : matplotlib.axes.Axes, default=None
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        Samples beyond the cut of TensorOutlierDetector as crosses, the limits as dashed lines.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> ct.plot.outlier_map(ct.CorrTensor(ranks=(4, 4)).fit(X), X).get_xlabel()
    'score distance'
    """
    found = distances(model, X)
    if names is not None and len(names) != len(found.score):
        raise ValueError(f"{len(names)} names were given for {len(found.score)} samples")
    ax = axes_or_new(ax)
    beyond = found.unusual > 1
    words = ("usual", f"beyond the cut ({beyond.sum()})")
    points(ax, found.score, found.residual, beyond, words)
    ax.axvline(found.score_limit, color=LIMIT, linestyle="--", linewidth=1)
    ax.axhline(found.residual_limit, color=LIMIT, linestyle="--", linewidth=1)
    ax.set(xlabel="score distance", ylabel="orthogonal distance")
    if names is not None:
        write_names(ax, found, names)
    return ax


def write_names(ax: Any, found: Distances, names: Sequence[object]) -> None:
    """Write the names of the most unusual samples beside them, as they are."""
    for i in np.argsort(-found.unusual, kind="stable")[:NAMED]:
        if found.unusual[i] > 1:
            place = float(found.score[i]), float(found.residual[i])
            ax.annotate(
                str(names[i]), place, (5, 3), textcoords="offset points", fontsize=8,
                parse_math=False,
            )  # fmt: skip


def scree(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw how much of the variance the directions of each mode explain.

    Parameters
    ----------
    model : estimator
        A fitted subspace with ``explained_variance_ratio_by_mode_``.
    ax : matplotlib.axes.Axes, default=None
        Where to draw.

    Returns
    -------
    ax : matplotlib.axes.Axes
        For each projected mode, the share of its directions in order, outliers not counted. The
        title says what the subspace explains in all.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> ct.plot.scree(ct.CorrTensor(ranks=(4, 4)).fit(X)).get_title()
    '75 % of the variance explained'
    """
    shares = fitted(model, "explained_variance_ratio_by_mode_")
    ax = axes_or_new(ax)
    styles = (("o-", USUAL), ("s--", UNUSUAL), ("^:", "#009E73"), ("D-.", "#CC79A7"))
    for n, (U, share) in enumerate(zip(model.factors_, shares, strict=True), start=1):
        if U is not None:
            style, color = styles[(n - 1) % len(styles)]
            ax.plot(np.arange(1, len(share) + 1), share, style, color=color, label=f"mode {n}")
    if len(shares) > 1:
        ax.legend(frameon=False)
    ax.locator_params(axis="x", integer=True)
    total = 100 * float(np.sum(model.explained_variance_ratio_))
    ax.set(
        xlabel="direction",
        ylabel="explained variance ratio",
        title=f"{total:.0f} % of the variance explained",
        ylim=(0, None),
    )
    return ax


def factors(model: Any, *, figure: Figure | None = None) -> Figure:
    """Draw the mean and the factors.

    Parameters
    ----------
    model : estimator
        A fitted subspace with ``factors_``.
    figure : matplotlib.figure.Figure, default=None
        Where to draw.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The mean (slices of it, if samples have many modes), then each factor: orthonormal
        directions as columns, the strongest first, blue below zero and red above.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:50]
    >>> len(ct.plot.factors(ct.CorrTensor(ranks=(4, 4)).fit(X)).axes)
    3
    """
    every = enumerate(fitted(model, "factors_"), start=1)
    matrices = [(n, np.asarray(U)) for n, U in every if U is not None]
    wide = 1 + len(matrices)
    figure = figure or pyplot().figure(figsize=(3.2 * wide, 3.4), layout="constrained")
    grid = figure.subplots(1, wide, squeeze=False)[0]
    mean = np.asarray(model.mean_)
    picture = view_of(mean.shape).picture(mean)
    show(grid[0], picture, value_limits(picture[np.isfinite(picture)]))
    grid[0].set_title("mean")
    for ax, (n, U) in zip(grid[1:], matrices, strict=True):
        top = float(np.abs(U).max())
        ax.imshow(U, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
        ax.set(title=f"factor of mode {n}", xlabel="direction", ylabel="entry")
    return figure


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
