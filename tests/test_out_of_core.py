"""Arrays on disk give what arrays in memory give, and fail with a message that says where."""

import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import CorrTensor, MultilinearSubspace, make
from corrtensor._engine.arrays.disk import MappedFile, unmapped
from corrtensor._engine.arrays.source import Source


@pytest.fixture
def stack(make_samples):
    return make_samples(2, n=300, n_bad=30)


class Sliced:
    """The least that is asked of an array on disk."""

    def __init__(self, X):
        self._X, self.shape, self.dtype = X, X.shape, X.dtype

    def __getitem__(self, key):
        assert isinstance(key, slice)
        return self._X[key]


def as_memmap(X, folder):
    path = folder / "x.bin"
    X.tofile(path)
    return np.memmap(path, X.dtype, "r", shape=X.shape)


def as_npy(X, folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def as_zarr(X, folder):
    made = zarr.create_array(
        folder / "x.zarr", shape=X.shape, chunks=(70, *X.shape[1:]), dtype=X.dtype
    )
    made[:] = X
    return made


def as_h5(X, folder):
    file = h5py.File(folder / "x.h5", "w")
    return file.create_dataset("x", data=X, chunks=(70, *X.shape[1:]))


STORES = [as_memmap, as_npy, as_zarr, as_h5, lambda X, _: Sliced(X)]
NAMES = ["memmap", "npy", "zarr", "h5py", "sliced"]


@pytest.mark.parametrize("block_size", [None, 17])
@pytest.mark.parametrize("store", STORES, ids=NAMES)
def test_fit_on_disk_is_fit_in_memory(store, block_size, stack, tmp_path):
    X = store(stack, tmp_path)
    memory = CorrTensor((3, 2), block_size=block_size).fit(stack)
    disk = CorrTensor((3, 2), block_size=block_size).fit(X)
    for U, V in zip(memory.factors_, disk.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, atol=1e-10)
    assert_allclose(disk.weights_, memory.weights_, atol=1e-9)
    assert_allclose(disk.transform(X), memory.transform(stack), atol=1e-9)
    assert_allclose(disk.residuals(X), memory.residuals(stack), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "bool", "int32", "float32"])
@pytest.mark.parametrize("store", STORES, ids=NAMES)
def test_types_are_taken_as_they_are(store, dtype, stack, tmp_path):
    X = (40 * np.abs(stack) > 20 if dtype == "bool" else 40 * np.abs(stack)).astype(dtype)
    want = make("MPCA", (3, 2)).fit(X.astype(np.float32 if dtype == "float32" else float))
    stored = store(X, tmp_path)
    have = make("MPCA", (3, 2)).fit(stored)
    assert_allclose(have.residuals_, want.residuals_, rtol=1e-4 if dtype == "float32" else 1e-9)
    assert have.transform(stored).dtype == (dtype if dtype == "float32" else float)


def test_views_of_a_mapped_file_are_read_where_they_lie(tmp_path):
    X = np.arange(2.0 * 20 * 3 * 4).reshape(40, 3, 4)
    (tmp_path / "x.bin").write_bytes(b"header!!" + X.tobytes())
    mapped = np.memmap(tmp_path / "x.bin", float, "r", offset=8, shape=X.shape)
    for view in (mapped, mapped[5:30], mapped[7:].reshape(33, 12), np.asarray(mapped)[3:]):
        file = unmapped(view)
        assert isinstance(file, MappedFile)
        assert_array_equal(file[2:9], view[2:9])
    assert unmapped(mapped[::2]) is not None
    assert not isinstance(unmapped(mapped[::2]), MappedFile)
    private = np.memmap(tmp_path / "x.bin", float, "c", offset=8, shape=X.shape)
    private[0] = -1
    assert not isinstance(unmapped(private), MappedFile)


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_threads_change_no_bit_on_disk(n_jobs, stack, tmp_path):
    X = as_h5(stack, tmp_path)
    one = CorrTensor((3, 2), block_size=13, n_jobs=1).fit(X)
    many = CorrTensor((3, 2), block_size=13, n_jobs=n_jobs).fit(X)
    assert_array_equal(one.weights_, many.weights_)
    assert_array_equal(one.factors_[0], many.factors_[0])


