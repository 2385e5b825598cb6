"""A layer imports only from its left: checks -> samples, losses -> kernels -> ... -> cli."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "corrtensor"

CORE = [
    "checks",
    "threads",
    "labels",
    "containers",
    "chunked",
    "samples",
    "losses",
    "kernels",
    "sources",
    "holdings",
]
CORE += ["dask_source", "scores", "variance", "sketch", "solver", "spectral", "_robust"]
CORE += ["stream", "watching", "checkpoint", "subspace"]
CORE += ["corr_tensor", "clusters"]
LATER = ["methods", "tasks", "demo", "report", "plot", "cli"]

# What each layer may import from the package.
ALLOWED = {name: set(CORE[:i]) for i, name in enumerate(CORE)}
ALLOWED["losses"] = ALLOWED["correntropy"] = {"checks"}
ALLOWED["labels"] = set()
ALLOWED["containers"] = {"labels"}
ALLOWED["chunked"] = {"containers"}
ALLOWED["samples"] = {"checks", "labels", "containers", "chunked"}
ALLOWED["baselines"] = {"checks", "labels", "chunked", "samples", "spectral"}
ALLOWED["datasets"] = {"checks"}
ALLOWED["metrics"] = set()
# Classes that a model file names are looked up in a table, not imported.
ALLOWED["encoding"] = set()
ALLOWED["storage"] = {"encoding"}
ALLOWED["checkpoint"] |= {"storage"}
ALLOWED["subspace"] |= {"checkpoint"}
# Names as text, and how files are opened, made and locked.
ALLOWED["names"] = set()
ALLOWED["files"] = {"names"}
ALLOWED["storage"] |= {"files", "names"}
ALLOWED["checkpoint"] |= {"files"}
ALLOWED["subspace"] |= {"files"}
ALLOWED["inputs"] = {"samples", "sources", "storage", "files", "names"}
ALLOWED["video_output"] = {"inputs"}
ALLOWED["outputs"] = {"inputs", "storage", "files", "names", "video_output"}
ALLOWED |= {
    name: set(CORE)
    | {
        "baselines",
        "correntropy",
        "datasets",
        "metrics",
        "encoding",
        "storage",
        "files",
        "names",
        "inputs",
        "outputs",
        "video_output",
    }
    | set(LATER[:i])
    for i, name in enumerate(LATER)
}
ALLOWED["methods"] = set(CORE) | {"baselines"}


def layer_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The layers of the package that a file imports, wherever in the file it does."""
    package = ["corrtensor", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "corrtensor" and len(parts) > 1:
                yield parts[1]
            elif name == "corrtensor":
                yield "__init__"


FILES = sorted(p for p in PACKAGE.rglob("*.py") if layer_of(p) not in ("__init__", "__main__"))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_come_from_the_left(path):
    layer = layer_of(path)
    assert layer in ALLOWED, f"{layer} is no layer of DESIGN section 5: give it a place here"
    wrong = set(imported(path)) - ALLOWED[layer] - {layer}
    assert not wrong, f"{layer} must not import {sorted(wrong)}"


def test_the_package_knows_nothing_of_the_studies():
    knowing = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if "studies" in named(node)
    ]
    assert not knowing


def named(node):
    """The topmost packages that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.partition(".")[0] for alias in node.names}
    if isinstance(node, ast.ImportFrom) and not node.level:
        return {str(node.module).partition(".")[0]}
    return set()


def test_every_core_layer_is_there():
    present = {layer_of(p) for p in FILES}
    assert {*CORE, "methods", "baselines"} <= present


def test_the_finder_of_imports_finds_all_ways(tmp_path, monkeypatch):
    """The test above would pass on a package that imports in a way it cannot see."""
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    (tmp_path / "tasks").mkdir()
    path = tmp_path / "tasks" / "outliers.py"
    path.write_text(
        "import corrtensor.solver\n"
        "from corrtensor import kernels\n"
        "from corrtensor.subspace import MultilinearSubspace\n"
        "from .. import cli\n"
        "from ..methods import make\n"
        "from . import clustering\n"
        "import corrtensor\n"
        "def late():\n"
        "    from corrtensor.report.pages import page\n"
        "import numpy\n"
    )
    found = {"solver", "kernels", "subspace", "cli", "methods", "tasks", "__init__", "report"}
    assert set(imported(path)) == found


def test_only_the_command_line_prints():
    printing = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        # a fit with verbose=True prints
        if layer_of(path) not in ("cli", "watching")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]
    assert not printing
