import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor.datasets import (
    block_outliers,
    dummy_outliers,
    magnified_outliers,
)
from studies.harder_outliers import (
    near_copies,
    negatives,
    pattern_outliers,
    transposed_outliers,
)
from studies.planted import planted

ADDING = [dummy_outliers, near_copies, pattern_outliers]
REPLACING = [block_outliers, magnified_outliers, negatives, transposed_outliers]
SHAPES = [(9, 7), (6, 6), (8, 6, 3), (12,)]
TYPES = [np.float64, np.float32, np.uint8, np.int16]
WIDENED = (pattern_outliers, magnified_outliers)


def samples(shape, dtype=np.float64, n=20):
    rng = np.random.default_rng(3)
    if np.issubdtype(dtype, np.floating):
        return rng.uniform(0.2, 0.8, (n, *shape)).astype(dtype)
    return rng.integers(10, 100, (n, *shape)).astype(dtype)


# Vectors have no transpose.
CASES = [
    (make, shape)
    for make in ADDING + REPLACING
    for shape in SHAPES
    if make is not transposed_outliers or len(shape) > 1
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("make", "shape"), CASES)
def test_rules_that_hold_for_all(make, shape, dtype):
    X = samples(shape, dtype)
    before = X.copy()
    spoiled, is_outlier = make(X, 6, 0)
    again, same = make(X, 6, np.random.default_rng(0))
    other, others = make(X, 6, 1)

    assert_array_equal(X, before)
    assert not np.shares_memory(X, spoiled)
    assert is_outlier.dtype == bool
    assert is_outlier.shape == (len(spoiled),)
    assert is_outlier.sum() == 6
    assert len(spoiled) == (26 if make in ADDING else 20)
    assert_array_equal(spoiled[~is_outlier], X[~is_outlier[:20]])
    if make in ADDING:
        assert_array_equal(is_outlier[:20], False)
    for i in np.flatnonzero(is_outlier):
        assert make in ADDING or (spoiled[i] != X[i]).any()
    assert spoiled.dtype == (np.float64 if make in WIDENED and dtype != np.float32 else dtype)
    assert np.isfinite(spoiled).all()
    assert_array_equal(spoiled, again)
    assert_array_equal(is_outlier, same)
    assert (spoiled != other).any() or (is_outlier != others).any()


@pytest.mark.parametrize("make", ADDING + REPLACING)
def test_a_share_is_that_of_the_returned_data(make):
    X = samples((5, 5), n=70)
    spoiled, is_outlier = make(X, 0.3, 0)
    assert len(spoiled) == (100 if make in ADDING else 70)
    assert is_outlier.mean() == pytest.approx(0.3, abs=1e-12)


@pytest.mark.parametrize("make", ADDING + REPLACING)
def test_no_outliers(make):
    X = samples((5, 5))
    for none in (0, 0.0):
        spoiled, is_outlier = make(X, none, 0)
        assert_array_equal(spoiled, X)
        assert not is_outlier.any()


@pytest.mark.parametrize("make", ADDING + REPLACING)
@pytest.mark.parametrize("n", [-1, 1.0, 1.5, -0.1, float("nan"), "3", None, True])
def test_a_number_that_is_none(make, n):
    with pytest.raises(ValueError, match="n="):
        make(samples((5, 5)), n, 0)


@pytest.mark.parametrize("make", REPLACING)
def test_more_outliers_than_samples(make):
    with pytest.raises(ValueError, match="n=21: there are only 20 samples"):
        make(samples((5, 5)), 21, 0)


@pytest.mark.parametrize("make", ADDING + REPLACING)
def test_samples_that_are_none(make):
    with pytest.raises(ValueError, match=r"axis 0; its shape is \(3,\)"):
        make(np.ones(3), 1, 0)
    with pytest.raises(ValueError, match="NaN"):
        make(np.full((3, 2, 2), np.nan), 1, 0)
    with pytest.raises(ValueError, match="real numbers"):
        make(np.full((3, 2, 2), 1j), 1, 0)


