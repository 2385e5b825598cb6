"""Starts sought on fewer samples with fewer entries lead where those on all lead."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

from corrtensor import CorrTensor, make, sources, starts
from corrtensor.corr_tensor import RejectionWarning
from corrtensor.datasets import block_outliers, load_faces
from corrtensor.kernels import ResidualPass
from corrtensor.losses import Correntropy
from corrtensor.sources import Source
from corrtensor.starts import spectral
from corrtensor.subsample import compress, draw


def gap(a, b):
    """Return how far apart two models' projectors are."""
    return max(np.abs(U @ U.T - V @ V.T).max() for U, V in zip(a.factors_, b.factors_, strict=True))


def low_rank(n, shape=(40, 30), k=3, n_bad=0, seed=0):
    """Samples of a planted subspace on a mean, the first of them noise instead."""
    rng = np.random.default_rng(seed)
    L, R = (np.linalg.qr(rng.normal(size=(a, k)))[0] for a in shape)
    scales = 3.0 * 2.0 ** -np.add.outer(np.arange(k), np.arange(k))
    X = L @ (scales * rng.normal(size=(n, k, k))) @ R.T + 0.05 * rng.normal(size=(n, *shape))
    X[:n_bad] = 3 * rng.normal(size=(n_bad, *shape))
    return X + rng.normal(size=shape)


def test_residuals_of_compressed_samples_are_those_of_whole_ones():
    X = low_rank(80, n_bad=10)
    source = Source(X)
    norms = spectral(source, (3, 3)).norms
    part = compress(draw(source, norms, None, 500), (3, 3), None)
    assert part.source.sample_shape == (13, 13)
    start = part.start((3, 3), True, None)
    at = part.source.at(start.mean, start.factors)
    seen = np.concatenate(part.source.reduce(ResidualPass(at), norms=part.norms).squares)
    mean = part.origin + np.einsum("ij,ai,bj->ab", start.mean, *part.bases)
    L, R = (V @ U for V, U in zip(part.bases, start.factors, strict=True))
    D = X - mean
    whole = np.square(D - L @ L.T @ D @ R @ R.T).sum(axis=(1, 2))
    assert_allclose(seen, whole, rtol=1e-8)


@pytest.mark.parametrize("n_bad", [0, 300, 800])
def test_the_answer_is_that_of_a_start_on_all_samples(monkeypatch, n_bad):
    X = low_rank(2000, n_bad=n_bad)
    few = CorrTensor((3, 3), tol=1e-14, max_iter=500).fit(X)
    monkeypatch.setattr("corrtensor.questions.SUBSAMPLE", 10**6)
    monkeypatch.setattr("corrtensor.subsample.WORTHWHILE", 0.0)
    everything = CorrTensor((3, 3), tol=1e-14, max_iter=500).fit(X)
    assert gap(few, everything) < 1e-6
    # The scale is set from the samples that counted at the start.
    assert_allclose(few.weights_, everything.weights_, atol=0.02)


def test_zero_weight_is_removal_for_many_samples():
    X = low_rank(1500, n_bad=400)
    weight = np.zeros(1500)
    weight[350:420] = 1
    some = CorrTensor((3, 3)).fit(X, sample_weight=weight)
    alone = CorrTensor((3, 3)).fit(X[350:420])
    assert gap(some, alone) < 1e-6
    assert_allclose(some.weights_[350:420], alone.weights_, atol=1e-6)


