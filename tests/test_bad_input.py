"""Bad input: a clear error that names the value and the shape it met."""

import math
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from corrtensor import CorrTensor, MultilinearSubspace, find_duplicates
from corrtensor.losses import Power
from corrtensor.methods import METHODS, make

ESTIMATORS = (CorrTensor, MultilinearSubspace)


def spoil(X, value, sample=17):
    X = X.copy()
    X[sample].flat[5] = value
    return X


@pytest.mark.parametrize("value", [math.inf, -math.inf])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_not_finite(make_samples, order, value, block_size, dtype):
    X = make_samples(order).astype(dtype)
    model = CorrTensor(2, block_size=block_size)
    message = r"(NaN|infinity).*sample 17"
    with pytest.raises(ValueError, match=message):
        model.fit(spoil(X, value))
    model.fit(X)
    with pytest.raises(ValueError, match=message):
        model.transform(spoil(X, value))
    with pytest.raises(ValueError, match=message):
        model.residuals(spoil(X, value))


@pytest.mark.parametrize("block_size", [None, 7])
@pytest.mark.parametrize("sample", [0, 101, 102, 200, 299])
def test_the_right_sample_is_named(make_samples, sample, block_size):
    """Of many samples, whether it is met in the first look at the data or in a later block."""
    X = make_samples(2, n=300)
    model = CorrTensor(2, block_size=block_size)
    message = rf"infinity.*sample {sample}\b"
    with pytest.raises(ValueError, match=message):
        model.fit(spoil(X, math.inf, sample))
    model.fit(X)
    with pytest.raises(ValueError, match=message):
        model.transform(spoil(X, math.inf, sample))
    with pytest.raises(ValueError, match=message):
        model.residuals(spoil(X, math.inf, sample))


def test_not_finite_far_from_zero(images):
    """Infinities of both signs where the origin is shifted."""
    X = spoil(spoil(images + 1e5, math.inf), -math.inf, sample=30)
    with pytest.raises(ValueError, match=r"infinity.*sample 17"):
        CorrTensor(2).fit(X)


def test_every_pixel_not_finite(images):
    with pytest.raises(ValueError, match="NaN"):
        CorrTensor(2).fit(np.full_like(images, math.nan))


def test_core_not_finite(images):
    model = CorrTensor(2).fit(images)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        model.inverse_transform(np.full((3, 2, 2), math.nan))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda X: X + 1j, "[Cc]omplex"),
        (lambda X: X.astype(str), "strings|<U"),
        (lambda X: np.where(X > 0, "big", "small"), "strings|<U"),
        (lambda X: np.where(X > 0, None, "big").astype(object), "object|NoneType|'big'"),
        (lambda X: X.astype(int).astype("datetime64[D]"), "datetime64"),
    ],
    ids=["complex", "digits as text", "text", "object", "dates"],
)
def test_not_numbers(make_samples, order, convert, message):
    X = make_samples(order)
    with pytest.raises((ValueError, TypeError), match=message):
        CorrTensor(2).fit(convert(X))
    model = CorrTensor(2).fit(X)
    with pytest.raises((ValueError, TypeError), match=message):
        model.transform(convert(X))


def test_sparse_samples(make_samples):
    from scipy.sparse import csr_array

    with pytest.raises(TypeError, match=r"[Ss]parse"):
        CorrTensor(2).fit(csr_array(make_samples(1)))


@pytest.mark.parametrize("shape", [(0, 8), (0, 8, 7), (0, 6, 5, 4)])
def test_no_samples(shape):
    with pytest.raises(ValueError, match=re.escape(str(shape))):
        CorrTensor(2).fit(np.empty(shape))


@pytest.mark.parametrize("shape", [(5, 0), (5, 8, 0), (5, 0, 7)])
def test_empty_mode(shape):
    with pytest.raises(ValueError, match=re.escape(str(shape))):
        CorrTensor(2).fit(np.empty(shape))


@pytest.mark.parametrize("shape", [(), (5,)])
def test_too_few_axes(shape):
    with pytest.raises(ValueError, match=r"2D array|axis 0"):
        CorrTensor(2).fit(np.ones(shape))


