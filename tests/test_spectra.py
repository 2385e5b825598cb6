"""Tables of smooth rows, of which a whole band is missing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import corrtensor as ct
from corrtensor._robust.cells import Model

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
