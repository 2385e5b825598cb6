"""The benchmark's bookkeeping: what is counted, what is compared, and failures that are rows."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from studies.bench import cases as bench
from studies.bench import dask_cases, memory_cases
from studies.bench.__main__ import main
from studies.bench.page import read_bench, speed_page


def test_nominal_operations_against_a_count_by_hand():
    N, a, b, k1, k2 = 3, 5, 4, 2, 3
    products = [(a, b, k2), (k1, a, k2), (a, k2, a), (k1, a, b), (b, k1, b)]
    assert bench.nominal_flops((N, a, b), (k1, k2)) == sum(
        2 * N * m * i * n for m, i, n in products
    )
    strict = bench.nominal_flops((N, a, b), (k1, k2), symmetric=0.5)
    assert strict == bench.nominal_flops((N, a, b), (k1, k2)) - N * (a * a * k2 + b * b * k1)


def test_a_peer_that_fails_is_a_row():
    def broken():
        raise RuntimeError("no such solver")

    times = bench.in_turns({"ours": lambda: None, "peer": broken}, 3)
    row = bench.compare("case", times, "peer", at_least=2)
    assert row.ratio is None
    assert row.ok is None
    assert row.note == "RuntimeError: no such solver"


@pytest.mark.parametrize(
    ("bars", "ratio", "ok"),
    [
        ({"at_least": 3}, 4.0, True),
        ({"at_least": 5}, 4.0, False),
        ({"at_most": 0.3}, 0.25, True),
        ({"at_most": 0.2}, 0.25, False),
        ({}, 4.0, None),
    ],
)
def test_bars(bars, ratio, ok):
    row = bench.compare("case", {"ours": 1.0, "peer": 4.0}, "peer", **bars)
    assert row.ratio == ratio
    assert row.ok is ok


def test_tasks_take_turns():
    order = []
    tasks = {name: lambda name=name: order.append(name) for name in "ab"}
    assert all(seconds >= 0 for seconds in bench.in_turns(tasks, 3).values())
    assert order == list("ababab")


def test_a_measured_fit_sweeps_on_however_little_changes(monkeypatch):
    """Long after the objective has converged, all sweeps that were asked for are run."""
    fitted, make = [], bench.make

    def keeping(*args, **options):
        fitted.append(make(*args, **options))
        return fitted[-1]

    monkeypatch.setattr(bench, "make", keeping)
    X = bench.draw((50, 6, 5), (2, 2), "float64")
    with pytest.warns(ConvergenceWarning):
        bench.sweeps_of("GLRAM", X, (2, 2), 50)()
    assert fitted[0].n_iter_ == 50


def test_a_fit_that_rests_early_is_no_measure_of_a_sweep(monkeypatch):
    class Resting:
        n_iter_ = 7

        def fit(self, X):
            return self

    monkeypatch.setattr(bench, "make", lambda *args, **options: Resting())
    with pytest.raises(RuntimeError, match="GLRAM converged in 7 of 50 sweeps"):
        bench.sweeps_of("GLRAM", np.ones((50, 6, 5)), (2, 2), 50)()


def test_the_sparse_file_has_its_size_and_some_noise(tmp_path):
    memory_cases.sparse_file(tmp_path / "x", 1000)
    X = np.memmap(tmp_path / "x", np.uint8, "r", shape=(1000, 100, 100))
    assert 300 < (X.reshape(1000, -1).max(axis=1) > 0).sum() <= 500


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 1), (None, 0)])
def test_the_command_prints_a_table_and_writes_records(ok, code, call_study, tmp_path, monkeypatch):
    row = bench.BenchRow("partial_tucker 64x64", "0.81 s", "33.9 s", 41.9, ">= 30", ok)
    monkeypatch.setattr(bench, "run_bench", lambda quick: iter([row]))
    points = [bench.Point("samples N", "MPCA", n, n / 1e3) for n in (10, 20)]
    monkeypatch.setattr(bench, "run_series", lambda quick: points)
    result = call_study(main, "--quick", "--out", str(tmp_path / "out"))
    assert result.exit_code == code
    assert "41.90" in result.stdout
    assert ("short" in result.stdout) == (ok is False)
    lines = [
        json.loads(line) for line in (tmp_path / "out" / "bench.jsonl").read_text().splitlines()
    ]
    assert "numpy" in lines[0]["origin"]["versions"]
    assert lines[1]["ratio"] == 41.9
    assert (tmp_path / "out" / "bench.png").stat().st_size > 1000
    assert "41.90" in (tmp_path / "out" / "speed.md").read_text(encoding="utf-8")


DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def recorded():
    return read_bench(DOCS / "records" / "bench.jsonl")


def test_the_page_is_what_its_record_says(recorded):
    assert (DOCS / "speed.md").read_text(encoding="utf-8") == speed_page(*recorded)


def test_nothing_failed_in_the_recorded_run(recorded):
    """Bars that were missed stand on the page as short; none may be missing."""
    barred = [row for row in recorded[1] if row["bar"]]
    assert len(barred) == 37
    assert [row["case"] for row in barred if row["ok"] is None] == []


def test_the_readme_quotes_the_record(recorded):
    readme = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    tucker, mpca, robust = (
        next(row["ratio"] for row in recorded[1] if words in f"{row['case']} {row['peer']}")
        for words in ("partial_tucker", "kalelinear.MPCA", "robust fit to convergence")
    )
    assert f"{tucker:.0f} times as fast as `tensorly.partial_tucker`" in readme
    assert f"{mpca:.1f} times as `kalelinear.MPCA`" in readme
    assert f"{robust:.1f} times as long as a plain one" in readme
    long, many = (
        next(row["ratio"] for row in recorded[1] if row["case"].startswith(f"PCA of {shape}"))
        for shape in ("4000x4096", "50000x300")
    )
    assert f"takes {1 / long:.1f} of the time of scikit-learn's, that of" in readme
    assert f"numbers {1 / many:.1f} of it." in readme


def test_a_peer_that_explains_less_is_a_row_that_says_so():
    """Of uncorrelated columns, the variances themselves are the shares."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    X = np.linalg.qr(X - X.mean(axis=0))[0] * [4, 2, 1, 0]
    found = {"ours": np.eye(4)[:, :2], "peer": np.eye(4)[:, 1:3]}
    row = dask_cases.variance_row(X, found, "peer")
    assert row.ratio == pytest.approx(20 / 5)
    assert (row.ours, row.ok) == ("95.24%", True)
    swapped = {"ours": found["peer"], "peer": found["ours"]}
    assert dask_cases.variance_row(X, swapped, "peer").ok is False
