"""Bad and missing cells: the completed blocks against a literal loop, descent, recovery."""

import re
import traceback
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

import corrtensor as ct
from corrtensor._engine.arrays.source import plain
from corrtensor._robust.cells import ROUGHLY, Model
from corrtensor._robust.completed import CompletedSource
from corrtensor._robust.completion import PULLS
from corrtensor._robust.isolation import Split
from corrtensor._robust.search import Judge
from corrtensor._robust.spread import spread_of
from corrtensor.tasks import TensorOutlierDetector, find_duplicates
from corrtensor.tasks._subspace import sample_weights

ORDERS = (1, 2, 3, 4)


def spoil(X, missing=0.2, bad=0.1, seed=0):
    """Some cells are missing, some are off; returns what is missing, too."""
    rng = np.random.default_rng(seed)
    Y = X + 2 * (rng.random(X.shape) < bad)
    gaps = rng.random(X.shape) < missing
    return np.where(gaps, np.nan, Y), gaps


# The cap of the loss of a cell, in bandwidths.
EDGE = 0.5**0.25


def cell_weight(r, width):
    """The slope of the capped correntropy of a cell, alpha 4 and p 2, of slope 1 at zero."""
    q = (r / width) ** 2
    return 1.0 if q <= 0.5**0.5 else 2**0.5 * q * np.exp(0.5 - q**2)


def around(t, j):
    """The mean of a cell's neighbours, none of them counted beyond the edge; vectors have none."""
    near = []
    for n, a in enumerate(t.shape):
        if t.ndim > 1 and a > 1:
            steps = [abs(j[n] - 1), min(j[n] + 1, 2 * a - 3 - j[n])]
            near += [t[(*j[:n], k, *j[n + 1 :])] for k in steps]
    return np.mean(np.clip(near, -EDGE, EDGE)) if near else 0.0


