import itertools
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from corrtensor.baselines import L1TwoDPCA, TwoDNPP
from corrtensor.baselines.neighbourhood import (
    descend,
    neighbour_errors,
    smooth_l21,
    smooth_nuclear,
)

DATA = Path(__file__).parents[2] / "shared" / "data" / "yale64.npz"
NORMS = ["nuclear", "l21"]
MODELS = [L1TwoDPCA(), TwoDNPP(), TwoDNPP(norm="l21")]


def name(model):
    return f"{type(model).__name__}-{getattr(model, 'norm', '')}".rstrip("-")


every_model = pytest.mark.parametrize("model", MODELS, ids=name)


@pytest.fixture
def images():
    """Sixty 7 x 6 matrices, correlated along both modes, and four wild ones."""
    rng = np.random.default_rng(5)
    rows, columns = rng.normal(size=(7, 7)), rng.normal(size=(6, 6))
    X = rows @ rng.normal(size=(60, 7, 6)) @ columns + 3.0
    X[:4] += 20 * rng.normal(size=(4, 7, 6))
    return X


def projector(model):
    Q = model.factors_[1]
    return Q @ Q.T


def largest_over_signs(A):
    """The largest |sum_r s_r x_r| over all signs: the maximum of |A w|_1 over unit w."""
    signs = itertools.product((-1.0, 1.0), repeat=len(A) - 1)
    return max(np.linalg.norm(A[-1] + np.array(s) @ A[:-1]) for s in signs)


# L1-2DPCA


@pytest.mark.parametrize("seed", range(5))
def test_l1_objective_never_falls(seed):
    rng = np.random.default_rng(seed)
    # Whole numbers: entries X_i w that are exactly zero, blank rows, and equal rows all occur.
    X = rng.integers(-1, 2, size=(12, 4, 5)).astype(float)
    model = L1TwoDPCA(rank=5).fit(X)
    assert model.converged_
    assert any(len(values) > 2 for values in model.objective_)
    for values in model.objective_:
        assert np.all(np.diff(values) >= -1e-13 * values[0])
    assert model.n_iter_ == max(len(values) for values in model.objective_) - 1


@pytest.mark.parametrize("shape", [(2, 5, 4), (5, 2, 3), (3, 3, 3), (10, 1, 6)])
@pytest.mark.parametrize("seed", range(3))
def test_l1_first_direction_is_the_best_over_all_signs(shape, seed):
    X = np.random.default_rng(seed).standard_cauchy(size=shape)
    # One start may end in a local maximum; 30 find the global one on all of these cases.
    model = L1TwoDPCA(rank=1, n_init=30, random_state=0).fit(X)
    best = largest_over_signs((X - X.mean(axis=0)).reshape(-1, shape[2]))
    assert_allclose(model.objective_[0][-1], best, rtol=1e-12)
    w = model.factors_[1][:, 0]
    assert_allclose(abs((X - X.mean(axis=0)) @ w).sum(), best, rtol=1e-12)


def test_l1_more_starts_never_do_worse_and_sometimes_better():
    gains = []
    for seed in range(20):
        X = np.random.default_rng(seed).standard_cauchy(size=(5, 2, 4))
        one = L1TwoDPCA().fit(X).objective_[0][-1]
        many = L1TwoDPCA(n_init=20, random_state=0).fit(X).objective_[0][-1]
        gains.append(many / one - 1)
    assert min(gains) >= -1e-14
    assert max(gains) > 1e-3


def test_l1_equals_the_double_loop(images):
    X = [x - images.mean(axis=0) for x in images]
    model = L1TwoDPCA(rank=3).fit(images)
    for j in range(3):
        w = np.linalg.eigh(sum(x.T @ x for x in X))[1][:, -1]
        for _ in range(500):
            v = np.zeros(6)
            for x in X:
                for row in x:
                    v += np.sign(row @ w) * row
            if np.allclose(v / np.linalg.norm(v), w, rtol=0, atol=1e-15):
                break
            w = v / np.linalg.norm(v)
        assert_allclose(abs(model.factors_[1][:, j] @ w), 1.0, rtol=1e-12)
        assert_allclose(model.objective_[j][-1], sum(abs(x @ w).sum() for x in X), rtol=1e-12)
        X = [x @ (np.eye(6) - np.outer(w, w)) for x in X]


