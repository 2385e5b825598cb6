"""Files made on purpose: bounded time and memory, nothing else read, written, started or called.

``crafted.py`` has the cases; ``docs/reliability.md`` says what a file may make us do.
"""

import csv
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import corrtensor as ct
from corrtensor._base import names
from corrtensor._base.files import held, open_regular, replacing
from corrtensor.cli import steps
from tests import crafted

crafted.warm_up()
ROOT = Path(__file__).parents[1]
LIBRARIES = [sys.prefix, sys.base_prefix, str(ROOT), "/usr/lib", "/usr/local/lib", "/lib"]
SYSTEM = ["/proc", "/sys", "/dev/null", "/etc/ld.so.cache", "/etc/ssl", "/usr/share"]


class Reached(BaseException):
    """Something that a file may not make us do; no reader can mistake it for an error."""


def watch(folder):
    """Return a function after which Python raises whatever a case reaches outside its folder."""

    def forbid(event, arguments):
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.fork", "socket.connect"):
            raise Reached(f"{event} {arguments}")
        if event == "open" and isinstance(arguments[0], str | bytes):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not allowed(path, folder):
                raise Reached(f"open {path}")

    def guard():
        tempfile.tempdir = str(folder / "tmp")
        os.mkdir(tempfile.tempdir)
        sys.addaudithook(forbid)

    return guard


def allowed(path, folder):
    """Tell whether a path is in the folder of a case, and not the secret; or a library."""
    if path.startswith(f"{folder}/") or path == str(folder):
        return not path.startswith(f"{folder}/secret")
    return any(path == place or path.startswith(f"{place}/") for place in [*LIBRARIES, *SYSTEM])


@pytest.mark.parametrize("name", crafted.CASES)
def test_a_crafted_file(name, tmp_path):
    """It ends as documented, in 5 s and 500 MB, and reaches nothing outside its folder."""
    folder = tmp_path / "case"
    figures = crafted.try_apart(name, folder, watch(folder))
    assert figures["wrong"] is None


def test_there_are_enough_of_every_kind():
    kinds = {one.kind for one in crafted.CASES.values()}
    assert len(crafted.CASES) >= 40
    assert kinds >= {"folder", "picture", "npy", "npz", "mat", "hdf5", "zarr", "tiff", "video"}
    assert kinds >= {"labels", "model", "cluster", "names", "output"}


