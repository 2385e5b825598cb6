"""The robustness grid: data x ranks x outliers x share x draws, against a fit told the truth.

"Times oracle" is the mean squared residual of the good samples, divided by that of MPCA fitted
to them alone; to both is added what rounding may leave, for ranks that explain everything.
Data sets that were looked at while the search of samples was made are ``seen``; the others
were only measured.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from corrtensor.datasets import (
    block_outliers,
    dummy_outliers,
    load_digits,
    load_faces,
    load_lfwcrop,
    load_mnist,
    load_orl,
    load_yale,
    magnified_outliers,
)
from corrtensor.datasets._places import data_root
from corrtensor.methods import make
from studies.harder_outliers import (
    near_copies,
    negatives,
    pattern_outliers,
    transposed_outliers,
)
from studies.records import Trial

__all__ = ["CASES", "DATA", "METHODS", "DataSet", "Robustness", "find_data", "quick", "ranks_at"]

Folder = str | Path | None

PERSON, DIGIT = "Colin_Powell", 3
ONE_DIGIT, ALL_DIGITS = 600, 2000
# Ranks as shares of the modes; modes of so few entries, such as colours, stay whole.
RANKS, WHOLE = (0.2, 0.5, 0.9), 4
# A sample of smaller weight counts as rejected.
REJECTED = 0.5
# Of the mean squared norm: a residual below it says nothing.
ROUNDING = 1e-12


@dataclass(frozen=True)
class DataSet:
    """Good samples.

    Parameters
    ----------
    name : str
        The name in the records; no two sets share one.
    load : callable
        From a folder to an array of samples.
    seen : bool
        Whether the search of samples was made with this set in view.
    """

    name: str
    load: Callable[[Folder], np.ndarray] = field(compare=False)
    seen: bool


def pixels(
    folder: Folder, loader: Callable[..., Any], n: int | None = None, **options: Any
) -> np.ndarray:
    """Return the first images of a set of bytes, as numbers up to 1."""
    return loader(folder, **options).images[:n] / 255.0


def one_digit(folder: Folder) -> np.ndarray:
    """Return the first threes of MNIST."""
    digits = load_mnist(folder)
    return digits.images[digits.target == DIGIT][:ONE_DIGIT] / 255.0


def archive(folder: Folder, name: str, key: str) -> np.ndarray:
    """Return one array of an ``.npz`` file that the package has no loader for."""
    path = data_root(folder) / name
    try:
        with np.load(path, allow_pickle=False) as arrays:
            X = np.asarray(arrays[key])
    except (BadZipFile, KeyError, ValueError) as error:
        raise ValueError(f"{path} is no archive with an array {key!r} ({error})") from error
    return X / 255.0 if X.dtype == np.uint8 else X


def small_digits(folder: Folder) -> np.ndarray:
    """Return scikit-learn's digits, which need no file."""
    return load_digits().images / 16.0


def small_faces(folder: Folder) -> np.ndarray:
    """Return scikit-image's faces, which need no file."""
    faces = load_faces()
    return faces.images[faces.target == 1]


DATA = (
    DataSet("Yale", partial(pixels, loader=load_yale, size=(100, 100)), seen=True),
    DataSet("ORL", partial(pixels, loader=load_orl), seen=True),
    DataSet("MNIST", partial(pixels, loader=load_mnist, n=ALL_DIGITS), seen=True),
    DataSet("USPS", partial(archive, name="usps_subset.npz", key="images"), seen=True),
    DataSet("clip", partial(archive, name="video_escalator.npz", key="frames"), seen=True),
    DataSet("digits", small_digits, seen=True),
    DataSet(
        "LFW grey", partial(pixels, loader=load_lfwcrop, color=False, people=[PERSON]), seen=False
    ),
    DataSet("LFW colour", partial(pixels, loader=load_lfwcrop, people=[PERSON]), seen=False),
    DataSet(f"MNIST {DIGIT}", one_digit, seen=False),
    DataSet("palms", partial(archive, name="palm.npz", key="images"), seen=True),
    DataSet("small faces", small_faces, seen=True),
)
QUICK = ("Yale", "USPS", "digits", f"MNIST {DIGIT}", "small faces")

OUTLIERS: Mapping[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
    "noise": dummy_outliers,
    "block": block_outliers,
    "times 50": magnified_outliers,
    "near-copies": near_copies,
    "pattern": pattern_outliers,
    "negatives": negatives,
    "transposed": transposed_outliers,
}
SHARES: Mapping[str, tuple[float, ...]] = {
    **dict.fromkeys(("noise", "block", "times 50", "near-copies"), (0.1, 0.3, 0.45)),
    "pattern": (0.1, 0.25, 0.4),
    **dict.fromkeys(("negatives", "transposed"), (0.2,)),
}
# Nothing wrong: all samples, or so many of them.
CLEAN: Mapping[str, int | None] = {"none": None, "none, 60": 60, "none, 200": 200}
CASES = (
    *((kind, 0.0) for kind in CLEAN),
    *((kind, share) for kind, shares in SHARES.items() for share in shares),
)

