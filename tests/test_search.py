"""Which samples count: the metric, the test of isolation, and the search that uses both.

Truths come from literal formulas, from simulation under the model, from planted groups and from
invariances; bars on real data are in ``test_robustness.py``.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import subspace_angles
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.preprocessing import RobustScaler

import corrtensor as ct
from corrtensor._engine.arrays.source import Source
from corrtensor._robust import isolation, metric, search, sizes
from corrtensor._robust.isolation import Splits

SHAPE, RANKS = (12, 10), (3, 3)


def good_samples(rng, n, shape=SHAPE, noise=0.1):
    """Matrices of ranks (3, 3) and noise, of different sizes."""
    A, B = (np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in shape)
    cores = rng.normal(size=(n, 3, 3)) * np.array([3.0, 2.0, 1.0])
    X = A @ cores @ B.T + noise * rng.normal(size=(n, *shape))
    return X * rng.lognormal(sigma=0.2, size=(n, 1, 1)) + rng.normal(size=shape)


def outliers(rng, kind, X, n):
    """Samples of another kind."""
    shape = X.shape[1:]
    if kind == "noise":
        return X.mean(axis=0) + 2.0 * rng.normal(size=(n, *shape))
    if kind == "times 50":
        return 50 * X[:n]
    if kind == "copies":
        return X.mean(axis=0) + 2.0 * rng.normal(size=shape) + 0.01 * rng.normal(size=(n, *shape))
    P, Q = (np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in shape)
    return 8 * P @ rng.normal(size=(n, 2, 2)) @ Q.T


def verdict_on(X, ranks=RANKS, breakdown=0.5, weight=None, n_jobs=1):
    source = Source(X, n_jobs=n_jobs)
    options = ct.CorrTensor()._options()
    return search.search(source, ranks, options, weight, breakdown)


# --- the test of isolation


def literal_splits(x, least):
    """The definition of section 6, one cut after the other."""
    x, n, rows = sorted(x), len(x), []
    for kept in range(n - 1, math.ceil(least) - 1, -1):
        low, middle, high = (x[int(kept * share)] for share in (0.25, 0.5, 0.75))
        tail = [value - high for value in x[int(kept * 0.75) : kept]]
        theta, m = sum(tail) / len(tail), len(tail)
        gap = (x[kept] - x[kept - 1]) / theta
        # Those beyond the gap are known to exceed the largest that is kept.
        joint = (sum(tail) + (n - kept) * (x[kept - 1] - high)) / m
        near = x[kept + (n - 1 - kept) // 10]
        rows.append(
            (
                m * math.log(1 + gap / m),
                m * math.log(1 + (n - kept) * gap * theta / joint / m),
                (near - middle) * 1.349 / (high - low),
            )
        )
    return np.array(rows)


@pytest.mark.parametrize("n", [20, 61, 200])
def test_splits_by_their_definition(n):
    x = np.random.default_rng(n).normal(size=n)
    splits = Splits(x, n / 2)
    found = np.stack([splits.gaps, splits.evidence, splits.distances], axis=1)
    assert_allclose(found, literal_splits(x, n / 2), rtol=1e-9)
    first = splits[0]
    assert_array_equal(np.flatnonzero(~first.kept), [x.argmax()])
    assert np.sort(x)[-2] < first.cut < x.max()


@pytest.mark.parametrize(("n", "most"), [(40, 0.02), (60, 0.01), (150, 0.01), (300, 0.01)])
@pytest.mark.parametrize("kind", ["exponential", "normal", "log of chi-squared"])
def test_false_alarms_are_as_rare_as_stated(n, most, kind):
    """Under the model at most one set in a hundred has a group apart; lighter tails have fewer.

    With forty samples the tail is five to ten of them: 1.1 in a hundred, as section 6 says.
    """
    rng = np.random.default_rng(n)
    draw = {
        "exponential": lambda: rng.exponential(size=n),
        "normal": lambda: rng.normal(size=n),
        "log of chi-squared": lambda: np.log(rng.chisquare(50, size=n)),
    }[kind]
    alarms = sum(Splits(draw(), n / 2).isolated() is not None for _ in range(1000))
    assert alarms <= 1000 * most


def test_a_single_value_needs_more_than_a_group():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    far = x.max() + 2.5
    assert Splits(np.append(x, far), 100).isolated() is None
    group = Splits(np.append(x, far + 0.1 * rng.normal(size=30)), 100).isolated()
    assert group is not None
    assert_array_equal(np.flatnonzero(~group.kept), np.arange(200, 230))
    assert not group.beyond_doubt
    alone = Splits(np.append(x, x.max() + 20), 100).isolated()
    assert alone is not None
    assert alone.beyond_doubt


def test_a_value_that_is_there_often_is_as_much_evidence_as_so_many():
    """The others' quartiles and tail are the same."""
    x = np.random.default_rng(0).exponential(size=100)
    once = Splits(np.append(x, 9.0), 50, np.append(np.ones(100), 30.0))
    often = Splits(np.append(x, np.full(30, 9.0)), 50)
    here, there = np.flatnonzero(once.kept == 100)[0], np.flatnonzero(often.kept == 100)[0]
    for name in ("gaps", "evidence", "distances", "scales", "cuts"):
        assert_allclose(getattr(once, name)[here], getattr(often, name)[there])


