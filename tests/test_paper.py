"""The paper's studies: what they draw, what they measure, and how the command runs them."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor import CorrTensor
from corrtensor.correntropy import corr_loss
from corrtensor.datasets import block_outliers, load_faces, load_mnist_part
from corrtensor.losses import Correntropy
from corrtensor.methods import make
from corrtensor.metrics import clustering_accuracy
from corrtensor.tasks import DensityPeaksKMeans
from studies.paper import (
    COMPANIONS,
    NAMES,
    clusters,
    missing_data,
    recognition,
    reconstruction,
    study,
)
from studies.paper.__main__ import main
from studies.paper.images import SETS, STAND_INS, load, unit_norm
from studies.paper.pixels import pack, unpack
from studies.paper.published import published
from studies.paper.subspaces import build, printed
from studies.records import Trial, key_of, read_records, run

ROOT = Path(__file__).parents[1]
STUDIES = (*NAMES, *COMPANIONS.values())


@pytest.fixture(autouse=True)
def no_real_data(monkeypatch, tmp_path):
    """Whatever is not given a folder runs on what stands in."""
    monkeypatch.setenv("CORRTENSOR_DATA", str(tmp_path / "nothing"))


def test_all_of_the_paper_is_there():
    assert set(NAMES) == {f"fig{i}" for i in range(1, 12)} | {"table1", "table2", "table3"}
    with pytest.raises(ValueError, match="name='fig12': no such study; there are fig1"):
        study("fig12")


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_a_value(name):
    one = study(name)
    trials = one.trials(2)
    keys = {key_of(trial) for trial in trials}
    assert len(keys) == len(trials) == 2 * len(one.cells) > 0
    assert {trial.seed for trial in trials} == {0, 1}
    assert {trial.experiment for trial in trials} == {name}
    assert [key_of(t) for t in pickle.loads(pickle.dumps(one)).trials(2)] == [  # noqa: S301
        key_of(t) for t in trials
    ]
    # a record read back has the key of its trial
    assert all(key_of(json.loads(json.dumps(vars(t)))) in keys for t in trials)


def test_printed_numbers_are_complete():
    counts = {"table1": 11 * 4, "table2": 10 * 4, "table3": 10 * 4 * 2}
    for where, count in counts.items():
        cells = [n for n in published() if n.where == where]
        assert len(cells) == count
        assert len({(n.row, n.column, n.metric) for n in cells}) == count
        assert all(0 < n.mean < 1 and n.spread is not None and n.spread < 0.13 for n in cells)
    found = {(n.where, n.row, n.column, n.metric): (n.mean, n.spread) for n in published()}
    assert found["table1", "alpha=4, beta=0.8", 3000, "accuracy"] == (0.7783, 0.0005)
    assert found["table2", "colour, alpha=7, beta=3.5", 0.7, "accuracy"] == (0.6107, 0.0441)
    assert found["table3", "alpha=6, beta=0.7", 50, "nmi"] == (0.9248, 0.0217)
    assert found["table3", "L1-2DPCA", 10, "nmi"] == (0.9027, 0.0177)


OURS = {"ours", "ours, colour", "ours, K-means"}


@pytest.mark.filterwarnings("ignore:Graph is not fully connected:UserWarning")
def test_clusters_of_neighbours_leave_out_what_does_not_count():
    """Ten groups and a sample far from all: it bends no cluster, and gets its neighbour's."""
    from studies.paper.clusters import by_neighbours

    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(10), 20)
    X = 10 * rng.normal(size=(10, 4, 3))[truth] + rng.normal(size=(200, 4, 3))
    X = np.concatenate([X, X[-1:] + 1e4 * (X[-1:] - X.mean(axis=0))])
    found = by_neighbours(X, np.arange(201) < 200, 0)
    assert clustering_accuracy(truth, found[:200]) == 1.0
    assert found[200] == found[199]


@pytest.mark.parametrize("name", ["table1", "table2", "table3"])
def test_every_printed_row_is_run(name):
    rows = {n.row for n in published() if n.where == name}
    assert rows == {cell.method for cell in study(name).cells} - OURS