OURS = "CorrTensor"
METHODS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    # MPCA without sweeps is 2DSVD for samples of any order.
    "2DSVD": ("MPCA", {"coupled": False}),
    "R1": ("R1-Tensor", {}),
    OURS: ("Corr-Tensor", {}),
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
    cases : tuple of (str, float)
        Kinds of outliers, or names in ``CLEAN``, and the share of outliers among all samples.
    ranks : tuple of float
        Shares of the modes.
    """

    data: tuple[DataSet, ...]
    folder: Folder = None
    cases: tuple[tuple[str, float], ...] = CASES
    ranks: tuple[float, ...] = RANKS
    name: str = "robustness"

    def trials(self, n: int) -> list[Trial]:
        """Return all the fits, draw by draw, ours first; shuffled, to tell the time left.

        Further draws are for ours alone, and where there is something to draw.
        """
        cells = [
            (dataset, rank, kind, share)
            for dataset in self.data
            for rank in self.ranks
            for kind, share in self.cases
            if len(load(dataset, self.folder)) > (CLEAN.get(kind) or 0)
        ]
        order = np.random.default_rng(0).permutation(len(cells))
        return [
            Trial(
                self.name,
                {"data": dataset.name, "rank": rank, "outliers": kind, "share": share},
                method,
                {
                    "ranks": ranks_at(rank, load(dataset, self.folder).shape[1:]),
                    **METHODS[method][1],
                },
                seed,
            )
            for seed in range(n)
            for methods in ((OURS,), [m for m in METHODS if m != OURS])
            for dataset, rank, kind, share in (cells[i] for i in order)
            for method in methods
            if seed == 0 or (method == OURS and kind != "none")
        ]

    def measure(self, trial: Trial) -> dict[str, Any]:
        """Fit one method to one case."""
        dataset = next(d for d in self.data if d.name == trial.case["data"])
        case = dataset, self.folder, trial.case["outliers"], trial.case["share"], trial.seed
        X, bad = spoil(*case)
        ranks = tuple(trial.parameters["ranks"])
        model = make(METHODS[trial.method][0], **{**trial.parameters, "ranks": ranks})
        with warnings.catch_warnings():
            # Fits that end before they are at rest are measured like the others.
            warnings.simplefilter("ignore", UserWarning)
            began = time.perf_counter()
            model.fit(X)
            seconds = time.perf_counter() - began
            oracle = oracle_error(*case, ranks)
        floor = ROUNDING * float(np.square(X[~bad]).sum()) / np.count_nonzero(~bad)
        error = (float(model.residuals(X[~bad]).mean()) + floor) / (oracle + floor)
        rejected = model.weights_ < REJECTED
        ours = trial.method == OURS
        return {
            "times_oracle": round(float(error), 6),
            "recall": round(float(rejected[bad].mean()), 6) if ours and bad.any() else None,
            "false_alarms": round(float(rejected[~bad].mean()), 6) if ours else None,
            "n_samples": len(X),
            "fit_seconds": round(seconds, 4),
        }


def ranks_at(share: float, shape: tuple[int, ...]) -> list[int]:
    """Return the ranks for samples of a shape at a share of their modes."""
    return [a if a <= WHOLE else max(1, round(share * a)) for a in shape]


@cache
def load(dataset: DataSet, folder: Folder) -> np.ndarray:
    """Load a data set once for all its cases."""
    return dataset.load(folder)


@lru_cache(maxsize=2)
def spoil(
    dataset: DataSet, folder: Folder, kind: str, share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return a data set with outliers, and the truth."""
    X, rng = load(dataset, folder), np.random.default_rng(seed)
    if kind in OUTLIERS:
        return OUTLIERS[kind](X, share, rng)
    n = CLEAN[kind]
    X = X if n is None else X[np.sort(rng.choice(len(X), n, replace=False))]
    return X, np.zeros(len(X), dtype=bool)


@lru_cache(maxsize=2)
def oracle_error(
    dataset: DataSet, folder: Folder, kind: str, share: float, seed: int, ranks: tuple[int, ...]
) -> float:
    """Return the error of the fit that is told who is good."""
    X, bad = spoil(dataset, folder, kind, share, seed)
    return float(make("MPCA", ranks).fit(X[~bad]).residuals_.mean())


def find_data(folder: Folder = None) -> tuple[tuple[DataSet, ...], tuple[str, ...]]:
    """Return the data sets that can be had, and the names of those whose files are missing."""
    missing = []
    for dataset in DATA:
        try:
            load(dataset, folder)
        except FileNotFoundError:
            missing.append(dataset.name)
    return tuple(d for d in DATA if d.name not in missing), tuple(missing)


def quick(experiment: Robustness) -> Robustness:
    """Return the grid on a few small sets."""
    return replace(experiment, data=tuple(d for d in experiment.data if d.name in QUICK))