def test_copies_that_chance_makes_are_no_evidence():
    rng = np.random.default_rng(0)
    away = rng.random(200)[rng.integers(200, size=200)]
    assert np.unique(away, return_counts=True)[1].max() >= 4
    assert (search.draw(away, np.arange(200))[1] == 1).all()
    times = search.draw(np.r_[away, np.full(30, 2.0)], np.arange(230))[1]
    assert_array_equal(np.flatnonzero(times > 1), [200])


def test_the_smallest_group_comes_first():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(size=200), 20 + rng.normal(size=40), 60 + rng.normal(size=5)])
    first = Splits(x, 120).isolated()
    assert_array_equal(np.flatnonzero(~first.kept), np.arange(240, 245))


def test_values_without_spread_have_no_gap():
    assert Splits(np.append(np.zeros(50), 9.0), 25).isolated() is None
    assert Splits(np.append(1e-9 * np.arange(50.0), 9.0), 25).likeliest() is None


# --- the metric


def learned(X, weights=None):
    """Return a source, the metric of weighted samples, and the distances of all."""
    source = Source(X, n_jobs=1, origin=np.zeros(X.shape[1:]))
    w = np.ones(len(X)) if weights is None else weights
    return source, *metric.Metric.of(*metric.see(source, w), w, 0.3)


def test_a_product_of_variances_is_found_and_shrunk():
    a, b, c = np.array([4.0, 1, 1]), np.array([3.0, 1]), np.array([1.0, 2, 3])
    M = a[:, None, None] * b[:, None] * c
    assert_allclose(metric.separable(M, 0.0)[0].reshape(M.shape), M, rtol=1e-12)
    V, floor = metric.separable(M, 0.5)
    wanted = (a + 0.5 * 2)[:, None, None] * (b + 0.5 * 2)[:, None] * (c + 0.5 * 2)
    ratio = V.reshape(M.shape) / wanted
    assert_allclose(ratio, ratio[0, 0, 0], rtol=0.05)
    # What has no variance at all still has the floor.
    assert_allclose(
        metric.separable(np.pad(M, 1), 0.5)[1], metric.separable(np.pad(M, 1), 0.5)[0].min()
    )
    assert floor < V.min()


def test_distances_by_the_dense_covariance():
    """The same number from a Kronecker product written out."""
    X = good_samples(np.random.default_rng(2), 80)
    _, found, d = learned(X)
    U = np.kron(*found.frame.bases)
    inverse = U @ np.diag(1 / found.variance) @ U.T
    place = found.frame.mean.ravel() + U @ found.center
    flat = X.reshape(len(X), -1) - place
    expected = np.einsum("ij,jk,ik->i", flat, inverse, flat)
    assert_allclose(np.exp(d), expected)


@pytest.mark.parametrize("shape", [(12, 10), (310, 4), (5, 4, 6), (40,)])
def test_a_metric_measures_blocks_as_it_measured_what_it_learned_from(shape):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(70, *shape)) * np.linspace(0.1, 2, shape[-1])
    source, found, d = learned(X, rng.random(70))
    measured = np.empty(70)
    source.fill(measured, found.measure)
    assert_allclose(measured, d, rtol=1e-9)


