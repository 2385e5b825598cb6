"""Many fits, fits beside each other, in forked children, and copies of what they found."""

import copy
import os
import pickle
import signal
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from corrtensor import CorrTensor
from corrtensor.methods import METHODS, make
from studies.torture.load import many_fits, parallel_fits


def test_many_fits_leave_nothing_behind():
    """Two fits of each method and more; ``make torture`` runs thousands."""
    figures = many_fits(60)
    assert figures["fits"] == 60
    assert figures["growth"] < 4 << 20
    assert figures["threads"] == figures["files"] == 0


@pytest.mark.slow
def test_a_thousand_fits():
    figures = many_fits(1000)
    assert figures["growth"] < 4 << 20
    assert figures["threads"] == figures["files"] == 0


@pytest.mark.parametrize("backend", ["threading", "multiprocessing"])
def test_fits_beside_each_other_give_the_serial_results(backend):
    assert parallel_fits(backend, 4) == 0


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "multiprocessing", "loky"])
def test_eight_fits_beside_each_other(backend):
    assert parallel_fits(backend) == 0


def ends(child, patience=300):
    """Wait for a child, and kill it if it does not end."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def test_a_fit_in_a_forked_child(images, tmp_path):
    """After the parent has fitted: its threads are not in the child."""
    whole = CorrTensor((3, 2), n_jobs=2, block_size=8).fit(images)
    child = os.fork()
    if child == 0:
        try:
            again = CorrTensor((3, 2), n_jobs=2, block_size=8).fit(images)
            np.save(tmp_path / "weights.npy", again.weights_)
        finally:
            os._exit(0)
    assert ends(child)
    assert_array_equal(np.load(tmp_path / "weights.npy"), whole.weights_)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],  # noqa: S301
    ids=["copy", "pickle"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_of_fitted_models(clean_images, name, duplicate):
    X = clean_images.reshape(60, -1) if name == "PCA" else clean_images
    model = make(name, 2).fit(X)
    again = duplicate(model)
    assert_array_equal(again.transform(X), model.transform(X))
    assert not hasattr(clone(model), "mean_")
    assert_array_equal(clone(model).fit(X).transform(X), model.transform(X))
