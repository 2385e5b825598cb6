"""Copies among samples: the same ones, nearly the same, and turned or mirrored ones.

A fingerprint of a sample is a small view of it without its brightness and contrast. Resizing and
compression change its fine detail; what differs between two samples is their large shapes. So
a difference counts by its coarse part: with ``f`` the distance of two fingerprints and ``d`` that
in the leading directions of all, it is ``d**2 / f``: all of it where it is coarse, a sixteenth
where it is noise. What is kept of a sample is 1 kB whatever its size, and each is compared with few
others.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from corrtensor._engine.containers import bare
from corrtensor._engine.shapes import check_nonempty
from corrtensor.tasks.samples import blocks_of
from corrtensor.tasks.views import is_picture, normalised, view

# Sides of the view behind a fingerprint; entries of one of samples that are no pictures.
SIDE, ENTRIES = 16, 256
# How much copies differ at most, as above, and in all. In folders of faces, palms and digits the
# copies came to 0.008 (faces of 112 x 92 to 0.001), different pictures to 0.015. A smaller distance
# than ``LEAST`` counts as that: small pictures that were enlarged have no fine detail.
NEAR, LEAST, FAR = 0.01, 0.05, 0.2
# Their brightness differs by less than this many usual contrasts, and contrast by this factor.
LEVEL, CONTRAST = 0.1, 1.25
# Leading directions, samples these are learned from, how many candidates each sample has, and how
# many samples are compared at a time.
DIRECTIONS, PILOTS, CANDIDATES, BLOCK = 16, 2000, 16, 4096
# Words for the seven other positions of a picture, by turns and whether it is mirrored.
POSITIONS = {
    (1, False): "turned",
    (2, False): "turned",
    (3, False): "turned",
    (0, True): "mirrored",
    (1, True): "mirrored and turned",
    (2, True): "mirrored",
    (3, True): "mirrored and turned",
}


@dataclass(frozen=True)
class Duplicates:
    """Groups of samples that are copies of each other, and twins.

    ``groups`` are numbers of samples, the first of each the one to keep. ``same`` tells of each
    sample whether it equals the first of its group in every entry. ``twins`` are triples of
    a sample, an earlier one, and how it was turned.
    """

    groups: tuple[tuple[int, ...], ...]
    same: np.ndarray
    twins: tuple[tuple[int, int, str], ...]

    def words(self, names: Sequence[str]) -> dict[int, str]:
        """Return in words of which other each sample is a copy."""
        said = {i: f"{how} twin of {names[other]}" for i, other, how in self.twins}
        for group in self.groups:
            for i in group[1:]:
                kind = "duplicate" if self.same[i] else "near-duplicate"
                said[i] = f"{kind} of {names[group[0]]}"
        return said


def find_duplicates(X: Any) -> Duplicates:
    """Find copies among samples.

    Parameters
    ----------
    X : array-like of shape (n_samples, a_1, ..., a_d)
        Samples, in memory or on disk.

    Returns
    -------
    duplicates : Duplicates
        Groups, and twins that are in no group together. A sample that shows no cell (all NaN) is
        in neither.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.tasks import find_duplicates
    >>> X = np.random.default_rng(0).normal(size=(9, 20, 20))
    >>> X[5], X[7] = X[2], X[0].T
    >>> found = find_duplicates(X)
    >>> found.groups, found.twins
    (((2, 5),), ((7, 0, 'mirrored and turned'),))
    """
    check_nonempty(bare(X))
    shape = tuple(int(a) for a in np.shape(X)[1:])
    marks, prints, traits = fingerprints(X, shape)
    first_of: dict[bytes, int] = {}
    original = np.array([first_of.setdefault(mark, i) for i, mark in enumerate(marks)])
    distinct = np.flatnonzero(original == np.arange(len(original)))
    points, known = prints[distinct], traits[distinct]
    tree, base = tree_of(points)
    alike = np.array(pairs(tree, base, points, known, points), dtype=int).reshape(-1, 2)
    copies = coo_array((np.ones(len(alike)), tuple(alike.T)), shape=(len(distinct), len(distinct)))
    group = connected_components(copies, directed=False)[1]
    # The first of a group stands for it.
    roots = np.unique(group, return_index=True)[1][group]
    group_of = distinct[roots][np.searchsorted(distinct, original)]
    members: dict[int, list[int]] = {}
    for i, g in enumerate(group_of.tolist()):
        members.setdefault(g, []).append(i)
    groups = tuple(tuple(m) for m in members.values() if len(m) > 1)
    found: dict[int, tuple[int, int, str]] = {}
    if is_picture(shape) and len(set(points.shape[1:])) == 1:
        for (k, mirrored), how in POSITIONS.items():
            turned = np.rot90(points[:, :, ::-1] if mirrored else points, k, axes=(1, 2))
            for i, j in pairs(tree, base, points, known, turned):
                a, b = sorted((int(distinct[i]), int(distinct[j])))
                if group_of[a] != group_of[b]:
                    found.setdefault(b, (b, a, how))
    return Duplicates(groups, original == group_of, tuple(found[i] for i in sorted(found)))


def fingerprints(X: Any, shape: tuple[int, ...]) -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """Return of each sample a digest of all entries, a fingerprint, its brightness and contrast."""
    marks: list[bytes] = []
    prints, traits = [], []
    for x in blocks_of(X, shape, missing=True):
        # Zero has two signs.
        rows = np.ascontiguousarray(x + 0.0).reshape(len(x), -1)
        gaps = np.isnan(rows)
        # What shows nothing is a copy of nothing.
        empty = np.asarray(gaps.all(axis=1))
        for row, alone in zip(rows, empty.tolist(), strict=True):
            digest = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
            marks.append(b"%d" % len(marks) if alone else digest)
        # What is missing is like the rest of its sample.
        if gaps.any():
            level = np.nansum(rows, axis=1) / np.maximum((~gaps).sum(axis=1), 1)
            rows = np.where(gaps, level[:, None], rows)
            x = rows.reshape(x.shape)
        known = np.stack([rows.mean(axis=1), rows.std(axis=1)], axis=1)
        traits.append(np.where(empty[:, None], np.nan, known))
        small = small_view(x)
        prints.append(normalised(small).reshape(small.shape).astype(np.float32))
    return marks, np.concatenate(prints), np.concatenate(traits)


def small_view(x: np.ndarray) -> np.ndarray:
    """Return grey pictures of one small size; of other samples, means over a few entries."""
    if not is_picture(x.shape[1:]):
        flat = x.reshape(len(x), -1)
        return view(flat, ENTRIES)
    return view(x.reshape(*x.shape[:3], -1).mean(axis=3), SIDE)


def tree_of(points: np.ndarray) -> tuple[cKDTree, np.ndarray]:
    """Return the fingerprints as a tree, in the leading directions of some, and these."""
    flat = points.reshape(len(points), -1)
    some = flat[np.linspace(0, len(flat) - 1, min(len(flat), PILOTS)).astype(int)]
    base = np.linalg.svd(some, full_matrices=False)[2][:DIRECTIONS].T
    return cKDTree(flat @ base), base


def pairs(
    tree: cKDTree,
    base: np.ndarray,
    points: np.ndarray,
    traits: np.ndarray,
    asked: np.ndarray,
) -> list[tuple[int, int]]:
    """Return which of the points asked for are copies of which others; each has few candidates."""
    flat, ask = points.reshape(len(points), -1), asked.reshape(len(points), -1)
    count, reach = min(CANDIDATES, len(points)), math.sqrt(NEAR * FAR)
    level, contrast = traits.T
    seen = contrast[~np.isnan(contrast)]
    usual = (float(np.median(seen)) if len(seen) else 0.0) or 1.0
    found = []
    for lo in range(0, len(ask), BLOCK):
        coarse = ask[lo : lo + BLOCK] @ base
        d, near = tree.query(coarse, k=[*range(1, count + 1)], distance_upper_bound=reach)
        row, place = (near < len(points)).nonzero()
        i, j, d = row + lo, near[row, place], d[row, place]
        f = np.linalg.norm(ask[i] - flat[j], axis=1)
        low, high = np.minimum(contrast[i], contrast[j]), np.maximum(contrast[i], contrast[j])
        alike = (i != j) & (f <= FAR) & (d**2 <= NEAR * np.maximum(f, LEAST))
        alike &= np.abs(level[i] - level[j]) <= LEVEL * usual
        alike &= high <= CONTRAST * low + 1e-3 * usual
        found += list(zip(i[alike].tolist(), j[alike].tolist(), strict=True))
    return found
