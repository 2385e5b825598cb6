"""The README's Python and commands run, and the links of all pages lead somewhere."""

import inspect
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import corrtensor as ct
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
    assert names["X"].shape == names["clean"].shape == (240, 8, 8)
    assert set(np.flatnonzero(names["model"].weights_ < 0.5)) == set(
        np.flatnonzero(names["is_outlier"])
    )
    assert names["is_outlier"][names["suspects"]].mean() >= 0.9
    assert len(names["reasons"]) == 40
    assert names["pipeline"].score(names["digits"], names["y"]) > 0.9


def first_screen():
    """The install line of the README and the first Python after it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shell, code = (
        re.search(rf"^```{kind}\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[1]
        for kind in ("sh", "python")
    )
    return shlex.split(shell, comments=True), code


def test_first_lines_need_no_extra(tmp_path):
    """As after the install line: nothing that only an extra brings can be imported."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    users = ("plot", "report", "cli", "data", "io", "video", "dask")
    names = {re.match(r"[\w-]+", need)[0] for extra in users for need in extras[extra]}
    modules = {"pillow": "PIL", "scikit-image": "skimage"}
    missing = {modules.get(name, name) for name in names}
    assert {"PIL", "skimage", "matplotlib", "typer", "xarray"} <= missing
    block = f"import sys\nsys.modules.update(dict.fromkeys({sorted(missing)}))\n"
    command = [sys.executable, "-c", block + first_screen()[1]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "40 of 40 outliers found\n"


@pytest.mark.slow
def test_a_newcomer_in_an_empty_environment(tmp_path):
    """The install line, then the first lines of Python; needs a package index."""
    install, code = first_screen()
    assert install[:2] == ["pip", "install"]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "new"], check=True)
    python = tmp_path / "new" / "bin" / "python"
    subprocess.run([python, "-m", *install], cwd=ROOT, check=True, timeout=500)
    (tmp_path / "first.py").write_text(code, encoding="utf-8")
    command = [python, "first.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "40 of 40 outliers found\n"


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
        "mended",
        "replaced",
    }
    assert {path.name for path in tmp_path.iterdir()} == made | {"faces", "new-faces", "names.csv"}
    assert np.load("cores.npy").shape == (24, 20, 20)
    assert len(list((tmp_path / "clean").rglob("*.png"))) == 84
    first = (tmp_path / "outliers.csv").read_text(encoding="utf-8").splitlines()[1:5]
    assert all("noise" in row for row in first)


def test_both_commands_are_on_the_first_screen():
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:30]
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


# Words of our own that the field has another one for; the changelog tells what was renamed.
OLD_WORDS = re.compile(
    r"reject=|\"unexplained\"|by=\W?profile|contested|c[ao]mes? to rest|mode whole|whole mode"
    r"|share of (?:the )?energy|leverage="
)


def user_texts():
    """What a user reads: README, pages, docstrings of public names, help of the commands."""
    templates = (ROOT / "src/corrtensor/report/templates").glob("*.html")
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*"), *templates):
        if page.is_file() and page.name != "changelog.md":
            yield page.name, page.read_text(encoding="utf-8")
    for name in ct.__all__:
        thing = getattr(ct, name)
        yield name, inspect.getdoc(thing)
        if isinstance(thing, type):
            methods = inspect.getmembers(thing, inspect.isfunction)
            yield from ((f"{name}.{method}", inspect.getdoc(f)) for method, f in methods)
    app = build_app()
    for command in app.registered_commands:
        found = CliRunner().invoke(app, [command.name or command.callback.__name__, "--help"])
        assert found.exit_code == 0
        yield command.name, found.output


def test_words_are_those_of_the_field():
    texts = [(name, text) for name, text in user_texts() if text]
    assert len(texts) > 100
    assert [(name, OLD_WORDS.findall(text)) for name, text in texts if OLD_WORDS.search(text)] == []
