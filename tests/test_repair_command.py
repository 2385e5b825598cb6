"""The command that repairs: clips, folders of pictures of all kinds, what it says."""

import json
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image
from scipy.ndimage import gaussian_filter
from typer.testing import CliRunner

import corrtensor as ct
from corrtensor.cli import build_app
from corrtensor.io import open_samples
from corrtensor.io.writing import open_output


def run(*arguments, expect=0):
    result = CliRunner().invoke(build_app(), [str(a) for a in arguments])
    assert result.exit_code == expect, (result.output, result.exception)
    return result


def scene_with_shapes(n=60):
    """A still scene in changing light with something that moves, where, and what is behind."""
    rng = np.random.default_rng(0)
    # 2112 entries a frame: a few less, and every sweep would take a dense matrix of as many rows.
    rows, columns = np.mgrid[:44, :48]
    still = 0.45 + 0.25 * np.sin(rows / 5) * np.cos(columns / 7)
    light = 1 + 0.2 * np.sin(2 * np.pi * np.arange(n) / n)
    frames = still * light[:, None, None] + 0.01 * rng.normal(size=(n, 44, 48))
    moving = np.zeros(frames.shape, bool)
    for t in range(n):
        moving[t] = np.hypot(rows - 14, columns - (1.9 * t) % 68 + 10) < 6
        moving[t] |= np.maximum(abs(rows - 30), abs(columns + 10 - (68 - 1.4 * t) % 68)) < 5
    return np.where(moving, 0.97, frames), moving, frames


def f_measure(found, truth):
    return 2 * (found & truth).sum() / (found.sum() + truth.sum())


@pytest.mark.parametrize("kind", ["video", "npz", "folder"])
def test_background_and_foreground_of_a_clip(tmp_path, kind):
    """Real files, written and read back."""
    frames, moving, scene = scene_with_shapes()
    clip = tmp_path / {"video": "clip.mp4", "npz": "clip.npz", "folder": "clip"}[kind]
    rate = Fraction(12)
    with open_output(str(clip), frames.shape, frames.dtype, values=(0.0, 1.0), rate=rate) as write:
        write(frames)
    end = {"video": ".mp4", "npz": ".npy", "folder": ""}[kind]
    back, mask = tmp_path / f"background{end}", tmp_path / f"mask{end}"
    more = [] if kind == "video" else ["--clip"]
    said = run("repair", clip, "-o", back, "--foreground", mask, *more).stdout
    found, background = open_samples(mask), open_samples(back)
    assert len(found) == len(background) == 60
    seen = np.asarray(found[0:60]).reshape(60, 44, 48, -1)[..., 0]
    white = seen > (0.5 if kind == "npz" else 127)
    # A codec smears the edges of what moves; arrays and pictures do not.
    assert f_measure(white, moving) > (0.88 if kind == "video" else 0.97)
    whole = np.asarray(background[0:60]).reshape(60, 44, 48, -1).mean(axis=-1)
    whole = whole / {"video": 255, "npz": 1, "folder": 255}[kind]
    assert np.abs(whole - scene)[moving].mean() < 0.1 * np.abs(frames - scene)[moving].mean()
    assert "doubted (" in said
    assert f"Repaired: {back}" in said
    if kind == "video":
        assert background.array.rate == found.array.rate == 12


@pytest.mark.parametrize("moves", [False, True])
def test_what_a_codec_does_to_a_still_scene_does_not_move(tmp_path, moves):
    """Without noise of a camera most frames are equal, and the first ones are coded anew."""
    shape = (64, 80) if moves else (120, 160)
    rough = np.random.default_rng(0).normal(size=(2, *shape))
    smooth = [gaussian_filter(a, width) for a, width in zip(rough, (3, 1), strict=True)]
    scene = 120 + 40 * (smooth[0] / smooth[0].std() + 0.3 * smooth[1] / smooth[1].std())
    frames, moving = np.repeat(scene[None], 30, axis=0), np.zeros((30, *shape), bool)
    for t in range(30 if moves else 0):
        moving[t, 20:34, 4 + 2 * t : 16 + 2 * t] = True
    clip, back, mask = (tmp_path / name for name in ("clip.mp4", "back.npy", "mask.npy"))
    frames = np.clip(np.where(moving, 230, np.round(frames)), 0, 255)
    write_mpeg4(clip, frames.astype(np.uint8), 2_000_000 if moves else None)
    run("repair", clip, "-o", back, "--foreground", mask)
    white = np.load(mask).reshape(30, *shape, -1).any(axis=-1)
    # Before, most of these cells were white.
    assert white[~moving].mean() < 0.05
    assert not moves or f_measure(white, moving) > 0.9