def test_what_stands_in_is_there():
    assert missing_data() == STAND_INS
    for name in STAND_INS.values():
        images, labels = load(name, None)
        assert len(images) == len(labels)
        assert images.min() >= 0
    assert set(STAND_INS) | set(STAND_INS.values()) <= set(SETS)


@pytest.mark.data
def test_columns_are_those_of_the_paper(data_dir):
    for name in ("table1", "table2", "table3"):
        columns = {n.column for n in published() if n.where == name}
        cases = (cell.case for cell in study(name, data_dir).cells)
        assert {float(case["train"] if "train" in case else case["npc"]) for case in cases} == (
            columns
        )
    npcs = {cell.case["npc"] for cell in study("fig2", data_dir).cells}
    assert npcs == set(range(20, 100, 10))
    assert load("Yale 100x100", data_dir)[0].shape == (165, 100, 100)
    assert load("ORL 10 people", data_dir)[0].shape == (100, 112, 92)
    assert len(load("LFW grey", data_dir)[0]) == 236 + 121 + 530 + 109 + 144
    assert load("LFW Mauresmo", data_dir)[0].shape == (21, 64, 64, 3)


def test_surface_is_the_corr_loss():
    result = study("fig1").measure(study("fig1").trials(1)[0])
    alpha = study("fig1").trials(1)[0].parameters["alpha"]
    axis = np.array(result["axis"])
    pair = np.array([axis[3], axis[17]])
    expected = corr_loss(pair, np.zeros(2), alpha, 0.8)
    assert result["loss"][3][17] == pytest.approx(expected, abs=1e-5)


def test_pictures_survive_the_record():
    image = np.random.default_rng(0).random((5, 4, 3))
    packed = json.loads(json.dumps(pack(image)))
    assert_allclose(unpack(packed), image, atol=0.5 / 255 + 1e-12)


FACES = {"data": "small faces 25x25", "outliers": "block", "n_outliers": 18, "npc": 8}


def covered(seed):
    faces = load_faces()
    return block_outliers(faces.images[faces.target == 1], 18, np.random.default_rng(seed))


def test_errors_agree_with_a_fit_by_hand():
    X, bad = covered(3)
    trial = Trial("fig2", FACES, "2DSVD", {"name": "2DSVD", "ranks": [8, 8]}, 3)
    by_hand = make("2DSVD", (8, 8)).fit(X).residuals(X[~bad]).mean()
    assert reconstruction.reconstruct(trial, None)["error"] == pytest.approx(by_hand)


def test_unit_norm_is_undone_before_errors_are_taken():
    """With the rows left whole and all columns but one, the residual is one direction's energy."""
    X, bad = covered(0)
    settings = {"name": "MPCA", "ranks": [None, 24], "center": None, "units": "unit norm"}
    trial = Trial("fig2", FACES, "x", settings, 0)
    U = np.linalg.svd(unit_norm(X).reshape(-1, 25), full_matrices=False)[2][-1]
    expected = np.square(X[~bad] @ U).sum(axis=1).mean()
    assert reconstruction.reconstruct(trial, None)["error"] == pytest.approx(expected)


def test_ours_is_told_nothing(monkeypatch):
    """The oracle sees the truth; ours only the weights of the default fit, right or wrong."""
    X, bad = covered(1)
    key = "small faces 25x25", None, "block", 18, 1
    assert_allclose(reconstruction.judged(*key), CorrTensor().fit(X).weights_)
    kept = np.arange(len(X)) % 3 > 0
    monkeypatch.setattr(reconstruction, "judged", lambda *key: kept.astype(float))
    trial = Trial("fig2", FACES, "ours", {"name": "MPCA", "ranks": [8, 8]}, 1)
    result = reconstruction.reconstruct(trial, None)
    assert result["error"] == pytest.approx(
        make("MPCA", (8, 8)).fit(X[kept]).residuals(X[~bad]).mean()
    )
    assert result["good_lost"] == (~kept & ~bad).sum() > 0
    assert result["bad_kept"] == (kept & bad).sum() > 0
    told = reconstruction.reconstruct(replace(trial, method="oracle"), None)
    assert (told["good_lost"], told["bad_kept"]) == (0, 0)


