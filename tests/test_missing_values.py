"""What stands for a missing cell: a value in integers, the fill value of a file; and bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.io import netcdf_file
from sklearn.base import clone

import corrtensor as ct
from corrtensor._engine.arrays.disk import unmapped
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import RawPass
from corrtensor.io import InputError, open_samples
from corrtensor.tasks import find_duplicates

SENTINEL = -999


@pytest.fixture(scope="module")
def counts():
    """Sixty integer matrices about two directions, and which cells are missing."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(9, 2)), rng.normal(size=(8, 2))
    X = np.rint(300 * A @ rng.normal(size=(60, 2, 2)) @ B.T).astype(np.int32)
    return X, rng.random(X.shape) < 0.2


@pytest.fixture(scope="module")
def marked(counts):
    X, gaps = counts
    return np.where(gaps, SENTINEL, X)


@pytest.fixture(scope="module")
def torn(counts):
    X, gaps = counts
    return np.where(gaps, np.nan, X)


@pytest.fixture(scope="module")
def by_nan(torn):
    return ct.CorrTensor((2, 2)).fit(torn)


@pytest.mark.parametrize("kind", ["memory", "flat", "float32", "memmap", "zarr", "hdf5", "dask"])
def test_a_value_for_what_is_missing_is_nan(marked, torn, by_nan, tmp_path, kind):
    X, shape = marked, None
    if kind == "flat":
        X, shape = marked.reshape(60, -1), (9, 8)
    elif kind == "float32":
        X, torn = marked.astype(np.float32), torn.astype(np.float32)
        by_nan = ct.CorrTensor((2, 2)).fit(torn)
    elif kind == "memmap":
        np.save(tmp_path / "x.npy", marked)
        X = np.load(tmp_path / "x.npy", mmap_mode="r")
    elif kind == "zarr":
        X = pytest.importorskip("zarr").create_array(tmp_path / "x.zarr", data=marked)
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        X = h5py.File(tmp_path / "x.h5", "w").create_dataset("x", data=marked)
    elif kind == "dask":
        X = pytest.importorskip("dask.array").from_array(marked, chunks=(25, 9, 8))
    model = ct.CorrTensor((2, 2), missing_values=SENTINEL, sample_shape=shape).fit(X)
    # Samples on Dask are added up by chunks.
    digits = 1e-8
    assert_allclose(model.mean_, by_nan.mean_, rtol=digits, atol=digits * 300)
    for method in ("transform", "residuals", "repair", "score_distances"):
        ours = np.asarray(getattr(model, method)(X))
        theirs = getattr(by_nan, method)(torn)
        size = np.abs(theirs).max()
        assert_allclose(ours.reshape(theirs.shape), theirs, rtol=digits, atol=digits * size)


def test_what_is_on_disk_is_not_copied(marked, tmp_path):
    np.save(tmp_path / "x.npy", marked)
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    model = ct.CorrTensor((2, 2), missing_values=SENTINEL)
    read, _ = model._check(X, reset=True)
    assert not isinstance(read, np.ndarray)
    assert type(read.array) is type(unmapped(X))
    assert np.isnan(read[0:1][marked[:1] == SENTINEL]).all()


def test_it_is_a_parameter_like_any_other(marked, by_nan, torn, tmp_path):
    model = ct.CorrTensor((2, 2), missing_values=np.int32(SENTINEL)).fit(marked)
    assert clone(model).missing_values == SENTINEL
    ct.save(model, tmp_path / "m.ct")
    again = ct.load(tmp_path / "m.ct")
    assert again.missing_values == SENTINEL
    assert_array_equal(again.repair(marked), model.repair(marked))
    ct.save(by_nan, tmp_path / "n.ct")
    assert_array_equal(ct.load(tmp_path / "n.ct").repair(torn), by_nan.repair(torn))
    assert "missing_values" not in repr(clone(ct.load(tmp_path / "n.ct")))


def test_a_killed_fit_goes_on(marked, tmp_path, monkeypatch):
    monkeypatch.setattr("corrtensor._engine.checkpoint.EVERY", 0.0)
    few = {"missing_values": SENTINEL, "tol": 1e-12}
    options = {**few, "checkpoint": tmp_path / "fit.ct"}

    def kill(sweep, *_):
        if sweep == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ct.CorrTensor((1, 1), callback=kill, **options).fit(marked)
    seen = []
    model = ct.CorrTensor((1, 1), callback=lambda sweep, *_: seen.append(sweep), **options)
    model.fit(marked)
    assert seen[0] > 1
    plain = ct.CorrTensor((1, 1), **few).fit(marked)
    assert_allclose(model.mean_, plain.mean_, rtol=1e-8)


