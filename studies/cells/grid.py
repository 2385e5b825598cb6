"""Data x what is wrong with their cells x method, against the fit that has all cells.

``subspace`` is the error of held-out clean samples over that of the fit with all cells, ``cells``
the error at the missing cells over that of its reconstruction, ``cost`` the time of the fit over
that of the plain fit to the whole samples, one after the other in one process. LFW was set aside
while the defaults were chosen, but for how closely the cores of a fit are found and how
strongly those of new samples are pulled, and what blocks hide; palms were, until
samples were looked for that stray as a whole; of the small and the hyperspectral sets, two draws
had been looked at when the rule that chooses the ranks was made.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import corrtensor as ct
from corrtensor.datasets._places import data_root
from studies.cells import peers
from studies.records import Trial

__all__ = ["CASES", "SETS", "Cells"]

# These come inside packages.
SMALL = ("faces 25 x 25", "digits 8 x 8")

SETS = ("ORL", "Yale", "USPS", "LFW colour", "palms", "MNIST", *SMALL, "hyperspectral lines")
# Peers take minutes each: last, and not on all sets.
PEERS, COMPARED = ("soft-impute", "KNN", "partial_tucker", "pursuit"), ("ORL",)
MISSING = ("CorrTensor", *PEERS[:3])
BAD = ("CorrTensor(cells=True)", "least squares")
CASES: dict[str, tuple[str, ...]] = {
    "nothing": ("CorrTensor(cells=True)",),
    "missing 20 %": MISSING[:1],
    "missing 40 %": MISSING,
    "missing 60 %": MISSING,
    "missing blocks 20 %": MISSING[:1],
    "salt and pepper 5 %": BAD,
    "salt and pepper 10 %": (*BAD, PEERS[3]),
    "salt and pepper 20 %": BAD,
    "quarter of noise in 30 %": (*BAD, PEERS[3]),
    "quarter of noise in 60 %": BAD,
    "salt and pepper 10 %, noise images 20 %": (*BAD, PEERS[3]),
}

# From this change on, in the range of the values, a cell is bad.
CHANGED = 0.1
# A fit is run so often, a peer's once: the least time counts.
RUNS = 2


@lru_cache(maxsize=1)
def samples(name: str, folder: Path) -> np.ndarray:
    """Return a data set in [0, 1]."""
    if name == "ORL":
        return np.asarray(ct.datasets.load_orl(folder).images) / 255.0
    if name == "Yale":
        return np.asarray(ct.datasets.load_yale(folder, size=(100, 100)).images) / 255.0
    if name == "LFW colour":
        return np.asarray(ct.datasets.load_lfwcrop(folder).images)[:600] / 255.0
    if name == "MNIST":
        return np.asarray(ct.datasets.load_mnist(folder).images)[:600] / 255.0
    if name == "faces 25 x 25":
        faces = ct.datasets.load_faces()
        return np.asarray(faces.images[faces.target == 1], float)
    if name == "digits 8 x 8":
        return ct.datasets.load_digits().images[:600] / 16.0
    if name == "hyperspectral lines":
        return hyperspectral()
    file_name = {"palms": "palm.npz", "USPS": "usps_subset.npz"}[name]
    with np.load(folder / file_name, allow_pickle=False) as file:
        images = next(file[key] for key in file.files if file[key].ndim == 3)
    return (images[:600] - images.min()) / np.ptp(images)


def hyperspectral() -> np.ndarray:
    """Return the lines of Indian Pines, 145 of 145 pixels and 200 bands, in [0, 1]."""
    from tensorly.datasets import load_indian_pines

    cube = np.asarray(load_indian_pines().tensor, float)
    return (cube - cube.min()) / np.ptp(cube)


def ranks_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a fifth of every mode; of three colours two."""
    return tuple(2 if a <= 3 else max(2, round(a / 5)) for a in shape)