def test_l1_leaves_a_point_with_a_zero_entry():
    # From the first axis the signs stay at once, at 6; the rows (0, 1) are across it.
    X = np.array([[[3.0, 0.0], [0.0, 1.0]], [[-3.0, 0.0], [0.0, -1.0]]])
    model = L1TwoDPCA(rank=1).fit(X)
    assert_allclose(model.objective_[0][-1], 2 * np.sqrt(10), rtol=1e-14)
    assert_allclose(abs(model.factors_[1][:, 0]), np.array([3, 1]) / np.sqrt(10), rtol=1e-14)


def test_l1_resists_what_moves_least_squares():
    rng = np.random.default_rng(0)
    clean = np.zeros((100, 4, 3))
    clean[..., 0] = rng.normal(size=(100, 4))
    X = np.concatenate([clean, np.zeros((2, 4, 3))])
    X[-2:, 0, 2] = 30.0, -30.0
    # Least squares turns to the two wild rows (energy 1800 against about 400); L1 weighs 60
    # against about 320.
    w = L1TwoDPCA().fit(X).factors_[1][:, 0]
    assert abs(w[0]) > 0.95
    scatter = np.tensordot(X, X, axes=((0, 1), (0, 1)))
    assert abs(np.linalg.eigh(scatter)[1][2, -1]) > 0.95


def test_l1_says_when_it_stopped_early():
    X = np.random.default_rng(1).standard_cauchy(size=(20, 5, 6))
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model = L1TwoDPCA(rank=2, max_iter=1).fit(X)
    assert not model.converged_


# N-2DNPP and S-2DNPP


def test_neighbour_weights_equal_a_direct_solve(images):
    near, weights, E = neighbour_errors(images, 4)
    for i, x in enumerate(images):
        distance = [np.inf if j == i else np.linalg.norm(x - y) for j, y in enumerate(images)]
        assert set(near[i]) == set(np.argsort(distance)[:4])
        G = np.array(
            [[np.sum((x - images[j]) * (x - images[k])) for k in near[i]] for j in near[i]]
        )
        G += 1e-3 * np.trace(G) * np.eye(4)
        # Lagrange's system of: minimise w' G w, sum w = 1.
        one = np.ones((4, 1))
        system = np.block([[2 * G, one], [one.T, np.zeros((1, 1))]])
        w = np.linalg.solve(system, [0, 0, 0, 0, 1])[:4]
        assert_allclose(weights[i], w, rtol=1e-9)
        assert_allclose(E[i], x - sum(w[m] * images[j] for m, j in enumerate(near[i])), atol=1e-9)
    assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-12)


def test_copies_share_alike():
    X = np.random.default_rng(0).normal(size=(9, 3, 4))
    X[:4] = X[0]
    _, weights, E = neighbour_errors(X, 3)
    assert_allclose(weights[:4], 1 / 3)
    assert_array_equal(E[:4], 0.0)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("k", [2, 5])  # fewer and more columns than the four rows of a sample
