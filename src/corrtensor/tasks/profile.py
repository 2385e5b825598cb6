"""How unlike the others a sample is, by its profile rather than by its residual alone.

A residual tells what the subspace cannot explain. Half of a face, a smooth thing that is no face, a
picture out of focus may all be explained, and yet be unlike the rest. Three things are measured of
every sample, each held against a robust normal distribution of the others:

texture
    the logarithm of the energy in every shell of directions: in each mode the leading one, then
    the next three, the next twelve, and so on; all combinations of the modes' shells;
place
    the leading principal components of the cores;
likeness
    the correlation with the few most similar others, of which only too little is odd.

Each is brought to robust standard deviations above its median; what lies above adds up in squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.covariance import ledoit_wolf

from corrtensor._engine.arrays.source import Source
from corrtensor._engine.large_modes import LARGE
from corrtensor._engine.shapes import check_finite, is_on_disk

# Shells of a mode end at 1, 4, 16, 64, ...
RATIO = 4
# Principal components of the cores, and samples needed for each.
COMPONENTS, SAMPLES_EACH = 10, 10
# Samples that the components are learned from, and bytes of samples on disk read at a time.
DRAWN, BLOCK_BYTES = 2000, 1 << 25
# Shares of the samples that each round learns from: first only what is surely good.
KEPT = (0.75, 0.75, 0.75, 0.9)
# Others that a sample is compared with, and the bytes they may take; and how many are the nearest.
REFERENCES, REFERENCE_BYTES, FEWEST_REFERENCES, NEAREST = 500, 1 << 26, 20, 5
# A correlation above this is that of a sample with itself, or with a copy.
ITSELF = 1 - 1e-5
SIGMA_PER_MEDIAN = 1.4826
# Beside a typical energy, less than this is nothing.
RELATIVE_FLOOR = 1e-2
SMALLEST = 1e-12


def above(values: np.ndarray, location: float, scale: float) -> np.ndarray:
    """Return by how many scales values exceed a location; zero where they do not."""
    return np.maximum((values - location) / scale, 0.0)


def spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the median and a robust standard deviation, which is not zero."""
    median = np.median(values, axis=0)
    sigma = SIGMA_PER_MEDIAN * np.median(np.abs(values - median), axis=0)
    sigma = np.where(sigma > 0, sigma, np.abs(values - median).mean(axis=0))
    return median, np.where(sigma > 0, sigma, 1.0)


@dataclass(frozen=True)
class Normal:
    """A robust normal distribution of some features, and the distances usual under it."""

    center: np.ndarray
    unit: np.ndarray
    mean: np.ndarray
    precision: np.ndarray
    location: float = 0.0
    scale: float = 1.0

    def log_distance(self, F: np.ndarray) -> np.ndarray:
        """Return the logarithm of each sample's squared Mahalanobis distance."""
        z = (F - self.center) / self.unit - self.mean
        return np.log(np.maximum(np.einsum("ij,jk,ik->i", z, self.precision, z), SMALLEST))

    def excess(self, F: np.ndarray) -> np.ndarray:
        """Return by how much each sample is farther away than usual, in standard deviations."""
        return above(self.log_distance(F), self.location, self.scale)


def fit_normal(F: np.ndarray) -> Normal:
    """Learn a normal distribution from the samples that agree, round by round."""
    center, unit = spread(F)
    z = (F - center) / unit
    kept = np.ones(len(F), dtype=bool)
    for share in KEPT:
        mean = z[kept].mean(axis=0)
        shrunk = ledoit_wolf(z[kept] - mean, assume_centered=True)[0]
        # One feature comes without a matrix; features that never vary leave it singular.
        covariance = np.atleast_2d(shrunk) + SMALLEST * np.eye(z.shape[1])
        normal = Normal(center, unit, mean, np.linalg.pinv(covariance, hermitian=True))
        distance = normal.log_distance(F)
        kept = distance <= np.quantile(distance, share)
    location, scale = spread(distance)
    return Normal(center, unit, mean, normal.precision, float(location), float(scale))


