"""Callbacks after every sweep: the user's own and scikit-learn's."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from corrtensor import CorrTensor, make

SETTINGS = {"tol": 1e-12, "max_iter": 40}


@pytest.mark.parametrize("name", ["Corr-Tensor", "MPCA", "R1-Tensor"])
def test_a_callback_sees_every_sweep_of_the_result(images, name):
    seen = []
    model = make(name, (3, 2), callback=lambda *a: seen.append(a), **SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(images)
    sweeps, objective, counts, seconds = map(np.array, zip(*seen, strict=True))
    # The last sweep may have been taken back; then its value is seen again.
    assert sweeps[: model.n_iter_].tolist() == list(range(1, model.n_iter_ + 1))
    assert_allclose(objective[: model.n_iter_], model.objective_, rtol=0)
    assert np.all((counts >= 1) & (counts <= len(images)))
    assert np.all(np.diff(seconds) >= 0)
    if name == "MPCA":
        assert_allclose(counts, len(images))


def test_a_callback_ends_the_fit_without_a_warning(images):
    start = {"scale": "median"}
    stop = CorrTensor((3, 2), callback=lambda sweep, *_: sweep == 2, **start, **SETTINGS)
    model = stop.fit(images)
    assert (model.n_iter_, model.converged_) == (2, False)
    with pytest.warns(ConvergenceWarning, match="max_iter=2 sweeps"):
        short = CorrTensor((3, 2), tol=1e-12, max_iter=2, **start).fit(images)
    assert_allclose(model.weights_, short.weights_, rtol=1e-12)


def test_a_callback_that_fails_leaves_the_model_as_it_was(images):
    model = CorrTensor((3, 2)).fit(images)
    before = model.weights_
    model.set_params(callback=lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(images[::-1])
    assert model.weights_ is before


def test_a_callback_changes_nothing_and_survives_clone(images):
    watched = clone(CorrTensor((3, 2), callback=print_nothing)).fit(images)
    assert watched.callback is print_nothing
    assert np.array_equal(watched.weights_, CorrTensor((3, 2)).fit(images).weights_)


def print_nothing(*_):
    return None


def test_what_is_no_callback_is_refused(images):
    with pytest.raises(TypeError, match="callback=5"):
        CorrTensor((3, 2), callback=5).fit(images)


def test_scikit_learn_callbacks_see_the_sweeps(images):
    pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has no callbacks")

    class Count:
        def __init__(self):
            self.events = []

        def setup(self, estimator, context):
            self.events.append("setup")

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.events.append(context.task_name)

        def teardown(self, estimator, context):
            self.events.append("teardown")

    count = Count()
    model = CorrTensor((3, 2)).set_callbacks(count).fit(images)
    sweeps = count.events.count("sweep")
    assert model.n_iter_ <= sweeps <= model.n_iter_ + 1
    assert count.events[0] == "setup"
    assert count.events[-2:] == ["fit", "teardown"]
    count.events.clear()
    with pytest.raises(ValueError, match="identical"):
        model.fit(np.ones((9, 4, 3)))
    assert count.events == ["setup", "teardown"]


def test_verbose_prints_the_sweeps_and_the_end(images, capsys):
    CorrTensor((3, 2)).fit(images)
    assert capsys.readouterr().out == ""
    model = CorrTensor((3, 2), verbose=True).fit(images)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.startswith("CorrTensor: sweep 1 of at most 100, objective ")
    assert last == (
        f"CorrTensor converged in {model.n_iter_} sweeps; "
        f"{(model.weights_ < 0.5).sum()} of 60 samples have a weight below one half"
    )


def test_verbose_leaves_the_callback_its_say(images, capsys):
    seen = []
    model = CorrTensor(
        (3, 2), verbose=True, tol=0.0, callback=lambda *told: seen.append(told) or len(seen) == 2
    ).fit(images)
    assert model.n_iter_ == len(seen) == 2
    assert "was stopped by its callback after 2 sweeps" in capsys.readouterr().out
