"""The robustness grid: data x ranks x outliers x share x methods, against a fit told the truth.

Every method of the library runs at its defaults but for the argument named. "Times oracle" is
the mean squared residual of the good samples, divided by that of MPCA fitted to them alone.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor.datasets import (
    block_outliers,
    dummy_outliers,
    load_digits,
    load_faces,
    load_lfwcrop,
    load_mnist,
    load_mnist_part,
    load_orl,
    load_yale,
    magnified_outliers,
    near_copies,
    negatives,
    pattern_outliers,
    transposed_outliers,
)
from corrtensor.methods import make
from studies.records import Trial

__all__ = ["METHODS", "OUTLIERS", "DataSet", "Robustness", "find_data", "quick", "robustness"]

Folder = str | Path | None

PERSON, DIGIT = "Colin_Powell", 3
ONE_DIGIT, ALL_DIGITS = 600, 2000
# A sample of smaller weight counts as rejected.
REJECTED = 0.5


@dataclass(frozen=True)
class DataSet:
    """Good samples, and the ranks at which they are fitted.

    Parameters
    ----------
    name : str
        The name in the records.
    load : callable
        From a folder to an array of samples with entries in [0, 1].
    ranks : tuple of tuple of int
        One entry per mode each.
    """

    name: str
    load: Callable[[Folder], np.ndarray]
    ranks: tuple[tuple[int, ...], ...]


def square(*ranks: int) -> tuple[tuple[int, int], ...]:
    """Return each rank for both modes."""
    return tuple((k, k) for k in ranks)


def yale(folder: Folder) -> np.ndarray:
    """Return the 165 faces at 100 x 100 pixels."""
    return load_yale(folder, size=(100, 100)).images / 255.0


def orl(folder: Folder) -> np.ndarray:
    """Return the 400 faces at 112 x 92 pixels."""
    return load_orl(folder).images / 255.0


def lfw_grey(folder: Folder) -> np.ndarray:
    """Return the 236 grey images of one person."""
    return load_lfwcrop(folder, color=False, people=[PERSON]).images / 255.0


def lfw_colour(folder: Folder) -> np.ndarray:
    """Return the 236 colour images of one person."""
    return load_lfwcrop(folder, people=[PERSON]).images / 255.0


def one_digit(folder: Folder) -> np.ndarray:
    """Return the first threes of MNIST."""
    digits = load_mnist(folder)
    return digits.images[digits.target == DIGIT][:ONE_DIGIT] / 255.0


def all_digits(folder: Folder) -> np.ndarray:
    """Return the first images of MNIST."""
    return load_mnist(folder).images[:ALL_DIGITS] / 255.0


def one_digit_of_part(folder: Folder) -> np.ndarray:
    """Return the threes of the part of MNIST that needs no files."""
    digits = load_mnist_part()
    return digits.images[digits.target == DIGIT] / 255.0


def all_digits_of_part(folder: Folder) -> np.ndarray:
    """Return as many of each digit from the part of MNIST that needs no files."""
    each = ALL_DIGITS // 10
    images = load_mnist_part().images.reshape(10, -1, 28, 28)
    return images[:, :each].reshape(-1, 28, 28) / 255.0


def small_digits(folder: Folder) -> np.ndarray:
    """Return scikit-learn's digits."""
    return load_digits().images / 16.0


def small_faces(folder: Folder) -> np.ndarray:
    """Return scikit-image's faces."""
    faces = load_faces()
    return faces.images[faces.target == 1]


FACES = (
    DataSet("Yale", yale, square(20, 50, 70)),
    DataSet("ORL", orl, square(10, 30, 50)),
    DataSet("LFW grey", lfw_grey, square(10, 30, 40)),
    DataSet("LFW colour", lfw_colour, ((10, 10, 3), (30, 30, 3))),
)
MNIST = (
    DataSet(f"MNIST {DIGIT}", one_digit, square(6, 10, 15)),
    DataSet("MNIST", all_digits, square(6, 10, 15)),
)
MNIST_PART = (
    DataSet(f"MNIST {DIGIT} (part)", one_digit_of_part, square(6, 10, 15)),
    DataSet("MNIST (part)", all_digits_of_part, square(6, 10, 15)),
)
SMALL_FACES = DataSet("small faces", small_faces, square(5, 10, 15))
DIGITS = DataSet("digits", small_digits, square(3, 5))

OUTLIERS: Mapping[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "noise": dummy_outliers,
    "block": block_outliers,
    "times 50": magnified_outliers,
    "near-copies": near_copies,
    "negatives": negatives,
    "pattern": pattern_outliers,
    "transposed": transposed_outliers,
}
NOTHING = "none"


