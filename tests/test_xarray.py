"""xarray in, xarray out: names, coordinates, order of dims, and nothing computed early."""

import pickle

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import corrtensor as ct
from corrtensor.report import write_page

xr = pytest.importorskip("xarray")

RANKS = (3, 2)
ORDERS = [("time", "lat", "lon"), ("lat", "lon", "time"), ("lat", "time", "lon")]


@pytest.fixture
def field(images):
    """Sixty days of an 8 x 7 field, with coordinates of all kinds."""
    return xr.DataArray(
        images,
        dims=("time", "lat", "lon"),
        coords={
            "time": pd.date_range("2020-01-01", periods=60),
            "lat": np.linspace(40, 47, 8),
            "lon": np.linspace(5, 11, 7),
            "height": 2.0,
            "season": ("time", ["winter"] * 60),
            "land": (("lat", "lon"), np.eye(8, 7) > 0),
        },
        name="t2m",
        attrs={"units": "K"},
    )


@pytest.mark.parametrize("dims", ORDERS)
@pytest.mark.parametrize("name", ["Corr-Tensor", "MPCA", "2DPCA", "L1-2DPCA"])
def test_round_trip_keeps_names_coordinates_and_order(field, dims, name):
    X = field.transpose(*dims)
    ranks = 2 if name.endswith("2DPCA") else RANKS
    model = ct.make(name, ranks, sample_dim="time").fit(X)
    cores = model.transform(X)
    row = "lat" if ranks == 2 else "lat_component"
    expected = {"time": "time", "lat": row, "lon": "lon_component"}
    assert cores.dims == tuple(expected[d] for d in dims)
    assert cores.name == "t2m"
    assert cores.attrs == {"units": "K"}
    back = model.inverse_transform(cores)
    # all but the numbers is what went in
    xr.testing.assert_identical(back.copy(data=X.data), X)
    plain = ct.make(name, ranks).fit(field.values)
    by_hand = plain.inverse_transform(plain.transform(field.values))
    assert_allclose(back.transpose("time", "lat", "lon").values, by_hand, rtol=1e-12, atol=1e-12)


def test_mean_and_factors_have_the_labels(field):
    model = ct.CorrTensor(RANKS, sample_dim="time").fit(field.transpose("lat", "lon", "time"))
    assert model.mean_.dims == ("lat", "lon")
    assert model.mean_.attrs == {"units": "K"}
    xr.testing.assert_identical(model.mean_.lat, field.lat.drop_vars("season", errors="ignore"))
    assert [U.dims for U in model.factors_] == [("lat", "lat_component"), ("lon", "lon_component")]
    assert_allclose(model.factors_[1].lon, field.lon)
    by_hand = ((field - model.mean_) @ model.factors_[0] @ model.factors_[1]).values
    assert_allclose(by_hand, model.transform(field).values, atol=1e-12)


def test_dims_are_found_by_their_names(field):
    model = ct.CorrTensor(RANKS).fit(field)
    turned = field.transpose("lon", "time", "lat")
    cores = model.transform(turned)
    assert cores.dims == ("lon_component", "time", "lat_component")
    assert_allclose(cores.transpose(*model.transform(field).dims), model.transform(field))
    renamed = model.transform(field.rename(time="member"))
    assert renamed.dims == ("member", "lat_component", "lon_component")
    with pytest.raises(ValueError, match=r"dims .*'y'.*needed are those of the samples"):
        model.transform(field.rename(lat="y"))


def test_other_coordinates_are_refused(field):
    model = ct.CorrTensor(RANKS).fit(field)
    with pytest.raises(ValueError, match=r"'lat' are not .* fit: 47.0 instead of 40.0, at place 0"):
        model.transform(field.isel(lat=slice(None, None, -1)))
    with pytest.raises(ValueError, match="'lat' are not those of the fit: 5 instead of 8; bring"):
        model.transform(field.isel(lat=slice(5)))


def test_coordinates_that_were_rounded_are_the_same(field):
    model = ct.CorrTensor(RANKS).fit(field)
    rounded = field.assign_coords(lat=field.lat + 1e-6)
    assert_allclose(model.transform(rounded).values, model.transform(field).values)
    with pytest.raises(ValueError, match="not those of the fit"):
        model.transform(field.assign_coords(lat=field.lat + 1e-3))


def test_samples_counted_elsewhere_are_not_guessed_silently(field):
    with pytest.warns(UserWarning, match="sample_dim='time'"):
        ct.CorrTensor(RANKS).fit(field.transpose("lat", "lon", "time"))
    with pytest.raises(ValueError, match="sample_dim='day' is none of the dims"):
        ct.CorrTensor(RANKS, sample_dim="day").fit(field)


def test_results_of_one_number_per_sample(field):
    X = field.transpose("lat", "lon", "time")
    model = ct.CorrTensor(RANKS, sample_dim="time").fit(X)
    detector = ct.TensorOutlierDetector(ct.CorrTensor(RANKS, sample_dim="time")).fit(X)
    results = (
        model.residuals(X),
        model.score_distances(X),
        model.score_samples(X),
        detector.predict(X),
        detector.score_samples(X),
    )
    for values in results:
        assert values.dims == ("time",)
        assert values.time.equals(field.time)
        assert "units" not in values.attrs
    assert_allclose(model.residuals(X), model.residuals_, rtol=1e-9)
    assert (detector.predict(X)[:8] == -1).all()
    assert detector.residual_map(X).dims == X.dims
    assert_allclose(detector.residual_map(X).sum(["lat", "lon"]), model.residuals(X), rtol=1e-9)


