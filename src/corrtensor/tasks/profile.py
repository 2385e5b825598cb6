"""How unlike the others a sample is: the parts of one score.

A sample is held against the few others that it resembles most, so that a folder may hold several
kinds of pictures. Five things are measured, each against how much the others differ in it:

texture
    the energy in every shell of directions (in each mode the leading one, then the next three,
    the next twelve, and so on) beside that of its likes: blur lacks it, noise has too much;
likeness
    the correlation with its likes, of which only too little is odd;
turn
    by how much the likeness grows when the sample is turned by right angles, or made negative;
distance
    how much farther than any of its likes it lies in the metric by which the search of samples
    judges whole groups;
cover
    the share of the picture in which nothing varies, beyond that of its likes.

Each is counted in robust standard deviations above the median; what lies above adds up in squares.
All is learned from samples that count in the subspace. Its residuals are no part: they added
nothing to the metric, and on pictures of several kinds they took away. See ``docs/outliers.md``.
Rows of a table have no texture and no turns: ``table.py`` is for these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.covariance import ledoit_wolf

from corrtensor._engine.arrays.source import plain
from corrtensor._robust.metric import Metric, see
from corrtensor._robust.search import FINE
from corrtensor.tasks.samples import blocks_of, draw
from corrtensor.tasks.shells import directions, fine, shell_energies
from corrtensor.tasks.views import compare, normalised, view

# The parts of the score, and what only helps to put it in words.
PARTS = ("texture", "likeness", "turn", "distance", "cover")
MEASURED = (*PARTS, "detail", "level", "contrast")
# The largest score that is usual, over the upper quartile of those of references: beyond it lie
# about 1 % of good samples. Measured in studies/outliers.
LIMIT = 2.9
# References score less than this share of it; rounds in which they are chosen.
USUAL, ROUNDS = 2 / 3, 3
# The share of the variance of texture that likes tell where there are several kinds: 0.02 to 0.25
# among faces alone, 0.75 in a folder of five kinds, about 0.5 among people and digits.
TOLD = 1 / 3
# Shares of the samples that each round learns from: first only what is surely good.
KEPT = (0.75, 0.75, 0.75, 0.9)
# Others that a sample is compared with.
REFERENCES = 500
SIGMA_PER_MEDIAN = 1.4826
# Samples that differ less from their likes do so by rounding; everything is counted in logarithms,
# correlations, shares, or the unit of the data.
LEAST_SPREAD = 1e-3
# Where most samples are as alike as can be, or have nothing flat, others stand out by nothing: so
# much less likeness, or so large a share that is flat, is one deviation at least.
LEAST_STEP, BOUNDED = 0.1, ("likeness", "turn", "cover")
# Beside a typical energy, less than this is nothing.
RELATIVE_FLOOR = 1e-2
SMALLEST = 1e-12
# The share of the energy that rounding may leave in a shell, and in its logarithm.
ROUNDING, SAME = 1e-20, 1e-9
# Cells of a view are so wide; one that varies by less than this share of the whole is flat.
CELL, FLAT = 4, 0.02


def spread(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the median and a robust standard deviation, which is not zero."""
    median = np.median(values, axis=0)
    sigma = SIGMA_PER_MEDIAN * np.median(np.abs(values - median), axis=0)
    sigma = np.where(sigma > 0, sigma, np.abs(values - median).mean(axis=0))
    return median, np.where(sigma > 0, sigma, 1.0)


@dataclass(frozen=True)
class Normal:
    """A robust normal distribution of some features."""

    center: np.ndarray
    unit: np.ndarray
    mean: np.ndarray
    precision: np.ndarray

    def log_distance(self, F: np.ndarray) -> np.ndarray:
        """Return the logarithm of each sample's squared Mahalanobis distance."""
        z = (F - self.center) / self.unit - self.mean
        return np.log(np.maximum(np.einsum("ij,jk,ik->i", z, self.precision, z), SMALLEST))


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
    return normal


