"""What users of scikit-learn's PCA rely on, asked of ``make("PCA")``: the same answers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.model_selection import cross_val_score

from corrtensor import make

SHAPES = [(200, 12), (60, 25), (20, 30)]


def drawn(n, p, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, p)) * np.linspace(3, 0.5, p) + 5 * rng.normal(size=p)


@pytest.fixture(params=SHAPES, ids=str)
def X(request):
    return drawn(*request.param)


def up_to_sign(U, V, **tolerance):
    assert_allclose(U * np.sign((U * V).sum(axis=0)), V, **tolerance)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_components_mean_and_scores(X, k):
    theirs, ours = PCA(k).fit(X), make("PCA", k).fit(X)
    assert_allclose(ours.mean_, theirs.mean_, rtol=1e-12)
    up_to_sign(ours.factors_[0], theirs.components_.T, atol=1e-9)
    up_to_sign(ours.transform(X), theirs.transform(X), atol=1e-8)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_explained_variance(X, k):
    theirs, ours = PCA(k).fit(X), make("PCA", k).fit(X)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-9)
    assert (np.diff(ours.explained_variance_ratio_) <= 0).all()
    assert ours.n_components_ == theirs.n_components_ == k
    assert_allclose(ours.transform(X).var(axis=0, ddof=1), ours.explained_variance_, rtol=1e-9)


@pytest.mark.parametrize(("n", "p"), [(5000, 12), (1500, 3000)])
def test_the_variance_of_many_samples_is_exact(n, p):
    """Of vectors the scatter tells it, also where it is only seen through a few directions."""
    rng = np.random.default_rng(0)
    X = 3 * rng.normal(size=(n, 4)) * [4, 3, 2, 1] @ rng.normal(size=(4, p)) + rng.normal(size=p)
    X += 0.1 * rng.normal(size=X.shape)
    ours, Y = make("PCA", 3).fit(X), X - X.mean(axis=0)
    variances = np.linalg.eigvalsh(Y @ Y.T if n < p else Y.T @ Y)[:-4:-1] / (n - 1)
    assert_allclose(ours.explained_variance_, variances, rtol=1e-9)
    total = np.square(Y).sum() / (n - 1)
    assert_allclose(ours.explained_variance_ratio_, variances / total, rtol=1e-9)


def test_all_components_explain_all():
    X = drawn(100, 9)
    model = make("PCA", 9).fit(X)
    assert model.explained_variance_ratio_.sum() == pytest.approx(1, abs=1e-12)
    assert model.noise_variance_ == 0
    assert_allclose(model.inverse_transform(model.transform(X)), X, atol=1e-10)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_noise_variance_and_likelihood(k):
    """With more samples than features; with fewer, theirs averages over fewer directions."""
    X = drawn(200, 12)
    theirs, ours = PCA(k).fit(X), make("PCA", k).fit(X)
    assert ours.noise_variance_ == pytest.approx(theirs.noise_variance_, rel=1e-9)
    new = drawn(30, 12, seed=1)
    assert_allclose(ours.score_samples(new), theirs.score_samples(new), rtol=1e-8)
    assert ours.score(new) == pytest.approx(theirs.score(new), rel=1e-8)


def test_a_share_of_variance_chooses_as_many():
    X = drawn(200, 12)
    for share in (0.3, 0.6, 0.9, 0.99):
        assert make("PCA", share).fit(X).n_components_ == PCA(share).fit(X).n_components_


def test_cross_validation_finds_the_same_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 10)) + 0.2 * rng.normal(size=(120, 10))
    counts = range(1, 7)
    theirs = [cross_val_score(PCA(k), X).mean() for k in counts]
    ours = [cross_val_score(make("PCA", k), X).mean() for k in counts]
    assert_allclose(ours, theirs, rtol=1e-7)
    assert int(np.argmax(ours)) + 1 == 3


def test_the_likelihood_is_largest_at_the_truth():
    """The mean log-likelihood of a normal distribution is minus its entropy."""
    rng = np.random.default_rng(0)
    n, p = 5000, 3
    X = rng.normal(size=(n, p)) * 0.1 + np.array([3, 4, 5])
    score = make("PCA", 2).fit(X).score(X)
    entropy = -0.5 * np.log(2 * np.pi * np.exp(1) * 0.1**2) * p
    # The sampling error of a mean of 5000; theirs has the same test.
    assert score / entropy == pytest.approx(1, abs=0.01)


def test_fitting_and_transforming_at_once_is_the_same(X):
    assert_allclose(make("PCA", 3).fit_transform(X), make("PCA", 3).fit(X).transform(X), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_are_kept(dtype):
    X = drawn(100, 9).astype(dtype)
    model = make("PCA", 3).fit(X)
    assert model.transform(X).dtype == dtype
    assert model.factors_[0].dtype == dtype
    assert model.transform(X.astype(int)).dtype == np.float64


def test_integers_count_as_floats():
    X = np.random.default_rng(0).integers(0, 9, size=(100, 8))
    ours = make("PCA", 3).fit(X).transform(X)
    up_to_sign(ours, PCA(3).fit(X.astype(float)).transform(X), atol=1e-8)


@pytest.mark.parametrize("k", [0, -1, 13, 2.5, "mle"])
def test_impossible_numbers_are_refused(k):
    with pytest.raises((ValueError, TypeError), match="ranks"):
        make("PCA", k).fit(drawn(50, 12))


def test_signs_and_runs_are_reproducible(X):
    first, second = (clone(make("PCA", 3)).fit(X) for _ in range(2))
    assert np.array_equal(first.transform(X), second.transform(X))


def test_iris_as_everyone_knows_it():
    """The published shares of the iris data."""
    ratio = make("PCA", 2).fit(load_iris().data).explained_variance_ratio_
    assert_allclose(ratio, [0.92461872, 0.05306648], atol=1e-8)


def test_names_of_features():
    model = make("PCA", 3).fit(drawn(50, 12))
    assert model.get_feature_names_out().tolist() == [f"multilinearsubspace{i}" for i in range(3)]
