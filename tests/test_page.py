"""The report page: what it says against brute force, what it must not let through, its size."""

import base64
import hashlib
import html
import io
import json
import re
import sys
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from scipy.ndimage import gaussian_filter
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import corrtensor as ct
from corrtensor.report import write_page
from corrtensor.report.distances import Distances, distances, score_distances
from corrtensor.report.model_pictures import leading, ordinary_and_unusual, rank_steps
from corrtensor.report.pictures import diverging, sequential, view_of
from corrtensor.report.survey import MOST_POINTS, choose_drawn

EVIL = ["<img src=x onerror=alert(1)>.png", "</script><script>alert(2)</script>", "a\"b'c&d.png"]


class Tags(HTMLParser):
    """All tags of a page with their attributes, and the rows of its table."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag, **wanted):
        return [a for t, a in self.tags if t == tag and wanted.items() <= a.items()]


def data_of(text, name="data"):
    block = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.S)
    return json.loads(block[1])


def decode(uri):
    head, _, content = uri.partition(",")
    assert head == "data:image/webp;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))))


@pytest.fixture
def model(images, ranks_of):
    return ct.CorrTensor(ranks=ranks_of[2]).fit(images)


@pytest.fixture
def write(tmp_path):
    """Write a page and return its text."""

    def make(model, X, **options):
        path = write_page(tmp_path / "page.html", model, X, **options)
        assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
        return path.read_text(encoding="utf-8")

    return make


def test_the_table_holds_the_most_unusual_with_their_true_distances(write, model, images):
    text = write(model, images, most=8, names=[f"{i}.png" for i in range(60)])
    rows = Tags(text).all("tr", role="row")[1:]
    assert sorted(int(row["data-index"]) for row in rows) == list(range(8))
    # Residuals by brute force: sample less mean, less its projection.
    L, R = model.factors_
    Z = images - model.mean_
    lost = Z - L @ (L.T @ Z @ R) @ R.T
    brute = np.sqrt(np.square(lost).sum(axis=(1, 2)))
    shown = [float(a["data-value"]) for a in Tags(text).all("td", **{"class": "residual"})]
    assert_allclose(shown, [brute[int(row["data-index"])] for row in rows], rtol=1e-9)
    data = data_of(text)
    assert data["name"] == [f"{i}.png" for i in range(60)]
    assert_allclose([float(r) for r in data["residual"]], brute, rtol=6e-3)
    assert_allclose([float(w) for w in data["weight"]], model.weights_, atol=0.00501)
    assert set(data["order"][:8]) == set(range(8))


def test_pictures_are_the_samples(write):
    X = ct.datasets.load_digits().images[:40].astype(np.uint8) * 15
    model = ct.CorrTensor(ranks=(4, 4)).fit(X)
    tags = Tags(write(model, X, most=3, names=[f"digit {i}" for i in range(40)]))
    pictures = {a["alt"]: decode(a["src"]) for a in tags.all("img") if "alt" in a}
    table = [a["data-index"] for a in tags.all("tr", role="row")[1:]]
    for i in map(int, table):
        assert_array_equal(pictures[f"Picture of digit {i}"], np.repeat(X[i][..., None], 3, axis=2))
    sheet = data_of(write(model, X))["atlas"]
    atlas = decode(sheet["uri"])
    row, column = divmod(7, sheet["across"])
    tile = atlas[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8].mean(axis=2)
    # The sheet is compressed with loss.
    assert np.corrcoef(tile.ravel(), X[7].ravel())[0, 1] > 0.97


def test_the_slider_shows_smaller_subspaces_of_the_same_model(write, model, images):
    text = write(model, images)
    ladder = data_of(text, "ladder-data")
    assert ladder["steps"] == ["1 × 1", "2 × 2", "3 × 2"]  # noqa: RUF001
    w, Z = model.weights_, images - model.mean_
    total = w @ np.square(Z).sum(axis=(1, 2))
    for (k, m), percent in zip([(1, 1), (2, 2), (3, 2)], ladder["explained"], strict=True):
        L, R = model.factors_[0][:, :k], model.factors_[1][:, :m]
        kept = w @ np.square(L.T @ Z @ R).sum(axis=(1, 2))
        assert percent == pytest.approx(100 * kept / total, rel=1e-9)
        made = model.inverse_transform(leading(model.transform(images), (k, m)))
        assert_allclose(made, model.mean_ + L @ (L.T @ Z @ R) @ R.T, atol=1e-12)
    assert all(len(made) == 3 == len(set(made)) for made in ladder["made"])


def test_modes_left_whole_stay_whole():
    assert rank_steps((9, 4), [True, False], 3) == [(9, 1), (9, 2), (9, 4)]
    steps = rank_steps((50, 20), [False, False])
    assert steps[0] == (1, 1)
    assert steps[-1] == (50, 20)
    assert len(steps) <= 12
    assert all(a <= b for s, t in pairwise(steps) for a, b in zip(s, t, strict=True))


@pytest.mark.parametrize(
    ("shape", "ranks", "words"),
    [
        ((12,), (3,), "lines of 12 values"),
        ((1,), (1,), "lines of 1 values"),
        ((8, 7), (3, 2), "grey pictures of 8 × 7"),  # noqa: RUF001
        ((8, 7, 3), (3, 2, 2), "colour pictures of 8 × 7"),  # noqa: RUF001
        ((8, 7, 4), (3, 2, 2), "the fourth channel is not drawn"),
        ((5, 8, 7), (2, 3, 2), "slices 1, 2, 4 and 5 of 5, each 8 × 7"),  # noqa: RUF001
        ((2, 3, 8, 7, 3), (1, 2, 3, 2, 2), "slices 1, 3, 4 and 6 of 6"),
        ((1, 7), (1, 2), "grey pictures of 1 × 7"),  # noqa: RUF001
    ],
)
def test_samples_of_any_order_have_a_page(write, shape, ranks, words):
    X = np.random.default_rng(0).normal(size=(30, *shape))
    model = ct.MultilinearSubspace(ranks=ranks).fit(X)
    text = write(model, X, most=5)
    assert words in html.unescape(text)
    assert all(decode(a["src"]).size for a in Tags(text).all("img"))


def test_flattened_samples_are_the_same_page(write, images, ranks_of):
    whole = ct.CorrTensor(ranks=ranks_of[2]).fit(images)
    flat = ct.CorrTensor(ranks=ranks_of[2], sample_shape=(8, 7)).fit(images.reshape(60, -1))
    one, other = write(whole, images), write(flat, images.reshape(60, -1))
    assert data_of(one) == data_of(other)


@pytest.mark.parametrize("name", ["GLRAM", "2DPCA", "2DSVD", "R1-2DSVD", "L1-2DPCA", "N-2DNPP"])
def test_other_methods_have_a_page(write, clean_images, name):
    ranks = 2 if name.endswith(("2DPCA", "2DNPP")) else (3, 2)
    model = ct.make(name, ranks).fit(clean_images)
    text = write(model, clean_images, most=4)
    assert ("Weights</h3>" in text) == hasattr(model, "loss_")
    assert ('id="rank"' in text) == hasattr(model, "factors_")
    assert "The fit" in text


def test_nothing_of_a_name_is_taken_for_html(write, model, images):
    names = [*EVIL, *(f"{i}" for i in range(57))]
    text = write(model, images, names=names, labels=names, title=EVIL[1], most=60)
    tags = Tags(text)
    assert not any(key.startswith("on") for _, attrs in tags.tags for key in attrs)
    assert not tags.all("img", src="x")
    # Two blocks of data and the page's own script.
    assert [a.get("type") for a in tags.all("script")] == ["application/json"] * 2 + [None]
    assert data_of(text)["name"] == data_of(text)["label"] == names
    assert {a["data-value"] for a in tags.all("th", role="rowheader")} >= set(EVIL)


def test_names_that_cannot_be_written_are_mended(write, model, images):
    names = ["caf\udce9.png", "a\x00b\nc", "\ud800"] + ["x"] * 57
    shown = data_of(write(model, images, names=names))["name"]
    assert shown[0] == "caf\\udce9.png"
    assert shown[1:3] == ["a\\x00b\\nc", "\\ud800"]


def test_the_policy_allows_this_script_and_style_and_nothing_else(write, model, images):
    text = write(model, images)
    (meta,) = Tags(text).all("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in meta["content"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for tag, rule in (("style", "style-src"), ("script", "script-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    links = [a.get("src", a.get("href")) for _, a in Tags(text).tags if {"src", "href"} & a.keys()]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert "style=" not in text


class Reader:
    """An array that only slices, and remembers how much was asked for at once."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.largest = X, X.shape, X.dtype, 0

    def __getitem__(self, key):
        rows = self.X[key]
        self.largest = max(self.largest, len(rows))
        return rows