def subspace_of(X, ranks, rng):
    return tuple(
        np.linalg.qr(rng.normal(size=(a, k)))[0] for a, k in zip(X.shape[1:], ranks, strict=True)
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("width", [None, 0.5])
def test_completed_block_is_that_of_a_loop_over_cells(make_samples, ranks_of, order, width):
    X, _ = spoil(make_samples(order, n=9, n_bad=2))
    rng = np.random.default_rng(1)
    U = subspace_of(X, ranks_of[order], rng)
    m, Z = rng.normal(size=X.shape[1:]), rng.normal(size=(9, *ranks_of[order]))
    w = None if width is None else width * (1 + rng.random(X.shape[1:]))
    before = X.copy()
    block = Model(m, U, X.dtype, width=w, usual=0.5).complete(X, Z)
    assert_array_equal(X, before)
    for i in range(len(X)):
        f = Z[i]
        for n, V in enumerate(U):
            f = np.moveaxis(np.tensordot(V, f, axes=(1, n)), 0, n)
        f = f + m
        seen = ~np.isnan(X[i])
        spread = 1.0
        if w is not None:
            away = np.sort(np.abs(X[i] - f)[seen] / w[seen])
            spread = max(1.0, away[int(2 / 3 * len(away))] / 0.5)
            # Of few cells, most may be bad.
            spread = min(spread, 2.0) if order == 1 else spread
        assert_allclose(block.spread[i], spread, rtol=1e-12)
        t = None if w is None else np.where(seen, (X[i] - f) / (w * spread), 0.0)
        for j in np.ndindex(*X.shape[1:]):
            if not seen[j]:
                assert_allclose(block.x[i][j], f[j], rtol=1e-12)
                continue
            r = X[i][j] - f[j]
            v = 1.0 if w is None or abs(t[j]) <= EDGE else cell_weight(t[j] - around(t, j), 1.0)
            assert_allclose(block.x[i][j], X[i][j] - (1 - v) * r, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_the_likeliest_core_is_that_of_the_normal_equations(make_samples, ranks_of, order):
    X, gaps = spoil(make_samples(order, n=9, n_bad=2), missing=0.3)
    rng = np.random.default_rng(1)
    U, m = subspace_of(X, ranks_of[order], rng), rng.normal(size=X.shape[1:])
    cost = rng.random(ranks_of[order]) * 5
    Z, block = Model(m, U, X.dtype, prior=cost).found(X)
    whole = U[0]
    for V in U[1:]:
        whole = np.kron(whole, V)
    for i in range(len(X)):
        seen = ~gaps[i].ravel()
        A = whole[seen].T @ whole[seen] + np.diag(cost.ravel())
        z = np.linalg.solve(A, whole[seen].T @ (X[i] - m).ravel()[seen])
        # Found when a hundredth of the gradient that noise makes is left: the core is as near.
        noise = np.sqrt(np.square((X[i] - m).ravel()[seen] - whole[seen] @ z).mean())
        near = 1e-2 * noise * np.sqrt(len(z)) / np.linalg.eigvalsh(A)[0]
        assert np.linalg.norm(Z[i].ravel() - z) < near
        assert_allclose(block.x[i].ravel()[~seen], (m.ravel() + whole @ z)[~seen], atol=near)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
@pytest.mark.parametrize("cells", [False, True])
def test_the_objective_never_rises(make_samples, ranks_of, order, share, cells, monkeypatch):
    X, _ = spoil(make_samples(order, n=80), missing=share)
    sources = [SimpleNamespace(unseen=None)]
    settle = CompletedSource.settle
    monkeypatch.setattr(CompletedSource, "settle", lambda s, *a: sources.append(s) or settle(s, *a))
    ranks = 1 if cells else ranks_of[order]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ct.CorrTensor(ranks, cells=cells, max_iter=30, tol=0).fit(X)
    assert len(model.objective_) == 30
    assert np.diff(model.objective_).max() <= 1e-12 * model.objective_[0]
    # It is the objective of the completed samples.
    rough, cost = (X, 0) if not (share or cells) else completed_for_a_fit(model, X)
    s = squares_left(model, rough) + cost
    assert_allclose(model.residuals_, s, rtol=1e-5, atol=1e-7 * s.max())
    assert_allclose(model.residuals(X), model.residuals_, rtol=1e-6, atol=1e-8 * s.max())
    kept = model.weights_ > 0
    if (unseen := sources[-1].unseen) is not None:
        s = s + unseen.beside(model.factors_)
    assert_allclose(model.objective_[-1], model.loss_.value(s)[kept].sum(), rtol=1e-5)


def completed_for_a_fit(model, X):
    """Return samples as a fit sees them, and what their doubted cells cost."""
    expected = replace(model.completion_.model(model.mean_, 1.0, X.dtype), accuracy=ROUGHLY)
    block = expected.found(X - model.mean_)[1]
    cost = np.zeros(len(X))
    if model.cells:
        limit = 2**0.5 * np.square(model.completion_.bandwidth * model.cell_scale_)
        for i, weights in enumerate(block.cell_weights):
            doubted = 1 - weights[~np.isnan(X[i])]
            cost[i] = block.spread[i] ** 2 * (doubted * limit[~np.isnan(X[i])]).sum()
    return model.mean_ + block.x, cost


def squares_left(model, X):
    """Return what the subspace leaves of whole samples."""
    d = f = X - model.mean_
    for n, U in enumerate(model.factors_, start=1):
        f = np.moveaxis(np.tensordot(f, U @ U.T, axes=(n, 0)), -1, n)
    return np.square(d - f).reshape(len(X), -1).sum(axis=1)


def test_what_is_put_into_gaps_does_not_favour_the_fit():
    """Directions just beyond the ranks must not lose to those within because cells are missing."""
    rng = np.random.default_rng(2)
    size = np.outer(*(0.8 ** np.arange(a) for a in (20, 18)))
    A, B = (np.linalg.qr(rng.normal(size=(a, a)))[0] for a in (20, 18))
    X = A @ (size * rng.normal(size=(300, 20, 18))) @ B.T
    Y, _ = spoil(X[:200], missing=0.6, bad=0)
    whole, torn = (ct.make("MPCA", (4, 4)).fit(x) for x in (X[:200], Y))
    # 1.010 if what completes has the ranks of the fit.
    assert left_out(torn, X[200:]) < 1.006 * left_out(whole, X[200:])


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_gaps_in_units_that_single_precision_does_not_hold(factor, cells):
    """What is expected is learned in single precision, but not there."""
    X = low_rank(6) + 0.05 * np.random.default_rng(6).normal(size=(80, 12, 10))
    Y, _ = spoil(X, missing=0.2, bad=0)
    one, other = (ct.CorrTensor((2, 2), cells=cells).fit(y) for y in (Y, factor * Y))
    assert_allclose(other.repair(factor * Y) / factor, one.repair(Y), atol=1e-4)
    assert_allclose(other.weights_, one.weights_, atol=1e-4)


def test_outliers_with_gaps_teach_nothing():
    """What is expected is learned again without them: as from the others alone."""
    rng = np.random.default_rng(7)
    X = low_rank(7, 120) + 0.05 * rng.normal(size=(120, 12, 10))
    X[:20] = 3 * rng.normal(size=(20, 12, 10))
    Y, _ = spoil(X, missing=0.3, bad=0)
    model, good = ct.CorrTensor((2, 2)).fit(Y), ct.CorrTensor((2, 2)).fit(Y[20:])
    assert set(model.diagnostics_["rejected"]) == set(range(20))
    found, wanted = (m.repair(Y[20:]) for m in (model, good))
    assert np.square(found - wanted).mean() < 0.05 * np.square(wanted - X[20:]).mean()


def test_samples_that_are_not_held(monkeypatch, make_samples, ranks_of):
    """Too large to be kept whole: completed whenever they are read, with the same result."""
    X, _ = spoil(make_samples(2, n=80), missing=0.2)
    for cells in (False, True):
        held = ct.CorrTensor((2, 2), cells=cells).fit(X)
        with monkeypatch.context() as small:
            small.setattr("corrtensor._robust.completed.WORTH_HOLDING", 1000)
            same(ct.CorrTensor((2, 2), cells=cells).fit(X), held)


@pytest.mark.parametrize("name", ["MPCA", "2DSVD", "GLRAM"])
def test_whatever_the_method_gaps_are_filled_alike(name):
    """Neither the missing mean of GLRAM nor the raw factors of 2DSVD spoil what is expected."""
    rng = np.random.default_rng(4)
    X = low_rank(4, 300) + 0.05 * rng.normal(size=(300, 12, 10))
    Y, gaps = spoil(X, missing=0.4, bad=0)
    whole = ct.make(name, (2, 2)).fit(Y).repair(Y)
    assert np.sqrt(np.square(whole - X)[gaps].mean()) < 1.3 * 0.05


def test_a_stream_forgets_what_was_expected_of_the_first_batch():
    X = low_rank(5, 400)
    Y, gaps = spoil(X, missing=0.2, bad=0)
    model = ct.MultilinearSubspace((2, 2)).partial_fit(Y[:40])
    for k in range(1, 10):
        model.partial_fit(X[40 * k : 40 * k + 40] + 3 * k)
    drifted = np.where(gaps, np.nan, X + 27)
    away = np.square(model.repair(drifted) - X - 27)[gaps].mean()
    assert away < np.square(model.mean_ - X - 27)[gaps].mean()


def low_rank(seed=0, n=80):
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in (12, 10))
    return A @ rng.normal(size=(n, 2, 2)) @ B.T + 0.2 * rng.normal(size=(12, 10))


def left_out(model, X):
    """What the plain projection leaves of whole samples."""
    d = X - model.mean_
    P = [U @ U.T for U in model.factors_]
    return np.square(d - P[0] @ d @ P[1]).sum(axis=(1, 2)).mean()


@pytest.mark.parametrize("share", [0.2, 0.4, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_missing_cells_of_an_exact_subspace_come_back(seed, share):
    X = low_rank(seed)
    Y, gaps = spoil(X, missing=share, bad=0, seed=seed)
    model = ct.make("MPCA", (2, 2)).fit(Y)
    whole = model.repair(Y)
    assert_array_equal(whole[~gaps], X[~gaps])
    # What is expected is learned in single precision, in fifty rounds at most.
    assert_allclose(whole[gaps], X[gaps], atol=2e-3)
    assert np.sqrt(np.square(whole - X)[gaps].mean()) < 2e-4
    assert_allclose(model.transform(Y), model.transform(X), atol=2e-3)
    assert model.residuals(Y).max() < 1e-6
    assert model.score_distances(Y).shape == (80,)


@pytest.mark.parametrize("seed", range(3))
def test_spare_directions_follow_no_bad_cells(seed):
    """Where samples have the ranks of the fit and noise, errors in a fifth of them are seen."""
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(30, 3)))[0] for _ in range(2))
    X = A @ (5 * rng.normal(size=(200, 3, 3))) @ B.T
    bad = rng.random(X.shape) < 0.2
    Y = np.where(bad, 3 * rng.choice([-1, 1], X.shape), X + 0.05 * rng.normal(size=X.shape))
    model = ct.CorrTensor((3, 3), cells=True).fit(Y)
    assert left_out(model, X) < 1e-4 * np.square(X).sum(axis=(1, 2)).mean()
    assert np.square(model.repair(Y) - X)[bad].mean() < 1e-3 * np.square(X)[bad].mean()


def test_order_and_weightless_samples_do_not_matter_to_gaps():
    X = low_rank(1) + 0.05 * np.random.default_rng(1).normal(size=(80, 12, 10))
    Y, gaps = spoil(X, missing=0.4, bad=0)
    model = ct.make("MPCA", (2, 2)).fit(Y)
    far = np.full((200, 12, 10), 100.0) + np.random.default_rng(2).normal(size=(200, 12, 10))
    weighted = ct.make("MPCA", (2, 2))
    weighted.fit(np.concatenate([far, Y]), sample_weight=np.repeat([0.0, 1.0], [200, 80]))
    for other in (ct.make("MPCA", (2, 2)).fit(Y[::-1]), weighted):
        off = np.square(other.repair(Y) - model.repair(Y))[gaps].mean()
        # Rounds end a little earlier or later.
        assert off < 0.02 * np.square(model.repair(Y) - X)[gaps].mean()


