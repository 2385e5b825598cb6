"""Samples that are vectors: fits in their span, no needless sweep, sketches of stated accuracy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import corrtensor._engine.span as span
from corrtensor import CorrTensor, make
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.large_modes import next_gain, tall_qr
from corrtensor._engine.passes import RawPass, ResidualPass, SweepPass
from corrtensor._engine.products import scatter
from corrtensor._engine.start import leading_of_some


def vectors(n, a, k=6, dtype="float64", seed=0):
    """Vectors near a subspace through a point; the first few are 40 times as large."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k)) * np.linspace(9, 3, k) @ rng.normal(size=(k, a)) / np.sqrt(a)
    X += 0.1 * rng.normal(size=(n, a)) + 3
    X[:3] *= 40
    return X.astype(dtype)


def projector(U):
    return U @ U.T


def leading_directions(X, k):
    # Of the shorter side, which is faster.
    Y = X - X.mean(axis=0)
    values, V = np.linalg.eigh(Y @ Y.T if len(Y) < Y.shape[1] else Y.T @ Y)
    V = V[:, -k:]
    return Y.T @ (V / np.sqrt(values[-k:])) if len(Y) < Y.shape[1] else V


@pytest.fixture
def spans(monkeypatch):
    """Whether fits since the last look went by way of the span."""
    seen = []
    of = span.Span.of
    monkeypatch.setattr(span.Span, "of", lambda source: seen.append(source) or of(source))
    return seen


@pytest.mark.parametrize("ranks", [4, 0.75, "auto"])
@pytest.mark.parametrize("center", ["weighted", "plain", None])
@pytest.mark.parametrize("n", [36, 40, 60])
def test_a_fit_in_the_span_is_the_fit(n, ranks, center, monkeypatch, spans):
    # Far from zero, so that they are counted from another origin.
    X, X_new = vectors(n, 300) + 50, vectors(10, 300, seed=1) + 50
    there = CorrTensor(ranks, center=center).fit(X)
    assert len(spans) == 1
    monkeypatch.setattr(span, "SHORTEST", 1000)
    here = CorrTensor(ranks, center=center).fit(X)
    assert len(spans) == 1
    assert_allclose(there.mean_, here.mean_, atol=1e-8)
    assert_allclose(there.factors_[0], here.factors_[0], atol=1e-6)
    assert_allclose(there.weights_, here.weights_, atol=1e-8)
    assert_allclose(there.residuals_, here.residuals_, rtol=1e-8, atol=1e-9)
    assert_allclose(there.residuals(X_new), here.residuals(X_new), rtol=1e-8)
    # How far off the rejected are is told by the metric of the search, which has fewer directions
    # in the span.
    kept = here.weights_ > 0
    assert_allclose(there.outlier_scores_[kept], here.outlier_scores_[kept], atol=1e-6)
    assert min(there.outlier_scores_[~kept].min(), here.outlier_scores_[~kept].min()) > 20
    assert_allclose(there.core_scale_, here.core_scale_, rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-80, 1e80])
def test_huge_and_tiny_vectors_keep_their_units(unit, spans):
    X = vectors(40, 300)
    plain, scaled = CorrTensor(4).fit(X), CorrTensor(4).fit(unit * X)
    assert len(spans) == 2
    assert_allclose(scaled.mean_ / unit, plain.mean_, rtol=1e-8, atol=1e-8)
    assert_allclose(scaled.residuals_ / unit**2, plain.residuals_, rtol=1e-8)


@pytest.mark.parametrize(
    ("shape", "ranks"), [((290, 300), 4), ((40, 200), 4), ((40, 300), 41), ((300, 2100), 4)]
)
def test_where_the_span_does_not_pay_it_is_not_made(shape, ranks, spans):
    make("PCA", ranks).fit(vectors(*shape))
    assert not spans


def test_arrays_on_disk_are_not_taken_into_memory(tmp_path, spans):
    X = vectors(40, 300)
    np.save(tmp_path / "x.npy", X)
    disk = CorrTensor(4).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert not spans
    memory = CorrTensor(4).fit(X)
    assert_allclose(projector(disk.factors_[0]), projector(memory.factors_[0]), atol=1e-8)


def test_what_is_wrong_is_said_of_the_samples_themselves():
    X = vectors(40, 300)
    with pytest.raises(ValueError, match=r"40 samples of shape \(300,\) are identical"):
        make("PCA", 4).fit(np.ones((40, 300)))
    X[17, 5] = np.inf
    with pytest.raises(ValueError, match="the first is sample 17"):
        make("PCA", 4).fit(X)


def test_an_elbow_of_more_entries_than_a_square_matrix_may_have():
    assert make("PCA", "auto").fit(vectors(40, 3000)[3:]).ranks_ == (6,)


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("shape", [(60, 300), (60, 2500), (300, 2500)])
def test_threads_change_no_bit_of_vectors(shape, n_jobs):
    X = vectors(*shape, dtype="float32")
    one, more = (CorrTensor(4, n_jobs=n).fit(X) for n in (1, n_jobs))
    assert (one.factors_[0] == more.factors_[0]).all()
    assert (one.residuals_ == more.residuals_).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(400, 2500), (900, 300), (60, 400), (900, 200)])