def test_training_images_are_drawn_by_class_and_not_tested():
    X, y, X_test, y_test = recognition.draw("MNIST part", None, 50, 0, "pixels", "random")
    assert_array_equal(np.bincount(y), 50)
    assert_array_equal(np.bincount(y_test), 450)
    big = X.max(axis=(1, 2)) > 1
    assert big.sum() == 25
    every = {image.tobytes() for image in load_mnist_part().images}
    both = np.concatenate([np.where(big[:, None, None], X / 50, X), X_test])
    seen = [np.rint(image * 255).astype(np.uint8).tobytes() for image in both]
    assert set(seen) == every
    again = recognition.draw("MNIST part", None, 50, 0, "unit norm", "random")
    assert_array_equal(again[1], y)
    norms = np.linalg.norm(again[0], axis=(1, 2))
    assert_allclose(norms[~big], 1)
    assert_allclose(norms[big], 50)


@pytest.mark.parametrize("labels", ["random", "largest class", "none"])
@pytest.mark.parametrize("units", ["pixels", "unit norm", "unit norm, noise too"])
def test_noise_images_in_every_reading(units, labels):
    X, y, X_test, _ = recognition.draw("digits 8x8", None, 0.5, 1, units, labels)
    noise, said = X[-10:], y[-10:]
    assert len(X) + len(X_test) == 1797 + 10
    norms = np.linalg.norm(noise, axis=(1, 2))
    if units == "unit norm, noise too":
        assert_allclose(norms, 1)
    else:
        assert 0.4 < noise.mean() < 0.6
    if units != "pixels":
        assert_allclose(np.linalg.norm(X[:-10], axis=(1, 2)), 1)
        assert_allclose(np.linalg.norm(X_test, axis=(1, 2)), 1)
    counts = np.bincount(y[:-10])
    expected = {"none": {-1}, "largest class": {int(counts.argmax())}}
    assert set(said.tolist()) <= expected.get(labels, set(range(10)))


def test_clusters_agree_with_a_run_by_hand():
    images, labels = load("MNIST 10 each", None)
    noise = np.random.default_rng(2).uniform(0, 1, (20, 28, 28))
    cores = make("2DSVD", (10, 10)).fit(np.concatenate([images, noise])).transform(images)
    means = DensityPeaksKMeans(10, cutoff=0.02, n_init=0, random_state=2).fit(cores)
    settings = clusters.clustering({"name": "2DSVD", "ranks": [10, 10]})
    trial = Trial("fig9", {"data": "MNIST 10 each", "npc": 10}, "2DSVD", settings, 2)
    result = clusters.cluster(trial, None)
    assert result["accuracy"] == clustering_accuracy(labels, means.labels_)
    assert result["chosen"] == means.decision_graph_.chosen.tolist()
    assert_allclose(result["rho"], means.decision_graph_.rho, atol=1e-5)


def test_without_the_cap_the_loss_is_the_printed_one():
    assert build(printed(4, 4, 0.8, cap=False)).loss.cap is False
    assert build(printed(4, 4, 0.8)).loss == Correntropy(4, 0.8, scale=None)
    names = {cell.method for cell in study("fig7").cells}
    assert {f"alpha=4, beta=0.8, p={p}, no cap" for p in (4, 6, 8, 10)} < names


def test_failure_is_a_record(tmp_path):
    one = study("fig6")
    wrong = replace(one.cells[0], parameters={**one.cells[0].parameters, "ranks": [99, 9, 3]})
    path = tmp_path / "fig6.jsonl"
    list(run(replace(one, cells=(wrong,)), path))
    (record,) = read_records(path)
    assert record["result"] is None
    assert "99" in record["error"]


