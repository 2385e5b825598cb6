"""The loop's own rules: what counts for the scale, when it ends, and what is taken back."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from corrtensor import CorrTensor, MultilinearSubspace, make
from corrtensor._engine import solver
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import fix_signs, leading, turned
from corrtensor._engine.solver import at_rest, calibrated, measured, solve
from corrtensor._engine.start import spectral
from corrtensor._engine.state import Options
from corrtensor.losses import Correntropy, Power


def rotated(angle, a=6, k=2):
    """The first k unit vectors, the last of them turned by an angle."""
    U = np.eye(a)[:, :k]
    U[k - 1, k - 1], U[a - 1, k - 1] = math.cos(angle), math.sin(angle)
    return U


def test_the_turn_is_that_of_the_mode_that_turned_most():
    still, slow, fast = rotated(0.0), rotated(0.1), rotated(0.7)
    expected = math.sin(0.7) / math.sqrt(2)
    assert_allclose(turned([still, still, None], [slow, fast, None]), expected, rtol=1e-14)
    assert_allclose(turned([still, still], [fast, still]), expected, rtol=1e-14)
    assert turned([None], [None]) == 0


@pytest.mark.parametrize("angle", [1e-5, 1e-9, 1e-13])
def test_a_small_turn_is_known_to_its_digits(angle):
    """One minus the squared cosines would know nothing below 1e-8."""
    assert_allclose(turned([rotated(0.0, k=1)], [rotated(angle, k=1)]), angle, rtol=1e-3)


def test_a_turn_of_the_basis_alone_is_none():
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    U = np.linalg.qr(np.random.default_rng(1).normal(size=(9, 3)))[0]
    assert turned([U], [U @ Q]) < 1e-15


def test_when_sweeps_end():
    rounding = 1e-12
    falling = [1.0, 0.5, 0.5 - 1e-7]
    assert at_rest(falling, 1e-4, 1e-6, rounding)
    assert not at_rest(falling, 1e-2, 1e-6, rounding), "a projector still turns"
    assert not at_rest(falling, 1e-4, 1e-8, rounding), "the objective still falls"
    # Ten sweeps without gain end it whatever moves, nine do not; with tol=0 nothing ends it.
    assert at_rest([1.0] + [0.5] * 11, 0.3, 1e-12, rounding)
    assert not at_rest([1.0] + [0.5] * 10, 0.3, 1e-12, rounding)
    slowly = [1.0 - 2e-13 * i for i in range(12)]
    assert not at_rest(slowly, 0.3, 1e-14, rounding)
    assert not at_rest([1.0] + [0.5] * 11, 0.0, 0.0, rounding)


@pytest.mark.parametrize("name", ["MPCA", "GLRAM", "R1-Tensor"])
def test_without_a_tolerance_all_sweeps_are_run(images, name):
    """Long after nothing moves any more: rounding must not choose the number."""
    with pytest.warns(ConvergenceWarning, match="max_iter=90"):
        model = make(name, (3, 2), tol=0.0, max_iter=90).fit(images)
    assert model.n_iter_ == 90


def test_of_equal_entries_the_first_is_positive():
    half = math.sqrt(0.5)
    for tiny in (-1e-16, 0.0, 1e-16):
        U = fix_signs(np.array([[-half - tiny, 0.6], [half, -0.8]]))
        assert_allclose(U, [[half, -0.6], [-half, 0.8]], atol=1e-15)


class Convex(Power):
    """Far samples count most: a sweep that minimises the tangent overshoots."""

    def log_weight(self, s):
        return 40 * np.log(s)

    def value(self, s):
        return s**41

    def calibrate(self, s):
        return self


@pytest.mark.parametrize("a", [8, 31, 32, 128, 129, 200])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_leading_eigenvectors_in_falling_order(a, share):
    rng, k = np.random.default_rng(0), max(1, int(share * a))
    V, values = np.linalg.qr(rng.normal(size=(a, a)))[0], np.arange(a, 0.0, -1)
    assert_allclose(leading((V * values) @ V.T, k), fix_signs(V[:, :k]), atol=1e-10)


def test_a_sweep_that_rises_is_taken_back(images):
    """All that is kept belongs to one state: the one before the rise."""
    with pytest.warns(ConvergenceWarning, match="raise the objective"):
        model = MultilinearSubspace((3, 2), loss=Convex()).fit(images)
    assert not model.converged_
    J = model.objective_
    assert (np.diff(J) <= 1e-10 * J[0]).all()
    assert_allclose(model.residuals_, model.residuals(images), rtol=1e-9)
    assert_allclose(J[-1], Convex().value(model.residuals(images)).sum(), rtol=1e-7)


@pytest.fixture
def at_start(images):
    source = Source(images, n_jobs=1)
    return source, measured(source, spectral(source, (3, 2)))


def test_exact_fits_tell_nothing_of_the_scale(at_start):
    """A third of the samples met exactly, as copies are: the median is that of the others."""
    source, state = at_start
    s = np.linspace(1.0, 2.0, 60)
    s[:20] = 1e-9
    loss = calibrated(Correntropy(scale="median"), source, replace(state, squares=s), None)
    assert_allclose(loss.unit**2, np.median(s[20:]), rtol=0.01)
    weight = np.r_[np.ones(20), np.full(40, 3.0)]
    loss = calibrated(Correntropy(scale="median"), source, replace(state, squares=s), weight)
    assert_allclose(loss.unit**2, np.median(s[20:]), rtol=0.01)


def test_rounding_tells_nothing_of_the_scale(at_start):
    """Where all residuals are rounding, the scale is what rounding leaves of the norms."""
    source, state = at_start
    loss = calibrated(
        Correntropy(scale="median"), source, replace(state, squares=np.full(60, 1e-40)), None
    )
    typical = np.median(state.norms)
    assert 1e-31 * typical < loss.unit**2 < 1e-26 * typical


def test_sweeps_on_the_way_are_watched_by_nobody_and_start_afresh(at_start):
    """The search runs sweeps of its own; a checkpoint is where the last sweeps stood."""
    source, start = at_start
    seen = []
    options = Options(max_iter=4, tol=1e-15, observe=seen.append)
    solve(source, start, Power(1.0), options)
    resumed = replace(options, resume=seen[1])
    count = len(seen)
    fresh = solve(source, start, Power(1.0), Options(max_iter=2, tol=1e-15))
    brief = solve(source, start, Power(1.0), resumed.brief(2))
    assert len(seen) == count
    assert brief.n_iter == 2
    assert np.array_equal(brief.objective, fresh.objective)
    assert len(solve(source, start, Power(1.0), resumed).objective) == 4


def test_a_fit_ends_though_some_directions_are_undetermined():
    """Samples of rank 1, of which two directions are asked for, in single precision."""
    rng = np.random.default_rng(0)
    X = (100 + rng.normal(size=(50, 6, 5))).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = make("GLRAM", (2, 2), tol=1e-12, max_iter=200).fit(X)
    assert model.converged_


def test_the_number_of_sweeps_is_not_decided_by_rounding(images):
    """Samples times 3 and a third are the same but for the last digits."""
    for name in ("MPCA", "R1-Tensor"):
        for tol in (1e-6, 1e-10):
            plain = make(name, (3, 2), tol=tol).fit(images)
            scaled = make(name, (3, 2), tol=tol).fit(images * 3 / 7)
            assert plain.n_iter_ == scaled.n_iter_
    one, other = CorrTensor((3, 2)).fit(images), CorrTensor((3, 2)).fit(images * 3 / 7)
    assert one.n_iter_ == other.n_iter_


@pytest.mark.parametrize("name", ["MPCA", "Corr-Tensor"])
def test_what_is_known_or_not_wanted_is_not_added_up(clean_images, name, monkeypatch):
    """Residuals of the start are measured once, and after the last sweep nothing else."""
    passes, reduce = [], Source.reduce
    # So many that the robust fit begins where the other does.
    clean_images = np.concatenate([clean_images, 1.01 * clean_images[::-1]])

    def noting(self, task, **given):
        if self.n_samples == len(clean_images):
            passes.append((type(task).__name__, getattr(task, "mode", None), sorted(given)))
        return reduce(self, task, **given)

    monkeypatch.setattr(Source, "reduce", noting)
    model = make(name, (3, 2)).fit(clean_images)
    assert model.converged_
    assert passes[-2][0] == "ResidualPass"  # the last of all learns the cores
    sweeps = [given for task, mode, given in passes if task == "SweepPass" and mode == 0]
    assert len(sweeps) == model.n_iter_
    assert ["squares" in given for given in sweeps] == [True] + [False] * (model.n_iter_ - 1)


def test_a_sweep_thought_to_be_the_last_is_followed_all_the_same(images, monkeypatch):
    """Where the projectors hardly turn, and the objective still falls too much to end."""
    with pytest.warns(ConvergenceWarning):
        expected = make("R1-Tensor", (3, 2), tol=0.0, max_iter=12).fit(images)
    monkeypatch.setattr(solver, "at_rest", lambda objective, *rest: len(objective) > 12)
    model = make("R1-Tensor", (3, 2)).fit(images)
    assert_allclose(model.objective_, expected.objective_, rtol=1e-12)
    assert_allclose(model.residuals_, expected.residuals_, rtol=1e-10)
