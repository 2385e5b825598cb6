"""What missing blocks hide is put back into what is added up: completed samples vary too little."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.fft import idctn

import corrtensor as ct
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import RawPass, ResidualPass, SweepPass
from corrtensor._robust import completion
from corrtensor._robust.completed import CompletedSource
from corrtensor._robust.unseen import Hidden, Unseen
from corrtensor.losses import Correntropy, Power

SHAPES = {1: (12,), 2: (7, 6), 3: (5, 4, 3)}


def with_blocks(X, rng, share=0.45):
    """Hide a block of each sample, at a place of its own."""
    Y = X.copy()
    sides = [max(1, round(share * a)) for a in X.shape[1:]]
    for y in Y:
        corner = [rng.integers(a - b + 1) for a, b in zip(y.shape, sides, strict=True)]
        y[tuple(slice(c, c + b) for c, b in zip(corner, sides, strict=True))] = np.nan
    return Y


def smooth(n, rng):
    """Samples with the spectrum of natural images: what is in a block, others do not tell."""
    size = 1 / (1 + np.add.outer(np.arange(20.0), np.arange(18.0))) ** 1.5
    return idctn(size * rng.normal(size=(n, 20, 18)), axes=(1, 2), norm="ortho")


def left_out(model, X):
    d = X - model.mean_
    U, V = model.factors_
    return np.square(d - U @ (U.T @ d @ V) @ V.T).sum()


@pytest.mark.parametrize("order", SHAPES)
@pytest.mark.parametrize("robust", [False, True])
def test_sums_are_those_of_whole_samples_on_the_average(order, robust):
    """Beside samples that were really moved to and fro by what gaps hide, all of them added up."""
    rng, shape, n, m = np.random.default_rng(order), SHAPES[order], 9, 4
    x, rows, gaps = (
        rng.normal(size=(n, *shape)),
        rng.normal(size=(m, *shape)),
        rng.integers(0, 4, n),
    )
    source = CompletedSource(Source(x, origin=np.zeros(shape), unit=1.0))
    source.unseen = Unseen(Hidden(0.0, rows), gaps.astype(float), np.zeros(len(gaps)))
    moves = np.sqrt(m * gaps).reshape(n, 1, *[1] * order) * np.concatenate([rows, -rows])
    moved = (x[:, None] + moves).reshape(-1, *shape)
    plain = Source(moved, origin=np.zeros(shape), unit=1.0)
    factors = tuple(np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in shape)
    at = source.at(rng.normal(size=shape), factors)

    s = np.concatenate(source.reduce(ResidualPass(at)).squares)
    each = np.concatenate(plain.reduce(ResidualPass(at)).squares).reshape(n, -1)
    assert_allclose(s, each.mean(axis=1), rtol=1e-10)

    loss = Correntropy(scale=float(np.median(s))) if robust else Power(2)
    norms = np.square(x).reshape(n, -1).sum(axis=1)
    w = np.exp(loss.log_weight(s))
    for mode in range(order):
        part = source.reduce(SweepPass(at, mode, loss), norms=norms)
        assert_allclose(np.concatenate(part.squares), s, rtol=1e-10)
        weighed = source.reduce(SweepPass(at, mode), weights=w)
        wanted = plain.reduce(SweepPass(at, mode), weights=np.repeat(w / (2 * m), 2 * m))
        assert_allclose(weighed.sums.second[mode], wanted.sums.second[mode], rtol=1e-9)
        total = np.exp(part.sums.shift) * part.sums.second[mode]
        assert_allclose(total, wanted.sums.second[mode], rtol=1e-9)
    modes = tuple(range(order))
    raw, wanted = source.reduce(RawPass(modes)), plain.reduce(RawPass(modes))
    for mode in modes:
        assert_allclose(raw.sums.second[mode], wanted.sums.second[mode] / (2 * m), rtol=1e-9)


def test_missing_blocks_bend_the_subspace_less(monkeypatch):
    """Half as much as if completed samples are taken for whole ones; on four draws together."""
    found, before = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = smooth(700, rng)
        Y = with_blocks(X[:300], rng)
        whole = left_out(ct.CorrTensor((6, 6)).fit(X[:300]), X[300:])
        found.append(left_out(ct.CorrTensor((6, 6)).fit(Y), X[300:]) / whole - 1)
        with monkeypatch.context() as patch:
            patch.setattr(completion, "hidden_by", lambda *_: completion.Hidden(0.0))
            before.append(left_out(ct.CorrTensor((6, 6)).fit(Y), X[300:]) / whole - 1)
    assert sum(found) < 0.5 * sum(before)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["Corr-Tensor", "MPCA", "GLRAM", "R1-Tensor"])
def test_the_objective_never_rises_with_blocks(name):
    rng = np.random.default_rng(3)
    Y = with_blocks(smooth(120, rng), rng)
    model = ct.make(name, (6, 6), max_iter=30, tol=0).fit(Y)
    assert len(model.objective_) == 30
    assert np.diff(model.objective_).max() <= 1e-12 * model.objective_[0]


def test_residuals_are_those_of_the_completed_samples():
    """Of samples of the fit and of others alike: what is hidden counts in weights alone."""
    rng = np.random.default_rng(3)
    Y = with_blocks(smooth(120, rng), rng)
    model = ct.CorrTensor((6, 6)).fit(Y)
    assert_allclose(model.residuals_, model.residuals(Y), rtol=1e-5)


def test_gaps_that_the_rest_tells_do_not_move_the_subspace(monkeypatch):
    """Single missing cells hide no more than noise, which is alike in all directions."""
    rng = np.random.default_rng(3)
    X = smooth(120, rng)
    Y = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = ct.CorrTensor((6, 6)).fit(Y)
    monkeypatch.setattr(completion, "hidden_by", lambda *_: completion.Hidden(0.0))
    for U, V in zip(model.factors_, ct.CorrTensor((6, 6)).fit(Y).factors_, strict=True):
        np.testing.assert_array_equal(U, V)


def in_noise(n, rng, noise=0.1):
    A, B = (np.linalg.qr(rng.normal(size=(a, 2)))[0] for a in (12, 10))
    return A @ rng.normal(size=(n, 2, 2)) @ B.T + noise * rng.normal(size=(n, 12, 10))


@pytest.mark.parametrize(("share", "off"), [(0.3, 0.05), (0.6, 0.1), (0.8, 0.25)])
@pytest.mark.parametrize("seed", [0, 1])
def test_noise_is_that_of_whole_samples(seed, share, off):
    """What cores follow of the cells that are seen, and what gaps hide, counts as noise, too."""
    rng = np.random.default_rng(seed)
    X = in_noise(600, rng)
    model = ct.CorrTensor((2, 2)).fit(np.where(rng.random((300, 12, 10)) < share, np.nan, X[:300]))
    whole = ct.CorrTensor((2, 2)).fit(X[:300])
    # At 80 % it was 0.0036.
    assert model.noise_variance_ == pytest.approx(0.01, rel=off)
    explained = [m.explained_variance_ratio_.sum() for m in (model, whole)]
    assert explained[0] == pytest.approx(explained[1], abs=0.5 * off)
    # The likelihood of samples that nobody has seen hardly suffers.
    assert whole.score(X[300:]) - model.score(X[300:]) < 15 * off


def test_whole_samples_are_not_odd_beside_torn_ones():
    rng = np.random.default_rng(0)
    X = in_noise(200, rng)
    Y = np.where(rng.random(X.shape) < 0.8, np.nan, X)
    Y[:10] = X[:10]
    scores = ct.CorrTensor((2, 2)).fit(Y).outlier_scores_
    assert np.isin(scores.argsort()[-20:], np.arange(10)).sum() <= 3


@pytest.mark.parametrize("where", ["not held", "memmap", "dask", "xarray"])
def test_blocks_wherever_the_samples_are(where, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    Y = with_blocks(smooth(150, rng), rng)
    held = ct.CorrTensor((6, 6)).fit(Y)
    monkeypatch.setattr("corrtensor._robust.completed.WORTH_HOLDING", 1000)
    X = Y
    if where == "memmap":
        np.save(tmp_path / "x.npy", Y)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif where == "dask":
        X = pytest.importorskip("dask.array").from_array(Y, chunks=(40, -1, -1))
    elif where == "xarray":
        X = pytest.importorskip("xarray").DataArray(Y, dims=("day", "y", "x"))
    other = ct.CorrTensor((6, 6), block_size=30).fit(X)
    assert_allclose(other.mean_, held.mean_, atol=1e-8)
    for U, V in zip(map(np.asarray, other.factors_), held.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, atol=1e-8)
    assert_allclose(other.objective_, held.objective_, rtol=1e-8)
    assert_allclose(other.residuals_, held.residuals_, rtol=1e-7)


def test_bad_cells_of_others_are_not_what_gaps_hide():
    """Where some cells are gross errors, blocks hide as much as they do without."""
    rng = np.random.default_rng(3)
    X = smooth(150, rng)
    Y = with_blocks(X, rng)
    torn = np.where(rng.random(X.shape) < 0.01, 30.0, Y)
    one, other = (hidden_in(y) for y in (Y, np.where(np.isnan(Y), Y, torn)))
    assert 0.8 < np.square(other).sum() / np.square(one).sum() < 1.25


def hidden_in(Y, cells=True):
    """Return the errors by which it is told what a missing cell hides."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        made = completion.hidden_by
        patch.setattr(completion, "hidden_by", lambda *a: seen.append(made(*a)) or seen[-1])
        ct.CorrTensor((4, 4), cells=cells).fit(Y)
    return seen[-1].rows


