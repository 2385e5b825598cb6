"""The loss in 20 lines that CONTRIBUTING.md shows is a loss, and works."""

import inspect
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parents[1]


@pytest.fixture
def example(tmp_path, capsys):
    """What the page's Python blocks define when run as one script."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    script = tmp_path / "contributing_example.py"
    script.write_text("\n\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert capsys.readouterr().out == "True\n"
    return names


def test_it_is_twenty_lines_at_most(example):
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = re.search(r"^class GemanMcClure.*?^```", page, re.MULTILINE | re.DOTALL)[0].splitlines()
    assert len(lines) - 1 <= 20
    methods = [name for name, _ in inspect.getmembers(example["GemanMcClure"], inspect.isfunction)]
    assert {"value", "log_weight", "calibrate"} <= set(methods)


def test_its_weight_is_the_slope_of_its_value(example):
    loss = example["GemanMcClure"]().calibrate(np.array([1.0, 3.0, 8.0]))
    s = np.geomspace(1e-2, 1e3, 40)
    step = 1e-5 * s
    slope = (loss.value(s + step) - loss.value(s - step)) / (2 * step)
    # The error of a central difference with a relative step of 1e-5.
    assert_allclose(np.exp(loss.log_weight(s)), slope, rtol=1e-7)


def test_its_sweeps_descend_and_find_the_outliers(example):
    model, is_outlier = example["model"], example["is_outlier"]
    assert model.converged_
    assert (np.diff(model.objective_) <= 1e-10 * model.objective_[:-1]).all()
    assert set(np.argsort(model.weights_)[: is_outlier.sum()]) == set(np.flatnonzero(is_outlier))