@pytest.mark.parametrize("cells", [False, True])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_a_handful_of_samples_with_gaps(n, cells):
    """Those that would be hidden to choose the ranks are missing already."""
    X = np.random.default_rng(n).normal(size=(n, 4, 4))
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    whole = ct.CorrTensor((1, 1), cells=cells).fit(X).repair(X)
    assert np.isfinite(whole).all()


def test_what_weighs_cells_says_which_switch_it_needs(images):
    for model in (ct.CorrTensor((3, 2)), ct.make("MPCA", (3, 2))):
        model.fit(images)
        for name in ("cell_weights", "cell_residuals"):
            assert not hasattr(model, name)
            with pytest.raises(AttributeError, match=name) as raised:
                getattr(model, name)(images)
            printed = "".join(traceback.format_exception(raised.value))
            assert "looks for no bad cells: CorrTensor(cells=True) does" in printed


def test_cells_that_were_set_after_the_fit(images):
    model = ct.CorrTensor((3, 2)).fit(images).set_params(cells=True)
    for method in (model.cell_weights, model.cell_residuals):
        with pytest.raises(ValueError, match=r"cells=True was set after the fit.*fit again"):
            method(images)
    for bad in (-1.0, "yes"):
        with pytest.raises((ValueError, TypeError), match="cells"):
            ct.CorrTensor((3, 2), cells=bad).fit(images)


def test_without_gaps_and_without_the_switch_nothing_changes(images):
    plain = ct.CorrTensor((3, 2)).fit(images)
    masked = ct.CorrTensor((3, 2)).fit(np.ma.array(images, mask=np.zeros(images.shape, bool)))
    for name in ("mean_", "weights_", "objective_"):
        assert_array_equal(getattr(plain, name), getattr(masked, name))
    assert_array_equal(plain.transform(images), masked.transform(images))
    assert_array_equal(plain.repair(images), images)
    # The parts of a block that misses nothing are not touched by those that do.
    torn = images.copy()
    torn[5, 2, 2] = np.nan
    others = np.arange(len(images)) != 5
    assert_allclose(plain.residuals(torn)[others], plain.residuals(images)[others], rtol=1e-12)


def test_masks_and_gaps_are_the_same(images):
    Y, gaps = spoil(images, bad=0)
    by_nan = ct.CorrTensor((3, 2)).fit(Y)
    by_mask = ct.CorrTensor((3, 2)).fit(np.ma.array(images, mask=gaps))
    assert_array_equal(by_nan.mean_, by_mask.mean_)
    assert_array_equal(by_nan.repair(Y), by_mask.repair(np.ma.array(images, mask=gaps)))


def test_what_an_array_on_disk_masks_is_missing(images):
    Y, gaps = spoil(images, bad=0)

    class Stored:
        shape, dtype, ndim = images.shape, images.dtype, 3

        def __getitem__(self, rows):
            return np.ma.array(images[rows], mask=gaps[rows])

    by_nan, by_mask = (ct.CorrTensor((3, 2)).fit(X) for X in (Y, Stored()))
    assert_allclose(by_nan.mean_, by_mask.mean_, rtol=1e-12)


def test_bad_cells_are_found_and_do_no_harm():
    rng = np.random.default_rng(3)
    X = low_rank(3, 120) + 0.02 * rng.normal(size=(120, 12, 10))
    bad = rng.random(X.shape) < 0.1
    Y = X + np.where(bad, rng.choice([-1.5, 1.5], X.shape), 0)
    clean = ct.CorrTensor((2, 2)).fit(X)
    plain = ct.CorrTensor((2, 2)).fit(Y)
    model = ct.CorrTensor((2, 2), cells=True).fit(Y)

    assert left_out(model, X) < 1.05 * left_out(clean, X)
    assert left_out(plain, X) > 1.2 * left_out(clean, X)
    weights, away = model.cell_weights(Y), model.cell_residuals(Y)
    assert weights[bad].mean() < 0.02
    assert weights[~bad].mean() > 0.97
    assert np.median(np.abs(away[~bad])) < 1 < 10 < np.median(np.abs(away[bad]))
    whole = model.repair(Y)
    assert np.sqrt(np.square(whole - X)[bad].mean()) < 0.1
    assert_array_equal(whole[weights == 1], Y[weights == 1])
    # The scores of a spoiled sample are those of the whole one.
    assert np.abs(model.transform(Y) - model.transform(X)).mean() < 0.05


@pytest.mark.parametrize("value", [1e4, 1e9, 1e16, 1e20])
def test_gaps_beside_a_bad_cell_of_any_size(value):
    """It is doubted; the other cells of its sample count."""
    X = np.random.default_rng(0).normal(size=(60, 8, 7))
    Y = X.copy()
    Y[3:5, 2, 2], Y[0, 0, 0] = value, np.nan
    model = ct.CorrTensor(2, cells=True).fit(Y)
    assert (model.weights_ == 1).all()
    assert (model.cell_weights(Y)[3:5, 2, 2] == 0).all()
    whole = model.repair(Y)
    assert np.abs(whole[5:] - X[5:]).max() < 1
    assert np.abs(whole[:5]).max() < 5


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_gross_cells_of_many_samples_make_these_no_group(missing):
    rng = np.random.default_rng(0)
    digits = ct.datasets.load_digits().images[rng.permutation(1797)[:200]] / 16
    torn = digits.copy()
    for sample in torn[:80]:
        sample.flat[rng.permutation(64)[:2]] = 1e4
    torn[rng.random(torn.shape) < missing] = np.nan
    model = ct.CorrTensor((3, 3), cells=True).fit(torn)
    assert (model.weights_ > 0.5).all()


@pytest.mark.parametrize("n", [40, 100])
@pytest.mark.parametrize("share", [0.0, 0.02])
def test_a_bad_cell_may_be_of_any_size(n, share):
    digits = ct.datasets.load_digits().images[:n]
    bad = np.random.default_rng(0).random(digits.shape) < share
    bad[5, 3, 3] = True
    repaired = []
    for value in (1e4, 1e6, -1e9, 1e12):
        Y = np.where(bad, value, digits)
        whole = ct.CorrTensor((2, 2), cells=True).fit(Y).repair(Y)
        # Not only the sizes that rounding leaves of it: the range of the digits is 16.
        assert np.abs(whole - digits)[bad].max() < 16
        repaired.append(whole)
    for whole in repaired[1:]:
        assert_allclose(whole, repaired[0], atol=0.5)


def test_infinities_are_refused_and_named(images):
    torn, _ = spoil(images, bad=0)
    torn[7, 3, 3] = -np.inf
    for cells in (False, True):
        with pytest.raises(ValueError, match=r"infinity.*sample 7\b"):
            ct.CorrTensor((3, 2), cells=cells, block_size=5).fit(torn)
    model = ct.CorrTensor((3, 2)).fit(images)
    for method in (model.transform, model.residuals, model.repair):
        with pytest.raises(ValueError, match=r"infinity.*sample 7"):
            method(torn)


