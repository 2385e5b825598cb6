"""How unlike the others a row of a table is: one distance, whatever the units of the columns.

Columns stand in any order, and in any unit, so that nothing is asked of neighbours, of the mean of
a row, or of its likeness to other rows. A row counts by its Mahalanobis distance, from columns
brought to one scale and a covariance to whose diagonal a little is added: as much as makes samples
that have taught nothing the likeliest. How far off these are is what is usual: about one good row
in a hundred is beyond the limit. See ``docs/decisions/0009-one-score.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np

from corrtensor.tasks.samples import blocks_of, draw

# What is added to the diagonal, in variances of a column: a thousandth of a deviation to a whole.
ADDED = 10.0 ** np.arange(-6, 0.5, 0.5)
# How often is learned: of all that count, and of those that were not odd. More often, what remains
# of a heavy tail would be odd in its turn.
ROUNDS = 2
# Cube roots of squared distances are nearly normal (Wilson and Hilferty): its quartile, and at how
# many deviations a row is odd and teaches no longer. Good tables have heavier tails than that.
QUARTILE, FAR = 0.6745, 3.5
# The rate of false alarms that is stated: so many of the rows are odd, were none of them to teach.
FALSE_ALARMS = 0.01
# Beside the largest value of a column, a spread of less is rounding.
ROUNDING = 1e-12
# Rows to name the most similar one of; those that differ by less than this share of their squares
# are one and the same.
REFERENCES, SAME = 500, 1e-9


@dataclass(frozen=True)
class Spread:
    """Where rows are expected, and how much they stray in each direction of scaled columns."""

    center: np.ndarray
    scale: np.ndarray
    directions: np.ndarray
    variance: np.ndarray
    added: float = 0.0

    def see(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scaled rows, what they have in each direction, and the square in no direction."""
        z = (x - self.center) / self.scale
        entries = z @ self.directions
        rest = np.square(z).sum(axis=1) - np.square(entries).sum(axis=1)
        return z, entries, np.maximum(rest, 0.0)

    def squares(self, entries: np.ndarray, rest: np.ndarray, added: float) -> np.ndarray:
        """Return squared distances, with so much added to every variance."""
        return np.asarray(np.square(entries) @ (1 / (self.variance + added)) + rest / added)

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Return cube roots of squared distances."""
        _, entries, rest = self.see(x)
        return np.cbrt(self.squares(entries, rest, self.added))

    def deviations(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far off every cell is by itself, and from what the other columns tell.

        Both in standard deviations; the second is the residual of a regression on the others.
        """
        z, entries, _ = self.see(x)
        most, squares = 1 / self.added, np.square(self.directions)
        less = 1 / (self.variance + self.added) - most
        alone = z / np.sqrt(squares @ self.variance + self.added)
        told = z * most + (entries * less) @ self.directions.T
        return alone, told / np.sqrt(most + squares @ less)