def test_tasks_and_streams_know_it(marked, torn):
    subspace = ct.CorrTensor((2, 2), missing_values=SENTINEL)
    wild = marked.copy()
    wild[:6] = np.random.default_rng(1).integers(-3000, 3000, wild[:6].shape)
    found = ct.TensorOutlierDetector(subspace).fit(wild)
    wild_torn = np.where(wild == SENTINEL, np.nan, wild)
    same = ct.TensorOutlierDetector(ct.CorrTensor((2, 2))).fit(wild_torn)
    assert_allclose(found.score_samples(wild), same.score_samples(wild_torn), rtol=1e-8)
    assert_allclose(found.residual_map(wild), same.residual_map(wild_torn), rtol=1e-6, atol=1e-6)
    one = ct.CorrTensor((2, 2), missing_values=SENTINEL)
    other = ct.CorrTensor((2, 2))
    for a, b in zip(np.split(marked, 2), np.split(torn, 2), strict=True):
        one.partial_fit(a)
        other.partial_fit(b)
    assert_allclose(one.mean_, other.mean_, rtol=1e-8, atol=1e-6)
    y = np.arange(60) % 2
    for task in (ct.CorrentropyCenterClassifier, ct.SubspaceClassifier):
        with warnings.catch_warnings():
            # Thirty samples of a class need not settle in the sweeps that there are.
            warnings.simplefilter("ignore")
            a = (
                task(ct.CorrTensor(2, missing_values=SENTINEL))
                .fit(marked, y)
                .decision_function(marked)
            )
            b = task(ct.CorrTensor(2)).fit(torn, y).decision_function(torn)
        assert_allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize("kind", ["zarr", "dask", "masked"])
def test_the_detector_fills_gaps_wherever_they_are(torn, kind, tmp_path):
    if kind == "zarr":
        X = pytest.importorskip("zarr").create_array(tmp_path / "x.zarr", data=torn)
    elif kind == "dask":
        X = pytest.importorskip("dask.array").from_array(torn, chunks=(25, 9, 8))
    else:
        X = np.ma.masked_invalid(torn)
    found = ct.TensorOutlierDetector(ct.CorrTensor((2, 2))).fit(X)
    same = ct.TensorOutlierDetector(ct.CorrTensor((2, 2))).fit(torn)
    ours = np.asarray(found.score_samples(X))
    # Chunks are added up in another order; a score is a difference that may be near zero.
    assert_allclose(ours, same.score_samples(torn), rtol=1e-6, atol=1e-6)
    assert np.isfinite(ours).all()


def test_copies_with_gaps_are_copies(torn):
    X = torn.copy()
    X[40] = X[3]
    assert find_duplicates(X).groups == ((3, 40),)


def test_xarray_comes_back_whole(torn):
    xr = pytest.importorskip("xarray")
    field = xr.DataArray(
        torn,
        dims=("time", "lat", "lon"),
        coords={"lat": np.arange(9.0)},
        name="t2m",
        attrs={"units": "K"},
    )
    for X in (field, field.transpose("lat", "time", "lon")):
        model = ct.CorrTensor((2, 2), cells=True, sample_dim="time").fit(X)
        whole = model.repair(X)
        assert whole.dims == X.dims
        assert whole.name == "t2m"
        assert whole.attrs == {"units": "K"}
        assert not np.isnan(whole).any()
        xr.testing.assert_equal(whole.where(~np.isnan(X) & (model.cell_weights(X) == 1)),
                                X.where(model.cell_weights(X) == 1))  # fmt: skip
        assert model.cell_residuals(X).dims == X.dims


# Fill values of files


