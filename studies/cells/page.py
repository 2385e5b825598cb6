"""The page about cells, from its records alone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from studies.cells.grid import CASES, SETS
from studies.pages import origins, table, write_text
from studies.records import read_records

__all__ = ["cells_page", "write_cells"]

HEAD = """# Bad and missing cells

Written by `make cells` from its records. A quarter of the samples is held out; ranks are a fifth of
the modes. *Subspace* is the error of the held-out, clean samples over that of the fit that has all
cells; *cells* the error at the missing cells over that of the reconstruction from all cells; *AUC*
how well the residuals tell bad cells from good; *cost* the processor time over that of the plain
robust fit of the whole samples, in one process. Palms were set aside while defaults were chosen.
"""


def number(records: Sequence[Mapping[str, Any]], name: str, digits: int) -> str:
    """Return the mean of a measure over the seeds."""
    values = [r["result"][name] for r in records if name in (r["result"] or {})]
    return f"{np.mean(values):.{digits}f}" if values else ""


def cells_page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    lines = [HEAD]
    for data in SETS:
        mine = [r for r in records if r["case"]["data"] == data]
        if not mine:
            continue
        rows = []
        for case, methods in CASES.items():
            for method in methods:
                found = [r for r in mine if r["case"]["wrong"] == case and r["method"] == method]
                if found:
                    rows.append(
                        [
                            case,
                            method,
                            number(found, "subspace", 3),
                            number(found, "cells", 2),
                            number(found, "auc", 3),
                            number(found, "cost", 1),
                        ]
                    )
        lines += [f"## {data}", ""]
        lines += [*table(["wrong", "method", "subspace", "cells", "AUC", "cost"], rows), ""]
    return "\n".join([*lines, origins(records), ""])


def write_cells(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> Path:
    """Write the page."""
    return write_text(Path(folder) / "cells.md", cells_page(list(read_records(path))))