def test_the_trial_of_cases_can_fail(tmp_path, monkeypatch):
    """By time, memory, an undocumented error, the end of the process, and what is reached."""

    def attempt(action, says=None):
        made = crafted.Case("x", "x", lambda folder: action, says)
        monkeypatch.setitem(crafted.CASES, "x", made)
        folder = Path(tempfile.mkdtemp(dir=tmp_path)) / "case"
        return crafted.try_apart("x", folder, watch(folder))["wrong"]

    def busy():
        began = time.process_time()
        while time.process_time() - began < 0.3:
            pass

    def refuse():
        raise ValueError("no such thing")

    monkeypatch.setattr(crafted, "SECONDS", 0.2)
    assert attempt(lambda: 1) is None
    assert attempt(refuse, "no such") is None
    assert "other words" not in attempt(refuse, "other words")
    assert attempt(lambda: 1, "no such") == "it was not refused"
    assert "it took" in attempt(busy)
    assert "ZeroDivisionError" in attempt(lambda: 1 / 0)
    assert "ended or hung" in attempt(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with monkeypatch.context() as hasty:
        hasty.setattr(crafted, "PATIENCE", 0.5)
        assert "ended or hung" in attempt(lambda: time.sleep(600))
    assert "Reached: open /etc/passwd" in attempt(lambda: open("/etc/passwd").close())
    assert "Reached: subprocess" in attempt(lambda: subprocess.run(["true"], check=True))
    monkeypatch.setattr(crafted, "BYTES", 1 << 20)
    # Written to, and too large for what the process has left over; that takes its time.
    monkeypatch.setattr(crafted, "SECONDS", 5.0)
    assert "MB" in attempt(lambda: np.ones(1 << 25))


# Patience, not a bar: all cases in one traced process, on a machine that may have other work.
@pytest.mark.timeout(1800)
def test_nothing_else_is_opened_started_or_called(tmp_path):
    """By strace, which also sees what libraries in C do."""
    strace = shutil.which("strace")
    if strace is None:
        assert "CI" not in os.environ, "strace is missing"
        pytest.skip("strace is missing")
    log, folder, empty = tmp_path / "log", tmp_path / "cases", tmp_path / "empty"
    empty.mkdir()
    calls = "open,openat,openat2,creat,execve,execveat,fork,vfork,clone,clone3,connect"
    call = [strace, "-f", "-y", "-s", "4096", "-e", f"trace={calls}", "-o", str(log)]
    call += [sys.executable, "-m", "tests.crafted", str(folder)]
    given = [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    paths = {"PYTHONPATH": os.pathsep.join([f"{ROOT}", *given]), "TMPDIR": str(empty)}
    done = subprocess.run(
        call, cwd=empty, env={**os.environ, **paths}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    reached = read_log(log.read_text(encoding="utf-8", errors="replace"), folder, empty)
    assert set(reached) == set(crafted.ALL), "a case left no mark"
    for name in crafted.PLANTED:
        assert reached.pop(name), f"{name} was not seen"
    assert {name: seen for name, seen in reached.items() if seen} == {}


def read_log(log, folder, empty):
    """Return, case by case, what was reached that may not be."""
    name, reached = None, {}
    for line in log.splitlines():
        found = re.search(r'"/crafted mark/(begin (.*?)|end)"', line)
        if found:
            name = found[2]
            reached.setdefault(name, []) if name else None
        elif name is not None:
            found = re.search(r"\) += \d+<(/[^>]*)>$", line)
            path = as_named(found[1]) if found else None
            if path and not allowed_traced(path, folder / name, empty):
                reached[name].append(path)
            called = re.search(r"(execve|execveat|connect|fork|vfork|clone|clone3)\(", line)
            if called and "CLONE_THREAD" not in line:
                reached[name].append(line)
    return reached


def as_named(text):
    """Return a path that strace printed: bytes beyond ASCII by their numbers, as in C."""
    raw = re.sub(rb"\\([0-7]{1,3})", lambda number: bytes([int(number[1], 8)]), os.fsencode(text))
    return os.fsdecode(raw)


def test_traced_paths_in_other_letters():
    """As strace wrote them in a folder called "Prüfstand"."""
    mark = 'openat(AT_FDCWD, "/crafted mark/begin x", O_RDONLY) = -1 ENOENT\n'
    lines = [
        f'openat(AT_FDCWD, "f", O_RDONLY) = 3</home/Pr\\303\\274fstand/{where}/f>'
        for where in ("cases/x", "elsewhere")
    ]
    reached = read_log(mark + "\n".join(lines), Path("/home/Prüfstand/cases"), Path("/home/empty"))
    assert reached == {"x": ["/home/Prüfstand/elsewhere/f"]}


def allowed_traced(path, folder, empty):
    # Temporary files have no name there.
    return allowed(path, folder) or path == str(empty) or path.startswith(f"{empty}/#")


# ---- names


@given(st.text(st.characters(exclude_characters="\0/"), max_size=40))
def test_names_come_back(name):
    for write, back in ((names.printable, names.original), (names.cell, names.from_cell)):
        text = write(name)
        assert text.isprintable()
        assert back(text) == name
    assert not names.cell(name).startswith(("=", "+", "-", "@", "\t", "\r"))


def test_numbers_of_a_table_stay_numbers(tmp_path):
    steps.write_table(tmp_path / "x.csv", ("a", "b"), [("-1", -1.5), ("'x", -2)])
    with (tmp_path / "x.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["a", "b"], ["'-1", "-1.5"], ["''x", "-2"]]


# ---- outputs


def test_files_get_the_mode_of_the_umask_or_of_the_file_they_replace(tmp_path):
    usual = os.umask(0o027)
    try:
        with replacing(tmp_path / "new"):
            pass
        (tmp_path / "old").touch(0o600)
        with replacing(tmp_path / "old") as file:
            # Not even while it is written may others read what they could not read before.
            assert stat.S_IMODE(os.stat(file.name).st_mode) == 0o600
            assert Path(file.name).parent == tmp_path
        os.chmod(tmp_path / "old", 0o664)
        with replacing(tmp_path / "old"):
            pass
    finally:
        os.umask(usual)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == 0o664


def test_a_link_that_comes_while_a_file_is_written_is_not_followed(tmp_path):
    (tmp_path / "precious").write_text("precious")
    with replacing(tmp_path / "out") as file:
        file.write(b"new")
        (tmp_path / "out").symlink_to(tmp_path / "precious")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "out").read_text() == "new"
    assert not (tmp_path / "out").is_symlink()


def test_another_array_of_the_same_hdf5_file_is_no_input(tmp_path):
    import h5py

    model, x = crafted.trained(tmp_path)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["X"] = np.load(x)
    where = tmp_path / "x.h5"
    crafted.command("transform", model, f"{where}::X", "-o", f"{where}::cores")()
    with h5py.File(where) as file:
        assert set(file) == {"X", "cores"}
    with pytest.raises(ValueError, match="would be written over"):
        crafted.command("transform", model, f"{where}::X", "-o", f"{where}::X", code=2)()


def test_a_regular_file_is_what_is_opened(tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    with open_regular(tmp_path / "x", within=tmp_path) as file:
        assert file.read() == b"content"
    for path, words in ((tmp_path, "a folder"), ("/dev/zero", "a device")):
        with pytest.raises(OSError, match=words):
            open_regular(path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")


# ---- one run at a time


def test_a_lock_is_for_one_and_ends_with_its_block(tmp_path):
    with (
        held(tmp_path / "x"),
        pytest.raises(OSError, match="another run is writing it"),
        held(tmp_path / "x"),
    ):
        pass
    with held(tmp_path / "x"), held(tmp_path / "y"):
        assert sorted(os.listdir(tmp_path)) == [".x.lock", ".y.lock"]
    assert os.listdir(tmp_path) == []


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import sys, time\n"
        "from corrtensor._base.files import held\n"
        "with held(sys.argv[1]):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    call = [sys.executable, "-c", code, str(tmp_path / "x")]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(OSError, match="another run"), held(tmp_path / "x"):
            pass
        process.kill()
    assert os.listdir(tmp_path) == [".x.lock"]
    with held(tmp_path / "x"):
        pass
    assert os.listdir(tmp_path) == []


def test_locks_of_many_processes_hold_one_another_off(tmp_path):
    """Each counts up a number in a file, which is lost if two are inside at once."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from corrtensor._base.files import held\n"
        "done, file = 0, Path(sys.argv[1])\n"
        "while done < 100:\n"
        "    try:\n"
        "        with held(file):\n"
        "            n = int(file.read_text())\n"
        "            file.write_text('')\n"
        "            file.write_text(str(n + 1))\n"
        "        done += 1\n"
        "    except OSError:\n"
        "        time.sleep(0.0005)\n"
    )
    (tmp_path / "x").write_text("0")
    call = [sys.executable, "-c", code, str(tmp_path / "x")]
    processes = [subprocess.Popen(call, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate(timeout=300)[1] for process in processes]
    assert errors == [""] * 3
    assert (tmp_path / "x").read_text() == "300"


# ---- requests to end


def start(*arguments):
    # Under nohup, or behind a shell's "&", signals are ignored from birth: not here.
    heard = "from signal import *; [signal(s, SIG_DFL) for s in (SIGTERM, SIGHUP)]; "
    heard += "signal(SIGINT, default_int_handler); "
    code = heard + "from corrtensor.cli import main; main()"
    call = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(call, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def wait_for(found, process):
    until = time.monotonic() + 300
    while not found() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)


@pytest.mark.parametrize("request_to_end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_while_fitting(tmp_path, request_to_end):
    X = np.random.default_rng(0).integers(0, 256, (3000, 64, 64), dtype=np.uint8)
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "m.ct").write_bytes(b"precious")
    call = ("fit", tmp_path / "x.npy", "--ranks", "20,20", "-o", tmp_path / "m.ct", "--force")
    with start(*call) as process:
        wait_for((tmp_path / ".m.ct.lock").exists, process)
        time.sleep(0.5)
        process.send_signal(request_to_end)
        errors = process.stderr.read()
        process.wait(60)
    assert process.returncode == 128 + request_to_end, errors
    assert errors == "corrtensor: stopped; what was being written is not there\n"
    assert (tmp_path / "m.ct").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["m.ct", "x.npy"]


# What is cleaned up hangs on the kind of output; both requests take the same way to it.
@pytest.mark.parametrize(
    ("out", "request_to_end"),
    [
        ("c.npy", signal.SIGTERM),
        ("c.h5", signal.SIGHUP),
        ("c.zarr", signal.SIGTERM),
        ("pictures", signal.SIGHUP),
    ],
)
def test_a_request_to_end_while_writing(tmp_path, out, request_to_end):
    X = np.random.default_rng(0).integers(0, 256, (20000, 32, 32), dtype=np.uint8)
    np.save(tmp_path / "x.npy", X)
    ct.save(ct.make("2DSVD", (20, 20)).fit(X[:50]), tmp_path / "m.ct")

    def parts():
        return [p for p in tmp_path.iterdir() if p.name.endswith(".part")]

    call = ("reconstruct", tmp_path / "m.ct", tmp_path / "x.npy", "-o", tmp_path / out)
    with start(*call) as process:
        wait_for(parts, process)
        assert parts()
        process.send_signal(request_to_end)
        errors = process.stderr.read()
        process.wait(60)
    assert process.returncode == 128 + request_to_end, errors
    assert sorted(os.listdir(tmp_path)) == ["m.ct", "x.npy"]


def test_nohup_is_respected(tmp_path):
    code = textwrap.dedent(
        """
        import signal
        from corrtensor.cli.output import stop_on_signals
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        stop_on_signals()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert callable(signal.getsignal(signal.SIGTERM))
        """
    )
    subprocess.run([sys.executable, "-c", code], check=True)
