"""Names of files as text: on one line, with nothing in it that commands whoever shows it.

A name may hold any character but a slash and a zero. What a terminal would act upon, or hide,
stands as an escape, and what a spreadsheet would take for a formula has an apostrophe before it.
Both can be undone.
"""

# What a spreadsheet computes; the apostrophe is here so that it can be undone.
FORMULA = ("=", "+", "-", "@", "'", "＝", "＋", "－", "＠")  # noqa: RUF001


def visible(text: str) -> str:
    r"""Return text with escapes for all that is not printed: ``\n``, ``\x1b``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable(name: str) -> str:
    """Return a name as :func:`visible` text from which :func:`original` makes it again."""
    return visible(name.replace("\\", "\\\\"))


def original(text: str) -> str:
    """Return the name that :func:`printable` was given."""
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape")


def cell(name: str) -> str:
    """Return a name as a cell of a table: printable, and no formula: ``'=1+1.png``."""
    text = printable(name)
    return f"'{text}" if text.startswith(FORMULA) else text


def from_cell(text: str) -> str:
    """Return the name that :func:`cell` was given."""
    return original(text.removeprefix("'"))
