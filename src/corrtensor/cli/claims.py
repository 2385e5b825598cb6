"""Who may write where: a command asks before hours of work, not after them.

A name is refused where writing would fail, or would take the place of what is read, of another
output, or, without ``--force``, of what is there. No other run gets it until the command ends.
"""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from corrtensor._base.files import held, refuse_link


@contextmanager
def claimed(
    *outputs: str | Path | None,
    inputs: Sequence[str | None],
    later: Sequence[str | None] = (),
    reused: Sequence[str | None] = (),
    force: bool,
) -> Iterator[None]:
    """Raise before hours of work what would be raised after them, and keep outputs for this run.

    There must be a folder to write to, no link in the place of a file, no input and no other
    output of the same name, nor, without ``force``, anything that would be replaced. Those in
    ``later`` and ``reused`` are looked at only: who writes them holds them, and the latter may be
    there.
    """
    with ExitStack() as holding:
        taken: list[str] = []
        for output in (*outputs, *later, *reused):
            if output is None:
                continue
            path = file_of(output)
            folder = path.absolute().parent
            if not folder.is_dir():
                words = f"there is no folder {path.parent} to write it to"
                raise FileNotFoundError(2, words, str(output))
            refuse_link(path)
            if output in later and path.is_dir() and path.suffix != ".zarr" and any(path.iterdir()):
                words = "the folder is not empty; give a new one"
                raise FileExistsError(errno.EEXIST, words, str(output))
            read = (where for where in inputs if where is not None)
            # A file is written as a whole: there are no two outputs in one.
            for other in (*read, *(str(file_of(where)) for where in taken)):
                refuse_same(str(output), other)
                if output in later and not path.suffix:
                    refuse_inside(path, file_of(other))
            taken.append(str(output))
            if output not in reused and not force:
                refuse_replacing(str(output))
            if output not in (*later, *reused):
                holding.enter_context(held(path))
        yield


def file_of(where: str | Path) -> Path:
    """Return the file of ``file::name``."""
    return Path(str(where).partition("::")[0])


def refuse_same(output: str, other: str) -> None:
    """Raise a ``BadParameter`` if an output would take the place of what is read or written too.

    Two arrays of one HDF5 file are not the same if both have names.
    """
    one, two = (os.path.realpath(file_of(where)) for where in (output, other))
    names = [where.partition("::")[2].strip("/") for where in (output, other)]
    if all(names) and names[0] != names[1]:
        return
    alike = os.path.exists(one) and os.path.exists(two) and os.path.samefile(one, two)
    if alike or one == two or two.startswith(one + os.sep):
        raise typer.BadParameter(f"{output} would be written over {other}: give another name")


def refuse_inside(pictures: Path, other: Path) -> None:
    """Raise a ``BadParameter`` if pictures would be among those that are read."""
    if other.is_dir() and pictures.resolve().is_relative_to(other.resolve()):
        raise typer.BadParameter(
            f"pictures in {pictures} would be read as samples of {other}: give a folder elsewhere"
        )


def refuse_replacing(output: str) -> None:
    """Raise a ``BadParameter`` if something is there; a new array may join an HDF5 file.

    A folder of pictures is never replaced: who writes it says so.
    """
    from corrtensor.io.writing import HDF5_SUFFIXES, split_output

    path, name = split_output(output)
    there = path.is_file() or (path.exists() and path.suffix == ".zarr")
    if there and path.suffix.lower() in HDF5_SUFFIXES:
        import h5py

        there = False
        if h5py.is_hdf5(path):
            with h5py.File(path, "r") as file:
                there = name in file
    if there:
        raise typer.BadParameter(f"{output} is there: give another name, or --force to replace it")
