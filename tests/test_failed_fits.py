"""A fit that fails leaves tasks and baselines as they were; the first one leaves nothing."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from corrtensor import CorrTensor
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor.baselines import L1TwoDPCA, TwoDNPP
from corrtensor.losses import Power
from corrtensor.subspace import MultilinearSubspace
from corrtensor.tasks import (
    CorrentropyCenterClassifier,
    DensityPeaksKMeans,
    SubspaceClassifier,
    TensorOutlierDetector,
)

Y = np.arange(60) % 3

MODELS = {
    "centers": CorrentropyCenterClassifier(CorrTensor((3, 2))),
    "scaled centers": CorrentropyCenterClassifier(CorrTensor((3, 2)), normalize=True),
    "subspaces": SubspaceClassifier(),
    "clusters": DensityPeaksKMeans(2, n_init=0, random_state=0),
    "clusters of cores": DensityPeaksKMeans(2, subspace=CorrTensor((3, 2)), random_state=0),
    "outliers": TensorOutlierDetector(CorrTensor((3, 2))),
    "L1-2DPCA": L1TwoDPCA(2),
    "N-2DNPP": TwoDNPP(2),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


def with_infinity(X):
    X = X.copy()
    X[3, 0, 0] = np.inf
    return X


BAD_SAMPLES = {
    # Other classes, another shape, another number of features: all of it seen before the failure.
    "infinity": lambda X: with_infinity(X[:, :5, :4]),
    "one sample": lambda X: X[:1, :5],
    "complex": lambda X: X[:, :5] * 1j,
    "empty": lambda X: X[:, :0],
}


def state(model):
    return pickle.dumps(dict(sorted(vars(model).items())))


def ask(model, X):
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)


@every_model
@pytest.mark.parametrize("spoil", BAD_SAMPLES.values(), ids=BAD_SAMPLES.keys())
def test_failed_fit_leaves_the_fitted_model_as_it_was(images, model, spoil):
    model = clone(model).fit(images, Y)
    alone, answer = copy.deepcopy(model), ask(model, images)
    bad = spoil(images)
    with pytest.raises(ValueError):
        model.fit(bad, Y[: len(bad)] % 2)
    assert state(model) == state(alone)
    assert_array_equal(ask(model, images), answer)


@every_model
def test_failed_first_fit_leaves_nothing_behind(images, model):
    model = clone(model)
    before = dict(vars(model))
    with pytest.raises(ValueError):
        model.fit(with_infinity(images), Y)
    assert vars(model) == before


class Interrupted(Power):
    def value(self, s):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "task",
    [
        CorrentropyCenterClassifier,
        SubspaceClassifier,
        TensorOutlierDetector,
        lambda subspace: DensityPeaksKMeans(2, subspace=subspace, random_state=0),
    ],
)
def test_interrupted_fit_leaves_the_fitted_model_as_it_was(images, task):
    model = task(MultilinearSubspace(2)).fit(images, Y)
    answer = model.predict(images)
    model.set_params(subspace=MultilinearSubspace(2, loss=Interrupted(1.0)))
    before = state(model)
    with pytest.raises(KeyboardInterrupt):
        model.fit(images[:, :5, :4], Y % 2)
    assert state(model) == before
    assert_array_equal(model.predict(images), answer)


def test_names_of_a_table_come_back(images):
    table = pd.DataFrame(images.reshape(60, -1)).add_prefix("pixel ")
    model = SubspaceClassifier().fit(table, Y)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(with_infinity(images), Y)
    assert list(model.feature_names_in_) == list(table.columns)
    assert model.sample_shape_ == (56,)


def test_what_succeeds_is_kept():
    model = type("Estimator", (), {})()
    model.old = 1
    with unchanged_on_error(model):
        model.new = 2
        del model.old
    assert vars(model) == {"new": 2}


def test_a_loss_that_leaves_nobody_any_weight():
    class Hopeless(Power):
        def log_weight(self, s):
            return np.full(len(s), -np.inf)

    X = np.random.default_rng(0).normal(size=(20, 5, 4))
    with pytest.raises(ValueError, match="no sample any weight"):
        MultilinearSubspace((2, 2), loss=Hopeless(2.0)).fit(X)
