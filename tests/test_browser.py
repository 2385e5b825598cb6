"""The pages in a real browser: Chromium, driven by Playwright, from a file on disk."""

import csv
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from numpy.testing import assert_array_equal
from PIL import Image, ImageFilter
from playwright.sync_api import sync_playwright
from sklearn.frozen import FrozenEstimator

import corrtensor as ct
from corrtensor._base.names import from_cell, printable
from corrtensor.report import write_page
from corrtensor.report.distances import distances
from corrtensor.report.outlier_page import write_outlier_page
from corrtensor.tasks.ranking import rank_samples

ARTEFACTS = Path(__file__).parents[1] / "test-artefacts"
EVIL = "<img src=x onerror=alert(1)>.png"
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "has_touch": True}
DESK = {"viewport": {"width": 1200, "height": 900}}


def find_chromium():
    found = (shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))
    return os.environ.get("CHROMIUM", next(filter(None, found), None)) or None


@pytest.fixture(scope="module")
def browser():
    path = find_chromium()
    if path is None and not os.environ.get("CI"):
        pytest.skip("no Chromium: apt-get install chromium, or set CHROMIUM to its path")
    assert path is not None, "CI needs Chromium: .ci/run installs it"
    with sync_playwright() as playwright:
        # Containers often lack what the sandbox needs; the page is our own.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def faces():
    """Faces and noise, a fitted model, and the index of the most unusual sample."""
    X, is_noise = ct.datasets.dummy_outliers(ct.datasets.load_faces().images[:80], 12, rng=0)
    return X, is_noise, ct.CorrTensor(ranks=(10, 10)).fit(X)


@pytest.fixture(scope="module")
def page_file(faces, tmp_path_factory):
    X, is_noise, model = faces
    names = [f"{'noise' if bad else 'face'}_{i:03d}.png" for i, bad in enumerate(is_noise)]
    detector = ct.TensorOutlierDetector(FrozenEstimator(model)).fit(X)
    names[int(detector.score_samples(X).argmin())] = EVIL
    return write_page(
        tmp_path_factory.mktemp("page") / "faces.html",
        model,
        X,
        names=names,
        labels=np.where(is_noise, "noise", "face"),
        title="Eighty faces, twelve of noise",
    )


@pytest.fixture
def visit(browser):
    """Open a page from disk; afterwards nothing may have gone wrong or out."""
    opened, wrong = [], []

    def go(path, **options):
        context = browser.new_context(**(options or DESK))
        opened.append(context)
        page = context.new_page()
        page.on("console", lambda m: wrong.append(m.text) if m.type != "log" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        address = path.as_uri()
        page.on(
            "request",
            lambda r: (
                wrong.append(r.url[:200])
                if r.url.split("#")[0] != address and not r.url.startswith("data:")
                else None
            ),
        )
        page.goto(address)
        return page

    yield go
    for context in opened:
        context.close()
    assert not wrong


def keep(page, name, *, whole=True):
    """Keep a screenshot for people to look at."""
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=whole)