def test_what_has_no_variance_of_its_own_is_pooled(monkeypatch):
    """Fewer directions: the rest of a sample counts, so that noise there is still seen."""
    rng = np.random.default_rng(4)
    X = good_samples(rng, 60)
    X[:10] += 0.5 * rng.normal(size=(10, *SHAPE))
    monkeypatch.setattr(metric, "ENTRIES", 16)
    _, found, d = learned(X, (np.arange(60) >= 10).astype(float))
    entries = found.frame.see(X)
    assert entries.shape == (60, 16 + 1)
    assert_allclose(
        np.square(entries).sum(axis=1),
        np.square(X - found.frame.mean).reshape(60, -1).sum(axis=1),
    )
    assert d[:10].min() > np.quantile(d[10:], 0.9)


def test_rotation_scale_and_shift_change_no_difference_of_distances():
    rng = np.random.default_rng(5)
    X = good_samples(rng, 60)
    P, Q = (np.linalg.qr(rng.normal(size=(a, a)))[0] for a in SHAPE)

    def relative(X):
        d = learned(X)[2]
        return d - d[0]

    expected = relative(X)
    assert_allclose(relative(P @ X @ Q), expected, atol=1e-8)
    assert_allclose(relative(1e6 * X + 3.0), expected, atol=1e-6)


def test_samples_that_only_rounding_tells_apart_have_finite_distances():
    X = np.tile(np.random.default_rng(6).normal(size=SHAPE), (30, 1, 1))
    assert np.isfinite(learned(X)[2]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_that_is_added_to_all_changes_no_score(dtype):
    """Neither the samples that are drawn nor the halves hang on where the origin is."""
    rng = np.random.default_rng(18)
    X = good_samples(rng, 500)
    X = np.concatenate([X, outliers(rng, "noise", X, 60)]).astype(dtype)
    shift = (5 * rng.normal(size=SHAPE)).astype(dtype)
    here, there = (verdict_on(Y) for Y in (X, X + shift))
    assert_array_equal(here.accepted, there.accepted)
    assert_allclose(there.scores, here.scores, rtol=1e-2 if dtype == np.float32 else 1e-8)


# --- the search


@pytest.mark.parametrize("seed", range(4))
def test_a_kind_that_hardly_varies_hides_no_noise(seed):
    """Quartiles of distances from two kinds are far apart, so that nothing is far beyond them."""
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(12, 3)))[0] for _ in range(2))

    def of_a_kind(n, size):
        cores = size * rng.normal(size=(n, 3, 3)) + (size < 1) * rng.normal(size=(3, 3))
        return A @ cores @ B.T + 0.1 * size * rng.normal(size=(n, 12, 12))

    good = np.concatenate([of_a_kind(120, 1.0), of_a_kind(100, 0.3)])
    assert verdict_on(good).kept.all()
    noise = 0.8 * rng.normal(size=(55, 12, 12))
    assert_array_equal(verdict_on(np.concatenate([good, noise])).kept, np.arange(275) < 220)


@pytest.mark.parametrize("seed", range(4))
def test_three_kinds_in_one_subspace_are_kept(seed):
    """The largest of them lies beyond a wide gap, but near."""
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(12, 3)))[0] for _ in range(2))
    sizes = np.repeat([1.0, 0.3, 0.08], [60, 80, 60])[:, None, None]
    X = A @ (sizes * rng.normal(size=(200, 3, 3))) @ B.T
    assert verdict_on(X + 0.1 * sizes * rng.normal(size=X.shape)).kept.all()


@pytest.mark.parametrize("count", [60, 90])
@pytest.mark.parametrize("seed", range(3))
def test_noisy_blank_frames_are_no_majority_with_a_kind_that_hardly_varies(seed, count):
    """One vote together: else the kind that varies most would be the minority, and rejected."""
    rng = np.random.default_rng(seed)
    A, B = (np.linalg.qr(rng.normal(size=(12, 3)))[0] for _ in range(2))

    def of_a_kind(n, size, center):
        cores = size * rng.normal(size=(n, 3, 3)) + center * rng.normal(size=(3, 3))
        X = A @ cores @ B.T + 0.1 * size * rng.normal(size=(n, 12, 12))
        return X * rng.lognormal(sigma=0.2, size=(n, 1, 1))

    good = np.concatenate([of_a_kind(140, 1.0, 1.0), of_a_kind(80, 0.2, 0.3)])
    blank = 0.02 * rng.normal(size=(count, 12, 12))
    verdict = verdict_on(np.concatenate([good, blank]))
    assert verdict.kept[:220].all()
    assert all(str(group).endswith(search.COPIES) for group in verdict.groups)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["table", "gains"])
