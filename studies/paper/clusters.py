"""Table III and Fig. 9 to 11: clusters of faces, in subspaces learned with noise images."""

from __future__ import annotations

import json
import warnings
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import SpectralClustering

from corrtensor.corr_tensor import CorrTensor
from corrtensor.metrics import clustering_accuracy, normalized_mutual_info
from corrtensor.tasks import DensityPeaksKMeans
from studies.paper.images import PIXELS, UNIT, UNIT_ALL, find, load, stands_in, unit_norm
from studies.paper.pixels import pack
from studies.paper.similarity import similarity_matrix
from studies.paper.study import Cell, Folder, Study, grid
from studies.paper.subspaces import KEPT, RIVALS, build, printed, ranks_for, rival
from studies.records import Trial

__all__ = ["cluster", "studies"]

GOOD, ALL = "images", "images and noise"
N_NOISE, N_CLUSTERS = 20, 10
# Rodriguez and Laio's advice: a neighbourhood holds 1 to 2 % of the samples.
CUTOFF = 0.02
OURS, OURS_MEANS = "ours", "ours, K-means"
# People outside the table, on whom the clustering of ours was chosen.
OTHERS = ("ORL people 11 to 20", "ORL people 21 to 30", "ORL people 31 to 40")

NPCS = {"ORL 10 people": (10, 30, 50, 70), "MNIST 10 each": (5, 10, 15, 20)}
ALPHAS, BETA = (2, 4, 6, 7), 0.7
CURVE_ALPHAS = (1, 2, 4, 6, 8, 12)
CURVE_BETAS = (0.2, 0.5, 0.7, 1.0, 2.0, 4.0)
DIGITS = 5


@lru_cache(maxsize=4)
def spoiled(data: str, folder: Folder, units: str, seed: int) -> np.ndarray:
    """Return the images, and after them noise."""
    images = load(data, folder)[0]
    noise = np.random.default_rng(seed).uniform(0, 1, (N_NOISE, *images.shape[1:]))
    images = images if units == PIXELS else unit_norm(images)
    return np.concatenate([images, unit_norm(noise) if units == UNIT_ALL else noise])


@lru_cache(maxsize=4)
def fitted(settings: str, data: str, folder: Folder, units: str, seed: int) -> Any:
    """Fit a subspace; trials in a row that differ in the clustering share it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(json.loads(settings)).fit(spoiled(data, folder, units, seed))


def cluster(trial: Trial, folder: Folder) -> dict[str, Any]:
    """Return accuracy and NMI of the clusters of the good images."""
    settings, data = trial.parameters, trial.case["data"]
    labels = load(data, folder)[1]
    n = len(labels)
    key = data, folder, settings["units"], trial.seed
    X = spoiled(*key)
    subspace, weights = settings["subspace"], None
    if trial.method.startswith(OURS):
        # Who is bad is asked once, at the default ranks; the cores come from the others.
        default = {"name": "Corr-Tensor", "ranks": CorrTensor().ranks}
        weights = (fitted(json.dumps(default), *key).weights_ >= KEPT).astype(float)
        model = build(subspace).fit(X, sample_weight=weights)
    else:
        model = fitted(json.dumps(subspace, sort_keys=True), *key)
    cores = np.asarray(model.transform(X))
    if settings["clustered"] == GOOD:
        cores, weights = cores[:n], None if weights is None else weights[:n]
    result: dict[str, Any] = {}
    with warnings.catch_warnings():
        # Where noise rules, there are fewer distinct centres than clusters.
        warnings.simplefilter("ignore")
        if "neighbours" in settings:
            assert weights is not None  # noqa: S101
            found = by_neighbours(cores, weights > 0, trial.seed)[:n]
        else:
            means = DensityPeaksKMeans(N_CLUSTERS, random_state=trial.seed, **settings["means"])
            found = means.fit(cores, sample_weight=weights).labels_[:n]
    result["accuracy"] = clustering_accuracy(labels, found)
    result["nmi"] = normalized_mutual_info(labels, found)
    if trial.experiment == "fig9":
        graph = means.decision_graph_
        result["rho"] = graph.rho[:n].round(DIGITS).tolist()
        result["delta"] = graph.delta[:n].round(DIGITS).tolist()
        result["chosen"] = [int(i) for i in graph.chosen if i < n]
    if trial.experiment == "fig10":
        similarity, order = similarity_matrix(cores[:n], found)
        result["similarity"] = pack(similarity)
        result["true"] = labels[order].tolist()
        result["found"] = found[order].tolist()
    return result


def by_neighbours(cores: np.ndarray, kept: np.ndarray, seed: int) -> np.ndarray:
    """Cut the graph of nearest neighbours among the kept cores; others join their nearest."""
    rows = cores.reshape(len(cores), -1)
    cut = SpectralClustering(N_CLUSTERS, affinity="nearest_neighbors", random_state=seed)
    found = cut.fit_predict(rows[kept])
    return np.asarray(found[cdist(rows, rows[kept]).argmin(axis=1)])


def clustering(
    subspace: dict[str, Any],
    units: str = PIXELS,
    clustered: str = GOOD,
    cutoff: str | float = CUTOFF,
    n_init: int = 0,
) -> dict[str, Any]:
    """Return the paper's clustering in one reading: K-means from density peaks alone."""
    means = {"cutoff": cutoff, "n_init": n_init}
    return {"subspace": subspace, "units": units, "clustered": clustered, "means": means}


