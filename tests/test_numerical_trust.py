"""Digits that survive: cancellation, condition, repeated runs, threads of BLAS."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import CorrTensor, make
from corrtensor.losses import Power
from corrtensor.subspace import MultilinearSubspace

extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 60, reason="long double has no more digits than double here"
)


def residuals_in_extended_precision(model, X):
    """Return ``|x - mean|^2 - |core|^2`` with 64 bits of mantissa."""
    d = X.astype(np.longdouble) - model.mean_.astype(np.longdouble)
    rest = d
    for mode, U in enumerate(model.factors_, start=1):
        U = U.astype(np.longdouble)
        # The factors as they are: orthonormal to double precision only.
        core = np.tensordot(rest, U, axes=(mode, 0))
        rest = np.moveaxis(np.tensordot(core, U, axes=(core.ndim - 1, 1)), -1, mode)
    return np.square(d - rest).reshape(len(X), -1).sum(axis=1)


def far_away(mean, spread, shape=(40, 7, 6), seed=0):
    rng = np.random.default_rng(seed)
    return mean * (1 + rng.random(shape[1:])) + spread * rng.normal(size=shape)


@extended
@pytest.mark.parametrize("mean", [0.0, 1e3, 1e6])
@pytest.mark.parametrize(
    "model",
    [CorrTensor((3, 2)), make("MPCA", (3, 2)), MultilinearSubspace((3, 2), loss=Power(1.0))],
    ids=["Corr-Tensor", "MPCA", "R1"],
)
def test_residuals_of_small_variation_about_a_large_mean(model, mean):
    """The samples vary in the ninth digit: naive differences of squares would have none left."""
    X = far_away(mean, 1e-3)
    model.fit(X)
    exact = residuals_in_extended_precision(model, X).astype(float)
    assert_allclose(model.residuals(X), exact, rtol=1e-6)
    # In the fit the mean has more digits than mean_ can hold: they cost half a unit each.
    lost = 2 * np.sqrt(X[0].size) * np.spacing(2 * mean) / np.sqrt(exact.min())
    assert_allclose(model.residuals_, exact, rtol=1e-6 + lost)


@extended
def test_an_almost_exact_fit_keeps_its_residuals():
    """Residuals 1e-9 of the samples: the difference of squares would be rounding alone."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(8, 2)), rng.normal(size=(7, 2))
    X = A @ rng.normal(size=(50, 2, 2)) @ B.T + 1e-9 * rng.normal(size=(50, 8, 7))
    model = make("MPCA", (2, 2)).fit(X)
    exact = residuals_in_extended_precision(model, X).astype(float)
    assert_allclose(model.residuals(X), exact, rtol=1e-5)


@pytest.mark.parametrize("condition", [1e2, 1e5])
def test_directions_of_very_different_strength(condition):
    """Against the singular vectors of the data: a scatter squares the condition, no more."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(9, 9)))[0]
    strength = np.geomspace(1, 1 / condition, 9)
    X = rng.normal(size=(200, 9)) * strength @ Q.T
    model = make("PCA", 4).fit(X)
    V = np.linalg.svd(X - X.mean(axis=0))[2][:4].T
    U = model.factors_[0]
    assert_allclose(U @ U.T, V @ V.T, atol=1e-15 * condition**2 + 1e-12)


def test_the_same_bits_again(images):
    a, b = CorrTensor((3, 2)).fit(images), CorrTensor((3, 2)).fit(images)
    for name in ("mean_", "weights_", "residuals_", "objective_"):
        assert_array_equal(getattr(a, name), getattr(b, name))
    for U, V in zip(a.factors_, b.factors_, strict=True):
        assert_array_equal(U, V)


def test_one_and_two_threads_of_blas_agree(tmp_path):
    """In fresh processes, where the library is told so before it starts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 12, 3)) @ rng.normal(size=(3, 40)) + 0.1 * rng.normal(
        size=(300, 12, 40)
    )
    X[:30] *= 20
    np.save(tmp_path / "X.npy", X)
    script = textwrap.dedent(
        """
        import sys
        import numpy as np
        from corrtensor import CorrTensor
        model = CorrTensor((5, 3)).fit(np.load("X.npy"))
        P = [U @ U.T for U in model.factors_]
        np.savez(sys.argv[1], *P, w=model.weights_, s=model.residuals_, m=model.mean_)
        """
    )
    for threads in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", script, f"{threads}.npz"],
            cwd=tmp_path, check=True, timeout=300,
            env={"OPENBLAS_NUM_THREADS": threads, "PATH": "/usr/bin"},
        )  # fmt: skip
    one, two = (np.load(tmp_path / f"{n}.npz") for n in "12")
    for name in one.files:
        assert_allclose(two[name], one[name], rtol=1e-10, atol=1e-10 * abs(one[name]).max())
