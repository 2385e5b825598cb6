"""The estimators as citizens of scikit-learn: its own checks, pipelines, searches, copies."""

import copy
import pickle
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from corrtensor import CorrTensor, MultilinearSubspace
from corrtensor.losses import Correntropy, Power
from corrtensor.methods import METHODS, make

# Flat samples become matrices with one row; what is projected then is the columns.
ONE_ROW = (1, -1)


def checked_estimators():
    yield CorrTensor()
    yield MultilinearSubspace()
    yield CorrTensor(ranks=1, alpha=5.0, p=3.0, scale=1.0, center="plain")
    yield MultilinearSubspace(loss=Power(1), center=None)
    yield CorrTensor(ranks=1, sample_shape=(-1, 1))
    for name in METHODS:
        if name in ("MPCA", "Corr-Tensor"):
            continue  # the two classes at their defaults, above
        if name in ("PCA", "R1-Tensor"):
            yield make(name)
        else:
            yield make(name, ranks=1, sample_shape=ONE_ROW)


@parametrize_with_checks(list(checked_estimators()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_only_check_that_skips_is_the_array_api():
    """A check that skips has checked nothing: count them here, where skips would go unseen."""
    for estimator in (CorrTensor(), MultilinearSubspace()):
        logs = check_estimator(estimator, on_skip=None, on_fail="raise")
        skipped = [log["check_name"] for log in logs if log["status"] not in ("passed",)]
        assert skipped in ([], ["check_array_api_input"])


@pytest.mark.parametrize(
    ("name", "estimator"), [("MPCA", MultilinearSubspace), ("Corr-Tensor", CorrTensor)]
)
def test_methods_that_are_a_class_at_its_defaults(name, estimator):
    assert repr(make(name)) == repr(estimator())


def labelled(make_samples, order, n=60):
    """Planted samples of three classes that differ in their means, a few of them spoiled."""
    X = make_samples(order, n=n, n_bad=0)
    y = np.arange(n) % 3
    X += y.reshape(-1, *[1] * order) * make_samples(order, n=1, n_bad=0, seed=9)
    X[: n // 10] *= 30
    return X, y


@pytest.mark.parametrize("order", [2, 3])
def test_pipeline_and_grid_search(make_samples, ranks_of, order):
    X, y = labelled(make_samples, order)
    steps = [
        ("subspace", CorrTensor(ranks_of[order])),
        ("flat", FunctionTransformer(lambda cores: cores.reshape(len(cores), -1))),
        ("lda", LinearDiscriminantAnalysis()),
    ]
    grid = {"subspace__alpha": [1.0, 2.0, 4.0], "subspace__beta": [2.0, 3.0]}
    search = GridSearchCV(Pipeline(steps), grid, cv=3, error_score="raise").fit(X, y)
    assert set(search.best_params_) == set(grid)
    assert search.predict(X).shape == y.shape
    best = search.best_estimator_["subspace"]
    by_hand = CorrTensor(ranks_of[order], alpha=best.alpha, beta=best.beta).fit(X)
    assert np.array_equal(best.weights_, by_hand.weights_)
    # one cell of the grid by hand: the parameters reached the fits of the folds, too
    cell = search.cv_results_["params"].index({"subspace__alpha": 4.0, "subspace__beta": 3.0})
    pipeline = Pipeline(steps).set_params(subspace__alpha=4.0, subspace__beta=3.0)
    for fold, (train, test) in enumerate(StratifiedKFold(3).split(X, y)):
        score = pipeline.fit(X[train], y[train]).score(X[test], y[test])
        assert score == search.cv_results_[f"split{fold}_test_score"][cell]


def test_flat_pipeline_needs_no_reshaping(make_samples):
    X, y = labelled(make_samples, 2)
    model = CorrTensor((3, 2), sample_shape=(8, 7))
    pipeline = make_pipeline(model, LinearDiscriminantAnalysis())
    assert pipeline.fit(X.reshape(60, -1), y).predict(X.reshape(60, -1)).shape == y.shape
    assert pipeline[0].transform(X.reshape(60, -1)).shape == (60, 6)


def test_clone_keeps_every_parameter():
    parameters = {
        "ranks": (3, None),
        "alpha": 1.5,
        "beta": 0.7,
        "p": 3.0,
        "scale": None,
        "breakdown": 0.2,
        "center": "plain",
        "order": 2,
        "sample_shape": (8, 7),
        "max_iter": 7,
        "tol": 1e-3,
        "n_jobs": 2,
        "block_size": 5,
    }
    model = CorrTensor(**parameters)
    assert parameters.items() <= clone(model).get_params().items()
    loss = Power(1.5)
    assert clone(MultilinearSubspace(3, loss=loss)).loss == loss


def test_names_of_flat_output(clean_images):
    flat = clean_images.reshape(60, -1)
    model = CorrTensor((3, 2), sample_shape=(8, 7)).fit(flat)
    names = [f"corrtensor{i}_{j}" for i in range(3) for j in range(2)]
    assert model.get_feature_names_out().tolist() == names
    table = model.set_output(transform="pandas").transform(flat)
    assert table.columns.tolist() == names
    assert table.shape == (60, 6)
    plain = model.set_output(transform="default").transform(flat)
    assert_allclose(table.to_numpy(), plain)


def test_table_in_table_out(clean_images):
    columns = [f"pixel {i}" for i in range(56)]
    table = pd.DataFrame(clean_images.reshape(60, -1), columns=columns, index=range(100, 160))
    model = CorrTensor((3, 2), sample_shape=(8, 7)).set_output(transform="pandas").fit(table)
    assert model.feature_names_in_.tolist() == columns
    cores = model.transform(table)
    assert cores.index.tolist() == table.index.tolist()
    plain = CorrTensor((3, 2)).fit_transform(clean_images)
    assert_allclose(cores.to_numpy().reshape(60, 3, 2), plain, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(table[columns[::-1]])


def test_ranks_one_for_all_modes(clean_images):
    for ranks in (2, np.int64(2), (2, 2), [2, 2], np.array([2, 2])):
        model = CorrTensor(ranks).fit(clean_images)
        assert model.ranks_ == model.core_shape_ == (2, 2)
        assert model.transform(clean_images).shape == (60, 2, 2)


@pytest.mark.parametrize(
    ("ranks", "core"), [((None, 2), (8, 2)), ((3, None), (3, 7)), ((0.5, None), (1, 7))]
)
def test_ranks_none_leaves_the_mode_whole(clean_images, ranks, core):
    model = CorrTensor(ranks).fit(clean_images)
    assert model.core_shape_ == core
    assert [U is None for U in model.factors_] == [k is None for k in ranks]


def test_a_mode_left_whole_is_a_mode_of_full_rank(clean_images):
    whole = CorrTensor((3, None), tol=1e-12).fit(clean_images)
    full = CorrTensor((3, 7), tol=1e-12).fit(clean_images)
    U, V = whole.factors_[0], full.factors_[0]
    assert_allclose(U @ U.T, V @ V.T, rtol=0, atol=1e-8)
    assert_allclose(whole.residuals_, full.residuals_, rtol=1e-8)


def energy_rank(X, mode, share):
    """Smallest rank that holds a share of the energy of a mode, by the singular values."""
    unfolded = np.moveaxis(X - X.mean(axis=0), mode, 0).reshape(X.shape[mode], -1)
    energy = np.linalg.svd(unfolded, compute_uv=False) ** 2
    return int(np.argmax(np.cumsum(energy) >= share * energy.sum())) + 1


@pytest.mark.parametrize("share", [0.3, 0.8, 0.95, 0.999, np.float32(0.9)])
def test_ranks_by_share_of_energy(make_samples, share):
    X = make_samples(3, n_bad=0)
    expected = tuple(energy_rank(X, mode, share) for mode in (1, 2, 3))
    assert MultilinearSubspace(share).fit(X).ranks_ == expected
    assert MultilinearSubspace((share, 2, None)).fit(X).ranks_ == (expected[0], 2, 4)


def test_shares_near_the_ends(clean_images):
    assert MultilinearSubspace(1e-9).fit(clean_images).ranks_ == (1, 1)
    assert MultilinearSubspace(1 - 1e-12).fit(clean_images).ranks_ == (8, 7)


@pytest.mark.parametrize("share", [0.9, 0.95])
@pytest.mark.parametrize("size", [1.0, 10.0, 1000.0])
def test_share_of_energy_ignores_what_has_no_weight(make_samples, size, share):
    """Six noise samples have energy in all directions, the others in two or three."""
    X = make_samples(2, n_bad=0)
    good = CorrTensor(share).fit(X)
    spoiled = X.copy()
    spoiled[:6] = size * np.random.default_rng(2).normal(size=(6, 8, 7))
    assert min(MultilinearSubspace(share).fit(spoiled).ranks_) > 3
    model = CorrTensor(share).fit(spoiled)
    assert np.all(model.weights_[:6] < 1e-3)
    assert model.ranks_ == good.ranks_


def test_running_out_of_sweeps_is_a_warning(images):
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model = CorrTensor((3, 2), scale="median", max_iter=1, tol=1e-14).fit(images)
    assert model.converged_ is False
    assert model.n_iter_ == 1
    assert len(model.objective_) == 1


def test_coming_to_rest_is_no_warning(images):
    model = CorrTensor((3, 2)).fit(images)
    assert model.converged_
    assert 1 <= model.n_iter_ < 100
    loose = CorrTensor((3, 2), tol=0.1).fit(images)
    assert loose.n_iter_ <= model.n_iter_


def test_at_rest_another_sweep_changes_little(images):
    """The stopping rule: objective within tol, projectors within its root."""
    model = CorrTensor((3, 2), tol=1e-8).fit(images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        end = CorrTensor((3, 2), tol=0.0, max_iter=300).fit(images)
    assert_allclose(model.objective_[-1], end.objective_[-1], rtol=1e-6)
    for U, V in zip(model.factors_, end.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, rtol=0, atol=1e-3)


@pytest.mark.parametrize("estimator", [CorrTensor, MultilinearSubspace])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_more_ranks_than_the_samples_need(make_samples, ranks_of, order, estimator):
    """Nothing decides the spare directions; that they turn must not keep the sweeps going."""
    X = make_samples(order, noise=0, n_bad=0)
    model = estimator([k + 2 for k in ranks_of[order]]).fit(X)
    assert model.converged_
    assert_allclose(model.residuals_, 0, atol=1e-24)


def test_identical_samples_but_one(images):
    """Without the one that differs nothing varies, and nothing decides the factors."""
    X = np.repeat(images[:1], 12, axis=0)
    X[3] = images[5]
    model = CorrTensor(1).fit(X)
    assert model.converged_
    assert np.all(np.isfinite(model.weights_))
    assert_allclose(model.residuals(images[:1]), 0, atol=1e-20)


def state(model):
    return pickle.dumps(dict(sorted(vars(model).items())))


BAD_FITS = {
    "infinity": lambda model, X: model.fit(np.where(np.arange(7) == 3, np.inf, X)),
    "rank": lambda model, X: model.fit(X[:, :2]),
    "one sample": lambda model, X: model.fit(X[:1]),
    "weights": lambda model, X: model.fit(X, sample_weight=-np.ones(len(X))),
    "alpha": lambda model, X: model.set_params(alpha=-1.0).fit(X),
    "order": lambda model, X: model.fit(X.reshape(60, 8, 7, 1)),
    "table": lambda model, X: model.fit(X.reshape(60, 56)),
}


@pytest.mark.parametrize("bad_fit", BAD_FITS.values(), ids=BAD_FITS.keys())
def test_failed_fit_leaves_the_fitted_model_as_it_was(images, bad_fit):
    model = CorrTensor((3, 2)).fit(images)
    cores = model.transform(images)
    alone = copy.deepcopy(model)
    with pytest.raises(ValueError):
        bad_fit(model, images)
    model.set_params(alpha=alone.alpha)
    assert state(model) == state(alone)
    assert np.array_equal(model.transform(images), cores)


def test_failed_first_fit_leaves_nothing_behind(images):
    table = pd.DataFrame(images.reshape(60, -1)).add_prefix("pixel ")
    table.iloc[3, 4] = np.inf
    model = CorrTensor((3, 2), sample_shape=(8, 7))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(table)
    assert vars(model) == vars(CorrTensor((3, 2), sample_shape=(8, 7)))


class Interrupted(Power):
    def value(self, s):
        raise KeyboardInterrupt


def test_interrupted_fit_leaves_the_fitted_model_as_it_was(images):
    model = MultilinearSubspace((3, 2)).fit(images)
    model.loss = Interrupted(1.0)
    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(images[:, :5, :4])
    assert state(model) == before
    assert model.transform(images).shape == (60, 3, 2)


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],  # noqa: S301
)
@pytest.mark.parametrize("name", ["Corr-Tensor", "R1-2DSVD", "2DPCA"])
def test_copies_work_alike(images, name, duplicate):
    model = make(name, ranks=2).fit(images)
    twin = duplicate(model)
    assert np.array_equal(twin.transform(images), model.transform(images))
    assert np.array_equal(twin.residuals(images), model.residuals(images))
    assert repr(twin) == repr(model)
    twin.factors_[1][:] = 0
    assert model.factors_[1].any()


@dataclass(frozen=True)
class Halved:
    """Any object with the three methods is a loss."""

    def value(self, s):
        return s / 2

    def log_weight(self, s):
        return np.full_like(s, np.log(0.5))

    def calibrate(self, s):
        return self


def test_a_loss_of_ones_own(images):
    model = MultilinearSubspace((3, 2), loss=Halved()).fit(images)
    plain = MultilinearSubspace((3, 2)).fit(images)
    for U, V in zip(model.factors_, plain.factors_, strict=True):
        assert_allclose(U, V, atol=1e-10)
    assert_allclose(model.objective_, plain.objective_ / 2, rtol=1e-12)
    assert_allclose(model.weights_, 1)


def test_corr_tensor_is_the_general_estimator_with_its_loss(images):
    model = CorrTensor((3, 2), alpha=1.5, beta=1.7, p=1.2, scale="median").fit(images)
    loss = Correntropy(1.5, 1.7, 1.2, scale="median")
    general = MultilinearSubspace((3, 2), loss=loss).fit(images)
    assert np.array_equal(model.weights_, general.weights_)
    assert np.array_equal(model.factors_[0], general.factors_[0])


def test_table_of_methods():
    assert list(METHODS) == [
        "PCA",
        "2DPCA",
        "L1-2DPCA",
        "2DSVD",
        "GLRAM",
        "MPCA",
        "R1-2DSVD",
        "R1-Tensor",
        "N-2DNPP",
        "S-2DNPP",
        "Corr-2DSVD",
        "Corr-Tensor",
    ]
    for name, method in METHODS.items():
        assert type(make(name.lower(), ranks=2)) is method.estimator
    with pytest.raises(ValueError, match=r"name='2DSDV'.*Corr-Tensor"):
        make("2DSDV")


@pytest.mark.parametrize("name", [name for name in METHODS if name != "PCA"])
def test_every_method_on_matrices(clean_images, name):
    model = make(name, ranks=2).fit(clean_images)
    cores = model.transform(clean_images)
    one_sided = METHODS[name].one_sided
    assert cores.shape == ((60, 8, 2) if one_sided else (60, 2, 2))


def test_fitted_names_of_the_contract(images):
    model = CorrTensor((3, 2)).fit(images)
    assert model.mean_.shape == (8, 7)
    assert [U.shape for U in model.factors_] == [(8, 3), (7, 2)]
    assert model.weights_.shape == model.residuals_.shape == (60,)
    assert model.objective_.shape == (model.n_iter_,)
    assert isinstance(model.converged_, bool)
    assert isinstance(model.n_iter_, int)
    assert model.n_features_in_ == 56
    assert model.sample_shape_ == (8, 7)