def test_fill_values_of_netcdf_are_missing(counts, torn, tmp_path):
    h5py = pytest.importorskip("h5py")
    X, gaps = counts
    with h5py.File(tmp_path / "field.nc", "w") as file:
        for name, value in {"a": np.int32(-32767), "b": None}.items():
            data = file.create_dataset(name, data=np.where(gaps, -32767, X))
            if value is not None:
                # As netCDF writes it: an array of one.
                data.attrs["_FillValue"] = np.array([value])
        file["b"].attrs["missing_value"] = [-32767, -32768]
        file["b"].attrs["history"] = "made"
    for name in "ab":
        stack = open_samples(f"{tmp_path}/field.nc::{name}")
        assert stack.dtype == np.float64
        assert_array_equal(stack[:], torn)
    assert_array_equal(
        open_samples(f"{tmp_path}/field.nc::a", axis=1)[2:4], torn[:, 2:4].transpose(1, 0, 2)
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["int16", "float32"])
def test_fill_values_of_xarray_in_zarr_are_missing(torn, tmp_path, version, kind):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    field = xr.Dataset({"t": (("time", "lat", "lon"), torn / 100)})
    encoding = {"t": {"dtype": kind, "_FillValue": -99}}
    field.to_zarr(tmp_path / "f.zarr", encoding=encoding, zarr_format=version, consolidated=False)
    stack = open_samples(tmp_path / "f.zarr")
    assert_array_equal(np.isnan(stack[:]), np.isnan(torn))


def test_the_fill_value_of_zarr_itself_is_a_number(tmp_path):
    zarr = pytest.importorskip("zarr")
    for version in (2, 3):
        place = tmp_path / f"{version}.zarr"
        zarr.create_array(place, data=np.zeros((4, 3)), fill_value=0, zarr_format=version)
        assert_array_equal(open_samples(place)[:], np.zeros((4, 3)))


def test_numbers_of_netcdf_are_in_their_unit(counts, torn, tmp_path):
    h5py = pytest.importorskip("h5py")
    X, gaps = counts
    attributes = {"_FillValue": -999, "scale_factor": 0.01, "add_offset": np.array([5.0])}
    with h5py.File(tmp_path / "field.nc", "w") as file:
        for name, meant in {
            "a": attributes,
            "b": {"scale_factor": "1", "add_offset": [1, 2]},
        }.items():
            file.create_dataset(name, data=np.where(gaps, -999, X)).attrs.update(meant)
    stack = open_samples(f"{tmp_path}/field.nc::a")
    assert stack.dtype == np.float64
    assert_allclose(stack[:], 0.01 * torn + 5, rtol=1e-12)
    assert_allclose(stack[3:5], (0.01 * torn + 5)[3:5], rtol=1e-12)
    assert_array_equal(open_samples(f"{tmp_path}/field.nc::b")[:], np.where(gaps, -999, X))


@pytest.mark.parametrize("version", [2, 3])
def test_numbers_of_xarray_in_zarr_are_in_their_unit(torn, tmp_path, version):
    xr = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    field = xr.Dataset({"t": (("time", "lat", "lon"), torn)})
    encoding = {"t": {"dtype": "int16", "_FillValue": -32768, "scale_factor": 0.5, "add_offset": 3}}
    field.to_zarr(tmp_path / "f.zarr", encoding=encoding, zarr_format=version, consolidated=False)
    assert_array_equal(open_samples(tmp_path / "f.zarr")[:], torn)


def test_netcdf_of_version_3_says_what_to_do(tmp_path):
    with netcdf_file(tmp_path / "old.nc", "w") as file:
        file.createDimension("x", 4)
        file.createVariable("t", "f8", ("x",))[:] = np.arange(4.0)
    with pytest.raises(InputError, match="netCDF of version 3, which is not read: save it as"):
        open_samples(tmp_path / "old.nc")


