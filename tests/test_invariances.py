"""What must not change the answer, what must change with it, and what always holds."""

import copy
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from corrtensor import CorrTensor, MultilinearSubspace
from corrtensor.losses import Power

ORDERS = (1, 2, 3, 4)
LOSSES = ((0.5, 2.0), (1.0, 2.0), (2.0, 2.0), (4.0, 2.0), (7.0, 3.0), (50.0, 20.0), (0.5, 20.0))


def projectors(model):
    return [None if U is None else U @ U.T for U in model.factors_]


def assert_same_fit(model, other, *, atol=1e-8, rtol=1e-8, scale=1.0):
    """Factors as projectors, weights, residuals and mean of two fits of the same samples."""
    for P, Q in zip(projectors(model), projectors(other), strict=True):
        assert_allclose(P, Q, rtol=0, atol=atol)
    assert_allclose(model.weights_, other.weights_, rtol=0, atol=atol)
    assert_allclose(model.residuals_ / scale / scale, other.residuals_, rtol=rtol)
    assert_allclose(model.mean_ / scale, other.mean_, rtol=0, atol=atol)


def to_the_end(model, X):
    """Sweep until the digits are used up; the warning of sweeps cut short is expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(tol=0.0, max_iter=300).fit(X)


def turn(X, Q, mode):
    return np.moveaxis(np.tensordot(X, Q, axes=(mode + 1, 1)), -1, mode + 1)


def rotation(size, seed):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))[0]


@pytest.mark.parametrize(("order", "mode"), [(d, n) for d in ORDERS for n in range(d)])
def test_rotation_in_one_mode(make_samples, ranks_of, order, mode):
    X = make_samples(order)
    Q = rotation(X.shape[mode + 1], seed=mode)
    model = CorrTensor(ranks_of[order]).fit(X)
    turned = CorrTensor(ranks_of[order]).fit(turn(X, Q, mode))
    assert_allclose(turned.weights_, model.weights_, rtol=0, atol=1e-8)
    assert_allclose(turned.residuals_, model.residuals_, rtol=1e-8)
    assert_allclose(turned.mean_[None], turn(model.mean_[None], Q, mode), atol=1e-8)
    for n, (P, R) in enumerate(zip(projectors(model), projectors(turned), strict=True)):
        assert_allclose(R, Q @ P @ Q.T if n == mode else P, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("alpha", "p"), LOSSES)
def test_rotation_with_any_loss(images, alpha, p):
    Q, R = rotation(8, seed=1), rotation(7, seed=2)
    model = CorrTensor((3, 2), alpha=alpha, p=p).fit(images)
    turned = CorrTensor((3, 2), alpha=alpha, p=p).fit(Q @ images @ R.T)
    assert_allclose(turned.weights_, model.weights_, rtol=0, atol=1e-8)
    assert_allclose(turned.residuals_, model.residuals_, rtol=1e-8)


@pytest.mark.parametrize("scale", ["auto", "median"])
@pytest.mark.parametrize("order", ORDERS)
def test_order_of_the_samples(make_samples, ranks_of, order, scale):
    X = make_samples(order)
    shuffled = np.random.default_rng(3).permutation(len(X))
    model = CorrTensor(ranks_of[order], scale=scale).fit(X)
    other = CorrTensor(ranks_of[order], scale=scale).fit(X[shuffled])
    assert_allclose(other.weights_, model.weights_[shuffled], rtol=0, atol=1e-10)
    assert_allclose(other.residuals_, model.residuals_[shuffled], rtol=1e-10)
    for P, R in zip(projectors(model), projectors(other), strict=True):
        assert_allclose(P, R, rtol=0, atol=1e-10)


def graded(make_samples, n):
    """Samples whose noise grows step by step: many weights lie between nought and one."""
    X = make_samples(2, n=n, n_bad=0, noise=0)
    noise = np.random.default_rng(9).normal(size=X.shape)
    return X + np.geomspace(0.02, 0.5, n)[:, None, None] * noise


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_order_of_many_samples(make_samples):
    """So many that the search looks at some of them only."""
    X = graded(make_samples, n=1500)
    shuffled = np.random.default_rng(3).permutation(len(X))
    model, other = CorrTensor((3, 2)).fit(X), CorrTensor((3, 2)).fit(X[shuffled])
    assert_allclose(other.weights_, model.weights_[shuffled], rtol=0, atol=1e-8)
    assert_allclose(other.residuals_, model.residuals_[shuffled], rtol=1e-8)


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_order_of_samples_of_two_kinds(seed):
    """A close call: which of them count must not be decided by which come first."""
    rng = np.random.default_rng(seed)

    def kind(n):
        U, V = (np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in (12, 10))
        X = U @ rng.normal(size=(n, 3, 3)) @ V.T
        return X / X.std() + 0.3 * rng.normal(size=X.shape)

    X = np.concatenate([kind(280), kind(120) + 0.4 * rng.normal(size=(12, 10))])
    wanted = CorrTensor((3, 3)).fit(X).weights_ > 0.5
    for draw in range(6):
        shuffled = np.random.default_rng(draw).permutation(len(X))
        assert_array_equal(CorrTensor((3, 3)).fit(X[shuffled]).weights_ > 0.5, wanted[shuffled])


# Beyond 1e4 it is the samples that lose digits: 1e6 leaves them 1e-10.
@pytest.mark.parametrize(
    ("size", "tolerance"), [(1.0, 1e-8), (100.0, 1e-8), (1e4, 1e-8), (1e6, 1e-6)]
)
@pytest.mark.parametrize("order", ORDERS)
def test_shift_by_a_constant_image(make_samples, ranks_of, order, size, tolerance):
    X = make_samples(order)
    constant = size * np.random.default_rng(4).normal(size=X.shape[1:])
    model = CorrTensor(ranks_of[order]).fit(X)
    shifted = CorrTensor(ranks_of[order]).fit(X + constant)
    assert_allclose(shifted.weights_, model.weights_, rtol=0, atol=tolerance)
    assert_allclose(shifted.residuals_, model.residuals_, rtol=tolerance)
    assert_allclose(shifted.mean_, model.mean_ + constant, rtol=0, atol=tolerance)
    for P, R in zip(projectors(model), projectors(shifted), strict=True):
        assert_allclose(P, R, rtol=0, atol=tolerance)


@pytest.mark.parametrize("scale", [1e-150, 1e-80, 1e-30, 1e-3, 255.0, 1e30, 1e80, 1e150])
@pytest.mark.parametrize("order", ORDERS)
def test_scale(make_samples, ranks_of, order, scale):
    X = make_samples(order)
    model = CorrTensor(ranks_of[order]).fit(X * scale)
    assert_same_fit(model, CorrTensor(ranks_of[order]).fit(X), scale=scale)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize(("alpha", "p"), LOSSES)
def test_scale_with_any_loss(images, alpha, p, scale):
    model = CorrTensor((3, 2), alpha=alpha, p=p).fit(images * scale)
    assert np.all(np.isfinite(model.objective_))
    assert_same_fit(model, CorrTensor((3, 2), alpha=alpha, p=p).fit(images), scale=scale)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_scale_of_new_samples(images, scale):
    model, plain = CorrTensor((3, 2)).fit(images * scale), CorrTensor((3, 2)).fit(images)
    new = images[::-1] + 0.25
    assert_allclose(model.residuals(new * scale) / scale / scale, plain.residuals(new), rtol=1e-8)
    assert_allclose(model.transform(new * scale) / scale, plain.transform(new), atol=1e-8)


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "transposed": lambda X: np.ascontiguousarray(X.T).T,
    "every second": lambda X: np.repeat(X, 2, axis=0)[::2],
    "strided": lambda X: np.repeat(X, 3, axis=-1)[..., ::3],
    "backwards": lambda X: X[::-1].copy()[::-1],
    "list": lambda X: X.tolist(),
    "big-endian": lambda X: X.astype(">f8"),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("order", ORDERS)
def test_memory_layout(make_samples, ranks_of, order, layout):
    X = make_samples(order)
    model, other = CorrTensor(ranks_of[order]).fit(X), CorrTensor(ranks_of[order]).fit(layout(X))
    assert_same_fit(other, model, atol=1e-10, rtol=1e-10)
    assert_allclose(other.transform(layout(X)), model.transform(X), atol=1e-10)
    assert_allclose(model.residuals(layout(X)), model.residuals_, rtol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_flattened_samples(make_samples, ranks_of, order):
    X = make_samples(order)
    model = CorrTensor(ranks_of[order]).fit(X)
    flat = CorrTensor(ranks_of[order], sample_shape=X.shape[1:]).fit(X.reshape(len(X), -1))
    assert_same_fit(flat, model, atol=1e-12, rtol=1e-12)
    cores = flat.transform(X.reshape(len(X), -1))
    assert_allclose(cores, model.transform(X).reshape(len(X), -1), atol=1e-12)
    back = model.inverse_transform(model.transform(X)).reshape(len(X), -1)
    assert_allclose(flat.inverse_transform(cores), back, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_single_precision(make_samples, ranks_of, order):
    """Single precision carries 6e-8; products of a few dozen terms and the gap take the rest."""
    X = make_samples(order).astype(np.float32)
    single = CorrTensor(ranks_of[order]).fit(X)
    double = CorrTensor(ranks_of[order]).fit(X.astype(np.float64))
    assert_same_fit(single, double, atol=1e-4, rtol=1e-3)
    assert single.transform(X).dtype == np.float32
    assert double.transform(X.astype(np.float64)).dtype == np.float64


def test_single_precision_far_from_zero(images):
    """The samples keep 4 digits of their variation; the arithmetic must not take those too."""
    X = (images + 1000).astype(np.float32)
    single = CorrTensor((3, 2)).fit(X)
    assert_same_fit(single, CorrTensor((3, 2)).fit(X.astype(np.float64)), atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.int32, np.int64])
def test_integers_are_numbers(images, dtype):
    X = np.clip(np.round(30 * images + 60), 0, 127).astype(dtype)
    model, double = CorrTensor((3, 2)).fit(X), CorrTensor((3, 2)).fit(X.astype(np.float64))
    assert_same_fit(model, double, atol=1e-12, rtol=1e-12)
    assert_allclose(model.transform(X), double.transform(X.astype(float)), atol=1e-12)
    assert_allclose(model.residuals(X), model.residuals_, rtol=1e-9)


def test_large_unsigned_integers_do_not_wrap():
    X = np.random.default_rng(0).integers(65000, 65535, size=(40, 6, 5)).astype(np.uint16)
    assert_same_fit(
        CorrTensor(2).fit(X), CorrTensor(2).fit(X.astype(float)), atol=1e-12, rtol=1e-12
    )


def test_booleans_are_zeros_and_ones(images):
    X = images > 0.1
    model = CorrTensor((3, 2)).fit(X)
    assert_same_fit(model, CorrTensor((3, 2)).fit(X.astype(float)), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_block_size(make_samples, ranks_of, order):
    X = make_samples(order, n=150, n_bad=15)
    model = CorrTensor(ranks_of[order]).fit(X)
    # Blocks of one sample go the longest way: order 2 stands for the others there.
    for block_size in (1, 7, 64, 1000) if order == 2 else (7, 64, 1000):
        other = CorrTensor(ranks_of[order], block_size=block_size).fit(X)
        assert_same_fit(other, model, atol=1e-10, rtol=1e-10)
        assert_allclose(other.transform(X), model.transform(X), atol=1e-10)
        assert_allclose(other.residuals(X), model.residuals(X), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ORDERS)
def test_threads_change_no_bit(make_samples, ranks_of, order, dtype):
    X = make_samples(order, n=200, n_bad=20).astype(dtype)
    one, *others = (CorrTensor(ranks_of[order], block_size=10, n_jobs=n).fit(X) for n in (1, 2, 3))
    for other in others:
        assert all(np.array_equal(U, V) for U, V in zip(one.factors_, other.factors_, strict=True))
        for name in ("mean_", "weights_", "residuals_", "objective_"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert np.array_equal(one.transform(X), other.transform(X))
        assert np.array_equal(one.residuals(X), other.residuals(X))


def test_threads_change_no_bit_at_the_default_block_size():
    X = np.random.default_rng(0).normal(size=(6000, 12, 10))
    one, two = (CorrTensor((3, 3), n_jobs=n).fit(X) for n in (1, 2))
    assert np.array_equal(one.factors_[0], two.factors_[0])
    assert np.array_equal(one.weights_, two.weights_)


@pytest.mark.parametrize("loss", [None, Power(1), "correntropy"], ids=str)
def test_sample_weight_is_repetition(images, loss):
    counts = np.random.default_rng(6).integers(1, 4, size=len(images))
    kwargs = {"ranks": (3, 2), "tol": 1e-12}
    if loss == "correntropy":
        model = CorrTensor(**kwargs)
    else:
        model = MultilinearSubspace(loss=loss, **kwargs)
    repeated = copy.deepcopy(model).fit(np.repeat(images, counts, axis=0))
    weighted = model.fit(images, sample_weight=counts)
    for P, R in zip(projectors(weighted), projectors(repeated), strict=True):
        assert_allclose(P, R, rtol=0, atol=1e-8)
    assert_allclose(weighted.mean_, repeated.mean_, atol=1e-8)
    assert_allclose(np.repeat(weighted.weights_, counts), repeated.weights_, rtol=0, atol=1e-8)
    assert_allclose(weighted.objective_[-1], repeated.objective_[-1], rtol=1e-10)
    if loss == "correntropy":
        scores = np.repeat(weighted.outlier_scores_, counts)
        assert_allclose(scores, repeated.outlier_scores_, atol=1e-7)


@pytest.mark.parametrize("size", [1.0, 1e6])
def test_sample_weight_zero_is_removal(images, size):
    X = images.copy()
    X[5:15] *= size
    keep = np.ones(len(X), bool)
    keep[5:15] = False
    weighted = CorrTensor((3, 2), tol=1e-12).fit(X, sample_weight=keep.astype(float))
    removed = CorrTensor((3, 2), tol=1e-12).fit(X[keep])
    for P, R in zip(projectors(weighted), projectors(removed), strict=True):
        assert_allclose(P, R, rtol=0, atol=1e-8)
    kept = weighted.weights_[keep]
    assert_allclose(kept / kept.max(), removed.weights_, rtol=0, atol=1e-8)
    assert_allclose(weighted.residuals_[keep], removed.residuals_, rtol=1e-8)
    assert_allclose(weighted.residuals_, removed.residuals(X), rtol=1e-7)
    assert_allclose(weighted.outlier_scores_[keep], removed.outlier_scores_, atol=1e-7)


def test_a_sample_of_no_weight_widens_no_bandwidth(images):
    """Though it is so near that nothing else would leave it out."""
    images[20] += 0.1 * np.random.default_rng(0).normal(size=images.shape[1:])
    keep = np.arange(len(images)) != 20
    weighted = CorrTensor((3, 2)).fit(images, sample_weight=keep)
    removed = CorrTensor((3, 2)).fit(images[keep])
    assert_allclose(weighted.loss_.unit, removed.loss_.unit, rtol=1e-8)


def test_sample_weights_count_up_to_a_factor(images):
    weight = np.random.default_rng(7).random(len(images)) + 0.1
    model = CorrTensor((3, 2)).fit(images, sample_weight=weight)
    other = CorrTensor((3, 2)).fit(images, sample_weight=1e3 * weight)
    assert_same_fit(other, model, atol=1e-10, rtol=1e-10)
    equal = CorrTensor((3, 2)).fit(images, sample_weight=np.full(len(images), 0.3))
    assert_same_fit(equal, CorrTensor((3, 2)).fit(images), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
def test_wide_bandwidth_is_least_squares(make_samples, ranks_of, order):
    """Without outliers: with them, the two may converge to different places."""
    X = make_samples(order, n_bad=0)
    plain = to_the_end(MultilinearSubspace(ranks_of[order]), X)
    for alpha, scale in ((2.0, "auto"), (6.0, "median")):
        robust = to_the_end(CorrTensor(ranks_of[order], alpha=alpha, beta=1e6, scale=scale), X)
        assert_same_fit(robust, plain)


@pytest.mark.parametrize(("alpha", "p"), [(1.0, 2.0), (2.0, 1.0), (0.5, 4.0)])
def test_wide_bandwidth_is_a_power(images, alpha, p):
    """1 - exp(-u) is u when u is small, so that the loss is s**(alpha * p / 4) there."""
    robust = to_the_end(CorrTensor((3, 2), alpha=alpha, p=p, beta=1e30, scale="median"), images)
    power = to_the_end(MultilinearSubspace((3, 2), loss=Power(alpha * p / 2)), images)
    assert_same_fit(robust, power)


@pytest.mark.parametrize("p", [0.3, 1.0, 2.0, 20.0])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 2.0, 3.0, 6.0, 50.0])
@pytest.mark.parametrize("order", ORDERS)
def test_objective_never_rises(make_samples, ranks_of, order, alpha, p):
    X = make_samples(order, n=40, n_bad=10)
    for beta in (0.5, 2.0):
        model = CorrTensor(ranks_of[order], alpha=alpha, beta=beta, p=p, max_iter=25, tol=1e-9)
        with warnings.catch_warnings():
            # sweeps cut short, and bandwidths that leave too few samples: both on purpose
            warnings.simplefilter("ignore", UserWarning)
            objective = model.fit(X).objective_
        assert np.all(np.isfinite(objective))
        assert len(objective) == model.n_iter_
        assert np.all(np.diff(objective) <= 1e-10 * np.abs(objective[:-1]))
        assert np.all(np.isfinite(model.weights_))
        assert model.weights_.max() == 1
        assert model.weights_.min() >= 0


def test_objective_is_the_loss_of_the_residuals(images):
    model = CorrTensor((3, 2), alpha=1.5, beta=1.2, p=2.5, scale=0.7).fit(images)
    u = (model.residuals_ / (1.2 * 0.7) ** 2) ** 0.75
    assert_allclose(model.objective_[-1], np.sum((1 - np.exp(-u)) ** 1.25), rtol=1e-8)


@pytest.mark.parametrize("order", ORDERS)
def test_factors_are_orthonormal_with_fixed_signs(make_samples, ranks_of, order):
    X = make_samples(order)
    model = CorrTensor(ranks_of[order]).fit(X)
    assert isinstance(model.factors_, tuple)
    for U, a, k in zip(model.factors_, X.shape[1:], ranks_of[order], strict=True):
        assert U.shape == (a, k)
        assert_allclose(U.T @ U, np.eye(k), rtol=0, atol=1e-10)
        largest = U[np.abs(U).argmax(axis=0), np.arange(k)]
        assert np.all(largest > 0)


@pytest.mark.parametrize("order", ORDERS)
def test_negated_samples_have_the_same_factors(make_samples, ranks_of, order):
    """Signs belong to the factors, not to the way the samples lead to them."""
    X = make_samples(order)
    model, negative = (CorrTensor(ranks_of[order]).fit(S) for S in (X, -X))
    for U, V in zip(model.factors_, negative.factors_, strict=True):
        assert_allclose(U, V, rtol=0, atol=1e-8)


def test_second_fit_is_the_same_bit_by_bit(images):
    model = CorrTensor((3, 2)).fit(images)
    factors, weights = model.factors_, model.weights_
    model.fit(images[:20, :4, :4])
    model.fit(images)
    assert all(np.array_equal(U, V) for U, V in zip(factors, model.factors_, strict=True))
    assert np.array_equal(weights, model.weights_)


@pytest.mark.parametrize("ranks", [None, "left whole"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("order", ORDERS)
def test_samples_are_left_alone(make_samples, ranks_of, order, dtype, ranks):
    X = np.clip(40 * make_samples(order) + 120, 0, 255).astype(dtype)
    k = ranks_of[order]
    if ranks == "left whole" and order > 1:
        k = (*k[:-1], None)
    before = X.copy()
    model = CorrTensor(k).fit(X)
    assert np.array_equal(X, before)
    cores = model.transform(X)
    kept = cores.copy()
    model.inverse_transform(cores)
    model.residuals(X)
    model.fit(X, sample_weight=np.arange(len(X)))
    assert np.array_equal(X, before)
    assert np.array_equal(cores, kept)
    X.setflags(write=False)
    model.fit(X).transform(X)


def kronecker(factors, shape):
    K = np.ones((1, 1))
    for U, a in zip(factors, shape, strict=True):
        K = np.kron(K, np.eye(a) if U is None else U)
    return K


@pytest.mark.parametrize("hole", [None, 0, -1])
@pytest.mark.parametrize("order", ORDERS)
def test_transform_is_the_kronecker_product(make_samples, ranks_of, order, hole):
    X = make_samples(order)
    ranks = list(ranks_of[order])
    if hole is not None and order > 1:
        ranks[hole] = None
    model = CorrTensor(ranks).fit(X)
    new = make_samples(order, n=9, seed=1)
    K = kronecker(model.factors_, X.shape[1:])
    flat = (new - model.mean_).reshape(9, -1)
    cores = model.transform(new)
    assert cores.shape == (9, *model.core_shape_)
    assert_allclose(cores.reshape(9, -1), flat @ K, atol=1e-12)
    back = model.inverse_transform(cores)
    assert back.shape == new.shape
    assert_allclose(back.reshape(9, -1), flat @ K @ K.T + model.mean_.ravel(), atol=1e-12)
    s = ((flat - flat @ K @ K.T) ** 2).sum(axis=1)
    assert_allclose(model.residuals(new), s, rtol=1e-9)
    assert_allclose(model.residuals(X), model.residuals_, rtol=1e-8)
    # reconstructions lie in the subspace: their cores are the same, and nothing is left over
    assert_allclose(model.transform(back), cores, atol=1e-12)
    assert_allclose(model.residuals(back), 0, atol=1e-24)


def test_fit_transform_is_fit_then_transform(images):
    cores = CorrTensor((3, 2)).fit_transform(images)
    assert_allclose(cores, CorrTensor((3, 2)).fit(images).transform(images), atol=1e-14)


def exact_residuals(X, model):
    """Residuals of a fitted model in extended precision, entry by entry."""
    wide = np.longdouble
    factors = [U.astype(wide) for U in model.factors_]
    s = []
    for x in X:
        d = near = x.astype(wide) - model.mean_.astype(wide)
        for n, U in enumerate(factors):
            near = np.moveaxis(np.tensordot(near, U @ U.T, axes=(n, 0)), -1, n)
        s.append(((d - near) ** 2).sum())
    return np.array(s).astype(float)


def test_small_variation_about_a_large_mean(make_samples):
    """Mean 1e6, variation 1e-3: the samples themselves are good to 1e-10."""
    X = 1e6 + 1e-3 * make_samples(2, noise=0.3)
    model = CorrTensor((3, 2)).fit(X)
    assert_allclose(model.residuals(X), exact_residuals(X, model), rtol=1e-6)
    assert_allclose(model.residuals_, exact_residuals(X, model), rtol=1e-5)
    # about the origin the same samples are exact: the subtraction is
    near = CorrTensor((3, 2)).fit(X - 1e6)
    assert_allclose(model.weights_, near.weights_, rtol=0, atol=1e-6)
    for P, R in zip(projectors(model), projectors(near), strict=True):
        assert_allclose(P, R, rtol=0, atol=1e-6)


def test_small_residuals_of_large_samples(make_samples):
    """Residuals of 1e-16 of the energy: a difference of norms would have no digit left."""
    X = 1e4 * make_samples(2, n_bad=0, noise=0)
    X += 1e-4 * np.random.default_rng(8).normal(size=X.shape)
    model = CorrTensor((3, 2)).fit(X)
    expected = exact_residuals(X, model)
    assert expected.max() < 1e-14 * np.square(X).sum(axis=(1, 2)).min()
    # entries of 1e4 in double precision are good to 1e-12, beside residuals of 1e-4
    assert_allclose(model.residuals(X), expected, rtol=1e-6)
    assert_allclose(model.residuals_, expected, rtol=1e-4)
    assert_allclose(expected, 1e-8 * (56 - 6), rtol=0.6)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_gross_outlier_costs_no_digits(make_samples, dtype, offset, size):
    """A sample of size 1e12 gets no weight; nor may it drown the others in rounding."""
    X = (make_samples(2, n_bad=0) + offset).astype(dtype)
    X[0] = size * np.random.default_rng(3).normal(size=(8, 7))
    model = CorrTensor((3, 2)).fit(X)
    assert model.weights_[0] < 1e-6
    good = MultilinearSubspace((3, 2)).fit(X[1:].astype(np.float64))
    ratio = model.residuals(X[1:].astype(np.float64)).mean() / good.residuals_.mean()
    # an offset of 1000 leaves single precision 6e-5, beside a noise of 0.05
    assert ratio == pytest.approx(1, abs=1e-6 if dtype == np.float64 else 1e-3)


def test_samples_inside_the_subspace(make_samples):
    """Exact samples, a few outliers: residuals at the level of rounding, weights still finite."""
    X = make_samples(2, noise=0, n_bad=6)
    for alpha, p in ((1.0, 2.0), (2.0, 2.0), (5.0, 2.0)):
        model = CorrTensor((3, 2), alpha=alpha, p=p).fit(X)
        assert np.all(np.isfinite(model.weights_))
        assert np.all(model.weights_[:6] < 1e-6)
        # outliers may tilt the subspace by no more than what they weigh
        assert_allclose(model.residuals(X[6:]), 0, atol=1e-12)


def test_full_rank_leaves_nothing(images):
    model = CorrTensor((8, 7)).fit(images)
    assert_allclose(model.inverse_transform(model.transform(images)), images, atol=1e-12)
    assert_allclose(model.residuals_, 0, atol=1e-24)
    assert np.all(np.isfinite(model.weights_))


@pytest.mark.parametrize(("n", "shape"), [(12, (300, 250)), (33, (64, 64)), (41, (40, 50))])
def test_a_fit_leaves_the_samples_alone(n, shape):
    """Once, some were overwritten by themselves times the root of their weight."""
    X = np.random.default_rng(5).normal(size=(n, *shape))
    kept = X.copy()
    MultilinearSubspace((3, 3), coupled=False).fit(X, sample_weight=np.linspace(0, 0.9, n))
    assert_array_equal(X, kept)
