"""Faults in the middle: the estimator as before, files whole or absent, threads gone."""

import errno
import os
import threading

import numpy as np
import pytest

from corrtensor import CorrTensor, load, save
from corrtensor._engine.arrays.source import single_blas
from studies.torture.faults import (
    FAULTS,
    Broken,
    Unsteady,
    fitted,
    inject,
    left_as_it_was,
    quiet_fit,
)
from studies.torture.seeds import samples


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_fault_at_a_random_place(kind, number):
    assert inject(kind, number) is None


@pytest.mark.parametrize("error", [OSError("gone"), KeyboardInterrupt(), SystemExit()])
def test_every_pass_can_fail(error):
    """Reads from the first to the last, each of them once."""
    settings = {"scale": "median", "tol": 0.0, "max_iter": 2, "n_jobs": 2}
    steady = Unsteady(samples((40, 5, 4)), 0, error)
    model = quiet_fit(CorrTensor((2, 2), block_size=10, **settings), steady)
    whole = model.weights_.copy()
    for place in np.unique(np.linspace(1, steady.reads, 25).astype(int)):
        X = Unsteady(samples((40, 5, 4)), int(place), error)
        with pytest.raises(type(error)), left_as_it_was(model):
            quiet_fit(model, X)
    assert np.array_equal(model.weights_, whole)


def test_the_watch_over_what_is_left_can_fail(images):
    model = fitted()
    stop = threading.Event()

    def start_a_thread():
        threading.Thread(target=stop.wait).start()
        raise OSError

    def change():
        model.mean_ = None
        raise OSError

    with pytest.raises(Broken, match="threads are left"), left_as_it_was(model):
        start_a_thread()
    stop.set()
    with pytest.raises(Broken, match="estimator changed"), left_as_it_was(model):
        change()


def test_blas_is_let_go_while_the_traceback_is_kept(images):
    """An interactive session keeps the last traceback, and with it every frame."""
    X = Unsteady(samples((80, 5, 4)), 9, OSError("gone"))
    with pytest.raises(OSError, match="gone") as kept:
        quiet_fit(CorrTensor((2, 2), n_jobs=2, block_size=5), X)
    assert single_blas._users == 0
    assert kept.tb is not None


def test_threads_that_cannot_be_started(monkeypatch):
    """What the system says where too many run: the fit fails, the model stays."""
    model = fitted()

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="new thread"), left_as_it_was(model):
        quiet_fit(model, samples((160, 8, 7)))


@pytest.mark.parametrize("after", [0, 1, 3, 9])
def test_a_full_disk(tmp_path, monkeypatch, after):
    """ENOSPC in any write of a model file, and of a checkpoint."""
    monkeypatch.setattr("corrtensor._engine.checkpoint.EVERY", 0.0)
    path, model, writes = tmp_path / "model.ct", fitted(), 0
    save(CorrTensor((1, 1)), path)
    before = path.read_bytes()

    def full(descriptor):
        nonlocal writes
        writes += 1
        if writes > after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    kept = tmp_path / "fit.ckpt"
    again = CorrTensor((3, 2), max_iter=12, tol=0.0, checkpoint=kept)

    def save_until_full():
        # Each file asks for one or two: for itself, and for its folder.
        for _ in range(after + 1):
            save(model, path)
            assert path.read_bytes() != before

    with pytest.raises(OSError, match="No space left") as caught:
        save_until_full()
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="No space left"), left_as_it_was(again):
        quiet_fit(again, samples((60, 8, 7)))
    assert not list(tmp_path.glob(".*.part"))
    assert not kept.exists()
    assert after or path.read_bytes() == before


def test_the_command_line_goes_on_from_a_checkpoint(tmp_path, monkeypatch):
    """Interrupted in its second sweep; then called again, and once more with other data."""
    typer_testing = pytest.importorskip("typer.testing")
    from corrtensor.cli import build_app, steps

    monkeypatch.setattr("corrtensor._engine.checkpoint.EVERY", 0.0)
    X, kept, out = samples((60, 8, 7)), tmp_path / "fit.ckpt", tmp_path / "model.ct"
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "other.npy", 2 * X)

    def fit(name, target):
        options = ["--ranks", "3,2", "-o", str(target), "--checkpoint", str(kept)]
        return typer_testing.CliRunner().invoke(
            build_app(), ["fit", str(tmp_path / name), *options]
        )

    usual = steps.fit_with_progress

    def interrupted(voice, label, model, X):
        def stop(sweep, *_):
            if sweep == 2:
                raise KeyboardInterrupt

        model.set_params(callback=stop)
        model.fit(X)

    monkeypatch.setattr("corrtensor.cli.steps.fit_with_progress", interrupted)
    assert fit("X.npy", out).exit_code == 130
    assert kept.exists()
    assert not out.exists()
    monkeypatch.setattr("corrtensor.cli.steps.fit_with_progress", usual)
    refused = fit("other.npy", out)
    assert refused.exit_code == 1
    assert "other data" in refused.output
    assert fit("X.npy", out).exit_code == 0
    assert not kept.exists()
    assert np.array_equal(load(out).weights_, CorrTensor((3, 2)).fit(X).weights_)
