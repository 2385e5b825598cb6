"""A Dask array gives what the array in memory gives, however it is cut and wherever it lies."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.frozen import FrozenEstimator

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
xarray = pytest.importorskip("xarray")

from corrtensor import (  # noqa: E402
    CorrentropyCenterClassifier,
    CorrTensor,
    DensityPeaksKMeans,
    SubspaceClassifier,
    TensorOutlierDetector,
    make,
)
from corrtensor._engine.arrays import dask_held, source_of  # noqa: E402
from corrtensor._engine.arrays.dask import DaskSource  # noqa: E402
from corrtensor._engine.arrays.source import Source  # noqa: E402
from corrtensor._engine.passes import RawPass  # noqa: E402
from corrtensor.clusters import connect, on_cluster, spread  # noqa: E402

CUTS = {
    "one": 1400,
    "even": 200,
    "uneven": (1, 699, 0, 690, 10),
    "many": 31,
}


@pytest.fixture(scope="module", autouse=True)
def two_threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def stack(make_samples):
    """More samples than the search looks at, some of them noise."""
    return make_samples(2, n=1400, n_bad=140)


def cut(X, rows):
    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def assert_same_fit(have, want):
    assert have.n_iter_ == want.n_iter_
    assert have.core_shape_ == want.core_shape_
    assert_allclose(have.weights_, want.weights_, atol=1e-8)
    assert_allclose(have.residuals_, want.residuals_, rtol=1e-8, atol=1e-8)
    assert_allclose(have.mean_, want.mean_, atol=1e-8)
    for U, V in zip(have.factors_, want.factors_, strict=True):
        assert (U is None) == (V is None)
        if U is not None:
            U, V = np.asarray(U), np.asarray(V)  # of a DataArray, @ is another product
            assert_allclose(U @ U.T, V @ V.T, atol=1e-8)


# The same fit


ESTIMATORS = {
    "default": lambda: CorrTensor((3, 2)),
    "energy": lambda: CorrTensor(0.9),
    "MPCA": lambda: make("MPCA", (3, 2)),
    "2DSVD": lambda: make("2DSVD", (3, 2)),
    "R1": lambda: make("R1-2DSVD", (3, 2)),
    "2DPCA": lambda: make("2DPCA", 2),
}


@pytest.fixture(scope="module")
def in_memory(stack):
    return {name: build().fit(stack) for name, build in ESTIMATORS.items()}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("rows", CUTS.values(), ids=CUTS)
def test_any_cut_gives_the_fit_in_memory(name, rows, stack, in_memory):
    have = ESTIMATORS[name]().fit(cut(stack, rows))
    assert_same_fit(have, in_memory[name])
    assert isinstance(have.weights_, np.ndarray)


@pytest.mark.parametrize("order", [1, 3])
def test_samples_of_other_orders(order, make_samples, ranks_of):
    X = make_samples(order, n=300, n_bad=30)
    want = CorrTensor(ranks_of[order]).fit(X)
    assert_same_fit(CorrTensor(ranks_of[order]).fit(cut(X, 77)), want)


def test_weights_of_the_user_count(stack):
    weight = np.random.default_rng(0).integers(0, 3, len(stack))
    want = CorrTensor((3, 2)).fit(stack, sample_weight=weight)
    assert_same_fit(CorrTensor((3, 2)).fit(cut(stack, 200), sample_weight=weight), want)
    lazy = da.from_array(weight, chunks=100)
    assert_same_fit(CorrTensor((3, 2)).fit(cut(stack, 200), sample_weight=lazy), want)


def test_integers_and_single_precision(stack):
    X = (np.clip(20 * stack + 128, 0, 255)).astype(np.uint8)
    assert_same_fit(CorrTensor((3, 2)).fit(cut(X, 200)), CorrTensor((3, 2)).fit(X))
    single = make("MPCA", (3, 2)).fit(cut(stack.astype(np.float32), 200))
    assert single.transform(cut(stack.astype(np.float32), 200)).dtype == np.float32
    want = make("MPCA", (3, 2)).fit(stack.astype(np.float32))
    assert_allclose(single.residuals_, want.residuals_, rtol=1e-3)


def test_the_number_of_threads_changes_no_bit(stack):
    fits = []
    for count in (1, 2, 5):
        with dask.config.set(num_workers=count):
            fits.append(CorrTensor((3, 2), block_size=13).fit(cut(stack, 400)))
    for fit in fits[1:]:
        assert_array_equal(fit.weights_, fits[0].weights_)
        assert_array_equal(fit.factors_[0], fits[0].factors_[0])


def test_other_schedulers(stack, in_memory):
    with dask.config.set(scheduler="synchronous"):
        assert_same_fit(CorrTensor((3, 2)).fit(cut(stack, 200)), in_memory["default"])


def test_chunks_that_share_work(stack, in_memory, monkeypatch):
    """Each chunk needs the mean of all: they cannot be read one by one."""
    shifted = da.from_array(stack, chunks=(200, 8, 7))
    shifted = shifted - shifted.mean(axis=0)
    want = make("MPCA", (3, 2)).fit(stack)
    for share in (0.5, 0.0):
        monkeypatch.setattr(dask_held, "HELD_SHARE", share)
        have = make("MPCA", (3, 2)).fit(shifted)
        assert_allclose(have.residuals_, want.residuals_, atol=1e-8)


def test_streams(stack):
    want, have = CorrTensor((3, 2)), CorrTensor((3, 2))
    for lo in range(0, 1400, 350):
        want.partial_fit(stack[lo : lo + 350])
        have.partial_fit(cut(stack[lo : lo + 350], 100))
    assert_allclose(have.mean_, want.mean_, atol=1e-8)
    assert_allclose(have.weights_, want.weights_, atol=1e-8)


# How arrays come in


def test_chunks_along_other_axes_are_merged_with_a_warning(stack, in_memory):
    X = da.from_array(stack, chunks=(500, 4, 3))
    with pytest.warns(UserWarning, match=r"\(2, 3\) times.*up to 1 MB"):
        have = CorrTensor((3, 2)).fit(X)
    assert_same_fit(have, in_memory["default"])
    with pytest.warns(UserWarning, match="rechunk"):
        cores = have.transform(X)
    assert cores.chunks == ((500, 500, 400), (3,), (2,))


@pytest.mark.parametrize("rows", [None, 200], ids=["memory", "dask"])
def test_xarray(rows, stack, in_memory):
    X = xarray.DataArray(stack if rows is None else cut(stack, rows), dims=("sample", "y", "x"))
    have = CorrTensor((3, 2)).fit(X)
    assert_same_fit(have, in_memory["default"])
    cores = have.transform(X)
    assert cores.dims == ("sample", "y_component", "x_component")
    assert isinstance(cores.data, np.ndarray if rows is None else da.Array)
    assert_allclose(np.asarray(cores), in_memory["default"].transform(stack), atol=1e-8)


def test_flat_samples(stack, in_memory):
    flat = da.from_array(stack.reshape(1400, 56), chunks=(300, 20))
    model = CorrTensor((3, 2), sample_shape=(8, 7))
    with pytest.warns(UserWarning, match="merged"):
        model.fit(flat)
    assert_same_fit(model, in_memory["default"])
    whole = flat.rechunk((300, 56))
    assert model.transform(whole).shape == (1400, 6)
    back = model.inverse_transform(model.transform(whole))
    assert back.shape == (1400, 56)


def test_unknown_chunks_are_refused(stack):
    X = cut(stack, 200)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        CorrTensor((3, 2)).fit(X[X.sum(axis=(1, 2)) > 0])


def test_numbers_that_are_not_real_are_refused(stack):
    with pytest.raises(ValueError, match="real numbers"):
        CorrTensor((3, 2)).fit(cut(stack, 200) * 1j)


def test_too_few_samples(stack):
    with pytest.raises(ValueError, match="n_samples=1"):
        CorrTensor((3, 2)).fit(cut(stack[:1], 1))


def test_spread_stored_arrays(stack, tmp_path, in_memory):
    stored = zarr.create_array(tmp_path / "x.zarr", data=stack, chunks=(70, 8, 7))
    stack.tofile(tmp_path / "x.bin")
    mapped = np.memmap(tmp_path / "x.bin", float, "r", shape=stack.shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=stack)
        arrays = [stored, mapped, file["x"], stack]
        lazy = [spread(X, chunk_bytes=200 * 8 * 56) for X in arrays]
    assert [X.chunks[0][0] for X in lazy] == [140, 200, 200, 200]
    for X in lazy:
        assert_array_equal(X[[3, 1399]].compute(), stack[[3, 1399]])
    assert_same_fit(CorrTensor((3, 2)).fit(lazy[2]), in_memory["default"])
    assert spread(lazy[0]) is lazy[0]
    with pytest.raises(ValueError, match="chunk_bytes=0"):
        spread(stack, 0)


def test_spread_refuses_what_stays_in_this_process(stack):
    class Here(Counting):
        def __reduce__(self):
            raise TypeError("no")

    with pytest.raises(TypeError, match=r"Here of shape \(1400, 8, 7\).*store it as .zarr"):
        spread(Here(stack))


def test_without_a_cluster_nothing_is_spread(stack):
    with on_cluster(None, stack) as X:
        assert X is stack


# Where chunks are between passes


class Counting:
    """An array that counts how often it is read."""

    def __init__(self, X):
        self.X, self.shape, self.dtype, self.ndim = X, X.shape, X.dtype, X.ndim
        self.reads = []

    def lazy(self):
        name, meta = f"counting-{id(self)}", np.empty((0, 0, 0))
        return da.from_array(self, chunks=(200, 8, 7), name=name, meta=meta)

    def __getitem__(self, key):
        self.reads.append(key[0].start)
        return self.X[key]


def test_chunks_that_fit_are_read_once(stack):
    X = Counting(stack)
    make("MPCA", (3, 2)).fit(X.lazy())
    assert sorted(X.reads) == list(range(0, 1400, 200))


def test_chunks_that_do_not_fit_are_read_once_a_pass(stack, monkeypatch):
    monkeypatch.setattr(dask_held, "free_memory", lambda: 0.0)
    X = Counting(stack)
    source = DaskSource(X.lazy(), block_size=13)
    X.reads.clear()
    source.reduce(RawPass((0, 1)))
    assert sorted(X.reads) == list(range(0, 1400, 200))
    X.reads.clear()
    rows = source.take(np.array([1399, 3, 4, 205]))
    assert_array_equal(rows, stack[[1399, 3, 4, 205]])
    assert sorted(X.reads) == [0, 200, 1200]


def test_chunks_in_memory_are_taken_as_they_are(stack):
    X = cut(stack, 200).persist()
    source = source_of(X)
    graph = X.__dask_graph__()
    assert all(c is graph[X.name, i, 0, 0] for i, c in enumerate(source.held.chunks))
    assert type(source_of(stack)) is Source


def test_the_tree_adds_up_what_the_list_does(stack, monkeypatch):
    source = DaskSource(cut(stack, 31))
    want = source.reduce(RawPass((0, 1)))
    source.distributed = True
    have = source.reduce(RawPass((0, 1)))
    assert_allclose(have.sums.second[0], want.sums.second[0], rtol=1e-13)
    assert_allclose(have.sums.first, stack.sum(axis=0), rtol=1e-10)
    assert_array_equal(np.concatenate(have.norms), np.concatenate(want.norms))


# What methods give back


def test_results_are_lazy_and_equal(stack, in_memory):
    model, X = in_memory["default"], cut(stack, 300)
    cores = model.transform(X)
    assert cores.chunks == ((300, 300, 300, 300, 200), (3,), (2,))
    assert_allclose(cores.compute(), model.transform(stack), atol=1e-12)
    back = model.inverse_transform(cores)
    want = model.inverse_transform(model.transform(stack))
    assert_allclose(back.compute(), want, atol=1e-12)
    assert_allclose(model.residuals(X).compute(), model.residuals(stack), rtol=1e-10)


def test_nothing_is_read_until_it_is_computed(stack, in_memory):
    X = Counting(stack)
    lazy = in_memory["default"].residuals(X.lazy())
    assert X.reads == []
    lazy[:10].compute()
    assert X.reads == [0]


def test_workers_are_sent_nothing_of_the_samples_of_the_fit(stack, in_memory):
    few = dask_held.require("corrtensor._engine.arrays.dask_lazy").slim(
        TensorOutlierDetector().fit(stack)
    )
    assert not hasattr(few.subspace_, "weights_")
    assert few.subspace_.n_jobs == 1
    assert in_memory["default"].weights_ is not None


def test_a_given_output_is_written(stack, in_memory, tmp_path):
    out = zarr.create_array(tmp_path / "c.zarr", shape=(1400, 3, 2), chunks=(70, 3, 2), dtype=float)
    assert in_memory["default"].transform(cut(stack, 200), out=out) is out
    assert_allclose(out[:], in_memory["default"].transform(stack), atol=1e-12)
    with pytest.raises(ValueError, match=r"out has shape \(3,\)"):
        in_memory["default"].transform(cut(stack, 200), out=np.zeros(3))


def test_half_an_output_does_not_look_whole(stack, in_memory):
    spoiled, out = stack.copy(), np.zeros((1400, 3, 2))
    spoiled[777] = np.inf
    with pytest.raises(ValueError, match=r"chunk of samples 600 to 799.*sample 177"):
        in_memory["default"].transform(cut(spoiled, 200), out=out)
    assert np.isnan(out).all()


def test_nothing_is_written_after_an_output_was_given_up(stack, in_memory):
    """Dask's threads run on when one has failed; here one of them writes slowly."""
    writing, out = threading.Event(), np.zeros((1400, 3, 2))

    class Slow:
        shape, dtype = out.shape, out.dtype

        def __setitem__(self, at, rows):
            if not np.isnan(rows).any():
                writing.set()
                time.sleep(0.5)
            out[at] = rows

    def not_before(x):
        assert np.isfinite(x).all() or writing.wait(60)
        return x

    spoiled = stack.copy()
    spoiled[777] = np.inf
    X = cut(spoiled, 700).map_blocks(not_before, meta=np.empty((0, 0, 0)))
    with (
        ThreadPoolExecutor(2) as pool,
        dask.config.set(pool=pool),
        pytest.raises(ValueError, match="samples 700 to 1399"),
    ):
        in_memory["default"].transform(X, out=Slow())
    assert np.isnan(out).all()