def write_mpeg4(path, frames, bit_rate):
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.height, stream.width = frames.shape[1:]
        stream.pix_fmt = "yuv420p"
        if bit_rate is not None:
            stream.bit_rate = bit_rate
        for frame in np.repeat(frames[..., None], 3, axis=-1):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def write_pictures(folder, pictures, names=None):
    folder.mkdir()
    for i, picture in enumerate(pictures):
        Image.fromarray(picture).save(folder / (names[i] if names else f"{i:03d}.png"))
    return folder


@pytest.fixture(scope="module")
def scenes():
    """Sixty pictures of two directions each way, from 0.2 to 0.8, and one pixel in fifty dead."""
    rng = np.random.default_rng(1)
    A = np.stack([np.sin(np.linspace(0, 3, 20)), np.cos(np.linspace(0, 3, 20))])
    B = np.stack([np.sin(np.linspace(0, 3, 15)), np.cos(np.linspace(0, 3, 15))])
    X = A.T @ rng.normal(size=(60, 2, 2)) @ B
    X = 0.5 + 0.3 * X / np.abs(X).max() + 0.003 * rng.normal(size=X.shape)
    return X, rng.random(X.shape) < 0.02


@pytest.mark.parametrize("depth", [8, 16])
def test_pictures_keep_their_depth_and_good_pixels(tmp_path, scenes, depth):
    X, dead = scenes
    top = 2**depth - 1
    whole = np.rint(X * top).astype(f"uint{depth}")
    given = write_pictures(tmp_path / "given", np.where(dead, top, whole).astype(whole.dtype))
    record = json.loads(run("repair", given, "-o", tmp_path / "clean", "--json").stdout)
    clean = np.stack([np.asarray(Image.open(p)) for p in sorted((tmp_path / "clean").iterdir())])
    assert clean.dtype == whole.dtype
    changed = clean != np.where(dead, top, whole)
    assert changed[dead].mean() > 0.95
    assert changed[~dead].mean() < 0.01
    assert np.abs(clean[dead] - whole[dead].astype(float)).mean() < 0.02 * top
    # A pixel that was moved by less than half a step is doubted, and yet the same.
    assert record["doubted"] >= changed.sum()
    assert record["missing"] == 0
    assert record["doubted"] + record["kept"] == X.size


def test_a_value_that_stands_for_nothing(tmp_path, scenes):
    X, dead = scenes
    whole = np.rint(X * 255).astype(np.uint8)
    given = write_pictures(tmp_path / "given", np.where(dead, 0, whole).astype(np.uint8))
    line = ["repair", given, "-o", tmp_path / "clean", "--missing", "0", "--no-cells", "--json"]
    record = json.loads(run(*line).stdout)
    assert record["missing"] == dead.sum()
    assert record["doubted"] == 0
    clean = np.stack([np.asarray(Image.open(p)) for p in sorted((tmp_path / "clean").iterdir())])
    assert_array_equal(clean[~dead], whole[~dead])
    assert np.abs(clean[dead] - whole[dead].astype(float)).mean() < 5


def test_what_stands_for_nothing_is_known_to_the_model(tmp_path, scenes):
    X, dead = scenes
    x, model = tmp_path / "x.npy", tmp_path / "m.ct"
    np.save(x, np.where(dead, -9999, np.rint(X * 255)).astype(np.int16))
    run("fit", x, "--ranks", "2,2", "--missing", "-9999", "-o", model)
    line = ["repair", x, "--model", model, "-o", tmp_path / "y.npy", "--json"]
    record = json.loads(run(*line).stdout)
    assert record["missing"] == dead.sum()
    assert record["doubted"] == 0