def test_large_noise_does_not_make_good_samples_copies(seed, kind):
    """Beside it good samples look alike, and would have few votes."""
    rng = np.random.default_rng(seed)
    if kind == "table":
        X, ranks = rng.permutation(load_wine().data)[:118], (2,)
    else:
        A, B = (np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in (12, 10))
        X = 2 + 3 * A @ rng.normal(size=(266, 3, 3)) @ B.T + 0.3 * rng.normal(size=(266, 12, 10))
        X, ranks = X * rng.lognormal(sigma=0.8, size=(266, 1, 1)), (3, 3)
    noise = rng.uniform(X.min(), X.max(), (len(X) * 2 // 3, *X.shape[1:]))
    kept = verdict_on(np.concatenate([X, noise]), ranks=ranks).kept
    assert_array_equal(kept, np.arange(len(kept)) < len(X))


@pytest.mark.parametrize("noise", [0.0, 0.03])
@pytest.mark.parametrize("count", [60, 120, 240])
@pytest.mark.parametrize("kinds", [(0, 1), (1, 7), (1, 4)])
def test_white_frames_among_digits_are_rejected(kinds, count, noise):
    """Equal or nearly so: a group, whatever their number."""
    digits = ct.datasets.load_digits()
    X = digits.images[np.isin(digits.target, kinds)] / 16
    white = 1 + noise * np.random.default_rng(0).normal(size=(count, 8, 8))
    kept = verdict_on(np.concatenate([X, white]), ranks=(2, 2)).kept
    assert_array_equal(kept, np.arange(len(kept)) < len(X))


@pytest.mark.parametrize("share", [0.1, 0.4])
def test_a_good_sample_many_times_over_is_kept(share):
    X = good_samples(np.random.default_rng(20), 150)
    for sample in X[::30]:
        again = np.repeat(sample[None], round(share / (1 - share) * 150), axis=0)
        assert verdict_on(np.concatenate([X, again])).kept.all()


@pytest.mark.parametrize("share", [0.1, 0.3, 0.45])
@pytest.mark.parametrize("kind", ["noise", "times 50", "copies", "pattern"])
def test_planted_groups_are_rejected_and_nothing_else(kind, share):
    rng = np.random.default_rng(7)
    X = good_samples(rng, 200)
    n = round(share / (1 - share) * 200)
    X = np.concatenate([X, outliers(rng, kind, X, n)])
    verdict = verdict_on(X)
    assert_array_equal(verdict.kept, np.arange(200 + n) < 200)
    assert verdict.scores[200:].min() > isolation.FAR
    assert np.isneginf(verdict.scores[:200]).all()
    assert all(group.rejected for group in verdict.groups)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n", [30, 60, 200])
def test_nothing_wrong_nothing_rejected(n, seed):
    rng = np.random.default_rng(seed)
    for X in (
        good_samples(rng, n),
        rng.normal(size=(n, *SHAPE)),
        rng.standard_t(3, size=(n, 6, 5, 4)),
        # Fewer samples than entries: what was learned from a sample must not judge it.
        rng.normal(size=(n, 400)),
        rng.standard_t(3, size=(n, 4)) @ rng.normal(size=(4, 90)),
    ):
        assert verdict_on(X, ranks=(2,) * (X.ndim - 1)).kept.all()


def test_one_wild_sample_among_many():
    rng = np.random.default_rng(8)
    X = good_samples(rng, 150)
    X[17] += 10 * rng.normal(size=SHAPE)
    verdict = verdict_on(X)
    assert_array_equal(np.flatnonzero(~verdict.kept), [17])
    assert str(verdict.groups[0]).startswith("1 sample lies apart from the others")


def test_a_group_says_what_became_of_it():
    group = search.Group(np.arange(3), False, 5.0, 6.0)
    assert repr(search.replace(group, because="of it")) == (
        "<Group: 3 samples lie apart from the others, 6.0 robust standard deviations off: "
        "kept, as of it>"
    )
    assert str(search.replace(group, rejected=True)).endswith("off: rejected")
    close = search.replace(group, keeping=0.1, rejecting=0.2)
    assert str(close).endswith(
        "kept by what either costs. Kept, they make the error of the others 1.105 times as "
        "large; rejected, that of all samples 1.221 times"
    )


def test_groups_of_two_kinds():
    rng = np.random.default_rng(9)
    X = good_samples(rng, 150)
    X = np.concatenate([X, outliers(rng, "times 50", X, 20), outliers(rng, "noise", X, 30)])
    verdict = verdict_on(X)
    assert_array_equal(verdict.kept, np.arange(200) < 150)
    assert_array_equal(
        np.sort(np.concatenate([group.samples for group in verdict.groups])), np.arange(150, 200)
    )


def test_more_samples_than_are_looked_at():
    """The cut is carried over; those not looked at are judged as well."""
    rng = np.random.default_rng(10)
    X = good_samples(rng, 1500)
    X = np.concatenate([X, outliers(rng, "noise", X, 400)])
    order = rng.permutation(len(X))
    verdict = verdict_on(X[order])
    assert_array_equal(verdict.kept, order < 1500)
    assert len(verdict.accepted) < search.SAMPLES
    assert verdict.kept[verdict.accepted].all()


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_a_group_larger_than_the_breakdown_counts_as_good(share):
    rng = np.random.default_rng(11)
    X = good_samples(rng, 120)
    X = np.concatenate([X, outliers(rng, "noise", X, 30)])
    model = ct.CorrTensor(RANKS, breakdown=share).fit(X)
    assert (model.weights_ > 0.5).all()
    assert model.diagnostics_["groups"] == ()
    rejecting = ct.CorrTensor(RANKS, breakdown=0.25).fit(X)
    assert_array_equal(np.flatnonzero(rejecting.weights_ < 0.5), np.arange(120, 150))


def test_a_group_a_little_larger_than_the_breakdown_is_told_but_kept():
    """Among those looked at chance may add to it; in all it is counted."""
    rng = np.random.default_rng(19)
    X = good_samples(rng, 460)
    X = np.concatenate([X, outliers(rng, "noise", X, 140)])
    verdict = verdict_on(X, breakdown=0.2)
    assert verdict.kept.all()
    assert str(verdict.groups[-1]).endswith(search.EXCEEDS)
    assert verdict_on(X, breakdown=0.24).kept.sum() == 460


def test_still_frames_do_not_make_moving_ones_outliers():
    """Half of the samples hardly differ; the others vary around them and are needed by the fit."""
    rng = np.random.default_rng(12)
    A, B = (np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in SHAPE)
    cores = rng.normal(size=(120, 3, 3)) * np.repeat([0.15, 1.0], 60)[:, None, None]
    X = A @ cores @ B.T + 0.02 * rng.normal(size=(120, *SHAPE))
    verdict = verdict_on(X)
    assert verdict.kept.all()
    for group in verdict.groups:
        assert not group.rejected
        assert group.keeping < group.rejecting
        assert "kept by what either costs" in str(group)


def test_weights_say_how_often_a_sample_counts_not_whether_it_is_good():
    rng = np.random.default_rng(13)
    X = good_samples(rng, 80)
    X = np.concatenate([X, outliers(rng, "noise", X, 12)])
    weight = rng.integers(0, 5, size=92).astype(float)
    repeated = np.repeat(np.arange(92), weight.astype(int))
    weighted, copied = verdict_on(X, weight=weight), verdict_on(X[repeated])
    counting = weight > 0
    assert_array_equal(weighted.kept[counting], (np.arange(92) < 80)[counting])
    assert_array_equal(copied.kept, weighted.kept[repeated])
    assert_array_equal(verdict_on(X, weight=1e-3 * weight).kept, weighted.kept)


def test_samples_of_one_norm_are_no_copies():
    rng = np.random.default_rng(14)
    X = good_samples(rng, 100)
    X = np.concatenate([X, outliers(rng, "noise", X, 20)])
    X /= np.linalg.norm(X, axis=(1, 2), keepdims=True)
    assert len(verdict_on(X).accepted) == 100


def literal_copies(x, share):
    """The definition: within a share of the median squared distance, huge samples made smaller."""
    norms = (x**2).sum(axis=1)
    x = x / np.sqrt(np.maximum(norms, np.median(norms)))[:, None]
    apart = np.array([[((a - b) ** 2).sum() for b in x] for a in x])
    return (apart <= share * np.median(apart)).sum(axis=1)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["none", "copies", "alike at first", "huge"])
def test_copies_are_counted_by_all_entries(kind, dtype):
    """Also where the leading entries alone tell nothing."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 64))
    if kind == "copies":
        x[:9] = x[0] + 0.05 * rng.normal(size=(9, 64))
    if kind == "alike at first":
        x[:9, :16] = x[0, :16]
    if kind == "huge":
        x[:3] *= 1e4
    counts = metric.count_copies(x.astype(dtype), search.COPY)
    assert_array_equal(counts, literal_copies(x, search.COPY))
    assert counts.max() == (9 if kind == "copies" else 1)


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(15)
    X = good_samples(rng, 900)
    X = np.concatenate([X, outliers(rng, "noise", X, 200)]).astype(np.float32)
    one, two = (verdict_on(X, n_jobs=n) for n in (1, 2))
    assert_array_equal(one.kept, two.kept)
    assert_array_equal(one.scores, two.scores)


@pytest.mark.parametrize(
    "X",
    [
        np.arange(40.0).reshape(2, 5, 4),
        np.concatenate([np.zeros((60, 5, 4)), np.ones((1, 5, 4))]),
        np.concatenate([np.ones((30, 5, 4)) + 1e-16, 2 * np.ones((25, 5, 4))]),
        np.random.default_rng(0).normal(size=(3, 9, 8)),
        np.random.default_rng(0).normal(size=(40, 5, 4)) * np.array([1.0, 0, 0, 0]),
        np.repeat(np.random.default_rng(0).normal(size=(4, 5, 4)), 20, axis=0),
    ],
    ids=["two", "all but one equal", "two values", "few", "constant columns", "four, twenty times"],
)
def test_too_little_to_tell_rejects_nothing(X):
    model = ct.CorrTensor((2, 1)).fit(X)
    assert model.diagnostics_["groups"] == ()
    assert np.isfinite(model.weights_).all()
    assert np.isfinite(model.outlier_scores_).all()
    assert (model.weights_ > 0.5).mean() >= 0.5


@pytest.mark.parametrize("value", [-0.1, 0.6, math.nan])
def test_a_breakdown_that_cannot_be(value):
    with pytest.raises(ValueError, match="breakdown="):
        ct.CorrTensor(RANKS, breakdown=value).fit(np.ones((9, *SHAPE)))


@pytest.mark.parametrize("value", ["half", None, True])
def test_a_breakdown_that_is_no_number(value):
    with pytest.raises(TypeError, match="breakdown="):
        ct.CorrTensor(RANKS, breakdown=value).fit(np.ones((9, *SHAPE)))


def test_scores_grade_all_samples():
    rng = np.random.default_rng(16)
    X = good_samples(rng, 150)
    X[:15] = outliers(rng, "noise", X, 15)
    model = ct.CorrTensor(RANKS).fit(X)
    scores = model.outlier_scores_
    assert_array_equal(np.sort(np.argsort(-scores)[:15]), np.arange(15))
    assert scores[:15].min() > isolation.FAR
    assert len(np.unique(scores)) == 150
    # Robust standard deviations of the samples that count.
    assert abs(np.median(scores[15:])) < 0.05
    assert_allclose(np.subtract(*np.quantile(scores[15:], [0.75, 0.25])), 1.349, rtol=0.05)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(120, 2500), (500, 2100), (100, 300), (400, 300)])
def test_robust_components_of_long_vectors(n, d, dtype):
    """Fewer samples than features and more, with and without a square scatter, both precisions."""
    rng = np.random.default_rng(17)
    X = rng.normal(size=(n, 12)) @ rng.normal(size=(12, d)) + 0.1 * rng.normal(size=(n, d))
    X[: n // 5] = 5 * rng.normal(size=(n // 5, d))
    model = ct.CorrTensor(ranks=10).fit(X.astype(dtype))
    assert_array_equal(model.weights_ < 0.5, np.arange(n) < n // 5)
    expected = np.linalg.svd(X[n // 5 :] - X[n // 5 :].mean(axis=0), full_matrices=False)[2][:10]
    sines = 1 - np.linalg.norm(expected @ model.factors_[0], axis=0)
    assert sines.max() < 1e-3


def test_a_few_rows_with_wrong_units_among_medical_records():
    """Real vectors with long tails: forty rows, ten columns ten times too large; nobody else."""
    X = load_breast_cancer().data.copy()
    rows = np.random.default_rng(0).choice(len(X), 40, replace=False)
    X[np.ix_(rows, np.arange(20, 30))] *= 10
    model = ct.CorrTensor(ranks=5).fit(RobustScaler().fit_transform(X))
    assert_array_equal(np.flatnonzero(model.weights_ < 0.5), np.sort(rows))


# --- single precision


def test_a_search_that_finds_nothing_works_in_single_precision(monkeypatch):
    """It takes half the time; a group that is found is judged in the samples' own precision."""
    kinds, plain = [], search.Asked.find

    def find(self, least):
        kinds.append(self.source.dtype.name)
        return plain(self, least)

    monkeypatch.setattr(search.Asked, "find", find)
    rng = np.random.default_rng(7)
    X = good_samples(rng, 200)
    verdict_on(X)
    assert kinds == ["float32"]
    del kinds[:]
    verdict_on(np.concatenate([X, outliers(rng, "noise", X, 60)]))
    assert kinds == ["float32", "float64", "float32"]


@pytest.mark.parametrize("change", [lambda X: X + 1e3, lambda X: 1e-12 * X, lambda X: 1e12 * X])
def test_samples_that_single_precision_cannot_hold_stay_in_double(change):
    X = change(good_samples(np.random.default_rng(7), 200))
    some = Source(X, origin=np.zeros(X.shape[1:]), unit=1.0)
    away = np.square(X - np.median(X, axis=0)).sum(axis=(1, 2))
    assert search.in_single(some, away) is some


@pytest.mark.parametrize("gain", [50, 1e3, 1e6])
@pytest.mark.parametrize("n", [20, 30, 40, 45])
def test_few_samples_reject_a_gross_one(n, gain):
    digits = ct.datasets.load_digits().images
    for first in (0, 300, 600):
        X = digits[first : first + n].copy()
        clean = ct.CorrTensor((3, 3)).fit(np.delete(X, 7, axis=0))
        X[7] *= gain
        model = ct.CorrTensor((3, 3)).fit(X)
        assert_array_equal(model.diagnostics_["rejected"], [7])
        assert_allclose(model.mean_, clean.mean_, atol=1e-6)


@pytest.mark.parametrize("n", [20, 30, 45])
def test_few_good_samples_all_count(n):
    digits = ct.datasets.load_digits().images
    for first in range(0, 1500, 100):
        assert verdict_on(digits[first : first + n]).kept.all()


@pytest.mark.parametrize("n", [24, 32, 40, 48])
@pytest.mark.parametrize("seed", range(4))
def test_of_few_samples_the_residuals_tell(n, seed):
    """No group is sought among so few, but what the others do not explain has no weight."""
    rng = np.random.default_rng([seed, n])
    A, B = rng.normal(size=(12, 3)), rng.normal(size=(10, 3))
    X = A @ rng.normal(size=(n, 3, 3)) @ B.T + 0.1 * rng.normal(size=(n, 12, 10))
    good = ct.CorrTensor((3, 3)).fit(X)
    assert_array_equal(good.weights_, 1)
    X[: n // 10] = 10 * rng.normal(size=(n // 10, 12, 10))
    model = ct.CorrTensor((3, 3)).fit(X)
    assert model.weights_[: n // 10].max() < 1e-6
    assert np.sin(subspace_angles(model.factors_[0], A)).max() < 0.02


def table(rng, n, gain, bad, rank=2):
    """Rows of 20 near a plane, the first of them noise ``gain`` times as large."""
    B = rng.normal(size=(rank, 20))
    X = rng.normal(size=(n, rank)) @ B + 0.1 * rng.normal(size=(n, 20))
    X[:bad] = gain * rng.normal(size=(bad, 20))
    return X, B


@pytest.mark.parametrize("gain", [15, 100, 1e6])
@pytest.mark.parametrize(("n", "bad"), [(10, 1), (12, 3), (20, 2), (24, 4), (30, 3), (40, 4)])
def test_a_gross_row_of_a_small_table_takes_no_direction(n, bad, gain):
    for seed in range(5):
        X, B = table(np.random.default_rng(seed), n, gain, bad)
        model = ct.CorrTensor(2).fit(X)
        assert model.weights_[:bad].max() < 1e-3
        assert np.sin(subspace_angles(model.factors_[0], B.T)).max() < 0.15


def test_a_far_row_that_the_others_explain_counts():
    X, B = table(np.random.default_rng(0), 400, 0.0, 0)
    X[0] = X[0] @ np.linalg.pinv(B) @ B
    X[0] *= 12 * np.median(np.linalg.norm(X, axis=1)) / np.linalg.norm(X[0])
    X[1] = 10 * X[1] + 5 * np.random.default_rng(1).normal(size=20)
    model = ct.CorrTensor(2).fit(X)
    assert model.weights_[0] > 0.5 > model.weights_[1]


def test_gross_samples_are_told_in_words():
    X, _ = table(np.random.default_rng(0), 30, 100.0, 2)
    (group,) = ct.CorrTensor(2).fit(X).diagnostics_["groups"]
    assert group.rejected
    assert_array_equal(group.samples, [0, 1])
    assert str(group).startswith("2 samples lie apart from the others")
    assert group.distance > isolation.FAR


@pytest.mark.parametrize("n", [60, 100, 150])
def test_ten_times_the_gain_of_small_images_bends_nothing(n):
    """Half are faces, half are not: what varies so much is no reason to keep what is so large."""
    images = ct.datasets.load_faces().images.astype(float)
    for seed in (0, 3, 6, 9):
        X = images[np.random.default_rng(seed).permutation(200)[:n]]
        bad = np.arange(n) < n // 10
        X[bad] *= 10
        model = ct.CorrTensor((5, 5)).fit(X)
        told = ct.MultilinearSubspace((5, 5)).fit(X[~bad])
        assert (model.weights_[~bad] > 0.5).all()
        assert model.residuals_[~bad].mean() < 1.12 * told.residuals_.mean()
        # Nearly black ones are no brighter than others then.
        bright = bad & (X.mean(axis=(1, 2)) > 2.5)
        assert model.weights_[bright].max() < 1e-3


@pytest.mark.parametrize("rank", [1, 2])
def test_rows_of_a_tiny_table_count(rank):
    lost = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(8, rank)) @ rng.normal(size=(rank, 4)) + 0.1 * rng.normal(size=(8, 4))
        lost += np.count_nonzero(ct.CorrTensor(rank).fit(X).weights_ < 0.5)
    assert lost <= 16


def test_a_stream_of_tiny_batches_follows_no_gross_row():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(2, 20))
    model = ct.CorrTensor(2)
    for _ in range(8):
        X = rng.normal(size=(10, 2)) @ B + 0.1 * rng.normal(size=(10, 20))
        X[:2] = 15 * rng.normal(size=(2, 20))
        model.partial_fit(X)
        assert model.weights_[:2].max() < 1e-3
    assert np.sin(subspace_angles(model.factors_[0], B.T)).max() < 0.05


def test_a_spatial_median_turns_with_the_samples_and_follows_none():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 5, 4))
    x[0] *= 1e6
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    place = sizes.spatial_median(x)
    assert_allclose(sizes.spatial_median(Q @ x), Q @ place, atol=1e-8)
    # Where the sum of distances is least, the directions to the samples add up to nothing.
    away = x - place
    away /= np.linalg.norm(away, axis=(1, 2), keepdims=True)
    assert np.linalg.norm(away.sum(axis=0)) < 0.1


