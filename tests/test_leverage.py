"""``leverage=True``: outliers that the subspace explains because they bent it."""

import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import CorrTensor
from corrtensor.datasets import load_faces, pattern_outliers
from corrtensor.methods import make
from studies.robustness import grid

SIMPLE = ("noise", "block", "times 50")
TWO_RANKS = {"Yale": (20, 50), "ORL": (10, 30), "LFW grey": (10, 30), "MNIST 3": (6, 10)}
SETS = {d.name: d for d in (*grid.FACES, *grid.MNIST, grid.DIGITS, grid.SMALL_FACES)}


@cache
def stack(name, folder):
    return SETS[name].load(folder)


def times_oracle(name, folder, kind, share, rank, seed=0, **settings):
    """Return the error of the good samples over that of a fit told who is good; and the fit."""
    X, bad = stack(name, folder), np.zeros(len(stack(name, folder)), dtype=bool)
    if kind != "none":
        X, bad = grid.OUTLIERS[kind](X, share, np.random.default_rng(seed))
    ranks = (rank, rank)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CorrTensor(ranks, leverage=True, **settings).fit(X)
    oracle = make("MPCA", ranks).fit(X[~bad]).residuals_.mean()
    return model.residuals(X[~bad]).mean() / oracle, model, bad


SMALL = [("small faces", 5), ("small faces", 10), ("small faces", 15), ("digits", 3), ("digits", 5)]


@pytest.mark.parametrize("share", [0.15, 0.25, 0.4])
@pytest.mark.parametrize(("name", "rank"), SMALL)
def test_a_pattern_is_seen_through(name, rank, share):
    error, model, bad = times_oracle(name, None, "pattern", share, rank)
    assert error <= 1.01
    assert model.weights_[bad].max() < 0.5 or (model.weights_[bad] < 0.5).mean() > 0.98


def test_without_it_the_pattern_wins():
    """The test above could pass on a pattern that any fit sees through."""
    X, bad = pattern_outliers(stack("small faces", None), 0.4, np.random.default_rng(0))
    model = CorrTensor((10, 10)).fit(X)
    oracle = make("MPCA", (10, 10)).fit(X[~bad]).residuals_.mean()
    assert model.residuals(X[~bad]).mean() / oracle > 1.5


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "rank", "share"),
    [
        ("LFW grey", 10, 0.4),
        ("LFW grey", 30, 0.15),
        ("LFW grey", 30, 0.4),
        ("Yale", 20, 0.4),
        # At two medians and without steps the pattern was taken in: 2.0.
        ("MNIST 3", 15, 0.4),
    ],
)
def test_a_pattern_among_real_images(data_dir, name, rank, share):
    assert times_oracle(name, data_dir, "pattern", share, rank)[0] <= 1.01


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("share", [0.15, 0.25, 0.4])
@pytest.mark.parametrize(
    ("name", "rank"),
    [(name, rank) for name in ("Yale", "ORL", "LFW grey", "MNIST 3") for rank in TWO_RANKS[name]],
)
def test_a_pattern_anywhere(data_dir, name, rank, share, seed):
    """The bar of the issue is 1.10; what holds is 1.03."""
    assert times_oracle(name, data_dir, "pattern", share, rank, seed)[0] <= 1.03


@pytest.mark.data
@pytest.mark.parametrize(("name", "rank"), [("Yale", 20), ("LFW grey", 10), ("MNIST 3", 10)])
def test_nothing_wrong_costs_nothing(data_dir, name, rank):
    error, model, _ = times_oracle(name, data_dir, "none", 0.0, rank)
    assert error <= 1.002
    assert len(model.diagnostics_["leverage"]) <= 0.01 * len(model.weights_)


@pytest.mark.data
@pytest.mark.parametrize("kind", SIMPLE)
def test_unexplained_outliers_are_still_rejected(data_dir, kind):
    assert times_oracle("LFW grey", data_dir, kind, 0.3, 30)[0] <= 1.02


def test_outliers_that_win_the_half_do_not_win_the_fit():
    """Beside digits, which fill the core, a pattern has so little spread that it looks normal.

    It is not found, but must not push out the digits: that gave 25 times the oracle.
    """
    X, bad = pattern_outliers(grid.all_digits_of_part(None), 0.4, np.random.default_rng(0))
    plain = CorrTensor((15, 15)).fit(X).residuals(X[~bad]).mean()
    model = CorrTensor((15, 15), leverage=True).fit(X)
    assert model.residuals(X[~bad]).mean() <= 1.01 * plain


