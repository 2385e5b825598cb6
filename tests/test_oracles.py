"""Independent oracles: plain SVD, loops over the samples, and two other packages.

Sweeps that are compared with a loop run to the end of the digits: ``tol=0`` never stops by
itself, so the warning that they were cut short is expected.
"""

import warnings

import numpy as np
import pytest
from kalelinear.transformer import MPCA
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from tensorly.decomposition import partial_tucker

from corrtensor import CorrTensor
from corrtensor.methods import make

SWEEPS = 400
STILL = 1e-13


def to_the_end(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.set_params(tol=0.0, max_iter=SWEEPS).fit(X)


def leading(S, k):
    return np.linalg.eigh(S)[1][:, ::-1][:, :k]


def moved(old, new):
    """How far the projectors went."""
    return max(np.abs(U @ U.T - V @ V.T).max() for U, V in zip(old, new, strict=True))


def assert_same_spaces(factors, expected, atol):
    for U, V in zip(factors, expected, strict=True):
        assert (U is None) == (V is None)
        if U is not None:
            assert U.shape == V.shape
            assert_allclose(U @ U.T, V @ V.T, rtol=0, atol=atol)


def test_pca_is_the_svd_of_the_centred_samples(make_samples):
    X = make_samples(1, n=40)
    model = make("PCA", ranks=3).fit(X)
    mean = X.mean(axis=0)
    left, sizes, right = np.linalg.svd(X - mean, full_matrices=False)
    assert_allclose(model.mean_, mean, atol=1e-14)
    assert_same_spaces(model.factors_, [right[:3].T], atol=1e-12)
    # one by one, up to the sign: the first component comes first
    assert_allclose(np.abs(model.factors_[0].T @ right[:3].T), np.eye(3), atol=1e-10)
    assert_allclose(np.abs(model.transform(X)), np.abs(left[:, :3] * sizes[:3]), atol=1e-10)
    rest = X - mean - (X - mean) @ right[:3].T @ right[:3]
    assert_allclose(model.residuals_, (rest**2).sum(axis=1), rtol=1e-10)
    assert_allclose(model.residuals_.sum(), (sizes[3:] ** 2).sum(), rtol=1e-10)
    assert_allclose(model.weights_, 1)


def column_scatter(X, mean):
    S = np.zeros((X.shape[2], X.shape[2]))
    for x in X:
        S += (x - mean).T @ (x - mean)
    return S


def row_scatter(X, mean):
    S = np.zeros((X.shape[1], X.shape[1]))
    for x in X:
        S += (x - mean) @ (x - mean).T
    return S


def squared_residuals(X, mean, L, R):
    s = []
    for x in X:
        core = L.T @ (x - mean) @ R
        s.append(np.linalg.norm(x - mean - L @ core @ R.T) ** 2)
    return np.array(s)


def test_2dpca_by_a_loop(images):
    model = make("2DPCA", ranks=2).fit(images)
    mean = sum(images) / len(images)
    R = leading(column_scatter(images, mean), 2)
    assert_same_spaces(model.factors_, [None, R], atol=1e-12)
    assert_allclose(model.mean_, mean, atol=1e-14)
    cores = np.stack([(x - mean) @ R for x in images])
    assert_allclose(np.abs(model.transform(images)), np.abs(cores), atol=1e-10)
    expected = squared_residuals(images, mean, np.eye(8), R)
    assert_allclose(model.residuals_, expected, rtol=1e-10)


def test_2dsvd_by_a_loop(images):
    model = make("2DSVD", ranks=(3, 2)).fit(images)
    mean = sum(images) / len(images)
    L = leading(row_scatter(images, mean), 3)
    R = leading(column_scatter(images, mean), 2)
    assert_same_spaces(model.factors_, [L, R], atol=1e-12)
    assert_allclose(model.mean_, mean, atol=1e-14)
    assert_allclose(model.residuals_, squared_residuals(images, mean, L, R), rtol=1e-10)
    assert_allclose(model.objective_, [model.residuals_.sum()], rtol=1e-12)


def test_glram_by_a_double_loop(clean_images):
    """Ye's iteration, from his start: the first columns of the identity."""
    model = to_the_end(make("GLRAM", ranks=(3, 2)), clean_images)
    L, R = np.eye(8)[:, :3], np.eye(7)[:, :2]
    for _ in range(SWEEPS):
        before = L, R
        S = np.zeros((8, 8))
        for x in clean_images:
            S += x @ R @ R.T @ x.T
        L = leading(S, 3)
        S = np.zeros((7, 7))
        for x in clean_images:
            S += x.T @ L @ L.T @ x
        R = leading(S, 2)
        if moved(before, (L, R)) < STILL:
            break
    assert_same_spaces(model.factors_, [L, R], atol=1e-9)
    assert not model.mean_.any()
    expected = squared_residuals(clean_images, np.zeros((8, 7)), L, R)
    assert_allclose(model.residuals_, expected, rtol=1e-8)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_mpca_is_kalelinears(make_samples, ranks_of, order):
    X = make_samples(order)
    ranks = ranks_of[order]
    model = to_the_end(make("MPCA", ranks=ranks), X)
    peer = MPCA(output_shape=ranks, max_iter=200).fit(X)
    assert_same_spaces(model.factors_, [P.T for P in peer.proj_mats_], atol=1e-6)
    assert_allclose(model.mean_, peer.mean_, atol=1e-13)
    back = peer.inverse_transform(peer.transform(X))
    assert_allclose(model.inverse_transform(model.transform(X)), back, atol=1e-6)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_mpca_is_the_partial_tucker_of_centred_samples(make_samples, ranks_of, order):
    X = make_samples(order)
    model = to_the_end(make("MPCA", ranks=ranks_of[order]), X)
    modes = list(range(1, order + 1))
    (_, factors), _ = partial_tucker(
        X - X.mean(axis=0), rank=list(ranks_of[order]), modes=modes, n_iter_max=300, tol=1e-16
    )
    assert_same_spaces(model.factors_, factors, atol=1e-6)


def algorithm_1(X, k1, k2, alpha, beta):
    """Algorithm 1 of the paper, line by line, with e_i the squared norm and the sums over i.

    Returns the last weights, the mean, L and R.
    """
    lam = 1 / beta**alpha
    N, a, b = X.shape
    mean = sum(X) / N
    L = leading(row_scatter(X, mean), k1)
    R = leading(column_scatter(X, mean), k2)

    def weights():
        w = []
        for i in range(N):
            x = X[i] - mean
            e = np.trace(x.T @ x - x.T @ L @ L.T @ x @ R @ R.T)
            w.append(np.exp(-lam * e ** (alpha / 2)) * e ** (alpha / 2 - 1))
        return w

    for _ in range(SWEEPS):
        before = L, R
        w = weights()
        mean = sum(w[i] * X[i] for i in range(N)) / sum(w)
        C1 = np.zeros((a, a))
        for i in range(N):
            C1 += w[i] * (X[i] - mean) @ R @ R.T @ (X[i] - mean).T
        L = leading(C1, k1)
        C2 = np.zeros((b, b))
        for i in range(N):
            C2 += w[i] * (X[i] - mean).T @ L @ L.T @ (X[i] - mean)
        R = leading(C2, k2)
        if moved(before, (L, R)) < STILL:
            break
    return np.array(weights()), mean, L, R


@pytest.mark.parametrize("beta", [1.5, 4.0])
@pytest.mark.parametrize("alpha", [1.0, 1.6, 2.0])
def test_corr_tensor_is_algorithm_1(images, alpha, beta):
    model = to_the_end(CorrTensor(ranks=(3, 2), alpha=alpha, beta=beta, scale=None), images)
    w, mean, L, R = algorithm_1(images, 3, 2, alpha, beta)
    assert w.min() > 0
    assert w.max() > 3 * w.min(), "the outliers must matter"
    assert_allclose(model.weights_, w / w.max(), rtol=0, atol=1e-8)
    assert_same_spaces(model.factors_, [L, R], atol=1e-8)
    assert_allclose(model.mean_, mean, atol=1e-8)
    s = squared_residuals(images, mean, L, R)
    assert_allclose(model.residuals_, s, rtol=1e-7)
    objective = np.sum(1 - np.exp(-((s / beta**2) ** (alpha / 2))))
    assert_allclose(model.objective_[-1], objective, rtol=1e-9)
    by_name = make("Corr-2DSVD", ranks=(3, 2), alpha=alpha, beta=beta, scale=None)
    assert np.array_equal(to_the_end(by_name, images).weights_, model.weights_)


def test_median_scale_is_algorithm_1_in_units_of_the_median(images):
    """``scale="median"``: beta counts in roots of the middle residual of the 2DSVD start."""
    mean = sum(images) / len(images)
    L = leading(row_scatter(images, mean), 3)
    R = leading(column_scatter(images, mean), 2)
    ordered = sorted(squared_residuals(images, mean, L, R))
    lower_median = ordered[(len(ordered) - 1) // 2]
    model = to_the_end(CorrTensor(ranks=(3, 2), alpha=2.0, scale="median"), images)
    w, _, L, R = algorithm_1(images, 3, 2, alpha=2.0, beta=2 * np.sqrt(lower_median))
    assert_allclose(model.weights_, w / w.max(), rtol=0, atol=1e-8)
    assert_same_spaces(model.factors_, [L, R], atol=1e-8)


def test_r1_2dsvd_by_a_loop(images):
    """Ding's iteration: weights 1/|residual|, the mean plain and fixed."""
    model = to_the_end(make("R1-2DSVD", ranks=(3, 2)), images)
    mean = sum(images) / len(images)
    L = leading(row_scatter(images, mean), 3)
    R = leading(column_scatter(images, mean), 2)
    for _ in range(SWEEPS):
        before = L, R
        w = 1 / np.sqrt(squared_residuals(images, mean, L, R))
        C1 = sum(v * (x - mean) @ R @ R.T @ (x - mean).T for v, x in zip(w, images, strict=True))
        L = leading(C1, 3)
        C2 = sum(v * (x - mean).T @ L @ L.T @ (x - mean) for v, x in zip(w, images, strict=True))
        R = leading(C2, 2)
        if moved(before, (L, R)) < STILL:
            break
    s = squared_residuals(images, mean, L, R)
    assert_same_spaces(model.factors_, [L, R], atol=1e-8)
    assert_allclose(model.mean_, mean, atol=1e-13)
    assert_allclose(model.weights_, s.min() ** 0.5 / np.sqrt(s), atol=1e-8)
    assert_allclose(model.objective_[-1], np.sqrt(s).sum(), rtol=1e-9)


def corr_tensor_3(X, ranks, alpha, beta, p):
    """Section IV.C by einsum, with the weights of section VI for any p."""
    mean = X.mean(axis=0)
    modes = ("abc,Abc->aA", "abc,aBc->bB", "abc,abC->cC")
    U = [
        leading(sum(np.einsum(way, x - mean, x - mean) for x in X), k)
        for way, k in zip(modes, ranks, strict=True)
    ]

    def residuals():
        P = [V @ V.T for V in U]
        near = np.einsum("iabc,aA,bB,cC->iABC", X - mean, *P, optimize=True)
        return ((X - mean - near) ** 2).sum(axis=(1, 2, 3))

    def weights(s):
        u = (s / beta**2) ** (alpha / 2)
        return np.exp(-u) * s ** (alpha / 2 - 1) * (1 - np.exp(-u)) ** (p / 2 - 1)

    for _ in range(SWEEPS):
        before = list(U)
        w = weights(residuals())
        mean = np.einsum("i,iabc->abc", w, X) / w.sum()
        D = X - mean
        P = np.einsum("iabc,bB,cC->iaBC", D, U[1], U[2], optimize=True)
        U[0] = leading(np.einsum("i,iaBC,iABC->aA", w, P, P), ranks[0])
        P = np.einsum("iabc,aA,cC->iAbC", D, U[0], U[2], optimize=True)
        U[1] = leading(np.einsum("i,iAbC,iABC->bB", w, P, P), ranks[1])
        P = np.einsum("iabc,aA,bB->iABc", D, U[0], U[1], optimize=True)
        U[2] = leading(np.einsum("i,iABc,iABC->cC", w, P, P), ranks[2])
        if moved(before, U) < STILL:
            break
    s = residuals()
    return weights(s), mean, U, np.sum((1 - np.exp(-((s / beta**2) ** (alpha / 2)))) ** (p / 2))


@pytest.mark.parametrize(
    ("alpha", "p"), [(2.0, 2.0), (1.6, 2.0), (2.0, 1.0), (1.0, 4.0), (4.0, 1.0)]
)
def test_order_3_by_einsum(make_samples, alpha, p):
    X = make_samples(3)
    model = CorrTensor(ranks=(2, 2, 2), alpha=alpha, beta=3.0, p=p, scale=None)
    to_the_end(model, X)
    w, mean, factors, objective = corr_tensor_3(X, (2, 2, 2), alpha, 3.0, p)
    assert_allclose(model.weights_, w / w.max(), rtol=0, atol=1e-8)
    assert_same_spaces(model.factors_, factors, atol=1e-8)
    assert_allclose(model.mean_, mean, atol=1e-8)
    assert_allclose(model.objective_[-1], objective, rtol=1e-9)


def test_order_1_is_reweighted_pca(make_samples):
    """Robust PCA of vectors: weights, weighted mean, weighted SVD, in turn."""
    X = make_samples(1)
    model = to_the_end(CorrTensor(ranks=3, alpha=2.0, beta=2.0, scale=None), X)
    mean = X.mean(axis=0)
    V = np.linalg.svd(X - mean, full_matrices=False)[2][:3].T
    for _ in range(SWEEPS):
        D = X - mean
        w = np.exp(-((D - D @ V @ V.T) ** 2).sum(axis=1) / 4.0)
        mean = np.average(X, axis=0, weights=w)
        D = np.sqrt(w)[:, None] * (X - mean)
        before, V = V, np.linalg.svd(D, full_matrices=False)[2][:3].T
        if moved([before], [V]) < STILL:
            break
    assert_same_spaces(model.factors_, [V], atol=1e-8)
    assert_allclose(model.weights_, w / w.max(), atol=1e-8)
    assert_allclose(model.mean_, mean, atol=1e-8)
