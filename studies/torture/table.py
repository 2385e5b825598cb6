"""The figures of the long run as the page on reliability shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["torture_table"]


def torture_table(figures: Mapping[str, Any]) -> str:
    """Return the figures as Markdown.

    Parameters
    ----------
    figures : mapping
        What the run has written.

    Returns
    -------
    text : str
        A sentence and two tables.
    """
    load, versions, crafted = figures["load"], figures["versions"], figures["crafted"]
    lines = [
        f"{figures['date']}, {figures['minutes']} minutes, seed {figures['seed']}, Python "
        f"{figures['python']}, {', '.join(f'{name} {v}' for name, v in versions.items())}: "
        f"**{figures['inputs']:,} mutated files, {figures['faults']:,} faults, "
        f"{load['fits']:,} fits, {figures['failures']} failures.**",
        "",
        f"Of {crafted['tried']} crafted cases, {len(crafted['failures'])} ended otherwise than "
        f"documented; the slowest took {crafted['seconds']:.1f} s of the processor, the largest "
        f"{crafted['peak'] / 2**20:.0f} MB of resident memory.",
        "",
        "| reader | files | read | refused | failures | memory grew by |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {name} | {row['tried']:,} | {row['read']:,} | {row['refused']:,} "
        f"| {len(row['failures'])} | {row['growth'] / 2**20:.1f} MB |"
        for name, row in figures["readers"].items()
    ]
    lines += ["", "| fault | injected | promises broken |", "| --- | --- | --- |"]
    lines += [
        f"| {name} | {row['injected']:,} | {len(row['failures'])} |"
        for name, row in figures["injected"].items()
    ]
    wrong = ", ".join(f"{name} {count}" for name, count in load["parallel"].items())
    lines += [
        "",
        f"After {load['fits']:,} fits in one process, resident memory had grown by "
        f"{load['growth'] / 2**20:.2f} MB, with {load['threads']} threads and {load['files']} open "
        f"files more. Of 8 fits beside each other, so many differed from serial ones: {wrong}.",
    ]
    return "\n".join(lines)