def test_two_of_many_samples_that_count():
    X = low_rank(600)
    weight = np.zeros(600)
    weight[[5, 77]] = 1
    for reject in ("unexplained", "minority"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RejectionWarning)
            model = CorrTensor((1, 1), reject=reject).fit(X, sample_weight=weight)
        assert np.isfinite(model.factors_[0]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_a_mean_the_origin_stays_where_it_is(dtype):
    """Data far from zero: the centre of GLRAM is zero all the same."""
    rng = np.random.default_rng(1)
    X = (100 + rng.normal(size=(50, 6, 5))).astype(dtype)
    model = make("GLRAM", (2, 2), tol=1e-12, max_iter=500).fit(X)
    assert not model.mean_.any()
    L, R = (np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in (6, 5))
    Y = X.astype(float)
    for _ in range(500):
        L = np.linalg.eigh(sum(x @ R @ R.T @ x.T for x in Y))[1][:, -2:]
        R = np.linalg.eigh(sum(x.T @ L @ L.T @ x for x in Y))[1][:, -2:]
    cost = np.square(Y - L @ L.T @ Y @ R @ R.T).sum()
    assert_allclose(model.residuals_.sum(), cost, rtol=1e-6 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("ranks", [0.9, "auto"])
def test_a_plain_mean_is_plain_whatever_the_ranks(images, ranks):
    for model in (make("R1-2DSVD", ranks), CorrTensor(ranks, center="plain")):
        assert_allclose(model.fit(images).mean_, images.mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("scale", [1e-25, 3e-23, 1e-12, 1e12, 1e20])
def test_float32_of_any_size(images, scale):
    X = images.astype(np.float32)
    one, other = CorrTensor((3, 2)).fit(X), CorrTensor((3, 2)).fit(X * np.float32(scale))
    assert gap(one, other) < 1e-4
    assert_allclose(one.weights_, other.weights_, atol=1e-3)


@pytest.mark.parametrize("size", [1e-200, 1e40, 1e300])
def test_sample_weights_of_any_size(images, size):
    weight = np.linspace(1, 2, len(images))
    for dtype in (np.float32, np.float64):
        X = images.astype(dtype)
        one = CorrTensor((3, 2)).fit(X, sample_weight=weight)
        other = CorrTensor((3, 2)).fit(X, sample_weight=weight * size)
        assert gap(one, other) < (1e-8 if dtype == np.float64 else 1e-3)


def test_copies_of_one_sample_are_contested():
    X = low_rank(120)
    assert len(CorrTensor((3, 3)).fit(X).diagnostics_["contested"]) == 0
    X[:40] = X[0] + 0.001 * np.random.default_rng(2).normal(size=(40, 40, 30))
    with pytest.warns(RejectionWarning, match="copies of one another"):
        model = CorrTensor((3, 3)).fit(X)
    # They are looked for among a hundred samples.
    contested = model.diagnostics_["contested"]
    assert len(contested) >= 30
    assert contested.max() < 40


@pytest.fixture
def searched(monkeypatch):
    """The names of the parts of the search that were run."""
    run = []
    for name in ("grow", "distrusted"):
        part = getattr(starts, name)

        def noting(*given, name=name, part=part, **named):
            run.append(name)
            return part(*given, **named)

        monkeypatch.setattr(starts, name, noting)
    return run


@pytest.fixture(scope="module")
def faces():
    small = load_faces()
    return small.images[small.target == 1]


def test_the_search_ends_at_once_when_nothing_is_masked(searched, faces):
    model = CorrTensor((15, 15)).fit(faces)
    assert searched == ["grow"]
    assert (model.weights_ > 0.5).all()


def test_the_search_goes_on_when_outliers_hold_the_start(searched, faces):
    X, bad = block_outliers(faces, 0.45, np.random.default_rng(1))
    model = CorrTensor((15, 15)).fit(X)
    assert searched[0] == "grow"
    assert searched.count("grow") >= 3
    assert "distrusted" in searched
    error = model.residuals(X[~bad]).mean()
    assert error < 1.02 * make("MPCA", (15, 15)).fit(X[~bad]).residuals_.mean()


@pytest.mark.parametrize(
    ("copied", "held"), [(1 << 24, 1 << 26), (0, 1 << 26), (0, 0), (9000, 9000)]
)
@pytest.mark.parametrize("kind", ["memory", "memmap", "zarr"])
def test_chosen_samples_are_those(copied, held, kind, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "WORTH_COPYING", copied or 1)
    monkeypatch.setattr(sources, "WORTH_HOLDING", held)
    X = np.random.default_rng(0).normal(size=(40, 6, 5)).astype(np.float32)
    array = X
    if kind == "memmap":
        X.tofile(tmp_path / "x")
        array = np.memmap(tmp_path / "x", np.float32, "r", shape=X.shape)
    elif kind == "zarr":
        array = pytest.importorskip("zarr").create_array(tmp_path / "x", data=X, chunks=(7, 6, 5))
    drawn = np.array([0, 3, 4, 17, 39])
    source = Source(array, origin=np.full((6, 5), 0.5), unit=2.0, n_jobs=1, block_size=2)
    part = source.chosen(drawn)
    assert part.block_size == 2
    rows = np.concatenate([x for _, _, x in part.blocks(0, 5)])
    assert_allclose(rows, (X[drawn] - 0.5) / 2, rtol=1e-6)
    assert part.in_memory == (kind == "memory" or held > 0)


def test_a_search_needs_no_subspace_of_all_samples(images, monkeypatch):
    """2DSVD of everything was the dearest pass of a large fit, and nothing came of it."""

    def refused(*given, **known):
        raise AssertionError("2DSVD of all samples")

    expected = CorrTensor((3, 2)).fit(images)
    monkeypatch.setattr("corrtensor.corr_tensor.spectral", refused)
    assert np.array_equal(CorrTensor((3, 2)).fit(images).weights_, expected.weights_)
    with pytest.raises(AssertionError, match="2DSVD"):
        CorrTensor((3, 2), init="2dsvd").fit(images)


def test_a_huge_width_has_a_square(images):
    """Samples have small weights beside the nearest ones, however wide the loss is."""
    model = CorrTensor((3, 2), alpha=1.5, beta=1e160, reject="minority")
    assert np.isfinite(model.fit(images).weights_).all()


def test_what_is_apart_counts_by_its_weight():
    """Two samples of weight 20 are forty samples."""
    s, kept = np.r_[np.ones(100), 3.0, 3.0, 90.0, 90.0], np.r_[np.ones(100), np.zeros(4)]
    fit = starts.Solution(
        mean=np.zeros(1), factors=(), weights=kept, residuals=s, objective=np.zeros(1), n_iter=1,
        status="converged", loss=Correntropy(unit=0.5), state=None,
    )  # fmt: skip
    assert not starts.leaves_apart(fit, None)
    assert starts.leaves_apart(fit, np.r_[np.ones(102), 20.0, 20.0])
    assert not starts.leaves_apart(fit, np.r_[np.ones(100), np.zeros(4)])