@pytest.mark.parametrize("kind", ["float64", "Float64"])
def test_the_detector_reads_tables_with_gaps(kind):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 6)) + 0.1 * rng.normal(size=(80, 6))
    X[5, 2] = np.nan
    table = pd.DataFrame(X, columns=list("abcdef")).astype(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ct.TensorOutlierDetector().fit(table)
        ours = found.score_samples(table)
    assert list(found.feature_names_in_) == list("abcdef")
    same = ct.TensorOutlierDetector().fit(X)
    assert_allclose(ours, same.score_samples(X), rtol=1e-10)


def test_a_table_comes_back_as_one(torn):
    flat = torn.reshape(len(torn), -1)[:, :12]
    names = [f"c{i}" for i in range(12)]
    table = pd.DataFrame(flat, index=np.arange(60) + 7, columns=names)
    with warnings.catch_warnings():
        # The names of the repaired samples are those of the fit.
        warnings.simplefilter("error")
        model = ct.CorrTensor(2, cells=True).fit(table)
        found = {name: getattr(model, name)(table) for name in ("repair", "cell_weights")}
        plain = ct.CorrTensor(2, cells=True).fit(flat)
        ct.CorrTensor(2).partial_fit(table).partial_fit(table[:30])
    for name, values in found.items():
        assert_array_equal(values.columns, names)
        assert_array_equal(values.index, table.index)
        assert_array_equal(values.to_numpy(), getattr(plain, name)(flat))


# What cannot be used, and what to do about it


def test_tables_of_other_kinds_are_refused_in_words(torn):
    frame = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame(torn[:, 0])
    with pytest.raises(TypeError, match=r"table of Dask: give X\.to_dask_array\(lengths=True\)"):
        ct.CorrTensor(2).fit(frame.from_pandas(table, npartitions=2))
    with pytest.raises(ValueError, match=r"X of shape \(60, 0\) has an empty axis"):
        ct.CorrTensor(2).fit(table.iloc[:, :0])


def test_a_value_that_cannot_occur_is_refused(marked):
    with pytest.raises(ValueError, match=r"missing_values=-1 cannot occur in X, which holds uint8"):
        ct.CorrTensor((2, 2), missing_values=-1).fit(np.abs(marked).astype(np.uint8))
    with pytest.raises(ValueError, match=r"missing_values=0\.5 cannot occur"):
        ct.CorrTensor((2, 2), missing_values=0.5).fit(marked)
    for value in (None, "nan", True, [0]):
        with pytest.raises(TypeError, match=r"missing_values=.* must be a number"):
            ct.CorrTensor((2, 2), missing_values=value).fit(marked)


@pytest.mark.parametrize("cells", [False, True])
def test_nothing_but_missing_cells_is_refused(marked, cells):
    model = ct.CorrTensor((2, 2), cells=cells, missing_values=SENTINEL)
    with pytest.raises(ValueError, match="60 of 60 samples have no observed cell"):
        model.fit(np.full_like(marked, SENTINEL))
    with pytest.raises(ValueError, match="60 of 60 samples have no observed cell"):
        model.fit(np.full(marked.shape, np.nan))


def test_an_infinity_may_stand_for_what_is_missing_if_one_says_so(torn, by_nan):
    X = np.where(np.isnan(torn), np.inf, torn)
    with pytest.raises(
        ValueError,
        match=r"infinity: 60 of 60 samples looked at together,.*sample 0.*give it as missing_",
    ):
        ct.CorrTensor((2, 2)).fit(X)
    model = ct.CorrTensor((2, 2), missing_values=np.inf).fit(X)
    assert_array_equal(model.repair(X), by_nan.repair(torn))


def test_of_many_samples_those_of_one_block_are_counted():
    X = np.zeros((3000, 3, 2))
    X[[2005, 2007, 2907]] = np.inf
    source = Source(X, origin=np.zeros((3, 2)), unit=1.0, n_jobs=1, block_size=100)
    with pytest.raises(ValueError, match=r"2 of 100 samples looked at together.*sample 2005"):
        source.reduce(RawPass((0,)))


def test_a_mask_of_another_shape_is_refused(torn):
    rows = [np.ma.masked_invalid(x) for x in torn]
    assert_array_equal(ct.CorrTensor((2, 2)).fit(rows).mean_, ct.CorrTensor((2, 2)).fit(torn).mean_)
    rows[5] = rows[5][:, :4]
    with pytest.raises(ValueError, match="same shape"):
        ct.CorrTensor((2, 2)).fit(rows)
    with pytest.raises(np.ma.MaskError, match="not compatible"):
        ct.CorrTensor((2, 2)).fit(np.ma.array(torn, mask=np.zeros((60, 9))))


def test_nan_is_no_weight_of_a_sample(torn):
    weight = np.ones(60)
    weight[7] = np.nan
    with pytest.raises(ValueError, match=r"sample_weight.*NaN.*sample 7.*0 leaves it out"):
        ct.CorrTensor((2, 2)).fit(torn, sample_weight=weight)
    weight[7] = np.inf
    with pytest.raises(ValueError, match=r"sample_weight.*infinity.*sample 7"):
        ct.CorrTensor((2, 2)).fit(torn, sample_weight=weight)