def test_ragged_samples():
    with pytest.raises(ValueError, match=r"inhomogeneous|shape"):
        CorrTensor(2).fit([[[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0]]])


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("shape", [(1, 9), (1, 8, 7), (1, 6, 5, 4)])
def test_one_sample(estimator, shape):
    X = np.random.default_rng(0).normal(size=shape)
    with pytest.raises(ValueError, match=r"(n_samples=1|1 sample)"):
        estimator(2).fit(X)


@pytest.mark.parametrize("ranks", [2, 0.95])
@pytest.mark.parametrize("shape", [(9,), (8, 7), (6, 5, 4)])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_identical_samples(estimator, shape, ranks):
    X = np.repeat(np.random.default_rng(0).normal(size=(1, *shape)), 12, axis=0)
    with pytest.raises(ValueError, match=r"(identical|same|equal|no variation)") as error:
        estimator(ranks).fit(X)
    assert re.search(r"12|" + re.escape(str(shape)), str(error.value))


def test_all_zero_samples():
    with pytest.raises(ValueError, match=r"(identical|same|equal|no variation|zero)"):
        CorrTensor(2).fit(np.zeros((12, 8, 7)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ((3, 9), "mode 2 of the samples has only 7 entries"),
        ((9, 3), "mode 1 of the samples has only 8 entries"),
        (8, "mode 2 of the samples has only 7 entries"),
        (0, "0"),
        ((3, 0), "at least 1, not 0"),
        ((-2, 3), "at least 1, not -2"),
        (-1, "-1"),
        ((3, 2, 2), "3 entries; the samples have 2 modes, their shape is (8, 7)"),
        ((3,), "1 entries; the samples have 2 modes, their shape is (8, 7)"),
        ((), "0 entries; the samples have 2 modes, their shape is (8, 7)"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        ((0.5, 1.5), "1.5"),
        ((0.5, -0.5), "-0.5"),
        (math.nan, "nan"),
        (math.inf, "inf"),
        ((None, None), "None"),
        (None, "None"),
    ],
)
def test_ranks_of_the_wrong_size(images, estimator, ranks, told):
    with pytest.raises(ValueError) as error:
        estimator(ranks).fit(images)
    assert told in str(error.value)
    assert f"ranks={ranks!r}" in str(error.value)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("ranks", [True, (3, False), "3", ("3", 2), 3j, {3, 2}, object(), (3, [2])])
def test_ranks_of_the_wrong_kind(images, estimator, ranks):
    with pytest.raises(TypeError) as error:
        estimator(ranks).fit(images)
    assert f"ranks={ranks!r}" in str(error.value)


@pytest.mark.parametrize("name", ["alpha", "beta", "p"])
@pytest.mark.parametrize("value", [0, 0.0, -1, -0.5, math.nan, math.inf])
def test_loss_parameters_out_of_range(images, name, value):
    with pytest.raises(ValueError, match=f"{name}={value}"):
        CorrTensor(2, **{name: value}).fit(images)


@pytest.mark.parametrize("name", ["alpha", "beta", "p"])
@pytest.mark.parametrize("value", ["wide", None, True, [2.0], 1j])
def test_loss_parameters_of_the_wrong_kind(images, name, value):
    with pytest.raises(TypeError) as error:
        CorrTensor(2, **{name: value}).fit(images)
    assert f"{name}={value!r}" in str(error.value)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"scale": "mad"}, "scale='mad'"),
        ({"scale": 0.0}, "scale=0.0"),
        ({"scale": math.nan}, "scale=nan"),
        ({"breakdown": "half"}, "breakdown='half'"),
        ({"breakdown": None}, "breakdown=None"),
        ({"breakdown": True}, "breakdown=True"),
        ({"breakdown": -0.1}, "breakdown=-0.1"),
        ({"breakdown": 0.6}, "breakdown=0.6"),
        ({"breakdown": math.nan}, "breakdown=nan"),
        ({"init": "random"}, "init='random'"),
        ({"init": None}, "init=None"),
        ({"center": "median"}, "center='median'"),
        ({"center": True}, "center=True"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"max_iter": -3}, "max_iter=-3"),
        ({"max_iter": 2.5}, "max_iter=2.5"),
        ({"max_iter": "many"}, "max_iter='many'"),
        ({"tol": -1e-3}, "tol=-0.001"),
        ({"tol": math.nan}, "tol=nan"),
        ({"tol": "tight"}, "tol='tight'"),
        ({"tol": None}, "tol=None"),
        ({"block_size": 0}, "block_size=0"),
        ({"block_size": -5}, "block_size=-5"),
        ({"block_size": 2.5}, "block_size=2.5"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"order": 3}, "order 3"),
    ],
)
def test_other_parameters(images, parameters, told):
    with pytest.raises((ValueError, TypeError)) as error:
        CorrTensor(2, **parameters).fit(images)
    assert told in str(error.value)