def test_what_cannot_occur_stands_for_nothing(tmp_path, scenes):
    x = tmp_path / "x.npy"
    np.save(x, np.rint(scenes[0] * 255).astype(np.uint8))
    for line in (["outliers", x], ["repair", x, "-o", tmp_path / "y.npy"]):
        said = run(*line, "--missing", "-9999", expect=1)
        assert f"--missing -9999 cannot occur in {x}, which holds uint8" in " ".join(
            said.output.split()
        )


def test_samples_without_a_cell_have_no_outliers(tmp_path):
    x = tmp_path / "x.npy"
    np.save(x, np.full((10, 5, 5), np.nan))
    said = run("outliers", x, expect=1)
    assert "all 10 samples are empty" in " ".join(said.output.split())


def test_colour_alpha_and_another_size(tmp_path, scenes):
    """As any command reads them: what is clear is white, and sizes are made one, with a note."""
    X, _ = scenes
    rgb = np.rint(255 * np.stack([X, 1 - X, X], axis=-1)).astype(np.uint8)
    clear = np.concatenate([rgb[0], np.full((20, 15, 1), 255, np.uint8)], axis=-1)
    clear[2:6, 2:6, 3] = 0
    large = np.asarray(Image.fromarray(rgb[1]).resize((30, 40)))
    given = write_pictures(tmp_path / "given", [clear, large, *rgb[2:]])
    mask = tmp_path / "mask"
    result = run("repair", given, "-o", tmp_path / "clean", "--foreground", mask)
    assert "2 sizes" in result.stderr
    pictures = [np.asarray(Image.open(p)) for p in sorted((tmp_path / "clean").iterdir())]
    assert {p.shape for p in pictures} == {(20, 15, 3)}
    masks = [np.asarray(Image.open(p)) for p in sorted(mask.iterdir())]
    assert {p.shape for p in masks} == {(20, 15)}
    # What was clear is white, hence unlike the others, and was replaced.
    assert (masks[0][2:6, 2:6] == 255).mean() > 0.9
    assert np.abs(pictures[0][2:6, 2:6].astype(float) - rgb[0, 2:6, 2:6]).mean() < 20


def test_what_is_no_sample_of_the_kind_is_named(tmp_path, scenes):
    X = scenes[0].copy()
    X[:7] = np.random.default_rng(0).random(X[:7].shape)
    np.save(tmp_path / "x.npy", X)
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    words = " ".join(said.stderr.split())
    assert (
        f"of which others tell little, 7 of {len(X)} samples: 0, 1, 2, 3, 4, ...; corrtensor"
        in words
    )
    np.save(tmp_path / "x.npy", scenes[0])
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "z.npy")
    assert "others tell little" not in said.stderr


def test_nan_is_data_in_every_command(tmp_path, scenes):
    X, dead = scenes
    torn, x = np.where(dead, np.nan, X), tmp_path / "x.npy"
    np.save(x, torn)
    model, labels = tmp_path / "m.ct", tmp_path / "labels.txt"
    labels.write_text("\n".join("ab"[i % 2] for i in range(60)))
    run("fit", x, "--ranks", "2,2", "-o", model, "--report", tmp_path / "fit.html")
    run("fit", x, "--ranks", "2,2", "--cells", "-o", tmp_path / "c.ct")
    run("transform", model, x, "-o", tmp_path / "cores.npy")
    run("reconstruct", model, x, "-o", tmp_path / "made")
    run("outliers", x, "--report", tmp_path / "odd.html", "--csv", tmp_path / "odd.csv")
    run("outliers", x, "--cells", "--ranks", "2,2", "--report", tmp_path / "odder.html")
    run("report", model, x, "-o", tmp_path / "report.html")
    run("classify", x, "--train", x, "--labels", labels, "--csv", tmp_path / "names.csv")
    for option in (["--ranks", "3,3"], ["--clip"], ["--no-cells"]):
        said = run("repair", x, "--model", model, "-o", tmp_path / "z.npy", *option, expect=2)
        assert f"{option[0]} is for a fit" in " ".join(said.output.split())
    said = run("outliers", x, "--model", model, "--ranks", "3,3", expect=2)
    assert "--ranks is for a fit" in " ".join(said.output.split())
    said = run("repair", x, "--model", model, "-o", tmp_path / "y.npy")
    assert "fitted without --cells: only missing cells are filled" in " ".join(said.output.split())
    full = tmp_path / "full"
    full.mkdir()
    (full / "picture.png").touch()
    for outputs in (["-o", full], ["-o", tmp_path / "new", "--foreground", full]):
        said = run("repair", x, "--model", model, *outputs, "--force", expect=1)
        assert "full: the folder is not empty" in " ".join(said.output.split())
    assert np.isfinite(np.load(tmp_path / "cores.npy")).all()
    assert_array_equal(np.load(tmp_path / "y.npy"), ct.load(model).repair(torn))
    for name in ("fit", "odd", "report"):
        assert "Its replaced cells" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")


