"""The page about outliers: the oddest samples with their reasons, the cut, copies, a list to take.

One HTML file like the report page, with the same style and the same policy.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._base.files import replacing
from corrtensor._base.names import cell
from corrtensor._engine.arrays.source import plain
from corrtensor.report.charts import Scale
from corrtensor.report.page import cell_pictures, render
from corrtensor.report.pictures import Painter, data_uri
from corrtensor.report.words import readable
from corrtensor.tasks.ranking import Ranking
from corrtensor.tasks.samples import in_shape

# Samples in the gallery: all outliers, and a few more, but not more than this.
MOST, BEYOND = 150, 24
# Groups of copies, members of each, twins and skipped files that are shown.
MOST_GROUPS, MOST_MEMBERS, MOST_LINES = 60, 8, 500
SIDE, SMALL = 128, 96
# The histogram: its size and how many bars.
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, BARS = 560, 200, 14, 14, 158, 50


def write_outlier_page(
    path: str | os.PathLike[str],
    detector: Any,
    X: Any,
    ranking: Ranking,
    *,
    names: Sequence[str] | None = None,
    skipped: Sequence[tuple[str, str]] = (),
    title: str = "Outliers",
) -> Path:
    """Write the page: one file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write; an older file is replaced.
    detector : TensorOutlierDetector or None
        Fitted; ``None`` if there was nothing to learn from.
    X : array of shape (n_samples, a_1, ..., a_d)
        The samples, in memory or on disk.
    ranking : Ranking
        What the detector says of them.
    names : sequence of str, default=None
        A name for each sample; by default its number.
    skipped : sequence of (str, str), default=()
        Files that were left out, and why.
    title : str, default="Outliers"
        Heading of the page.

    Returns
    -------
    path : Path
        Where the page is.
    """
    shown = [readable(n) for n in (names or [f"sample {i}" for i in range(len(ranking.scores))])]
    draw = Pictures(detector, X, ranking)
    text = render("outliers", page_data(draw, ranking, shown, names, skipped, title))
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)


class Pictures:
    """Samples as small pictures, read one at a time."""

    def __init__(self, detector: Any, X: Any, ranking: Ranking) -> None:
        shape = np.shape(X)[1:] if detector is None else detector.profile_.mean.shape
        self.detector, self.source = detector, plain(in_shape(X, shape), missing=True)
        usual = np.flatnonzero(~ranking.flagged)
        usual = usual if len(usual) else np.arange(len(ranking.scores))
        self.painter = Painter.of(self.source, usual)

    def of(self, i: int, side: int) -> str:
        """Return a sample as a picture."""
        x = self.source.take(np.array([i]))[0]
        return data_uri(self.painter.sample(x, self.painter.limits_for(x), side))

    def map(self, i: int) -> str | None:
        """Return where a sample differs from what the subspace explains."""
        if self.detector is None:
            return None
        x = self.source.take(np.array([i]))
        flat = getattr(self.detector.subspace_, "sample_shape", None) is not None
        squares = self.detector.residual_map(x.reshape(1, -1) if flat else x)
        return data_uri(self.painter.residual(np.sqrt(squares).reshape(x.shape[1:]), SIDE))

    def cells(self, i: int) -> dict[str, Any] | None:
        """Return which cells of a sample were replaced, and it repaired; nothing if none may be."""
        x: Any = self.source.take(np.array([i]))
        subspace: Any = getattr(self.detector, "subspace_", None)
        if not hasattr(subspace, "repair"):
            return None
        if not getattr(subspace, "cells", False) and not np.isnan(x).any():
            return None
        whole = np.asarray(subspace.repair(x)).reshape(x.shape)
        return cell_pictures(self.painter, x[0], whole[0])


def page_data(
    draw: Pictures,
    ranking: Ranking,
    shown: list[str],
    names: Sequence[str] | None,
    skipped: Sequence[tuple[str, str]],
    title: str,
) -> dict[str, Any]:
    """Return all that the template is filled with."""
    order, words = ranking.order, ranking.words(shown)
    groups, flagged = ranking.duplicates.groups, int(ranking.flagged.sum())
    cards = gallery(draw, ranking, shown, words, order[: min(MOST, flagged + BEYOND)].tolist())
    chart = histogram(ranking)
    # As many digits as tell on which side of the cut a sample lies.
    scores = [float(f"{ranking.scores[i]:.9g}") for i in order]
    copies = sum(map(len, groups)) - len(groups)
    return {
        "title": readable(title),
        "kind": draw.painter.view.kind,
        "n_samples": len(shown),
        "cut": float(ranking.cut),
        "tiles": [
            (f"{len(shown):,}", "samples"),
            (f"{flagged:,}", "above the cut"),
            (f"{copies:,}", "copy of another" if copies == 1 else "copies of others"),
            (f"{len(skipped):,}", "files skipped"),
        ],
        "histogram": chart,
        "cards": cards,
        "reasons": Counter(why for card in cards for why in card["reasons"]).most_common(),
        "groups": [
            [
                {"name": shown[i], "picture": draw.of(i, SMALL), "how": copy_words(ranking, i, g)}
                for i in g[:MOST_MEMBERS]
            ]
            for g in groups[:MOST_GROUPS]
        ],
        "sizes": [len(group) for group in groups[:MOST_GROUPS]],
        "more_groups": max(0, len(groups) - MOST_GROUPS),
        "twins": [
            f"{shown[i]} is a {how} twin of {shown[j]}"
            for i, j, how in ranking.duplicates.twins[:MOST_LINES]
        ],
        "skipped": [(readable(name), reason) for name, reason in skipped[:MOST_LINES]],
        "data": {
            "cut": float(ranking.cut),
            "score": scores,
            "name": [shown[i] for i in order],
            "cell": [cell(names[i]) if names else shown[i] for i in order],
            "why": [words[i] for i in order],
            **{key: chart[key] for key in ("left", "right", "high")},
        },
    }


def copy_words(ranking: Ranking, i: int, group: tuple[int, ...]) -> str:
    """Say what a member of a group of copies is."""
    if i == group[0]:
        return "the first"
    return "the same" if ranking.duplicates.same[i] else "nearly the same"


def gallery(
    draw: Pictures, ranking: Ranking, shown: list[str], words: list[str], chosen: list[int]
) -> list[dict[str, Any]]:
    """Return the cards of the oddest samples; their places in the order are their numbers."""
    copies = ranking.duplicates.words(shown)
    cards = []
    for place, i in enumerate(chosen):
        near = int(ranking.nearest[i])
        # Which column it is stands on the card; the filter has the kinds.
        why = [reason.partition(": ")[0] for reason in ranking.reasons[i]]
        if i in copies:
            why.append(copies[i].partition(" of ")[0])
        cards.append(
            {
                "index": place,
                "place": place + 1,
                "name": shown[i],
                "score": float(ranking.scores[i]),
                "words": f"{ranking.scores[i]:.2f}",
                "why": words[i],
                "reasons": why,
                "picture": draw.of(i, SIDE),
                "map": draw.map(i),
                "cells": draw.cells(i),
                "near": draw.of(near, SIDE) if near >= 0 else None,
                "near_name": shown[near] if near >= 0 else "",
            }
        )
    return cards


def histogram(ranking: Ranking) -> dict[str, Any]:
    """Return the bars of all scores: their heights are roots of counts, so that few are seen."""
    high = float(max(ranking.scores.max(), 1.5 * ranking.cut))
    counts, edges = np.histogram(ranking.scores, bins=BARS, range=(0, high))
    right = WIDTH - LEFT
    step = (right - LEFT) / BARS
    tall = np.sqrt(counts) / max(np.sqrt(counts.max()), 1) * (BOTTOM - TOP)
    bars = [
        (round(LEFT + k * step + 0.5, 1), round(BOTTOM - h, 1), round(step - 1, 1), round(h, 1),
         round(float(low), 4))
        for k, (h, low) in enumerate(zip(tall.tolist(), edges[:-1].tolist(), strict=True))
        if h > 0
    ]  # fmt: skip
    ticks = Scale(0.0, high, LEFT, right).ticks()
    box = {"left": LEFT, "right": right, "top": TOP, "bottom": BOTTOM}
    size = {"width": WIDTH, "height": HEIGHT, "high": high, "step": high / 400}
    return {"bars": bars, "ticks": ticks, **box, **size}
