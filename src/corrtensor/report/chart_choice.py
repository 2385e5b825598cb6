"""The charts of a report page."""

from typing import Any

import numpy as np

from corrtensor.report.charts import Chart, axes, dots, polyline
from corrtensor.report.samples_seen import Survey


def convergence_chart(model: Any) -> Chart | None:
    """Return the objective after each sweep; ``None`` unless there are several values of one."""
    values = getattr(model, "objective_", None)
    if not isinstance(values, np.ndarray) or values.ndim != 1 or len(values) < 2:
        return None
    sweeps = np.arange(1, len(values) + 1)
    label = (
        f"Objective after each of {len(values)} sweeps, from {values[0]:.6g} to {values[-1]:.6g}"
    )
    chart = axes("convergence", label, (sweeps, "sweep"), (values, "objective"))
    x, y = chart.x(sweeps), chart.y(values)
    chart.paths = [("line", polyline(x, y)), ("usual", dots(x.round(1), y.round(1)))]
    return chart


def point_charts(found: Survey, clusters: Any) -> list[Chart]:
    """Return the charts on which every sample is a point."""
    drawn, measured = found.drawn, found.distances
    marked = measured.unusual[drawn] > 1
    charts = [outlier_chart(found, marked)]
    if measured.weights is not None:
        w = measured.weights[drawn]
        label = f"Weight of {len(drawn):,} samples, between 0 and 1"
        chart = axes("weights", label, (drawn, "sample number"), (np.array([0.0, 1.0]), "weight"))
        chart.add_points(drawn, w, marked)
        chart.add_limits(y=0.5)
        charts.append(chart)
    if clusters is not None:
        charts.append(decision_chart(found, clusters))
    return charts


def outlier_chart(found: Survey, marked: np.ndarray) -> Chart:
    """Return the outlier map."""
    drawn, measured = found.drawn, found.distances
    score, residual = measured.score[drawn], measured.residual[drawn]
    label = (
        f"Outlier map of {len(drawn):,} samples, {int(marked.sum()):,} of them beyond the cut: "
        "score distance across, orthogonal distance upwards"
    )
    x = np.append(score, measured.score_limit)
    y = np.append(residual, measured.residual_limit)
    chart = axes(
        "map",
        label,
        (x, "score distance"),
        (y, "orthogonal distance"),
        "of_distances",
    )
    chart.add_points(score, residual, marked)
    chart.add_limits(measured.score_limit, measured.residual_limit)
    return chart


def decision_chart(found: Survey, clusters: Any) -> Chart:
    """Return the decision graph, the chosen centres marked."""
    graph, drawn = clusters.decision_graph_, found.drawn
    rho, delta = graph.rho[drawn], graph.delta[drawn]
    label = (
        f"Decision graph of {len(drawn):,} samples, {len(graph.chosen)} of them chosen as centres: "
        "density across, distance from the nearest denser sample upwards"
    )
    chart = axes("decision", label, (rho, "density"), (delta, "distance from a denser sample"))
    chart.add_points(rho, delta, np.isin(drawn, graph.chosen))
    return chart