def test_it_says_what_pictures_of_a_model_lose(tmp_path, scenes):
    """Size and colours are those of the model; a note says so."""
    X = np.clip(255 * scenes[0], 0, 255).astype(np.uint8)
    other = np.repeat(np.pad(X, [(0, 0), (2, 2), (0, 0)], mode="edge")[..., None], 3, axis=3)
    small, large = (write_pictures(tmp_path / n, x) for n, x in (("small", X), ("large", other)))
    run("fit", small, "--ranks", "2,2", "--cells", "--out", tmp_path / "grey.ct")
    said = run("repair", large, "--model", tmp_path / "grey.ct", "-o", tmp_path / "out").stderr
    assert "of 60 pictures 60 resized to 20 x 15, 60 read as grey" in said
    assert open_samples(tmp_path / "out").shape == (60, 20, 15)


@pytest.mark.parametrize("command", ["repair", "reconstruct", "transform"])
def test_it_says_that_a_model_knows_other_units(tmp_path, scenes, command):
    np.save(tmp_path / "x.npy", scenes[0])
    np.save(tmp_path / "y.npy", 255 * scenes[0])
    middle = scenes[0].mean(axis=0)
    np.save(tmp_path / "z.npy", middle + (scenes[0] - middle) / 50)
    model = tmp_path / "m.ct"
    run("fit", tmp_path / "x.npy", "--ranks", "2,2", "--cells", "--out", model)

    def said_of(name):
        what = ["repair", tmp_path / name, "--model", model]
        what = what if command == "repair" else [command, model, tmp_path / name]
        return run(*what, "-o", tmp_path / f"out-{name}").stderr

    assert "explains none of 60 samples" in said_of("y.npy")
    assert "the samples differ 50 times less from each other than those" in said_of("z.npy")
    assert "units" not in said_of("x.npy")


def test_deep_colours_are_written_in_256_shades_and_it_says_so(tmp_path, scenes):
    deep = np.repeat(np.clip(65535 * scenes[0], 0, 65535).astype(np.uint16)[..., None], 3, axis=3)
    np.save(tmp_path / "x.npy", deep)
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "out", "--ranks", "2,2,1").stderr
    assert "has 256 shades for the 65536 of the samples; .npy keeps all" in said
    assert open_samples(tmp_path / "out").dtype == np.uint8


def test_it_says_what_a_video_loses(tmp_path, scenes):
    np.save(tmp_path / "x.npy", np.clip(65535 * scenes[0], 0, 65535).astype(np.uint16))
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "x.mp4").stderr
    assert "20 x 15: videos have even sides, the last row or column is doubled" in said
    assert "256 shades" in said


def test_it_says_what_shades_stand_for(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 12, 1)) * rng.normal(size=10) + 0.01 * rng.normal(size=(40, 12, 10))
    np.save(tmp_path / "x.npy", X)
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "pictures").stderr
    assert f"65536 shades stand for values: black is {X.min():g}, white {X.max():g}" in said
    assert ".npy keeps the numbers" in said
    back = open_samples(tmp_path / "pictures")[:]
    # Most cells come back as they were.
    assert np.median(np.abs(X.min() + back / 65535 * np.ptp(X) - X)) < np.ptp(X) / 65535
    assert "black" not in run("repair", tmp_path / "x.npy", "-o", tmp_path / "y.npy").stderr


