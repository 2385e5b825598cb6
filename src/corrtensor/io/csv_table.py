"""Tables of numbers as text, one sample in every line, perhaps with names of columns and samples.

No number shall be lost as a name: a first column is left out only if it is called so, or holds no
number, and a note says so. What could be either is an error.
"""

import csv
import io
import math
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from corrtensor._base.files import open_regular
from corrtensor.io.arrays import NOT_THE_FILE
from corrtensor.io.stack import InputError, reading

TABLE_SUFFIXES = (".csv", ".tsv")
# What first columns of names or numbers are called; pandas leaves its index without a name, and
# calls it "Unnamed: 0" when it has read that back.
LABELS = {"", "id", "index", "name", "sample", "unnamed: 0"}
# Missing cells beside NaN, as databases, R and spreadsheets write them.
MISSING = {"", "null", "na", "n/a", "#n/a"}
# Characters and separators of a line, which is split at once, and a file may be one line.
LONGEST_LINE, MOST_FIELDS = 1 << 23, 1 << 20
# So many first columns may be labels; names are as long as those of files, and of more samples
# than this they are not kept.
MOST_LABELS, LONGEST_NAME, MOST_NAMES = 8, 255, 1 << 20
# So many characters tell what the separator is; of a value so many are shown.
HEAD, SHOWN = 1 << 16, 40
NO_TEXT = re.compile(r"[\0-\x08\x0e-\x1f]")


@dataclass(frozen=True)
class Table:
    """The numbers of a table, names of its rows if all are different, and what was left out."""

    numbers: np.ndarray
    names: tuple[str, ...] | None
    note: str


def open_table(path: Path) -> np.ndarray:
    """Read the numbers of a table."""
    return read_table(path).numbers


def read_table(path: Path) -> Table:
    """Read a table: numbers between commas, semicolons or tabs; an empty field is missing."""
    with (
        reading(path, "table that can be read", *NOT_THE_FILE),
        open_regular(path) as file,
        # Names may be in any encoding; numbers are not.
        io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as text,
    ):
        rows = rows_of(path, text, separator_of(path, text))
        begin = list(islice(rows, 2))
        named, labels = layout_of(path, begin)
        first, second = begin[0][1], begin[-1][1]
        as_text = [k for k in range(labels) if not (named and is_label(first[k]))]
        numbers = array("d")
        names: list[str] = []
        for line, fields in chain(begin[named:], rows):
            if len(fields) != len(first):
                raise InputError(
                    f"{path}: line {line} has another number of fields, {len(fields)}, than the "
                    f"first line, {len(first)}"
                )
            for k in as_text:
                refuse_number(path, line, k, fields[k], second[k])
            if labels and len(names) < MOST_NAMES:
                names.append(fields[labels - 1].strip()[:LONGEST_NAME])
            numbers.extend(numbers_of(path, line, labels, fields))
    table = np.frombuffer(numbers).reshape(-1, len(first) - labels)
    if not named and not labels and counts(table):
        # As pandas writes a table whose columns have numbers for names.
        named, labels, names = True, 1, [f"{k:.0f}" for k in table[1:, 0]]
        table = table[1:, 1:]
    unique = len(names) == len(table) and len({*names, ""}) == len(table) + 1
    return Table(table, tuple(names) if unique else None, note_of(first[:labels], named))


def separator_of(path: Path, text: TextIO) -> str:
    """Return what stands between the fields of the first line, outside of quotation marks."""
    head = text.read(HEAD)
    text.seek(0)
    if NO_TEXT.search(head):
        raise InputError(f"{path} is no text in UTF-8; save it as such a table, or as .npy")
    if path.suffix.lower() == ".tsv":
        return "\t"
    first = re.sub('"[^"]*"', "", head).lstrip("\r\n")
    first = re.split("[\r\n]", first, maxsplit=1)[0]
    return next((mark for mark in "\t;" if mark in first), ",")