def test_reweighting_matrix_and_value_of_a_norm(norm, k):
    rng = np.random.default_rng(1)
    F, R, eps = rng.normal(size=(3, 4, 6)), np.linalg.qr(rng.normal(size=(6, k)))[0], 0.01
    H, value = {"nuclear": smooth_nuclear, "l21": smooth_l21}[norm](F, eps)(R)
    expected_H, expected = np.zeros((6, 6)), 0.0
    for f in F:
        if norm == "nuclear":
            root = scipy.linalg.sqrtm(f @ R @ R.T @ f.T + eps * np.eye(4)).real
        else:
            root = np.diag(np.sqrt(np.linalg.norm(f @ R, axis=1) ** 2 + eps))
        expected += np.trace(root)
        expected_H += f.T @ np.linalg.inv(root) @ f
    assert_allclose(value, expected, rtol=1e-12)
    assert_allclose(H, expected_H, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("norm", [smooth_nuclear, smooth_l21])
def test_one_plain_reweighting_never_raises_the_objective(norm):
    rng = np.random.default_rng(2)
    fell = 0
    for _ in range(50):
        at = norm(rng.standard_cauchy(size=(8, 4, 6)), 10.0 ** rng.integers(-6, 1))
        k = rng.integers(1, 6)
        R = np.linalg.qr(rng.normal(size=(6, k)))[0]
        H, before = at(R)
        after = at(np.linalg.eigh(H)[1][:, :k])[1]
        assert after <= before * (1 + 1e-10)
        fell += after < before * (1 - 1e-6)
    assert fell > 25


def test_npp_does_not_stay_where_only_the_gradient_vanishes():
    # Errors along the axes, so each axis is stationary; the second has the least of them.
    at = smooth_l21(np.diag([3.0, 1.0, 2.0])[None], 100.0)
    R, values, optimal = descend(at, np.eye(3)[:, :1], 50, 1e-9)
    assert_allclose(abs(R[:, 0]), [0, 1, 0], atol=1e-12)
    assert optimal
    assert values[-1] < values[0]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("gamma", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("rank", [1, 3, 6])
def test_npp_objective_never_rises(images, norm, gamma, rank):
    model = TwoDNPP(rank, norm=norm, gamma=gamma, eps=1e-2, tol=1e-5, max_iter=3000).fit(images)
    assert model.converged_
    assert np.all(np.diff(model.objective_) <= 1e-10 * model.objective_[0])
    if rank < 6:
        assert model.objective_[-1] < model.objective_[0]
    assert len(model.objective_) == model.n_iter_


def reweighted(model, X):
    """M, B, P and the smoothed objective, by loops over samples, in the units of objective_."""
    X = (X - X.mean(axis=0)) / model.scale_
    N, _, b = X.shape
    P = model.projection_ * model.scale_ * np.sqrt(N)
    M, B, value = np.zeros((b, b)), np.zeros((b, b)), 0.0
    terms = [(np.eye(b), model.eps_[1], model.gamma)]
    for i, x in enumerate(X):
        weights = zip(model.neighbor_weights_[i], model.neighbors_[i], strict=True)
        terms.append((x - sum(w * X[j] for w, j in weights), model.eps_[0], 1 / N))
        B += x.T @ x / N
    for E, eps, factor in terms:
        s, A = np.linalg.eigh(E @ P @ P.T @ E.T)
        root = A @ np.diag(np.sqrt(np.maximum(s, 0) + eps)) @ A.T
        if model.norm == "l21":
            root = np.diag(np.sqrt(((E @ P) ** 2).sum(axis=1) + eps))
        value += factor * np.trace(root)
        M += factor * E.T @ np.linalg.inv(root) @ E
    return M, B, P, value


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(7, 6), (3, 14), (1, 42)])
def test_npp_ends_at_an_optimum(images, norm, shape):
    X = images.reshape(60, *shape)
    model = TwoDNPP(4, norm=norm, tol=1e-8, max_iter=5000).fit(X)
    assert model.converged_
    M, B, P, value = reweighted(model, X)
    assert_allclose(value, model.objective_[-1], rtol=1e-10)
    Lambda = np.diag(P.T @ M @ P)
    assert_allclose(M @ P, B @ P * Lambda, rtol=0, atol=1e-6 * abs(M @ P).max())
    assert_allclose(np.sort(Lambda), scipy.linalg.eigh(M, B)[0][:4], rtol=1e-6)
    centred = X - X.mean(axis=0)
    scatter = sum(x.T @ x for x in centred)
    P = model.projection_
    assert_allclose(P.T @ scatter @ P, np.eye(4), atol=1e-10)
    # Q spans what P spans, along the principal axes of the samples in it.
    assert_allclose(projector(model), P @ np.linalg.pinv(P), atol=1e-8)
    inner = model.factors_[1].T @ scatter @ model.factors_[1]
    assert_allclose(inner, np.diag(np.diag(inner)), atol=1e-9 * inner.max())
    assert np.all(np.diff(np.diag(inner)) < 0)