@pytest.fixture(scope="module")
def spoiled():
    return pattern_outliers(load_faces().images[:100], 0.3, np.random.default_rng(0))


@pytest.fixture(scope="module")
def fitted(spoiled):
    return CorrTensor((10, 10), leverage=True).fit(spoiled[0])


def test_what_was_set_aside_is_told(spoiled, fitted):
    _, bad = spoiled
    assert_array_equal(fitted.diagnostics_["leverage"], np.flatnonzero(bad))
    assert (fitted.weights_[bad] == 0).all()
    assert len(CorrTensor((10, 10)).fit(spoiled[0]).diagnostics_["leverage"]) == 0


def test_equal_to_a_fit_without_the_outliers(spoiled, fitted):
    X, bad = spoiled
    alone = CorrTensor((10, 10)).fit(X[~bad])
    # Two runs to tol from starts that differ.
    assert_allclose(fitted.residuals(X), alone.residuals(X), rtol=1e-3)


def test_scale_of_the_data_does_not_matter(spoiled, fitted):
    for factor in (1e-120, 1e3):
        scaled = CorrTensor((10, 10), leverage=True).fit(factor * spoiled[0])
        assert_allclose(scaled.weights_, fitted.weights_, atol=1e-6)


def test_order_of_the_samples_does_not_matter(spoiled, fitted):
    order = np.random.default_rng(1).permutation(len(spoiled[0]))
    shuffled = CorrTensor((10, 10), leverage=True).fit(spoiled[0][order])
    assert_allclose(shuffled.weights_, fitted.weights_[order], atol=1e-6)


def test_a_shift_of_all_samples_does_not_matter(spoiled, fitted):
    shift = np.random.default_rng(1).normal(size=spoiled[0].shape[1:])
    moved = CorrTensor((10, 10), leverage=True).fit(spoiled[0] + shift)
    assert_allclose(moved.weights_, fitted.weights_, atol=1e-6)


def test_threads_do_not_matter(spoiled, fitted):
    threaded = CorrTensor((10, 10), leverage=True, n_jobs=2).fit(spoiled[0])
    assert_array_equal(threaded.weights_, fitted.weights_)
    assert_array_equal(threaded.mean_, fitted.mean_)


def test_a_large_set_is_judged_by_a_part_of_it():
    """Digits are more than the 1000 samples on which starts are sought."""
    error, model, bad = times_oracle("digits", None, "pattern", 0.25, 5)
    assert len(bad) > 2000
    assert error <= 1.01
    assert np.isin(np.flatnonzero(bad), model.diagnostics_["leverage"]).mean() > 0.95


@pytest.mark.parametrize("settings", [{"init": "2dsvd"}, {"reject": "minority"}, {"ranks": 0.9}])
def test_other_starts_can_be_combined_with_it(spoiled, settings):
    X, bad = spoiled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CorrTensor(**{"ranks": (10, 10), "leverage": True, **settings}).fit(X)
    assert model.weights_[bad].max() < 0.01
    assert (model.weights_[~bad] > 0.5).mean() > 0.9


def test_weights_of_the_user_count(spoiled):
    """Without the outliers by their weight, nothing is left to set aside."""
    X, bad = spoiled
    model = CorrTensor((10, 10), leverage=True).fit(X, sample_weight=(~bad).astype(float))
    alone = CorrTensor((10, 10), leverage=True).fit(X[~bad])
    assert_allclose(model.residuals(X), alone.residuals(X), rtol=1e-3)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_any_order_and_few_samples(order, make_samples, ranks_of):
    for n in (5, 30, 60):
        X = make_samples(order, n=n, n_bad=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = CorrTensor(ranks_of[order], leverage=True).fit(X)
        assert np.isfinite(model.weights_).all()
        assert len(model.diagnostics_["leverage"]) <= 0.1 * n


def test_copies_are_no_leverage():
    X = np.zeros((60, 4, 4))
    X[:20] = np.random.default_rng(0).normal(size=(20, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = CorrTensor((3, 3), leverage=True).fit(X)
    assert np.isfinite(model.weights_).all()


def test_wrong_settings_are_named(spoiled):
    with pytest.raises(TypeError, match="leverage='yes'"):
        CorrTensor((3, 2), leverage="yes").fit(spoiled[0])
    start = (np.zeros((25, 25)), (np.eye(25, 3), np.eye(25, 2)))
    with pytest.raises(ValueError, match="init by name"):
        CorrTensor((3, 2), leverage=True, init=start).fit(spoiled[0])