def test_samples_of_another_shape(stack, in_memory):
    with pytest.raises(ValueError, match=r"samples of shape \(7, 8\)"):
        in_memory["default"].transform(cut(stack.transpose(0, 2, 1), 200))


# What fails


def test_a_chunk_that_cannot_be_read_names_itself(stack, tmp_path):
    X = zarr.create_array(tmp_path / "x.zarr", data=stack, chunks=(200, 8, 7))
    chunk = tmp_path / "x.zarr" / "c" / "3" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    model = make("MPCA", (3, 2)).fit(stack)
    before = vars(model).copy()
    for lazy in (da.from_array(X, chunks=X.chunks), spread(X, 200 * 56 * 8)):
        with pytest.raises(OSError, match=r"samples 600 to 799, the chunk .*could not be read"):
            model.fit(lazy)
    assert vars(model) == before


def test_a_sample_that_is_not_a_number_is_named(stack):
    spoiled = stack.copy()
    spoiled[777, 2, 2] = np.inf
    with pytest.raises(ValueError, match="first is sample 777"):
        CorrTensor((3, 2)).fit(cut(spoiled, 200))


@pytest.mark.parametrize("cluster", ["local", "local:0", "four", "127.0.0.1:8786"])
def test_a_cluster_that_is_none(cluster):
    with pytest.raises(ValueError, match=f"cluster='{cluster}'"), connect(cluster):
        pass


