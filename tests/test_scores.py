"""Distances inside the subspace: the other half of the outlier map."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import corrtensor as ct
from corrtensor import CorrTensor, MultilinearSubspace
from corrtensor._engine.core_distances import CoreModel, floored, summarise
from corrtensor._engine.products import project
from corrtensor.datasets import load_faces
from studies.harder_outliers import pattern_outliers

SOLVED = ["PCA", "2DPCA", "2DSVD", "GLRAM", "MPCA", "R1-2DSVD", "R1-Tensor", "Corr-Tensor"]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_equal_to_a_plain_loop_over_the_samples(order, make_samples, ranks_of):
    X = make_samples(order)
    model = CorrTensor(ranks_of[order]).fit(X)
    cores = model.transform(X).reshape(len(X), -1)
    good = cores[model.weights_ > 0.5]
    assert (model.weights_[model.weights_ <= 0.5] < 1e-6).all()
    location = np.median(good, axis=0)
    scale = 1.4826 * np.median(np.abs(good - location), axis=0)
    expected = [np.sqrt((((core - location) / scale) ** 2).sum()) for core in cores]
    # The fit's draw of as many places as there are samples takes some good ones twice.
    assert_allclose(model.score_distances(X), expected, rtol=0.35)
    exact = (cores - model.core_location_.ravel()) / model.core_scale_.ravel()
    assert_allclose(model.score_distances(X), np.linalg.norm(exact, axis=1), rtol=1e-10)


def test_medians_are_exact_where_all_samples_count(clean_images):
    model = MultilinearSubspace((3, 2)).fit(clean_images)
    cores = model.transform(clean_images)
    assert_allclose(model.core_location_, np.median(cores, axis=0), atol=1e-12)
    spread = np.median(np.abs(cores - model.core_location_), axis=0)
    assert_allclose(model.core_scale_, 1.4826 * spread, rtol=1e-10)


def test_explained_outliers_are_far_inside():
    """A rank-5 pattern has small residuals; the outlier map shows it all the same."""
    X, bad = pattern_outliers(load_faces().images[:100], 0.3, np.random.default_rng(0))
    model = CorrTensor((15, 15), breakdown=0).fit(X)
    assert model.weights_[bad].min() > 0.5
    distance = model.score_distances(X)
    assert distance[bad].min() > 1.2 * distance[~bad].max()


def test_explained_outliers_of_new_samples_are_far_inside():
    faces = load_faces().images[:100]
    X, bad = pattern_outliers(faces, 0.3, np.random.default_rng(0))
    distance = CorrTensor((15, 15)).fit(faces).score_distances(X)
    assert distance[bad].min() > 1.5 * distance[~bad].max()


@pytest.mark.parametrize("name", SOLVED)
def test_every_solved_method_has_them(name, make_samples):
    X = make_samples(1 if name == "PCA" else 2)
    model = ct.make(name, 3).fit(X)
    assert model.core_location_.shape == model.core_scale_.shape == model.core_shape_
    distance = model.score_distances(X)
    assert distance.shape == (len(X),)
    assert np.isfinite(distance).all()


@pytest.mark.parametrize("factor", [1e-120, 1e-3, 1e120])
def test_scale_of_the_data_does_not_matter(images, factor):
    plain = CorrTensor((3, 2)).fit(images).score_distances(images)
    scaled = CorrTensor((3, 2)).fit(factor * images).score_distances(factor * images)
    assert_allclose(scaled, plain, rtol=1e-6)


def test_neither_order_nor_shift_nor_threads_nor_blocks_matter(images):
    rng = np.random.default_rng(0)
    order = rng.permutation(len(images))
    plain = CorrTensor((3, 2)).fit(images).score_distances(images)
    moved = images[order] + rng.normal(size=images.shape[1:])
    shifted = CorrTensor((3, 2), n_jobs=2, block_size=7).fit(moved).score_distances(moved)
    assert_allclose(shifted, plain[order], rtol=1e-5)


def test_rotated_samples_have_the_same_distances(images):
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(7, 7)))[0]
    plain = CorrTensor((3, 2)).fit(images).score_distances(images)
    turned = CorrTensor((3, 2)).fit(images @ Q).score_distances(images @ Q)
    assert_allclose(turned, plain, rtol=1e-5)


def test_constant_entries_and_copies_give_numbers():
    X = np.zeros((30, 4, 4))
    X[:10] = np.random.default_rng(0).normal(size=(10, 4, 4))
    distance = MultilinearSubspace((4, 3)).fit(X).score_distances(X)
    assert np.isfinite(distance).all()
    assert distance[:10].min() > distance[10:].max()


def test_an_entry_that_hardly_varies_has_no_say():
    """A thousandth of a typical scale is the least: beyond that, rounding would count."""
    rng = np.random.default_rng(0)
    cores = rng.normal(size=(200, 4)) * [3.0, 2.0, 1.0, 1e-12]
    model = summarise(cores)
    typical = np.sqrt(np.mean(np.square(model.scale)))
    assert_allclose(model.scale[3], 1e-3 * typical, rtol=1e-5)
    assert_allclose(model.scale[:3], [3.0, 2.0, 1.0], rtol=0.3)
    far = cores[:1] + np.array([0, 0, 0, 1e-9])
    assert_allclose(model.distances(far), model.distances(cores[:1]), rtol=1e-6)
    assert_array_equal(floored(np.zeros(3)), np.ones(3))


def test_a_model_moves_with_the_mean_and_the_factors(make_samples):
    """Samples are as far from the location as before, seen from another mean, through the same
    space in another basis."""
    rng = np.random.default_rng(0)
    U = [np.linalg.qr(rng.normal(size=(a, k)))[0] for a, k in ((8, 3), (7, 2))]
    turn = [np.eye(3)[:, [2, 0, 1]] * [1, -1, 1], np.eye(2)[:, ::-1]]
    V = [A @ Q for A, Q in zip(U, turn, strict=True)]
    X, mean, step = rng.normal(size=(20, 8, 7)), rng.normal(size=(8, 7)), rng.normal(size=(8, 7))
    old = CoreModel(rng.normal(size=(3, 2)), rng.uniform(1, 2, size=(3, 2)))
    new = old.moved(U, V, step)
    expected = old.distances(project(X - mean, U))
    # The model is about places in the data's space: there, the location stays.
    assert_allclose(new.distances(project(X - (mean + step), V)), expected, rtol=1e-12)


def test_an_enormous_sample_has_a_finite_distance(clean_images):
    model = MultilinearSubspace((3, 2)).fit(clean_images)
    assert np.isfinite(model.score_distances(1e140 * clean_images)).all()


def test_squares_of_distances_neither_overflow_nor_vanish():
    cores = np.array([[3e200, 4e200, 0.0], [3e-200, 0.0, -4e-200], [0.0, 0.0, 0.0]])
    distance = CoreModel(np.zeros(3), np.ones(3)).distances(cores)
    assert_allclose(distance, [5e200, 5e-200, 0.0], rtol=1e-14)


def test_single_precision_is_close_to_double(images):
    double = CorrTensor((3, 2)).fit(images).score_distances(images)
    single = images.astype(np.float32)
    assert_allclose(CorrTensor((3, 2)).fit(single).score_distances(single), double, rtol=1e-3)


def test_samples_on_disk(tmp_path, images):
    path = tmp_path / "X.npy"
    np.save(path, images)
    mapped = np.load(path, mmap_mode="r")
    model = CorrTensor((3, 2), block_size=7).fit(mapped)
    memory = CorrTensor((3, 2), block_size=7).fit(images)
    assert_array_equal(model.score_distances(mapped), memory.score_distances(images))


def test_a_large_set_is_learned_from_few_samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 6, 5)) * np.arange(6, 0, -1)[:, None]
    model = MultilinearSubspace((3, 2)).fit(X)
    spread = np.median(np.abs(model.transform(X) - np.median(model.transform(X), axis=0)), axis=0)
    # The median absolute deviation of 500 normal samples is within 6 % of the truth, mostly.
    assert_allclose(model.core_scale_, 1.4826 * spread, rtol=0.2)


def test_samples_without_weight_have_no_say(clean_images):
    weight = np.ones(len(clean_images))
    weight[:20] = 0
    spoiled = clean_images.copy()
    spoiled[:20] *= 100
    one = MultilinearSubspace((3, 2)).fit(clean_images[20:])
    two = MultilinearSubspace((3, 2)).fit(spoiled, sample_weight=weight)
    assert_allclose(two.score_distances(clean_images), one.score_distances(clean_images), rtol=0.35)


def test_a_stream_takes_its_distances_along(make_samples):
    """A batch too small to learn from leaves distances as they were but for the turn."""
    X = make_samples(2, n=300, n_bad=0)
    model = MultilinearSubspace((3, 2)).partial_fit(X[:200])
    before = model.score_distances(X)
    model.partial_fit(X[200:205])
    assert_allclose(model.score_distances(X), before, rtol=0.2)
    assert np.median(np.abs(model.score_distances(X) / before - 1)) < 0.05
    model.partial_fit(X[205:])
    assert_allclose(np.median(model.score_distances(X)), np.median(before), rtol=0.1)


def test_bad_samples_are_named(clean_images):
    model = MultilinearSubspace((3, 2)).fit(clean_images)
    clean_images[17, 0, 0] = np.inf
    with pytest.raises(ValueError, match="sample 17"):
        model.score_distances(clean_images)
