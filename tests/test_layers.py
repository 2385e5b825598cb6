"""The rooms of the package: a room imports only from rooms before it, and no module in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "corrtensor"

# In this order; CONTRIBUTING.md says what is in each.
ROOMS = ["_base", "losses", "correntropy", "metrics", "datasets", "io", "_engine", "_robust"]
ROOMS += ["subspace", "corr_tensor", "clusters", "baselines", "methods", "tasks", "storage"]
ROOMS += ["demo", "report", "plot", "cli"]

# What each room may import from the package: what comes before it, or less.
ALLOWED = {room: set(ROOMS[:place]) for place, room in enumerate(ROOMS)}
# Pure things stand on the ground alone; none of them knows the engine or another.
ALLOWED |= {room: {"_base"} for room in ("losses", "correntropy", "metrics", "datasets", "io")}
ALLOWED["_engine"] = {"_base", "losses", "io"}
ALLOWED["_robust"] = {"_base", "losses", "_engine"}
# Classes that a model file names are looked up in a table, not imported.
ALLOWED["storage"] = {"_base", "io"}


def room_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path):
    """The modules of the package that a file imports, wherever in the file it does."""
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
            if name == "corrtensor":
                yield "__init__"
            elif name.startswith("corrtensor."):
                yield name.removeprefix("corrtensor.")


def rooms(path):
    return {name.partition(".")[0] for name in imported(path)}


def module_of(name):
    """The module that defines a name, or is it."""
    while name:
        if (PACKAGE / (name.replace(".", "/") + ".py")).exists():
            return name
        if (PACKAGE / name.replace(".", "/") / "__init__.py").exists():
            return f"{name}.__init__"
        name = name.rpartition(".")[0]
    return "__init__"


FILES = sorted(p for p in PACKAGE.rglob("*.py") if room_of(p) not in ("__init__", "__main__"))


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_come_from_the_left(path):
    room = room_of(path)
    assert room in ALLOWED, f"{room} is no room of CONTRIBUTING.md: give it a place here"
    wrong = rooms(path) - ALLOWED[room] - {room}
    assert not wrong, f"{room} must not import {sorted(wrong)}"


def graph():
    """Who imports whom, module by module."""
    found = {}
    for path in FILES:
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name] = {module_of(other) for other in imported(path)} - {name}
    return found


def test_no_module_imports_itself_by_way_of_others():
    modules = graph()
    assert "_engine.passes" in modules["_engine.solver"]
    TopologicalSorter(modules).prepare()
    # It would be seen.
    modules["_engine.products"].add("_engine.solver")
    with pytest.raises(CycleError):
        TopologicalSorter(modules).prepare()


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


def test_every_room_is_there():
    assert {room_of(p) for p in FILES} == set(ROOMS)


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
    assert rooms(path) == found


def test_only_the_command_line_prints():
    printing = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        if room_of(path) != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]
    assert not printing
