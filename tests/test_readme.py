"""The README's Python runs, and the links of all pages lead somewhere."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

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