def background(page):
    """Return how bright the page's background is, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return np.mean([int(v) for v in colour[4:-1].split(",")])


def column(page, name):
    cells = page.locator(f"tbody .{name}")
    return cells.evaluate_all("cells => cells.map(cell => cell.dataset.value)")


def test_it_opens_from_disk_without_errors_or_requests(visit, page_file):
    page = visit(page_file)
    assert page.title() == "Eighty faces, twelve of noise"
    broken = page.evaluate(
        "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    )
    assert broken == 0
    keep(page, "light")


def test_the_policy_forbids_the_network(browser, page_file):
    """The checks above would pass on a page that merely does not try."""
    page = browser.new_page()
    blocked = []
    page.on("console", lambda m: blocked.append(m.text))
    page.goto(page_file.as_uri())
    page.evaluate(
        "() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x'; document.body.append(i);"
        " const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        " document.body.append(s); return fetch('http://127.0.0.1:9/').catch(() => 0); }"
    )
    assert page.evaluate("window.ran") is None
    assert sum("Content Security Policy" in text for text in blocked) >= 3
    page.close()


@pytest.mark.parametrize("by", ["click", "keyboard"])
def test_the_table_sorts(visit, page_file, by):
    page = visit(page_file)
    before = [float(v) for v in column(page, "unusual")]
    assert before == sorted(before, reverse=True)

    def press(words):
        button = page.get_by_role("button", name=words, exact=True)
        if by == "click":
            button.click()
        else:
            button.focus()
            page.keyboard.press("Enter")

    press("Score distance")
    values = [float(v) for v in column(page, "score")]
    assert values == sorted(values, reverse=True)
    press("Score distance")
    assert [float(v) for v in column(page, "score")] == sorted(values)
    assert page.locator("th.score").first.get_attribute("aria-sort") == "ascending"
    press("Sample")
    names = column(page, "name")
    assert names == sorted(names, key=lambda n: (n[0].isalpha(), n))
    assert page.locator("[aria-sort]").count() == 1
    assert "Sample, ascending" in page.locator("#said").text_content()


def test_the_rest_of_the_table_is_one_press_away(visit, page_file):
    page = visit(page_file)
    rows = page.locator("tbody tr:visible")
    assert rows.count() == 10
    page.get_by_role("button", name="Show all 50").click()
    assert rows.count() == 50


def test_the_slider_changes_the_picture(visit, page_file):
    page = visit(page_file)
    picture, words = page.locator(".ladder .made").last, page.locator("#rank-words")
    slider = page.get_by_label("Ranks", exact=True)
    seen = {picture.get_attribute("src")}
    assert words.text_content().startswith("10 × 10: ")  # noqa: RUF001
    slider.focus()
    page.keyboard.press("ArrowLeft")
    seen.add(picture.get_attribute("src"))
    page.keyboard.press("Home")
    seen.add(picture.get_attribute("src"))
    assert len(seen) == 3
    assert words.text_content().startswith("1 × 1: ")  # noqa: RUF001
    assert "1 × 1" in slider.get_attribute("aria-valuetext")  # noqa: RUF001
    assert picture.evaluate("p => p.decode().then(() => p.naturalWidth)") == 25


@pytest.mark.parametrize("chart", ["map", "weights"])
def test_pointing_at_a_mark_shows_the_file_name(visit, page_file, chart):
    page = visit(page_file)
    drawn = page.locator(f"[data-chart={chart}]")
    drawn.scroll_into_view_if_needed()
    places = page.evaluate("JSON.parse(document.getElementById('data').textContent)")
    x, y = places["places"][chart]
    box, view = drawn.locator("svg").bounding_box(), (460, 330)
    for k in (0, 40, 85):
        at = box["x"] + x[k] * box["width"] / view[0], box["y"] + y[k] * box["height"] / view[1]
        page.mouse.move(*at)
        same = {places["name"][j] for j in range(len(x)) if (x[j], y[j]) == (x[k], y[k])}
        assert page.locator("#tip strong").text_content() in same
        assert page.locator("#tip").is_visible()
    if chart == "map":
        keep(page, "hover", whole=False)
    page.mouse.move(2, 2)
    assert page.locator("#tip").is_hidden()


def test_the_keyboard_goes_through_the_samples(visit, page_file):
    page = visit(page_file)
    chart = page.locator("[data-chart=map]")
    for _ in range(20):
        page.keyboard.press("Tab")
        if chart.evaluate("c => c === document.activeElement"):
            break
    name = page.locator("#tip strong")
    assert name.text_content() == EVIL
    page.keyboard.press("ArrowRight")
    second = name.text_content()
    assert second.startswith("noise_")
    assert chart.get_attribute("aria-valuetext").startswith(second)
    assert chart.get_attribute("aria-valuenow") == "2"
    page.keyboard.press("End")
    assert name.text_content().startswith("face_")
    page.keyboard.press("Home")
    assert name.text_content() == EVIL
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()


def test_dark_by_the_system_and_by_the_button(visit, page_file):
    page = visit(page_file, color_scheme="dark", **DESK)
    assert background(page) < 60
    keep(page, "dark")
    button = page.locator("#theme")
    assert button.text_content() == "Light theme"
    button.click()
    assert background(page) > 200
    page = visit(page_file, color_scheme="light", **DESK)
    assert background(page) > 200
    page.locator("#theme").focus()
    page.keyboard.press("Space")
    assert background(page) < 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_no_serious_fault(visit, page_file, scheme, options):
    page = visit(page_file, color_scheme=scheme, **options)
    page.get_by_role("button", name="Show all 50").click()
    found = Axe().run(page).response
    assert "color-contrast" in {rule["id"] for rule in found["passes"]}
    bad = [
        (v["id"], v["nodes"][0]["html"][:200])
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]
    assert not bad


@pytest.mark.parametrize("width", [320, 390])
def test_a_phone_needs_no_sideways_scrolling(visit, page_file, width):
    page = visit(page_file, **{**PHONE, "viewport": {"width": width, "height": 700}})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 390:
        keep(page, "phone")
        # A tap is as good as pointing.
        chart = page.locator("[data-chart=map]")
        chart.scroll_into_view_if_needed()
        box = chart.locator("svg").bounding_box()
        x, y = page.evaluate("JSON.parse(document.getElementById('data').textContent).places.map")
        scale = box["width"] / 460
        page.touchscreen.tap(box["x"] + x[85] * scale, box["y"] + y[85] * scale)
        assert page.locator("#tip strong").text_content()


def test_a_malicious_name_is_text(visit, page_file):
    page = visit(page_file)
    assert page.locator("tbody tr").first.locator("bdi").first.text_content() == EVIL
    assert EVIL in page.locator(".words").text_content()
    assert page.locator("img[src=x]").count() == 0


@pytest.mark.parametrize(
    "shape", [(30,), (16, 12, 3), (6, 12, 10)], ids=["line", "colour", "slices"]
)
def test_other_kinds_of_samples(visit, tmp_path, shape):
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*(np.linspace(0, 3, a) for a in shape), indexing="ij"))
    waves = np.sin(np.tensordot(rng.normal(size=(40, len(shape))), grid, axes=1))
    X = waves + 0.05 * rng.normal(size=(40, *shape))
    X[:3] = rng.normal(size=(3, *shape))
    model = ct.CorrTensor(ranks=tuple(min(4, a - 1) for a in shape)).fit(X)
    page = visit(write_page(tmp_path / "page.html", model, X, most=10))
    assert page.locator("tbody tr").count() == 10
    keep(page, f"order-{len(shape)}-{shape[-1]}")


@pytest.fixture(scope="module")
def torn():
    """Pictures of two directions each way, with covers, dead pixels and missing lines."""
    rng = np.random.default_rng(0)
    rows, columns = np.linspace(0, 3, 24), np.linspace(0, 3, 20)
    A, B = np.stack([np.sin(rows), np.cos(rows)]), np.stack([np.sin(columns), np.cos(columns)])
    X = A.T @ rng.normal(size=(120, 2, 2)) @ B + 0.02 * rng.normal(size=(120, 24, 20))
    bad = rng.random(X.shape) < 0.03
    for i in range(0, 120, 6):
        top, left = rng.integers(0, 16, 2)
        bad[i, top : top + 4, left : left + 4] = True
    X[bad] += rng.choice([-1.5, 1.5], bad.sum())
    X[1::6, 5] = np.nan
    return X, bad, ct.CorrTensor((2, 2), cells=True, tol=1e-5, max_iter=500).fit(X)


def pixels(page, picture):
    """What the browser shows of a picture, as an array."""
    shown = picture.evaluate(
        """async img => { await img.decode(); const c = document.createElement("canvas");
        c.width = img.naturalWidth; c.height = img.naturalHeight; const d = c.getContext("2d");
        d.drawImage(img, 0, 0); return [c.height, c.width,
        Array.from(d.getImageData(0, 0, c.width, c.height).data)]; }"""
    )
    return np.reshape(shown[2], (*shown[:2], 4))[..., :3]


@pytest.mark.parametrize("options", [DESK, PHONE], ids=["desk", "phone"])
def test_replaced_cells_are_seen_and_the_repaired_sample(visit, tmp_path, torn, options):
    X, bad, model = torn
    path = write_page(tmp_path / "cells.html", model, X, most=120)
    page = visit(path, **options)
    keep(page, f"cells-{'phone' if options == PHONE else 'desk'}")
    for index in (6, 7):
        row = page.locator(f"tbody tr[data-index='{index}']")
        marked = pixels(page, row.get_by_alt_text("Its replaced cells"))
        vermilion = (np.abs(marked - [213, 94, 0]) < 3).all(axis=-1)
        assert_array_equal(vermilion, model.repair(X[index : index + 1])[0] != X[index])
        assert vermilion[bad[index] | np.isnan(X[index])].mean() > 0.95
        given = pixels(page, row.get_by_alt_text(f"Picture of sample {index}", exact=True))
        repaired = pixels(page, row.get_by_alt_text("The sample repaired", exact=True))
        assert_array_equal((given != repaired).any(axis=-1) & ~vermilion, False)
        if index == 7:
            # What is missing is drawn white.
            assert (given[5] == 255).all()
            assert not (repaired[5] == 255).all()
        share = float(row.locator(".cells").get_attribute("data-value"))
        assert share == pytest.approx(vermilion.mean())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_cells_among_outliers(visit, tmp_path, torn):
    X, _, model = torn
    for cells, page_of in ((True, X), (False, np.nan_to_num(X, nan=0.5))):
        subspace = FrozenEstimator(model) if cells else ct.CorrTensor((2, 2))
        detector = ct.TensorOutlierDetector(subspace).fit(page_of)
        path = tmp_path / f"{cells}.html"
        write_outlier_page(path, detector, page_of, rank_samples(detector, page_of))
        page = visit(path)
        assert (page.get_by_alt_text("Its replaced cells").count() > 0) == cells
        if cells:
            keep(page, "cells-outliers")
            assert page.get_by_text("% of its cells doubted or missing").count() > 5


def test_pages_of_whole_samples_say_nothing_of_cells(visit, page_file):
    page = visit(page_file)
    assert page.get_by_text("replaced").count() == 0


def test_weights_on_the_page_are_those_of_the_fit(torn):
    """Without its bad cells, a rejected sample has a small residual."""
    X = np.concatenate([torn[0], 3 * np.random.default_rng(1).normal(size=(9, 24, 20))])
    model = ct.CorrTensor((2, 2), cells=True, tol=1e-5, max_iter=500).fit(X)
    assert (model.weights_[-9:] < 0.5).all()
    assert_array_equal(distances(model, X).weights, model.weights_)
    assert distances(model, X[:40]).weights.shape == (40,)


# ---- the page about outliers


def blurred(x):
    picture = Image.fromarray(np.rint(255 * x).astype(np.uint8))
    return np.asarray(picture.filter(ImageFilter.GaussianBlur(2))) / 255


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """Faces of which some are noise, blurred, turned, negative or copies: page and ranking."""
    X, _ = ct.datasets.dummy_outliers(ct.datasets.load_faces().images[:90], 6, rng=0)
    for i in (3, 4):
        X[i] = blurred(X[i])
    X[10], X[11] = np.rot90(X[10]), 1 - X[11]
    X[50] = X[20]
    names = [f"{i:03d}.png" for i in range(96)]
    names[93], names[94] = EVIL, "=1+1\u202e.png"
    detector = ct.TensorOutlierDetector().fit(X)
    ranking = rank_samples(detector, X)
    path = tmp_path_factory.mktemp("odd") / "odd.html"
    skipped = [("cut.jpg", "image file is truncated")]
    write_outlier_page(path, detector, X, ranking, names=names, skipped=skipped, title="Faces")
    return path, ranking, names


def chosen(page):
    return page.locator("#list").input_value().split("\n")


def test_the_oddest_come_first_with_their_reasons(visit, odd):
    path, ranking, names = odd
    page = visit(path)
    shown = page.locator(".gallery label").all_text_contents()
    count = len(shown)
    assert [name.strip() for name in shown] == [
        printable(names[i]) for i in ranking.order[:count].tolist()
    ]
    assert ranking.flagged.sum() < count < 96
    assert page.locator("img[src=x]").count() == 0
    broken = "[...document.images].filter(i => !i.complete || !i.naturalWidth).length"
    assert page.evaluate(broken) == 0
    assert "020.png" in page.locator(".copies").text_content()
    assert "cut.jpg: image file is truncated" in page.locator("#skipped").text_content()
    keep(page, "outliers")


def test_reasons_filter_the_gallery(visit, odd):
    page = visit(odd[0])
    cards = page.locator(".gallery li:visible")
    before = cards.count()
    page.locator(".chips button[data-reason=blurred]").click()
    assert {"003.png", "004.png"} <= {
        t.strip() for t in page.locator(".gallery li:visible label").all_text_contents()
    }
    assert cards.count() < before
    assert f"{cards.count()} shown" == page.locator("#said").text_content()
    page.locator(".chips button").first.focus()
    page.keyboard.press("Enter")
    assert cards.count() == before


def test_the_cut_is_dragged_and_counts(visit, odd):
    path, ranking, _ = odd
    page = visit(path)
    words = page.locator("#cut-words")
    assert words.text_content().endswith(f": {ranking.flagged.sum()} of 96 above")
    assert len(chosen(page)) == ranking.flagged.sum()
    box = page.locator(".cut-chart svg").bounding_box()
    grip = page.locator(".grip").bounding_box()
    page.mouse.move(grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60, steps=4)
    page.mouse.up()
    cut = page.evaluate("Number(document.getElementById('cut-at').value)")
    above = int((ranking.scores > cut).sum())
    # The slider goes in steps; the dragged cut does not.
    assert abs(len(chosen(page)) - above) <= 1
    assert page.locator("#flagged").text_content() == str(len(chosen(page)))
    page.locator("#cut-back").click()
    assert len(chosen(page)) == ranking.flagged.sum()


def test_the_keyboard_moves_the_cut_and_chooses(visit, odd):
    path, ranking, _ = odd
    page = visit(path)
    page.locator("#cut-at").focus()
    page.keyboard.press("Home")
    assert page.locator("#cut-at").get_attribute("aria-valuetext").startswith("0.00: ")
    assert len(chosen(page)) == int((ranking.scores > 0).sum())
    page.locator("#cut-back").focus()
    page.keyboard.press("Enter")
    box = page.locator(".gallery input").first
    first = chosen(page)[0]
    box.focus()
    page.keyboard.press("Space")
    assert first not in chosen(page)
    assert len(chosen(page)) == ranking.flagged.sum() - 1


def test_the_list_is_copied_as_text_and_as_csv(browser, odd):
    path, ranking, names = odd
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **DESK)
    page = context.new_page()
    page.goto(path.as_uri())
    page.get_by_role("button", name="Copy names").click()
    page.wait_for_function("document.getElementById('said').textContent !== ''")
    flagged = [printable(names[i]) for i in ranking.order[: ranking.flagged.sum()].tolist()]
    assert page.evaluate("navigator.clipboard.readText()").split("\n") == flagged
    page.get_by_role("button", name="Copy as CSV").click()
    page.wait_for_function("document.getElementById('list').value.startsWith('name,')")
    rows = list(csv.DictReader(page.evaluate("navigator.clipboard.readText()").splitlines()))
    assert {from_cell(row["name"]) for row in rows} == {
        names[i] for i in np.flatnonzero(ranking.flagged)
    }
    assert not any(row["name"].startswith("=") for row in rows)
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("options", [DESK, PHONE], ids=["desk", "phone"])
def test_axe_finds_no_serious_fault_among_outliers(visit, odd, scheme, options):
    page = visit(odd[0], color_scheme=scheme, **options)
    keep(page, f"outliers-{scheme}-{options['viewport']['width']}")
    assert page.evaluate("document.documentElement.scrollWidth") <= options["viewport"]["width"]
    assert (background(page) < 60) == (scheme == "dark")
    bad = [
        (v["id"], v["nodes"][0]["html"][:200])
        for v in Axe().run(page).response["violations"]
        if v["impact"] in ("serious", "critical")
    ]
    assert not bad


def test_ten_thousand_pictures_make_a_small_page(visit, tmp_path):
    """Of photographs' size, since pages hold pictures at their own small size."""
    rng = np.random.default_rng(0)
    waves = np.sin(np.add.outer(np.linspace(0, 6, 40), np.linspace(0, 9, 40)))
    X = rng.normal(size=(500, 1, 1)) * waves + rng.normal(size=(500, 40, 40))
    X = np.clip(128 + 40 * X, 0, 255).astype(np.uint8)
    detector = ct.TensorOutlierDetector(ct.CorrTensor((3, 3))).fit(X)
    names = [f"a-folder-with-a-name/and-another/picture-{i:05d}.jpeg" for i in range(10_000)]
    few = rank_samples(detector, X, own=False)
    # What 500 are like, twenty times over: the page of as many pictures as names.
    ranking = replace(
        few,
        scores=np.tile(few.scores, 20),
        reasons=few.reasons * 20,
        nearest=np.tile(few.nearest, 20),
        duplicates=replace(few.duplicates, same=np.tile(few.duplicates.same, 20)),
    )
    many = np.tile(X, (20, 1, 1))
    path = write_outlier_page(tmp_path / "many.html", detector, many, ranking, names=names)
    assert path.stat().st_size < 10_000_000
    page = visit(path)
    assert "of 10000 above" in page.locator("#cut-words").text_content()
