"""The pictures of a model on a report page: mean, factors, centres of clusters."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from corrtensor._engine.products import expand
from corrtensor.report.pictures import as_bytes, diverging
from corrtensor.report.samples_seen import Survey
from corrtensor.report.thumbnails import data_uri, line, shrink

MEAN_SIDE, BASIS_SIDE, FACTOR_SIDE = 192, 96, 240
# So many basis pictures, members of a cluster, and clusters are shown.
BASIS, MEMBERS, MOST_CLUSTERS = 12, 6, 60
# Of each mode only the first few directions enter basis pictures.
REACH = 4


def mean_picture(found: Survey) -> str | None:
    """Return the mean as a picture."""
    mean = found.subspace.mean
    if mean is None or not mean.any():
        return None
    return data_uri(found.painter.sample(mean, found.painter.limits_for(mean), MEAN_SIDE))


def signed(tensor: np.ndarray, found: Survey, side: int) -> str:
    """Return a tensor around zero as a picture: blue below, vermilion above."""
    view = found.painter.view
    largest = float(np.abs(tensor).max()) or 1.0
    if view.kind == "line":
        return data_uri(line((tensor / largest + 1) / 2, side))
    if view.kind == "colour":
        return data_uri(shrink(as_bytes(view.picture(tensor), (-largest, largest)), side))
    return data_uri(shrink(diverging(view.picture(tensor)), side))


def basis_order(core_shape: tuple[int, ...], whole: Sequence[bool]) -> list[tuple[int, ...]]:
    """Return the places in a core that are shown: the leading ones first."""
    reach = [1 if w else min(k, REACH) for k, w in zip(core_shape, whole, strict=True)]
    if len(core_shape) == 1:
        reach = [min(core_shape[0], BASIS)]
    places = sorted(product(*(range(k) for k in reach)), key=lambda at: (sum(at), at))
    return places[:BASIS]


def factor_pictures(found: Survey) -> dict[str, Any] | None:
    """Return basis pictures and the factors themselves; ``None`` if the model has none."""
    factors = found.subspace.factors
    if factors is None:
        return None
    whole = [U is None for U in factors]
    # A mode that is not projected has no directions: its even mixture stands for them.
    bases = [
        np.full((a, 1), 1 / math.sqrt(a)) if U is None else U
        for a, U in zip(found.subspace.shape, factors, strict=True)
    ]
    basis = []
    for place in basis_order(found.subspace.core_shape, whole):
        columns = [U[:, [k]] for U, k in zip(bases, place, strict=True)]
        tensor = expand(np.ones((1,) * (len(bases) + 1)), columns)[0]
        words = ", ".join("all" if w else str(k + 1) for k, w in zip(place, whole, strict=True))
        basis.append({"words": words, "picture": signed(tensor, found, BASIS_SIDE)})
    matrices = [
        {
            "mode": n + 1,
            "rows": U.shape[0],
            "columns": U.shape[1],
            "picture": data_uri(shrink(diverging(U), FACTOR_SIDE)),
        }
        for n, U in enumerate(factors)
        if U is not None and len(factors) > 1
    ]
    return {"basis": basis, "matrices": matrices}


def cluster_cards(found: Survey, clusters: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return for every cluster its size, its centre as a picture, and its densest members."""
    if clusters is None:
        return []
    centers = center_samples(found, np.asarray(clusters.cluster_centers_))
    labels = np.asarray(clusters.labels_)
    # Outliers have a label too, but should not stand for a cluster.
    rho = clusters.decision_graph_.rho * getattr(clusters, "weights_", 1.0)
    tile_of = {int(i): k for k, i in enumerate(found.drawn)}
    cards = []
    for c in range(min(len(clusters.cluster_centers_), MOST_CLUSTERS)):
        members = np.flatnonzero(labels == c)
        dense = members[np.argsort(-rho[members], kind="stable")].tolist()
        shown = [i for i in dense if i in tile_of][:MEMBERS]
        cards.append(
            {
                "number": c + 1,
                "size": len(members),
                "center": None if centers is None else paint(found, centers[c]),
                "members": [
                    {"name": names[i], "picture": data_uri(found.tiles[tile_of[i]])} for i in shown
                ],
            }
        )
    return cards


def paint(found: Survey, sample: np.ndarray) -> str:
    """Return a sample as a picture in its range."""
    limits = found.painter.limits_for(sample)
    return data_uri(found.painter.sample(sample, limits, BASIS_SIDE))


def center_samples(found: Survey, centers: np.ndarray) -> np.ndarray | None:
    """Return centres as samples; ``None`` if they are neither cores nor samples."""
    size = math.prod(centers.shape[1:])
    if size == math.prod(found.subspace.core_shape):
        return found.subspace.back(centers.reshape(len(centers), *found.subspace.core_shape))
    if size == math.prod(found.subspace.shape):
        return centers.reshape(len(centers), *found.subspace.shape)
    return None