def test_a_stored_chunk_is_read_once_a_pass(stack):
    class Counting(Sliced):
        chunks, reads = (60, 8, 7), 0

        def __getitem__(self, key):
            type(self).reads += 1
            assert key.start % 60 == 0
            return super().__getitem__(key)

    source = Source(Counting(stack), block_size=13, n_jobs=1)
    Counting.reads = 0
    sizes = [hi - lo for lo, hi, _ in source.blocks(0, 300)]
    assert Counting.reads == 5
    assert max(sizes) == 13
    assert sum(sizes) == 300
    rows = source.take(np.array([299, 3, 4, 61]))
    assert_array_equal(rows, stack[[299, 3, 4, 61]])
    assert Counting.reads == 5 + 3


# Outputs


def outputs(shape, folder):
    yield np.empty(shape)
    yield np.memmap(folder / "out.bin", float, "w+", shape=shape)
    yield zarr.create_array(folder / "out.zarr", shape=shape, chunks=(70, *shape[1:]), dtype=float)
    yield h5py.File(folder / "out.h5", "w").create_dataset("out", shape, float)


@pytest.mark.parametrize("kind", range(4), ids=["ndarray", "memmap", "zarr", "h5py"])
def test_results_are_written_into_a_given_output(kind, stack, tmp_path):
    model = make("MPCA", (3, 2), block_size=13, n_jobs=3).fit(stack)
    cores = list(outputs((300, 3, 2), tmp_path))[kind]
    assert model.transform(stack, out=cores) is cores
    assert_allclose(cores[:], model.transform(stack), rtol=1e-13, atol=1e-15)
    (tmp_path / "back").mkdir()
    images = list(outputs((300, 8, 7), tmp_path / "back"))[kind]
    assert model.inverse_transform(cores, out=images) is images
    # Stored chunks cut blocks differently, which may show in the last digit.
    want = model.inverse_transform(model.transform(stack))
    assert_allclose(images[:], want, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.full((300, 2, 3), 7.0), r"shape \(300, 2, 3\).*\(300, 3, 2\)"),
        (np.full((299, 3, 2), 7.0), r"shape \(299, 3, 2\)"),
        (np.full((300, 3, 2), 7), "int64.*float64"),
        ([[0.0]], "shape"),
    ],
)
def test_an_output_that_does_not_fit_is_left_alone(out, message, stack):
    model = make("MPCA", (3, 2)).fit(stack)
    with pytest.raises(ValueError, match=message):
        model.transform(stack, out=out)
    if isinstance(out, np.ndarray):
        assert (out == 7).all()


def test_half_an_output_does_not_look_whole(stack):
    model = make("MPCA", (3, 2), block_size=10, n_jobs=2).fit(stack)
    out, spoiled = np.zeros((300, 3, 2)), stack.copy()
    spoiled[211] = np.inf
    with pytest.raises(ValueError, match="sample 211"):
        model.transform(spoiled, out=out)
    assert np.isnan(out).all()


def test_an_output_that_fails_names_the_samples(stack):
    class Full(Sliced):
        name = "full disk"

        def __setitem__(self, key, rows):
            if key.start >= 200:
                raise OSError("no space left on device")
            self._X[key] = rows

    model = make("MPCA", (3, 2), block_size=10, n_jobs=1).fit(stack)
    out = Full(np.zeros((300, 3, 2)))
    with pytest.raises(OSError, match="samples 200 to 209 could not be written to full disk") as e:
        model.transform(stack, out=out)
    assert any("not complete" in note for note in e.value.__notes__)
    assert np.isnan(out[0:200]).all()


# Files that fail


