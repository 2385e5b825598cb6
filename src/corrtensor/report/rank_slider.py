"""Reconstructions of a few samples at growing ranks: the leading parts of a fitted model's cores.

Within a mode the columns of a factor come by falling eigenvalue, so that the first of them are
the smaller subspace to look at; nothing is fitted again.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from corrtensor.report.pictures import times
from corrtensor.report.samples_seen import Survey
from corrtensor.report.thumbnails import data_uri

STEPS = 12
# So many unusual samples and as many ordinary ones are shown.
OF_EACH = 4
SIDE = 112


def rank_steps(
    core_shape: tuple[int, ...], free: Sequence[bool], most: int = STEPS
) -> list[tuple[int, ...]]:
    """Return growing ranks up to the core's shape; modes that are not projected (``free``) stay so.

    Examples
    --------
    >>> from corrtensor.report.rank_slider import rank_steps
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


def rank_ladder(found: Survey, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the pictures behind the slider over ranks; ``None`` if the model has no such."""
    if not found.subspace.nested or found.subspace.factors is None:
        return None
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
