"""A mode of many entries is factorised without a square matrix of its size."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corrtensor._engine.arrays.source
from corrtensor import CorrTensor, make
from corrtensor._engine.large_modes import basis, nystrom

A, K, N = 2500, 4, 150


@pytest.fixture(scope="module")
def vectors():
    """Vectors with four strong directions, and as many outliers as fit under a quarter."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.normal(size=(A, K)))[0]
    X = rng.normal(size=(N, K)) * [9, 7, 5, 4] @ U.T + 0.02 * rng.normal(size=(N, A)) + 0.5
    X[:20] += rng.normal(size=(20, A))
    return X


def svd_projector(X, k):
    V = np.linalg.svd(X, full_matrices=False)[2][:k].T
    return V @ V.T


@pytest.mark.parametrize("name", ["PCA", "MPCA"])
def test_vectors_with_a_gap_against_svd(name, vectors):
    X = vectors[20:]
    U = make(name, K).fit(X).factors_[0]
    assert_allclose(U @ U.T, svd_projector(X - X.mean(axis=0), K), atol=1e-6)


def test_robust_fit_against_weighted_svd(vectors):
    model = CorrTensor(K, tol=1e-12).fit(vectors)
    assert (model.weights_[:20] < 0.01).all()
    rows = np.sqrt(model.weights_)[:, None] * (vectors - model.mean_)
    U = model.factors_[0]
    assert_allclose(U @ U.T, svd_projector(rows, K), atol=1e-6)


def test_without_a_gap_the_objective_is_right():
    Y = np.random.default_rng(1).normal(size=(300, A))
    energies = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False) ** 2
    cost = make("PCA", 10).fit(Y).residuals_.sum()
    assert_allclose(cost, energies[10:].sum(), rtol=1e-6)


def test_same_answer_as_with_a_square_matrix(monkeypatch):
    """Images with one long side: sketched sweeps end where exact ones do."""
    rng = np.random.default_rng(2)
    core = rng.normal(size=(60, 3, 2)) * [[4, 3], [3, 2], [2, 1]]
    L, R = (np.linalg.qr(rng.normal(size=s))[0] for s in [(300, 3), (9, 2)])
    X = L @ core @ R.T + 0.05 * rng.normal(size=(60, 300, 9))
    exact = CorrTensor((3, 2), tol=1e-13, max_iter=500).fit(X)
    for module in ("_engine.arrays.source", "_engine.large_modes", "_engine.start"):
        monkeypatch.setattr(f"corrtensor.{module}.LARGE", 100)
    sketched = CorrTensor((3, 2), tol=1e-13, max_iter=500).fit(X)
    for U, V in zip(exact.factors_, sketched.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, atol=1e-6)
    assert_allclose(sketched.objective_[-1], exact.objective_[-1], rtol=1e-10)
    assert (np.diff(sketched.objective_) <= 1e-10 * sketched.objective_[0]).all()


def test_the_approximation_never_exceeds_the_scatter_and_keeps_the_old_factor():
    rng = np.random.default_rng(3)
    F = rng.normal(size=(80, 50))
    S = F.T @ F
    Q = np.linalg.qr(rng.normal(size=(50, 12)))[0]
    T = S @ Q
    approximation = T @ np.linalg.solve(Q.T @ T, T.T)
    V = nystrom(T, Q, 5)[1]
    leading = np.linalg.eigh(approximation)[1][:, :-6:-1]
    assert_allclose(V[:, :5] @ V[:, :5].T, leading @ leading.T, atol=1e-9)
    assert np.linalg.eigvalsh(S - approximation).min() > -1e-9 * np.trace(S)
    assert_allclose(approximation @ Q, T, atol=1e-9 * np.trace(S))
    old, new = Q[:, :5], V[:, :5]
    assert np.trace(new.T @ S @ new) >= np.trace(old.T @ S @ old)


def test_spare_directions_reach_over_a_narrow_gap():
    """Four directions at 1, six at 0.9, the rest at 0.01: the factor alone would need some
    hundred sweeps to tell the first from the second; with spares the third gap counts."""
    rng = np.random.default_rng(3)
    energies = np.full(A, 0.01)
    energies[:4], energies[4:10] = 1.0, 0.9
    U, spare = np.linalg.qr(rng.normal(size=(A, 4)))[0], None
    for _ in range(8):
        Q = basis(U, spare)
        V = nystrom(energies[:, None] * Q, Q, 4)[1]
        U, spare = V[:, :4], V[:, 4:]
    assert np.linalg.norm(U[4:], 2) < 1e-6


def test_fewer_directions_than_asked_for():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(6, A))
    model = make("MPCA", 20).fit(X)
    U = model.factors_[0]
    assert model.converged_
    assert_allclose(U.T @ U, np.eye(20), atol=1e-10)
    assert_allclose(model.residuals_, 0, atol=1e-18 * A)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_share_of_energy(share, vectors):
    energies = np.linalg.svd(vectors - vectors.mean(axis=0), compute_uv=False) ** 2
    want = int(np.searchsorted(np.cumsum(energies), share * energies.sum())) + 1
    assert make("PCA", share).fit(vectors).ranks_ == (want,)


def test_a_share_that_a_sketch_cannot_hold(monkeypatch):
    monkeypatch.setattr("corrtensor._engine.large_modes.LARGE", 100)
    Y = np.random.default_rng(5).normal(size=(400, A))
    with pytest.raises(ValueError, match=r"mode 1 has 2500 entries.*give an int"):
        make("PCA", 0.9).fit(Y)


def test_small_modes_are_not_sketched():
    assert basis(np.eye(corrtensor._engine.arrays.source.LARGE)[:, :3]) is None


def test_memory_of_twenty_thousand_entries():
    """A square matrix would take 3.2 GB."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(128, 5)) @ rng.normal(size=(5, 20_000))
    X += 0.1 * rng.normal(size=X.shape)
    tracemalloc.start()
    try:
        make("MPCA", 5).fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 250e6, f"{peak / 1e6:.0f} MB"


@pytest.mark.parametrize("passes", [1, 2, 24])
def test_passes_that_end_while_directions_still_gain(passes, vectors, monkeypatch):
    """What was found by then is a factor like any other, with the energy that it holds."""
    monkeypatch.setattr("corrtensor._engine.large_modes.MOST_PASSES", passes)
    X = vectors[20:]
    model = make("PCA", K).fit(X)
    U = model.factors_[0]
    assert_allclose(U.T @ U, np.eye(K), atol=1e-12)
    d = X - model.mean_
    left = np.square(d - d @ U @ U.T).sum()
    assert_allclose(model.residuals_.sum(), left, rtol=1e-6)
    assert left < 1.05 * np.square(d - d @ svd_projector(d, K)).sum()
