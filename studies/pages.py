"""What the pages of the studies share: tables, the origin of records, files that are whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from corrtensor._base.files import replacing

__all__ = ["origins", "table", "write_text"]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def origins(records: Sequence[Mapping[str, Any]]) -> str:
    """Say with which versions and machines the records were made."""
    said = {
        ", ".join(f"{name} {number}" for name, number in r["versions"].items())
        + f"; {r['machine']['platform']}, {r['machine']['cpus']} cores"
        for r in records
    }
    return "; ".join(sorted(said)) + "."


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a page whole or not at all."""
    with replacing(path) as file:
        file.write(text.encode())
    return Path(path)
