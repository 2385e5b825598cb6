"""Every code block of the pages is run, or is marked as output."""

import re
import runpy
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from corrtensor.cli import build_app
from corrtensor.io.writing import open_output
from studies.planted import planted

ROOT = Path(__file__).parents[1]
# Blocks of a page are fenced by three backquotes; the word behind them says what they are.
FENCE = re.compile(r"^(```+)([^\n`]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
# What is printed, stored or computed by hand, and what Sphinx reads itself.
OUTPUT = {"text", "json", "math"}
CODE = {"python", "sh"}
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/decisions/*.md")])
# Run by tests of their own: test_readme.py and test_contributing.py.
ELSEWHERE = {"README.md", "CONTRIBUTING.md"}
# They need a cluster of processes, which takes its time to start.
SLOW = {"docs/scaling.md"}


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page):
    """Yield the kind and the text of every block of a page."""
    for _, kind, text in FENCE.findall(page.read_text(encoding="utf-8")):
        yield kind.strip(), text


def pages_with_code():
    for page in PAGES:
        name = name_of(page)
        if name not in ELSEWHERE and any(kind in CODE for kind, _ in blocks(page)):
            yield pytest.param(page, id=name, marks=[pytest.mark.slow] if name in SLOW else [])


def prepare(name):
    """Put what a page takes for granted into the working folder."""
    if name == "docs/command-line.md":
        start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
        made = next(text for _, kind, text in FENCE.findall(start) if kind == "python")
        exec(compile(made, "start.md", "exec"), {})  # noqa: S102
        frames = np.random.default_rng(0).normal(128, 5, (20, 32, 32)).round()
        np.save(
            "cube.npy",
            np.where(np.arange(640).reshape(20, 1, 32) % 31 == 3, -9999, frames).astype(np.int16),
        )
        np.savez("frames.npz", frames)
        with open_output("clip.mp4", frames.shape, frames.dtype) as write:
            write(frames)
    if name == "docs/scaling.md":
        import zarr

        X, _ = planted(400, (64, 64), (20, 20), noise=0.1, rng=0)
        bytes_ = np.clip(128 + 20 * X, 0, 255).astype(np.uint8)
        zarr.create_array("big.zarr", data=bytes_, chunks=(100, 64, 64))


def run_python(text, names, folder, number):
    """Run a block with the names of those before it."""
    script = folder / f"block{number}.py"
    script.write_text(text, encoding="utf-8")
    return {**names, **runpy.run_path(str(script), init_globals=names)}


def run_line(line):
    """Run a line of shell if it is ours; else check that what it asks for exists."""
    words = shlex.split(line, comments=True)
    if not words:
        return ""
    if words[0] == "corrtensor":
        result = CliRunner().invoke(build_app(), words[1:])
        assert result.exit_code == 0, (line, result.output)
        return result.stdout
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        named = re.search(r"\[(.*)\]", words[2])
        extras = set(named[1].split(",") if named else [])
        assert extras <= set(project["optional-dependencies"]), line
    else:
        assert words[0] in ("python3", "."), f"{line}: nobody runs this"
    return ""


def rounded(text):
    """Return the words of an output; numbers to three digits, since machines differ in the last."""
    return [f"{float(w):.3g}" if re.fullmatch(r"\d+\.\d+", w) else w for w in text.split()]


@pytest.mark.parametrize("page", list(pages_with_code()))
def test_blocks_run_and_print_what_the_page_shows(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepare(name_of(page))
    names, said = {}, None
    for number, (kind, text) in enumerate(blocks(page)):
        capsys.readouterr()
        if kind == "python":
            names = run_python(text, names, tmp_path, number)
            said = capsys.readouterr().out
        elif kind == "sh":
            said = "".join(run_line(line) for line in text.splitlines())
        elif kind == "text":
            assert rounded(said) == rounded(text), f"{page.name}: block {number} shows other output"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_code_or_output(page):
    for kind, text in blocks(page):
        known = kind in CODE | OUTPUT or re.match(r"\{[a-z-]+\}", kind)
        assert known, f"{page.name}: mark what this block is:\n{text[:200]}"


def test_the_start_page_needs_at_most_ten_commands():
    start = ROOT / "docs" / "start.md"
    shell = [text for kind, text in blocks(start) if kind == "sh"]
    commands = [line for text in shell for line in text.splitlines() if line.strip()]
    assert 4 <= len(commands) <= 10
    assert commands[3].startswith("corrtensor outliers"), "the first result is the fourth command"


def test_every_command_has_its_help_on_the_page():
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\{command-help\} (\S+)$", page, re.MULTILINE)
    there = {
        command.name or command.callback.__name__ for command in build_app().registered_commands
    }
    assert set(shown) == there