@pytest.mark.parametrize(
    ("X", "low", "high"),
    [
        (samples((30, 30)), 0, 1),
        (samples((30, 30), np.uint8), 0, 255),
        (samples((30, 30)) * 50 - 20, -10, 20),
        (samples((30, 30), np.int16), 10, 99),
    ],
)
def test_noise_fills_the_range_of_the_data(X, low, high):
    spoiled, is_outlier = dummy_outliers(X, 40, 0)
    noise = spoiled[is_outlier].astype(float)
    width = high - low
    # Bounds of five standard errors for 36 000 uniform numbers.
    assert low - 1e-9 <= noise.min() <= low + 0.01 * width
    assert high - 0.01 * width <= noise.max() <= high + 1e-9
    assert noise.mean() == pytest.approx((low + high) / 2, abs=5 * width / np.sqrt(12 * 36_000))
    # A discrete uniform on k values has variance (k^2 - 1) / 12.
    steps = width + 1 if X.dtype.kind in "iu" else width
    assert noise.std() == pytest.approx(steps / np.sqrt(12), rel=0.01)


def test_booleans_stay_booleans():
    X = np.zeros((5, 8, 8), dtype=bool)
    assert dummy_outliers(X, 2, 0)[0].dtype == bool
    spoiled, is_outlier = negatives(X, 2, 0)
    assert spoiled[is_outlier].all()
    assert not spoiled[~is_outlier].any()


def test_data_without_a_range():
    with pytest.raises(ValueError, match=r"all entries of X are 7\.0"):
        dummy_outliers(np.full((3, 2, 2), 7.0), 1, 0)


@pytest.mark.parametrize("shape", [(40, 30), (40, 30, 3), (50,)])
def test_blocks_are_rectangles_of_dots(shape):
    X = np.full((60, *shape), 0.5)
    spoiled, is_outlier = block_outliers(X, 50, 0, sides=(0.2, 0.6))
    lengths = []
    for image in spoiled[is_outlier]:
        covered = image != 0.5
        if len(shape) == 3:
            assert_array_equal(image, np.repeat(image[:, :, :1], 3, axis=2))
            covered = covered[:, :, 0]
        spans = [
            np.flatnonzero(covered.any(axis=tuple({0, 1} - {k})[: covered.ndim - 1]))
            for k in range(covered.ndim)
        ]
        window = tuple(slice(span[0], span[-1] + 1) for span in spans)
        assert covered[window].all()
        assert covered.sum() == covered[window].size
        assert set(np.unique(image)) <= {0.0, 0.5, 1.0}
        lengths.append([len(span) / size for span, size in zip(spans, shape, strict=False)])
    lengths = np.array(lengths)
    assert lengths.min() >= 0.2
    assert lengths.max() <= 0.6
    # 50 draws leave no large part of the allowed sides out.
    assert lengths.min(axis=0).max() < 0.3
    assert lengths.max(axis=0).min() > 0.5
    dots = spoiled[is_outlier][spoiled[is_outlier] != 0.5]
    assert dots.mean() == pytest.approx(0.5, abs=0.1)


def test_blocks_may_lie_anywhere():
    X = np.full((90, 5), 0.5)
    spoiled, _ = block_outliers(X, 90, 0, sides=(0.6, 0.6))
    starts = np.argmax(spoiled != 0.5, axis=1)
    # Three places, 30 of each expected, with a standard deviation of 4.5.
    assert np.bincount(starts) == pytest.approx([30, 30, 30], abs=15)


@pytest.mark.parametrize("sides", [(0, 0.5), (0.6, 0.5), (0.5, 1.1)])
def test_sides_that_are_none(sides):
    with pytest.raises(ValueError, match="sides="):
        block_outliers(samples((5, 5)), 1, 0, sides=sides)


def test_magnified_bytes_do_not_wrap_around():
    X = samples((4, 4), np.uint8)
    spoiled, is_outlier = magnified_outliers(X, 5, 0, magnitude=50)
    assert_array_equal(spoiled[is_outlier], 50.0 * X[is_outlier])
    with pytest.raises(ValueError, match="magnitude=inf"):
        magnified_outliers(X, 5, 0, magnitude=np.inf)


def test_near_copies_are_near():
    spoiled, is_outlier = near_copies(samples((30, 30)), 40, 0, noise=0.05)
    copies = spoiled[is_outlier]
    assert copies.mean(axis=0).std() == pytest.approx(1 / np.sqrt(12), rel=0.05)
    inner = (copies.mean(axis=0) > 0.2) & (copies.mean(axis=0) < 0.8)
    assert copies.std(axis=0, ddof=1)[inner].mean() == pytest.approx(0.05, rel=0.05)
    with pytest.raises(ValueError, match="noise=-1"):
        near_copies(samples((4, 4)), 2, 0, noise=-1)


