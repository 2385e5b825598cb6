"""A killed fit goes on and ends with the same bits."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest

from corrtensor import CorrTensor, make
from corrtensor._engine.checkpoint import FORMAT
from corrtensor.io.model_file import read, write
from corrtensor.storage import ModelFileError

SLOW = {"scale": "median", "tol": 0.0, "max_iter": 30}


@pytest.fixture(autouse=True)
def _every_sweep(monkeypatch):
    monkeypatch.setattr("corrtensor._engine.checkpoint.EVERY", 0.0)


def fit(model, X, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return model.fit(X, **kwargs)


class Killed(BaseException):
    """Not an ``Exception``, as little as a signal is."""


def kill_at(sweep):
    def callback(now, *_):
        if now == sweep:
            raise Killed

    return callback


def same(a, b):
    assert a.n_iter_ == b.n_iter_
    for name in ("mean_", "weights_", "residuals_", "objective_"):
        assert np.array_equal(getattr(a, name), getattr(b, name)), name
    for U, V in zip(a.factors_, b.factors_, strict=True):
        assert np.array_equal(U, V)


@pytest.mark.parametrize("sweep", [1, 2, 7])
@pytest.mark.parametrize(
    "settings",
    [SLOW, {"tol": 1e-15}, {"ranks": 0.9, **SLOW}, {"ranks": (3, 7), **SLOW}],
    ids=["plain start", "defaults", "ranks by energy", "a whole mode"],
)
def test_a_fit_goes_on_where_it_was(images, tmp_path, settings, sweep):
    settings = {"ranks": (3, 2), **settings}
    whole = fit(CorrTensor(**settings), images)
    file = tmp_path / "fit.ckpt"
    broken = CorrTensor(**settings, checkpoint=file, callback=kill_at(sweep))
    try:
        fit(broken, images)
    except Killed:
        assert file.exists()
        assert not hasattr(broken, "mean_")
    again = fit(CorrTensor(**settings, checkpoint=file), images)
    same(again, whole)
    assert again.diagnostics_["effective_samples"] == whole.diagnostics_["effective_samples"]
    assert not file.exists()


def test_it_really_goes_on(images, tmp_path):
    file, seen = tmp_path / "fit.ckpt", []
    with pytest.raises(Killed):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file, callback=kill_at(9)), images)
    fit(CorrTensor((3, 2), **SLOW, checkpoint=file, callback=lambda n, *_: seen.append(n)), images)
    assert seen[0] == 10


@pytest.mark.parametrize("name", ["MPCA", "R1-Tensor", "GLRAM"])
def test_other_losses(images, tmp_path, name):
    file = tmp_path / "fit.ckpt"
    settings = {"tol": 0.0, "max_iter": 12}
    with pytest.raises(Killed):
        fit(make(name, (3, 2), checkpoint=file, callback=kill_at(4), **settings), images)
    again = fit(make(name, (3, 2), checkpoint=file, **settings), images)
    same(again, fit(make(name, (3, 2), **settings), images))


def left_behind(images, tmp_path):
    file = tmp_path / "fit.ckpt"
    with pytest.raises(Killed):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file, callback=kill_at(3)), images)
    return file


def test_other_data_are_refused(images, tmp_path):
    file = left_behind(images, tmp_path)
    kept = file.read_bytes()
    changed = images.copy()
    changed[17, 3, 2] *= -1
    with pytest.raises(ValueError, match=r"fit\.ckpt.*other data"):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file), changed)
    with pytest.raises(ValueError, match="other data"):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file), images, sample_weight=[2.0] * 60)
    assert file.read_bytes() == kept


def test_the_same_samples_in_another_order_are_other_data(images, tmp_path):
    """Residuals and weights are kept by the place of their samples."""
    file = left_behind(images, tmp_path)
    order = np.r_[1, 0, 2:60]
    with pytest.raises(ValueError, match="other data"):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file), images[order])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda U: 2 * U,
        lambda U: U[:, [0] * U.shape[1]],
        lambda U: U * np.nan,
        lambda U: U.astype(np.float32),
        lambda U: U[:, 0],
    ],
    ids=["longer", "one direction", "NaN", "single precision", "a vector"],
)
@pytest.mark.parametrize("mode", [0, 1])
def test_factors_of_a_checkpoint_are_orthonormal(images, tmp_path, spoil, mode):
    file = left_behind(images, tmp_path)
    kept = read(file, FORMAT)
    factors = list(kept["snapshot"].state.factors)
    factors[mode] = spoil(factors[mode])
    state = replace(kept["snapshot"].state, factors=tuple(factors))
    write({**kept, "snapshot": replace(kept["snapshot"], state=state)}, file, FORMAT)
    with pytest.raises(ModelFileError, match=r"fit\.ckpt holds no corrtensor checkpoint"):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file), images)


def test_other_settings_are_refused_and_named(images, tmp_path):
    file = left_behind(images, tmp_path)
    with pytest.raises(ValueError, match="other beta"):
        fit(CorrTensor((3, 2), beta=1.0, **SLOW, checkpoint=file), images)


def test_a_damaged_file_is_refused(images, tmp_path):
    file = left_behind(images, tmp_path)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"fit\.ckpt.*checksum"):
        fit(CorrTensor((3, 2), **SLOW, checkpoint=file), images)


def test_no_file_name(images):
    with pytest.raises(TypeError, match="checkpoint=5"):
        CorrTensor((3, 2), checkpoint=5).fit(images)


def test_kill_9_in_the_middle(images, tmp_path):
    """A real process, a real signal, several times over."""
    np.save(tmp_path / "X.npy", images)
    script = textwrap.dedent(
        """
        import sys, time, warnings
        import numpy as np
        import corrtensor._engine.checkpoint
        from corrtensor import CorrTensor
        warnings.simplefilter("ignore")
        corrtensor._engine.checkpoint.EVERY = 0.0
        settings = {"scale": "median", "tol": 0.0, "max_iter": 30}
        slow = lambda *_: time.sleep(0.05)
        model = CorrTensor((3, 2), checkpoint="fit.ckpt", callback=slow, **settings)
        print("ready", flush=True)
        model.fit(np.load("X.npy"))
        np.savez("done.npz", *model.factors_, weights=model.weights_)
        """
    )
    kills = 0
    for wait in (0.3, 0.5, None):
        with subprocess.Popen(
            [sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE
        ) as process:
            process.stdout.readline()
            deadline = time.monotonic() + 300
            while wait is not None and process.poll() is None and time.monotonic() < deadline:
                if (tmp_path / "fit.ckpt").exists():
                    time.sleep(wait)
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.01)
        if (tmp_path / "done.npz").exists():
            break
    assert kills >= 1
    done = np.load(tmp_path / "done.npz")
    whole = fit(CorrTensor((3, 2), **SLOW), images)
    assert np.array_equal(done["weights"], whole.weights_)
    assert np.array_equal(done["arr_0"], whole.factors_[0])
    assert {p.name for p in tmp_path.iterdir()} <= {"X.npy", "done.npz"} | {
        p.name for p in tmp_path.glob(".*.part")
    }