def rows_of(path: Path, text: TextIO, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line that is not empty, and its fields."""
    begun, length, marks = 1, 0, 0

    def lines() -> Iterator[str]:
        nonlocal length, marks
        while line := text.readline(LONGEST_LINE + 1):
            # Fields in quotation marks may go on in the next line.
            length, marks = length + len(line), marks + line.count(separator)
            if length > LONGEST_LINE or marks >= MOST_FIELDS:
                raise InputError(
                    f"{path}: line {begun} is longer than {LONGEST_LINE:,} characters, or has more "
                    f"than {MOST_FIELDS:,} fields; write .npy"
                )
            yield line

    reader = csv.reader(lines(), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        for fields in reader:
            if fields:
                yield begun, fields
            begun, length, marks = reader.line_num + 1, 0, 0
    except csv.Error as error:
        raise InputError(f"{path}: line {begun} cannot be read: {error}") from error


def layout_of(path: Path, begin: Sequence[tuple[int, list[str]]]) -> tuple[bool, int]:
    """Tell from two lines if the first has names of columns, and how many columns are labels."""
    if not begin:
        raise InputError(f"{path} is empty; a table has a sample in every line")
    (line, first), (_, second) = begin[0], begin[-1]
    # One column must be left.
    least = range(min(len(first) - 1, len(second) - 1, MOST_LABELS))
    text = next((k for k in least if not is_text(second[k])), len(least))
    names = first[text:]
    named = any(map(is_text, names)) and not any(map(is_number, names))
    # Beside the name of a column of labels, names may be numbers, such as wavelengths.
    named |= is_label(first[0]) and (text > 0 or any(map(is_text, names)))
    labels = (k for k in least if not is_text(second[k]) and not (named and is_label(first[k])))
    for k, name in enumerate(first if named else []):
        refuse_comma(path, line, k, name)
    if named and len(begin) == 1:
        raise InputError(f"{path} holds names of columns alone, and no samples")
    return named, next(labels, len(least))


def is_label(name: str) -> bool:
    """Tell whether a column of this name holds names or numbers of samples."""
    return name.strip().lower() in LABELS


def is_text(field: str) -> bool:
    """Tell whether a field is neither a number nor missing."""
    return number(field) is None


def is_number(field: str) -> bool:
    """Tell whether a field is a number that is not missing."""
    value = number(field)
    return value is not None and not math.isnan(value)


def number(field: str) -> float | None:
    """Return a number, NaN for one that is missing, or None for what is neither."""
    if field.strip().lower() in MISSING:
        return math.nan
    try:
        # Python reads 12_3 as 123; in a table it is a name.
        return None if "_" in field else float(field)
    except ValueError:
        return None


def numbers_of(path: Path, line: int, labels: int, fields: Sequence[str]) -> list[float]:
    """Return the numbers behind the labels of a line."""
    found = fields[labels:]
    if "_" not in "".join(found):
        # Several times as fast, and right for most lines.
        with suppress(ValueError):
            return [float(field) if field else math.nan for field in found]
    values = []
    for k, field in enumerate(found, start=labels):
        if (value := number(field)) is None:
            refuse_comma(path, line, k, field)
            right = "numbers stand between commas, semicolons or tabs"
            if len(fields) > 1:
                right = "an empty field is a missing one; names stand in first columns, or in a "
                right += "first line without numbers"
            raise wrong(path, line, k, field, f"is no number; {right}")
        values.append(value)
    return values


def refuse_number(path: Path, line: int, k: int, field: str, above: str) -> None:
    """Raise an :class:`InputError` for a number in a column that seemed to hold names."""
    refuse_comma(path, line, k, field)
    if is_number(field):
        why = f"is a number, but {above[:SHOWN]!r} above it is none: correct that, or call a "
        raise wrong(path, line, k, field, why + "column of names id in a first line")


def refuse_comma(path: Path, line: int, k: int, field: str) -> None:
    """Raise an :class:`InputError` for a number with a comma, which may stand for two things."""
    if "," in field and is_number(re.sub("[.,]", "", field)):
        why = "has a comma; write decimals with a point, as in 1.5, and nothing between thousands"
        raise wrong(path, line, k, field, why)


def wrong(path: Path, line: int, k: int, field: str, why: str) -> InputError:
    """Return an error that says where a field is and what it is."""
    return InputError(f"{path}: line {line}, column {k + 1}: {field[:SHOWN]!r} {why}")


def counts(table: np.ndarray) -> bool:
    """Tell whether the first column has a gap and then counts the rows, from 0 or 1 on."""
    column, rows = table[:, 0], np.arange(len(table) - 1)
    return (
        min(table.shape) > 1
        and len(table) > 2
        and bool(np.isnan(column[0]))
        and any(np.array_equal(column[1:], rows + start) for start in (0, 1))
    )


def note_of(columns: Sequence[str], named: bool) -> str:
    """Say which columns are no numbers of samples."""
    said = [f"{k} ({name[:SHOWN]!r})" if named else f"{k}" for k, name in enumerate(columns, 1)]
    if not said:
        return ""
    many = "s" if len(said) > 1 else ""
    return f"column{many} {', '.join(said)} read as names of samples, not as numbers"