def test_npp_of_heavy_penalty_is_2dpca(images):
    # The least |P|_* under P' B P = I is sum 1/sqrt(lambda) over the leading eigenvectors of B.
    model = TwoDNPP(3, gamma=1e9, tol=1e-9).fit(images)
    D = images - images.mean(axis=0)
    U = np.linalg.eigh(np.tensordot(D, D, axes=((0, 1), (0, 1))))[1][:, -3:]
    assert_allclose(projector(model), U @ U.T, atol=1e-6)


@pytest.mark.parametrize("norm", NORMS)
def test_npp_of_wide_smoothing_is_least_squares(images, norm):
    model = TwoDNPP(3, norm=norm, gamma=0.0, eps=1e12, tol=1e-9).fit(images)
    E = neighbour_errors(images, 5)[2]
    D = images - images.mean(axis=0)
    P = scipy.linalg.eigh(sum(e.T @ e for e in E), sum(d.T @ d for d in D))[1][:, :3]
    assert_allclose(projector(model), P @ np.linalg.pinv(P), atol=1e-7)


def test_npp_nuclear_turns_with_the_samples(images):
    rng = np.random.default_rng(3)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in (7, 6))
    one = TwoDNPP(3, tol=1e-9, max_iter=5000).fit(images)
    other = TwoDNPP(3, tol=1e-9, max_iter=5000).fit(left @ images @ right)
    assert_allclose(right @ projector(other) @ right.T, projector(one), atol=1e-6)
    assert_allclose(other.residuals(left @ images @ right), one.residuals(images), rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_npp_too_many_neighbours_means_all(images, norm):
    few = TwoDNPP(2, norm=norm, n_neighbors=50).fit(images[:8])
    assert few.neighbors_.shape == (8, 7)
    same = TwoDNPP(2, norm=norm, n_neighbors=7).fit(images[:8])
    assert_array_equal(few.factors_[1], same.factors_[1])


@pytest.mark.parametrize("norm", NORMS)
def test_npp_says_when_it_stopped_early(images, norm):
    with pytest.warns(ConvergenceWarning, match="max_iter=2 "):
        model = TwoDNPP(3, norm=norm, max_iter=2, tol=1e-9).fit(images)
    assert not model.converged_
    assert model.n_iter_ == 2


# What both share


@every_model
def test_projection_and_back(model, images):
    model = clone(model).set_params(rank=4).fit(images)
    Q = model.factors_[1]
    assert model.factors_[0] is None
    assert_allclose(Q.T @ Q, np.eye(4), atol=1e-12)
    assert_allclose(model.mean_, images.mean(axis=0), rtol=1e-12)
    cores = model.transform(images)
    back = model.inverse_transform(cores)
    for x, core, y in zip(images, cores, back, strict=True):
        assert_allclose(core, (x - images.mean(axis=0)) @ Q, atol=1e-10)
        assert_allclose(y, core @ Q.T + images.mean(axis=0), atol=1e-10)
    assert_allclose(model.residuals(images), ((images - back) ** 2).sum(axis=(1, 2)), rtol=1e-9)
    assert_allclose(model.transform(back), cores, atol=1e-10)
    assert model.residuals(images).sum() < 0.9 * ((images - model.mean_) ** 2).sum()
    full = clone(model).set_params(rank=6).fit(images)
    assert_allclose(full.inverse_transform(full.transform(images)), images, atol=1e-10)


@every_model
def test_arrays_on_disk_and_in_dask(model, images, tmp_path):
    """What memory gives, from a file and chunk by chunk."""
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "images.npy", images)
    fitted = clone(model).fit(images)
    expected = (images - fitted.mean_) @ fitted.factors_[1]
    on_disk = np.load(tmp_path / "images.npy", mmap_mode="r")
    lazy = fitted.transform(da.from_array(images, chunks=(7, -1, -1)))
    assert_allclose(fitted.transform(on_disk), expected, atol=1e-12)
    assert isinstance(lazy, da.Array)
    assert_allclose(lazy.compute(), expected, atol=1e-12)
    assert_allclose(fitted.residuals(on_disk), fitted.residuals(images), rtol=1e-12)


