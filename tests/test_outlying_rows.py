"""Outlying rows of tables: what the detector says hangs on no offset, order or unit of columns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer

from corrtensor import CorrTensor, TensorOutlierDetector, load, save
from corrtensor.report.outlier_page import write_outlier_page
from corrtensor.tasks.ranking import rank_samples
from corrtensor.tasks.table import judge, principal

PICTURES = ("bright", "dark", "contrast", "faint", "blurred", "noise-like", "turned", "covered")
TOGETHER = "unlike the others in how columns go together"


def made(n, columns=20, rank=2, seed=0):
    """Rows near a plane of few dimensions, about zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, columns))
    return X + 0.1 * rng.normal(size=X.shape)


def scores(X):
    return -TensorOutlierDetector().fit(X).score_samples(X)


@pytest.mark.parametrize("size", [1.0, 3.0, 1e4])
@pytest.mark.parametrize("table", ["made", "breast cancer"])
def test_a_constant_added_to_a_column_changes_nothing(table, size):
    X = made(200)
    if table == "breast cancer":
        X = load_breast_cancer().data
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    moved = X + size * np.random.default_rng(1).normal(size=X.shape[1])
    assert_allclose(scores(moved), scores(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("n", [60, 200])
def test_about_one_good_row_in_a_hundred_is_beyond_the_cut(n, offset):
    own, new = [], []
    for seed in range(6):
        X = made(n + 500, seed=seed)
        X += offset * np.random.default_rng(seed).normal(size=20)
        model = TensorOutlierDetector().fit(X[:n])
        own.append((model.predict(X[:n]) == -1).mean())
        new.append((model.predict(X[n:]) == -1).mean())
    assert np.mean(own) <= 0.015
    assert np.mean(new) <= 0.03


def test_order_and_units_of_columns_do_not_matter():
    X = made(100, 12)
    X[:5] += np.random.default_rng(1).normal(size=(5, 12))
    order = np.random.default_rng(2).permutation(12)
    assert_allclose(scores(X[:, order]), scores(X), rtol=1e-6, atol=1e-6)
    assert_allclose(scores(X * np.linspace(0.5, 2, 12)), scores(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [60, 200])
def test_rows_off_the_plane_are_found_in_small_tables_too(n, seed):
    X = made(n, seed=seed)
    X[:6] += 2 * np.random.default_rng(seed).normal(size=(6, 20))
    flagged = TensorOutlierDetector().fit_predict(X) == -1
    assert flagged[:6].all()
    assert flagged[6:].mean() <= 0.03


@pytest.mark.parametrize("n_kinds", [3, 5])
@pytest.mark.parametrize("seed", range(3))
def test_rows_of_several_kinds_are_not_odd(n_kinds, seed):
    rng = np.random.default_rng(seed)
    kind = rng.integers(n_kinds, size=200)
    X = 2 * rng.normal(size=(n_kinds, 20))[kind] + 0.2 * rng.normal(size=(200, 20))
    flagged = TensorOutlierDetector(CorrTensor(breakdown=0.05)).fit_predict(X) == -1
    assert flagged.mean() <= 0.03


@pytest.mark.parametrize("shape", [(30, 6), (8, 12)])
def test_distances_are_those_from_what_the_others_teach(shape):
    """Each row in turn left out, against the formula."""
    n, a = shape
    X = np.random.default_rng(0).normal(size=shape) @ np.diag(np.linspace(1, 9, a))
    teach = np.arange(n) >= 2
    spread, found = judge(X, teach)
    Z = X / X[teach].std(axis=0)
    for i in range(n):
        others = Z[teach & (np.arange(n) != i)]
        covariance = np.cov(others.T, bias=True)
        # Fewer rows, and as much is added as stands for one of all of them.
        added = spread.added * (n - 2) / (n - 3 if teach[i] else n - 2)
        inverse = np.linalg.inv(covariance + added * np.eye(a))
        away = Z[i] - others.mean(axis=0)
        assert_allclose(found[i] ** 3, away @ inverse @ away, rtol=1e-6)


@pytest.mark.parametrize("shape", [(30, 6), (8, 12)])
def test_cells_are_off_as_a_regression_on_the_others_tells(shape):
    X = np.random.default_rng(0).normal(size=shape)
    spread = judge(X, np.ones(len(X), bool))[0]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    covariance = Z.T @ Z / len(Z) + spread.added * np.eye(shape[1])
    alone, together = spread.deviations(X)
    assert_allclose(alone, Z / np.sqrt(np.diag(covariance)), rtol=1e-9)
    for j in range(shape[1]):
        rest = np.arange(shape[1]) != j
        slopes = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, j])
        variance = covariance[j, j] - slopes @ covariance[rest, j]
        expected = (Z[:, j] - Z[:, rest] @ slopes) / np.sqrt(variance)
        assert_allclose(together[:, j], expected, rtol=1e-6, atol=1e-8)


def test_directions_of_few_rows_are_those_of_the_covariance():
    z = np.random.default_rng(0).normal(size=(5, 9))
    directions, variance = principal(z)
    assert_allclose(directions.T @ directions, np.eye(5), atol=1e-12)
    assert_allclose(directions * variance @ directions.T, z.T @ z / 5, atol=1e-12)


def test_reasons_are_words_of_a_table():
    X = made(200)
    X[0, 7] += 60
    X[1] *= 8
    X[2, 4] += 2
    model = TensorOutlierDetector().fit(X)
    said = model.explain(X)
    assert not any(word in why for whys in said for why in whys for word in PICTURES)
    assert "unusual size: column 7" in said[0]
    assert any(why.startswith("unusual size") for why in said[1])
    assert said[2] == (f"{TOGETHER}: column 4",)
    assert sum(bool(whys) for whys in said[3:]) <= 20


def test_reasons_name_the_columns():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(made(100, 5), columns=[*"abcde"])
    X.loc[3, "d"] += 20
    model = TensorOutlierDetector().fit(X)
    assert all(why.endswith(": d") for why in model.explain(X)[3])
    with_others = TensorOutlierDetector().fit(X.rename(columns={"d": "höhe"}).to_numpy())
    assert with_others.explain(X.to_numpy())[3][0].endswith(": column 3")


def test_the_page_filters_by_kinds_of_reasons_not_by_columns(tmp_path):
    X = made(100)
    X[np.arange(4), np.arange(4)] += 60
    model = TensorOutlierDetector().fit(X)
    page = write_outlier_page(tmp_path / "rows.html", model, X, rank_samples(model, X))
    text = page.read_text()
    assert "unusual size: column 3" in text
    assert text.count('data-reason="unusual size') == 1


def test_a_column_that_never_varied_tells():
    X = made(60, 5)
    X[:, 2] = 7
    model = TensorOutlierDetector().fit(X)
    new = X[:2].copy()
    new[1, 2] += 1
    assert_array_equal(model.predict(new), [1, -1])
    assert model.explain(new)[1][0] == "unusual size: column 2"


def test_the_only_one_that_varies_in_a_column_is_odd():
    X = made(60, 5)
    X[:, 2] = 7
    X[3, 2] += 1
    model = TensorOutlierDetector().fit(X)
    assert_array_equal(np.flatnonzero(model.predict(X) == -1), [3])
    assert model.explain(X)[3] == ("unusual size: column 2",)


def test_the_nearest_is_the_nearest_other_one():
    X = made(60, 6)
    model = TensorOutlierDetector().fit(X)
    spread = model.profile_.spread
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    inverse = np.linalg.inv(Z.T @ Z / 60 + spread.added * np.eye(6))
    apart = Z[:, None] - Z
    d = np.einsum("ijk,kl,ijl->ij", apart, inverse, apart) + np.diag([np.inf] * 60)
    known = model.profile_.numbers
    assert len(known) >= 55
    assert_array_equal(model.measure(X)["nearest"], known[d[:, known].argmin(axis=1)])


def test_rows_that_are_bad_all_over_are_not_mended_and_forgotten():
    """A bad cell makes no odd row; one of which every cell is bad is as odd as can be."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = made(100, seed=seed)
        X[:4] = 50 * rng.normal(size=(4, 20))
        X[np.arange(10, 20), rng.integers(20, size=10)] += 30
        flagged = TensorOutlierDetector(CorrTensor(2, cells=True)).fit_predict(X) == -1
        assert flagged[:4].all()
        assert flagged[4:].sum() <= 2


def test_a_saved_detector_of_a_table_says_the_same(tmp_path):
    X = made(60, 8)
    X[0, 3] = 50
    model = TensorOutlierDetector().fit(X)
    save(model, tmp_path / "d.ct")
    again = load(tmp_path / "d.ct")
    assert_array_equal(again.score_samples(X), model.score_samples(X))
    assert again.explain(X) == model.explain(X)
    assert rank_samples(again, X).order[0] == 0