def test_same_subspace_as_by_eigenvectors(shape, dtype, monkeypatch):
    """By a sketch with N < D and N > D, by the span, and by the square matrix."""
    for module in ("_engine.arrays.source", "_engine.large_modes", "_engine.start"):
        monkeypatch.setattr(f"corrtensor.{module}.LARGE", 250)
    X = vectors(*shape, dtype=dtype)[3:]
    U = make("PCA", 5).fit(X).factors_[0].astype(float)
    V = leading_directions(X.astype(float), 5)
    # The norm of the difference of the projectors, without a square matrix.
    off = np.linalg.norm(V - U @ (U.T @ V), 2)
    assert off < {"float64": 1e-8, "float32": 1e-4}[dtype]


def test_passes_end_when_another_would_gain_nothing(monkeypatch):
    """None is made only to see that; and the directions are known when none follows."""
    passes, call = [], Source.reduce
    monkeypatch.setattr(Source, "reduce", lambda *a, **k: passes.append(0) or call(*a, **k))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 25)) * np.linspace(10, 2, 25) @ rng.normal(size=(25, 2500))
    X = (X + 0.9 * rng.normal(size=X.shape)).astype("float32")
    U = make("PCA", 20).fit(X).factors_[0].astype(float)
    assert (
        np.linalg.norm(projector(U) - projector(leading_directions(X.astype(float), 20)), 2) < 1e-5
    )
    known = len(passes)
    monkeypatch.setattr(
        "corrtensor._engine.large_modes.next_gain", lambda held: held[-1] - held[-2]
    )
    make("PCA", 20).fit(X)
    assert known < len(passes) - known


def test_what_another_pass_gains_is_foreseen():
    """Gains of a geometric series go on as they do; the first is none over anything."""
    held = [0.0, *(100 - 0.1 ** np.arange(6))]
    assert next_gain(held) == pytest.approx(0.1**5 * 0.9, rel=1e-6)
    assert next_gain(held[:3]) == pytest.approx(0.9)
    assert next_gain([0.0, 5.0, 5.0, 5.0]) == 0
    # What rounding takes away is no gain, nor is it twice.
    assert next_gain([0.0, 10.0, 10.0 + 1e-9, 10.0 - 1e-7]) == 0


def test_no_sweep_where_all_vectors_count_as_at_the_start(monkeypatch):
    passes = []
    call = SweepPass.__call__
    monkeypatch.setattr(
        SweepPass, "__call__", lambda self, *a, **k: passes.append(self) or call(self, *a, **k)
    )
    X = vectors(500, 20)
    robust = CorrTensor(4).fit(X)
    assert not passes
    assert (robust.weights_[:3] == 0).all()
    assert robust.converged_
    assert robust.n_iter_ == 1
    # Weights that differ need sweeps, and so does whoever asks for all of them.
    assert CorrTensor(4, scale="median").fit(X).n_iter_ > 1
    assert passes
    passes.clear()
    with pytest.warns(ConvergenceWarning):
        assert CorrTensor(4, tol=0.0, max_iter=2, scale=1e9).fit(X).n_iter_ == 2
    assert passes


def test_weights_in_a_scatter_against_a_loop():
    rng = np.random.default_rng(0)
    A, Q, w = rng.normal(size=(7, 3, 5)), rng.normal(size=(5, 2)), rng.random(7)
    S = sum(w[i] * np.outer(A[i, j], A[i, j]) for i in range(7) for j in range(3))
    kept = A.copy()
    assert_allclose(scatter(A, None, w), S, atol=1e-12)
    assert_allclose(scatter(A, Q, w), S @ Q, atol=1e-12)
    assert (kept == A).all()


@pytest.mark.parametrize("spread", [1, 1e4, 3e7, 1e8, 1e12, 0])
def test_qr_of_tall_matrices(spread):
    """Also of columns that are all but dependent, and of some that are nothing."""
    rng = np.random.default_rng(0)
    B = rng.normal(size=(500, 8))
    B[:, 1:] = B[:, :1] + B[:, 1:] / spread if spread else 0.0
    Q, R = tall_qr(B)
    assert_allclose(Q.T @ Q, np.eye(8), atol=1e-13)
    assert_allclose(Q @ R, B, atol=1e-12)


def test_directions_of_some_are_orthonormal_and_lead():
    """Also where weights are zero and the centred samples lack a dimension."""
    X = vectors(30, 400)[3:]
    w = np.r_[0.0, 0.0, np.linspace(1, 2, 25)]
    mean = w @ X / w.sum()
    source = Source(X, origin=np.zeros(400))
    U = leading_of_some(source, w, mean, 0, 25)
    assert_allclose(U.T @ U, np.eye(25), atol=1e-9)
    rows = np.sqrt(w)[:, None] * (X - mean)
    V = np.linalg.svd(rows, full_matrices=False)[2][:6].T
    assert_allclose(projector(U[:, :6]), projector(V), atol=1e-9)


def test_a_pass_done_again_leaves_out_what_is_known():
    source = Source(vectors(30, 20))
    first, again = (source.reduce(RawPass((0,), again=known)) for known in (False, True))
    assert (first.sums.second[0] == again.sums.second[0]).all()
    assert first.norms
    assert not again.norms


@pytest.mark.parametrize("k", [1, 6, 7, 8])
def test_residuals_of_vectors_by_one_product_against_a_loop(k):
    """Factor and mean are seen by one product, whatever it is padded with."""
    X, rng = vectors(40, 20), np.random.default_rng(1)
    U, m = np.linalg.qr(rng.normal(size=(20, k)))[0], rng.normal(size=20)
    source = Source(X, origin=np.zeros(20), unit=1.0)
    found = np.concatenate(source.reduce(ResidualPass(source.at(m, (U,)))).squares)
    wanted = [np.square((x - m) - U @ (U.T @ (x - m))).sum() for x in X]
    assert_allclose(found, wanted, rtol=1e-10)