@pytest.mark.parametrize("loss", ["huber", 2.0, Power])
def test_loss_that_is_no_loss(images, loss):
    with pytest.raises(TypeError, match="loss="):
        MultilinearSubspace(2, loss=loss).fit(images)


@pytest.mark.parametrize(
    "sample_shape", [(8, 8), (56, 2), (-1, 9), (-1, -1), (0, 7), (8, -7), (55,), (2, 2, 2)]
)
def test_sample_shape_that_does_not_multiply_up(images, sample_shape):
    with pytest.raises(ValueError) as error:
        CorrTensor(1, sample_shape=sample_shape).fit(images.reshape(60, 56))
    assert str(sample_shape) in str(error.value)
    assert "56" in str(error.value)


@pytest.mark.parametrize("sample_shape", ["8x7", (8, None), (8, 7.5), (8.0, "7")])
def test_sample_shape_of_the_wrong_kind(images, sample_shape):
    with pytest.raises((TypeError, ValueError)) as error:
        CorrTensor(1, sample_shape=sample_shape).fit(images.reshape(60, 56))
    assert f"sample_shape={sample_shape!r}" in str(error.value)


def test_sample_shape_against_unflattened_samples(images):
    with pytest.raises(ValueError) as error:
        CorrTensor(2, sample_shape=(7, 8)).fit(images)
    assert "(7, 8)" in str(error.value)
    assert "(8, 7)" in str(error.value)


@pytest.mark.parametrize("method", ["transform", "residuals"])
@pytest.mark.parametrize("shape", [(3, 7, 8), (3, 8, 6), (3, 8, 7, 1), (3, 55), (8, 7), (3, 1, 56)])
def test_samples_of_another_shape(images, method, shape):
    model = CorrTensor(2).fit(images)
    with pytest.raises(ValueError) as error:
        getattr(model, method)(np.ones(shape))
    met = str(shape[1:]) if len(shape) > 2 else str(shape[1])
    assert met in str(error.value)
    assert "(8, 7)" in str(error.value) or "56" in str(error.value)


@pytest.mark.parametrize("shape", [(3, 2, 3), (3, 8, 7), (3, 5), (2, 2, 2, 2), (4,)])
def test_cores_of_another_shape(images, shape):
    model = CorrTensor(2).fit(images)
    with pytest.raises(ValueError) as error:
        model.inverse_transform(np.ones(shape))
    if len(shape) > 1:
        assert "(2, 2)" in str(error.value)
        assert str(shape) in str(error.value)


@pytest.mark.parametrize("method", ["transform", "residuals", "inverse_transform"])
@pytest.mark.parametrize("name", [n for n in METHODS if "NPP" not in n and "L1" not in n])
def test_use_before_fit(images, name, method):
    model = make(name, ranks=2)
    with pytest.raises(NotFittedError, match=type(model).__name__):
        getattr(model, method)(images)


def test_names_before_fit():
    with pytest.raises(NotFittedError):
        CorrTensor(2).get_feature_names_out()


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        (np.ones(59), r"\(59,\)"),
        (np.ones((60, 2)), r"\(60, 2\)|1D"),
        (np.full(60, math.nan), "NaN"),
        (-np.ones(60), "[Nn]egative"),
        (np.zeros(60), "two samples|zero"),
        (np.eye(60)[3], "two samples"),
        (["a"] * 60, "sample_weight must be numeric.*not a"),
        ("balanced", "sample_weight must be numeric.*not balanced"),
        (np.ones((60, 8, 7)), r"sample_weight has the shape \(60, 8, 7\): .* 60 samples"),
    ],
)
def test_sample_weight(images, weight, told):
    with pytest.raises(ValueError, match=told):
        CorrTensor(2).fit(images, sample_weight=weight)


