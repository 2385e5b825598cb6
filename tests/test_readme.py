"""The README's Python and commands run, and the links of all pages lead somewhere."""

import re
import runpy
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from corrtensor.cli import build_app
from corrtensor.datasets import load_faces

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_python_of_the_readme_runs(tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert blocks
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(script))
    assert names["X"].shape == names["clean"].shape == (130, 25, 25)
    assert set(names["suspects"]) == set(np.flatnonzero(names["is_outlier"]))
    assert all("noise-like" in why for why in names["reasons"])


def write_faces(folder, faces):
    """Write faces into two folders inside a folder, and four pictures of noise."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (4, *faces.shape[1:])).astype(np.uint8)
    for k, face in enumerate([*faces, *noise]):
        name = f"noise{k}.png" if k >= len(faces) else f"face{k}.png"
        where = folder / "ab"[k % 2]
        where.mkdir(parents=True, exist_ok=True)
        Image.fromarray(face).save(where / name)


def test_commands_of_the_readme_run(tmp_path, monkeypatch):
    """One after the other, as a reader would, on a folder of images."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).splitlines()
    calls = [shlex.split(line, comments=True) for line in lines if line.startswith("corrtensor ")]
    assert {call[1] for call in calls} >= {"outliers", "fit", "reconstruct", "transform", "cluster"}
    faces = np.clip(255 * load_faces().images[:100], 0, 255).astype(np.uint8)
    write_faces(tmp_path / "faces", faces[:80])
    write_faces(tmp_path / "new-faces", faces[80:])
    monkeypatch.chdir(tmp_path)
    for call in calls:
        result = CliRunner().invoke(build_app(), call[1:])
        assert result.exit_code == 0, (call, result.output)
    made = {
        "outliers.csv",
        "odd.html",
        "faces.ct",
        "faces.html",
        "clean",
        "cores.npy",
        "clusters.csv",
    }
    assert {path.name for path in tmp_path.iterdir()} == made | {"faces", "new-faces", "names.csv"}
    assert np.load("cores.npy").shape == (24, 20, 20)
    assert len(list((tmp_path / "clean").rglob("*.png"))) == 84
    first = (tmp_path / "outliers.csv").read_text(encoding="utf-8").splitlines()[1:5]
    assert all("noise" in row for row in first)


def test_both_commands_are_on_the_first_screen():
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def test_sections_that_the_code_points_to_exist():
    method = (ROOT / "docs" / "method.md").read_text(encoding="utf-8")
    sections = set(re.findall(r"^## (\d+)\. ", method, re.MULTILINE))
    pointed = set()
    for module in (ROOT / "src").rglob("*.py"):
        text = " ".join(module.read_text(encoding="utf-8").split())
        for numbers in re.findall(r"docs/method\.md`*,? \(?sections? (\d+(?: to \d+)?)", text):
            pointed |= set(re.findall(r"\d+", numbers))
    assert pointed
    assert pointed <= sections
