"""The same fit by workers in processes of their own, some of which are killed on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose
from sklearn.base import clone

pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

from corrtensor import CorrTensor, make  # noqa: E402
from corrtensor._engine.arrays import dask as dask_source  # noqa: E402
from corrtensor._engine.arrays import dask_held  # noqa: E402
from corrtensor.clusters import connect, spread  # noqa: E402
from studies.bench.dask_cases import bytes_of_sweep, count_sent  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    # Distributed's own, when connections of a worker that was killed are cleaned up.
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed:ResourceWarning",
)
PATIENCE = 120
# Workers import by name what the client sends them: studies too.
ROOT = Path(__file__).parents[1]


def start(module, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def start_worker(file):
    return start(
        "dask_worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny",
        "--no-dashboard", "--host", "127.0.0.1", "--memory-limit", "1GB",
    )  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A scheduler and two workers, each a process of its own; the file that tells where."""
    file = tmp_path_factory.mktemp("cluster") / "scheduler.json"
    processes = [
        start(
            "dask_scheduler", "--scheduler-file", str(file), "--port", "0",
            "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0",
        )
    ]  # fmt: skip
    try:
        deadline = time.monotonic() + PATIENCE
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        processes += [start_worker(file), start_worker(file)]
        yield file
    finally:
        for process in processes[::-1]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(scheduler_file=str(cluster), timeout=PATIENCE) as client:
        address = client.scheduler.address
        client.wait_for_workers(2, timeout=PATIENCE)
    with connect(address, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def stack(make_samples):
    return make_samples(2, n=3000, n_bad=300)


def on_disk(X, folder, rows):
    stored = zarr.create_array(folder / "x.zarr", data=X, chunks=(rows, *X.shape[1:]))
    return spread(stored, rows * X[0].nbytes)


def assert_same_fit(have, want):
    assert have.n_iter_ == want.n_iter_
    assert_allclose(have.weights_, want.weights_, atol=1e-8)
    for U, V in zip(have.factors_, want.factors_, strict=True):
        assert_allclose(U @ U.T, V @ V.T, atol=1e-8)


@pytest.mark.parametrize("share", [0.5, 0.0], ids=["held", "read again"])
def test_same_fit_in_other_processes(share, client, stack, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_held, "HELD_SHARE", share)
    X = on_disk(stack, tmp_path, 250)
    want, have = CorrTensor((3, 2)).fit(stack), CorrTensor((3, 2)).fit(X)
    assert_same_fit(have, want)
    assert_allclose(have.transform(X).compute(), want.transform(stack), atol=1e-8)
    assert_allclose(have.residuals(X).compute(), want.residuals_, rtol=1e-8)


def test_a_chunk_that_cannot_be_read_names_itself(client, stack, tmp_path):
    X = on_disk(stack, tmp_path, 250)
    chunk = tmp_path / "x.zarr" / "c" / "3" / "0" / "0"
    chunk.write_bytes(chunk.read_bytes()[:20])
    with pytest.raises(OSError, match=r"samples 750 to 999, the chunk .*could not be read"):
        make("MPCA", (3, 2)).fit(X)


def kill_during_sweep(monkeypatch, client, victim, pid):
    """Kill a process once it works on the second sweep; return what was seen."""
    seen = {"sweeps": 0, "busy": None, "unfinished": False}
    plain = dask_source.compute

    def watch():
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not seen["unfinished"]:
            busy = [str(key) for key in client.processing([victim]).get(victim, ())]
            if any("sweeppass" in key for key in busy):
                os.kill(pid, signal.SIGKILL)
                seen["busy"] = busy
                return

    def compute(graph, keys):
        if any("sweeppass" in str(key) for key in keys):
            seen["sweeps"] += 1
            if seen["sweeps"] == 3:
                thread = threading.Thread(target=watch)
                thread.start()
                values = plain(graph, keys)
                seen["unfinished"] = seen["busy"] is None
                thread.join()
                return values
        return plain(graph, keys)

    monkeypatch.setattr(dask_source, "compute", compute)
    return seen


@pytest.mark.parametrize(
    "share",
    [0.5, pytest.param(0.0, marks=pytest.mark.slow)],
    ids=["held", "read again"],
)
def test_a_worker_killed_during_a_sweep_changes_nothing(
    share, cluster, client, tmp_path, monkeypatch
):
    monkeypatch.setattr(dask_held, "HELD_SHARE", share)
    X = np.random.default_rng(0).integers(0, 255, (9000, 32, 32)).astype(np.uint8)
    model = CorrTensor((8, 8), scale="median", max_iter=3, tol=0.0)
    want = sweeps_only(model, X)
    process = start_worker(cluster)
    try:
        client.wait_for_workers(3, timeout=PATIENCE)
        pids = client.run(os.getpid)
        victim = next(address for address, pid in pids.items() if pid == process.pid)
        seen = kill_during_sweep(monkeypatch, client, victim, process.pid)
        have = sweeps_only(model, on_disk(X, tmp_path, 300))
    finally:
        process.kill()
        process.wait()
    assert seen["busy"], "the worker was not killed during a sweep"
    assert process.returncode == -signal.SIGKILL
    assert_same_fit(have, want)
    assert_allclose(have.mean_, want.mean_, atol=1e-8)


def sweeps_only(model, X):
    with pytest.warns(Warning, match="did not converge"):
        return clone(model).fit(X)


def test_bytes_sent_per_sweep(client):
    """What a sweep sends is what docs/scaling.md says, within 20 %."""
    N, shape, ranks, n_chunks, sweeps = 60_000, (8, 8), (3, 3), 6, 4
    X = np.random.default_rng(0).integers(0, 255, (N, *shape)).astype(np.uint8)
    lazy = client.persist(dask_array(X, N // n_chunks))
    distributed.wait(lazy)
    model = CorrTensor(ranks, scale="median", max_iter=1, tol=0.0)
    sweeps_only(model, lazy)
    sent = {}
    for count in (1, 1 + sweeps):
        with count_sent(client) as counted:
            sweeps_only(model.set_params(max_iter=count), lazy)
        sent[count] = counted.n_bytes
    measured = (sent[1 + sweeps] - sent[1]) / sweeps
    assert_allclose(measured, bytes_of_sweep(N, shape, ranks, n_chunks, 2), rtol=0.2)


def dask_array(X, rows):
    import dask.array as da

    return da.from_array(X, chunks=(rows, *X.shape[1:]))


def test_a_cluster_that_does_not_answer():
    with (
        pytest.raises(OSError, match=r"cluster='tcp://127.0.0.1:9': no scheduler answers"),
        connect("tcp://127.0.0.1:9", timeout=1),
    ):
        pass


def test_processes_started_here(stack):
    want = make("MPCA", (3, 2)).fit(stack)
    with connect("local:1") as local:
        assert len(local.scheduler_info()["workers"]) == 1
        assert_same_fit(make("MPCA", (3, 2)).fit(spread(stack, 500 * 56 * 8)), want)
