"""Data seen once, batch by batch. Approximate by design: the figures below say how close."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import CorrTensor, MultilinearSubspace, make
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.state import State
from corrtensor._engine.stream import Stream, absorb
from corrtensor.losses import Power

RANKS = (3, 2)


def world(seed):
    """Factors and a mean that samples are drawn around."""
    rng = np.random.default_rng(seed)
    L, R = (np.linalg.qr(rng.normal(size=s))[0] for s in [(12, 3), (9, 2)])
    return L, R, rng.normal(size=(12, 9))


def draw(rng, n, place, n_bad=0):
    L, R, mean = place
    X = mean + L @ (rng.normal(size=(n, 3, 2)) * [[3, 2], [2, 1.5], [1.5, 1]]) @ R.T
    X += 0.05 * rng.normal(size=X.shape)
    X[:n_bad] = 20 * rng.normal(size=(n_bad, 12, 9))
    return X


def gap(model, factors):
    """The largest sine between a model's factors and others."""
    return max(
        np.linalg.norm(U - V @ (V.T @ U), 2) for U, V in zip(model.factors_, factors, strict=True)
    )


@pytest.mark.parametrize("name", ["MPCA", "R1-Tensor", "Corr-Tensor"])
def test_a_stationary_stream_comes_close_to_the_batch_fit(name):
    rng, place = np.random.default_rng(1), world(0)
    X = draw(rng, 2000, place)
    batch = make(name, RANKS).fit(X)
    stream = make(name, RANKS)
    for part in np.split(X, 20):
        stream.partial_fit(part, decay=1.0)
    assert stream.n_samples_seen_ == 2000
    # Measured: up to 0.0005; the factors themselves are known to about 0.003.
    assert gap(stream, batch.factors_) < 2e-3
    assert_allclose(stream.residuals(X).sum(), batch.residuals(X).sum(), rtol=1e-4)
    assert_allclose(stream.mean_, batch.mean_, atol=0.02)
    # Of all that was seen, not of the last hundred.
    assert_allclose(stream.explained_variance_.sum(), batch.explained_variance_.sum(), rtol=0.01)
    # Entry by entry it is blurred where factors turn.
    assert_allclose(stream.explained_variance_, batch.explained_variance_, rtol=0.2)
    assert_allclose(stream.noise_variance_, batch.noise_variance_, rtol=0.01)


def absorbed(loss, U, recent, *batches):
    """The stream after some batches of vectors, all of them in the data's own units."""
    a = len(U)
    stream = Stream(np.zeros(a), 1.0, State(np.zeros(a), (U,)), recent)
    for X in batches:
        source = Source(X, origin=np.zeros(a), unit=1.0, n_jobs=1)
        stream, batch = absorb(stream, source, loss, "weighted", 1.0)
    return stream, batch


def test_of_vectors_the_whole_scatter_is_remembered():
    """Nothing is projected, so that batches with means of their own add up to all samples."""
    rng = np.random.default_rng(6)
    batches = [10 * rng.normal(size=6) + rng.normal(size=(n, 6)) for n in (40, 30, 50)]
    stream, _ = absorbed(Power(2.0), np.eye(6)[:, :2], np.ones(9), *batches)
    X = np.concatenate(batches)
    assert_allclose(stream.state.mean, X.mean(axis=0), rtol=1e-12)
    assert_allclose(stream.second[0], np.cov(X.T, bias=True) * 120, rtol=1e-10, atol=1e-8)
    assert stream.weight == 120
    V = np.linalg.svd(X - X.mean(axis=0))[2][:2].T
    assert_allclose(stream.state.factors[0] @ stream.state.factors[0].T, V @ V.T, atol=1e-10)