def test_command_runs_and_resumes(call_study, tmp_path):
    call = ["fig1", "fig4", "--jobs", "1", "--out", str(tmp_path)]
    answer = call_study(main, *call)
    assert answer.exit_code == 0, answer.output
    assert "9 records" in answer.stdout
    assert "Yale 100x100 not found: small faces 25x25 stands in" in answer.stderr
    records = {p.name: p.read_bytes() for p in (tmp_path / "records").iterdir()}
    assert set(records) == {"fig1.jsonl", "fig4.jsonl"}
    assert str(tmp_path).encode() not in b"".join(records.values())
    assert (tmp_path / "reproduction" / "fig4.png").read_bytes().startswith(b"\x89PNG")
    assert call_study(main, *call).exit_code == 0
    assert {p.name: p.read_bytes() for p in (tmp_path / "records").iterdir()} == records


def test_the_page_alone_runs_nothing(call_study, tmp_path):
    answer = call_study(main, "--page", "--out", str(tmp_path))
    assert answer.exit_code == 1
    assert "no records of the paper" in answer.stderr
    assert list(tmp_path.iterdir()) == []
    list(run(study("fig1"), tmp_path / "records" / "fig1.jsonl"))
    answer = call_study(main, "fig4", "--page", "--out", str(tmp_path))
    assert answer.exit_code == 0, answer.output
    assert [p.name for p in (tmp_path / "records").iterdir()] == ["fig1.jsonl"]
    assert "Fig. 1:" in (tmp_path / "reproduction.md").read_text(encoding="utf-8")


def test_another_name_is_refused_before_any_work(call_study, tmp_path):
    answer = call_study(main, "table9", "--out", str(tmp_path / "out"))
    assert answer.exit_code == 2
    assert "table9: no such experiment; there are fig1" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_killed_and_started_again(tmp_path):
    """Kill -9 in the middle: started again, no record twice, none lost."""
    command = [sys.executable, "-m", "studies.paper", "fig9", "--jobs", "1"]
    command += ["--out", str(tmp_path)]
    path = tmp_path / "records" / "fig9.jsonl"
    first = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 300
    while not (path.exists() and path.read_bytes().count(b"\n") >= 2):
        assert first.poll() is None, "ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    before = path.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]
    wanted = {key_of(trial) for trial in study("fig9").trials(1)}
    assert 2 <= whole.count(b"\n") < len(wanted)
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    after = path.read_bytes()
    assert after.startswith(whole)
    keys = [key_of(json.loads(line)) for line in after.splitlines()]
    assert sorted(keys) == sorted(wanted)


@pytest.mark.data
@pytest.mark.parametrize("kind", ["noise", "block"])
def test_fig2_ours_is_near_the_oracle_and_below_the_baselines(data_dir, kind):
    """At the numbers of components where the fit at these ranks itself falls short."""

    def error(method, settings, npc):
        case = {"data": "Yale 100x100", "outliers": kind, "n_outliers": 30, "npc": npc}
        return reconstruction.reconstruct(Trial("fig2", case, method, settings, 1), data_dir)[
            "error"
        ]

    for npc in (30, 90):
        known = reconstruction.compared(npc)
        for name in ("ours", "ours, one-sided"):
            oracle = name.replace("ours", "oracle")
            assert error(name, known[name], npc) <= 1.02 * error(oracle, known[oracle], npc)
        ours = error("ours, one-sided", known["ours, one-sided"], npc)
        assert all(ours < error(n, known[n], npc) for n in ("2DPCA", "2DSVD", "R1-2DSVD"))


@pytest.mark.data
def test_tables_ours_in_one_cell_each(data_dir):
    faces = Trial(
        "table2",
        {"data": "LFW grey", "train": 0.7},
        "ours",
        {"classifier": "LDA of cores", "units": "pixels", "labels": "random"},
        0,
    )
    assert recognition.classify(faces, data_dir)["accuracy"] >= 0.75
    case = {"data": "ORL 10 people", "npc": 50}
    people = Trial("table3", case, "ours", clusters.rows(50)["ours"], 0)
    assert clusters.cluster(people, data_dir)["accuracy"] >= 0.95
