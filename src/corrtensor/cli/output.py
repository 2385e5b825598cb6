"""What the commands say, and how: answers, errors, progress, exit codes."""

import json
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from corrtensor._base.names import printable, visible

DONE, BAD_DATA, BAD_CALL, STOPPED = 0, 1, 2, 128
# Seconds after which a person wants to know that something is going on.
PATIENCE = 1.0
# So many names of files that were left out are shown.
SHOWN = 10
# What the files are that commands write.
FILES = {"csv": "All samples:", "report": "Page:", "model": "Model:", "copied_to": "Copied to:"}
FILES |= {"moved_to": "Moved to:", "manifest": "To undo: corrtensor restore", "figure": "Figure:"}
# What Python calls otherwise than the shell.
OPTIONS = {
    "cells=True:": "--cells:",
    "; cells=False keeps them": "; they are kept without --cells, by repair with --no-cells",
    "; give smaller ranks": "; give smaller --ranks",
    "; with center=None there is no mean, and other cells tell": "",
    "give it as missing_values": "give it as --missing",
}


def complain(message: str) -> None:
    """Print an error."""
    print(f"corrtensor: {visible(message)}", file=sys.stderr)


class Stopped(KeyboardInterrupt):
    """A request to end, by the number of its signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def stop_on_signals() -> None:
    """Let requests to end, and a terminal that is gone, do what Ctrl-C does."""
    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]

    def stop(number: int, _: Any) -> None:
        # They may come together, and the second must not disturb the tidying up.
        for other in numbers:
            signal.signal(other, signal.SIG_IGN)
        raise Stopped(number)

    usual = sys.unraisablehook

    def once_more(lost: Any) -> None:
        # What is raised inside a destructor is lost: raise it again, a moment later.
        if not isinstance(lost.exc_value, Stopped) or not hasattr(signal, "setitimer"):
            usual(lost)
            return
        number = lost.exc_value.number
        signal.signal(signal.SIGALRM, lambda *_: stop(number, None))
        signal.setitimer(signal.ITIMER_REAL, 0.01)

    sys.unraisablehook = once_more

    for number in numbers:
        # Who starts us with nohup wants it ignored.
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, stop)


class Voice:
    """Says results on standard output and everything else on standard error.

    With ``as_json`` the result is one JSON object instead of text; with ``quiet`` only errors, and
    JSON if it is asked for, are printed.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.notes: list[str] = []

    def result(self, record: dict[str, Any], *lines: str, **files: Any) -> None:
        """Print what a command found, a record for programs, lines for people, and its files."""
        if self.as_json:
            record = {**record, **files, "notes": self.notes}
            print(json.dumps(plain(record), indent=2, allow_nan=False), flush=True)
        elif not self.quiet:
            written = [f"{FILES[key]} {path}" for key, path in files.items() if path is not None]
            print("\n".join(map(visible, [*lines, *written])), flush=True)

    def note(self, message: str) -> None:
        """Say something that is no error."""
        self.notes.append(message)
        if not self.quiet and not self.as_json:
            print(f"note: {visible(message)}", file=sys.stderr)

    def list_skipped(self, skipped: Sequence[Any], kept: int) -> None:
        """List the files that were left out, with their number at the end."""
        if not skipped or self.quiet or self.as_json:
            return
        for entry in skipped[:SHOWN]:
            print(f"skipped {printable(entry.name)}: {visible(entry.reason)}", file=sys.stderr)
        more = f", {SHOWN} of them listed above" if len(skipped) > SHOWN else ""
        print(f"{len(skipped)} skipped{more}, {kept} read", file=sys.stderr)

    @contextmanager
    def progress(self, label: str) -> Iterator[Callable[[int, int | None], None]]:
        """Show a bar with the time left, after a second, if a person is there to see it.

        Yields a function of (done, total). Until it is called, or where the total is not known, a
        pulse shows that something is going on.
        """
        if self.quiet or not sys.stderr.isatty():
            yield lambda done, total: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
        from rich.progress import TimeRemainingColumn as Remaining

        columns = (TextColumn("{task.description}"), BarColumn(), Elapsed(), Remaining())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(label, total=None)
        timer = threading.Timer(PATIENCE, bar.start)
        timer.daemon = True
        timer.start()
        try:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        finally:
            timer.cancel()
            bar.stop()


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is no number is null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def by_options(text: str) -> str:
    """Return a message in one line, parameters called as in the shell."""
    text = " ".join(text.split())
    for python, shell in OPTIONS.items():
        text = text.replace(python, shell)
    return text


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return visible(f"{error.filename}: {error.strerror}")
    # Words of other libraries may come in several lines; names in ours are escaped already.
    return visible(by_options(str(error))) or type(error).__name__


@contextmanager
def exit_codes(voice: Voice) -> Iterator[None]:
    """Turn errors into one line and an exit code, and warnings into notes.

    A file or folder that is not there, or a package, is a wrong call (2); what is wrong inside the
    files is the data (1).
    """
    import typer

    def pass_on(message: Any, category: type[Warning], *_: Any) -> None:
        # The rest is for programmers.
        text = by_options(str(message))
        if issubclass(category, UserWarning) and text not in voice.notes:
            voice.note(text)

    code = DONE
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = pass_on  # type: ignore[assignment]
        try:
            yield
        except BrokenPipeError:
            # Whoever read the answer has had enough of it; nothing more can be said there.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (FileNotFoundError, ImportError) as error:
            complain(one_line(error))
            code = BAD_CALL
        except (ValueError, OSError, TypeError, MemoryError) as error:
            # zarr leaves tasks behind when a write fails, and their end would be told at length.
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)
            complain(one_line(error))
            code = BAD_DATA
        except KeyboardInterrupt as error:
            complain("stopped; what was being written is not there")
            # As a shell tells it: 130 for Ctrl-C.
            code = STOPPED + getattr(error, "number", signal.SIGINT)
    if code:
        raise typer.Exit(code)
