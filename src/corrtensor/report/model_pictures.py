"""The pictures of a model on a report page: mean, factors, reconstructions at growing ranks.

Within a mode the columns of a factor come by falling eigenvalue, so that the first of them are
the smaller subspace to look at; nothing is fitted again.
"""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from corrtensor._engine.products import expand
from corrtensor.report.pictures import as_bytes, data_uri, diverging, line, shrink, times
from corrtensor.report.survey import Survey

MEAN_SIDE, BASIS_SIDE, FACTOR_SIDE, SIDE = 192, 96, 240, 112
# So many basis pictures are shown; of each mode only the first few directions enter them.
BASIS, REACH = 12, 4
STEPS = 12
# So many unusual samples and as many ordinary ones are shown.
OF_EACH = 4


def mean_picture(found: Survey) -> str | None:
    """Return the mean as a picture."""
    mean = found.subspace.mean
    if not mean.any():
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


def factor_pictures(found: Survey) -> dict[str, Any]:
    """Return basis pictures and the factors themselves."""
    factors = found.subspace.factors
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


def rank_steps(
    core_shape: tuple[int, ...], free: Sequence[bool], most: int = STEPS
) -> list[tuple[int, ...]]:
    """Return growing ranks up to the core's shape; modes that are not projected (``free``) stay so.

    Examples
    --------
    >>> from corrtensor.report.model_pictures import rank_steps
    >>> rank_steps((4, 2), [False, False])
    [(1, 1), (2, 1), (3, 2), (4, 2)]
    """
    largest = max((k for k, whole in zip(core_shape, free, strict=True) if not whole), default=1)
    steps = np.unique(np.geomspace(1, largest, most).round().astype(int)).tolist()
    return [
        tuple(
            k if whole else math.ceil(k * step / largest)
            for k, whole in zip(core_shape, free, strict=True)
        )
        for step in steps
    ]


def leading(cores: np.ndarray, ranks: tuple[int, ...]) -> np.ndarray:
    """Return cores with all but their leading part set to zero."""
    part = (slice(None), *(slice(k) for k in ranks))
    kept = np.zeros_like(cores)
    kept[part] = cores[part]
    return kept


def ordinary_and_unusual(order: np.ndarray, of_each: int = OF_EACH) -> np.ndarray:
    """Return a few samples from the front of ``order``, the unusual ones, and ordinary ones."""
    odd = order[: min(of_each, len(order) // 2)]
    rest = order[len(odd) :]
    # Between the median and the most ordinary: samples that stand for the others.
    places = np.unique(np.linspace(len(rest) // 2, len(rest) - 1, of_each).astype(int))
    return np.concatenate([odd, rest[places]])


def rank_ladder(found: Survey, names: Sequence[str]) -> dict[str, Any]:
    """Return the pictures behind the slider over ranks."""
    free = [U is None for U in found.subspace.factors]
    steps = rank_steps(found.subspace.core_shape, free)
    chosen = ordinary_and_unusual(found.order)
    samples = []
    for i in chosen.tolist():
        x = found.source.take(np.array([i]))
        cores, limits = found.subspace.cores(x), found.painter.limits_for(x[0])
        made = (found.subspace.back(leading(cores, ranks))[0] for ranks in steps)
        samples.append(
            {
                "name": names[i],
                "unusual": bool(found.distances.unusual[i] > 1),
                "picture": data_uri(found.painter.sample(x[0], limits, SIDE)),
                "made": [data_uri(found.painter.sample(y, limits, SIDE)) for y in made],
            }
        )
    explained = [float(leading(found.core_energy[None], ranks).sum()) for ranks in steps]
    return {
        "steps": [times(ranks) for ranks in steps],
        "explained": [100 * e / found.energy if found.energy else 0.0 for e in explained],
        "samples": samples,
    }
