"""The demo: its numbers against brute force, its table in the README, its command, its figure."""

import json
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from typer.testing import CliRunner

from corrtensor import cli
from corrtensor.datasets import load_faces
from corrtensor.demo import origin, rows, run_demo
from corrtensor.demo.cases import ORACLE, RANKS, cases
from corrtensor.demo.figure import draw_demo, save_figure
from corrtensor.methods import make

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def results():
    return run_demo(seed=0)


def test_numbers_agree_with_brute_force(results):
    for result in results:
        X, bad = result.case.X, result.case.is_outlier
        oracle = make(ORACLE, RANKS).fit(X[~bad]).residuals(X[~bad]).mean()
        for fit in result.fits:
            s = fit.residuals
            ahead = s[bad][:, None] > s[~bad][None]
            assert fit.auc == pytest.approx(ahead.mean(), abs=1e-12)
            limit = np.sort(s)[-bad.sum()]
            assert fit.found == np.count_nonzero(s[bad] >= limit)
            assert fit.error == pytest.approx(s[~bad].mean(), rel=1e-12)
            assert fit.times_oracle == pytest.approx(fit.error / oracle)
            distance = np.square(X[result.shown] - fit.reconstructions).sum(axis=(1, 2))
            assert_allclose(distance, s[result.shown], rtol=1e-9)


def test_nobody_beats_the_oracle(results):
    # The oracle minimises this very error, up to its stopping rule.
    assert min(row["times_oracle"] for row in rows(results)) > 1 - 1e-5


def test_corr_tensor_is_next_to_the_oracle_where_residuals_can_tell(results):
    for result in results:
        plain, r1, robust = (fit.times_oracle for fit in result.fits)
        if result.case.outliers == "30 non-faces":
            assert robust < 1.02
            continue
        assert robust < r1 < plain
        assert result.fits[-1].found == result.case.is_outlier.sum()
        if result.case.outliers != "30 part covered":
            assert robust < 1.01


def test_good_faces_are_the_real_ones_and_seeds_matter():
    first, again, other = (list(islice(cases(seed), 3)) for seed in (0, 0, 1))
    assert_array_equal(first[0].X[~first[0].is_outlier], load_faces().images[:100])
    for a, b, c in zip(first, again, other, strict=True):
        assert_array_equal(a.X, b.X)
        assert a.X.shape == c.X.shape
        assert not np.array_equal(a.X, c.X)


def test_readme_shows_the_table_the_demo_prints(results):
    number = r"(\d+\.\d{3})"
    line = rf"(\S+)\s+{number}\s+{number}\s+(\d+)/(\d+)\s+{number}$"
    printed = re.findall(line, (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(printed) == len(rows(results)), "paste what `corrtensor demo` prints"
    for (method, error, times, found, total, auc), row in zip(printed, rows(results), strict=True):
        assert (method, int(found), int(total)) == (row["method"], row["found"], row["n_outliers"])
        # One unit of the last digit: another BLAS may round the other way.
        shown = [float(error), float(times), float(auc)]
        assert_allclose(shown, [row["error"], row["times_oracle"], row["auc"]], atol=1.1e-3)


@pytest.fixture
def call(results, monkeypatch):
    """Call the command line on one result that is already there."""
    monkeypatch.setattr("corrtensor.demo.run_demo", lambda seed: results[:1])
    return lambda *arguments: CliRunner().invoke(cli.build_app(), arguments)


def test_command_prints_a_table_and_saves_a_figure(call, results, tmp_path):
    out = tmp_path / "demo.png"
    answer = call("demo", "--out", str(out))
    assert answer.exit_code == 0, answer.output
    for row in rows(results[:1]):
        assert f"{row['method']} " in answer.output
        assert f"{row['error']:.3f}" in answer.output
    assert "…" not in answer.output
    assert out.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]


def test_json_carries_its_origin(call, results, tmp_path):
    answer = call("demo", "--json", "--seed", "7", "--out", str(tmp_path / "demo.svg"))
    record = json.loads(answer.stdout)
    assert record["rows"] == rows(results[:1])
    assert record["origin"]["seed"] == 7
    assert {"python", "numpy", "corrtensor"} <= set(record["origin"]["versions"])


@pytest.mark.parametrize("name", ["demo.xyz", "nowhere/demo.png"])
def test_a_wrong_call_is_refused_before_any_work(call, tmp_path, name):
    answer = call("demo", "--out", str(tmp_path / name))
    assert answer.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_to_install(call, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    answer = call("demo", "--out", str(tmp_path / "demo.png"))
    assert answer.exit_code == 2
    said = "corrtensor: the demo needs matplotlib: pip install 'corrtensor[demo]' ("
    assert answer.stderr.startswith(said)
    assert "\\n" not in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_written_leaves_nothing_behind(call, tmp_path):
    (tmp_path / "demo.png").mkdir()
    answer = call("demo", "--force", "--out", str(tmp_path / "demo.png"))
    assert answer.exit_code == 1
    assert "demo.png: Is a directory" in answer.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]


def test_a_failed_save_keeps_the_old_file(results, tmp_path, monkeypatch):
    figure, out = draw_demo(results[:1], origin(0)), tmp_path / "demo.png"
    out.write_text("old")

    def fail(path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="No space"):
        save_figure(figure, out)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["demo.png"]


def test_figure_labels_every_case_and_marks_outliers_by_more_than_colour(results):
    figure = draw_demo(results, origin(0))
    words = "\n".join(text.get_text() for text in figure.texts)
    titles = [axes.get_title() for axes in figure.axes]
    for result in results:
        assert result.case.outliers in words
    assert "--seed 0" in words
    rejected = [title for title in titles if title.startswith(("good: ", "outlier: "))]
    assert len(rejected) == 8 * len(results)
    assert sum(title.startswith("good") for title in rejected) == 8


def test_without_typer_the_command_says_how_to_install_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert "pip install 'corrtensor[cli]'" in capsys.readouterr().err


def test_help_needs_nothing_heavy():
    # The package itself is stubbed: this is about what the command line asks for.
    code = f"""
import sys, types
package = types.ModuleType("corrtensor")
package.__path__ = [{str(Path(cli.__file__).parents[1])!r}]
sys.modules["corrtensor"] = package
from corrtensor import cli
try:
    cli.build_app()(["demo", "--help"])
except SystemExit as stopped:
    assert stopped.code == 0
heavy = {{"numpy", "scipy", "sklearn", "matplotlib", "skimage", "mlxtend"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)