def test_a_stream_of_small_batches_ignores_noise():
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(12, 3)), rng.normal(size=(10, 3))
    model = ct.CorrTensor((3, 3))
    for _ in range(6):
        X = A @ rng.normal(size=(40, 3, 3)) @ B.T + 0.1 * rng.normal(size=(40, 12, 10))
        X[:4] = 10 * rng.normal(size=(4, 12, 10))
        model.partial_fit(X)
        assert model.weights_[:4].max() < 1e-6
    assert np.sin(subspace_angles(model.factors_[0], A)).max() < 0.01


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.4])
@pytest.mark.parametrize(("rank", "columns"), [(2, 5), (3, 8), (1, 4)])
def test_outlying_rows_of_a_narrow_table_are_rejected(rank, columns, share, seed):
    """They are apart only along directions in which good rows hardly vary."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(columns, rank))
    X = rng.normal(size=(300, rank)) @ A.T + 0.1 * rng.normal(size=(300, columns))
    bad = np.arange(300) < 300 * share
    X[bad] = 4 * rng.normal(size=(bad.sum(), columns))
    model = ct.CorrTensor(rank).fit(X)
    assert (model.weights_[~bad] > 0.5).all()
    assert np.sin(subspace_angles(model.factors_[0], A)).max() < 0.06


@pytest.mark.parametrize("n", [60, 150, 400])
@pytest.mark.parametrize("columns", [3, 5, 8, 20])
def test_good_rows_of_a_narrow_table_are_kept(columns, n):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(2, columns))
        for cores in (rng.normal(size=(n, 2)), rng.exponential(size=(n, 2))):
            X = cores @ A + 0.1 * rng.normal(size=(n, columns))
            assert verdict_on(X, ranks=(2,)).kept.all()
        X = rng.standard_t(5, size=(n, 2)) @ A + 0.1 * rng.standard_t(5, size=(n, columns))
        assert verdict_on(X, ranks=(2,)).kept.all()