@pytest.mark.filterwarnings("ignore:1 of the .* cells are missing in every sample")
def test_samples_and_cells_that_show_nothing(images):
    torn = images.copy()
    torn[3], torn[:, 2, 4] = np.nan, np.nan
    model = ct.CorrTensor((3, 2)).fit(torn)
    assert np.isfinite(model.mean_).all()
    # What is expected on the average is the mean but for where rounds of learning end: when what is
    # expected moves by less than 3 % of the noise.
    assert np.abs(model.repair(torn)[3] - model.mean_).max() < 1e-4
    assert model.transform(torn)[3] == pytest.approx(0, abs=2e-4)
    # It counts for nothing: without it the fit is the same.
    assert model.weights_[3] == 0
    assert model.weights_[4:].max() == 1
    without = ct.CorrTensor((3, 2)).fit(np.delete(torn, 3, axis=0))
    assert_allclose(model.objective_[-1], without.objective_[-1], rtol=1e-4)
    with pytest.raises(ValueError, match="no observed cell"):
        ct.CorrTensor((3, 2)).fit(np.full(images.shape, np.nan))


def test_a_sample_that_shows_nothing_does_not_decide_a_score(images):
    model = ct.CorrTensor((3, 2)).fit(images[8:])
    empty = np.full((1, *images.shape[1:]), np.nan)
    usual = model.score_samples(images[8:])
    for copies in (1, 5):
        score = model.score(np.concatenate([images[8:], np.repeat(empty, copies, axis=0)]))
        assert abs(score - model.score(images[8:])) < 3 * usual.std()


def test_incomplete_outliers_are_rejected(images):
    torn, _ = spoil(images, missing=0.2, bad=0)
    model = ct.CorrTensor((3, 2)).fit(torn)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(8))


@pytest.mark.parametrize("rank", [2, 3, 4])
def test_strokes_are_no_errors(rank):
    X = np.pad(ct.datasets.load_digits().images / 16, ((0, 0), (4, 4), (4, 4)))
    times, others = [], X[1200:]
    for some in np.split(X[:1200], 6):
        plain, doubting = (ct.CorrTensor(rank, cells=cells).fit(some) for cells in (False, True))
        # Some strokes are doubted; what counts is that the subspace does not suffer.
        assert (doubting.cell_weights(X) == 1).mean() > 0.97
        times.append(left_out(doubting, others) / left_out(plain, others))
    assert np.mean(times) < 1.006


def test_what_strays_together_is_no_error():
    """A shadow is given back by its neighbours, salt and pepper in the same cells is not."""
    rng = np.random.default_rng(3)
    X = low_rank(3) + 0.1 * rng.normal(size=(80, 12, 10))
    shadow, scattered = X.copy(), X.copy()
    # Just beyond the edge: a corner of 4 x 4 in a few samples, or as many cells anywhere.
    shadow[:8, :4, :4] += 0.5
    which = np.argsort(rng.random((8, 120)), axis=1)[:, :16]
    for sample, cells in zip(scattered[:8].reshape(8, -1), which, strict=True):
        sample[cells] += 0.5
    doubts = []
    for Y in (shadow, scattered):
        w = ct.CorrTensor((2, 2), cells=True).fit(Y).cell_weights(Y[:8])
        doubts.append(1 - w[Y[:8] - X[:8] > 0.4].mean())
    assert doubts[0] < 0.01 < 0.1 < doubts[1]


RARE = "two thirds of the samples have one and the same value"


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_rare_values_are_doubted_and_it_says_so(rate):
    rng = np.random.default_rng(0)
    events = (rng.random((80, 20, 20)) < rate * np.exp(rng.normal(size=(80, 20, 1)))).astype(float)
    with pytest.warns(UserWarning, match=rf"at 100% .* {RARE}.* cells=False keeps them") as told:
        model = ct.CorrTensor((3, 3), cells=True).fit(events)
    assert [warning.filename for warning in told] == [__file__]
    assert np.isfinite(model.repair(events)).all()


@pytest.mark.parametrize(("shape", "ranks"), [((24, 24), (3, 3)), ((24, 24), (5, 5)), ((576,), 1)])
def test_what_moves_before_a_background_without_noise_is_taken_away(shape, ranks):
    background = np.random.default_rng(0).random((24, 24))
    clip = np.repeat(background[None], 60, axis=0)
    for i, frame in enumerate(clip):
        frame[i // 2 % 19 :, 3 * i % 19 :][:5, :5] = 1
    frames = clip.reshape(60, *shape)
    with pytest.warns(UserWarning, match=RARE):
        model = ct.CorrTensor(ranks, cells=True).fit(frames)
    assert np.abs(model.repair(frames).reshape(clip.shape) - background).max() < 0.02


@pytest.mark.parametrize("scale", ["auto", "median", None])
def test_ranks_that_follow_errors_doubt_nothing_and_say_so(images, scale):
    # More than the start is learned from.
    bad, _ = spoil(np.concatenate([images] * 3), missing=0, bad=0.05)
    with pytest.warns(UserWarning, match=r"cores of \(6, 5\) follow most .* smaller ranks") as told:
        model = ct.CorrTensor((6, 5), cells=True, scale=scale).fit(bad)
    assert told[0].filename == __file__
    assert (model.cell_weights(bad) == 1).all()
    assert_array_equal(model.repair(bad), bad)


def test_a_missing_block_of_a_new_sample_is_repaired_by_what_is_usual():
    rng = np.random.default_rng(5)
    size = np.outer(*(2.0 ** -np.arange(a) for a in (5, 5)))
    A, B = (np.linalg.qr(rng.normal(size=(a, 5)))[0] for a in (8, 7))
    X = A @ (size * rng.normal(size=(500, 5, 5))) @ B.T + 0.02 * rng.normal(size=(500, 8, 7))
    model = ct.make("MPCA", (5, 5)).fit(X[:400])
    torn = X[400:].copy()
    torn[:, :3, :4] = np.nan
    best = np.square(X[400:] - model.inverse_transform(model.transform(X[400:])))[:, :3, :4].mean()
    # An oracle by the covariance of all cells: what they are expected to be, given the others.
    gap = np.isnan(torn[0]).ravel()
    C, flat = np.cov(X[:400].reshape(400, -1), rowvar=False), (X - model.mean_).reshape(500, -1)
    told = flat[400:, ~gap] @ np.linalg.solve(C[np.ix_(~gap, ~gap)], C[np.ix_(~gap, gap)])
    possible = np.square(told - flat[400:, gap]).mean()
    found = np.square(model.repair(torn) - X[400:])[:, :3, :4].mean()
    assert best < found < 3 * possible
    # Whole samples beside torn ones are not touched by it.
    assert_allclose(model.transform(np.r_[torn[:1], X[:5]])[1:], model.transform(X[:5]), atol=1e-9)


def test_single_precision(images):
    torn, _ = spoil(images)
    single = ct.CorrTensor((3, 2), cells=True).fit(torn.astype(np.float32))
    double = ct.CorrTensor((3, 2), cells=True).fit(torn)
    assert single.mean_.dtype == np.float32
    assert single.repair(torn.astype(np.float32)).dtype == np.float32
    # Where the sweeps end is decided by the objective to five digits.
    assert_allclose(single.objective_[-1], double.objective_[-1], rtol=1e-3)


# Samples that stray as a whole


def pictures(n, noise_images=0, seed=0):
    """Smooth pictures from 0 to 1 with a tenth of salt and pepper, the first ones noise."""
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(12, 3)).cumsum(axis=0))[0] for _ in range(2))
    X = 1 / (1 + np.exp(-4 * A @ rng.normal(size=(n, 3, 3)) @ B.T))
    X += 0.02 * rng.normal(size=X.shape)
    salted = np.where(rng.random(X.shape) < 0.1, rng.integers(2, size=X.shape), X)
    salted[:noise_images] = rng.random(salted[:noise_images].shape)
    return X, salted


