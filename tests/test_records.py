"""Records: killed at any byte, resumed, never done twice; failures are records too."""

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from studies.records import Trial, key_of, read_records, run


@dataclass(frozen=True)
class Squares:
    """Squares of numbers; each trial leaves a line in a file, so that repeats can be seen."""

    seen: Path
    cases: int = 3
    gate: Path | None = None
    name: str = "squares"

    def trials(self, n):
        return [
            Trial(self.name, {"number": number}, "plain", {"power": [2, None]}, seed)
            for seed in range(n)
            for number in range(self.cases)
        ]

    def measure(self, trial):
        number = trial.case["number"]
        with self.seen.open("a") as seen:
            seen.write(f"{number} {trial.seed}\n")
        while self.gate is not None and number >= 20 and not self.gate.exists():
            time.sleep(0.01)
        if number == 1:
            raise ValueError(f"no square of 1 in {self.seen} and no /usr/lib/x.so")
        if number == 2 and trial.seed == 1:
            return {"square": float("nan")}
        return {"square": number**2}


@pytest.fixture
def squares(tmp_path):
    return Squares(tmp_path / "seen")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new folder" / "squares.jsonl"


def finish(*arguments):
    return list(run(*arguments))


def test_a_record_is_a_line_with_key_numbers_and_origin(squares, path):
    finish(squares, path)
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    record = json.loads(lines[2])
    assert record["experiment"] == "squares"
    assert record["case"] == {"number": 2}
    assert (record["method"], record["parameters"], record["seed"]) == (
        "plain",
        {"power": [2, None]},
        0,
    )
    assert (record["result"], record["error"]) == ({"square": 4}, None)
    assert 0 <= record["seconds"] < 10
    assert set(record["versions"]) == {"python", "corrtensor", "numpy", "scipy", "scikit-learn"}
    assert set(record["machine"]) == {"cpus", "platform"}


def test_progress_counts_what_is_there_and_what_is_new(squares, path):
    assert [(p.done, p.total) for p in run(squares, path)] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [(p.done, p.total) for p in run(squares, path, 2)] == [(3, 6), (4, 6), (5, 6), (6, 6)]
    assert [(p.done, p.record) for p in run(squares, path, 2)] == [(6, None)]


def test_a_failure_is_a_record_without_paths_and_not_tried_again(squares, path):
    finish(squares, path)
    finish(squares, path)
    failed = [r for r in read_records(path) if r["error"]]
    assert [r["case"]["number"] for r in failed] == [1]
    assert failed[0]["result"] is None
    assert failed[0]["error"] == "ValueError: no square of 1 in seen and no x.so"
    assert squares.seen.read_text().count("1 0\n") == 1


def test_a_number_that_json_has_not_is_a_failure(squares, path):
    finish(squares, path, 2)
    last = read_records(path)[-1]
    assert last["result"] is None
    assert last["error"].startswith("ValueError")
    assert "NaN" not in path.read_text()


def test_torn_anywhere_it_resumes_to_the_same_records(squares, path):
    finish(squares, path)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]

    def kept(content):
        return [{**r, "seconds": None} for r in map(json.loads, content.splitlines())]

    for cut in {0, 1, *ends, *(end - 1 for end in ends), *(end + 7 for end in ends[:-1])}:
        path.write_bytes(whole[:cut])
        complete = sum(end <= cut for end in ends)
        assert len(read_records(path)) == complete
        assert len(finish(squares, path)) == 1 + 3 - complete
        assert kept(path.read_bytes()) == kept(whole)


def test_a_bad_line_that_is_not_the_last_is_named(squares, path):
    finish(squares, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + "garbage\n" + lines[1])
    with pytest.raises(ValueError, match=r"squares\.jsonl, line 2 is no record"):
        read_records(path)
    path.write_text(lines[0] + '{"experiment": "squares"}\n')
    with pytest.raises(ValueError, match=r"line 2 is no record.*case"):
        read_records(path)


def test_of_two_records_with_one_key_the_first_counts(squares, path):
    finish(squares, path)
    first = path.read_text()
    path.write_text(first + first.replace('"square": 4', '"square": 5'))
    assert [r["result"] for r in read_records(path)] == [{"square": 0}, None, {"square": 4}]


def test_the_key_ignores_order_and_kinds_of_sequence():
    one = Trial("e", {"a": 1, "b": 2}, "m", {"ranks": (2, 3)}, 0)
    other = Trial("e", {"b": 2, "a": 1}, "m", {"ranks": [2, 3]}, 0)
    assert key_of(one) == key_of(other) == key_of(json.loads(json.dumps(vars(one))))
    for changed in (
        Trial("f", one.case, "m", one.parameters, 0),
        Trial("e", {"a": 1, "b": 3}, "m", one.parameters, 0),
        Trial("e", one.case, "n", one.parameters, 0),
        Trial("e", one.case, "m", {"ranks": (2, 4)}, 0),
        Trial("e", one.case, "m", one.parameters, 1),
    ):
        assert key_of(changed) != key_of(one)


@pytest.mark.parametrize(("trials", "jobs"), [(0, 1), (1, 0)])
def test_wrong_counts_are_refused_before_a_file_is_made(squares, path, trials, jobs):
    with pytest.raises(ValueError, match="at least 1"):
        finish(squares, path, trials, jobs)
    assert not path.exists()


def test_no_file_has_no_records(tmp_path):
    assert read_records(tmp_path / "nothing.jsonl") == []


MODULE = """
import time
from dataclasses import dataclass
from pathlib import Path
from studies.records import Trial
"""
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from {module} import Squares
from studies.records import run
if __name__ == "__main__":
    experiment = Squares(Path({seen!r}), cases=40, gate=Path({gate!r}))
    for progress in run(experiment, {path!r}, 1, 2):
        print(progress.done, flush=True)
"""


def test_killed_for_good_it_loses_nothing_and_leaves_no_workers(tmp_path):
    """Two processes work; the parent is killed without a chance to clean up, then run again.

    Half of the trials wait for a gate that opens after the kill, so that none is too late.
    """
    seen, path, gate = tmp_path / "seen", tmp_path / "r.jsonl", tmp_path / "gate"
    # A module of its own, without pytest: workers import the experiment by its name.
    (tmp_path / "squares_module.py").write_text(MODULE + inspect.getsource(Squares))
    places = {"folder": str(tmp_path), "seen": str(seen), "path": str(path), "gate": str(gate)}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(module="squares_module", **places), encoding="utf-8")
    here = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": here}

    def start():
        return subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=environment
        )

    first = start()
    while first.stdout.readline().strip() != "5":
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    # Workers notice that they are alone: nobody is left who holds the other end of the pipe.
    first.communicate()
    before = read_records(path)
    assert 5 <= len(before) <= 20
    assert len(seen.read_text().splitlines()) < 40

    gate.touch()
    second = start()
    second.communicate()
    assert second.returncode == 0
    after = read_records(path)
    assert after[: len(before)] == before
    assert sorted(r["case"]["number"] for r in after) == list(range(40))
    # What was recorded was not done again; what the kill caught midway was.
    runs = seen.read_text().splitlines()
    assert all(runs.count(f"{r['case']['number']} 0") == 1 for r in before)
