"""Who finds the damage? Our detector beside PyOD and scikit-learn, on the same pixels."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from corrtensor.datasets._places import data_root
from corrtensor.io import open_samples
from corrtensor.tasks import TensorOutlierDetector
from corrtensor.tasks.ranking import rank_samples
from studies.outliers.folders import FOLDERS, Folder, Truth, make_folder
from studies.records import Trial

__all__ = ["NAME", "OURS", "PEERS", "Benchmark", "find_folders"]

NAME, OURS = "outliers", "corrtensor"
Scores = tuple[np.ndarray, np.ndarray]


def pyod(module: str, name: str, X: np.ndarray, seed: int) -> Scores:
    """Return the scores and the flags of a detector of PyOD at its defaults."""
    from importlib import import_module

    made = getattr(import_module(f"pyod.models.{module}"), name)
    options = {"random_state": seed} if name == "IForest" else {}
    model = made(**options).fit(X)
    return np.asarray(model.decision_scores_), np.asarray(model.labels_) == 1


def sklearn(name: str, X: np.ndarray, seed: int) -> Scores:
    """Return the same of one of scikit-learn."""
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.svm import OneClassSVM

    if name == "LocalOutlierFactor":
        near = LocalOutlierFactor()
        flags = near.fit_predict(X) == -1
        return -near.negative_outlier_factor_, flags
    made = {"IsolationForest": IsolationForest(random_state=seed), "OneClassSVM": OneClassSVM()}
    model = made[name].fit(X)
    return -model.score_samples(X), model.predict(X) == -1


PEERS: dict[str, Callable[[np.ndarray, int], Scores]] = {
    "PyOD LOF": partial(pyod, "lof", "LOF"),
    "PyOD KNN": partial(pyod, "knn", "KNN"),
    "PyOD ECOD": partial(pyod, "ecod", "ECOD"),
    "PyOD IForest": partial(pyod, "iforest", "IForest"),
    "sklearn LocalOutlierFactor": partial(sklearn, "LocalOutlierFactor"),
    "sklearn IsolationForest": partial(sklearn, "IsolationForest"),
    "sklearn OneClassSVM": partial(sklearn, "OneClassSVM"),
}


@dataclass(frozen=True)
class Opened:
    """A folder as it was read, and the truth about it."""

    pixels: np.ndarray
    names: tuple[str, ...]
    skipped: tuple[str, ...]
    truth: Truth

    @property
    def bad(self) -> np.ndarray:
        """Which of the samples are damaged."""
        return np.array([name in self.truth.kinds for name in self.names])


@lru_cache(2)
def opened(folder: Folder, seed: int, damage: bool, place: Path | None) -> Opened:
    """Write a folder, read it as the command line does, and forget the files."""
    with tempfile.TemporaryDirectory() as where:
        truth = make_folder(Path(where), folder, seed, place, damage=damage)
        stack = open_samples(where)
        assert stack.names is not None  # noqa: S101
        skipped = tuple(entry.name for entry in stack.skipped)
        return Opened(stack[:], stack.names, skipped, truth)


def find_folders(place: Path | None) -> tuple[tuple[Folder, ...], list[str]]:
    """Return the folders whose sets are there, and the names of the others."""
    root = data_root(place)
    found = [f for f in FOLDERS if all((root / name).is_file() for name, _ in f.sets)]
    return tuple(found), [f.name for f in FOLDERS if f not in found]


def quality(scores: np.ndarray, flags: np.ndarray, one: Opened) -> dict[str, Any]:
    """Return how well damaged samples are ranked and flagged."""
    bad, k = one.bad, int(one.bad.sum())
    result: dict[str, Any] = {
        "n_samples": len(bad),
        "n_bad": k,
        "flagged": int(flags.sum()),
        "false_alarms": float(flags[~bad].mean()),
    }
    if not k:
        return result
    first = np.argsort(-scores, kind="stable")[:k]
    kinds = np.array([one.truth.kinds.get(name, "") for name in one.names])
    return {
        **result,
        "auc": float(roc_auc_score(bad, scores)),
        "on_top": int(bad[first].sum()),
        "found": int(flags[bad].sum()),
        "found_of_kind": {
            kind: int(flags[kinds == kind].sum()) for kind in sorted(set(kinds.tolist()) - {""})
        },
    }


@dataclass(frozen=True)
class Benchmark:
    """All folders, all methods; clean folders for ours alone."""

    folders: tuple[Folder, ...] = FOLDERS
    place: Path | None = None
    name: str = NAME

    def trials(self, n: int) -> list[Trial]:
        """Return what is to be measured."""
        return [
            Trial(NAME, {"folder": f.name, "damage": damage}, method, {}, seed)
            for f in self.folders
            for seed in range(n)
            for damage in (True, False)
            for method in (OURS, *(PEERS if damage else ()))
        ]

    def measure(self, trial: Trial) -> Mapping[str, Any]:
        """Return the numbers of one trial."""
        folder = next(f for f in self.folders if f.name == trial.case["folder"])
        one = opened(folder, trial.seed, trial.case["damage"], self.place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if trial.method != OURS:
                pixels = one.pixels.reshape(len(one.pixels), -1) / 255.0
                return quality(*PEERS[trial.method](pixels, trial.seed), one)
            detector = TensorOutlierDetector().fit(one.pixels)
            ranking = rank_samples(detector, one.pixels)
        wanted = {frozenset(pair) for pair in one.truth.copies}
        groups = {frozenset(one.names[i] for i in g) for g in ranking.duplicates.groups}
        return {
            **quality(ranking.scores, ranking.flagged, one),
            "copies": len(wanted),
            "copies_found": len(groups & wanted),
            "copies_invented": len(groups - wanted),
            "broken_skipped": sorted(one.skipped) == sorted(one.truth.broken),
        }
