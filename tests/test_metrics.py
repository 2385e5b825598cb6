from itertools import permutations
from math import exp, log2

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ortho_group

from corrtensor.metrics import (
    clustering_accuracy,
    normalized_mutual_info,
    reconstruction_error,
)
from studies.paper.similarity import similarity_matrix


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_classes", "n_clusters"), [(4, 4), (3, 5), (5, 2), (1, 3)])
def test_accuracy_is_the_best_over_all_permutations(seed, n_classes, n_clusters):
    rng = np.random.default_rng(seed)
    classes, clusters = rng.integers(n_classes, size=30), rng.integers(n_clusters, size=30)
    # Names beyond the classes stand for "no class".
    names = range(max(n_classes, n_clusters))
    best = max(np.mean(classes == np.array(p)[clusters]) for p in permutations(names))
    assert clustering_accuracy(classes, clusters) == pytest.approx(best, abs=1e-15)


def test_accuracy_wants_one_cluster_for_one_class():
    # Majority vote would let both clusters be class 0 and say 1.0.
    assert clustering_accuracy([0, 0, 0, 0], [0, 0, 0, 1]) == 0.75


def mutual_information_of_eq_35(classes, clusters):
    total = 0.0
    for s in set(classes):
        for t in set(clusters):
            both = sum(a == s and b == t for a, b in zip(classes, clusters, strict=True))
            if both:
                p, n = both / len(classes), len(classes)
                total += p * log2(p / ((classes.count(s) / n) * (clusters.count(t) / n)))
    return total


def entropy(labels):
    shares = [labels.count(s) / len(labels) for s in set(labels)]
    return -sum(p * log2(p) for p in shares)


def test_nmi_by_hand():
    information = 0.5 * log2(4 / 3) + 0.25 * log2(2 / 3) + 0.25 * log2(2)
    entropies = 1 + (0.75 * log2(4 / 3) + 0.25 * 2)
    found = normalized_mutual_info([0, 0, 1, 1], [0, 0, 0, 1])
    assert found == pytest.approx(information / (entropies / 2), abs=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_nmi_is_eq_34(seed):
    rng = np.random.default_rng(seed)
    classes, clusters = rng.integers(4, size=50).tolist(), rng.integers(3, size=50).tolist()
    expected = mutual_information_of_eq_35(classes, clusters) / (
        (entropy(classes) + entropy(clusters)) / 2
    )
    assert normalized_mutual_info(classes, clusters) == pytest.approx(expected, abs=1e-12)


def test_nmi_limits():
    assert normalized_mutual_info([0, 0, 1, 1], [0, 1, 0, 1]) == pytest.approx(0, abs=1e-14)
    assert normalized_mutual_info([3, 3, 3], ["a", "a", "a"]) == 1


@pytest.mark.parametrize("score", [clustering_accuracy, normalized_mutual_info])
def test_names_of_labels_do_not_matter(score):
    classes, clusters = [0, 0, 1, 1, 2, 2, 2], [1, 1, 2, 0, 0, 0, 0]
    named = [["x", "y", "z"][c] for c in classes]
    halves = [c + 0.5 for c in clusters]
    assert score(named, halves) == pytest.approx(score(classes, clusters), abs=1e-15)


@pytest.mark.parametrize("score", [clustering_accuracy, normalized_mutual_info])
def test_labels_that_do_not_pair_up(score):
    with pytest.raises(ValueError, match="inconsistent numbers"):
        score([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="no labels"):
        score([], [])


@pytest.mark.parametrize("shape", [(7, 3), (7, 3, 2), (1100, 4, 3, 2)])
def test_reconstruction_error_is_a_sum_over_samples(shape):
    rng = np.random.default_rng(0)
    X, X_new = rng.standard_normal(shape), rng.standard_normal(shape)
    expected = np.mean(
        [np.linalg.norm((a - b).ravel()) ** 2 for a, b in zip(X, X_new, strict=True)]
    )
    assert reconstruction_error(X, X_new) == pytest.approx(expected, rel=1e-12)


def test_bytes_do_not_wrap_around():
    low, high = np.full((2, 2, 2), 0, np.uint8), np.full((2, 2, 2), 255, np.uint8)
    assert reconstruction_error(low, high) == 4 * 255**2


def test_reconstruction_of_another_shape():
    with pytest.raises(ValueError, match=r"\(3, 4, 5\).*\(3, 20\)"):
        reconstruction_error(np.zeros((3, 4, 5)), np.zeros((3, 20)))
    with pytest.raises(ValueError, match="axis 0"):
        reconstruction_error(np.zeros((0, 4)), np.zeros((0, 4)))


def test_similarity_by_hand_and_its_order():
    # Squared distances 1, 9, 4 between 0, 1 and 3: their median is 4.
    similarity, order = similarity_matrix([[3.0], [0.0], [1.0]], labels=["b", "a", "a"])
    assert_array_equal(order, [1, 2, 0])
    expected = [[1, exp(-1 / 4), exp(-9 / 4)], [exp(-1 / 4), 1, exp(-1)], [exp(-9 / 4), exp(-1), 1]]
    assert_allclose(similarity, expected, rtol=1e-14)


def test_similarity_knows_no_rotation_shift_or_scale():
    rng = np.random.default_rng(1)
    cores = rng.standard_normal((20, 4, 3))
    Q = ortho_group.rvs(4, random_state=0)
    plain, order = similarity_matrix(cores)
    moved, _ = similarity_matrix(1e3 * np.einsum("ij,njk->nik", Q, cores) + 7)
    assert_array_equal(order, np.arange(20))
    assert_allclose(moved, plain, rtol=1e-10)


def test_similarity_of_samples_that_are_mostly_alike():
    similarity, _ = similarity_matrix([[0.1, 0.3]] * 9 + [[5.0, 5.0]])
    expected = np.ones((10, 10))
    expected[9, :9] = expected[:9, 9] = 0
    assert_allclose(similarity, expected, atol=1e-15)
    assert_array_equal(similarity_matrix([[0.1, 0.3]] * 4)[0], np.ones((4, 4)))
    assert_array_equal(similarity_matrix([[0.1, 0.3]])[0], [[1]])


def test_similarity_wants_a_label_for_each_sample():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        similarity_matrix(np.zeros((3, 2)), labels=[0, 1])