@pytest.mark.parametrize("n", [240, 1200])  # of more than 500 some are drawn
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_is_found_beside_bad_cells_in_all_samples(n, seed):
    bad = n // 5
    X, salted = pictures(n, bad, seed)
    model = ct.CorrTensor((3, 3), cells=True).fit(salted)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(bad))
    (group,) = model.diagnostics_["groups"]
    assert_array_equal(group.samples, np.arange(bad))
    assert model.outlier_scores_[:bad].min() > model.outlier_scores_[bad:].max()
    told = ct.CorrTensor((3, 3), cells=True, breakdown=0).fit(salted[bad:])
    assert left_out(model, X[bad:]) < 1.001 * left_out(told, X[bad:])


def pieces_of_a_mask(n, seed=0):
    """Pieces of a picture of discs, one in the discs and zero beside: about half of them flat."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:200, :200]
    mask = np.zeros((200, 200))
    for _ in range(12):
        top, left, radius = rng.integers(200), rng.integers(200), rng.integers(15, 40)
        mask[(y - top) ** 2 + (x - left) ** 2 < radius**2] = 1
    corners = rng.integers(185, size=(n, 2))
    return np.stack([mask[i : i + 16, j : j + 16] for i, j in corners])


@pytest.mark.parametrize("seed", [0, 4, 7])
def test_what_differs_from_many_equal_samples_does_not_stray(seed):
    X = pieces_of_a_mask(300, seed)
    assert 0.4 < (np.ptp(X, axis=(1, 2)) == 0).mean() < 0.7
    model = ct.CorrTensor(3, cells=True).fit(X)
    assert (model.weights_ > 0.5).all()


def test_equal_samples_are_judged_alike():
    salted = pictures(120, 24)[1]
    twice = np.repeat(salted, 2, axis=0)
    model = ct.CorrTensor((3, 3), cells=True).fit(twice)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(48))
    (group,) = model.diagnostics_["groups"]
    assert_array_equal(group.samples, np.arange(48))


@pytest.mark.parametrize("seed", [0, 1])
def test_noise_strays_among_digits_whose_errors_it_hardly_changes(seed):
    """At few ranks it costs more to reject it than to keep it, but not clearly more."""
    digits = ct.datasets.load_digits()
    X = digits.images[digits.target == 0] / 16
    rng = np.random.default_rng([seed, 7])
    X = X[rng.permutation(len(X))[:133]]
    Y = np.where(rng.random(X.shape) < 0.1, np.round(rng.random(X.shape)), X)
    Y[:26] = rng.random(Y[:26].shape)
    model = ct.CorrTensor((2, 2), cells=True).fit(Y)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(26))


@pytest.mark.data
@pytest.mark.parametrize("seed", [1, 4, 6])
def test_frames_in_which_more_moves_are_no_outliers(data_dir, seed):
    """Half of them show few people: the others are neither apart nor, beside bad cells, astray."""
    with np.load(data_dir / "video_escalator.npz", allow_pickle=False) as stored:
        frames = stored["frames"][:, :129, :159] / 255.0
    small = frames.reshape(-1, 43, 3, 53, 3).mean(axis=(2, 4))
    rng = np.random.default_rng([seed, 7])
    X = small[rng.permutation(len(small))[:148]]
    Y = np.where(rng.random(X.shape) < 0.01, X + rng.choice([-10, 10], X.shape), X)
    for samples, cells in ((X, False), (X, True), (Y, True)):
        model = ct.CorrTensor((9, 11), cells=cells).fit(samples)
        assert (model.weights_ > 0.5).all()


@pytest.mark.parametrize("seed", range(4))
def test_samples_do_not_stray_by_bad_cells(seed):
    X, salted = pictures(120, seed=seed)
    # A few gross errors in some of them, too.
    gross = np.where(np.random.default_rng(seed).random(X.shape) < 0.01, 1e4, X)
    for Y in (X, salted, gross):
        assert not ct.CorrTensor((3, 3), cells=True).fit(Y).diagnostics_["groups"]


@pytest.mark.parametrize("n", [240, 1200])
@pytest.mark.parametrize("options", [{"breakdown": 0}, {"breakdown": 0.1}, {"scale": "median"}])
def test_no_sample_strays_where_none_may_be_rejected(n, options):
    _, salted = pictures(n, n // 5)
    model = ct.CorrTensor((3, 3), cells=True, **options).fit(salted)
    assert not model.diagnostics_["groups"]


def test_weights_count_in_how_many_may_be_rejected():
    """A fifth of the samples, but five ninths of the weight."""
    _, salted = pictures(240, 48)
    w = np.where(np.arange(240) < 48, 5.0, 1.0)
    model = ct.CorrTensor((3, 3), cells=True).fit(salted, sample_weight=w)
    (group,) = model.diagnostics_["groups"]
    assert_array_equal(group.samples, np.arange(48))
    assert str(group).endswith("kept, as they exceed breakdown")
    # They teach, too.
    told = ct.CorrTensor((3, 3), cells=True, breakdown=0).fit(salted, sample_weight=w)
    assert_array_equal(model.cell_scale_, told.cell_scale_)
    assert_array_equal(model.weights_, told.weights_)


def test_what_the_search_rejects_counts_in_how_many_may_stray():
    _, salted = pictures(300, 80)
    salted[80:140] *= 50
    model = ct.CorrTensor((3, 3), cells=True, breakdown=0.4).fit(salted)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(80, 140))
    model = ct.CorrTensor((3, 3), cells=True).fit(salted)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(140))


@pytest.mark.parametrize("size", [1.0, 3.0])
def test_a_group_that_strays_may_be_good(size):
    """Moving frames beside still ones: a fit without them tells the most of all worse."""
    rng = np.random.default_rng(0)
    A, B = (np.linalg.qr(rng.normal(size=(12, 3)))[0] for _ in range(2))
    sizes = np.repeat([0.1, size], [110, 90])[:, None, None]
    X = A @ (sizes * rng.normal(size=(200, 3, 3))) @ B.T + 0.05 * rng.normal(size=(200, 12, 12))
    kept = np.arange(200) < 110
    split = Split(np.where(kept, 0.0, 1.0), kept, gap=3.0, distance=4.5, scale=0.2, cut=0.5)
    judge = Judge((3, 3), ct.CorrTensor()._options(), share=0.5)
    group = judge.group(plain(X, n_jobs=1), split, np.ones(200))
    assert not group.rejected
    assert group.keeping < group.rejecting
    # Noise in their place is told by no fit.
    X[110:] = rng.normal(size=(90, 12, 12))
    group = judge.group(plain(X, n_jobs=1), split, np.ones(200))
    assert group.rejected
    assert group.keeping > group.rejecting


@pytest.mark.parametrize("center", ["weighted", None])
def test_samples_that_stray_are_judged_by_fits_like_the_one_asked_for(center):
    _, salted = pictures(240, 48)
    model = ct.CorrTensor((3, 3), cells=True, center=center).fit(salted)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.arange(48))


def test_samples_that_show_nothing_do_not_stray():
    _, salted = pictures(240, 48)
    Y = np.concatenate([salted, np.full((300, 12, 12), np.nan)])
    model = ct.CorrTensor((3, 3), cells=True).fit(Y)
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.r_[:48, 240:540])
    assert np.isfinite(model.outlier_scores_).all()


@pytest.mark.parametrize("size", [1e-100, 1e100])
def test_cells_are_doubted_in_any_unit(size):
    _, salted = pictures(120)
    usual = ct.CorrTensor((3, 3), cells=True).fit(salted).cell_weights(salted)
    scaled = ct.CorrTensor((3, 3), cells=True).fit(size * salted).cell_weights(size * salted)
    assert np.abs(usual - scaled).mean() < 1e-3


@pytest.mark.parametrize("ranks", [0.95, 0.9, "auto"])
def test_cells_are_doubted_where_ranks_come_by_themselves(ranks):
    """Bad cells have their share of the variance: it must not make the ranks follow them."""
    X, salted = pictures(150)
    model = ct.CorrTensor(ranks, cells=True).fit(salted)
    bad = np.abs(salted - X) > 0.3
    weights = model.cell_weights(salted)
    assert weights[bad].mean() < 0.2
    assert weights[~bad].mean() > 0.95


def test_how_far_a_sample_strays_is_the_mean_of_its_cells(images):
    torn = spoil(images)[0]
    torn[3] = np.nan
    width = np.linspace(0.1, 1, images[0].size).reshape(images[0].shape)
    model = Model(np.zeros(images.shape[1:]), None, images.dtype, width=width)
    F = 0.1 * np.ones_like(images)
    away = model.strays(torn, F)
    for i, x in enumerate(torn):
        seen = ~np.isnan(x)
        # No cell counts for more than two bandwidths.
        cells = [min(abs(c - 0.1) / w, 2) for c, w in zip(x[seen], width[seen], strict=True)]
        assert_allclose(away[i], np.log(np.mean(cells) if cells else 1e-9), rtol=1e-12)


def test_the_scale_of_a_cell_is_never_less_than_that_of_a_usual_one():
    R = np.outer([-3.0, -1.0, 0.0, 1.0, 2.0], [1e-9, 1.0, 2.0, 7.0])
    # The fourth of five absolute values; two thirds of a normal distribution lie within 0.9674.
    assert_allclose(spread_of(R) * 0.9674, np.array([3.0, 3.0, 4.0, 14.0]), rtol=1e-4)
    R[:, 3] = np.nan
    assert_allclose(spread_of(R) * 0.9674, np.array([2.0, 2.0, 4.0, 2.0]), rtol=1e-4)


# The same in memory, on disk and on Dask


def same(one, other):
    for name in ("mean_", "weights_", "residuals_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-8, atol=1e-10)
    for U, V in zip(one.factors_, other.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, atol=1e-8)


@pytest.fixture(scope="module")
def torn(make_samples):
    return spoil(make_samples(2, n=300), missing=0.2, bad=0.03)[0]


@pytest.fixture(scope="module", params=[False, True], ids=["missing", "cells"])
def in_memory(request, torn):
    return ct.CorrTensor((3, 2), cells=request.param, block_size=50).fit(torn)


@pytest.mark.parametrize("kind", ["memmap", "zarr", "hdf5", "dask", "masked dask"])
def test_wherever_the_samples_are(torn, in_memory, tmp_path, kind):
    if kind == "memmap":
        np.save(tmp_path / "x.npy", torn)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        X = zarr.create_array(tmp_path / "x.zarr", data=torn, chunks=(70, 8, 7))
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        X = h5py.File(tmp_path / "x.h5", "w").create_dataset("x", data=torn, chunks=(70, 8, 7))
    else:
        da = pytest.importorskip("dask.array")
        X = da.from_array(torn, chunks=(90, 8, 7))
        if kind == "masked dask":
            X = da.ma.masked_array(da.where(da.isnan(X), 7.0, X), mask=da.isnan(X))
    model = ct.CorrTensor((3, 2), cells=in_memory.cells, block_size=50).fit(X)
    same(model, in_memory)
    if kind == "masked dask":
        return
    assert_allclose(np.asarray(model.repair(X)), in_memory.repair(torn), atol=1e-8)
    assert_allclose(np.asarray(model.transform(X)), in_memory.transform(torn), atol=1e-8)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_change_no_bit(torn, in_memory, n_jobs):
    options = {"cells": in_memory.cells, "block_size": 50}
    model = ct.CorrTensor((3, 2), n_jobs=n_jobs, **options).fit(torn)
    assert_array_equal(model.mean_, in_memory.mean_)
    assert_array_equal(model.transform(torn), in_memory.transform(torn))


def test_model_files_know_cells(torn, in_memory, tmp_path):
    ct.save(in_memory, tmp_path / "m.ct")
    again = ct.load(tmp_path / "m.ct")
    assert_array_equal(again.repair(torn), in_memory.repair(torn))


def test_a_killed_fit_goes_on(torn, in_memory, tmp_path, monkeypatch):
    monkeypatch.setattr("corrtensor._engine.checkpoint.EVERY", 0.0)
    options = {"cells": in_memory.cells, "block_size": 50, "checkpoint": tmp_path / "fit.ct"}

    def kill(sweep, *_):
        if sweep == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ct.CorrTensor((3, 2), callback=kill, **options).fit(torn)
    assert options["checkpoint"].exists()
    model = ct.CorrTensor((3, 2), **options).fit(torn)
    assert_allclose(model.objective_, in_memory.objective_, rtol=1e-10)
    same(model, in_memory)


def test_tasks_take_incomplete_samples(make_samples):
    X = make_samples(2, n=400, n_bad=40)
    torn, _ = spoil(X, missing=0.1, bad=0)
    found = ct.TensorOutlierDetector(ct.CorrTensor((3, 2))).fit(torn).predict(torn) == -1
    assert found[:40].all()
    assert found[40:].mean() <= 0.01
    X = make_samples(2, n=80, n_bad=8)
    torn, _ = spoil(X, missing=0.1, bad=0)
    y = np.arange(80) % 2
    shifted = torn + y[:, None, None]
    plain = ct.make("MPCA", 3, max_iter=999)
    for model in (ct.CorrentropyCenterClassifier(plain), ct.SubspaceClassifier(plain)):
        answers = model.fit(shifted[8:], y[8:]).predict(shifted[8:])
        assert np.mean(answers == y[8:]) > 0.9


def test_a_stream_of_incomplete_batches(make_samples):
    X = make_samples(2, n=300, n_bad=0)
    torn, _ = spoil(X, missing=0.2, bad=0)
    model = ct.CorrTensor((3, 2))
    for batch in np.split(torn, 3):
        model.partial_fit(batch)
    whole = ct.CorrTensor((3, 2)).fit(X)
    assert model.residuals(X).mean() < 1.1 * whole.residuals(X).mean()


def test_spare_directions_end_where_they_began():
    """If the fit's own ranks tell hidden cells better, they go on from the leading directions."""
    rng = np.random.default_rng(0)
    A, B = (np.linalg.qr(rng.normal(size=(16, 6)))[0] for _ in range(2))
    X = A @ rng.normal(size=(500, 6, 6)) @ B.T + 0.05 * rng.normal(size=(500, 16, 16))
    gaps = rng.random(X.shape) < 0.7
    model = ct.make("MPCA", (6, 6)).fit(np.where(gaps, np.nan, X))
    away = (model.repair(np.where(gaps, np.nan, X)) - X)[gaps]
    # 0.56 from the median, 0.08 from the leading directions.
    assert np.square(away).mean() < 0.15 * X[gaps].var()


