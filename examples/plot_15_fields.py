"""
Fields in time, with dead stations: xarray in, xarray out
=========================================================

A year of daily temperatures on a grid, as an ``xarray.DataArray``. On some days the analysis went
wrong where stations had died: whole regions read far too warm, or nothing but noise was written.
Nobody has a list of these days. Names and coordinates stay with the data all the way.
"""

# %%
# A year of fields
# ----------------
# Made here, so that the truth is known: a season, waves that travel, and weather. On 24 days the
# instruments of a region are dead. Dims come as the file has them, time last.

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

import corrtensor as ct

rng = np.random.default_rng(0)
time = np.arange("2021-01-01", "2022-01-01", dtype="datetime64[D]")
lat, lon = np.linspace(35, 70, 24), np.linspace(-10, 40, 36)
day = np.arange(len(time))
phi, lam = np.deg2rad(lat)[:, None], np.deg2rad(lon)[None, :]
season = -12 * np.cos(2 * np.pi * (day - 20) / 365) * np.sin(phi)[..., None] ** 2
waves = sum(
    (4 / k)
    * np.cos(k * lam * 3 - 2 * np.pi * day[:, None, None] / period).transpose(1, 2, 0)
    * np.sin(k * phi * 2)[..., None]
    for k, period in ((1, 11), (2, 7), (3, 5))
)
truth = 25 - 0.6 * (lat[:, None, None] - 35) + season + waves
fields = xr.DataArray(
    truth + 0.7 * rng.normal(size=truth.shape),
    dims=("lat", "lon", "time"),
    coords={"lat": lat, "lon": lon, "time": time},
    name="t2m",
    attrs={"units": "degC", "long_name": "temperature at 2 m"},
)
dead = rng.choice(len(time), 24, replace=False)
for number, i in enumerate(dead):
    a, b = rng.integers(0, 12), rng.integers(0, 18)
    region = fields.values[a : a + 12, b : b + 18, i]
    region[:] = 30 if number % 2 else rng.normal(15, 15, region.shape)

# %%
# The fit
# -------
# ``sample_dim`` says what counts the samples. Everything that comes out has its names.

model = ct.CorrTensor(ranks=(4, 6), sample_dim="time").fit(fields)
print(model.mean_.dims, [U.dims for U in model.factors_])
scores = model.transform(fields)
print(scores.dims, scores.attrs["units"])
explained = model.explained_variance_ratio_.sum()
print(f"{100 * explained:.1f} % of the variance explained, outliers aside")

found = fields.time.values[model.weights_ < 0.5]
print(
    f"{len(found)} days rejected, {np.isin(found, time[dead]).sum()} of the 24 bad ones among them"
)

# %%
# What the subspace makes of a day is again a field. The plain method has learned the faults, too.

plain = ct.make("MPCA", ranks=(4, 6), sample_dim="time").fit(fields)
good = np.setdiff1d(day, dead)
for name, fit in (("MPCA", plain), ("Corr-Tensor", model)):
    back = fit.inverse_transform(fit.transform(fields))
    error = np.sqrt(float(((back - truth) ** 2).isel(time=good).mean()))
    print(f"{name:12s} error on good days: {error:.3f} degC")

# %%
# A bad day, and how far each day is from the subspace.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
fields.sel(time=time[dead[1]]).plot(ax=left, cmap="RdYlBu_r")
distance = np.sqrt(model.residuals(fields))
right.plot(distance.time, distance, ".", color="#0072B2", label="good")
bad = distance.isel(time=dead)
right.plot(bad.time, bad, "x", color="#D55E00", label="stations dead")
right.set(ylabel="orthogonal distance", yscale="log")
right.legend(frameon=False)
plt.show()
