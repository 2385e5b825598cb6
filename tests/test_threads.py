"""Threads: started once for a fit, gone after it, never shared by accident."""

import gc
import multiprocessing
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from corrtensor import CorrTensor, make
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.passes import EachPass
from corrtensor._engine.threads import _team, at_once, single_blas, team, threads


@pytest.fixture
def stack():
    return np.random.default_rng(0).normal(size=(400, 9, 8))


@pytest.fixture
def started(monkeypatch):
    """The names of all threads started, in order."""
    names, start = [], threading.Thread.start

    def noting(self):
        names.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noting)
    return names


def test_a_fit_starts_its_threads_once(stack, started):
    before = threading.active_count()
    model = CorrTensor((3, 3), n_jobs=3, block_size=20, max_iter=4, tol=0.0)
    with pytest.warns(UserWarning, match="did not converge"):
        model.fit(stack)
    assert 1 <= len(started) <= 3
    assert threading.active_count() == before
    assert _team.pool is None


def test_passes_outside_a_fit_have_their_own(stack, started):
    model = CorrTensor((3, 3), n_jobs=2, block_size=20).fit(stack)
    del started[:]
    model.transform(stack)
    assert 1 <= len(started) <= 2


def test_another_number_of_threads_is_another_pool():
    with team(2), threads(2) as shared, threads(3) as other:
        assert shared is _team.pool
        assert other is not shared


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_a_fit_inside_a_fit(stack, n_jobs):
    """A callback may fit another model; both come out as they do alone."""
    # Few sweeps: noise takes many to come to rest, and each fits another model.
    options = {"n_jobs": 2, "block_size": 20, "tol": 1e-3}
    alone = make("MPCA", (3, 3), **options).fit(stack)
    undisturbed = CorrTensor((3, 3), **options).fit(stack)
    inner = []

    def fit_another(*seen):
        inner.append(make("MPCA", (3, 3), **{**options, "n_jobs": n_jobs}).fit(stack))

    outer = CorrTensor((3, 3), callback=fit_another, **options).fit(stack)
    assert len(inner) == outer.n_iter_ > 1
    for fitted, expected in ((inner[-1], alone), (outer, undisturbed)):
        assert np.array_equal(fitted.weights_, expected.weights_)
        assert np.array_equal(fitted.factors_[0], expected.factors_[0])


def test_a_thread_of_a_team_does_alone_what_it_was_given(stack, started):
    source = Source(stack, n_jobs=2, block_size=20)

    def work(weight):
        seen = set()

        def measure(x):
            seen.add(threading.get_ident())
            return weight * x.sum(axis=(1, 2))

        part = source.reduce(EachPass(measure))
        return seen == {threading.get_ident()}, np.concatenate(part.squares)

    with team(2):
        done = at_once(work, (1.0, 2.0, 3.0), 2)
    assert all(alone for alone, _ in done)
    assert len(started) <= 2
    for weight, (_, sums) in zip((1.0, 2.0, 3.0), done, strict=True):
        np.testing.assert_allclose(sums, weight * stack.sum(axis=(1, 2)), atol=1e-12)


def test_nothing_of_a_failed_pass_runs_on(stack):
    """An output that was filled with NaN stays so, though the pool of the fit lives on."""
    stack[:, 0, 0] = np.arange(len(stack))
    source = Source(stack, origin=np.zeros((9, 8)), unit=1.0, n_jobs=2, block_size=20)
    out, slow = np.zeros((400, 72)), threading.Event()

    def task(x):
        if x[0, 0, 0] == 0:
            raise RuntimeError("broken")
        slow.wait(0.2)
        return x.reshape(len(x), -1)

    with team(2):
        with pytest.raises(RuntimeError, match="broken"):
            source.fill(out, task)
        slow.wait(0.5)
    assert np.isnan(out).all()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_one_blas_thread_while_a_pass_runs(stack, n_jobs):
    """Threads of our own, each with threads of BLAS, would crowd the cores."""
    source = Source(stack, n_jobs=n_jobs, block_size=20)

    def count(blocks):
        for _ in blocks:
            pass
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        if count(()) == [1] * len(count(())):
            pytest.skip("this BLAS has one thread only")
        counts = list(source.map(count))
        assert len(counts) > 1
        assert {n for seen in counts for n in seen} == {1}
        assert 2 in count(())


def test_a_limit_that_is_collected_while_its_lock_is_held():
    """The garbage collector runs wherever something is made, also inside the lock."""

    def holding():
        with single_blas():
            yield

    held = holding()
    next(held)
    with single_blas._lock:
        del held
        gc.collect()
    assert single_blas._users == 0


class _NeverRestored:
    def restore_original_limits(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["set", "restored"])
def test_an_interrupt_while_the_limit_is(when, monkeypatch):
    usual = single_blas._set_threads

    def interrupted(count):
        usual(count)
        if count == 1 and when == "set":
            raise KeyboardInterrupt
        return _NeverRestored()

    with threadpool_limits(2, user_api="blas"):
        monkeypatch.setattr(single_blas, "_set_threads", interrupted)
        with pytest.raises(KeyboardInterrupt), single_blas():
            assert single_blas._users == 1
        assert single_blas._users == 0
        assert single_blas.threads() == 2


def _fit_in_child(stack, queue):
    queue.put(make("MPCA", (3, 3), n_jobs=2, block_size=20).fit(stack).objective_[-1])


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_fit(stack):
    """The child has none of the threads, and must not wait for them."""
    context, ends = multiprocessing.get_context("fork"), []

    def fork(*seen):
        queue = context.Queue()
        child = context.Process(target=_fit_in_child, args=(stack, queue))
        child.start()
        ends.append(queue.get(timeout=300))
        child.join(300)
        return True

    CorrTensor((3, 3), n_jobs=2, block_size=20, callback=fork).fit(stack)
    expected = make("MPCA", (3, 3), n_jobs=2, block_size=20).fit(stack).objective_[-1]
    assert ends == [expected]