def proposed(alpha: float, beta: float = BETA) -> str:
    """Return the name of a row of the paper."""
    return f"alpha={alpha:g}, beta={beta:g}"


def rows(npc: int) -> dict[str, dict[str, Any]]:
    """Return the rows of Table III at one number of components."""
    return {
        **{name: clustering(rival(name, npc)) for name in RIVALS},
        **{proposed(a): clustering(printed(npc, a, BETA)) for a in ALPHAS},
        **ours(npc),
    }


def ours(npc: int) -> dict[str, dict[str, Any]]:
    """Return our rows: cores of the good images, two ways to cluster them."""
    subspace = {"name": "MPCA", "ranks": ranks_for(npc)}
    means = clustering(subspace, clustered=ALL, cutoff="auto", n_init=200)
    graph = {name: value for name, value in means.items() if name != "means"}
    return {OURS: {**graph, "neighbours": "scikit-learn's default"}, OURS_MEANS: means}


def studies(folder: Folder = None) -> list[Study]:
    """Return Table III, Fig. 9 to 11 and the readings on the data that can be had."""
    data = find("ORL 10 people", folder)
    npcs = NPCS[data]
    third = npcs[2]
    table = tuple(cell for npc in npcs for cell in grid([{"data": data, "npc": npc}], rows(npc)))
    case = {"data": data, "npc": third}
    shown = {
        **{name: clustering(rival(name, third)) for name in RIVALS},
        **{proposed(a): clustering(printed(third, a, BETA)) for a in (2, 6)},
        OURS_MEANS: ours(third)[OURS_MEANS],
    }
    others = OTHERS if data == "ORL 10 people" else (data,)
    choice = [
        cell
        for npc in npcs
        for other in others
        for cell in grid([{"data": other, "npc": npc}], ours(npc))
    ]
    curves = {
        f"{proposed(a, b)}, {units}": clustering(printed(third, a, b), units)
        for units in (PIXELS, UNIT)
        for a, b in (*((a, BETA) for a in CURVE_ALPHAS), *((6, b) for b in CURVE_BETAS))
    }
    tried = [
        Cell({"data": data, "npc": npc}, name, clustering(subspace, units, clustered, cutoff))
        for units, npc in product((PIXELS, UNIT_ALL, UNIT), (npcs[0], npcs[2]))
        for name, subspace in (
            *((name, rival(name, npc)) for name in ("2DPCA", "2DSVD", "R1-2DSVD")),
            *((proposed(a), printed(npc, a, BETA)) for a in (2, 6)),
        )
        for clustered in (GOOD, ALL)
        for cutoff in (CUTOFF, "auto")
    ]
    return [
        Study("table3", cluster, table, repeats=1 if stands_in(data) else 3, folder=folder),
        Study("fig9", cluster, grid([case], shown), folder=folder),
        Study("fig10", cluster, grid([case], shown), folder=folder),
        Study("fig11", cluster, grid([case], curves), folder=folder),
        Study("readings3", cluster, tuple(tried), folder=folder, shuffled=False),
        Study("choice3", cluster, tuple(choice), folder=folder),
    ]
