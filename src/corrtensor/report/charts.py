"""Charts as numbers: places, ticks and paths that the page's template writes as SVG."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from corrtensor.report.survey import Survey

WIDTH, HEIGHT = 460, 330
LEFT, RIGHT, TOP, BOTTOM = 32, 14, 14, 46
# Room for a character of a tick on the left.
CHARACTER = 8
# A logarithmic axis when the largest value is this many medians.
FAR = 8.0
# An axis need not begin at zero when the smallest value is this share of the largest.
NEARLY_EQUAL = 0.6
TICKS = 5


@dataclass(frozen=True)
class Scale:
    """Values from ``low`` to ``high`` to places along an axis from ``start`` to ``stop``.

    With ``log`` equal steps are equal ratios; with ``whole`` only whole numbers are ticks.
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False
    whole: bool = False

    @classmethod
    def fit(cls, values: np.ndarray, start: float, stop: float, *, log: bool = False) -> Self:
        """Return a scale with room for all values, or for all positive ones."""
        if log:
            values = values[values > 0]
            low, high = float(values.min()) / 1.15, float(values.max()) * 1.15
            return cls(low, high, start, stop, log=True)
        low, high = float(values.min()), float(values.max())
        room = 0.04 * (high - low) or abs(high) * 0.04 or 0.5
        whole = values.dtype.kind in "iu"
        return cls(low - room, high + room, start, stop, whole=whole)

    @classmethod
    def of_distances(cls, values: np.ndarray, start: float, stop: float) -> Self:
        """Return a scale from zero, unless values are far out (logarithmic) or nearly equal."""
        positive = values[values > 0]
        if len(positive) and positive.max() > FAR * np.median(positive):
            return cls.fit(values, start, stop, log=True)
        if values.min() > NEARLY_EQUAL * values.max():
            return cls.fit(values, start, stop)
        return cls(0.0, (float(values.max()) or 1.0) * 1.04, start, stop)

    def __call__(self, values: np.ndarray | float) -> np.ndarray:
        """Return the places of values; what is not on the axis goes to its nearer end."""
        v = np.clip(np.asarray(values, dtype=float), self.low, self.high)
        if self.log:
            share = np.log(v / self.low) / math.log(self.high / self.low)
        else:
            share = (v - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return places and words of round values."""
        values = log_ticks(self.low, self.high) if self.log else round_ticks(self.low, self.high)
        if self.whole:
            values = [v for v in values if v == round(v)]
        places = [round(float(self(v)), 1) for v in values]
        return list(zip(places, told_apart(values), strict=True))


def told_apart(values: list[float]) -> list[str]:
    """Return numbers in as few digits as tell them apart, but six at least."""
    for digits in range(6, 17):
        words = [f"{v:.{digits}g}" for v in values]
        if len(set(words)) == len(set(values)):
            break
    return words


def round_ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers within a range."""
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [k * step for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten within a range, with 2 and 5 times them if they are few."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values: list[float] = []
    for multiples in ((1,), (1, 2, 5), tuple(range(1, 10))):
        values = [m * 10.0**e for e in exponents for m in multiples]
        values = [v for v in values if low <= v <= high]
        if len(values) >= 3:
            break
    return values[:: math.ceil(len(values) / 8)] if values else [low, high]


@dataclass
class Chart:
    """All that the template needs to draw a chart; the label says in words what it shows."""

    name: str
    label: str
    x: Scale
    y: Scale
    x_label: str
    y_label: str
    paths: list[tuple[str, str]] = field(default_factory=list)
    limits: list[tuple[float, float, float, float]] = field(default_factory=list)
    places: tuple[list[int], list[int]] | None = None
    left: int = LEFT

    width, height = WIDTH, HEIGHT
    right, top, bottom = WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    def add_points(self, x: np.ndarray, y: np.ndarray, marked: np.ndarray) -> None:
        """Add points that a reader can visit; the marked ones are crosses."""
        at_x, at_y = self.x(x).round().astype(int), self.y(y).round().astype(int)
        self.paths.append(("usual", dots(at_x[~marked], at_y[~marked])))
        self.paths.append(("unusual", crosses(at_x[marked], at_y[marked])))
        self.places = at_x.tolist(), at_y.tolist()

    def add_limits(self, y: float, x: float | None = None) -> None:
        """Add dashed lines where usual values end."""
        if x is not None:
            at = round(float(self.x(x)), 1)
            self.limits.append((at, self.top, at, self.bottom))
        at = round(float(self.y(y)), 1)
        self.limits.append((self.left, at, self.right, at))


def axes(
    name: str,
    label: str,
    x: tuple[np.ndarray, str],
    y: tuple[np.ndarray, str],
    make: Callable[[np.ndarray, float, float], Scale] = Scale.fit,
) -> Chart:
    """Return an empty chart with room for the values, on scales that ``make`` makes."""
    up = make(y[0], Chart.bottom, Chart.top)
    left = LEFT + CHARACTER * max(len(words) for _, words in up.ticks())
    return Chart(name, label, make(x[0], left, Chart.right), up, x[1], y[1], left=left)


def dots(x: np.ndarray, y: np.ndarray) -> str:
    """Return a path of points: with round ends, lines without length are dots."""
    return "".join(f"M{a} {b}h0" for a, b in zip(x, y, strict=True))


def crosses(x: np.ndarray, y: np.ndarray) -> str:
    """Return a path of small crosses."""
    return "".join(f"M{a - 3} {b - 3}l6 6m-6 0l6-6" for a, b in zip(x, y, strict=True))


def polyline(x: np.ndarray, y: np.ndarray) -> str:
    """Return a path through points."""
    return "M" + "L".join(f"{a:.1f} {b:.1f}" for a, b in zip(x, y, strict=True))


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


def point_charts(found: Survey) -> list[Chart]:
    """Return the charts on which every sample is a point."""
    drawn, measured = found.drawn, found.distances
    marked = measured.unusual[drawn] > 1
    charts = [outlier_chart(found, marked)]
    if measured.weights is not None:
        w = measured.weights[drawn]
        label = f"Weight of {len(drawn):,} samples, between 0 and 1"
        chart = axes("weights", label, (drawn, "sample number"), (np.array([0.0, 1.0]), "weight"))
        chart.add_points(drawn, w, marked)
        chart.add_limits(0.5)
        charts.append(chart)
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
    across, upwards = (x, "score distance"), (y, "orthogonal distance")
    chart = axes("map", label, across, upwards, Scale.of_distances)
    chart.add_points(score, residual, marked)
    chart.add_limits(measured.residual_limit, measured.score_limit)
    return chart