def test_samples_in_a_row_may_miss_the_same_cells():
    """What is hidden is told of samples that show it, in whatever order they come."""
    rng = np.random.default_rng(3)
    X = smooth(160, rng)
    masks = np.isnan(with_blocks(X[:8], rng))
    Y = np.where(np.repeat(masks, 20, axis=0), np.nan, X)
    in_a_row, mixed = (hidden_in(y, cells=False) for y in (Y, Y[rng.permutation(len(Y))]))
    assert 0.5 < np.square(in_a_row).sum() / np.square(mixed).sum() < 2


def test_a_block_that_most_samples_miss_is_told_by_the_others():
    """On three draws together: 0.009, and 0.039 where all begin at their median."""
    beyond = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = smooth(700, rng)
        Y = X[:400].copy()
        Y[rng.permutation(400)[:320], 6:14, 5:12] = np.nan
        whole, model = (ct.CorrTensor((6, 6)).fit(A) for A in (X[:400], Y))
        beyond += left_out(model, X[400:]) / left_out(whole, X[400:]) - 1
    assert beyond < 0.02


@pytest.mark.parametrize("shape", [(13,), (12, 10)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_order_of_samples_with_gaps_does_not_matter(seed, shape):
    """What is hidden, and from whom, is not drawn by where samples stand."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, *shape)) @ rng.normal(size=(shape[-1], shape[-1]))
    Y = np.where(rng.random(X.shape) < 0.15, np.nan, X)
    some = rng.permutation(len(Y))
    one, other = (ct.CorrTensor(3).fit(y) for y in (Y, Y[some]))
    moved = one.repair(Y) - other.repair(Y)
    # It was 0.1 to 1; learning ends in single precision.
    assert np.abs(moved).max() < 1e-3 * X.std()


def test_all_of_a_few_incomplete_samples_tell(monkeypatch):
    rng = np.random.default_rng(3)
    Y = smooth(400, rng)
    Y[::20] = with_blocks(Y[::20], rng)
    looked_at, plain = [], completion.plain
    monkeypatch.setattr(
        completion, "plain", lambda x, **more: looked_at.append(len(x)) or plain(x, **more)
    )
    ct.CorrTensor((6, 6)).fit(Y)
    assert looked_at[0] == 20


def test_a_share_of_the_energy_counts_what_is_hidden(monkeypatch):
    """Long vectors, seen through a sketch, get the rank that the whole scatter gives them."""
    rng = np.random.default_rng(0)
    curves = np.cumsum(rng.normal(size=(60, 2100)), axis=1)
    for y in curves:
        start = rng.integers(1200)
        y[start : start + 900] = np.nan
    sketched = ct.CorrTensor(0.9).fit(curves)
    for module in ("large_modes", "arrays.source", "start"):
        monkeypatch.setattr(f"corrtensor._engine.{module}.LARGE", 3000, raising=False)
    dense = ct.CorrTensor(0.9).fit(curves)
    assert sketched.ranks_ == dense.ranks_
    assert sketched.explained_variance_ratio_.sum() >= 0.9


class NoWeight(Power):
    """A loss that leaves no sample any weight."""

    def log_weight(self, s):
        return np.full(len(s), -np.inf)


def test_a_loss_without_any_weight_is_refused_beside_blocks():
    rng = np.random.default_rng(3)
    Y = with_blocks(smooth(120, rng), rng)
    with pytest.raises(ValueError, match="leaves no sample any weight"):
        ct.MultilinearSubspace((6, 6), loss=NoWeight()).fit(Y)