@dataclass(frozen=True)
class Profile:
    """What is usual among samples: directions, energies, components, and some of them."""

    mean: np.ndarray
    bases: tuple[np.ndarray | None, ...]
    floor: np.ndarray
    components: np.ndarray
    references: np.ndarray
    texture: Normal
    place: Normal
    likeness: tuple[float, float]

    def score(self, subspace: Any, X: Any) -> np.ndarray:
        """Return how unlike the usual each sample is; about 1 is nothing special."""
        place = self.place.excess(places(subspace, X, self.components))
        X = as_samples(subspace, X)
        energies, similar, references = [], [], self.references.astype(np.float64)
        for _, _, x in centred_blocks(X, self.mean):
            energies.append(shell_energies(x, self.bases))
            similar.append(similarity(x + self.mean, references))
        parts = (
            self.texture.excess(np.log(np.concatenate(energies) + self.floor)),
            place,
            above(-np.concatenate(similar), -self.likeness[0], self.likeness[1]),
        )
        return np.sqrt(sum(np.square(part) for part in parts))


def fit_profile(subspace: Any, X: Any, weights: np.ndarray | None) -> Profile:
    """Learn the profile of samples, which count by their weights in the subspace."""
    n = int(X.shape[0]) if is_on_disk(X) else len(np.asarray(X))
    w = np.ones(n) if weights is None else weights
    components = leading_components(subspace, X, w)
    where = places(subspace, X, components)
    X = as_samples(subspace, X)
    mean = weighted_mean(X, w)
    bases = directions(X, mean, w)
    energies = np.concatenate([shell_energies(x, bases) for _, _, x in centred_blocks(X, mean)])
    floor = RELATIVE_FLOOR * np.median(energies, axis=0) + np.finfo(float).tiny
    logs = np.log(energies + floor)
    texture, place = fit_normal(logs), fit_normal(where)
    odd = np.square(texture.excess(logs)) + np.square(place.excess(where))
    references = choose_references(X, np.flatnonzero(odd <= np.quantile(odd, KEPT[0])))
    blocks, exact = centred_blocks(X, None), references.astype(np.float64)
    location, scale = spread(np.concatenate([similarity(x, exact) for _, _, x in blocks]))
    usual = float(location), float(scale)
    return Profile(mean, bases, floor, components, references, texture, place, usual)


def normalised(x: np.ndarray) -> np.ndarray:
    """Return samples as vectors of mean zero and norm one; constant ones become zero."""
    flat = x.reshape(len(x), math.prod(x.shape[1:]))
    flat = flat - flat.mean(axis=1, keepdims=True)
    largest = np.abs(flat).max(axis=1, keepdims=True)
    flat /= np.where(largest > 0, largest, 1)
    norms = np.linalg.norm(flat, axis=1, keepdims=True)
    return flat / np.where(norms > 0, norms, 1)


