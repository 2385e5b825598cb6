"""Profiles: energies by hand, what does not change them, and strangers that residuals miss."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import corrtensor as ct
from corrtensor import TensorOutlierDetector, load, save
from corrtensor.datasets import load_faces
from corrtensor.tasks.profile import fit_normal, shell_energies, shells, similarity


@parametrize_with_checks([TensorOutlierDetector(distance="features")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def faces():
    """A hundred small faces, then thirty pictures of other things."""
    return load_faces().images[:130]


def test_shells_cover_every_direction_once():
    assert shells(64) == [0, 1, 4, 16, 64]
    assert shells(20) == [0, 1, 4, 16, 20]
    assert shells(1) == [0, 1]


def test_energies_by_a_double_loop():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 6, 5, 2))
    bases = (*(np.linalg.qr(rng.normal(size=(a, a)))[0] for a in (6, 5)), None)
    found = shell_energies(x, bases)
    turned = np.einsum("nijk,ia,jb->nabk", x, *bases[:2])
    expected = [
        np.mean(turned[:, i:j, k:m, :] ** 2, axis=(1, 2, 3))
        for i, j in ((0, 1), (1, 4), (4, 6))
        for k, m in ((0, 1), (1, 4), (4, 5))
    ]
    assert_allclose(found, np.stack(expected, axis=1), rtol=1e-12)
    # all directions together: the energy of the sample
    sizes = np.outer([1, 3, 2], [1, 3, 1]).ravel() * 2
    assert_allclose(found @ sizes, np.square(x).sum(axis=(1, 2, 3)))


def test_similarity_is_the_correlation_with_the_nearest_others():
    x = np.random.default_rng(0).normal(size=(9, 4, 3))
    references = x.reshape(9, -1)[:7]
    r = np.corrcoef(x.reshape(9, -1))[:, :7]
    r[np.arange(7), np.arange(7)] = -1
    expected = np.arctanh(np.sort(r, axis=1)[:, -5:].mean(axis=1))
    unit = references - references.mean(axis=1, keepdims=True)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    assert_allclose(similarity(x, unit.astype(np.float32)), expected, atol=1e-5)
    # neither brightness nor contrast matters
    assert_allclose(similarity(7 * x - 3, unit.astype(np.float32)), expected, atol=1e-5)


def test_outliers_do_not_move_the_normal_distribution():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 3))
    F[:80] += 50
    normal, clean = fit_normal(F), fit_normal(F[80:])
    assert normal.excess(F)[:80].min() > 5
    assert np.corrcoef(normal.excess(F[80:]), clean.excess(F[80:]))[0, 1] > 0.95


def test_strangers_that_the_subspace_explains(faces):
    """The README's table shows it: by residual, 1 of 30 non-faces is found."""
    strange = np.arange(130) >= 100
    by_profile = TensorOutlierDetector(distance="features").fit(faces)
    by_residual = TensorOutlierDetector().fit(faces)
    assert roc_auc_score(strange, -by_residual.score_samples(faces)) < 0.2
    assert roc_auc_score(strange, -by_profile.score_samples(faces)) > 0.9


@pytest.mark.parametrize("factor", [1e-80, 1e-3, 255.0, 1e80])
def test_the_unit_of_the_data_does_not_matter(faces, factor):
    scores = TensorOutlierDetector(distance="features").fit(faces).score_samples(faces)
    scaled = TensorOutlierDetector(distance="features").fit(factor * faces)
    assert_allclose(scaled.score_samples(factor * faces), scores, rtol=2e-4, atol=2e-4)


def test_on_disk_flat_and_in_memory_agree(faces, tmp_path):
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "x.zarr", shape=faces.shape, dtype=faces.dtype)
    stored[:] = faces
    scores = TensorOutlierDetector(distance="features").fit(faces).score_samples(faces)
    there = TensorOutlierDetector(distance="features").fit(stored)
    assert_array_equal(there.score_samples(stored), scores)
    flat = faces.reshape(len(faces), -1)
    shaped = TensorOutlierDetector(ct.CorrTensor(sample_shape=(25, 25)), distance="features").fit(
        flat
    )
    assert_allclose(shaped.score_samples(flat), scores)


def test_other_subspaces_and_orders(images):
    for subspace in (ct.make("L1-2DPCA", 2), FrozenEstimator(ct.make("MPCA", 2).fit(images))):
        model = TensorOutlierDetector(subspace, distance="features").fit(images)
        assert set(np.argsort(model.score_samples(images))[:8]) == set(range(8))
    X = np.random.default_rng(0).normal(size=(60, 4, 3, 2, 3))
    assert np.isfinite(TensorOutlierDetector(distance="features").fit(X).score_samples(X)).all()


def test_a_score_does_not_depend_on_the_company(faces):
    model = TensorOutlierDetector(distance="features").fit(faces[:60])
    scores = model.score_samples(faces)
    for company in (faces[::-1], faces[40:], faces[:1]):
        first = model.score_samples(company)
        rows = [np.flatnonzero((faces == x).all(axis=(1, 2)))[0] for x in company]
        assert_allclose(first, scores[rows], rtol=1e-10, atol=1e-10)


def test_a_saved_detector_scores_alike(faces, tmp_path):
    model = TensorOutlierDetector(distance="features").fit(faces[:60])
    save(model, tmp_path / "d.ct")
    assert_array_equal(load(tmp_path / "d.ct").score_samples(faces), model.score_samples(faces))


def test_samples_that_are_constant_or_alike(faces):
    X = faces[:100].copy()
    X[3] = 0.5
    X[4:10] = X[11]
    scores = TensorOutlierDetector(distance="features").fit(X).score_samples(X)
    assert np.isfinite(scores).all()
    assert scores.argmin() == 3


def test_a_wrong_name_is_named(faces):
    with pytest.raises(ValueError, match="distance='texture': use 'orthogonal' or 'features'"):
        TensorOutlierDetector(distance="texture").fit(faces)
