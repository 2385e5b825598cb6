"""The page about a fitted model: one HTML file that needs nothing else, not even a network."""

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._base.checks import is_whole
from corrtensor._base.extras import need
from corrtensor._base.files import replacing
from corrtensor._engine.containers import bare
from corrtensor.report.charts import convergence_chart, point_charts
from corrtensor.report.model_pictures import factor_pictures, mean_picture, rank_ladder
from corrtensor.report.pictures import Painter, atlas, data_uri
from corrtensor.report.survey import Survey, survey
from corrtensor.report.words import column, headline, number, readable, rest, settings, summary

# Longest side of the pictures in the table.
SIDE = 96
COLUMNS = ("unusual", "residual", "score")


def write_page(
    path: str | os.PathLike[str],
    model: Any,
    X: Any,
    *,
    names: Sequence[object] | None = None,
    labels: Sequence[object] | None = None,
    title: str | None = None,
    most: int = 50,
) -> Path:
    """Write a page about a fitted model and samples: one file, whole or not at all.

    Parameters
    ----------
    path : path-like
        Where to write; an older file is replaced.
    model : estimator
        A fitted subspace, such as :class:`corrtensor.CorrTensor`.
    X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
        Samples, those of the fit or others. Arrays on disk are read block by block.
    names : sequence of str, default=None
        A name for each sample, such as its file's; by default its number, from 0.
    labels : sequence, default=None
        What each sample is said to be.
    title : str, default=None
        Heading of the page.
    most : int, default=50
        How many of the most unusual samples the table holds.

    Returns
    -------
    path : Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import corrtensor as ct
    >>> from corrtensor.report.page import write_page
    >>> X, _ = ct.datasets.dummy_outliers(ct.datasets.load_faces().images[:60], 6, rng=0)
    >>> model = ct.CorrTensor(ranks=(8, 8)).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_page(Path(folder) / "faces.html", model, X, title="Sixty faces")
    ...     page.read_text(encoding="utf-8")[:15]
    '<!doctype html>'
    """
    if not is_whole(most) or most < 1:
        raise ValueError(f"most={most!r} must be an integer of at least 1")
    X = bare(X, model)
    shape = getattr(X, "shape", None)
    n = len(X) if shape is None else int(shape[0])
    shown = check_texts(names, n, "names") or [f"sample {i}" for i in range(n)]
    said = check_texts(labels, n, "labels")
    data = page_data(model, survey(model, X), shown, said, int(most))
    text = render("page", {**data, "title": readable(title or f"A look at {n:,} samples")})
    with replacing(path) as file:
        file.write(text.encode("utf-8"))
    return Path(path)


def check_texts(texts: Sequence[object] | None, n: int, name: str) -> list[str] | None:
    """Return one readable text for each sample."""
    if texts is None:
        return None
    if isinstance(texts, str) or len(texts) != n:
        got = repr(texts) if isinstance(texts, str) else f"{len(texts)} entries"
        raise ValueError(f"{name} must have one entry for each of the {n} samples, not {got}")
    return [readable(text) for text in texts]


def page_data(
    model: Any, found: Survey, names: list[str], labels: list[str] | None, most: int
) -> dict[str, Any]:
    """Return what the template is filled with, but for the title."""
    charts = point_charts(found)
    return {
        "view": found.painter.view.words,
        "kind": found.painter.view.kind,
        "own_range": not found.painter.fixed,
        "tiles": headline(found),
        "summary": summary(model, found, names),
        "convergence": convergence_chart(model),
        "rest": rest(model),
        "method": type(model).__name__,
        "settings": settings(model),
        "charts": {chart.name: chart for chart in charts},
        "rows": rows(found, names, labels, most),
        "has_weights": found.distances.weights is not None,
        "has_labels": labels is not None,
        "has_cells": found.torn,
        "n_samples": found.source.n_samples,
        "n_drawn": len(found.drawn),
        "ladder": rank_ladder(found, names),
        "mean": mean_picture(found),
        "factors": factor_pictures(found),
        "data": browser_data(found, names, labels, charts),
    }


