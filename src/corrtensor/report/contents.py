"""What a report page shows: words, numbers and pictures, ready for its template."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor.report.cards import cluster_cards, factor_pictures, mean_picture
from corrtensor.report.chart_choice import convergence_chart, point_charts
from corrtensor.report.rank_slider import rank_ladder
from corrtensor.report.samples_seen import Survey, survey
from corrtensor.report.thumbnails import atlas, data_uri
from corrtensor.report.words import column, headline, number, readable, rest, settings, summary

# Longest side of the pictures in the table.
SIDE = 96
COLUMNS = ("unusual", "residual", "score")


@dataclass(frozen=True)
class Request:
    """What the caller of :func:`corrtensor.report.page.write_page` asked for, checked."""

    names: list[str]
    labels: list[str] | None
    clusters: Any
    title: str
    most: int


def check_texts(texts: Sequence[object] | None, n: int, name: str) -> list[str] | None:
    """Return one readable text for each sample."""
    if texts is None:
        return None
    if isinstance(texts, str) or len(texts) != n:
        got = repr(texts) if isinstance(texts, str) else f"{len(texts)} entries"
        raise ValueError(f"{name} must have one entry for each of the {n} samples, not {got}")
    return [readable(text) for text in texts]


def check_request(
    n: int,
    names: Sequence[object] | None,
    labels: Sequence[object] | None,
    clusters: Any,
    title: str | None,
    most: int,
) -> Request:
    """Check what was asked for against the number of samples."""
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < 1:
        raise ValueError(f"most={most!r} must be an integer of at least 1")
    if clusters is not None:
        if not (hasattr(clusters, "decision_graph_") and hasattr(clusters, "labels_")):
            raise TypeError(f"clusters={clusters!r} must be a fitted DensityPeaksKMeans")
        if len(clusters.labels_) != n:
            raise ValueError(
                f"clusters were found among {len(clusters.labels_)} samples; X has {n}"
            )
    shown = check_texts(names, n, "names") or [f"sample {i}" for i in range(n)]
    asked = check_texts(labels, n, "labels")
    heading = readable(title or f"A look at {n:,} samples")
    return Request(shown, asked, clusters, heading, int(most))


def page_data(model: Any, X: Any, request: Request) -> dict[str, Any]:
    """Return all that the template is filled with."""
    found = survey(model, X)
    charts = point_charts(found, request.clusters)
    return {
        "title": request.title,
        "view": found.painter.view.words,
        "kind": found.painter.view.kind,
        "own_range": not found.painter.fixed,
        "tiles": headline(found),
        "summary": summary(model, found, request.names, request.clusters),
        "convergence": convergence_chart(model),
        "rest": rest(model),
        "method": type(model).__name__,
        "settings": settings(model),
        "charts": {chart.name: chart for chart in charts},
        "rows": rows(found, request),
        "has_weights": found.distances.weights is not None,
        "has_labels": request.labels is not None,
        "has_clusters": request.clusters is not None,
        "n_samples": found.source.n_samples,
        "n_drawn": len(found.drawn),
        "ladder": rank_ladder(found, request.names),
        "mean": mean_picture(found),
        "factors": factor_pictures(found),
        "clusters": cluster_cards(found, request.clusters, request.names),
        "data": browser_data(found, request, charts),
    }


def rows(found: Survey, request: Request) -> list[dict[str, Any]]:
    """Return the table of the most unusual samples."""
    chosen = found.order[: request.most]
    measured, painter = found.distances, found.painter
    columns = {name: column(getattr(measured, name)[chosen]) for name in COLUMNS}
    table = []
    for place, i in enumerate(chosen.tolist(), start=1):
        # One at a time: samples may be large.
        x = found.source.take(np.array([i]))
        sample, made = x[0], found.subspace.back(found.subspace.cores(x))[0]
        limits = painter.limits_for(sample)
        table.append(
            {
                "place": place,
                "index": i,
                "name": request.names[i],
                "label": request.labels[i] if request.labels else "",
                "cluster": None if request.clusters is None else int(request.clusters.labels_[i]),
                "weight": float(found.weights[i]),
                "residual": float(measured.residual[i]),
                "score": float(measured.score[i]),
                "unusual": float(measured.unusual[i]),
                "reason": "; ".join(measured.reasons[i]),
                **{f"{name}_words": texts[place - 1] for name, texts in columns.items()},
                "picture": data_uri(painter.sample(sample, limits, SIDE)),
                "made": data_uri(painter.sample(made, limits, SIDE)),
                "map": data_uri(painter.residual(sample - made, SIDE)),
            }
        )
    return table


def browser_data(found: Survey, request: Request, charts: Sequence[Any]) -> dict[str, Any]:
    """Return what the page's script needs: names, places on the charts, tiles."""
    drawn, measured = found.drawn, found.distances
    data: dict[str, Any] = {
        "number": drawn.tolist(),
        "name": [request.names[i] for i in drawn],
        "residual": [number(v) for v in measured.residual[drawn].tolist()],
        "score": [number(v) for v in measured.score[drawn].tolist()],
        "order": visiting_order(measured.unusual[drawn]),
        "atlas": atlas(found.tiles),
        "places": {chart.name: chart.places for chart in charts},
    }
    if measured.weights is not None:
        data["weight"] = [f"{w:.2f}" for w in measured.weights[drawn].tolist()]
    if request.labels is not None:
        data["label"] = [request.labels[i] for i in drawn]
    if request.clusters is not None:
        data["cluster"] = (np.asarray(request.clusters.labels_)[drawn] + 1).tolist()
    return data


def visiting_order(unusual: np.ndarray) -> list[int]:
    """Return the samples as the arrow keys visit them: the most unusual first."""
    order: list[int] = np.argsort(-unusual, kind="stable").tolist()
    return order
