"""Names and coordinates of ``xarray.DataArray``: found going in, put back coming out.

xarray is imported only where one of its arrays was given.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils._set_output import _get_output_config

from corrtensor._base.warn import warn

# What the directions of a mode are called: those of "lat" lie along "lat_component".
COMPONENT = "_component"
# Results that are samples or cores, and so have the name and the attributes of the samples.
ALIKE = ("transform", "inverse_transform", "repair")
# Coordinates that differ by less, as a share of their span, are the same.
ROUNDED = 1e-6
# Results that have one number for every cell.
BY_CELL = ("residual_map", "repair", "cell_weights", "cell_residuals")


def is_xarray(X: Any) -> bool:
    """Tell whether ``X`` is an ``xarray.DataArray`` or ``Dataset``."""
    return type(X).__module__.split(".")[0] == "xarray" and hasattr(X, "dims")


def table_wanted(estimator: Any) -> str | None:
    """Return the kind of table that ``set_output`` asks of ``transform``, or nothing."""
    wanted = _get_output_config("transform", estimator)["dense"]
    return None if wanted == "default" else str(wanted)


@dataclass(frozen=True)
class Labels:
    """What an estimator keeps of the ``DataArray`` it was fitted to.

    ``dims`` are those of the modes; ``coords`` are (dims, values, attributes) of the coordinates
    that do not belong to the samples.
    """

    sample_dim: str
    dims: tuple[str, ...]
    coords: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    attrs: Mapping[str, Any] = field(default_factory=dict)

    def kept(self, dims: tuple[str, ...]) -> dict[str, Any]:
        """Return the coordinates that belong to some dims."""
        return {name: c for name, c in self.coords.items() if set(c[0]) <= set(dims)}

    def array(self, values: np.ndarray, dims: tuple[str, ...], **more: Any) -> Any:
        """Return values as a ``DataArray`` along some dims."""
        return import_module("xarray").DataArray(values, self.kept(dims), dims, **more)

    def mean(self, value: np.ndarray) -> Any:
        """Return the mean of the samples with its labels."""
        if value.ndim != len(self.dims):
            return value
        return self.array(value, self.dims, name=self.name, attrs=dict(self.attrs))

    def factors(self, value: tuple[np.ndarray | None, ...]) -> Any:
        """Return the factors with their labels."""
        if len(value) != len(self.dims):
            return value
        pairs = zip(self.dims, value, strict=True)
        return tuple(
            None if U is None else self.array(U, (dim, dim + COMPONENT)) for dim, U in pairs
        )


class Labelled:
    """A fitted attribute that is kept as an array and seen with the labels of the samples."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None or self.name not in vars(estimator):
            raise AttributeError(f"{getattr(owner, '__name__', '')} has no {self.name}: fit it")
        value, labels = vars(estimator)[self.name], vars(estimator).get("labels_in_")
        return value if labels is None else getattr(labels, self.name.strip("_"))(value)

    def __set__(self, estimator: Any, value: Any) -> None:
        vars(estimator)[self.name] = value


@dataclass(frozen=True)
class Named:
    """A ``DataArray`` whose samples are counted along ``sample_dim`` and have some modes.

    ``labels`` are those of the fit, or those of the array itself.
    """

    array: Any
    sample_dim: str
    modes: tuple[str, ...]
    labels: Labels
    estimator: Any

    @property
    def values(self) -> Any:
        """What it holds, samples first, then the modes as in the fit."""
        return self.array.transpose(self.sample_dim, *self.modes).data

    def back(self, value: Any, method: str) -> Any:
        """Return what a method made of it as another, its dims in the same order."""
        wanted = table_wanted(self.estimator) if method == "transform" else None
        if wanted == "pandas":
            index = self.array.indexes.get(self.sample_dim)
            return import_module("pandas").DataFrame(np.asarray(value), index=index)
        if wanted is not None or not hasattr(value, "ndim"):
            return value
        given, rest = self.array.coords, self._dims_of(value, method)
        dims = (self.sample_dim, *rest)
        own = [n for n, c in given.items() if not c.dims or self._of_samples(c, dims)]
        more: dict[str, Any] = {}
        if method in ALIKE:
            more = {"name": self.array.name, "attrs": dict(self.array.attrs)}
        made = import_module("xarray").DataArray(
            value, given.to_dataset()[own].coords, dims, **more
        )
        kept = self.labels.kept(dims) if method in (*ALIKE, *BY_CELL) else {}
        made = made.assign_coords({n: c for n, c in kept.items() if n not in made.coords})
        if rest == ("component",):
            made = made.assign_coords(component=self.estimator.get_feature_names_out().astype(str))
        if len(rest) != len(self.modes):
            return made
        places = dict(zip(self.modes, rest, strict=True))
        return made.transpose(*(places.get(d, d) for d in self.array.dims))

    def _of_samples(self, coord: Any, dims: tuple[str, ...]) -> bool:
        return self.sample_dim in coord.dims and set(coord.dims) <= set(dims)

    def _dims_of(self, value: Any, method: str) -> tuple[str, ...]:
        """Return the dims of a result beside that of the samples."""
        modes = self.labels.dims
        if value.ndim == 1:
            return ()
        if method in BY_CELL and value.ndim == len(modes) + 1:
            return modes
        if method == "inverse_transform" and value.ndim == len(modes) + 1:
            return tuple(d.removesuffix(COMPONENT) for d in modes)
        factors = vars(self.estimator).get("factors_", ())
        if method == "transform" and value.ndim == len(modes) + 1 == len(factors) + 1:
            pairs = zip(modes, factors, strict=True)
            return tuple(d if U is None else d + COMPONENT for d, U in pairs)
        flat = {"transform": "component", "inverse_transform": "feature"}
        return (flat.get(method, "class"),)


