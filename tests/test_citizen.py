"""What users of scikit-learn, xarray and PyTorch try first, as they would write it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import corrtensor as ct
from corrtensor import CorrTensor, make
from corrtensor.datasets import block_outliers, dummy_outliers, load_digits, magnified_outliers

RANKS = [(2, 2), (3, 2), (4, 3), (5, 4), (6, 5)]


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return found.images[:300], found.target[:300]


@pytest.fixture(scope="module")
def planted():
    """Matrices of ranks (4, 3) in noise, their directions of different strength."""
    rng = np.random.default_rng(0)
    A = np.linalg.qr(rng.normal(size=(12, 4)))[0] * np.linspace(3, 1, 4)
    B = np.linalg.qr(rng.normal(size=(10, 3)))[0] * np.linspace(2, 1, 3)
    return A @ rng.normal(size=(200, 4, 3)) @ B.T + 0.3 * rng.normal(size=(200, 12, 10))


# Pipelines


@pytest.mark.parametrize("name", ["Corr-Tensor", "MPCA", "2DPCA", "L1-2DPCA", "N-2DNPP"])
def test_a_classifier_follows(digits, name):
    X, y = digits
    ranks = 4 if "2D" in name else (6, 6)
    pipeline = make_pipeline(make(name, ranks), LogisticRegression(max_iter=2000))
    assert pipeline.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.8


def test_the_pipeline_of_the_readme(digits):
    """Of whole images, as many features as a core has entries."""
    X, y = digits
    pipeline = make_pipeline(CorrTensor((8, 8)), LogisticRegression(max_iter=5000))
    pipeline.fit(X[:200], y[:200])
    assert pipeline[-1].n_features_in_ == 64
    by_hand = LogisticRegression(max_iter=5000).fit(X[:200].reshape(200, -1), y[:200])
    # full ranks turn the features, which changes nothing but how far the solver goes
    assert (pipeline.predict(X[200:]) == by_hand.predict(X[200:].reshape(100, -1))).mean() > 0.95


def test_a_search_over_a_pipeline(digits):
    X, y = digits
    pipeline = make_pipeline(CorrTensor(), StandardScaler(), LogisticRegression(max_iter=2000))
    grid = {"corrtensor__ranks": [(2, 2), (5, 5)]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {"corrtensor__ranks": (5, 5)}


def test_what_follows_without_targets_asks_for_flat_features(digits):
    X, _ = digits
    labels = make_pipeline(
        CorrTensor((4, 4), output="flat"), KMeans(10, n_init=1, random_state=0)
    ).fit_predict(X)
    assert len(labels) == 300


def test_cores_are_tensors_unless_a_table_is_wanted(digits):
    X, y = digits
    assert CorrTensor((4, 3)).fit(X).transform(X).shape == (300, 4, 3)
    assert CorrTensor((4, 3)).fit_transform(X).shape == (300, 4, 3)
    assert CorrTensor((4, 3)).fit(X, y).transform(X).shape == (300, 12)
    assert CorrTensor((4, 3)).fit_transform(X, y).shape == (300, 12)
    assert CorrTensor((4, 3), output="flat").fit(X).transform(X).shape == (300, 12)
    assert CorrTensor((4, 3), output="tensor").fit(X, y).transform(X).shape == (300, 4, 3)
    with pytest.raises(ValueError, match="output='table': use 'auto', 'tensor', 'flat'"):
        CorrTensor((4, 3), output="table").fit(X)


def test_flat_cores_give_the_tensors_back(digits):
    X, y = digits
    flat, plain = CorrTensor((4, 3)).fit(X, y), CorrTensor((4, 3)).fit(X)
    assert_allclose(flat.transform(X), plain.transform(X).reshape(300, -1))
    made = flat.inverse_transform(flat.transform(X))
    assert made.shape == X.shape
    assert_allclose(made, plain.inverse_transform(plain.transform(X)))
    out = np.empty((300, 12))
    assert flat.transform(X, out=out) is out


# Tables


def test_tables_of_tensors(digits):
    X, _ = digits
    model = CorrTensor((4, 3)).set_output(transform="pandas")
    table = model.fit_transform(X)
    assert isinstance(table, pd.DataFrame)
    assert table.shape == (300, 12)
    assert table.columns[[0, 1, 11]].tolist() == ["corrtensor0_0", "corrtensor0_1", "corrtensor3_2"]
    cores = CorrTensor((4, 3)).fit_transform(X)
    assert_allclose(table["corrtensor2_1"], cores[:, 2, 1])
    # and back, from the table
    assert model.inverse_transform(table.to_numpy()).shape == (300, 64)


def test_a_table_of_tensors_that_must_stay_tensors_is_refused(digits):
    X, _ = digits
    model = CorrTensor((4, 3), output="tensor").set_output(transform="pandas").fit(X)
    with pytest.raises(ValueError, match=r"output='tensor' gives cores of shape \(4, 3\)"):
        model.transform(X)


def test_names_reach_the_end_of_a_pipeline(digits):
    X, y = digits
    pipeline = make_pipeline(CorrTensor((2, 2)), StandardScaler()).set_output(transform="pandas")
    names = [f"corrtensor{i}_{j}" for i in range(2) for j in range(2)]
    assert pipeline.fit_transform(X, y).columns.tolist() == names


# Scores


def spoiled(X, kind):
    """The samples with a fifth of them spoiled, in an order that no fold knows."""
    make_outliers = {
        "noise": dummy_outliers,
        "blocks": block_outliers,
        "times 50": magnified_outliers,
    }[kind]
    rng = np.random.default_rng(3)
    n = len(X) // 5
    if kind == "noise":
        X, _ = make_outliers(X[n:], n, rng=rng)
    else:
        X, _ = make_outliers(X, n, rng=rng)
    return X[rng.permutation(len(X))]


def best_ranks(X):
    return GridSearchCV(CorrTensor(), {"ranks": RANKS}, cv=5).fit(X).best_params_["ranks"]


def test_a_search_over_ranks_finds_them(planted):
    assert best_ranks(planted) == (4, 3)


@pytest.mark.parametrize("kind", ["noise", "blocks", "times 50"])
def test_a_search_over_ranks_is_not_led_astray(planted, kind):
    assert best_ranks(spoiled(planted, kind)) == (4, 3)


def test_nor_by_a_fold_of_outliers_alone(planted):
    """Appended, a fifth of outliers is all that the last of five folds holds."""
    X, is_outlier = dummy_outliers(planted[40:], 40, rng=0)
    assert is_outlier[160:].all()
    assert best_ranks(X) == (4, 3)


def test_cross_validation_without_targets(digits):
    X, _ = digits
    coarse, fine = (cross_val_score(CorrTensor(r), X, cv=3).mean() for r in ((2, 2), (6, 6)))
    assert fine > coarse


def test_score_is_the_mean_of_the_likelier_samples(planted):
    model = CorrTensor((4, 3)).fit(planted)
    own = np.square(planted - model.mean_).mean(axis=(1, 2))
    noise = -60 * (1 + np.log(2 * np.pi * own))
    each = np.sort(np.maximum(model.score_samples(planted), noise))
    assert model.score(planted) == pytest.approx(each[100:].mean())
    model.breakdown = 0.25
    assert model.score(planted) == pytest.approx(each[50:].mean())
    assert make("MPCA", (4, 3)).fit(planted).score(planted) == pytest.approx(
        make("MPCA", (4, 3)).fit(planted).score_samples(planted).mean()
    )


# What is explained


def test_explained_variance_of_tensors(planted):
    model = make("MPCA", (4, 3)).fit(planted)
    D, Z = planted - planted.mean(axis=0), model.transform(planted)
    total = D.reshape(200, -1).var(axis=0, ddof=1).sum()
    assert_allclose(model.explained_variance_, np.square(Z).sum(axis=0) / 199, rtol=1e-9)
    assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-9)
    left = total - model.explained_variance_.sum()
    assert model.noise_variance_ == pytest.approx(left / (120 - 12), rel=1e-9)
    assert model.noise_variance_ == pytest.approx(0.09, rel=0.05)
    assert model.n_components_ == 12


def test_of_many_samples_some_tell_the_variance(make_samples):
    """Of one entry, off by 6 % from 500 of 8000 samples; of the last mode, not at all."""
    X = make_samples(2, n=8000, n_bad=0)
    model = make("MPCA", (2, 2)).fit(X)
    exact = np.square(model.transform(X)).sum(axis=0) / 7999
    assert 0 < np.abs(model.explained_variance_ / exact - 1).max() < 0.2
    shares = exact.sum(axis=0) / X.reshape(8000, -1).var(axis=0, ddof=1).sum()
    assert_allclose(model.explained_variance_ratio_by_mode_[1], shares, rtol=1e-3)


def test_shares_of_every_mode_add_up_and_fall(planted):
    model = CorrTensor((4, 3)).fit(planted)
    assert [len(share) for share in model.explained_variance_ratio_by_mode_] == [4, 3]
    for share in model.explained_variance_ratio_by_mode_:
        assert share.sum() == pytest.approx(model.explained_variance_ratio_.sum())
        assert (np.diff(share) < 0).all()


@pytest.mark.parametrize("kind", ["noise", "blocks", "times 50"])
def test_outliers_explain_nothing(planted, kind):
    """The shares are those of the good samples: here, of a fifth fewer of them."""
    clean, found = (CorrTensor((4, 3)).fit(X) for X in (planted, spoiled(planted, kind)))
    plain = make("MPCA", (4, 3)).fit(spoiled(planted, kind))

    def off(model):
        share = model.explained_variance_ratio_.sum() - clean.explained_variance_ratio_.sum()
        size = np.log(model.explained_variance_.sum() / clean.explained_variance_.sum())
        return abs(share), abs(size)

    # a variance from 160 of 200 normal samples, twelve of them added up, differs by some percent
    assert off(found)[0] < 0.01
    assert off(found)[1] < 0.1
    assert off(plain)[0] > 0.05 or off(plain)[1] > 1


def test_scree(planted):
    pytest.importorskip("matplotlib")
    model = CorrTensor((4, None)).fit(planted)
    ax = ct.plot.scree(model)
    assert len(ax.lines) == 1
    assert_allclose(ax.lines[0].get_ydata(), model.explained_variance_ratio_by_mode_[0])
    assert len(ct.plot.scree(CorrTensor((4, 3)).fit(planted)).lines) == 2


# Other arrays


def test_what_is_masked_is_missing(planted):
    masked = np.ma.array(planted, mask=np.zeros(planted.shape, bool))
    masked[0, 0, 0] = np.ma.masked
    masked.data[0, 0, 0] = 1000
    expected = planted.copy()
    expected[0, 0, 0] = np.nan
    found = CorrTensor((4, 3)).fit(masked)
    assert_allclose(found.mean_, CorrTensor((4, 3)).fit(expected).mean_)
    assert abs(found.mean_).max() < 100


def check_library(asarray, kind, planted):
    """Tensors in, tensors out, numbers those of NumPy."""
    X, model = asarray(planted), CorrTensor((4, 3))
    assert model.fit(X) is model
    plain = CorrTensor((4, 3)).fit(planted)
    assert_allclose(model.factors_[0], plain.factors_[0], rtol=1e-12)
    cores = model.transform(X)
    for value in (cores, model.inverse_transform(cores), model.residuals(X)):
        assert isinstance(value, kind)
    assert_allclose(np.asarray(cores), plain.transform(planted), atol=1e-8)
    back = np.asarray(model.inverse_transform(cores))
    assert_allclose(back, plain.inverse_transform(plain.transform(planted)), atol=1e-8)
    detector = ct.TensorOutlierDetector(CorrTensor((4, 3))).fit(X)
    assert isinstance(detector.predict(X), kind)


def test_torch_tensors(planted):
    torch = pytest.importorskip("torch")
    check_library(torch.from_numpy, torch.Tensor, planted)
    X = torch.tensor(planted, dtype=torch.float32, requires_grad=True)
    assert CorrTensor((4, 3)).fit(X).transform(X).dtype == torch.float32
    pipeline = make_pipeline(CorrTensor((4, 3)), LogisticRegression())
    y = (planted[:, 0, 0] > 0).astype(int)
    assert len(pipeline.fit(torch.from_numpy(planted), y).predict(torch.from_numpy(planted))) == 200


def test_arrays_of_the_standard(planted):
    xp = pytest.importorskip("array_api_strict")
    check_library(xp.asarray, type(xp.asarray([1.0])), planted)


class Elsewhere:
    """An array that lives where NumPy cannot see it, such as in the memory of a GPU."""

    shape, dtype = (20, 4, 3), np.dtype(float)

    def __dlpack__(self, **options):
        raise BufferError("not on the CPU")

    def __dlpack_device__(self):
        return (2, 0)


def test_arrays_elsewhere_are_refused_in_words():
    with pytest.raises(TypeError, match=r"NumPy cannot see .*: move it to the CPU"):
        CorrTensor((2, 2)).fit(Elsewhere())


def test_reading_an_array_of_another_library_copies_nothing(planted):
    xp = pytest.importorskip("array_api_strict")
    from corrtensor._engine.containers import bare

    assert np.shares_memory(bare(xp.asarray(planted)), planted)


# Words


def test_what_users_look_for_has_the_name_they_know(planted):
    with pytest.warns(ConvergenceWarning, match="did not converge in max_iter=1"):
        model = CorrTensor((4, 3), max_iter=1).fit(planted)
    assert not model.converged_
    assert model.n_iter_ == 1
    assert 0 < model.explained_variance_ratio_.sum() < 1
    assert model.noise_variance_ > 0
    assert model.score_distances(planted).shape == model.residuals(planted).shape == (200,)
    assert CorrTensor(breakdown=0.2).get_params()["breakdown"] == 0.2
    flagged = ct.TensorOutlierDetector(contamination=0.1).fit(planted).predict(planted) == -1
    assert flagged.sum() == 20


# Where warnings point


def told_at(task):
    """Return the file that each warning names."""
    with warnings.catch_warnings(record=True, action="always") as told:
        task()
    return [warning.filename for warning in told]


def test_warnings_name_the_line_that_called(images):
    """However deep they come up: directly, in a pipeline, in a search over parameters."""
    short = ct.CorrTensor(2, max_iter=1, tol=0)
    assert told_at(lambda: short.fit(images)) == [__file__]
    assert told_at(lambda: make_pipeline(short).fit_transform(images)) == [__file__]
    search = GridSearchCV(short, {"ranks": [2]}, cv=2)
    assert set(told_at(lambda: search.fit(images))) == {__file__}
    narrow = ct.CorrTensor(2, alpha=8, beta=0.01, scale=None)
    assert set(told_at(lambda: narrow.fit(images))) == {__file__}
    assert told_at(lambda: ct.make("L1-2DPCA", 2, max_iter=1).fit(images)) == [__file__]