def test_arrays_on_disk_are_read_block_by_block(write, images, ranks_of, tmp_path_factory):
    model = ct.CorrTensor(ranks=ranks_of[2], block_size=7).fit(images)
    in_memory = write(model, images)
    reader = Reader(images)
    assert write(model, reader) == in_memory
    assert reader.largest <= 7
    path = tmp_path_factory.mktemp("mapped") / "x.npy"
    np.save(path, images)
    assert write(model, np.load(path, mmap_mode="r")) == in_memory


def test_new_samples_are_measured_by_the_old_model(write, model, images):
    new = images[5:25]
    data = data_of(write(model, new))
    assert_allclose([float(w) for w in data["weight"]], model.weights_[5:25], atol=0.00501)


def test_score_distances_of_a_model_without_its_own(model, images):
    plain = SimpleNamespace(transform=model.transform)
    cores = model.transform(images).reshape(60, -1)
    middle = np.median(cores, axis=0)
    spread = 1.4826 * np.median(np.abs(cores - middle), axis=0)
    brute = np.sqrt((((cores - middle) / spread) ** 2).sum(axis=1))
    assert_allclose(score_distances(plain, images), brute, rtol=1e-12)


def test_the_models_own_score_distances_come_first(model, images):
    model.score_distances = lambda X: np.arange(60.0)
    assert_array_equal(distances(model, images).score, np.arange(60))