def choose_references(X: Any, usual: np.ndarray) -> np.ndarray:
    """Return some of the usual samples, normalised."""
    each = 4 * math.prod(X.shape[1:])
    count = min(REFERENCES, len(usual), max(FEWEST_REFERENCES, REFERENCE_BYTES // each))
    chosen = usual[np.linspace(0, len(usual) - 1, count).astype(int)]
    rows = [
        normalised(x[chosen[(chosen >= lo) & (chosen < hi)] - lo]).astype(np.float32)
        for lo, hi, x in centred_blocks(X, None)
    ]
    return np.concatenate(rows)


def similarity(x: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Return the mean correlation with the most similar others, stretched as Fisher does.

    In double precision: in single, a score would show which samples it was computed beside.
    """
    correlations = normalised(x) @ references.T
    correlations[correlations > ITSELF] = -1.0
    nearest = min(NEAREST, references.shape[0])
    best = np.partition(correlations, -nearest, axis=1)[:, -nearest:].mean(axis=1)
    return np.arctanh(np.clip(best, -0.99, 0.99))


def core_blocks(subspace: Any, X: Any) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the cores as vectors: in one block, or in many if the samples are on disk."""
    on_disk = is_on_disk(X)
    count = int(X.shape[0]) if on_disk else 1
    step = max(1, BLOCK_BYTES // (8 * math.prod(X.shape[1:]))) if on_disk else 1
    for lo in range(0, count, step):
        rows = np.asarray(X[lo : lo + step]) if on_disk else X
        cores = np.asarray(subspace.transform(rows), dtype=float)
        yield lo, lo + len(cores), cores.reshape(len(cores), -1)


def leading_components(subspace: Any, X: Any, w: np.ndarray) -> np.ndarray:
    """Return the principal directions of the cores, learned from some of the samples."""
    drawn = np.unique(np.linspace(0, len(w) - 1, min(len(w), DRAWN)).astype(int))
    drawn = drawn[w[drawn] > 0]
    cores = np.concatenate(
        [c[drawn[(drawn >= lo) & (drawn < hi)] - lo] for lo, hi, c in core_blocks(subspace, X)]
    )
    count = min(COMPONENTS, max(1, len(w) // SAMPLES_EACH), cores.shape[1])
    centred = cores - np.average(cores, axis=0, weights=w[drawn])
    return np.linalg.svd(centred * np.sqrt(w[drawn])[:, None], full_matrices=False)[2][:count].T


def places(subspace: Any, X: Any, components: np.ndarray) -> np.ndarray:
    """Return where the samples lie along the leading components of their cores."""
    return np.concatenate([cores @ components for _, _, cores in core_blocks(subspace, X)])


def as_samples(subspace: Any, X: Any) -> Any:
    """Return samples that the subspace has checked in their own shape."""
    if is_on_disk(X):
        return X
    X = np.asarray(X)
    X = X.astype(np.float64) if X.dtype == object else X
    if X.dtype.kind == "f" and np.isnan(X.sum()) and hasattr(subspace, "repair"):
        X = subspace.repair(X)
    return X.reshape(len(X), *getattr(subspace, "sample_shape_", X.shape[1:]))


def centred_blocks(X: Any, mean: np.ndarray | None) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield blocks of samples, less the mean."""
    origin = np.zeros(X.shape[1:]) if mean is None else mean
    source = Source(X, origin=origin, unit=1.0)
    for lo, hi, x in source.blocks(0, source.n_samples):
        check_finite(x, first=lo)
        yield lo, hi, x.astype(np.float64, copy=False)


def weighted_mean(X: Any, w: np.ndarray) -> np.ndarray:
    """Return the mean of the samples by their weights."""
    total = sum(np.tensordot(w[lo:hi], x, 1) for lo, hi, x in centred_blocks(X, None))
    return np.asarray(total) / w.sum()


def directions(X: Any, mean: np.ndarray, w: np.ndarray) -> tuple[np.ndarray | None, ...]:
    """Return all directions of every mode by falling energy; ``None`` for a mode too large."""
    scatters = [np.zeros((a, a)) if a <= LARGE else None for a in mean.shape]
    for lo, hi, x in centred_blocks(X, mean):
        x = x * np.sqrt(w[lo:hi]).reshape(-1, *[1] * mean.ndim)
        for mode, S in enumerate(scatters):
            if S is not None:
                rows = np.moveaxis(x, mode + 1, 0).reshape(len(S), -1)
                S += rows @ rows.T
    return tuple(None if S is None else np.linalg.eigh(S)[1][:, ::-1].copy() for S in scatters)


def shell_energies(x: np.ndarray, bases: tuple[np.ndarray | None, ...]) -> np.ndarray:
    """Return the mean square of the coefficients in each combination of shells."""
    for mode, U in enumerate(bases, start=1):
        if U is not None:
            x = np.moveaxis(np.tensordot(x, U, axes=(mode, 0)), -1, mode)
    energy = np.square(x)
    for mode, U in enumerate(bases, start=1):
        size = energy.shape[mode]
        starts = [lo for lo, _ in pairwise(shells(size))] if U is not None else [0]
        counts = np.diff([*starts, size]).reshape(-1, *[1] * (energy.ndim - mode - 1))
        energy = np.add.reduceat(energy, starts, axis=mode) / counts
    return energy.reshape(len(x), -1)


def shells(size: int) -> list[int]:
    """Return where the shells of a mode end, beginning with 0."""
    edges = [0, 1]
    while edges[-1] < size:
        edges.append(min(size, edges[-1] * RATIO))
    return edges if size > 0 else [0]