def rows(
    found: Survey, names: list[str], labels: list[str] | None, most: int
) -> list[dict[str, Any]]:
    """Return the table of the most unusual samples."""
    chosen = found.order[:most]
    measured, painter = found.distances, found.painter
    columns = {name: column(getattr(measured, name)[chosen]) for name in COLUMNS}
    table = []
    for place, i in enumerate(chosen.tolist()):
        # One at a time: samples may be large.
        x = found.source.take(np.array([i]))
        sample, made = x[0], found.subspace.back(found.subspace.cores(x))[0]
        limits, whole = painter.limits_for(sample), found.subspace.whole(x)[0]
        table.append(
            {
                "index": i,
                "name": names[i],
                "label": labels[i] if labels else "",
                "weight": float(found.weights[i]),
                "reason": "; ".join(measured.reasons[i]),
                **{name: float(getattr(measured, name)[i]) for name in COLUMNS},
                **{f"{name}_words": texts[place] for name, texts in columns.items()},
                "picture": data_uri(painter.sample(sample, limits, SIDE)),
                "made": data_uri(painter.sample(made, limits, SIDE)),
                "map": data_uri(painter.residual(sample - made, SIDE)),
                **(cell_pictures(painter, sample, whole) if found.torn else {}),
            }
        )
    return table


def cell_pictures(painter: Painter, sample: np.ndarray, whole: np.ndarray) -> dict[str, Any]:
    """Return the share of cells that were replaced, which they are, and the repaired sample."""
    replaced, limits = whole != sample, painter.limits_for(sample)
    return {
        "cells": float(replaced.mean()),
        "marked": data_uri(painter.marked(sample, replaced, limits, SIDE)),
        "repaired": data_uri(painter.sample(whole, limits, SIDE)),
    }


def browser_data(
    found: Survey, names: list[str], labels: list[str] | None, charts: Sequence[Any]
) -> dict[str, Any]:
    """Return what the page's script needs: names, places on the charts, tiles."""
    drawn, measured = found.drawn, found.distances
    data: dict[str, Any] = {
        "number": drawn.tolist(),
        "name": [names[i] for i in drawn],
        "residual": [number(v) for v in measured.residual[drawn].tolist()],
        "score": [number(v) for v in measured.score[drawn].tolist()],
        # As the arrow keys visit them: the most unusual first.
        "order": np.argsort(-measured.unusual[drawn], kind="stable").tolist(),
        "atlas": atlas(found.tiles),
        "places": {chart.name: chart.places for chart in charts},
    }
    if measured.weights is not None:
        data["weight"] = [f"{w:.2f}" for w in measured.weights[drawn].tolist()]
    if labels is not None:
        data["label"] = [labels[i] for i in drawn]
    return data


def render(name: str, data: dict[str, Any]) -> str:
    """Fill a template; all that comes from the data is escaped."""
    jinja2 = need("jinja2", "report", "a report page")
    markup = need("markupsafe", "report", "a report page").Markup
    loader = jinja2.PackageLoader("corrtensor.report")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    css, theme, js = (
        loader.get_source(environment, file)[0] for file in ("page.css", "theme.js", f"{name}.js")
    )
    return environment.get_template(f"{name}.html").render(
        **data,
        css=markup(css),
        js=markup(theme + js),
        policy=policy(css, theme + js),
        version=version("corrtensor"),
    )


def policy(css: str, js: str) -> str:
    """Return a content security policy: this style, this script, pictures inside the page.

    With the hashes of both, nothing that a file name might smuggle in can run, and nothing can
    be fetched or sent.
    """

    def hashed(text: str) -> str:
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"

    return (
        f"default-src 'none'; img-src data:; style-src {hashed(css)}; script-src {hashed(js)}; "
        "base-uri 'none'; form-action 'none'"
    )