@dataclass(frozen=True)
class Compared:
    """A method of the grid: a published name and its settings."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


METHODS: Mapping[str, Compared] = {
    # MPCA without sweeps is 2DSVD for samples of any order.
    "2DSVD": Compared("MPCA", {"coupled": False}),
    "R1": Compared("R1-Tensor"),
    "as printed": Compared(
        "Corr-Tensor", {"alpha": 1.6, "beta": 0.8, "scale": None, "init": "2dsvd"}
    ),
    "unexplained": Compared("Corr-Tensor", {"reject": "unexplained"}),
    "minority": Compared("Corr-Tensor", {"reject": "minority"}),
    "leverage": Compared("Corr-Tensor", {"leverage": True}),
}


@dataclass(frozen=True)
class Robustness:
    """The grid as a value.

    Parameters
    ----------
    data : tuple of DataSet
        What is spoiled.
    folder : str, Path or None
        Where the data sets are.
    outliers : tuple of str
        Names in ``OUTLIERS``.
    shares : tuple of float
        Shares of outliers among all samples; data without any come once, as ``"none"``.
    methods : tuple of str
        Names in ``METHODS``.
    """

    data: tuple[DataSet, ...]
    folder: Folder = None
    outliers: tuple[str, ...] = tuple(OUTLIERS)
    shares: tuple[float, ...] = (0.1, 0.3, 0.45)
    methods: tuple[str, ...] = tuple(METHODS)
    name: str = "robustness"

    def trials(self, n: int) -> list[Trial]:
        """Return all the fits; cases come shuffled, so that the time left can be told."""
        spoiled = [(NOTHING, 0.0), *((kind, s) for kind in self.outliers for s in self.shares)]
        cases = [(d, ranks, *kind) for d in self.data for ranks in d.ranks for kind in spoiled]
        order = np.random.default_rng(0).permutation(len(cases))
        return [
            Trial(
                self.name,
                {"data": dataset.name, "outliers": kind, "share": share},
                method,
                {"ranks": list(ranks), **METHODS[method].settings},
                seed,
            )
            for seed in range(n)
            for dataset, ranks, kind, share in (cases[i] for i in order)
            for method in self.methods
        ]

    def measure(self, trial: Trial) -> dict[str, Any]:
        """Fit one method to one case."""
        dataset = next(d for d in self.data if d.name == trial.case["data"])
        case = dataset, self.folder, trial.case["outliers"], trial.case["share"], trial.seed
        X, bad = spoil(*case)
        ranks = tuple(trial.parameters["ranks"])
        model = make(METHODS[trial.method].name, **{**trial.parameters, "ranks": ranks})
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            began = time.perf_counter()
            model.fit(X)
            seconds = time.perf_counter() - began
        error = float(model.residuals(X[~bad]).mean())
        weighs = METHODS[trial.method].name == "Corr-Tensor"
        rejected = model.weights_ < REJECTED
        return {
            "times_oracle": error / oracle_error(*case, ranks),
            "recall": float(rejected[bad].mean()) if weighs and bad.any() else None,
            "false_alarms": float(rejected[~bad].mean()) if weighs else None,
            "n_samples": len(X),
            "n_outliers": int(bad.sum()),
            "warnings": sorted({warning.category.__name__ for warning in given}),
            "fit_seconds": round(seconds, 4),
        }


@lru_cache(maxsize=8)
def load(dataset: DataSet, folder: Folder) -> np.ndarray:
    """Load a data set once for all its cases."""
    return dataset.load(folder)


@lru_cache(maxsize=2)
def spoil(
    dataset: DataSet, folder: Folder, kind: str, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a data set with outliers, and the truth.

    Kinds that replace samples replace the same ones when seed and share are the same.
    """
    X = load(dataset, folder)
    if kind == NOTHING:
        return X, np.zeros(len(X), dtype=bool)
    return OUTLIERS[kind](X, share, np.random.default_rng(seed))


@lru_cache(maxsize=2)
def oracle_error(
    dataset: DataSet, folder: Folder, kind: str, share: float, seed: int, ranks: tuple[int, ...]
) -> float:
    """Return the error of the fit that is told who is good."""
    X, bad = spoil(dataset, folder, kind, share, seed)
    return float(make("MPCA", ranks).fit(X[~bad]).residuals_.mean())


def find_data(folder: Folder = None) -> tuple[tuple[DataSet, ...], tuple[str, ...]]:
    """Return the data sets that can be had, and the names of those that cannot.

    Parameters
    ----------
    folder : str or Path, default=None
        Where to look; by default as the loaders do.

    Returns
    -------
    data : tuple of DataSet
        Real sets where found; what comes with other packages in their place.
    missing : tuple of str
        Names of the real sets that are not there.
    """
    missing = []
    for dataset in (*FACES, *MNIST):
        try:
            load(dataset, folder)
        except FileNotFoundError:
            missing.append(dataset.name)
    faces = tuple(d for d in FACES if d.name not in missing) or (SMALL_FACES,)
    digits = MNIST if MNIST[0].name not in missing else MNIST_PART
    return (*faces, *digits, DIGITS), tuple(missing)


def quick(experiment: Robustness) -> Robustness:
    """Return the grid with one rank for every data set, the middle or smaller one."""
    one = (replace(d, ranks=(d.ranks[(len(d.ranks) - 1) // 2],)) for d in experiment.data)
    return replace(experiment, data=tuple(one))


def robustness(folder: Folder = None) -> Robustness:
    """Return the whole grid on the data that can be had.

    Parameters
    ----------
    folder : str or Path, default=None
        Where the real data sets are; by default as the loaders look for them.

    Returns
    -------
    experiment : Robustness
        To be given to :func:`studies.records.run`.
    """
    return Robustness(find_data(folder)[0], folder)
