"""The rooms of the package: a room imports only from rooms before it, and no module in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from tests import rooms
from tests.rooms import ALLOWED, PACKAGE, ROOMS, room_of, rooms_of

FILES = rooms.files()


@pytest.mark.parametrize("path", FILES, ids=[str(p.relative_to(PACKAGE)) for p in FILES])
def test_imports_come_from_the_left(path):
    room = room_of(path)
    assert room in ALLOWED, f"{room} is no room of CONTRIBUTING.md: give it a place in rooms.py"
    wrong = rooms_of(path) - ALLOWED[room] - {room}
    assert not wrong, f"{room} must not import {sorted(wrong)}"


def test_no_module_imports_itself_by_way_of_others():
    modules = rooms.modules()
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


def test_every_room_is_in_the_table():
    text = (rooms.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert not [room for room in ROOMS if f"`{room}`" not in text and f"`{room}/`" not in text]


def test_the_picture_is_that_of_the_imports():
    """After a change of the imports: ``make graph``."""
    assert rooms.PICTURE.read_text(encoding="utf-8") == rooms.draw()


def test_the_finder_of_imports_finds_all_ways(tmp_path):
    """The test above would pass on a package that imports in a way it cannot see."""
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
    assert rooms_of(path, tmp_path) == found


def test_only_the_command_line_prints():
    printing = [
        str(path.relative_to(PACKAGE))
        for path in FILES
        # a fit with verbose=True prints
        if room_of(path) != "cli" and path.name != "callbacks.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    ]
    assert not printing