def test_no_sample_of_a_stream_outweighs_all_others():
    """One that is met exactly has the weight 1/0 by the R1 norm; it counts as a thousand."""
    X = np.random.default_rng(7).normal(size=(40, 6))
    X[0, 2:] = 0
    U = np.eye(6)[:, :2]
    recent = np.square(X[1:, 2:]).sum(axis=1)
    stream, batch = absorbed(Power(1.0), U, recent, X)
    assert batch.weights[0] == 1
    assert batch.weights[1:].max() < 1e-3
    usual = np.sqrt(np.median(recent) / recent).sum()
    assert_allclose(stream.weight, 1000 + usual, rtol=1e-9)


def test_outliers_of_later_batches_are_ignored():
    rng, place = np.random.default_rng(2), world(0)
    robust, plain = CorrTensor(RANKS), make("MPCA", RANKS)
    for _ in range(15):
        X = draw(rng, 100, place, n_bad=20)
        robust.partial_fit(X)
        plain.partial_fit(X)
        assert (robust.weights_[:20] < 1e-3).all()
    assert gap(robust, place[:2]) < 0.02
    assert gap(plain, place[:2]) > 0.2


def test_a_batch_of_nothing_but_outliers_changes_nothing():
    rng, place = np.random.default_rng(3), world(0)
    model = CorrTensor(RANKS).partial_fit(draw(rng, 200, place))
    before = model.factors_
    model.partial_fit(20 * rng.normal(size=(50, 12, 9)))
    assert gap(model, before) < 1e-6


@pytest.mark.parametrize("model", [MultilinearSubspace(RANKS), CorrTensor(RANKS)])
def test_a_drift_is_followed(model):
    rng, old, new = np.random.default_rng(4), world(0), world(1)
    for _ in range(10):
        model.partial_fit(draw(rng, 200, old), decay=0.7)
    assert gap(model, old[:2]) < 0.02
    for _ in range(25):
        model.partial_fit(draw(rng, 200, new), decay=0.7)
    assert gap(model, new[:2]) < 0.05


def test_what_a_stream_explains_includes_that_its_mean_moves():
    rng, place = np.random.default_rng(3), world(0)
    X = draw(rng, 400, place)
    step = place[0] @ np.array([[6, 0], [0, 0], [0, 0]]) @ place[1].T
    X[200:] += step + 0.5 * rng.normal(size=step.shape)
    batch, stream = make("MPCA", RANKS).fit(X), make("MPCA", RANKS)
    for part in np.split(X, 4):
        stream.partial_fit(part, decay=1.0)
    assert_allclose(stream.explained_variance_.sum(), batch.explained_variance_.sum(), rtol=0.02)
    assert_allclose(stream.noise_variance_, batch.noise_variance_, rtol=0.1)


def test_fit_ends_a_stream(make_samples):
    X = make_samples(2, n_bad=0)
    model = make("MPCA", RANKS).partial_fit(X).partial_fit(X)
    model.fit(X)
    fitted = make("MPCA", RANKS).fit(X)
    assert_allclose(model.factors_[0], fitted.factors_[0])


@pytest.mark.parametrize("shape", [(12, 9), (108,), (2500,)])
@pytest.mark.parametrize("name", ["MPCA", "Corr-Tensor"])
def test_a_stream_goes_on_from_a_fit(name, shape):
    """A small batch after a large fit moves little, and as much as after as large a first batch."""
    rng = np.random.default_rng(7)
    U = [np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in shape]

    def samples(n):
        X = rng.normal(size=(n, *(2 for _ in shape)))
        for m, u in enumerate(U):
            X = np.moveaxis(np.tensordot(X, u, (m + 1, 1)), -1, m + 1)
        return X + 0.05 * rng.normal(size=X.shape)

    ranks, first, batch = (2,) * len(shape), samples(400), samples(10)
    model = make(name, ranks).fit(first)
    before = model.factors_
    followed = make(name, ranks).partial_fit(first).partial_fit(batch)
    alone = make(name, ranks).fit(batch)
    model.partial_fit(batch)
    assert model.n_samples_seen_ == followed.n_samples_seen_ == 410
    assert gap(model, before) < 0.3 * gap(alone, before)
    assert gap(model, followed.factors_) < 0.2 * gap(alone, before)
    assert_allclose(model.mean_, followed.mean_, atol=0.01)