def spoil(X: np.ndarray, case: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return spoiled samples, and which cells are bad or missing."""
    bad = np.zeros(X.shape, bool)
    share = int(case.split(" %")[0].split()[-1]) / 100 if "%" in case else 0.0
    n, high, wide = X.shape[:3]
    if "blocks" in case or "quarter" in case:
        part = share if "blocks" in case else 0.25
        a, b = round(high * part**0.5), round(wide * part**0.5)
        hit = n if "blocks" in case else round(share * n)
        for i in rng.permutation(n)[:hit]:
            top, left = rng.integers(high - a + 1), rng.integers(wide - b + 1)
            bad[i, top : top + a, left : left + b] = True
    else:
        bad = rng.random(X.shape) < share
    if "missing" in case:
        return np.where(bad, np.nan, X), bad
    noise = rng.random(X.shape)
    Y = np.where(bad, noise if "quarter" in case else np.round(noise), X)
    if "images" in case:
        Y[: n // 5] = rng.random(Y[: n // 5].shape)
    return Y, bad


def missed(model: Any, X: np.ndarray) -> np.ndarray:
    """Return what the plain projection leaves of whole samples."""
    d = X - model.mean_
    for n, U in enumerate(model.factors_):
        d = np.moveaxis(np.tensordot(d, U @ U.T, axes=(n + 1, 0)), -1, n + 1)
    return np.asarray(X - model.mean_ - d)


@dataclass(frozen=True)
class Cells:
    """The experiment; ``sets`` are those at hand."""

    folder: Path
    sets: tuple[str, ...] = SETS
    name: str = "cells"

    def trials(self, n: int) -> list[Trial]:
        """Return what is to be measured, with seeds 0 to n - 1."""
        trials = [
            Trial(self.name, {"data": data, "wrong": case}, method, {}, seed)
            for data in self.sets
            for case, methods in CASES.items()
            for method in methods
            for seed in range(n)
            if method not in PEERS or (data in COMPARED and seed == 0)
        ]
        return sorted(trials, key=lambda trial: trial.method in PEERS)

    def measure(self, trial: Trial) -> Mapping[str, Any]:
        """Return the numbers of one trial."""
        X = samples(str(trial.case["data"]), data_root(self.folder))
        rng = np.random.default_rng(trial.seed)
        order = rng.permutation(len(X))
        A, B = X[order[: 3 * len(X) // 4]], X[order[3 * len(X) // 4 :]]
        Y, bad = spoil(A, str(trial.case["wrong"]), rng)
        ranks = ranks_of(X.shape[1:])
        oracle = ct.make("MPCA", ranks).fit(A)
        whole, plain = timed(lambda: ct.CorrTensor(ranks).fit(A), RUNS)
        runs = 1 if trial.method in PEERS else RUNS
        (model, filled), ours = timed(lambda: fitted(trial.method, Y, ranks), runs)
        record = {"cost": ours / plain, "n_iter": int(model.n_iter_)}
        if not trial.method.startswith(("soft", "KNN", "partial")):
            found = np.square(missed(model, B)).sum()
            record["subspace"] = float(found / np.square(missed(whole, B)).sum())
        if np.isnan(Y).any():
            filled = model.repair(Y) if filled is None else filled
            best = np.square(missed(oracle, A)[bad]).mean()
            record["cells"] = float(np.square((filled - A)[bad]).mean() / best)
        elif bad.any() and getattr(model, "cells", False):
            away, good = np.abs(model.cell_residuals(Y)), slice(len(A) // 5, None)
            # Salt on white is no error.
            changed = np.abs(Y - A)[good] > CHANGED
            record["auc"] = float(roc_auc_score(changed.ravel(), away[good].ravel()))
        return record


def timed(task: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """Return what a task makes, and the least processor time that it took."""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(runs):
            began = time.process_time()
            made = task()
            seconds.append(time.process_time() - began)
    return made, min(seconds)


def fitted(method: str, Y: np.ndarray, ranks: tuple[int, ...]) -> tuple[Any, np.ndarray | None]:
    """Return the subspace of a method, and its repaired samples if it is no method of ours."""
    peer = {"soft-impute": peers.soft_impute, "KNN": peers.knn, "pursuit": peers.pursuit}
    if method == "partial_tucker":
        filled = peers.tucker(Y, ranks)
    elif method in peer:
        filled = peer[method](Y)
    else:
        robust = {"CorrTensor": False, "CorrTensor(cells=True)": True}
        if method in robust:
            return ct.CorrTensor(ranks, cells=robust[method]).fit(Y), None
        return ct.make("MPCA", ranks).fit(Y), None
    return ct.make("MPCA", ranks).fit(filled), filled