def open_xarray(X: Any, estimator: Any, method: str) -> Named:
    """Find the samples and the modes of a ``DataArray``, for a method of an estimator."""
    X = one_variable(X)
    known = None if method == "fit" else labels_of(estimator)
    if known is None:
        sample_dim = choose_sample_dim(X, sample_dim_of(estimator), doubt=method == "fit")
        modes = tuple(str(d) for d in X.dims if d != sample_dim)
        return Named(X, sample_dim, modes, learn_labels(X, sample_dim, modes), estimator)
    sample_dim, modes = find_dims(X, known, method)
    check_coords(X, known)
    return Named(X, sample_dim, modes, known, estimator)


def one_variable(X: Any) -> Any:
    """Return a ``DataArray``: a ``Dataset`` must have one variable."""
    if not hasattr(X, "data_vars"):
        return X
    names = list(X.data_vars)
    if len(names) != 1:
        raise ValueError(
            f"X is an xarray.Dataset of {len(names)} variables, {names}: choose one, as in "
            f"X[{(names or ['name'])[0]!r}], or stack them by X.to_dataarray('variable')"
        )
    return X[names[0]]


def labels_of(estimator: Any) -> Labels | None:
    """Return the labels that an estimator, or the subspace inside it, was fitted to."""
    found = getattr(estimator, "labels_in_", None)
    if found is None and hasattr(estimator, "subspace_"):
        return labels_of(estimator.subspace_)
    return found


def sample_dim_of(estimator: Any) -> str | None:
    """Return the dim of the samples that the user gave, here or for the subspace inside."""
    given = getattr(estimator, "sample_dim", None)
    if given is None and getattr(estimator, "subspace", None) is not None:
        return sample_dim_of(estimator.subspace)
    return given


def choose_sample_dim(X: Any, given: str | None, *, doubt: bool) -> str:
    """Return the dim along which samples are counted: the given one, or the first."""
    if given is not None:
        if given not in X.dims:
            raise ValueError(f"sample_dim={given!r} is none of the dims {X.dims} of X")
        return given
    first = str(X.dims[0])
    dates = {d for d in X.dims if d in X.coords and X.coords[d].dtype.kind == "M"}
    likely = [d for d in X.dims if d in ("time", "sample") or d in dates]
    if doubt and likely and first not in likely:
        warn(
            f"X has dims {X.dims}; its samples are taken along {first!r}, the first. Give "
            f"sample_dim={likely[0]!r} if they are counted there, or {first!r} to say so",
        )
    return first


def find_dims(X: Any, known: Labels, method: str) -> tuple[str, tuple[str, ...]]:
    """Return the dim of the samples and those of the modes, of samples or of cores."""
    modes = known.dims
    if method == "inverse_transform":
        modes = tuple(d if d in X.dims else d + COMPONENT for d in modes)
        if X.ndim == 2 and known.sample_dim in X.dims and not set(modes) <= set(X.dims):
            modes = tuple(d for d in X.dims if d != known.sample_dim)
    others = [str(d) for d in X.dims if d not in modes]
    if len(others) != 1 or not set(modes) <= set(X.dims):
        raise ValueError(
            f"X has dims {X.dims}; needed are those of the samples, {modes}, "
            f"and one that counts them, such as {known.sample_dim!r}"
        )
    return others[0], modes


def check_coords(X: Any, known: Labels) -> None:
    """Raise a ``ValueError`` if a mode has other coordinates than in the fit."""
    for dim in known.dims:
        if dim not in X.dims or dim not in X.coords or dim not in known.coords:
            continue
        before, now = known.coords[dim][1], X.coords[dim].values
        if same_places(before, now):
            continue
        differ = f"{len(now)} instead of {len(before)}"
        if len(now) == len(before):
            i = int((now != before).argmax())
            differ = f"{now[i]!s} instead of {before[i]!s}, at place {i}"
        raise ValueError(
            f"the coordinates of {dim!r} are not those of the fit: {differ}; "
            "bring X to them by X.reindex or X.interp"
        )


def same_places(before: np.ndarray, now: np.ndarray) -> bool:
    """Tell whether coordinates are the same, but for how they were rounded."""
    if before.shape != now.shape or before.dtype.kind != "f" or now.dtype.kind != "f":
        return np.array_equal(before, now)
    return np.allclose(before, now, rtol=0, atol=ROUNDED * float(np.ptp(before)), equal_nan=True)


def learn_labels(X: Any, sample_dim: str, modes: tuple[str, ...]) -> Labels:
    """Return what there is to keep of a ``DataArray``; an index of several levels is not."""
    coords = {
        str(name): (tuple(map(str, c.dims)), np.asarray(c.values), dict(c.attrs))
        for name, c in X.coords.items()
        if sample_dim not in c.dims and getattr(X.indexes.get(name), "nlevels", 1) == 1
    }
    return Labels(sample_dim, modes, coords, X.name, dict(X.attrs))