@every_model
def test_shift_order_and_scale_of_the_samples(model, images):
    model = clone(model).set_params(rank=3)
    if isinstance(model, TwoDNPP):
        model.set_params(tol=1e-9, max_iter=5000)
    P = projector(model.fit(images))
    constant = np.random.default_rng(0).normal(size=(7, 6))
    assert_allclose(projector(model.fit(images + 10 * constant)), P, atol=1e-6)
    assert_allclose(projector(model.fit(images[::-1])), P, atol=1e-6)
    for factor in (1e-150, 1e150):
        scaled = model.fit(images * factor)
        assert_allclose(projector(scaled), P, atol=1e-6)
        assert np.all(np.isfinite(scaled.transform(images * factor)))


@every_model
def test_columns_that_never_vary(model, images):
    X = images.copy()
    X[:, :, [1, 4]] = 7.0
    four = clone(model).set_params(rank=4).fit(X)
    assert_allclose(four.factors_[1][[1, 4]], 0.0, atol=1e-7)
    assert_allclose(four.residuals(X), 0.0, atol=1e-20)
    # More than the samples span: filled up, and nothing falls on what was filled in.
    five = clone(model).set_params(rank=5).fit(X)
    assert_allclose(five.factors_[1].T @ five.factors_[1], np.eye(5), atol=1e-12)
    assert_allclose(five.transform(X)[:, :, 4], 0.0, atol=1e-9)
    assert five.converged_


@every_model
@pytest.mark.parametrize("value", [1.0, 0.1])  # the mean of 0.1 is not 0.1 but for rounding
def test_samples_that_are_all_the_same(model, value):
    X = np.full((6, 4, 3), value)
    model = clone(model).set_params(rank=2).fit(X)
    assert_allclose(model.factors_[1].T @ model.factors_[1], np.eye(2), atol=1e-12)
    assert_allclose(model.inverse_transform(model.transform(X)), X)


@every_model
def test_flattened_samples(model, images):
    flat = images.reshape(60, 42)
    one = clone(model).set_params(rank=2).fit(images)
    other = clone(model).set_params(rank=2, sample_shape=(7, -1)).fit(flat)
    assert_array_equal(other.factors_[1], one.factors_[1])
    assert_array_equal(other.transform(flat), one.transform(images).reshape(60, 14))
    assert_array_equal(one.transform(flat), other.transform(flat))
    assert other.inverse_transform(other.transform(flat)).shape == (60, 42)
    assert len(other.get_feature_names_out()) == 14


@every_model
def test_samples_on_disk(model, images, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "images.h5", "w") as file:
        stored = file.create_dataset("images", data=images)
        read = clone(model).set_params(rank=2).fit(stored)
        held = clone(model).set_params(rank=2).fit(images)
        assert_array_equal(read.factors_[1], held.factors_[1])
        assert_array_equal(read.transform(stored), held.transform(images))


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
def test_types(model, dtype, images):
    X = np.round(images - images.min()).astype(dtype)
    model = clone(model).set_params(rank=3).fit(X)
    cores = model.transform(X)
    expected = np.float32 if dtype == np.float32 else np.float64
    assert cores.dtype == model.inverse_transform(cores).dtype == expected
    double = clone(model).fit(X.astype(np.float64))
    assert_allclose(cores, double.transform(X.astype(np.float64)), atol=1e-4)


