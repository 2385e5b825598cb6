"""Tables in, tables out: names of features, tags, and what a table cannot hold."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.utils import get_tags

from corrtensor import CorrTensor
from corrtensor.baselines import L1TwoDPCA, TwoDNPP
from corrtensor.subspace import MultilinearSubspace
from corrtensor.tasks import CorrentropyCenterClassifier, DensityPeaksKMeans, SubspaceClassifier

Y = np.arange(60) % 3
TRANSFORMERS = [CorrTensor((3, 2)), MultilinearSubspace((3, 2)), L1TwoDPCA(2), TwoDNPP(2)]
every_transformer = pytest.mark.parametrize("model", TRANSFORMERS, ids=lambda m: type(m).__name__)


@pytest.fixture
def table(clean_images):
    return pd.DataFrame(clean_images.reshape(60, -1)).add_prefix("pixel ")


class OnDisk:
    """The least that an array on disk can do."""

    def __init__(self, X):
        self.X, self.shape, self.dtype = X, X.shape, X.dtype

    def __getitem__(self, key):
        return self.X[key]


@pytest.mark.parametrize("normalize", [False, True])
def test_classifier_keeps_the_names(table, normalize):
    subspace = CorrTensor((3, 2), sample_shape=(8, 7))
    model = CorrentropyCenterClassifier(subspace, normalize=normalize).fit(table, Y)
    assert_array_equal(model.feature_names_in_, table.columns)
    assert model.n_features_in_ == 56
    model.predict(table)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[table.columns[::-1]])
    model.fit(table.to_numpy(), Y)
    assert not hasattr(model, "feature_names_in_")


def test_scaling_names_the_sample_that_is_no_number(clean_images):
    clean_images[17, 2, 2] = np.inf
    with pytest.raises(ValueError, match="the first is sample 17"):
        CorrentropyCenterClassifier(normalize=True).fit(clean_images, Y)


@pytest.mark.parametrize("model", [SubspaceClassifier(), DensityPeaksKMeans(2)])
def test_tasks_without_a_subspace_name_the_sample_too(clean_images, table, model):
    model = clone(model).fit(clean_images, Y)
    clean_images[17, 2, 2] = np.inf
    for call in (lambda: model.predict(clean_images), lambda: model.fit(clean_images, Y)):
        with pytest.raises(ValueError, match="the first is sample 17"):
            call()


@every_transformer
def test_a_fit_on_disk_forgets_the_names_of_a_table(table, clean_images, model):
    model = clone(model).set_params(sample_shape=(8, 7)).fit(table)
    assert hasattr(model, "feature_names_in_")
    model.fit(OnDisk(clean_images))
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 56


@every_transformer
@pytest.mark.parametrize("shape", [(10, 0, 5), (10, 5, 0), (0, 5, 4)])
def test_an_empty_axis_is_the_same_error_on_disk(model, shape):
    with pytest.raises(ValueError) as told:
        clone(model).fit(OnDisk(np.empty(shape)))
    assert str(told.value) == f"X of shape {shape} has an empty axis"
    if shape[0]:
        with pytest.raises(ValueError) as in_memory:
            clone(model).fit(np.empty(shape))
        assert str(in_memory.value) == str(told.value)


@every_transformer
def test_tensors_become_tables_where_these_are_wanted(clean_images, model):
    plain = clone(model).fit(clean_images)
    cores = plain.transform(clean_images)
    assert isinstance(cores, np.ndarray)
    model = clone(model).set_output(transform="pandas")
    tables = [model.fit_transform(clean_images)]
    with config_context(transform_output="pandas"):
        for X in (clean_images, clean_images.tolist(), clean_images.reshape(60, -1)):
            tables.append(plain.transform(X))
    for table in tables:
        assert list(table.columns) == list(plain.get_feature_names_out())
        assert_allclose(table.to_numpy(), cores.reshape(60, -1), atol=1e-12)


def test_tasks_work_where_tables_are_wanted(clean_images):
    expected = CorrentropyCenterClassifier().fit(clean_images, Y).predict(clean_images)
    with config_context(transform_output="pandas"):
        model = CorrentropyCenterClassifier().fit(clean_images, Y)
        assert_array_equal(model.predict(clean_images), expected)


@every_transformer
def test_single_precision_is_kept_and_the_tag_says_so(clean_images, model):
    assert get_tags(model).transformer_tags.preserves_dtype == ["float64", "float32"]
    for dtype in (np.float32, np.float64):
        X = clean_images.astype(dtype)
        assert clone(model).fit(X).transform(X).dtype == dtype


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.date_range("2020", periods=40), "datetime64"),
        (pd.to_timedelta(range(40), "D"), "timedelta64"),
        (pd.Categorical(["a", "b"] * 20), "category"),
        (["a", "b"] * 20, "object|str"),
        ([None, "b"] * 20, "object|str"),
    ],
)
def test_columns_that_are_no_numbers_are_named(column, told):
    numbers = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 6))).add_prefix("x")
    with pytest.raises(ValueError, match=rf"columns 'what' \(({told}).*are none") as caught:
        CorrTensor(2).fit(numbers.assign(what=column))
    assert "None" not in str(caught.value)
    CorrTensor(2).fit(numbers.assign(what=pd.Categorical([1, 2] * 20)))
    CorrTensor(2).fit(numbers.astype({"x1": object, "x2": "Float64"}))
