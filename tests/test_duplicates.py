"""Copies: all that were made, and no others."""

import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from corrtensor.datasets import load_faces
from corrtensor.tasks import find_duplicates
from corrtensor.tasks.duplicates import fingerprints


@pytest.fixture
def faces():
    return np.rint(255 * load_faces().images[:60]).astype(np.uint8)


def recompressed(x, scale=1.0):
    picture = Image.fromarray(x)
    size = picture.size
    picture = picture.resize([round(scale * a) for a in size])
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=80)
    return np.asarray(Image.open(file).resize(size))


def test_the_same_resized_and_compressed(faces):
    made = [faces[3], recompressed(faces[7]), recompressed(faces[9], 1.7), faces[3]]
    found = find_duplicates(np.concatenate([faces, made]))
    assert found.groups == ((3, 60, 63), (7, 61), (9, 62))
    assert_array_equal(np.flatnonzero(~found.same), [61, 62])
    words = found.words([f"{i}.png" for i in range(64)])
    assert words[60] == "duplicate of 3.png"
    assert words[61] == "near-duplicate of 7.png"
    assert not find_duplicates(faces).groups


@pytest.mark.parametrize("turns", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_turned_and_mirrored_twins(faces, turns, mirrored):
    twin = np.rot90(faces[5][:, ::-1] if mirrored else faces[5], turns)
    found = find_duplicates(np.concatenate([faces, twin[None]]))
    if not turns and not mirrored:
        assert found.groups == ((5, 60),)
        assert not found.twins
        return
    assert not found.groups
    ((one, other, how),) = found.twins
    assert (one, other) == (60, 5)
    assert ("mirrored" in how) == mirrored
    assert ("turned" in how) == (turns % 2 == 1 or not mirrored)


def test_as_a_double_loop_says(faces):
    X = np.concatenate([faces, [recompressed(faces[k], 1.4) for k in range(20)]])
    _, prints, _ = fingerprints(X, X.shape[1:])
    flat = prints.reshape(len(X), -1).astype(float)
    leading = np.linalg.eigh(flat.T @ flat)[1][:, -16:]
    expected = set()
    for i in range(len(X)):
        for j in range(i):
            gap = flat[i] - flat[j]
            if np.square(leading.T @ gap).sum() <= 0.01 * max(0.05, np.linalg.norm(gap)):
                expected.add((j, i))
    assert {tuple(group) for group in find_duplicates(X).groups} == expected
    assert len(expected) == 20


@pytest.mark.parametrize(("fine", "copies"), [(True, 5), (False, 0)])
def test_a_copy_differs_in_fine_detail(faces, fine, copies):
    """Differences of one size: noise is what compression leaves, a shadow is not."""
    x = faces.astype(float)
    rng = np.random.default_rng(0)
    what = rng.normal(size=(5, 25, 25)) if fine else np.linspace(-1, 1, 25)[None, None] + 0 * x[:5]
    size = 0.035 * x[:5].std(axis=(1, 2), keepdims=True)
    made = x[:5] + size * what / what.std(axis=(1, 2), keepdims=True)
    assert len(find_duplicates(np.concatenate([x, made])).groups) == copies


@pytest.mark.data
@pytest.mark.parametrize("name", ["palm", "usps_subset"])
def test_small_and_simple_pictures(data_dir, name):
    """Of 16 x 16: palms of little contrast, and digits of which many are nearly equal."""
    with np.load(data_dir / f"{name}.npz") as arrays:
        X = arrays["images"]
    X = X if X.dtype == np.uint8 else np.rint(127.5 * (X + 1)).astype(np.uint8)
    made = [recompressed(x) for x in X[::40]]
    found = find_duplicates(np.concatenate([X, made]))
    assert found.groups == tuple((40 * k, len(X) + k) for k in range(len(made)))
    assert not found.twins


def test_flat_pictures_are_copies_only_of_their_own_brightness(faces):
    flat = [np.full((25, 25), v, np.uint8) for v in (0, 0, 255, 128)]
    assert find_duplicates(np.concatenate([faces, flat])).groups == ((60, 61),)


def test_darker_or_fainter_is_no_copy(faces):
    made = [faces[3] // 2, faces[5] // 2 + 60]
    assert not find_duplicates(np.concatenate([faces, made])).groups


def test_a_thousand_copies_of_one(faces):
    X = np.repeat(faces[:2], 1000, axis=0)
    assert [len(group) for group in find_duplicates(X).groups] == [1000, 1000]


@pytest.mark.parametrize("shape", [(40,), (2,), (1, 1), (6, 5, 4, 3), (9, 8, 3)])
def test_samples_of_any_order(shape):
    X = np.random.default_rng(0).normal(size=(30, *shape)) * 100
    X[7] = X[2]
    assert (2, 7) in find_duplicates(X).groups
    assert not find_duplicates(X[:1]).groups


def test_arrays_on_disk(faces, tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "x.zarr", shape=(61, 25, 25), dtype="uint8")
    stored[:] = np.concatenate([faces, faces[4:5]])
    assert find_duplicates(stored).groups == ((4, 60),)