def principal(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the principal directions of rows about zero, and the mean squares in these."""
    n, a = z.shape
    if a <= n:
        variance, directions = np.linalg.eigh(z.T @ z / n)
        return directions, np.maximum(variance, 0.0)
    variance, rows = np.linalg.eigh(z @ z.T / n)
    seen = variance > n * np.finfo(float).eps * max(variance[-1], 0.0)
    return z.T @ (rows[:, seen] / np.sqrt(n * variance[seen])), variance[seen]


def judge(x: np.ndarray, teach: np.ndarray) -> tuple[Spread, np.ndarray]:
    """Learn from some rows; return the distances of all, of none by what it has taught itself.

    To leave one out changes a covariance by a matrix of rank one, so that the distance from what
    the others teach is a formula (Sherman and Morrison); likewise the determinant.
    """
    taught, n = x[teach], int(teach.sum())
    center, scale = taught.mean(axis=0), taught.std(axis=0)
    rounding = ROUNDING * np.abs(x).max(axis=0)
    varies = scale > rounding
    # A column that never varied among these has the unit that it has among all, or a usual one.
    scale = np.where(varies, scale, x.std(axis=0))
    known = scale > rounding
    scale = np.where(known, scale, np.median(scale[known]) if known.any() else 1.0)
    spread = Spread(center, scale, *principal((taught - center) / scale))
    _, entries, rest = spread.see(x)
    rest[teach] = 0
    # What never varied among these would be the likelier the less is added, whatever the others do.
    free = np.count_nonzero(varies) - len(spread.variance)
    found: list[tuple[float, float, np.ndarray]] = []
    for added in ADDED.tolist():
        d = spread.squares(entries, rest, added)
        own = np.where(teach, d, 0.0) / max(n - 1, 1)
        left = np.maximum(1 - own, np.finfo(float).eps)
        d = np.where(teach, n / max(n - 1, 1), 1.0) * d / left
        volume = np.log(spread.variance + added).sum() + free * math.log(added)
        found.append((float((d + np.log(left))[teach].mean() + volume), added, d))
    _, added, d = min(found, key=itemgetter(0))
    return replace(spread, added=added), np.cbrt(d)


@dataclass(frozen=True)
class TableProfile:
    """What is usual among rows: where they are expected, and how far off they usually are.

    ``references`` are some usual rows, ``numbers`` says which. A score of 1 is the ``limit``, in
    standard deviations ``scale`` above ``location``: what one row in a hundred exceeds of those
    that were learned from, had it not taught, or less.
    """

    unit: float
    mean: np.ndarray
    spread: Spread
    references: np.ndarray
    numbers: np.ndarray
    location: float
    scale: float
    limit: float

    def measure(self, X: Any, block_size: int | None = None) -> dict[str, np.ndarray]:
        """Return what is measured of rows, in standard deviations.

        ``score``, 1 at the limit; ``distance``; ``size``, how far off the farthest cell is by
        itself, and ``together``, from what the other columns tell; ``largest`` and ``apart``, the
        columns of these; ``nearest``, the number of the most similar usual row.
        """
        found: dict[str, list[np.ndarray]] = {}
        for x in blocks_of(X, self.mean.shape, block_size):
            for name, value in self._of_block(x / self.unit).items():
                found.setdefault(name, []).append(value)
        return {name: np.concatenate(value) for name, value in found.items()}

    def _of_block(self, x: np.ndarray) -> dict[str, np.ndarray]:
        distance = (self.spread.distances(x) - self.location) / self.scale
        alone, together = (np.abs(d) for d in self.spread.deviations(x))
        return {
            "score": np.maximum(distance, 0.0) / self.limit,
            "distance": distance,
            "size": alone.max(axis=1),
            "together": together.max(axis=1),
            "largest": alone.argmax(axis=1),
            "apart": together.argmax(axis=1),
            "nearest": self.numbers[self._closest(x)],
        }

    def _closest(self, x: np.ndarray) -> np.ndarray:
        """Return the reference that is closest to each row, but for itself."""
        root = np.sqrt(self.spread.variance + self.spread.added)
        seen, others = (self.spread.see(rows)[1] / root for rows in (x, self.references))
        squares = np.square(others).sum(axis=1) + np.square(seen).sum(axis=1)[:, None]
        apart = squares - 2 * (seen @ others.T)
        apart[apart <= SAME * squares] = math.inf
        return np.asarray(apart.argmin(axis=1))


def fit_table(subspace: Any, X: Any, weights: np.ndarray | None) -> TableProfile:
    """Learn what is usual of the rows that count in the subspace, from some of them."""
    shape = getattr(subspace, "sample_shape_", None) or tuple(np.shape(X)[1:])
    drawn, numbers = draw(X, shape, weights)
    largest = float(np.median(np.abs(drawn).max(axis=1)))
    unit = 2.0 ** math.floor(math.log2(largest)) if largest else 1.0
    x = drawn / unit
    teach = np.ones(len(x), dtype=bool)
    for _ in range(ROUNDS):
        spread, d = judge(x, teach)
        location = float(np.median(d[teach]))
        away = np.abs(d[teach] - location)
        # What is skewed reaches farther above the median than below.
        quartile = max(float(np.median(away)), float(np.quantile(d[teach], 0.75)) - location)
        scale = quartile / QUARTILE or float(away.mean()) or 1.0
        joined = d <= location + FAR * scale
        if (joined == teach).all():
            break
        teach = joined
    deviations = np.sort((d - location) / scale)
    last = float(deviations[len(x) - 1 - int(FALSE_ALARMS * len(x))])
    limit = min(FAR, last) if last > 0 else FAR
    rows = np.flatnonzero(teach)
    rows = rows[np.linspace(0, len(rows) - 1, min(REFERENCES, len(rows))).astype(int)]
    rows, numbers = x[rows], numbers[rows]
    return TableProfile(unit, spread.center, spread, rows, numbers, location, scale, limit)