def test_sample_weight_that_leaves_identical_samples(images):
    X = np.repeat(images[:1], 12, axis=0)
    X[3] = images[5]
    weight = np.ones(12)
    weight[3] = 0
    with pytest.raises(ValueError, match=r"(identical|same|equal|no variation)"):
        CorrTensor(1).fit(X, sample_weight=weight)


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.settings.get("order") == 2])
def test_methods_of_matrices_refuse_other_orders(make_samples, name):
    model = make(name, ranks=2)
    for order, shape in ((1, r"\(12,\)"), (3, r"\(6, 5, 4\)")):
        with pytest.raises(ValueError, match=shape):
            model.fit(make_samples(order))


@pytest.mark.parametrize("ranks", [(2, 2), (2, None), (None, None, 2), ()])
def test_one_sided_methods_take_one_rank(ranks):
    with pytest.raises(ValueError, match="2DPCA") as error:
        make("2DPCA", ranks=ranks)
    assert f"ranks={ranks!r}" in str(error.value)


@pytest.mark.parametrize("name", ["corr tensor", "", None, 3])
def test_unknown_method(name):
    with pytest.raises(ValueError, match="Corr-Tensor") as error:
        make(name)
    assert repr(name) in str(error.value)


def test_samples_too_large_to_square(images):
    """One sample at 1e200 beside the others at 1: squares overflow, and the error says whose."""
    X = images.copy()
    X[17] *= 1e200
    with pytest.raises(ValueError, match="sample 17"):
        CorrTensor(2).fit(X)


def test_no_cores(images):
    model = CorrTensor((3, 2)).fit(images)
    with pytest.raises(ValueError, match="0 sample"):
        model.inverse_transform(np.zeros((0, 3, 2)))


def test_one_sample_is_no_stack():
    X = np.random.default_rng(0).normal(size=(40, 6, 5))
    model = CorrTensor((2, 2)).fit(X)
    with pytest.raises(ValueError, match=r"X of shape \(6, 5\) is one sample.*X\[None\]"):
        model.transform(X[0])
    assert model.transform(X[0][None]).shape == (1, 2, 2)


@pytest.mark.parametrize("n_jobs", ["2", 2.5])
def test_threads_are_counted(n_jobs):
    with pytest.raises(TypeError, match=f"n_jobs={n_jobs!r} must be a whole number"):
        CorrTensor((2, 2), n_jobs=n_jobs).fit(np.random.default_rng(0).normal(size=(40, 6, 5)))


def test_an_init_of_nan_is_named():
    X = np.random.default_rng(0).normal(size=(40, 6, 5))
    factors = (np.eye(6)[:, :2], np.eye(5)[:, :2])
    with pytest.raises(ValueError, match="init holds NaN"):
        CorrTensor((2, 2), init=(np.full((6, 5), np.nan), factors)).fit(X)


def test_no_samples_have_no_duplicates():
    with pytest.raises(ValueError, match="empty axis"):
        find_duplicates(np.empty((0, 6, 5)))


def test_none_is_no_number():
    with pytest.raises(ValueError, match="NaN, not None"):
        CorrTensor(2).fit([[1.0, None], [3.0, 4.0]])


def test_the_order_of_bytes_does_not_matter():
    X = np.random.default_rng(0).normal(size=(40, 6, 5)).astype(np.float32)
    native, swapped = (CorrTensor((2, 2)).fit(x) for x in (X, X.astype(">f4")))
    assert native.factors_[0].dtype == swapped.factors_[0].dtype
    assert_array_equal(native.transform(X), swapped.transform(X.astype(">f4")))


@pytest.mark.parametrize("init", [(1, 2), ("2dsvd", "2dsvd"), (None, 3)])
def test_what_is_no_start_is_named(init, clean_images):
    with pytest.raises(ValueError, match=r"init=.*use '2dsvd' or \(mean, factors\)"):
        CorrTensor((2, 2), init=init).fit(clean_images)


def test_pictures_given_to_a_method_of_vectors(clean_images):
    with pytest.raises(ValueError, match=r"order 1 are needed.*X.reshape\(len\(X\), -1\)"):
        make("PCA", 3).fit(clean_images)


def test_a_bandwidth_that_no_cell_keeps(clean_images):
    """However absurd: an answer or an error in words."""
    model = CorrTensor((2, 2), cells=1e-9).fit(clean_images)
    assert np.isfinite(model.mean_).all()
