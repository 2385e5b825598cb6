"""The site: complete, without a dead link, and at home in a browser that has no network."""

import inspect
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import corrtensor as ct

ROOT = Path(__file__).parents[1]
DOCS, HTML = ROOT / "docs", ROOT / "docs" / "_build" / "html"
ARTEFACTS = ROOT / "test-artefacts" / "site"
MAIN = ["index", "start", "choosing", "command-line", "larger-than-memory", "background", "method"]
MAIN += [
    "robustness",
    "reproduction",
    "reliability",
    "scaling",
    "api/index",
    "api/generated/corrtensor.CorrTensor",
]
MAIN += ["auto_examples/index", "auto_examples/plot_03_faces", "contributing", "changelog"]
VIEWS = {
    "light": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1200, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "phone-dark": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"},
}


def public_names():
    """Return every public name, as written behind ``corrtensor.``."""
    names = []
    for name in ct.__all__:
        value = getattr(ct, name)
        names += [f"{name}.{n}" for n in value.__all__] if inspect.ismodule(value) else [name]
    return names


def test_every_public_name_has_an_entry():
    text = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    entries = set(re.findall(r"^   ([\w.]+)$", text, re.MULTILINE))
    entries |= set(re.findall(r"^\.\. py:data:: (\w+)$", text, re.MULTILINE))
    assert set(public_names()) <= entries


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            for entry in entries:
                name = re.sub(r".*<(.*)>$", r"\1", entry)
                listed |= set(page.parent.glob(f"{name}.md")) | set(page.parent.glob(f"{name}.rst"))
    sources = {*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md"), *DOCS.glob("api/*.rst")}
    assert sources - listed == {DOCS / "index.md"}


def test_examples_say_what_they_show():
    examples = sorted((ROOT / "examples").glob("plot_*.py"))
    assert len(examples) >= 13
    for path in examples:
        text = path.read_text(encoding="utf-8")
        assert re.match(r'"""\n(.+)\n=+\n\n', text), path.name
        assert "plt.show()" in text, path.name


@pytest.fixture(scope="module")
def site():
    """The built site; whatever did not change is not built again."""
    pytest.importorskip("sphinx", reason="make docs-test installs it")
    call = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(DOCS), str(HTML)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return HTML


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        self.loads |= {found[k] for k in ("src", "data-src") if found.get(k)}
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.add(found["href"])


@pytest.mark.slow
def test_links_of_the_built_site_resolve(site):
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert len(pages) > 60
    dead = []
    for path, page in pages.items():
        for target in page.links | page.loads:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto", "data"):
                assert target in page.links or parts.scheme == "data", f"{path}: loads {target}"
                continue
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[there].anchors if there in pages else None
            wrong = parts.fragment and anchors is not None and parts.fragment not in anchors
            if not there.is_file() or wrong:
                dead.append((path.relative_to(site).as_posix(), target))
    assert not dead


@pytest.mark.slow
def test_every_public_name_has_a_place(site):
    for name in public_names():
        page = site / "api" / "generated" / f"corrtensor.{name}.html"
        page = page if page.is_file() else site / "api" / "index.html"
        assert f"corrtensor.{name}" in Page(page).anchors, name


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    path = os.environ.get("CHROMIUM", next(filter(None, found), None)) or None
    if path is None and not os.environ.get("CI"):
        pytest.skip("no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", MAIN)
def test_pages_open_from_disk(site, browser, name, view):
    context = browser.new_context(**VIEWS[view])
    page, wrong = context.new_page(), []
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda r: wrong.append(f"failed: {r.url}"))
    local = ("file:", "data:", "blob:")
    page.on("request", lambda r: None if r.url.startswith(local) else wrong.append(r.url))
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_load_state("networkidle")
    if page.locator(".math").count():
        page.wait_for_selector("mjx-container svg")
        assert page.locator("mjx-merror, [data-mjx-error]").count() == 0
    broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
    assert page.evaluate(broken) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= VIEWS[view]["viewport"]["width"]
    theme = page.evaluate("document.documentElement.dataset.theme")
    assert theme == ("dark" if "dark" in view else "light")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name.replace('/', '-')}-{view}.png")
    context.close()
    assert not wrong


@pytest.mark.slow
def test_search_works_from_disk(site, browser):
    page = browser.new_page()
    page.goto((site / "search.html").as_uri() + "?q=breakdown")
    page.wait_for_selector("#search-results li")
    assert "Choosing" in page.locator("#search-results").text_content()
    page.close()
