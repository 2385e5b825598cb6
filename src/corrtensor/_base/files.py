"""How files are opened, made and held: regular ones only, whole or not there, one run at a time.

Whoever gives us a file or a folder may have put a pipe, a device or a link where a file should
be. Here is the one place that says what happens then; ``docs/reliability.md`` has the rules.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows, where runs are not kept apart
    fcntl = None  # type: ignore[assignment]

PathLike = str | os.PathLike[str]
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
KINDS |= {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
# Without waiting for whoever is at the other end of a pipe, or becoming the owner of a terminal.
NO_WAITING = ("O_NONBLOCK", "O_NOCTTY", "O_BINARY")
AT_ONCE = os.O_RDONLY | sum(getattr(os, name, 0) for name in NO_WAITING)
NOT_A_LINK = getattr(os, "O_NOFOLLOW", 0)


def check_kind(mode: int, path: PathLike) -> None:
    """Raise an ``OSError`` unless this is the mode of a regular file."""
    if not stat.S_ISREG(mode):
        kind = KINDS.get(stat.S_IFMT(mode), "no file")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", os.fspath(path))


def check_regular(path: PathLike) -> None:
    """Raise an ``OSError`` unless this is a regular file, or a link to one.

    For libraries that want a name; where they take a file, :func:`open_regular` is better.
    """
    check_kind(os.stat(path).st_mode, path)


def is_inside(path: PathLike, folder: PathLike) -> bool:
    """Tell whether a file is in a folder or below, when all links have been followed."""
    root = os.path.realpath(folder)
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def open_regular(path: PathLike, *, within: PathLike | None = None) -> BinaryIO:
    """Open a regular file for reading, at once, whatever is there; else raise an ``OSError``.

    A link is followed if it stays in ``within``, the folder that it was found in. By default any
    link is, as the user has named it.
    """
    place = path = os.fspath(path)
    mode = (os.stat(path) if within is None else os.lstat(path)).st_mode
    if stat.S_ISLNK(mode):
        if within is None or not is_inside(path, within):
            raise OSError(errno.ELOOP, "it is a link out of the folder", path)
        place = os.path.realpath(path)
        mode = os.stat(place).st_mode
    # A device may act upon being opened.
    check_kind(mode, path)
    handle = os.open(place, AT_ONCE if within is None else AT_ONCE | NOT_A_LINK)
    try:
        # Another file may have come there meanwhile.
        check_kind(os.fstat(handle).st_mode, path)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


@contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """Open a new file that takes the place of ``path`` once it is whole and on disk.

    Until the block ends, and for ever if it fails, whatever is there stays untouched. A link that
    is there is refused. The file may be read by whom the user's umask lets, or by whom the file
    lets that it replaces.
    """
    target = Path(path).absolute()
    refuse_link(path)
    mode = 0o666
    if target.exists():
        refuse_special(target, path)
        mode = stat.S_IMODE(target.stat().st_mode) & 0o777
    beside = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        with open(beside, "xb+", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            # The umask may have taken away what the old file had.
            os.chmod(beside, mode)
        # Should a link have come there meanwhile, it is replaced and not followed.
        os.replace(beside, target)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and error.errno and error.filename in (None, str(beside)):
            # The user has never heard of the file beside.
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        raise
    sync_folder(target.parent)


def refuse_link(path: PathLike) -> None:
    """Raise an ``OSError`` if there is a link where something shall be written."""
    if os.path.islink(path):
        leads_to = os.path.realpath(path)
        words = f"it is a link to {leads_to}: give that name if it is meant"
        raise OSError(errno.ELOOP, words, os.fspath(path))


def refuse_special(target: Path, path: PathLike) -> None:
    """Raise an ``OSError`` unless the file may be replaced: a device must not become a file."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    check_kind(target.stat().st_mode, path)
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))


def sync_folder(folder: Path) -> None:
    """Let the names in a folder reach the disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def held(path: PathLike) -> Iterator[None]:
    """Keep what shall be written for this run alone; another that wants it gets an ``OSError``.

    A file ``.name.lock`` beside it is locked. The lock ends with the block or the process,
    however that ends; the file goes with the block, and one that is left behind holds nobody up.
    """
    if fcntl is None:
        yield
        return
    target = Path(path).absolute()
    lock = target.with_name(f".{target.name[:100]}.lock")
    handle = lock_file(lock, path)
    try:
        yield
    finally:
        # First the name, then the lock: who opened it meanwhile finds that it has no name.
        with suppress(OSError):
            os.unlink(lock)
        os.close(handle)


def lock_file(lock: Path, path: PathLike) -> int:
    """Return a handle on a locked file that is still the one of its name."""
    while True:
        try:
            handle = os.open(lock, os.O_CREAT | AT_ONCE | NOT_A_LINK, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, os.fspath(path)) from error
        try:
            check_kind(os.fstat(handle).st_mode, lock)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), os.lstat(lock)):
                    return handle
        except BlockingIOError:
            os.close(handle)
            raise OSError(errno.EBUSY, "another run is writing it", os.fspath(path)) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
