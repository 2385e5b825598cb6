"""Coverage-guided fuzzing of the readers that are written here: ``python -m tests.fuzz READER``.

Needs atheris (``pip install atheris``), which watches what each input reaches and mutates those
that reach something new. ``corpus`` has a few inputs that together reach what the long runs did;
``test_fuzz_corpus.py`` reads them again. ``docs/reliability.md`` quotes the figures.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

import numpy as np

CORPUS = Path(__file__).with_name("corpus")
# Stands between the members of a model file in an input, so that sums need not be guessed.
MARK = b"\n~member~\n"
# Lines of these modules are what a reader's coverage is counted in.
READERS = {
    "matlab": ("corrtensor.io.matlab",),
    "model": ("corrtensor.storage", "corrtensor.io.encoding"),
    "checkpoint": ("corrtensor.storage", "corrtensor.io.encoding", "corrtensor._engine.checkpoint"),
}
# And this, which only a model is read by.
NOT_ITS_OWN = {"matlab": (), "model": (), "checkpoint": ("load",)}
# Those lines of them that only writing reaches.
WRITING = ("save", "write", "keep", "remove", "options", "observe", "fingerprint", "encode")
WRITING += ("_Encoder", "_named", "_array", "_listed", "is_listed")
LONGEST = {"matlab": 2048, "model": 8192, "checkpoint": 8192}
# What may stand in the place of a value of a model file.
ODD: tuple[Any, ...] = (None, -1, 2**70, 1e308, "", "nan", [], {}, [1], {"array": 0})
ODD += ({"estimator": "CorrTensor", "params": {}, "state": {"mean_": 1}},)
ODD += ({"tuple": []}, {"float": "nan"}, {"dict": [[{"list": []}, 1]]}, {"objects": [1]})
# What a caller must expect.
DOCUMENTED = (ValueError, OSError)


def sealed(content: bytes) -> bytes:
    """Return the file that an input stands for: members packed, and the sum right.

    What begins as an archive gets a sum only, and what begins with ``raw`` nothing.
    """
    if content.startswith(b"raw"):
        return content[3:]
    if content.startswith(b"PK"):
        body = content + b"sha256:"
    else:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for k, member in enumerate(content.split(MARK)):
                archive.writestr(zipfile.ZipInfo(f"{k - 1}.npy" if k else "model.json"), member)
            archive.comment = b"sha256:" + b"0" * 64
        body = out.getvalue()[:-64]
    return body + hashlib.sha256(body).hexdigest().encode()


def unsealed(path: Path) -> bytes:
    """Return the input that stands for a file."""
    with zipfile.ZipFile(path) as archive:
        return MARK.join(archive.read(info) for info in archive.infolist())


def read_matlab(path: Path) -> None:
    """Open the samples of a MATLAB file."""
    from corrtensor.io import open_samples

    open_samples(path)[0:1]


def read_model(path: Path) -> None:
    """Load a model."""
    from corrtensor.storage import load

    load(path)


SETTINGS = {"scale": "median", "init": "2dsvd", "tol": 0.0, "max_iter": 4}


@cache
def begun() -> Any:
    """Return where a small fit begins."""
    from corrtensor._engine.arrays.source import Source
    from corrtensor._engine.start import spectral

    return spectral(Source(samples(), n_jobs=1), (2, 2), centered=True, weights=None)


def samples() -> np.ndarray:
    """Return samples with nothing special about them."""
    return np.random.default_rng(0).normal(size=(12, 6, 5))


def read_checkpoint(path: Path) -> None:
    """Look at a checkpoint as a fit of any settings does, and go on from it if it can be used."""
    from corrtensor import CorrTensor, subspace
    from corrtensor._engine.checkpoint import Checkpoint

    if Checkpoint(path, {}).resume(begun()) is None:
        return
    usual, subspace.fingerprint = subspace.fingerprint, lambda *_: {}
    try:
        model = CorrTensor((2, 2), **SETTINGS, checkpoint=path, n_jobs=1).fit(samples())
    finally:
        subspace.fingerprint = usual
    parts = (model.mean_, model.residuals_, model.objective_, model.weights_, *model.factors_)
    if not all(np.isfinite(part).all() for part in parts):
        raise AssertionError("a fit that went on from a checkpoint is not finite")


ENTRY: dict[str, tuple[str, Callable[[Path], None], Callable[[bytes], bytes]]] = {
    "matlab": ("x.mat", read_matlab, bytes),
    "model": ("x.ct", read_model, sealed),
    "checkpoint": ("x.ckpt", read_checkpoint, sealed),
}


def try_input(reader: str, content: bytes, folder: Path) -> str:
    """Give an input to a reader; any error but the documented ones comes through."""
    name, read, file_of = ENTRY[reader]
    (folder / name).write_bytes(file_of(content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read(folder / name)
        except DOCUMENTED:
            return "refused"
    return "read"


# ---- what the mutations begin with


def seeds(reader: str) -> Iterable[bytes]:
    """Yield inputs that can be read."""
    from scipy.io import savemat

    from corrtensor import CorrTensor, DensityPeaksKMeans, save
    from corrtensor._engine import checkpoint
    from corrtensor.io.model_file import write

    X = samples()
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(place) / ENTRY[reader][0]
        if reader == "matlab":
            for array in (X[:3, :2, :2], X[:2, :2, 0].astype("i2"), np.array([[1, "a"]], object)):
                for packed in (False, True):
                    savemat(path, {"X": array, "s": "t"}, do_compression=packed)
                    yield path.read_bytes()
        elif reader == "model":
            clusters = DensityPeaksKMeans(2, random_state=np.random.RandomState(0))
            for model in (CorrTensor((2, 2)), CorrTensor((2, 2)).fit(X), clusters.fit(X)):
                save(model, path)
                yield unsealed(path)
            write(small(), path, "corrtensor model")
            yield unsealed(path)
            yield from damaged(path)
        else:
            every, checkpoint.EVERY = checkpoint.EVERY, 0.0

            def stop(sweep: int, *_: Any) -> None:
                if sweep == 2:
                    raise KeyboardInterrupt

            try:
                CorrTensor((2, 2), **SETTINGS, checkpoint=path, callback=stop).fit(X)
            except KeyboardInterrupt:
                yield unsealed(path)
                yield from damaged(path)
            finally:
                checkpoint.EVERY = every


def damaged(path: Path) -> Iterable[bytes]:
    """Yield inputs that are refused in different places: what is like another is not kept."""
    content = path.read_bytes()
    body = content[: -len("sha256:") - 64]
    yield b"raw" + content[:-1]
    yield b"raw" + content[4:]
    yield body[:-40]
    yield body.replace(b"\0\0\0\0model.json", b"\0\0\0\x08model.json")


def small() -> Any:
    """Return a value of every kind that a file can hold."""
    texts = np.array(["a", None], object)
    return {"a": (1, 2.5), "b": [np.inf, np.float32(1)], 3: texts, "c": np.arange(3.0)}


def words(reader: str) -> str:
    """Return a dictionary of what is in the files, for the mutations."""
    if reader == "matlab":
        found = [b"\x0e\0\0\0", b"\x0f\0\0\0", b"\x06\0\0\0\x08\0\0\0", b"\0\x01IM", b"\x01\0MI"]
        return "\n".join('"' + "".join(f"\\x{c:02x}" for c in word) + '"' for word in found)
    texts = b" ".join(content for content in seeds(reader)).decode("latin-1")
    return "\n".join(f'"{word}"' for word in sorted(set(re.findall(r"[a-z_]{3,20}", texts)))[:200])


# ---- coverage


def lines_of(module: Any, skipped: tuple[str, ...]) -> set[tuple[str, int]]:
    """Return the lines of a module that reading could run."""
    source = Path(module.__file__).read_text(encoding="utf-8")
    waiting, found = [compile(source, module.__file__, "exec")], set()
    while waiting:
        for inner in waiting.pop().co_consts:
            if isinstance(inner, CodeType) and inner.co_name not in skipped:
                waiting.append(inner)
                first = inner.co_firstlineno
                lines = {line for _, _, line in inner.co_lines() if line and line > first}
                found |= {(module.__file__, line) for line in lines if not is_class(inner)}
    return found


def is_class(code: CodeType) -> bool:
    """Tell whether code is the body of a class, which runs when it is imported."""
    return "__qualname__" in code.co_names and "__module__" in code.co_names


def coverage(reader: str, inputs: Iterable[bytes]) -> tuple[set[Any], set[Any]]:
    """Return the lines that inputs reach, and all that there are."""
    import importlib

    modules = [importlib.import_module(name) for name in READERS[reader]]
    skipped = (*WRITING, *NOT_ITS_OWN[reader])
    all_lines = set().union(*(lines_of(module, skipped) for module in modules))
    files, reached = {module.__file__ for module in modules}, set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            reached.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    with tempfile.TemporaryDirectory() as place:
        for content in inputs:
            usual = sys.gettrace()
            sys.settrace(trace)
            try:
                try_input(reader, content, Path(place))
            finally:
                sys.settrace(usual)
    return reached & all_lines, all_lines


def fewest(reader: str, inputs: list[bytes]) -> list[bytes]:
    """Return a few inputs that reach what all of them reach, the shortest first."""
    kept, reached = [], set()
    for content in sorted(inputs, key=len):
        new = coverage(reader, [content])[0]
        if new - reached:
            kept.append(content)
            reached |= new
    return kept


# ---- the run


def fuzz_here(reader: str, arguments: list[str]) -> None:
    """Fuzz in this process, for ever or as long as the arguments say."""
    import atheris

    parts = ["corrtensor.io.arrays", *READERS[reader], "zipfile", "json"]
    with atheris.instrument_imports(include=parts):
        import zipfile  # noqa: F401

        import corrtensor._engine.checkpoint
        import corrtensor.io.arrays
        import corrtensor.io.matlab  # noqa: F401
    folder = Path(tempfile.mkdtemp())
    options = {} if reader == "matlab" else {"custom_mutator": retold}

    def one(content: bytes) -> None:
        try_input(reader, content, folder)

    atheris.Setup([sys.argv[0], *arguments], one, **options)
    atheris.Fuzz()


def retold(content: bytes, longest: int, seed: int) -> bytes:
    """Return an input with one value of its JSON in the place of another, or with bytes changed."""
    import atheris

    random = Random(seed)
    text, *members = content.split(MARK)
    try:
        tree = json.loads(text)
        places: list[tuple[Any, Any]] = []
        waiting = [tree]
        while waiting:
            node = waiting.pop()
            pairs = list(node.items() if isinstance(node, dict) else enumerate(node))
            places += [(node, key) for key, _ in pairs]
            waiting += [value for _, value in pairs if isinstance(value, dict | list)]
        (node, key), (other, there) = random.choice(places), random.choice(places)
    except (ValueError, AttributeError, TypeError, IndexError, RecursionError):
        return atheris.Mutate(content, longest)
    if random.random() < 0.4:
        return atheris.Mutate(content, longest)
    value = random.choice(ODD) if random.random() < 0.5 else other[there]
    node[key] = json.loads(json.dumps(value))
    changed = MARK.join([json.dumps(tree).encode(), *members])
    return changed if len(changed) <= longest else atheris.Mutate(content, longest)


def run(reader: str, seconds: int) -> dict[str, Any]:
    """Fuzz a reader in a process of its own, keep a few inputs, and return the figures."""
    with tempfile.TemporaryDirectory() as place:
        found, crashes = Path(place) / "found", Path(place) / "crashes"
        found.mkdir()
        crashes.mkdir()
        kept = CORPUS / reader
        known = [path.read_bytes() for path in sorted(kept.glob("*"))]
        for k, content in enumerate([*seeds(reader), *known]):
            (found / f"seed{k}").write_bytes(content)
        (Path(place) / "words").write_text(words(reader))
        options = [f"-max_total_time={seconds}", f"-max_len={LONGEST[reader]}", "-timeout=10"]
        options += ["-rss_limit_mb=2048", "-print_final_stats=1", f"-dict={place}/words"]
        options += [f"-artifact_prefix={crashes}/", str(found)]
        call = [sys.executable, "-m", "tests.fuzz", reader, "--here", *options]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        ended = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        if ended is None:
            raise RuntimeError(done.stderr[-3000:])
        inputs = [path.read_bytes() for path in found.iterdir()]
        few = fewest(reader, inputs)
        kept.mkdir(parents=True, exist_ok=True)
        for path in kept.glob("*"):
            path.unlink()
        for content in few:
            (kept / hashlib.sha256(content).hexdigest()[:12]).write_bytes(content)
        reached, lines = coverage(reader, few)
        return {
            "seconds": seconds,
            "executions": int(ended[1]),
            "inputs": len(inputs),
            "kept": len(few),
            "lines": len(lines),
            "reached": len(reached),
            "crashes": sorted(path.name for path in crashes.iterdir()),
            "exit code": done.returncode,
        }


def table(figures: dict[str, Any]) -> str:
    """Return the figures of all readers as the page shows them."""
    lines = [
        "| reader | seconds | executions | lines of the reader reached | inputs kept | crashes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {row['seconds']} | {row['executions']:,} | {row['reached']} of {row['lines']} "
        f"| {row['kept']} | {len(row['crashes'])} |"
        for name, row in figures["readers"].items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    chosen, more = parser.parse_known_args()
    if chosen.here:
        fuzz_here(chosen.reader, more)
    else:
        print(json.dumps(run(chosen.reader, chosen.seconds), indent=1))