def test_tasks_take_it(field):
    y = np.arange(60) % 3
    X = field.transpose("lat", "lon", "time")
    subspace = ct.CorrTensor(RANKS, sample_dim="time")
    for task in (
        ct.CorrentropyCenterClassifier(subspace),
        ct.SubspaceClassifier(subspace, flatten=False),
    ):
        predicted = task.fit(X, y).predict(X)
        assert predicted.dims == ("time",)
        own = task.fit(field.values, y).predict(field.values)
        assert np.array_equal(predicted, own)
    clusters = ct.DensityPeaksKMeans(3, subspace=subspace, random_state=0).fit(X)
    assert clusters.predict(X).dims == ("time",)


def test_a_dataset_of_one_variable(field):
    data = field.to_dataset()
    model = ct.CorrTensor(RANKS).fit(data)
    assert model.mean_.dims == ("lat", "lon")
    xr.testing.assert_identical(model.transform(data), model.transform(field))
    with pytest.raises(ValueError, match=r"Dataset of 2 variables, \['t2m', 'u10'\]"):
        model.transform(data.assign(u10=field))


def test_flat_features_have_names(field):
    model = ct.CorrTensor(RANKS, output="flat").fit(field)
    rows = model.transform(field)
    assert rows.dims == ("time", "component")
    assert rows.component.values.tolist() == model.get_feature_names_out().tolist()
    back = model.inverse_transform(rows)
    xr.testing.assert_identical(back.copy(data=field.data), field)


def test_table_has_the_samples_index(field):
    model = ct.CorrTensor(RANKS).set_output(transform="pandas").fit(field)
    table = model.transform(field)
    assert list(table.columns) == model.get_feature_names_out().tolist()
    assert table.index.equals(field.indexes["time"])


def test_a_model_of_bare_arrays_takes_labels_from_the_samples(field):
    model = ct.CorrTensor(RANKS).fit(field.values)
    cores = model.transform(field)
    assert cores.dims == ("time", "lat_component", "lon_component")
    assert model.inverse_transform(cores).dims == ("time", "lat", "lon")
    assert isinstance(model.mean_, np.ndarray)


def test_a_second_fit_forgets_the_labels(field):
    model = ct.CorrTensor(RANKS).fit(field).fit(field.values)
    assert isinstance(model.mean_, np.ndarray)
    assert isinstance(model.transform(field.values), np.ndarray)


@pytest.mark.parametrize("name", ["Corr-Tensor", "L1-2DPCA"])
def test_plots_and_pages_take_it(field, tmp_path, name):
    pytest.importorskip("matplotlib").use("agg")
    X = field.transpose("lat", "lon", "time")
    model = ct.make(name, 2 if name == "L1-2DPCA" else RANKS, sample_dim="time").fit(X)
    drawn = ct.plot.outlier_map(model, X)
    same = ct.plot.outlier_map(model, field)
    places = [np.concatenate([c.get_offsets() for c in ax.collections]) for ax in (drawn, same)]
    assert_allclose(places[0], places[1], rtol=1e-6)
    assert sum(len(p) for p in places) == 120
    ct.plot.factors(model)
    page = write_page(tmp_path / "page.html", model, X).read_text(encoding="utf-8")
    assert "60" in page


def test_copies_keep_the_labels(field):
    model = ct.CorrTensor(RANKS).fit(field)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    xr.testing.assert_identical(again.transform(field), model.transform(field))
    model.partial_fit(field)
    assert model.partial_fit(field[:30]).mean_.dims == ("lat", "lon")


def test_labels_are_saved(field, tmp_path):
    model = ct.CorrTensor(RANKS).fit(field)
    ct.save(model, tmp_path / "model.ct")
    again = ct.load(tmp_path / "model.ct")
    xr.testing.assert_identical(again.mean_, model.mean_)
    xr.testing.assert_identical(again.transform(field), model.transform(field))


@pytest.mark.parametrize("dims", ORDERS)
def test_with_dask_nothing_is_computed_early(field, dims):
    chunked = {"time": 20, "lat": -1, "lon": -1}
    lazy = field.chunk(chunked).transpose(*dims)
    model = ct.CorrTensor(RANKS, sample_dim="time").fit(lazy)
    plain = ct.CorrTensor(RANKS).fit(field.values)
    assert_allclose(model.residuals_, plain.residuals_, rtol=1e-9)
    computed = []

    def scheduler(graph, keys, **options):
        computed.append(keys)
        return dask.get(graph, keys, **options)

    with dask.config.set(scheduler=scheduler):
        cores = model.transform(lazy)
        back = model.inverse_transform(cores)
        squares = model.residuals(lazy)
        assert not computed
        for values in (cores, back, squares):
            assert isinstance(values.data, da.Array)
        assert back.dims == lazy.dims
        assert_allclose(
            back.transpose("time", "lat", "lon"),
            plain.inverse_transform(plain.transform(field.values)),
            rtol=1e-9,
            atol=1e-9,
        )
        assert computed