@dataclass(frozen=True)
class Profile:
    """What is usual among samples: directions, energies, a metric, and some of them.

    ``references`` are small views of usual samples, ``numbers`` says which; ``usual`` is what was
    measured of them, ``location`` and ``scale`` what is usual of each of ``MEASURED``. A score
    of ``limit`` is the largest that good samples usually have.
    """

    unit: float
    mean: np.ndarray
    bases: tuple[np.ndarray | None, ...]
    floor: np.ndarray
    metric: Metric
    references: np.ndarray
    numbers: np.ndarray
    local: Normal
    usual: dict[str, np.ndarray]
    location: np.ndarray
    scale: np.ndarray
    limit: float

    def measure(self, X: Any, block_size: int | None = None) -> dict[str, np.ndarray]:
        """Return what is measured of samples, in standard deviations above the usual.

        Beside ``MEASURED``: ``score``, 1 at the limit; ``faint``, the logarithm of how much less
        contrast than usual there is; ``turned``, the likeness after each turn and of the negative,
        and ``righted``, how unlike the others it still is after the best of these; ``nearest``,
        the number of the most similar usual sample.
        """
        found: dict[str, list[np.ndarray]] = {}
        for x in blocks_of(X, self.mean.shape, block_size):
            scaled = x / self.unit
            seen = observe(scaled, self.mean, self.bases, self.floor, self.metric)
            seen |= compare(view(scaled), self.references)
            values = relate(seen, self.usual, self.local)
            for name, value in values.items():
                found.setdefault(name, []).append(value)
        values = {name: np.concatenate(value) for name, value in found.items()}
        values["faint"] = self.location[MEASURED.index("contrast")] - values["contrast"]
        place = MEASURED.index("likeness")
        values["righted"] = -values["turned"].max(axis=1) - self.location[place]
        values["righted"] /= self.scale[place]
        values = in_deviations(values, self.location, self.scale)
        values["score"] = combined(values) / self.limit
        values["nearest"] = self.numbers[values["nearest"]]
        return values


def combined(parts: dict[str, np.ndarray]) -> np.ndarray:
    """Return the score of samples from their parts."""
    return np.sqrt(sum(np.square(np.maximum(parts[name], 0.0)) for name in PARTS))


def observe(
    x: np.ndarray,
    mean: np.ndarray,
    bases: tuple[np.ndarray | None, ...],
    floor: np.ndarray,
    metric: Metric,
) -> dict[str, np.ndarray]:
    """Return what can be said of each sample of a block by itself."""
    flat = x.reshape(len(x), -1)
    return {
        "energies": np.log(shell_energies(x - mean, bases) + floor),
        "away": metric.measure(x),
        "level": flat.mean(axis=1),
        "contrast": np.log(np.maximum(flat.std(axis=1), SMALLEST)),
        "flat": flat_share(view(x)),
    }


def relate(
    seen: dict[str, np.ndarray], usual: dict[str, np.ndarray], local: Normal | None
) -> dict[str, np.ndarray]:
    """Return what is measured of samples beside their likes; without ``local``, the texture."""
    likes = seen["likes"]
    texture = seen["energies"] - usual["energies"][likes].mean(axis=1)
    texture[np.abs(texture) < SAME] = 0
    if local is None:
        return {"energies": texture}
    odd = local.log_distance(texture)
    return {
        "texture": odd - usual["odd"][likes].mean(axis=1),
        "likeness": -seen["like"],
        "turn": seen["turned"].max(axis=1) - seen["like"],
        "distance": seen["away"] - usual["away"][likes].max(axis=1),
        "detail": np.average(texture, axis=1, weights=usual["fine"]),
        "level": seen["level"],
        "contrast": seen["contrast"],
        "cover": seen["flat"] - usual["flat"][likes].mean(axis=1),
        "turned": seen["turned"],
        "nearest": likes[:, 0],
    }