def test_copies_of_one_sample_and_a_perfect_fit_have_a_page(write):
    X = np.zeros((20, 4, 3))
    X[0, 0, 0] = 1.0
    model = ct.MultilinearSubspace(ranks=(4, 3)).fit(X)
    assert data_of(write(model, X))["order"][0] == 0


def test_far_too_many_samples_are_thinned_out():
    order = np.random.default_rng(0).permutation(100_000)
    drawn = choose_drawn(order)
    assert len(drawn) == len(set(drawn)) == MOST_POINTS
    assert set(order[: MOST_POINTS // 2]) <= set(drawn)


def test_unusual_and_ordinary_ones_are_different_samples():
    for n in (2, 3, 5, 9, 100):
        chosen = ordinary_and_unusual(np.arange(n))
        assert len(set(chosen)) == len(chosen) <= 8


def test_ten_thousand_colour_pictures_make_a_page_below_10_mb(write, monkeypatch):
    rng = np.random.default_rng(0)
    # Half of each picture is noise, which compresses worst.
    X = np.empty((10_000, 48, 48, 3), np.uint8)
    X[:, :24] = rng.integers(0, 256, (10_000, 24, 48, 3), np.uint8)
    X[:, 24:] = rng.integers(0, 256, (10_000, 1, 1, 3), np.uint8)
    model = ct.MultilinearSubspace(ranks=(6, 6, 3), max_iter=2, tol=1.0).fit(X[:200])
    # How odd 200 are, fifty times over: it is the pictures and names that make a page large.
    few = vars(distances(model, X[:200]))
    many = Distances(
        **{
            name: value * 50 if isinstance(value, list) else np.tile(value, 50)
            for name, value in few.items()
            if isinstance(value, list | np.ndarray)
        },
        **{k: v for k, v in few.items() if not isinstance(v, list | np.ndarray)},
    )
    monkeypatch.setattr("corrtensor.report.survey.distances", lambda model, X: many)
    text = write(model, X, names=[f"holiday/2024/picture_{i:05d}.png" for i in range(10_000)])
    assert len(text.encode()) < 10e6
    assert len(data_of(text)["name"]) == 10_000


def test_an_old_page_stays_when_something_fails(tmp_path, model, images):
    path = tmp_path / "page.html"
    path.write_text("old")
    broken = images.copy()
    broken[3, 0, 0] = np.inf
    with pytest.raises(ValueError, match="sample 3"):
        write_page(path, model, broken)
    assert path.read_text() == "old"
    with pytest.raises(OSError, match="nowhere"):
        write_page(tmp_path / "nowhere" / "page.html", model, images)
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"names": ["a"]}, ValueError, "names must have one entry for each of the 60 samples"),
        ({"names": "abc"}, ValueError, "names .* not 'abc'"),
        ({"labels": [1, 2]}, ValueError, "labels .* not 2 entries"),
        ({"most": 0}, ValueError, "most=0"),
        ({"most": True}, ValueError, "most=True"),
    ],
)
def test_wrong_requests_are_named(tmp_path, model, images, options, error, words):
    with pytest.raises(error, match=words):
        write_page(tmp_path / "page.html", model, images, **options)
    assert not list(tmp_path.iterdir())


