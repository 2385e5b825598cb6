"""Background and foreground of a clip: the example, on its own scene and on a real one."""

import runpy
from pathlib import Path

import numpy as np
import pytest

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