def fit_profile(subspace: Any, X: Any, weights: np.ndarray | None) -> Profile:
    """Learn the profile of the samples that count in the subspace, from some of them."""
    shape = getattr(subspace, "sample_shape_", None) or tuple(np.shape(X)[1:])
    drawn, numbers = draw(X, shape, weights)
    largest = float(np.median(np.abs(drawn).max(axis=tuple(range(1, drawn.ndim)))))
    unit = 2.0 ** math.floor(math.log2(largest)) if largest else 1.0
    x = drawn / unit
    mean = x.mean(axis=0)
    bases = directions(x - mean)
    energies = shell_energies(x - mean, bases)
    floor = RELATIVE_FLOOR * np.median(energies, axis=0) + np.finfo(float).tiny
    floor += ROUNDING * np.median(energies.sum(axis=1))
    metric, _ = judged(x, np.ones(len(x)))
    seen = observe(x, mean, bases, floor, metric)
    seen["view"] = view(x)
    usual = {"fine": fine(bases, mean.shape)}
    kept = np.arange(len(x))
    several, central = of_several_kinds(seen["energies"], seen["view"])
    for _ in range(ROUNDS if several else 1):
        rows = kept if several else central
        rows = rows[np.linspace(0, len(rows) - 1, min(REFERENCES, len(rows))).astype(int)]
        references = normalised(seen["view"][rows])
        seen |= compare(seen["view"], references)
        usual |= {name: seen[name][rows] for name in ("energies", "away", "flat")}
        texture = relate(seen, usual, None)["energies"]
        local = fit_normal(texture)
        usual["odd"] = local.log_distance(texture[rows])
        values = relate(seen, usual, local)
        location, scale = usually(values)
        score = combined(in_deviations(values, location, scale))
        limit = LIMIT * float(np.quantile(score[kept], 0.75)) or 1.0
        kept = np.flatnonzero(score <= USUAL * limit)
    if (odd := np.arange(len(x)) % 2).any():
        # New samples have taught nothing: as far off as each half is by what the other one taught.
        seen["away"] = np.where(odd, judged(x, 1.0 - odd)[1], judged(x, 1.0 * odd)[1])
    as_new = usually(relate(seen, usual, local))
    location, scale = np.maximum(location, as_new[0]), np.maximum(scale, as_new[1])
    return Profile(
        unit, mean, bases, floor, metric, references, numbers[rows], local, usual,
        location, scale, limit,
    )  # fmt: skip


def judged(x: np.ndarray, teaching: np.ndarray) -> tuple[Metric, np.ndarray]:
    """Return the metric of those that teach, and how far off all are by it."""
    return Metric.of(*see(plain(x), teaching), teaching, FINE)


def of_several_kinds(energies: np.ndarray, small: np.ndarray) -> tuple[bool, np.ndarray]:
    """Tell whether samples are of several kinds, and which are the most usual ones in texture.

    They are if likes tell much of the texture of even these: then any kind may be missing among
    them, and likes are sought among all that turn out to be usual.
    """
    odd = fit_normal(energies).log_distance(energies)
    central = np.flatnonzero(odd <= np.quantile(odd, KEPT[0]))
    E = energies[central]
    likes = compare(small[central], normalised(small[central]))["likes"]
    untold = (E - E[likes].mean(axis=1)).var(axis=0).sum()
    return bool(untold < (1 - TOLD) * E.var(axis=0).sum()), central


def usually(values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the median of what is measured, and how much more than it is usual."""
    V = np.stack([values[name] for name in MEASURED], axis=1)
    median, scale = spread(V)
    # What is skewed reaches farther above the median than below.
    upper = SIGMA_PER_MEDIAN * (np.quantile(V, 0.75, axis=0) - median)
    least = [LEAST_STEP if name in BOUNDED else LEAST_SPREAD for name in MEASURED]
    return median, np.max([scale, upper, least], axis=0)


def in_deviations(
    values: dict[str, np.ndarray], location: np.ndarray, scale: np.ndarray
) -> dict[str, np.ndarray]:
    """Return what is measured in standard deviations above the usual."""
    rows = zip(MEASURED, location, scale, strict=True)
    return values | {name: (values[name] - a) / b for name, a, b in rows}


def flat_share(small: np.ndarray) -> np.ndarray:
    """Return the share of cells of each view in which nothing varies; 0 where there are none."""
    if min(small.shape[1:3]) < CELL:
        return np.zeros(len(small))
    a, b = (size // CELL for size in small.shape[1:3])
    cells = small[:, : a * CELL, : b * CELL].reshape(len(small), a, CELL, b, CELL, -1)
    spans = np.ptp(cells, axis=(2, 4)).max(axis=-1).reshape(len(small), -1)
    whole = np.ptp(small.reshape(len(small), -1), axis=1)[:, None]
    return np.asarray((spans <= FLAT * whole).mean(axis=1))