@pytest.mark.parametrize(
    ("X", "total"),
    [
        (samples((4, 3)), 1),
        (samples((4, 3), np.uint8), 255),
        (np.array([[[-128, 127]]], np.int8), -1),
        (np.array([[[100, 127]]], np.int8), 227),
    ],
)
def test_negatives_add_up(X, total):
    spoiled, is_outlier = negatives(X, 1, 0)
    both = spoiled[is_outlier].astype(float) + X[is_outlier].astype(float)
    assert_allclose(both, total, rtol=1e-15)


@pytest.mark.parametrize("shape", [(20, 15), (20, 15, 3), (30,)])
def test_patterns_share_one_low_rank(shape):
    X = samples(shape, n=30)
    spoiled, is_outlier = pattern_outliers(X, 25, 0, rank=4)
    pattern = spoiled[is_outlier]
    for mode, size in enumerate(shape, start=1):
        unfolded = np.moveaxis(pattern, mode, 0).reshape(size, -1)
        assert np.linalg.matrix_rank(unfolded, rtol=1e-10) == min(4, size)
    norms = np.linalg.norm(pattern.reshape(25, -1), axis=1)
    assert_allclose(norms, np.median(np.linalg.norm(X.reshape(30, -1), axis=1)), rtol=1e-12)
    # Different combinations, not copies of one.
    assert np.linalg.matrix_rank(pattern.reshape(25, -1), rtol=1e-10) >= 4


def test_patterns_that_cannot_be():
    with pytest.raises(ValueError, match="rank=0"):
        pattern_outliers(samples((4, 4)), 2, 0, rank=0)
    with pytest.raises(ValueError, match="zero"):
        pattern_outliers(np.zeros((5, 4, 4)), 2, 0)


def test_square_samples_are_transposed():
    X = samples((6, 6, 3))
    spoiled, is_outlier = transposed_outliers(X, 4, 0)
    for i in np.flatnonzero(is_outlier):
        assert_array_equal(spoiled[i], np.transpose(X[i], (1, 0, 2)))


def test_oblong_samples_are_stretched_back():
    # Twice as high as wide: the transpose's rows are doubled, every second column goes.
    X = samples((8, 4))
    spoiled, is_outlier = transposed_outliers(X, 20, 0)
    assert is_outlier.all()
    assert_array_equal(spoiled, X.transpose(0, 2, 1)[:, np.repeat(np.arange(4), 2), 1::2])
    # 3 x 5: the middles of three rows out of five, and the other way round.
    X = samples((3, 5))
    spoiled, _ = transposed_outliers(X, 20, 0)
    assert_array_equal(spoiled, X.transpose(0, 2, 1)[:, [0, 2, 4]][:, :, [0, 0, 1, 2, 2]])


def test_vectors_have_no_transpose():
    with pytest.raises(ValueError, match="vectors"):
        transposed_outliers(samples((12,)), 2, 0)


@pytest.mark.parametrize(
    ("shape", "ranks"), [((9,), (2,)), ((8, 6), (3, 6)), ((6, 5, 4), (2, 3, 2))]
)
def test_planted_structure_is_the_one_returned(shape, ranks):
    X, factors = planted(200, shape, ranks, rng=0)
    assert X.shape == (200, *shape)
    for mode, (U, size, rank) in enumerate(zip(factors, shape, ranks, strict=True), start=1):
        assert_allclose(U.T @ U, np.eye(rank), atol=1e-12)
        unfolded = np.moveaxis(X, mode, 0).reshape(size, -1)
        V = np.linalg.svd(unfolded, full_matrices=False)[0][:, :rank]
        assert np.linalg.matrix_rank(unfolded, rtol=1e-10) == rank
        assert_allclose(V @ V.T, U @ U.T, atol=1e-10)


def test_planted_noise_is_in_units_of_the_structure():
    clean, _ = planted(500, (8, 6), (3, 2), noise=0, rng=0)
    noisy, _ = planted(500, (8, 6), (3, 2), noise=0.3, rng=0)
    # 3000 core entries: the standard error of the first is 1.3 %.
    assert clean.std() == pytest.approx(1, rel=0.06)
    assert (noisy - clean).std() == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": (3,)}, "one entry of each"),
        ({"ranks": (3, 7)}, r"ranks=\(3, 7\): mode 2 of the samples has 6 entries"),
        ({"n": 0}, "n=0"),
        ({"noise": -0.1}, r"noise=-0\.1"),
    ],
)
def test_planted_truth_that_cannot_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        planted(**{"n": 10, "shape": (8, 6), "ranks": (3, 2), "rng": 0, **wrong})
