"""What is expected of samples with bad or missing cells: a wider subspace than the fit's.

What is put into a cell must not favour the directions that a fit has come to: it comes from a
subspace of more ranks, whose directions count by how much samples vary along them
(``docs/method.md``, section 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from corrtensor._engine.arrays.source import Source, plain
from corrtensor._engine.passes import by_sample
from corrtensor._engine.products import row_squares
from corrtensor._engine.ranks import FIRST_SHARE, Rank
from corrtensor._engine.state import State
from corrtensor._robust.block import whole
from corrtensor._robust.cells import COARSELY, LEAST, Model
from corrtensor._robust.completed import TRUSTED, CompletedSource, CoresPass
from corrtensor._robust.isolation import Split, Splits
from corrtensor._robust.learning import FEWEST, Guess, Learner, drawn_from
from corrtensor._robust.search import Judge
from corrtensor._robust.spread import SIGMA, upper
from corrtensor._robust.unseen import Hidden
from corrtensor._robust.verdict import Stray

# Ranks beside those of the fit, as far as this share of a mode and these bytes of cores allow; and
# with cells in doubt, where what is rare must not look bad.
WIDER, MOST, CORE_BYTES = 2.0, 0.5, 1 << 28
WIDER_IN_DOUBT = 2.5
# Which ranks serve is tried on so many samples, by this share of their cells, hidden: those beyond
# the fit's only if they tell better by so many standard errors.
TRIED, HIDDEN, SURELY = 100, 0.05, 2.0
# Not 0: a script that spoils cells by default_rng(0) would spoil just those that are hidden.
HIDING = 618033988
# How many times its cost a core may have where a sample is looked at by itself.
PULLS = (1.0, 3.0, 10.0)
# What a missing cell hides is added to what is summed up if it is so many times the noise.
MORE = 2.0
# It is told of samples so far away in their row, as a share of it: the golden section meets no
# period of it.
AWAY = (3 - math.sqrt(5)) / 2
# Bandwidth of a cell in robust standard deviations.
BANDWIDTH = 4.0
# With more than half as many numbers in a core as there are cells, the fit follows the larger part
# of an error in a single cell.
MOST_NUMBERS = 0.5
FOLLOWED = (
    "cells=True: cores of {core} follow most of an error in a single cell of {shape}: no cell is "
    "doubted; give smaller ranks"
)
# Where most samples are equal, cells stray by at least this share of how far the others are off.
LEAST_STRAY = 1e-3
RARE = (
    "cells=True: at {share:.0%} of the cells that vary, two thirds of the samples have one and the "
    "same value. Others are doubted there, also those that are only rare, as in counts, masks or "
    "drawings; cells=False keeps them"
)


@dataclass(frozen=True, eq=False)
class Completion:
    """What is expected of samples, in their own units, and how far a cell may stray.

    ``cost`` is that of the square of every entry of a core beside that of a cell; where a sample is
    looked at by itself, ``pull`` times that. ``scale`` is the robust standard deviation of every
    cell, ``bandwidth`` how many of these one may stray.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    cost: np.ndarray
    scale: np.ndarray | None = None
    bandwidth: float = math.inf
    pull: float = 1.0

    def model(self, origin: np.ndarray, unit: float, dtype: np.dtype, pull: float = 1.0) -> Model:
        """Return it for samples counted from an origin in a unit."""
        model = Model((self.mean - origin) / unit, self.factors, dtype, pull * self.cost)
        if self.scale is None or math.isinf(self.bandwidth):
            return model
        return model.doubting(self.scale / unit, self.bandwidth)


def wider(
    ranks: tuple[int | None, ...], shape: tuple[int, ...], samples: int, times: float = WIDER
) -> tuple[int | None, ...]:
    """Return the ranks of what is expected of samples."""
    modes = list(zip(shape, ranks, strict=True))
    bytes_of_cores = 8 * samples * math.prod(a if k is None else k for a, k in modes)
    factor = min(times, (CORE_BYTES / bytes_of_cores) ** (1 / len(modes)))
    return tuple(
        None if k is None else max(k, min(int(factor * k), int(MOST * a))) for a, k in modes
    )


def numbers_of(learner: Learner, ranks: tuple[Rank, ...], in_doubt: bool) -> tuple[int | None, ...]:
    """Return ranks as numbers, those that come by themselves from a share of the variance.

    With cells in doubt no share takes more than half of a mode: bad cells vary, too.
    """
    shares = tuple(FIRST_SHARE if isinstance(k, str) else k for k in ranks)
    if not any(isinstance(k, float) for k in shares):
        return cast(tuple[int | None, ...], shares)
    found = learner.begun(learner.filled(None), shares).ranks
    limits = [max(1, int(MOST * a)) if in_doubt else a for a in learner.x.shape[1:]]
    modes = zip(shares, found, limits, strict=True)
    return tuple(
        min(k, most) if isinstance(share, float) and k is not None else k
        for share, k, most in modes
    )


