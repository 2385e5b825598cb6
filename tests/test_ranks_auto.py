"""Ranks that come by themselves are the same with and without bad samples."""

import warnings

import pytest

from corrtensor import CorrTensor
from studies.robustness import grid

SMALL_FACES = next(d for d in grid.DATA if d.name == "small faces")


@pytest.mark.data
@pytest.mark.parametrize("name", ["Yale", "LFW grey", "MNIST 3"])
def test_a_third_of_noise_moves_no_rank_by_more_than_one(data_dir, name):
    dataset = next(d for d in grid.DATA if d.name == name)
    clean = CorrTensor("auto").fit(grid.load(dataset, data_dir)).ranks_
    for seed in (0, 1):
        X, _ = grid.spoil(dataset, data_dir, "noise", 0.3, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            spoiled = CorrTensor("auto").fit(X).ranks_
        assert max(abs(a - b) for a, b in zip(clean, spoiled, strict=True)) <= 1


def test_small_faces():
    clean = CorrTensor("auto").fit(grid.load(SMALL_FACES, None)).ranks_
    X, _ = grid.spoil(SMALL_FACES, None, "noise", 0.3, 0)
    spoiled = CorrTensor("auto").fit(X).ranks_
    assert max(abs(a - b) for a, b in zip(clean, spoiled, strict=True)) <= 1
