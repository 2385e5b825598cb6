"""Several ranks at once: the models of fits one by one, to the last bit, for less work."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import corrtensor as ct
import corrtensor.corr_tensor as corr_tensor
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import RawPass

RANKS = [(2, 2), (3, 4), 0.8]


def same(model, other):
    """Tell whether two models are the same to the last bit."""
    for name in ("mean_", "weights_", "residuals_", "objective_", "core_scale_"):
        assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name)
    for U, V in zip(model.factors_, other.factors_, strict=True):
        assert_array_equal(U, V)
    return True


def images(n=60, seed=0, dtype="float64"):
    """Images near a subspace; the first eight are noise."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(8, 4)), rng.normal(size=(7, 4))
    X = A @ rng.normal(size=(n, 4, 4)) @ B.T + 0.1 * rng.normal(size=(n, 8, 7))
    X[:8] = 10 * rng.normal(size=(8, 8, 7))
    return X.astype(dtype)


@pytest.fixture
def counted(monkeypatch):
    """How often outliers were looked for, and raw scatters of all samples were added up."""
    counts, find, reduce = {"search": 0, "raw": 0}, corr_tensor.search, Source.reduce

    def search(*args):
        counts["search"] += 1
        return find(*args)

    def counting(self, task, **given):
        counts["raw"] += isinstance(task, RawPass) and self.n_samples == 60
        return reduce(self, task, **given)

    monkeypatch.setattr(corr_tensor, "search", search)
    monkeypatch.setattr(Source, "reduce", counting)
    return counts


@pytest.mark.parametrize("dtype", ["float64", "float32", "uint8"])
@pytest.mark.parametrize("name", ["Corr-Tensor", "MPCA", "GLRAM", "R1-Tensor", "2DSVD"])
def test_models_are_those_of_fits_one_by_one(name, dtype):
    X = images() if dtype != "uint8" else np.clip(4 * images() + 128, 0, 255)
    X = X.astype(dtype)
    for k, model in zip(RANKS, ct.path(X, RANKS, name), strict=True):
        assert same(model, ct.make(name, k).fit(X))
        assert "_memory" not in vars(model)


@pytest.mark.parametrize("shape", [(60, 20), (40, 300), (30, 2500)])
def test_vectors_also_where_some_ranks_are_fitted_in_the_span(shape):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(shape[0], 9)) @ rng.normal(size=(9, shape[1])) + 3
    X += 0.1 * rng.normal(size=shape)
    for k, model in zip((1, 3, 8), ct.path(X, (1, 3, 8)), strict=True):
        assert same(model, ct.CorrTensor(k).fit(X))


def test_what_no_rank_changes_is_done_once(counted):
    ct.CorrTensor((2, 2)).fit(images())
    one = dict(counted)
    ct.path(images(), [(2, 2), (3, 3), (4, 4), (5, 5)])
    assert counted == {name: 2 * count for name, count in one.items()}


def test_a_group_judged_by_a_fit_is_judged_again(counted):
    """Still frames and moving ones: whether these are rejected is asked of a fit at the ranks."""
    rng = np.random.default_rng(12)
    A, B = (np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in (12, 10))
    cores = rng.normal(size=(120, 3, 3)) * np.repeat([0.15, 1.0], 60)[:, None, None]
    X = A @ cores @ B.T + 0.02 * rng.normal(size=(120, 12, 10))
    models = ct.path(X, [(2, 2), (3, 3)])
    asked = [any(g.keeping == g.keeping for g in m.diagnostics_["groups"]) for m in models]
    assert all(asked)
    assert counted["search"] == 2
    assert same(models[1], ct.CorrTensor((3, 3)).fit(X))


def test_weights_and_parameters_are_passed_on():
    X, weight = images(), np.r_[np.zeros(3), np.linspace(0.5, 2, 57)]
    params = {"breakdown": 0.2, "center": "plain", "n_jobs": 2, "block_size": 7}
    models = ct.path(X, RANKS, sample_weight=weight, **params)
    for k, model in zip(RANKS, models, strict=True):
        assert model.get_params() == ct.CorrTensor(k, **params).get_params()
        assert same(model, ct.CorrTensor(k, **params).fit(X, sample_weight=weight))


def test_missing_cells_share_nothing_and_are_fitted_all_the_same():
    X = images()
    X[20:30, 0, 0] = np.nan
    for k, model in zip(RANKS[:2], ct.path(X, RANKS[:2]), strict=True):
        assert same(model, ct.CorrTensor(k).fit(X))


def test_arrays_on_disk_and_in_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    X = images()
    np.save(tmp_path / "X.npy", X)
    for stack in (np.load(tmp_path / "X.npy", mmap_mode="r"), da.from_array(X, chunks=(25, 8, 7))):
        for k, model in zip(RANKS[:2], ct.path(stack, RANKS[:2]), strict=True):
            assert same(model, ct.CorrTensor(k).fit(stack))


def test_other_algorithms_are_fitted_one_by_one():
    X = images()
    for k, model in zip((2, 3), ct.path(X, (2, 3), "L1-2DPCA"), strict=True):
        assert_array_equal(model.factors_[1], ct.make("L1-2DPCA", k).fit(X).factors_[1])


def test_a_rank_that_fails_says_so():
    with pytest.raises(ValueError, match="mode 2 of the samples has only 7 entries"):
        ct.path(images(), [(2, 2), (3, 9)])


def test_what_is_no_list_of_ranks_is_refused(images):
    for ranks in ("auto", 5):
        with pytest.raises(TypeError, match=f"ranks={ranks!r} must be a list"):
            ct.path(images, ranks)
    with pytest.raises(ValueError, match="checkpoint"):
        ct.path(images, [(2, 2)], checkpoint="fit.ckpt")


def test_the_ranks_of_one_fit_are_no_list_of_ranks():
    X = images()
    said = r"ranks=\(2, 3\) are those of one fit to samples of 2 modes: write \[\(2, 3\)\]"
    flat = {"sample_shape": (8, 7)}
    for samples, params in ((X, {}), (X.tolist(), {}), (X.reshape(60, 56), flat)):
        with pytest.raises(ValueError, match=said):
            ct.path(samples, (2, 3), **params)
    # Here nothing else can be meant.
    for samples, ranks in ((X, [2, 3]), (X, (2, 3, 4)), (X, ((2, 3),)), (X[:, 0], (2, 3))):
        assert len(ct.path(samples, ranks, "MPCA")) == len(ranks)
