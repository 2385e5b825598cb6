"""Files copied and moved: nothing overwritten or lost, and a manifest that tells the truth."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest

from corrtensor.io import moving
from corrtensor.io.moving import MANIFEST, copy_files, move_files, restore

NAMES = ["a.png", "sub/b.png", "=1\x1b\udcff.png"]


@pytest.fixture
def folder(tmp_path):
    where = tmp_path / "faces"
    (where / "sub").mkdir(parents=True)
    for name in [*NAMES, "stays.png"]:
        (where / name).write_bytes(f"content of {name}".encode(errors="surrogateescape"))
    return where


def contents(where):
    return {
        path.relative_to(where).as_posix(): path.read_bytes()
        for path in where.rglob("*")
        if path.is_file()
    }


def test_copies_leave_the_folder_as_it_is(folder, tmp_path):
    before = contents(folder)
    copy_files(folder, NAMES, tmp_path / "odd")
    assert contents(folder) == before
    assert contents(tmp_path / "odd") == {name: before[name] for name in NAMES}


def test_a_move_is_undone_by_its_manifest(folder, tmp_path):
    before = contents(folder)
    manifest = move_files(folder, NAMES, tmp_path / "odd")
    assert manifest == tmp_path / "odd" / MANIFEST
    assert set(contents(folder)) == {"stays.png"}
    assert {k: v for k, v in contents(tmp_path / "odd").items() if k != MANIFEST} == {
        name: before[name] for name in NAMES
    }
    assert restore(manifest) == 3
    assert contents(folder) == before
    assert contents(tmp_path / "odd") == {}


def test_two_moves_into_one_folder_are_both_undone(folder, tmp_path):
    before = contents(folder)
    move_files(folder, NAMES[:1], tmp_path / "odd")
    assert restore(move_files(folder, NAMES[1:], tmp_path / "odd")) == 3
    assert contents(folder) == before


@pytest.mark.parametrize("act", [copy_files, move_files])
def test_nothing_is_overwritten(folder, tmp_path, act):
    (tmp_path / "odd" / "sub").mkdir(parents=True)
    (tmp_path / "odd" / "sub" / "b.png").write_bytes(b"precious")
    before, there = contents(folder), contents(tmp_path / "odd")
    with pytest.raises(FileExistsError, match="there is a file of this name"):
        act(folder, NAMES, tmp_path / "odd")
    assert contents(folder) == before
    assert contents(tmp_path / "odd") == there


def test_what_has_come_back_is_not_overwritten(folder, tmp_path):
    manifest = move_files(folder, NAMES, tmp_path / "odd")
    (folder / "a.png").write_bytes(b"new")
    with pytest.raises(FileExistsError, match="again"):
        restore(manifest)
    assert (folder / "a.png").read_bytes() == b"new"
    assert len(contents(tmp_path / "odd")) == 4


def test_a_folder_inside_the_folder_and_links_are_refused(folder, tmp_path):
    with pytest.raises(ValueError, match="would be read again"):
        move_files(folder, NAMES, folder / "odd")
    (folder / "link.png").symlink_to("a.png")
    with pytest.raises(OSError, match="it is a link"):
        move_files(folder, ["a.png", "link.png"], tmp_path / "odd")
    assert (folder / "a.png").is_file()


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("other_disk", [False, True])
def test_a_disk_that_fills_up_in_the_middle(folder, tmp_path, monkeypatch, place, other_disk):
    """However it fails, every file is in one place, and the manifest undoes what was done."""
    before = contents(folder)
    real, calls = (moving.copy_new, []) if other_disk else (os.link, [])

    def fail(source, target, **options):
        calls.append(source)
        if len(calls) > place:
            if other_disk:
                # as copy_new does after its own failure
                assert not target.exists()
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(source, target, **options)

    def no_link(*_, **__):
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(os, "link", no_link if other_disk else fail)
    monkeypatch.setattr(moving, "copy_new", fail)
    with pytest.raises(OSError, match="No space left"):
        move_files(folder, NAMES, tmp_path / "odd")
    monkeypatch.undo()
    moved = contents(tmp_path / "odd") if (tmp_path / "odd").exists() else {}
    lines = moved.pop(MANIFEST, b"").splitlines()
    assert [json.loads(line)["to"] for line in lines] == [
        str(tmp_path / "odd" / name) for name in NAMES[:place]
    ]
    assert contents(folder) | moved == before
    assert not set(contents(folder)) & set(moved)
    if place:
        assert restore(tmp_path / "odd" / MANIFEST) == place
        assert contents(folder) == before


def test_a_copy_that_fails_leaves_no_part(folder, tmp_path, monkeypatch):
    def half(old, new):
        new.write(old.read(3))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", half)
    with pytest.raises(OSError, match="No space left"):
        copy_files(folder, NAMES, tmp_path / "odd")
    assert contents(tmp_path / "odd") == {}


def test_a_manifest_that_cannot_be_written_moves_nothing(folder, tmp_path, monkeypatch):
    before = contents(folder)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(OSError, match="full"):
        move_files(folder, NAMES, tmp_path / "odd")
    assert contents(folder) == before
    assert contents(tmp_path / "odd") == {}


def test_killed_in_the_middle_it_can_be_undone(folder, tmp_path):
    """The process ends after the second file is linked and before it leaves its old place."""
    before = contents(folder)
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom corrtensor.io import moving\n"
        "calls, unlink = [], os.unlink\n"
        "def end(path):\n"
        "    calls.append(path)\n"
        "    os._exit(9) if len(calls) == 2 else unlink(path)\n"
        "os.unlink = end\n"
        f"moving.move_files(Path({str(folder)!r}), ['a.png', 'sub/b.png'], "
        f"Path({str(tmp_path / 'odd')!r}))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert restore(tmp_path / "odd" / MANIFEST) == 2
    assert contents(folder) == before


def test_no_manifest(tmp_path):
    (tmp_path / "m.jsonl").write_text("nothing\n")
    with pytest.raises(ValueError, match="is no manifest of moved files"):
        restore(tmp_path / "m.jsonl")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission_moves_nothing(folder, tmp_path):
    before = contents(folder)
    (tmp_path / "odd").mkdir(mode=0o500)
    with pytest.raises(PermissionError):
        move_files(folder, NAMES, tmp_path / "odd")
    assert contents(folder) == before
