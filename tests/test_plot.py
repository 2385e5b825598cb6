"""The plots: they draw the model's own numbers, where they are told, and return it."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import gamma

import corrtensor as ct
from corrtensor.report.distances import distances


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def model(images, ranks_of):
    return ct.CorrTensor(ranks=ranks_of[2]).fit(images)


def marks(ax):
    """The points of all scatters, dots first, then crosses."""
    return [np.asarray(c.get_offsets()) for c in ax.collections]


def test_weights(model):
    ax = ct.plot.weights(model)
    dots, crosses = marks(ax)
    assert_array_equal(crosses[:, 0], np.flatnonzero(model.weights_ < 0.5))
    drawn = np.concatenate([dots, crosses])
    assert_allclose(drawn[np.argsort(drawn[:, 0]), 1], model.weights_)


def test_convergence(images, ranks_of):
    model = ct.make("R1-Tensor", ranks_of[2]).fit(images)
    (line,) = ct.plot.convergence(model).lines
    assert_allclose(line.get_xdata(), np.arange(1, model.n_iter_ + 1))
    assert_allclose(line.get_ydata(), model.objective_)


def test_outlier_map(model, images):
    names = [f"$\\broken{i}_.png" for i in range(60)]
    ax = ct.plot.outlier_map(model, images, names=names)
    found = distances(model, images)
    dots, crosses = marks(ax)
    assert len(dots) + len(crosses) == 60
    assert_allclose(crosses, np.stack([found.score, found.residual], axis=1)[found.unusual > 1])
    assert set(range(8)) <= set(np.flatnonzero(found.unusual > 1))
    written = {text.get_text() for text in ax.texts}
    assert written == {names[i] for i in np.argsort(-found.unusual)[:5]}
    # Dollar signs in a name are no mathematics.
    ax.figure.canvas.draw()


@pytest.mark.parametrize("shape", [(12,), (8, 7), (8, 7, 3), (4, 6, 5)])
def test_reconstructions_and_factors_of_any_order(shape):
    X = np.random.default_rng(0).normal(size=(30, *shape))
    model = ct.MultilinearSubspace(ranks=2).fit(X)
    figure = ct.plot.reconstructions(model, X)
    assert len(figure.axes) == 18
    figure.canvas.draw()
    assert len(ct.plot.factors(model).axes) == 1 + len(shape)


def test_reconstructions_are_those_of_the_model(model, images):
    figure = ct.plot.reconstructions(model, images, samples=[4, 20])
    made = model.inverse_transform(model.transform(images[[4, 20]]))
    pictures = [ax.images[0].get_array() for ax in figure.axes]
    assert_array_equal(pictures[0], images[4])
    assert_allclose(pictures[3], made[1], atol=1e-12)
    assert_allclose(pictures[5], np.abs(images[20] - made[1]), atol=1e-12)


def test_decision_graph(images):
    clusters = ct.DensityPeaksKMeans(3, random_state=0).fit(images)
    dots, crosses = marks(ct.plot.decision_graph(clusters))
    graph = clusters.decision_graph_
    assert len(dots) == 57
    assert_allclose(np.sort(crosses[:, 0]), np.sort(graph.rho[graph.chosen]))


def test_loss_surface_is_the_loss_of_the_paper(monkeypatch):
    ax = plt.figure().add_subplot(projection="3d")
    drawn = []
    monkeypatch.setattr(ax, "plot_surface", lambda *grids, **_: drawn.extend(grids))
    assert ct.plot.loss_surface(alpha=5, beta=0.8, extent=3, ax=ax) is ax
    first, second, loss = drawn
    assert (first.min(), first.max(), second.min(), second.max()) == (-3, 3, -3, 3)
    # Equations (7) and (9) to (11): the peak of the density less the mean of its kernel.
    peak = 5 / (2 * 0.8 * gamma(1 / 5))
    kernels = [np.exp(-(np.abs(e / 0.8) ** 5)) for e in (first, second)]
    assert_allclose(loss, peak * (1 - np.mean(kernels, axis=0)), rtol=1e-12, atol=1e-12)


def test_they_draw_where_they_are_told(model, images):
    _, (left, right) = plt.subplots(1, 2)
    assert ct.plot.weights(model, ax=left) is left
    assert ct.plot.convergence(model, ax=right) is right
    assert ct.plot.outlier_map(model, images, ax=left) is left
    for draw in (lambda f: ct.plot.factors(model, figure=f),
                 lambda f: ct.plot.reconstructions(model, images, figure=f)):  # fmt: skip
        mine = Figure()
        assert draw(mine) is mine
    ax = plt.figure().add_subplot(projection="3d")
    assert ct.plot.loss_surface(ax=ax) is ax
    assert len(plt.get_fignums()) == 2


def test_wrong_calls_are_named(model, images):
    with pytest.raises(ValueError, match="CorrTensor has no weights_"):
        ct.plot.weights(ct.CorrTensor())
    with pytest.raises(ValueError, match="3 names were given for 60 samples"):
        ct.plot.outlier_map(model, images, names=["a", "b", "c"])
    with pytest.raises(ValueError, match="projection='3d'"):
        ct.plot.loss_surface(ax=plt.figure().add_subplot())
    with pytest.raises(ValueError, match="extent=0"):
        ct.plot.loss_surface(extent=0)


def test_nothing_imports_matplotlib_before_it_draws():
    code = "import sys, corrtensor as ct; ct.plot.weights; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_matplotlib_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'corrtensor\[plot\]'"):
        ct.plot.weights(model)