def test_a_batch_of_outliers_has_no_weight():
    rng, place = np.random.default_rng(3), world(0)
    model = CorrTensor(RANKS).partial_fit(draw(rng, 200, place))
    for n in (1, 20):
        model.partial_fit(20 * rng.normal(size=(n, 12, 9)))
        assert model.weights_.max() < 1e-3
    model.partial_fit(draw(rng, 20, place))
    assert model.weights_.max() == 1


def test_a_large_mode():
    rng = np.random.default_rng(5)
    U = np.linalg.qr(rng.normal(size=(2500, 3)))[0]
    model = make("MPCA", 3)
    for _ in range(6):
        X = rng.normal(size=(40, 3)) * [4, 3, 2] @ U.T + 0.01 * rng.normal(size=(40, 2500))
        model.partial_fit(X)
    assert gap(model, [U]) < 0.05


@pytest.mark.parametrize("decay", [0, -1, 1.5, np.nan])
def test_decay_out_of_range(decay, make_samples):
    with pytest.raises(ValueError, match="decay="):
        make("MPCA", RANKS).partial_fit(make_samples(2), decay=decay)


def test_a_bad_batch_leaves_the_stream_alone(make_samples):
    X = make_samples(2)
    model = CorrTensor(RANKS).partial_fit(X)
    before = dict(vars(model))
    bad = X.copy()
    bad[3, 2, 1] = np.inf
    with pytest.raises(ValueError, match="sample 3"):
        model.partial_fit(bad)
    with pytest.raises(ValueError, match="shape"):
        model.partial_fit(X[:, :5])
    assert vars(model) == before


def test_a_stream_keeps_the_reach_that_the_first_batch_settled_on(images):
    model = CorrTensor((3, 2)).partial_fit(images)
    model.loss_ = replace(model.loss_, reach=7.0)
    assert model.partial_fit(images).loss_.reach == 7.0


def test_a_first_batch_with_bad_cells_is_remembered():
    rng, place = np.random.default_rng(3), world(0)
    X = draw(rng, 200, place)
    X[rng.random(X.shape) < 0.03] = 50
    model = CorrTensor(RANKS, cells=True).partial_fit(X)
    assert model.weights_.sum() > 150
    before = model.factors_
    model.partial_fit(draw(rng, 10, place))
    assert gap(model, before) < 0.05


def test_what_a_fit_has_rejected_is_not_remembered():
    rng, place = np.random.default_rng(3), world(0)
    X = np.concatenate([draw(rng, 180, place), 20 * rng.normal(size=(120, 12, 9))])
    batch = draw(rng, 10, place)
    fitted = CorrTensor(RANKS).fit(X).partial_fit(batch)
    followed = CorrTensor(RANKS).partial_fit(X).partial_fit(batch)
    assert_allclose(fitted._stream.weight, followed._stream.weight, rtol=0.1)


@pytest.mark.parametrize("kind", ["list", "table", "xarray"])
def test_batches_with_gaps_come_in_any_container(kind):
    rng, place = np.random.default_rng(13), world(0)
    X = draw(rng, 60, place)
    X[rng.random(X.shape) < 0.1] = np.nan

    def given(rows):
        if kind == "xarray":
            return pytest.importorskip("xarray").DataArray(rows, dims=("time", "lat", "lon"))
        return rows.tolist() if kind == "list" else pd.DataFrame(rows.reshape(len(rows), -1))

    model = CorrTensor(RANKS, sample_shape=(12, 9) if kind == "table" else None)
    known = CorrTensor(RANKS)
    for rows in (X[:40], X[40:]):
        model.partial_fit(given(rows))
        known.partial_fit(rows)
    assert_array_equal(np.asarray(model.mean_), known.mean_)
    for U, V in zip(model.factors_, known.factors_, strict=True):
        assert_array_equal(np.asarray(U), V)
