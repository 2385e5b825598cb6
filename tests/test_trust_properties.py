"""Whatever the samples: a ``ValueError`` or ``TypeError``, or a finite, orthonormal, same result.

Orders 1 to 4, sizes 1 to 40, 1 to 60 samples, all types and orders in memory, denormal and huge
numbers, constant, duplicated and rank-deficient samples, for every estimator.
"""

import math
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import (
    CorrentropyCenterClassifier,
    CorrTensor,
    DensityPeaksKMeans,
    MultilinearSubspace,
    SubspaceClassifier,
    TensorOutlierDetector,
)
from corrtensor.losses import Power
from corrtensor.methods import METHODS, make

# A sample has at most so many entries, or a test would take minutes.
CELLS = 2000
KINDS = ["noise", "constant", "duplicates", "low rank", "one differs", "zeros", "spikes"]
SCALES = [1.0, 1.0, 1e-320, 1e-300, 1e-160, 1e-20, 1e20, 1e150, 1e160, 1e308]
DTYPES = ["f8", "f8", "f4", "f2", "i1", "u1", "i4", "u8", "?", ">f8", "c16", "O"]
steady = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@st.composite
def stacks(draw, orders=(1, 2, 3, 4)):
    """Samples of any shape, type, order in memory and size of numbers."""
    shape: tuple[int, ...] = ()
    for _ in range(draw(st.sampled_from(orders))):
        most = max(1, min(40, CELLS // math.prod(shape)))
        shape += (draw(st.integers(1, most)),)
    n, kind = draw(st.integers(1, 60)), draw(st.sampled_from(KINDS))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, *shape))
    if kind == "constant":
        X[:] = X[0]
    elif kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 5), n)]
    elif kind == "low rank":
        X = np.tensordot(rng.normal(size=(n, 1)), X[:1], axes=1)
    elif kind == "one differs":
        X[1:] = X[0]
    elif kind == "zeros":
        X *= 0
    elif kind == "spikes":
        X.flat[rng.integers(0, X.size, 1 + X.size // 50)] *= 1e12
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        X = (X * draw(st.sampled_from(SCALES))).astype(draw(st.sampled_from(DTYPES)))
    layout = draw(st.sampled_from(["C", "F", "strided", "reversed"]))
    if layout == "F":
        X = np.asfortranarray(X)
    elif layout == "strided":
        X = np.repeat(X, 2, axis=0)[::2]
    elif layout == "reversed":
        X = X[::-1, ..., ::-1]
    return X


ranks = st.sampled_from([1, 2, 3, 0.5, 0.95, "auto"])


def outcome(model, X, *more):
    """Fit, and return the model, or ``None`` if it says what is wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for category in (UserWarning, DeprecationWarning):
            # That few samples count, that sweeps ended, that classes are many: all told in words.
            warnings.simplefilter("ignore", category)
        try:
            return model.fit(X, *more)
        except (ValueError, TypeError):
            return None


def check_subspace(model, X):
    """Finite, orthonormal."""
    tolerance = 1e-4 if model.mean_.dtype == np.float32 else 1e-8
    assert np.isfinite(model.mean_).all()
    for U in model.factors_:
        if U is not None:
            assert_allclose(U.T @ U, np.eye(U.shape[1]), rtol=0, atol=tolerance)
    for name in ("weights_", "residuals_"):
        values = getattr(model, name, np.zeros(1))
        assert np.isfinite(values).all()
        assert values.min() >= 0
    cores = model.transform(X)
    assert np.isfinite(cores).all()
    assert np.isfinite(model.inverse_transform(cores)).all()
    return cores


def check_twice(build, X):
    before = np.array(X)
    model = outcome(build(), X)
    assert_array_equal(X, before)
    again = outcome(build(), X)
    assert (model is None) == (again is None)
    if model is not None:
        assert_array_equal(check_subspace(model, X), check_subspace(again, X))


@settings(steady, max_examples=60)
@given(X=stacks(), k=ranks, center=st.sampled_from(["weighted", "plain", None]))
def test_corr_tensor(X, k, center):
    check_twice(lambda: CorrTensor(k, center=center, max_iter=15), X)


@pytest.mark.slow
@settings(steady, max_examples=1500)
@given(X=stacks(), k=ranks, center=st.sampled_from(["weighted", "plain", None]))
def test_corr_tensor_many_times(X, k, center):
    check_twice(lambda: CorrTensor(k, center=center, max_iter=15), X)


@settings(steady, max_examples=50)
@given(X=stacks(), k=ranks, p=st.sampled_from([0.5, 1.0, 2.0]))
def test_multilinear_subspace(X, k, p):
    check_twice(lambda: MultilinearSubspace(k, loss=Power(p), max_iter=15), X)


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"Corr-Tensor"}))
@settings(steady, max_examples=10)
@given(X=stacks(orders=(1, 2, 2, 2, 3)), k=ranks)
def test_every_method(name, X, k):
    check_twice(lambda: make(name, k), X)


@settings(steady, max_examples=15)
@given(X=stacks(orders=(1, 2, 3)), classes=st.integers(1, 4))
@pytest.mark.parametrize(
    "build",
    [
        CorrentropyCenterClassifier,
        SubspaceClassifier,
        TensorOutlierDetector,
        lambda: DensityPeaksKMeans(2, random_state=0),
    ],
)
def test_tasks(build, X, classes):
    y = np.arange(len(X)) % classes
    model = outcome(build(), X, y)
    again = outcome(build(), X, y)
    assert (model is None) == (again is None)
    if model is not None:
        assert_array_equal(model.predict(X), again.predict(X))
        assert len(model.predict(X)) == len(X)


def test_no_network():
    """Everything imported and a fit run with sockets forbidden: nothing asks for one."""
    script = textwrap.dedent(
        """
        import importlib, pkgutil, socket
        import asyncio, multiprocessing.connection

        class Forbidden(socket.socket):
            def connect(self, *args):
                raise AssertionError("the network was asked for")
            connect_ex = bind = sendto = connect

        def refuse(*args, **kwargs):
            raise AssertionError("a name was looked up")

        socket.socket, socket.getaddrinfo, socket.create_connection = Forbidden, refuse, refuse
        import corrtensor
        for module in pkgutil.walk_packages(corrtensor.__path__, "corrtensor."):
            if not module.name.endswith("__main__"):
                try:
                    importlib.import_module(module.name)
                except ImportError:
                    pass
        import numpy as np
        X = np.random.default_rng(0).normal(size=(30, 5, 4))
        corrtensor.TensorOutlierDetector(corrtensor.CorrTensor((2, 2))).fit(X).predict(X)
        print("done")
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "done\n", done.stderr[-2000:]
