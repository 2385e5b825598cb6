"""Background and foreground of a clip: the example, on its own scene and on a real one."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import corrtensor as ct

pytest.importorskip("skimage")
EXAMPLE = Path(__file__).parents[1] / "examples" / "plot_06_video.py"


@pytest.fixture(scope="module")
def example():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    return runpy.run_path(str(EXAMPLE))


def better_and_faster(told):
    _, error, f, seconds = told["CorrTensor"]
    _, error_of_pursuit, f_of_pursuit, seconds_of_pursuit = told["pursuit"]
    assert f >= f_of_pursuit
    assert error < 0.5 * error_of_pursuit
    assert seconds < 0.7 * seconds_of_pursuit
    assert f > told["PCA"][2] + 0.1


def test_foreground_is_found_as_well_as_by_pursuit_and_sooner(example):
    better_and_faster(example["told"])


def test_the_same_on_a_real_scene(example, data_dir):
    path = data_dir / "video_escalator.npz"
    if not path.is_file():
        pytest.skip(f"no {path.name} in {data_dir}")
    with np.load(path, allow_pickle=False) as file:
        still = np.median(file["frames"][:, ::2, ::2], axis=0) / 255
    better_and_faster(example["compare"](*example["shapes_on"](still)))


@pytest.mark.parametrize("light", [0.0, 0.1])
@pytest.mark.parametrize(("wide", "speed"), [(8, 0.8), (4, 3.0), (14, 1.0)])
def test_what_moves_is_not_taken_for_the_light(light, wide, speed):
    """Also where nothing else varies: up to a quarter of the frames show it at a place."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:45, :60]
    still = 100 + 40 * np.sin(columns / 8) + 30 * np.cos(rows / 6)
    swing = 1 + light * np.sin(np.arange(60) / 60 * 2 * np.pi)
    scene = still * swing[:, None, None] + 2 * rng.normal(size=(60, 45, 60))
    moving = np.zeros(scene.shape, bool)
    for t in range(60):
        left = int(2 + speed * t) % 58
        moving[t, 15:25, left : left + wide] = True
    X = np.where(moving, 240, scene).reshape(60, -1)
    back = ct.CorrTensor(1, cells=True).fit(X).repair(X).reshape(scene.shape)
    # Noise of 2 is all that is left, and a little for the light.
    assert np.sqrt(np.square(back - scene)[moving].mean()) < 2.2
