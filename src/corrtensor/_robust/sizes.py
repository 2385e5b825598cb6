"""How far samples are from the middle of all, before anything is known of how they vary.

See ``docs/method.md``, section 6.
"""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from corrtensor._engine.arrays.origin import PILOT_BYTES, choose_pilots, middle
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import LARGEST_SQUARE, EachPass, RawPass
from corrtensor._engine.products import row_squares
from corrtensor._robust.verdict import SMALLEST, Verdict
from corrtensor.losses.scale import EDGE_MOST

# The order of so many samples decides nothing.
ORDERLESS = 2000
# Steps towards the middle of few samples (Weiszfeld): each takes a far one's pull down by as many
# times as there are others.
WEISZFELD = 20
# So many gross samples are a group, for the search to judge.
GROUP = 20
# Bytes measured at a time.
CACHED = 1 << 20


def squares_from(place: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the squared distances of a block from a place; a few at a time, for the cache."""
    step = max(1, CACHED // place.nbytes)
    away, d = np.empty(len(x)), np.empty_like(x[:step])
    with np.errstate(over="ignore", invalid="ignore"):
        for i in range(0, len(x), step):
            some = x[i : i + step]
            away[i : i + step] = row_squares(np.subtract(some, place, out=d[: len(some)]))
    return away


def distances_from(place: np.ndarray, source: Source) -> np.ndarray:
    """Return the squared distances of all samples from a place."""
    place = ((place - source.origin) / source.unit).astype(source.dtype)
    return np.concatenate(source.reduce(EachPass(partial(squares_from, place))).squares)


def rough_distances(source: Source) -> np.ndarray:
    """Return the squared distances from about the median of samples: that of some.

    Those of up to some thousands are spread evenly by how far they are from the mean, so that the
    order of the samples decides nothing; of more, which takes two reads less, by their places.
    """
    n = source.n_samples
    some = choose_pilots(n, source.sample_shape)
    if n <= ORDERLESS:
        mean = np.asarray(source.reduce(RawPass(())).sums.first) / n
        away = distances_from(source.origin + source.unit * mean, source)
        some = np.argsort(away, kind="stable")[some]
    rows = source.take(some)
    # A little off, where symmetry puts no two different samples at one distance.
    return distances_from(0.999 * middle(rows) + 0.001 * rows[0], source)


def spatial_median(x: np.ndarray) -> np.ndarray:
    """Return the place of the least sum of distances, which a minority moves but little.

    It turns with the samples. By way of their products: a sum of samples, by their shares.
    """
    near = middle(x)
    x = (x - near).reshape(len(x), -1).astype(np.float64)
    products, share = x @ x.T, np.full(len(x), 1 / len(x))
    for _ in range(WEISZFELD):
        along = products @ share
        away = np.sqrt(np.maximum(np.diag(products) - 2 * along + share @ along, 0))
        w = 1 / np.maximum(away, 1e-3 * np.median(away) + SMALLEST)
        share = w / w.sum()
    return np.asarray(near + (share @ x).reshape(near.shape))


def with_sizes(
    verdict: Verdict, source: Source, away: np.ndarray, drawn: np.ndarray, few: bool, share: float
) -> Verdict:
    """Tell of samples what their sizes say: which are gross, and how few ones say where to begin.

    Sizes are squared distances from the middle, in typical ones. ``share`` is the largest one of
    the samples drawn that may be gross.
    """
    if few:
        rising = drawn[np.argsort(away[drawn], kind="stable")]
        # Of huge samples as many as fit into memory.
        most = max(4, PILOT_BYTES // (8 * math.prod(source.sample_shape)))
        places = np.linspace(0, len(rising) - 1, min(len(rising), most)).astype(int)
        away = distances_from(spatial_median(source.take(rising[places])), source)
    # Of two, the larger one.
    typical = float(np.partition(away[drawn], len(drawn) // 2)[len(drawn) // 2])
    with np.errstate(over="ignore"):
        sizes = np.fmin(away / max(typical, SMALLEST), LARGEST_SQUARE)
    gross = sizes > EDGE_MOST
    count = np.count_nonzero(gross[drawn])
    # So many are a group, for which the search has better evidence.
    if count > share * len(drawn) or (not few and count >= GROUP):
        gross = np.zeros_like(gross)
    pull = np.where(gross, 0.0, 1 / np.maximum(sizes, 1.0)) if few else None
    return replace(verdict, sizes=sizes, gross=gross, pull=pull)
