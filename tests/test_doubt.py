"""Outlying samples beside gaps and bad cells, and how far cells may stray where many are bad."""

import numpy as np
import pytest

import corrtensor as ct
from corrtensor._robust.spread import MOST, SIGMA, quantiles, spread_of


def table(seed, n, p, rank=2, noise=0.1):
    """Return rows near a subspace, and further ones."""
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(rank, p))
    X = rng.normal(size=(n + 300, rank)) @ L + noise * rng.normal(size=(n + 300, p))
    return X[:n], X[n:], rng


def error(model, X):
    """Return what the subspace leaves of whole rows."""
    d, U = X - model.mean_, model.factors_[0]
    return np.square(d - d @ U @ U.T).mean()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("n", "p", "size"), [(200, 5, 15), (200, 5, 4), (100, 5, 15), (200, 8, 6)])
def test_gaps_do_not_hide_outlying_rows_of_a_narrow_table(n, p, size, seed):
    """What is put into the gaps of good rows must not be what outlying ones have taught."""
    X, new, rng = table(seed, n, p)
    outlying = np.arange(n) < n // 10
    X[outlying] = size * rng.normal(size=(n // 10, p))
    gaps = rng.random(X.shape) < 0.05
    gaps[gaps.all(axis=1)] = False
    torn = np.where(gaps, np.nan, X)
    model = ct.CorrTensor(2).fit(torn)
    told = ct.make("PCA", 2).fit(torn[~outlying])
    # Those that happen to lie near the subspace may stay.
    assert (model.weights_[outlying] > 0.5).mean() <= 0.25
    assert error(model, new) < 1.6 * error(told, new)


def test_far_samples_count_as_just_far_before_outliers_are_sought():
    X, new, _ = table(0, 200, 8)
    X[::10, 3] = np.nan
    clean = ct.CorrTensor(2).fit(X)
    # Nothing is wrong: as good as plain least squares.
    assert error(clean, new) < 1.01 * error(ct.make("PCA", 2).fit(X), new)


@pytest.mark.parametrize("flat", [0.6, 0.97])
def test_most_samples_may_be_equal_beside_gaps(flat):
    """What is not equal to most counts like before: a median of zero is no size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2, 2)) @ rng.normal(size=(2, 9)) + 0.1 * rng.normal(size=(200, 2, 9))
    X[rng.random(200) < flat] = 0
    torn = np.where((rng.random(X.shape) < 0.1) & (X != 0), np.nan, X)
    model = ct.CorrTensor((2, 3)).fit(torn)
    assert np.isfinite(model.residuals_).all()
    assert np.isfinite(model.repair(torn)).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_is_bad_everywhere_is_odd(seed):
    """All its cells are in doubt, and what is left of it is what is usual."""
    X, new, rng = table(seed, 200, 20, rank=3)
    bad = 1000 * rng.normal(size=(5, 20))
    model = ct.CorrTensor(3, cells=True).fit(X)
    assert model.residuals(bad).min() > 10 * np.median(model.residuals(new))
    assert model.score_samples(bad).max() < model.score_samples(new).min()
    # One bad cell costs a row no more than that.
    one = new.copy()
    one[:, 0] += 1e6
    assert np.median(model.residuals(one)) < np.median(model.residuals(bad)) / 10


@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_is_bad_everywhere_does_not_count(seed):
    X, new, rng = table(seed, 60, 10)
    X[:4] += 1000 * rng.normal(size=(4, 10))
    X[5:, :][rng.random((55, 10)) < 0.05] = np.nan
    for scale in ("auto", "median"):
        model = ct.CorrTensor(2, cells=True, scale=scale).fit(X)
        assert model.weights_[:4].max() < 0.5
        assert np.median(model.weights_[4:]) > 0.9
        assert model.outlier_scores_[:4].min() > np.quantile(model.outlier_scores_[4:], 0.9)
        assert error(model, new) < 1.2 * error(ct.make("PCA", 2).fit(new), new)


def test_variances_are_those_without_what_bad_cells_cost():
    X, new, rng = table(0, 300, 20)
    whole = ct.CorrTensor(2, cells=True).fit(X)
    X[rng.random(X.shape) < 0.05] += 50
    spoiled = ct.CorrTensor(2, cells=True).fit(X)
    assert spoiled.noise_variance_ == pytest.approx(whole.noise_variance_, rel=0.1)
    np.testing.assert_allclose(spoiled.residuals(new), whole.residuals(new), rtol=0.5)


@pytest.mark.parametrize("seed", range(4))
def test_a_place_where_a_third_is_bad_by_chance_is_doubted_there(seed):
    """A fifth of all cells is bad, all to one side: of 1600 places in one or two a third is."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.normal(size=(40, 4)))[0] for _ in range(2))
    whole = 5 * U @ rng.normal(size=(100, 4, 4)) @ V.T + 0.05 * rng.normal(size=(100, 40, 40))
    bad = rng.random(whole.shape) < 0.2
    X = whole + 1000 * bad
    model = ct.CorrTensor((4, 4), cells=True).fit(X)
    kept = bad & (model.cell_weights(X) > 0.5)
    assert kept.sum() < 1e-3 * bad.sum()
    # Where all are doubted, to less than the noise; it was hundreds.
    assert np.median(np.abs(model.repair(X) - whole)[bad]) < 0.05


def test_how_far_cells_stray_is_at_most_three_times_their_median():
    rng = np.random.default_rng(0)
    R = rng.normal(size=(301, 50))
    R[:110, 0] = 1e3
    R[::7, 1] = np.nan
    scale = spread_of(R)
    assert scale[0] == SIGMA * MOST * np.median(np.abs(R[:, 0]))
    for share in (0.5, 2 / 3):
        seen = np.sort(np.abs(R[~np.isnan(R[:, 1]), 1]))
        assert quantiles(np.abs(R), share)[0, 1] == seen[int(share * len(seen))]
    # Of one that is mostly zero, as a dark place of drawings, the median tells nothing.
    R[:, 2] = np.where(np.arange(301) < 160, 0, 5.0)
    assert spread_of(R)[2] == SIGMA * 5