def test_a_cell_too_large_is_refused_without_a_warning(images):
    torn = images.astype(float)
    torn[0, 0, 0], torn[3, 2, 2] = np.nan, 1e200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="sample 3 is too large"):
            ct.CorrTensor(2).fit(torn)


def test_a_frozen_fit_to_samples_with_gaps_knows_whom_it_rejected(images):
    rng = np.random.default_rng(0)
    copies = images[0] + 0.01 * rng.normal(size=(len(images) // 5, *images.shape[1:]))
    X = np.concatenate([images, images.max() - copies])
    X = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = ct.CorrTensor(2).fit(X)
    assert (model.weights_ == 0).any()
    assert_array_equal(sample_weights(FrozenEstimator(model), X), model.weights_)


def test_cells_in_doubt_are_judged_by_more_ranks():
    """Two and a half times those of the fit, for what is rare in faces must not look bad."""
    faces = ct.datasets.load_faces()
    model = ct.CorrTensor((5, 5), cells=True).fit(faces.images[faces.target == 1])
    assert [U.shape for U in model.completion_.factors] == [(25, 12), (25, 12)]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("wrong", ["blocks", "cells"])
def test_hidden_cells_tell_how_strongly_samples_are_pulled(seed, wrong):
    # Smooth fields: what is seen beside a block tells little of what is in it.
    rng, n, a, b = np.random.default_rng(seed), 60, 32, 14
    f = np.arange(a)
    waves = np.cos(np.pi * np.outer(f + 0.5, f) / a)
    X = waves @ (rng.standard_normal((n, a, a)) / np.square(1 + f[:, None] + f)) @ waves.T
    gone = rng.random(X.shape) < 0.2
    if wrong == "blocks":
        gone[:] = False
        for i, (top, left) in enumerate(rng.integers(a - b + 1, size=(n, 2))):
            gone[i, top : top + b, left : left + b] = True
    Y = np.where(gone, np.nan, X)
    model = ct.CorrTensor(6).fit(Y)
    told, error = model.completion_, {}
    for pull in PULLS:
        model.completion_ = replace(told, pull=pull)
        error[pull] = np.square(model.repair(Y) - X)[gone].mean()
    if wrong == "blocks":
        assert error[told.pull] < 0.7 * error[1.0]
    else:
        assert told.pull == 1
        assert error[3.0] > 1.05 * error[1.0]


@pytest.mark.parametrize("size", [100, 600, 2000, 1e4])
def test_a_noisy_row_in_every_sample_is_seen_through(size):
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(24, 3)), rng.normal(size=(20, 3))
    X = A @ rng.normal(size=(120, 3, 3)) @ B.T
    Y = X + 0.5 * rng.normal(size=X.shape)
    bad = np.arange(120), rng.integers(24, size=120)
    Y[bad] = size * rng.normal(size=(120, 20))
    model = ct.CorrTensor(3, cells=True).fit(Y)
    for U, V in zip(model.factors_, (A, B), strict=True):
        assert np.sin(subspace_angles(U, V)).max() < 0.03
    assert np.sqrt(np.square(model.repair(Y) - X)[bad].mean()) < 0.5


@pytest.mark.parametrize("order", [1, 2])
def test_what_is_large_in_few_cells_is_no_error(order):
    """A strong signal is far beyond the noise before the core of a sample is known."""
    rng = np.random.default_rng(0)
    if order == 1:
        X, ranks = rng.normal(size=(300, 20)), 3
        X[:, :3] = 1000 * rng.lognormal(sigma=0.5, size=(300, 3))
    else:
        i, j, ranks = np.arange(16), np.arange(24), (3, 3)
        peaks = [
            np.outer(np.exp(-np.square(i - a)), np.exp(-np.square(j - b)))
            for a, b in ((3, 6), (8, 12), (12, 18))
        ]
        X = np.tensordot(rng.gamma(1.0, size=(150, 3)), peaks, 1)
        X += 1e-3 * rng.normal(size=X.shape)
    model = ct.CorrTensor(ranks, cells=True).fit(X)
    assert np.square(model.repair(X) - X).sum() < 1e-4 * np.square(X - X.mean(axis=0)).sum()
    assert (model.cell_weights(X) < 0.5).mean() < 0.01


def test_a_column_that_few_samples_show_begins_where_these_do():
    """A few samples that are looked at first show none of it."""
    rng = np.random.default_rng(1)
    A, B = rng.normal(size=(8, 2)), rng.normal(size=(6, 2))
    X = A @ rng.normal(size=(200, 2, 2)) @ B.T + 0.3 * rng.normal(size=(200, 8, 6))
    X[:, :, 0] += 100
    Y = X.copy()
    Y[rng.permutation(200)[10:], :, 0] = np.nan
    gone = np.isnan(Y)
    model = ct.CorrTensor(2).fit(Y)
    fill = np.broadcast_to(np.nanmedian(Y, axis=0), Y.shape)[gone]
    assert np.square(model.repair(Y)[gone] - X[gone]).mean() < np.square(fill - X[gone]).mean()


def planted(seed=0):
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(12, 3)), rng.normal(size=(10, 2))
    X = A @ rng.normal(size=(120, 3, 2)) @ B.T
    return X + 0.5 * rng.normal(size=X.shape), rng