def test_two_outputs_in_one_file_are_refused_before_the_work(tmp_path, scenes):
    np.save(tmp_path / "x.npy", scenes[0])
    there = tmp_path / "new.h5"
    told = run("repair", tmp_path / "x.npy", "-o", f"{there}::a", "--foreground", f"{there}::b",
               expect=2)  # fmt: skip
    assert "would be written over" in " ".join(told.output.replace("│", " ").split())
    assert not there.exists()


def test_new_files_may_have_a_value_of_their_own_for_what_is_missing(tmp_path, scenes):
    """Beside the model's, which still counts."""
    gaps = np.isnan(scenes[0])
    np.save(tmp_path / "x.npy", np.where(gaps, -9.0, scenes[0]))
    run("fit", tmp_path / "x.npy", "--ranks", "2,2", "--missing", "-9", "-o", tmp_path / "m.ct")
    half = np.where(np.arange(len(gaps)) % 2, -9.0, -7.0)[:, None, None]
    np.save(tmp_path / "y.npy", np.where(gaps, half, scenes[0]))
    for name, more in (("x", ()), ("y", ("--missing", "-7"))):
        run("repair", tmp_path / f"{name}.npy", "--model", tmp_path / "m.ct", *more,
            "-o", tmp_path / f"{name}-out.npy")  # fmt: skip
    one, other = (np.load(tmp_path / f"{name}-out.npy") for name in "xy")
    np.testing.assert_allclose(one, other)


def test_a_value_for_what_is_missing_may_not_occur(tmp_path):
    X = np.random.default_rng(0).integers(0, 200, (40, 9, 8)).astype(np.uint8)
    np.save(tmp_path / "x.npy", X)
    options = ("repair", tmp_path / "x.npy", "--no-cells", "--ranks", "2,2", "--force", "-o")
    note = "--missing 250 occurs nowhere"
    assert note in run(*options, tmp_path / "y.npy", "--missing", "250").stderr
    assert "nowhere" not in run(*options, tmp_path / "y.npy", "--missing", "7").stderr
    told = run(*options, tmp_path / "y.npy", "--missing", "-1", expect=1).stderr
    assert f"--missing -1 cannot occur in {tmp_path}/x.npy, which holds uint8" in told
    assert "missing_values" not in told


def test_warnings_speak_of_options(tmp_path):
    """Two columns of three are the same in most rows; and ranks that follow every error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8, 3)) @ rng.normal(size=(3, 9))
    np.save(tmp_path / "many.npy", X)
    rare = np.where(rng.random((60, 8, 9)) < 0.85, 0.0, X)
    np.save(tmp_path / "rare.npy", rare)
    many = run("repair", tmp_path / "many.npy", "--ranks", "8,9", "-o", tmp_path / "a.npy").stderr
    assert "note: --cells: cores of (8, 9) follow most of an error" in many
    assert "give smaller --ranks" in many
    said = run("repair", tmp_path / "rare.npy", "--ranks", "2,2", "-o", tmp_path / "b.npy").stderr
    assert "note: --cells: at" in said
    assert "by repair with --no-cells" in said
    assert "cells=" not in many + said


def test_a_table_is_an_output_and_the_help_says_so(tmp_path, scenes):
    np.save(tmp_path / "x.npy", scenes[0])
    run("repair", tmp_path / "x.npy", "-o", tmp_path / "y.csv", "--foreground", tmp_path / "z.csv")
    table = np.loadtxt(tmp_path / "z.csv", delimiter=",", skiprows=1)[:, 1:]
    changed = np.loadtxt(tmp_path / "y.csv", delimiter=",", skiprows=1)[:, 1:]
    assert_array_equal(table == 1, changed != scenes[0].reshape(60, -1))
    assert ".csv" in run("repair", "--help").stdout


def test_no_mode_to_project_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 6, 5)))
    said = run("repair", tmp_path / "x.npy", "-o", tmp_path / "y.npy", "--ranks", "all", expect=2)
    assert "--ranks all projects no mode" in said.stderr
    assert not (tmp_path / "y.npy").exists()
