"""Whatever the shape of the samples and the numbers asked for: descent, weights, factors.

These are the promises that hold for *every* call: DESIGN section 7 states them for any alpha, p
and beta. Warnings that too few samples count, or that sweeps ended early, are legitimate here.
"""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from corrtensor import CorrTensor, MultilinearSubspace, RejectionWarning
from corrtensor.losses import Power

# Largest side of a sample of each order.
SIDES = {1: 12, 2: 8, 3: 5, 4: 4}
# The same draws in every run, and no database: a failure is a failure everywhere.
steady = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def stacks(draw):
    """Samples of order 1 to 4 near a subspace, some of them spoiled, and ranks for them."""
    order = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, SIDES[order])) for _ in range(order))
    ranks = [draw(st.none() | st.integers(1, a)) for a in shape]
    if all(k is None for k in ranks):
        ranks[0] = draw(st.integers(1, shape[0]))
    n = draw(st.integers(4, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    common = rng.normal(size=(3, *shape))
    X = np.tensordot(rng.normal(size=(n, 3)), common, axes=1)
    X += draw(st.sampled_from([0.0, 0.01, 1.0])) * rng.normal(size=X.shape)
    bad = rng.permutation(n)[: draw(st.integers(0, n // 2))]
    X[bad] = draw(st.sampled_from([0.0, 1.0, 50.0])) * rng.normal(size=(len(bad), *shape))
    if draw(st.booleans()):
        X[0] = X[1]
    return draw(st.sampled_from([1e-6, 1.0, 1e6])) * X, tuple(ranks)


numbers = st.fixed_dictionaries(
    {
        "alpha": st.floats(0.1, 50.0, exclude_min=True),
        "p": st.floats(0.1, 20.0, exclude_min=True),
        "beta": st.floats(0.01, 100.0),
        "scale": st.sampled_from(["auto", "median", None, 0.3, 40.0]),
    }
)
habits = st.fixed_dictionaries(
    {
        "center": st.sampled_from(["weighted", "plain", None]),
        "breakdown": st.floats(0.0, 0.5),
    }
)


def fitted(model, X):
    """Fit, with the two warnings that any numbers may call for and no other."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RejectionWarning)
        return model.fit(X)


def check_promises(model, X):
    """Descent, weights, factors, and nothing that is not finite."""
    objective = model.objective_
    assert np.isfinite(objective).all()
    rises = np.diff(objective)
    assert (rises <= 1e-10 * np.abs(objective[:-1])).all(), rises / np.abs(objective[:-1])

    w = model.weights_
    assert w.shape == (len(X),)
    assert np.isfinite(w).all()
    assert w.min() >= 0
    assert w.max() == 1

    for U, size, k in zip(model.factors_, X.shape[1:], model.core_shape_, strict=True):
        if U is not None:
            assert U.shape == (size, k)
            assert_allclose(U.T @ U, np.eye(k), rtol=0, atol=1e-10)

    assert np.isfinite(model.mean_).all()
    assert np.isfinite(model.residuals_).all()
    assert model.residuals_.min() >= 0
    assert np.isfinite(model.inverse_transform(model.transform(X))).all()


@settings(steady, max_examples=150)
@given(stack=stacks(), numbers=numbers, habits=habits)
def test_any_numbers(stack, numbers, habits):
    X, ranks = stack
    check_promises(fitted(CorrTensor(ranks, max_iter=40, **numbers, **habits), X), X)


@settings(steady, max_examples=60)
@given(stack=stacks(), p=st.floats(0.1, 2.0), center=st.sampled_from(["weighted", "plain", None]))
def test_any_power(stack, p, center):
    X, ranks = stack
    model = MultilinearSubspace(ranks, loss=Power(p), center=center, max_iter=40)
    check_promises(fitted(model, X), X)


@pytest.mark.slow
@settings(steady, max_examples=5000)
@given(stack=stacks(), numbers=numbers, habits=habits)
def test_any_numbers_many_times(stack, numbers, habits):
    X, ranks = stack
    check_promises(fitted(CorrTensor(ranks, max_iter=40, **numbers, **habits), X), X)