def test_the_likelihood_is_that_of_the_cells_that_are_seen():
    X, rng = planted()
    model = ct.CorrTensor((3, 2)).fit(X)
    U = np.kron(*model.factors_)
    noise = model.noise_variance_
    covariance = (U * (model.explained_variance_.ravel() - noise)) @ U.T + noise * np.eye(120)
    Y = X[:20].copy()
    Y[:10][rng.random((10, 12, 10)) < 0.5] = np.nan
    Y[19] = np.nan
    found, whole = model.score_samples(Y), model.score_samples(X[:20])
    for y, score, complete in zip(Y.reshape(20, -1)[:19], found, whole, strict=False):
        o = ~np.isnan(y)
        true = multivariate_normal(model.mean_.ravel()[o], covariance[np.ix_(o, o)]).logpdf(y[o])
        assert abs(score - true) < (1e-8 if o.all() else 2)
        assert o.all() or complete < true - 20
    assert abs(found[19]) < 1e-10


@pytest.mark.parametrize("missing", [0.3, 0.5])
def test_ranks_are_found_by_what_is_seen(missing):
    X, rng = planted()
    Y = np.where(rng.random(X.shape) < missing, np.nan, X)
    grid = GridSearchCV(ct.CorrTensor(), {"ranks": [(2, 2), (3, 2), (4, 3), (6, 6)]}, cv=3)
    assert grid.fit(Y).best_params_ == {"ranks": (3, 2)}


