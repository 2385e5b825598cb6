"""Density peaks: where clusters begin (Rodriguez and Laio, Science 344, 2014).

Two numbers for every sample: its density rho, and its distance delta from the nearest denser
sample. Centres of clusters have both large. Distances are formed block by block, so that memory
grows with the number of samples, not with its square.
"""

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import pairwise_distances_chunked
from sklearn.metrics.pairwise import euclidean_distances

# Megabytes of distances held at a time.
BLOCK_MB = 64
# The cut-off distance is read off the pairs of at most so many samples.
PILOTS = 2000


@dataclass(frozen=True)
class DecisionGraph:
    """The two numbers of every sample, and who was chosen by them.

    Parameters
    ----------
    rho : ndarray of shape (n_samples,)
        Density: the sum over the samples of ``w_j exp(-(d_ij / cutoff)**2)``, itself included.
    delta : ndarray of shape (n_samples,)
        Distance from the nearest denser sample that counts; for the densest, the largest
        distance from any.
    chosen : ndarray of int of shape (n_clusters,)
        The samples with the largest ``rho * delta`` among those that count.
    cutoff : float
        The distance within which samples are neighbours.
    """

    rho: np.ndarray
    delta: np.ndarray
    chosen: np.ndarray
    cutoff: float


def cutoff_distance(
    vectors: np.ndarray, weights: np.ndarray, share: float, random: np.random.RandomState
) -> float:
    """Return the distance within which a share of all pairs of samples lie.

    A pair counts by the product of its weights, and a sample is a pair with itself: k copies of
    a sample are the same as one of weight k. Beyond ``PILOTS`` samples, that many are drawn.
    """
    if len(vectors) > PILOTS:
        drawn = random.choice(len(vectors), PILOTS, replace=False)
        vectors, weights = vectors[drawn], weights[drawn]
    d = euclidean_distances(vectors)
    np.fill_diagonal(d, 0.0)
    order = np.argsort(d, axis=None)
    cumulated = np.cumsum(np.outer(weights, weights).ravel()[order])
    place = np.searchsorted(cumulated, share * cumulated[-1] * (1 - 1e-12))
    found = float(d.ravel()[order[min(place, len(order) - 1)]])
    if found > 0:
        return found
    return float(np.min(d, initial=np.inf, where=d > 0)) if d.any() else 1.0


def decision_graph(
    vectors: np.ndarray, weights: np.ndarray, counts: np.ndarray, n_chosen: int, cutoff: float
) -> DecisionGraph:
    """Return density and distance of every sample, and the centres they suggest.

    ``counts`` tells which samples may be a centre or the denser neighbour of another.
    """

    def densities(d: np.ndarray, start: int) -> np.ndarray:
        # In place: the block of distances is all that is held.
        d /= cutoff
        np.square(d, out=d)
        np.negative(d, out=d)
        return np.exp(d, out=d) @ weights

    blocks = pairwise_distances_chunked(vectors, reduce_func=densities, working_memory=BLOCK_MB)
    rho = np.concatenate(list(blocks))
    # Equally dense samples are denser the earlier they come.
    rank = np.empty(len(rho), dtype=int)
    rank[np.argsort(-rho, kind="stable")] = np.arange(len(rho))

    def nearest(d: np.ndarray, start: int) -> np.ndarray:
        farthest = np.max(d, axis=1, where=counts, initial=0.0)
        denser = counts & (rank < rank[start : start + len(d), None])
        found = np.min(d, axis=1, where=denser, initial=np.inf)
        return np.where(np.isfinite(found), found, farthest)

    blocks = pairwise_distances_chunked(vectors, reduce_func=nearest, working_memory=BLOCK_MB)
    delta = np.concatenate(list(blocks))
    gamma = np.where(counts, rho * delta, -1.0)
    # Copies of one sample have delta 0 but for the first: they come last, the densest first.
    chosen = np.lexsort((rank, -gamma))[:n_chosen]
    return DecisionGraph(rho, delta, chosen, cutoff)