@every_model
def test_fits_into_a_grid_search(model, images):
    y = np.arange(60) % 2
    X = images + 8 * y[:, None, None]
    pipeline = make_pipeline(
        clone(model), FunctionTransformer(lambda T: T.reshape(len(T), -1)), NearestCentroid()
    )
    key = f"{type(model).__name__.lower()}__rank"
    search = GridSearchCV(pipeline, {key: [1, 3]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.7
    assert search.predict(X).shape == (60,)


@every_model
def test_scikit_learn_contract(model):
    check_estimator(clone(model).set_params(rank=1, sample_shape=(1, -1)), on_skip=None)


@every_model
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": 40}, r"rank=40: mode 2 of the samples has only 6 entries .*\(7, 6\)"),
        ({"rank": 0}, "rank=0: a rank is at least 1, not 0"),
        ({"rank": 2.0}, r"rank=2\.0: a share of explained variance lies between 0 and 1"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"sample_shape": (6, 7)}, r"\(7, 6\).*\(6, 7\)"),
    ],
)
def test_bad_parameters(model, images, change, message):
    with pytest.raises(ValueError, match=message):
        clone(model).set_params(**change).fit(images)


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "l1"},
        {"n_neighbors": 0},
        {"gamma": -1.0},
        {"gamma": np.nan},
        {"eps": 0.0},
        {"eps": np.inf},
        {"tol": "small"},
        {"eps": True},
    ],
)
def test_bad_parameters_of_npp(images, change):
    [(key, value)] = change.items()
    kind = TypeError if key != "norm" and isinstance(value, str | bool) else ValueError
    with pytest.raises(kind, match=f"{key}={value!r}"):
        TwoDNPP(**change).fit(images)


def test_bad_number_of_starts(images):
    with pytest.raises(ValueError, match="n_init=0"):
        L1TwoDPCA(n_init=0).fit(images)


@every_model
def test_bad_samples(model, images):
    model = clone(model)
    with pytest.raises(NotFittedError):
        model.transform(images)
    for bad in (np.nan, np.inf):
        X = images.copy()
        X[17, 2, 3] = bad
        with pytest.raises(ValueError, match="first is sample 17"):
            model.fit(X)
    with pytest.raises(ValueError, match="n_samples=1"):
        model.fit(images[:1])
    with pytest.raises(ValueError, match="sample_shape="):
        model.fit(images.reshape(60, 42))
    with pytest.raises(ValueError, match=r"\(7, 3, 2\)"):
        model.fit(images.reshape(60, 7, 3, 2))
    model.fit(images)
    X = images.copy()
    X[3] = np.nan
    with pytest.raises(ValueError, match="first is sample 3"):
        model.transform(X)
    with pytest.raises(ValueError, match=r"\(6, 7\)"):
        model.transform(images.transpose(0, 2, 1))
    with pytest.raises(ValueError, match=r"\(7, 1\)"):
        model.inverse_transform(images)


@pytest.mark.data
@pytest.mark.skipif(not DATA.exists(), reason="yale64.npz is not there")
def test_faces():
    with np.load(DATA, allow_pickle=False) as archive:
        X = archive["images"] / 255.0
    D = X - X.mean(axis=0)
    total = (D**2).sum()
    energy = np.linalg.eigvalsh(np.tensordot(D, D, axes=((0, 1), (0, 1))))
    least = energy[:-20].sum() / total
    share = {
        name(model): clone(model).set_params(rank=20).fit(X).residuals(X).sum() / total
        for model in MODELS
    }
    # No subspace beats 2DPCA in the mean square; L1-2DPCA is all but as good. N-2DNPP keeps what
    # neighbours share, not what varies most; S-2DNPP drops whole columns of the image.
    assert least < share["L1TwoDPCA"] < 1.05 * least
    assert least < share["TwoDNPP-nuclear"] < 0.1
    assert least < share["TwoDNPP-l21"] < 0.3