def missed(x: np.ndarray, hidden: np.ndarray, told: list[np.ndarray]) -> list[np.ndarray]:
    """Return the squares by which hidden cells were missed by each of those that told them.

    Cells that are bad, or of outliers, are told by none: what is far off counts as just off.
    """
    off = [np.abs(x - F)[hidden].astype(float) for F in told]
    far = BANDWIDTH * SIGMA * min(float(upper(away[:, None])[0]) for away in off)
    return [np.square(np.minimum(away, far)) for away in off]


def rare_values(learner: Learner) -> tuple[float, float]:
    """Return the share of cells, of those that vary, at which two thirds of the samples are equal.

    If it is most of them, also how far cells stray at least, for equal samples do not tell.
    """
    away = np.abs(learner.x - learner.begin)
    varying = np.fmax.reduce(away, axis=0) > 0
    equal = varying & (upper(away) == 0)
    share = float(equal.sum()) / max(1.0, float(varying.sum()))
    return share, LEAST_STRAY * float(np.median(away[away > 0])) if share > 1 / 2 else 0.0


def foretold(
    learner: Learner,
    ranks: tuple[int | None, ...],
    more: tuple[int | None, ...],
    bandwidth: float | None,
) -> Guess:
    """Return what more ranks make expected, if they tell better what is in hidden cells.

    If not, what their leading directions come to by themselves. Spare directions hold what the fit
    leaves of faces; where it leaves noise alone, they come to follow single cells.
    """
    few = slice(None, None, -(-len(learner.x) // TRIED))
    x = learner.x[few]
    hidden = (np.random.default_rng(HIDING).random(x.shape) < HIDDEN) & ~np.isnan(x)
    if more == ranks or not hidden.any():
        return learner.taught(learner.start(ranks, bandwidth), bandwidth, own=True)
    torn = learner.x.copy()
    torn[few][hidden] = np.nan
    blind = replace(learner, x=torn)
    wide = blind.taught(blind.start(more, bandwidth), bandwidth)
    modes = zip(wide.model.factors or (), ranks, strict=True)
    leading = State(wide.model.mean, tuple(None if U is None else U[:, :k] for U, k in modes))
    some = blind.some(few)
    narrow = some.taught(some.guess(leading, wide.expected[few], noise=wide.noise), bandwidth)
    gain = np.diff(missed(x, hidden, [wide.expected[few], narrow.expected]), axis=0)
    if gain.mean() > SURELY * gain.std() / math.sqrt(gain.size):
        return wide
    guess = learner.guess(leading, wide.expected, noise=wide.noise)
    return learner.taught(guess, bandwidth, own=True)


def pull_of(learner: Learner, guess: Guess, bandwidth: float | None) -> float:
    """Return how strongly samples are best pulled to what is usual, as hidden cells tell.

    Hidden is of each sample what another one misses or has in doubt: where blocks are gone, cells
    nearby tell little of them, and less than where single ones are.
    """
    few = slice(None, None, -(-len(learner.x) // FEWEST))
    x, F, model = learner.x[few], guess.expected[few], learner.model(guess, bandwidth)
    gone = model.complete_by(x, F, model.spread(x, F), 0).cell_weights < TRUSTED
    hidden = np.roll(gone, 1, axis=0) & ~gone
    if not hidden.any():
        return 1.0
    torn, told, best = np.where(hidden, np.nan, x), [], 0
    for pull in PULLS:
        told.append(replace(model, prior=pull * model.prior).found(torn)[1].expected)
        best = int(np.argmin([off.mean() for off in missed(x, hidden, told)]))
        if told[best] is not told[-1]:
            # A stronger one would tell still less.
            break
    return PULLS[best]


def hidden_by(learner: Learner, guess: Guess, bandwidth: float | None) -> Hidden:
    """Return what missing cells hide: a few samples tell, and if it is much more than noise, all.

    Of a sample, completed, what another one misses is hidden and told by the rest. Neighbours would
    not do: samples in a row may miss the same cells.
    """
    x, gone = learner.x, np.isnan(learner.x)
    gaps = np.count_nonzero(gone.reshape(len(x), -1), axis=1)
    incomplete, other = np.flatnonzero(gaps), np.roll(np.arange(len(x)), round(AWAY * len(x)))
    model, simple = learner.model(guess, bandwidth), replace(guess.model, accuracy=COARSELY)
    y = model.complete_by(x, guess.expected, model.spread(x, guess.expected), 0).x

    def errors(some: slice) -> np.ndarray:
        """Return them scaled to one missing cell."""
        which = incomplete[some]
        whole = y[other[which]]
        torn = plain(np.where(gone[which], np.nan, whole), n_jobs=learner.n_threads, missing=True)
        told = np.concatenate(
            [found.whole for part in torn.map(CoresPass(simple, True)) for found in part]
        )
        share = np.sqrt(learner.weights[which] / (learner.weights[which] @ gaps[which]))
        return np.where(gone[which], by_sample(share, x) * (whole - told), 0)

    few = slice(None, None, max(1, len(incomplete) // FEWEST))
    much = len(incomplete) and np.square(errors(few)).sum() > MORE * guess.noise
    return Hidden(usual_error(learner, guess), errors(slice(None)) if much else None)


def usual_error(learner: Learner, guess: Guess) -> float:
    """Return the square by which a missing cell is missed, were it like any that is seen.

    It is off by noise, which is larger than what cores leave of the cells that they were found by,
    and by what they are off themselves.
    """
    seen = np.count_nonzero(~np.isnan(learner.x).reshape(len(learner.x), -1), axis=1)
    share = (seen / learner.x[0].size)[:, None]
    told = 1 / (share + np.broadcast_to(guess.model.prior, guess.model.core_shape).ravel())
    followed = (share * told).sum() / max(seen.sum(), 1)
    noise = guess.noise / max(1 - followed, LEAST)
    return float(noise * (1 + told.sum(axis=1).mean() / learner.x[0].size))


def apart(
    learner: Learner,
    guess: Guess,
    teach: Callable[[Learner], Guess],
    bandwidth: float,
    least: float,
) -> tuple[Split, Source] | None:
    """Find a group whose cells stray as a whole.

    Proposed is what is beyond the likeliest gap. Every other one of the rest then teaches, and the
    others and the group are judged: nobody by what he taught. Returned is how all split, and all
    as completed by what these expect.
    """
    splits = Splits(learner.model(guess, bandwidth).strays(learner.x, guess.expected), least)
    proposed = splits.isolated() or splits.likeliest()
    if proposed is None:
        return None
    judged = np.ones(len(learner.x), bool)
    judged[np.flatnonzero(proposed.kept)[::2]] = False
    if np.count_nonzero(~judged) < FEWEST:
        return None
    half = learner.some(~judged)
    model = half.model(teach(half), bandwidth)
    block = model.found(learner.x)[1]
    away = model.strays(learner.x, block.expected)
    split = Splits(away[judged], least - len(half.x)).isolated()
    if split is None:
        return None
    kept = ~judged
    kept[judged] = split.kept
    # Counted from the origin again: where there is no mean, that is the centre.
    rows = plain(block.x + learner.place.astype(block.x.dtype), n_jobs=learner.n_threads)
    return replace(split, values=away, kept=kept), rows


def learned(
    source: CompletedSource,
    ranks: tuple[Rank, ...],
    weights: np.ndarray | None,
    bandwidth: float | None = None,
    searched: bool = True,
    judge: Judge | None = None,
) -> tuple[Completion, Stray | None, Hidden]:
    """Learn what is expected of samples from some of those that count.

    Unless they were ``searched`` for outliers, these must not own it. A group of them whose cells
    stray as a whole does not teach, if ``judge`` rejects it. Returned are also that group, and what
    missing cells hide.
    """
    learner, shape = drawn_from(source, ranks, weights, searched), source.sample_shape
    if bandwidth is None:
        # Who is hidden, and from whom, hangs on what samples are, not on where they stand.
        learner = learner.some(np.argsort(row_squares(whole(learner.x)), kind="stable"))
    own = numbers_of(learner, ranks, bandwidth is not None)
    core = tuple(a if k is None else k for a, k in zip(shape, own, strict=True))
    if bandwidth is not None and math.prod(core) > MOST_NUMBERS * math.prod(shape):
        source.tell(FOLLOWED, core=core, shape=shape)
        bandwidth = math.inf
    if bandwidth is not None and math.isfinite(bandwidth):
        share, least = rare_values(learner)
        if least > 0:
            source.tell(RARE, share=share)
            learner = replace(learner, least=max(least, learner.least))
    # Every direction of vectors is free to follow what is wrong with some of them.
    in_doubt = 1.0 if len(shape) == 1 else WIDER_IN_DOUBT
    times = WIDER if bandwidth is None else in_doubt
    more = wider(own, shape, source.n_samples, times)
    guess, stray = foretold(learner, own, more, bandwidth), None
    if judge is not None and judge.share > 0 and bandwidth is not None and math.isfinite(bandwidth):
        modes = zip(own, guess.model.core_shape, strict=True)
        serving = tuple(None if k is None else found for k, found in modes)

        def teach(some: Learner) -> Guess:
            return some.taught(some.start(serving, bandwidth), bandwidth, serving == own)

        # Equal samples are looked at once: flat pieces of pictures, say, which stray nowhere.
        different, guessed, which = learner.once(guess)
        least = (1 - judge.share) * len(different.x)
        if (seen := apart(different, guessed, teach, bandwidth, least)) is not None:
            split, rows = seen
            group = judge.group(rows, split, different.weights)
            kept = split.kept[which]
            split = replace(split, kept=kept, values=split.values[which])
            stray = Stray(learner.drawn, split, group)
            if group.rejected:
                learner = learner.some(kept)
                guess = teach(learner)
    mean = source.origin + source.unit * (learner.place + guess.model.mean)
    assert guess.model.factors is not None  # noqa: S101
    made = Completion(
        mean,
        guess.model.factors,
        np.asarray(guess.model.prior),
        pull=pull_of(learner, guess, bandwidth),
    )
    hidden = hidden_by(learner, guess, bandwidth)
    if bandwidth is None:
        return made, None, hidden
    scale = source.unit * learner.scale(guess).astype(np.float64)
    return replace(made, scale=scale, bandwidth=bandwidth), stray, hidden
