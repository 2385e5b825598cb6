"""Tables of smooth rows, of which a whole band is missing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corrtensor as ct
from corrtensor._robust.cells import Model
from corrtensor._robust.learning import Learner

NOISE = 0.003


def spectra(seed, n=160, cells=150):
    """Mixtures of five kinds, and the same in noise; each shows in two places."""
    rng, at = np.random.default_rng(seed), np.linspace(0, 1, cells)

    def bands(*places):
        return np.exp(-0.5 * np.square((at - np.array(places)[:, None]) / 0.07))

    kinds = bands(0.1, 0.3, 0.5, 0.7, 0.9) + 0.5 * bands(0.6, 0.8, 0.95, 0.2, 0.4)
    truth = rng.lognormal(0, 0.5, (n, 5)) @ kinds
    return truth, truth + NOISE * rng.normal(size=truth.shape)


def left_out(model, X):
    d = X - model.mean_
    return np.square(d - d @ model.factors_[0] @ model.factors_[0].T).sum()


def torn(X, how, seed):
    """A third of the cells in a row is gone: anywhere in every sample, or the same in a third."""
    Y, width = X.copy(), X.shape[1] // 3
    if how == "the same":
        Y[::3, width : width + 20] = np.nan
        return Y
    first = np.random.default_rng([seed, 1]).integers(0, X.shape[1] - width + 1, len(X))
    for sample, k in zip(Y, first, strict=True):
        sample[k : k + width] = np.nan
    return Y


# With cells in doubt and more directions than there are kinds, what is in a third of every sample
# is not always told.
@pytest.mark.parametrize(("rank", "cells"), [(5, False), (10, False), (5, True)])
@pytest.mark.parametrize("how", ["anywhere", "the same"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_band_that_is_missing_is_told_by_the_rest(seed, how, rank, cells):
    truth, X = spectra(seed)
    Y = torn(X[:120], how, seed)
    gaps = np.isnan(Y)
    whole, model = (ct.CorrTensor(rank, cells=cells).fit(A) for A in (X[:120], Y))
    off = np.sqrt(np.square((model.repair(Y) - truth[:120])[gaps]).mean())
    # The median of the others is off by 0.3 and more.
    assert off < 3 * NOISE
    assert left_out(model, X[120:]) < 1.5 * left_out(whole, X[120:])


def overlapping(seed, n, noise=0.01):
    """Wide bands on a sloping base line, in noise."""
    rng, at = np.random.default_rng(seed), np.linspace(0, 1, 200)
    kinds = np.exp(-np.square(at - np.linspace(0.1, 0.9, 4)[:, None]) / 0.03)
    kinds = np.vstack([kinds, np.ones(200), at])
    return rng.gamma(2, 1, (n, 6)) @ kinds + noise * rng.normal(size=(n, 200))


def without(X, how, rng):
    """Gaps of whole bands: of each sample the one or the other, or the same one of most."""
    Y, few = X.copy(), rng.permutation(len(X))
    if how == "one of two":
        Y[few[::2], 20:60] = np.nan
        Y[few[1::2], 130:170] = np.nan
        return Y
    Y[few[: round(0.8 * len(X))], 80:120] = np.nan
    if how == "most, and cells":
        Y[rng.random(Y.shape) < 0.01] = np.nan
    return Y


# Errors of held-out spectra were 14 to 700 times those of whole ones.
@pytest.mark.parametrize("how", ["most", "most, and cells", "one of two"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_more_samples_tell_more_of_a_band_that_most_of_them_miss(seed, how):
    X = overlapping(seed, 600)
    Y = without(X[:400], how, np.random.default_rng([seed, 1]))
    whole, model = (ct.CorrTensor(6).fit(A) for A in (X[:400], Y))
    assert left_out(model, X[400:]) < 1.2 * left_out(whole, X[400:])


@pytest.mark.parametrize("seed", [0, 1])
def test_gaps_of_most_are_told_no_worse_than_by_the_whole_ones_alone(seed):
    X = overlapping(seed, 100)
    Y = without(X, "most", np.random.default_rng([seed, 1]))
    gaps = np.isnan(Y)
    alone = ct.CorrTensor(6).fit(X[~gaps.any(axis=1)])
    off = [np.square((m.repair(Y) - X)[gaps]).mean() for m in (ct.CorrTensor(6).fit(Y), alone)]
    # The trial of ranks costs a little; it was 500 times as much.
    assert off[0] < 2 * off[1]


def likelihood(X, mean, U, variance, noise):
    """Twice the logarithm of the likelihood of what is seen."""
    total = 0.0
    for x in X:
        seen = ~np.isnan(x)
        C = (U[seen] * variance) @ U[seen].T + noise * np.eye(seen.sum())
        d = (x - mean)[seen]
        total -= np.linalg.slogdet(C)[1] + d @ np.linalg.solve(C, d)
    return total


def learner_of(X, place=0.0):
    ones = np.ones(len(X))
    return Learner(X, ones, np.arange(len(X)), np.zeros(X.shape[1]), np.full(X.shape[1], place), 1)


def test_columns_are_what_those_tell_that_show_them():
    """Against EM of one column after the other, by loops; no step lowers the likelihood."""
    rng = np.random.default_rng(2)
    X = 1 + rng.normal(size=(40, 3)) @ rng.normal(size=(3, 9)) + 0.2 * rng.normal(size=(40, 9))
    X[rng.random(X.shape) < 0.3] = np.nan
    U, m, noise = np.linalg.qr(rng.normal(size=(9, 3)))[0], np.ones(9), 0.04
    for _ in range(5):
        variance = np.array([2.0, 1.0, 0.5])
        model = Model(m, (U,), X.dtype, noise / variance)
        Z, block = model.found(X)
        y = learner_of(X).by_columns(model, block.expected, noise)
        W, middle = np.empty((9, 3)), np.empty(9)
        seen = ~np.isnan(X)
        S = [noise * np.linalg.inv(U[v].T @ U[v] + np.diag(noise / variance)) for v in seen]
        for j in range(9):
            who = np.flatnonzero(seen[:, j])
            A, b = np.zeros((4, 4)), np.zeros(4)
            for i in who:
                z = np.append(Z[i], 1)
                A += np.outer(z, z)
                A[:3, :3] += S[i]
                b += X[i, j] * z
            *W[j], middle[j] = np.linalg.solve(A, b)
        assert_allclose(y, Z @ W.T + middle, rtol=1e-6, atol=1e-8)
        # What W says beside the same cores is the likelier one.
        before = likelihood(X, m, U, variance, noise)
        assert likelihood(X, middle, W, variance, noise) > before
        U, m = np.linalg.qr(W)[0], middle


def test_a_column_that_no_sample_shows_stays():
    rng = np.random.default_rng(2)
    X, U = rng.normal(size=(30, 6)), np.linalg.qr(rng.normal(size=(6, 2)))[0]
    X[:, 3] = np.nan
    model = Model(rng.normal(size=6), (U,), X.dtype, 0.1)
    F = model.found(X)[1].expected
    assert_allclose(learner_of(X).by_columns(model, F, 0.1)[:, 3], F[:, 3], rtol=1e-6)


@pytest.mark.parametrize("rank", [2, 6])
def test_cores_of_vectors_are_the_likeliest(rank):
    """Against least squares of each sample by itself, in which the prior is further equations."""
    rng = np.random.default_rng(rank)
    U = np.linalg.qr(rng.normal(size=(20, rank)))[0]
    mean, prior = rng.normal(size=20), rng.random(rank)
    X = mean + 3 * rng.normal(size=(9, rank)) @ U.T + 0.1 * rng.normal(size=(9, 20))
    X[rng.random(X.shape) < 0.4] = np.nan
    found = Model(mean, (U,), X.dtype, prior).found(X)[0]
    for x, z in zip(X, found, strict=True):
        seen = ~np.isnan(x)
        A = np.vstack([U[seen], np.diag(np.sqrt(prior))])
        b = np.concatenate([(x - mean)[seen], np.zeros(rank)])
        assert_allclose(z, np.linalg.lstsq(A, b)[0], rtol=1e-8, atol=1e-9)


def test_cores_that_no_cell_tells_are_the_usual_one():
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 3)))[0]
    X = np.full((2, 6), np.nan)
    X[1, 0] = 5.0
    Z, block = Model(np.zeros(6), (U,), X.dtype).found(X)
    assert_allclose(Z[0], 0)
    assert_allclose(block.x[1, 0], 5.0)
    assert np.isfinite(block.x).all()