@pytest.mark.parametrize("seed", range(3))
def test_without_a_mean_others_tell_of_cells_that_no_sample_shows(seed):
    """Excitation-emission matrices without their band of scattered light."""
    rng = np.random.default_rng(seed)
    excitation, emission = np.arange(20)[:, None], np.arange(24)[:, None]
    A = np.exp(-np.square(excitation - [5, 9, 14]) / 12)
    B = np.exp(-np.square(emission - [8, 13, 18]) / 16)
    clean = np.einsum("nk,ik,jk->nij", 0.2 + rng.random((130, 3)), A, B)
    X, new = (clean + 0.005 * rng.normal(size=clean.shape))[:80], clean[80:]
    band = np.abs(emission.T - excitation - 3) < 2
    torn = np.where(band, np.nan, X)
    # No warning here: warnings are errors in this suite.
    model = ct.CorrTensor((3, 3), center=None).fit(torn)
    assert left_out(model, new) < 1e-4 * np.square(new).sum(axis=(1, 2)).mean()
    away = (model.repair(torn) - clean[:80])[:, band]
    assert np.square(away).mean() < 0.05**2 * np.square(clean[:, band]).mean()


def test_cells_that_no_sample_shows_are_told_of():
    X, _ = planted()
    X[:, 3, 2:4] = np.nan
    with pytest.warns(UserWarning, match="2 of the 120 cells are missing in every sample") as told:
        ct.CorrTensor((3, 2)).fit(X)
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("columns", "share"), [(20, 0.05), (20, 0.1), (50, 0.1)])
def test_bad_cells_of_a_table_are_repaired_to_its_noise(columns, share, seed):
    """Also in rows of which a third and more is bad."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, columns))
    X += 0.05 * rng.normal(size=X.shape)
    bad = rng.random(X.shape) < share
    Y = X + bad * rng.choice([-8, 8], X.shape)
    model = ct.CorrTensor(3, cells=True).fit(Y)
    assert (model.cell_weights(Y)[bad] < 0.5).mean() > 0.99
    assert (model.cell_weights(Y)[~bad] < 0.5).mean() < 0.005
    assert np.sqrt(np.square(model.repair(Y) - X).mean()) < 0.1
    assert not (model.weights_ == 0).any()


@pytest.mark.parametrize("seed", range(3))
def test_a_fifth_of_gross_cells_in_every_row_leaves_the_subspace(seed):
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(rng.normal(size=(60, 8)))[0]
    X = 8 * rng.normal(size=(225, 8)) @ U.T + 0.5 * rng.normal(size=(225, 60))
    Y = np.where(rng.random(X.shape) < 0.2, X.mean(axis=0) + 10 * X.std(axis=0), X)
    angles = [
        np.sin(subspace_angles(model.factors_[0], U)).max()
        for model in (ct.CorrTensor(8).fit(X), ct.CorrTensor(8, cells=True).fit(Y))
    ]
    assert angles[1] < 1.5 * angles[0]


def test_single_precision_holds_fill_values_in_every_other_sample():
    """By the same numbers in double precision, where nothing overflows."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 15)) + 0.1 * rng.normal(size=(200, 15))
    A, filled = A.astype(np.float32), rng.random(A.shape) < 0.05
    X = np.where(filled, np.float32(9.96921e36), A)
    single = ct.CorrTensor(3, cells=True).fit(X)
    double = ct.CorrTensor(3, cells=True).fit(X.astype(float))
    assert_allclose(single.weights_, double.weights_, atol=1e-4)
    assert_array_equal(single.cell_weights(X) < 0.5, filled)
    assert_allclose(single.repair(X), double.repair(X.astype(float)), atol=1e-3)


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("share", [0.002, 0.02])
def test_huge_cells_of_single_precision_warn_of_nothing(cells, share):
    X = ct.datasets.load_faces().images[:100].astype(np.float32)
    X[np.random.default_rng(0).random(X.shape) < share] = 1e20
    model = ct.CorrTensor((5, 5), cells=cells).fit(X)
    assert np.isfinite(model.transform(X)).all()


@pytest.mark.parametrize(("dtype", "huge"), [("f8", "1e+150"), ("f8", "1e+300"), ("f4", "3e+38")])
def test_a_cell_that_cannot_be_squared_is_bad_or_named(dtype, huge):
    good = ct.datasets.load_faces().images[:100].astype(dtype)
    X = good.copy()
    X[7, 3, 3] = float(huge)
    model = ct.CorrTensor((5, 5), cells=True).fit(X)
    assert model.cell_weights(X)[7, 3, 3] == 0
    assert abs(model.repair(X)[7, 3, 3] - good[7, 3, 3]) < 0.1
    assert np.isfinite(model.score_samples(X)).all()
    said = f"sample 7 is too large .* it holds {re.escape(huge)}; .* missing_values"
    with pytest.raises(ValueError, match=said):
        ct.CorrTensor((5, 5)).fit(good).repair(X)


@pytest.mark.parametrize("value", [np.nan, -7.0])
def test_samples_that_show_nothing_are_outliers_of_no_kind_and_no_copies(value):
    X = ct.datasets.load_faces().images[:100].copy()
    empty = [5, 50, 51]
    X[empty], X[7, :3] = value, value
    model = ct.CorrTensor((10, 10), missing_values=value).fit(X)
    assert_array_equal(model.outlier_scores_[empty], 0)
    detector = TensorOutlierDetector(FrozenEstimator(model)).fit(X)
    assert (detector.predict(X)[empty] == -1).all()
    said = detector.explain(X)
    assert [k for k, words in enumerate(said) if words == ("no cell is seen",)] == empty
    assert not find_duplicates(np.where(value == X, np.nan, X)).groups
    X[8] = X[7]
    assert find_duplicates(np.where(value == X, np.nan, X)).groups == ((7, 8),)


@pytest.mark.parametrize("contamination", ["auto", 0.01, 0.05])
def test_masked_integers_that_show_nothing_are_flagged_whatever_the_share(contamination):
    X = np.ma.masked_array((255 * ct.datasets.load_faces().images[:100]).astype(np.uint8))
    X[[5, 50, 51]] = np.ma.masked
    detector = TensorOutlierDetector(ct.CorrTensor((10, 10)), contamination=contamination).fit(X)
    assert detector.measure(X)["unseen"].nonzero()[0].tolist() == [5, 50, 51]
    assert (detector.predict(X)[[5, 50, 51]] == -1).all()


@pytest.mark.parametrize("place", [5, 776])
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_sample_that_cannot_be_squared_is_named_with_its_value(place, missing):
    """Also one that is not among those from which it is learned what is expected."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 8, 7))
    X[rng.random(X.shape) < missing] = np.nan
    X[place, 3, 4] = 1e200
    with pytest.raises(ValueError, match=rf"sample {place} is .* holds 1e\+200; .*missing_values"):
        ct.CorrTensor((3, 3)).fit(X)