# Tasks


def test_outliers_by_chunks(stack):
    want, have = TensorOutlierDetector().fit(stack), TensorOutlierDetector().fit(cut(stack, 200))
    assert_allclose(have.offset_, want.offset_, rtol=1e-8)
    labels = have.predict(cut(stack, 200))
    assert isinstance(labels, da.Array)
    assert_array_equal(labels.compute(), want.predict(stack))
    assert_allclose(have.score_samples(cut(stack, 90)).compute(), want.score_samples(stack))
    assert have.residual_map(cut(stack, 90)).shape == stack.shape


def test_classes_by_chunks(stack):
    X, y = stack[200:600].copy(), np.arange(400) % 2
    X[y == 1] += 1
    lazy = cut(X, 150)
    # Either class lies apart from the other: neither is an outlier.
    subspace = CorrTensor((3, 2), breakdown=0.2)
    for model in (SubspaceClassifier(), CorrentropyCenterClassifier(subspace)):
        model.fit(X, y)
        assert_array_equal(model.predict(lazy).compute(), model.predict(X))
        assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(X), atol=1e-10)
        assert model.score(lazy, y) == model.score(X, y)
    again = CorrentropyCenterClassifier(subspace).fit(lazy, y)
    assert_allclose(again.centers_, model.centers_, atol=1e-8)
    with pytest.raises(TypeError, match=r"SubspaceClassifier must see all.*compute\(\)"):
        SubspaceClassifier().fit(lazy, y)


def test_clusters_by_chunks(stack):
    X = stack[200:500]
    model = DensityPeaksKMeans(2, subspace=FrozenEstimator(CorrTensor((3, 2)).fit(X))).fit(X)
    assert_array_equal(model.predict(cut(X, 70)).compute(), model.labels_)
    assert_allclose(model.transform(cut(X, 70)).compute(), model.transform(X))


def test_without_dask_nothing_of_it_is_imported():
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, corrtensor as ct; "
        "ct.CorrTensor((2, 2)).fit(np.random.default_rng(0).normal(size=(20, 4, 4))); "
        "sys.exit('dask' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0
