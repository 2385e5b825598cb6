"""Copy or move files so that nothing is overwritten or lost, and a move can be undone.

Every move is written to a manifest before it is made: if anything stops in the middle, the manifest
names all files that may have gone, and :func:`restore` brings back those that have.
"""

import errno
import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from corrtensor._base.files import is_inside, open_regular, refuse_link, sync_folder

MANIFEST = "corrtensor-moved.jsonl"


def targets(folder: Path, names: Sequence[str], into: Path) -> list[tuple[Path, Path]]:
    """Return from where to where; raise before anything is done if it cannot be done whole."""
    if is_inside(into, folder):
        raise ValueError(f"{into} lies in {folder}: its pictures would be read again")
    refuse_link(into)
    pairs = [(folder / name, into / name) for name in names]
    for source, target in pairs:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "there is a file of this name", str(target))
        if source.is_symlink():
            raise OSError(errno.ELOOP, "it is a link: what it leads to is left alone", str(source))
    into.mkdir(exist_ok=True)
    return pairs


def copy_files(folder: Path, names: Sequence[str], into: Path) -> None:
    """Copy files of a folder into another one; a copy that fails leaves no part of itself."""
    for source, target in targets(folder, names, into):
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_new(source, target)


def copy_new(source: Path, target: Path) -> None:
    """Copy one file to a place where none is; it is on disk when this returns."""
    with open_regular(source) as old, open(target, "xb") as new:
        try:
            shutil.copyfileobj(old, new)
            new.flush()
            os.fsync(new.fileno())
        except BaseException:
            with suppress(OSError):
                target.unlink()
            raise
    shutil.copystat(source, target)


def move_files(folder: Path, names: Sequence[str], into: Path) -> Path:
    """Move files of a folder into another one, and return the manifest that undoes it."""
    pairs = targets(folder, names, into)
    manifest = into / MANIFEST
    refuse_link(manifest)
    # Without a buffer: what could not be written must not be tried again at the end.
    with open(manifest, "ab", buffering=0) as notes:
        try:
            for source, target in pairs:
                target.parent.mkdir(parents=True, exist_ok=True)
                move_noted(source, target, notes)
        finally:
            if not manifest.stat().st_size:
                manifest.unlink()
    return manifest


def move_noted(source: Path, target: Path, notes: FileIO) -> None:
    """Move one file, with a line about it on disk before; it is taken back if the file stays."""
    place = notes.seek(0, os.SEEK_END)
    entry = {"from": os.path.abspath(source), "to": os.path.abspath(target)}
    try:
        notes.write(json.dumps(entry).encode("ascii") + b"\n")
        os.fsync(notes.fileno())
        move_new(source, target)
    except BaseException:
        if os.path.lexists(source):
            # Cutting off needs no room, even on a disk that is full.
            notes.truncate(place)
            with suppress(OSError):
                if os.path.samestat(os.lstat(source), os.lstat(target)):
                    os.unlink(target)
        raise


def move_new(source: Path, target: Path) -> None:
    """Move one file to a place where none is."""
    try:
        # Unlike a rename, this fails where something is there.
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        # Another disk, or one without links.
        copy_new(source, target)
    sync_folder(target.parent)
    os.unlink(source)


def restore(manifest: Path) -> int:
    """Move the files of a manifest back where they were, and return how many.

    Those that are back already are passed over; what is in the place of one is not overwritten.
    The folder that holds the manifest will do as well.
    """
    manifest = manifest / MANIFEST if manifest.is_dir() else manifest
    if not manifest.exists():
        words = "there is no such manifest of moved files"
        raise FileNotFoundError(errno.ENOENT, words, str(manifest))
    with open_regular(manifest) as file:
        lines = file.read().splitlines()
    try:
        entries = [json.loads(line) for line in lines]
        pairs = [(Path(e["to"]), Path(e["from"])) for e in entries]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{manifest} is no manifest of moved files ({error})") from error
    left = [(here, home) for here, home in pairs if os.path.lexists(here)]
    for here, home in left:
        # A move that was cut off left the file in both places.
        if os.path.lexists(home) and not os.path.samefile(here, home):
            raise FileExistsError(errno.EEXIST, "there is a file of this name again", str(home))
    for here, home in left:
        home.parent.mkdir(parents=True, exist_ok=True)
        if os.path.lexists(home):
            here.unlink()
        else:
            move_new(here, home)
    manifest.unlink()
    return len(left)