def test_wrong_models_are_named(tmp_path, model, images):
    path = tmp_path / "page.html"
    with pytest.raises(ValueError, match=r"shape \(7, 8\)"):
        write_page(path, model, images.transpose(0, 2, 1))
    with pytest.raises(NotFittedError):
        write_page(path, ct.CorrTensor(), images)
    with pytest.raises(TypeError, match="not Pipeline"):
        write_page(path, make_pipeline(model), images)


@pytest.mark.parametrize("package", ["jinja2", "PIL"])
def test_a_missing_package_is_named(tmp_path, model, images, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(package + ".")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'corrtensor\[report\]'"):
        write_page(tmp_path / "page.html", model, images)


def test_colour_scales_are_ordered():
    steps = np.linspace(0, 1, 50)
    # Luminance tells the size of a residual without any colour.
    brightness = sequential(steps) @ [0.2126, 0.7152, 0.0722]
    assert np.all(np.diff(brightness) > 0)
    assert np.ptp(brightness) > 150
    assert_array_equal(diverging(np.array([-1.0, 0.0, 1.0]))[1], [247, 247, 247])


def test_slices_lie_side_by_side_with_a_line_between():
    sample = np.arange(12.0).reshape(2, 3, 2)
    picture = view_of((2, 3, 2)).picture(sample)
    assert picture.shape == (3, 5)
    assert_array_equal(picture[:, :2], sample[0])
    assert np.isnan(picture[:, 2]).all()
    assert_array_equal(picture[:, 3:], sample[1])
    assert_array_equal(sequential(picture)[:, 2], 255)


def test_ticks_of_a_narrow_range_are_told_apart():
    """The objective of a fit that hardly moves: 119.5091 to 119.5094, not twice 119.509."""
    from corrtensor.report.charts import Scale

    for low, high in ((119.5091, 119.5094), (1e-9, 2e-9), (1.0, 1.0 + 1e-12)):
        words = [word for _, word in Scale(low, high, 0.0, 100.0).ticks()]
        assert len(words) >= 2
        assert len(set(words)) == len(words)


def test_what_counts_without_being_explained_is_said_so(write):
    """A noisy face alone is no group: its weight is 1, its residual twice the limit. A blurred
    one is explained."""
    X = ct.datasets.load_faces().images[:100].copy()
    X[0] = np.clip(X[0] + 0.25 * np.random.default_rng(0).normal(size=X[0].shape), 0, 1)
    X[1] = gaussian_filter(X[1], 3)
    fitted = ct.CorrTensor((10, 10)).fit(X)
    found = distances(fitted, X)
    assert fitted.weights_[0] == 1
    assert found.residual[0] > 1.5 * found.residual_limit
    odd = found.unusual > 1
    explained = int((odd & (found.residual <= found.residual_limit)).sum())
    assert explained > 0
    text = write(fitted, X)
    beyond = "of those beyond the cut count in the fit"
    assert f"{odd.sum() - explained} {beyond}, although the subspace does not explain them" in text
    assert f"{explained} {beyond}: the subspace explains them" in text