def test_a_mapped_file_cut_short(stack, tmp_path):
    X = as_memmap(np.concatenate([stack] * 20), tmp_path)
    model = make("MPCA", (3, 2)).fit(stack)
    before = vars(model).copy()
    with open(tmp_path / "x.bin", "r+b") as file:
        file.truncate(X.nbytes // 2)
    with pytest.raises(OSError, match=r"samples \d+ to \d+ of .*x\.bin.*the file ends after"):
        model.fit(X)
    assert vars(model) == before


def test_a_zarr_chunk_that_is_damaged(stack, tmp_path):
    X = as_zarr(stack, tmp_path)
    chunk = next(p for p in (tmp_path / "x.zarr" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(OSError, match=r"samples \d+ to \d+ of .*x\.zarr.* could not be read"):
        make("MPCA", (3, 2)).fit(X)


def test_an_hdf5_chunk_that_is_damaged(stack, tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=stack, chunks=(70, 8, 7), compression="gzip")
    with h5py.File(path, "r") as file:
        where = file["x"].id.get_chunk_info(3).byte_offset
    with open(path, "r+b") as raw:
        raw.seek(where)
        raw.write(bytes(1000))
    with (
        h5py.File(path, "r") as file,
        pytest.raises(OSError, match=r"samples \d+ to \d+ of .*x\.h5.* could not be read"),
    ):
        make("MPCA", (3, 2)).fit(file["x"])


MEASURE = """
    import sys, numpy as np, corrtensor as ct
    def resident(field):
        lines = open("/proc/self/status").read().splitlines()
        return next(int(l.split()[1]) for l in lines if l.startswith(field)) / 1024
    X = np.memmap(sys.argv[1], "{dtype}", "r", shape=(int(sys.argv[2]), 100, 100))
    before = resident("VmRSS")
    model = ct.{fit}
    model.residuals(X)
    print(before, resident("VmHWM"))
"""


def peak_of_fit(path, n, fit, dtype="uint8"):
    code = textwrap.dedent(MEASURE.format(fit=fit, dtype=dtype))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(path), str(n)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(v) for v in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("n", "fit", "bound"),
    [
        (24_000, 'make("MPCA", (5, 5), max_iter=1).fit(X)', 300),
        pytest.param(
            *(430_000, "CorrTensor((20, 20), max_iter=2).fit(X)", 400),
            marks=pytest.mark.slow,
            id="4 GB",
        ),
    ],
)
def test_resident_memory_stays_small(n, fit, bound, tmp_path):
    """The whole process, interpreter included, at its peak: anonymous and mapped pages alike."""
    path = tmp_path / "sparse.bin"
    with open(path, "wb") as file:
        file.truncate(n * 10_000)
        rng = np.random.default_rng(0)
        for at in range(0, n, n // 40):
            file.seek(at * 10_000)
            file.write(rng.integers(0, 255, 50 * 10_000, dtype=np.uint8).tobytes())
    before, peak = peak_of_fit(path, n, fit)
    assert peak <= bound, (before, peak)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_resident_memory_stays_small_where_cells_are_missing(tmp_path):
    n, path = 107_000, tmp_path / "sparse.bin"
    with open(path, "wb") as file:
        file.truncate(n * 40_000)
        rng = np.random.default_rng(0)
        for at in range(0, n, n // 40):
            x = rng.random((50, 10_000), dtype=np.float32)
            x[rng.random(x.shape) < 0.2] = np.nan
            file.seek(at * 40_000)
            file.write(x.tobytes())
    before, peak = peak_of_fit(path, n, "CorrTensor((10, 10), max_iter=2).fit(X)", "float32")
    assert peak <= 500, (before, peak)


def test_general_estimator_on_disk_keeps_its_class(stack, tmp_path):
    model = MultilinearSubspace((3, 2)).fit(as_zarr(stack, tmp_path))
    assert model.sample_shape_ == (8, 7)
