"""The generalised correntropy loss."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy.optimize import brentq

from corrtensor._base.checks import require_positive
from corrtensor.losses.protocol import Loss
from corrtensor.losses.scale import RELATIVE_FLOOR, typical, upper_edge

# Beyond this logarithm numbers grow slowly, so that weights far out are tiny, not undefined.
LARGEST_LOG = 690.0
# Below this a number is as good as zero: u / (e^u - 1) is 1, and 1 - e^-u is u.
SMALLEST = 1e-300


@dataclass(frozen=True)
class Correntropy(Loss):
    """The generalised correntropy loss ``(1 - exp(-(s/b**2)**(alpha/2)))**(p/2)``.

    What is far out costs a constant and pulls no more. ``b`` is ``beta`` times a unit that is
    read off the residuals.

    Parameters
    ----------
    alpha : float, default=4.0
        Power of the residual in the kernel; 2 is the Gaussian.
    beta : float, default=2.0
        Bandwidth, in units of ``scale``.
    p : float, default=2.0
        Order of the loss in the kernel space (paper, section VI).
    scale : {"auto", "median"}, float or None, default="auto"
        Unit of ``beta``. ``"auto"``: such that ``beta=2`` gives full weight up to where good
        residuals end, judged by their quartiles. ``"median"``: the square root of the median
        squared residual. A number, or ``None`` for the data's own units, as in the paper.
    cap : bool, default=True
        Hold the weight flat below its peak. It matters only where ``alpha * p > 4``: there
        the printed loss gives small residuals *less* weight, is not concave, and sweeps may
        raise it. With the cap it is concave for every alpha and p.
    reach : float, default=4.0
        For ``scale="auto"``: good residuals end so many standard deviations of the logarithm of
        the squared residual above its median. Quartiles tell the deviation, the nearer of the
        two; the end is kept between 1.5 and 64 times the median.
    good : float, default=0.0
        For ``scale="auto"``: a squared residual that is known to be good, so that the end lies no
        nearer.
    unit : float, default=1.0
        What ``beta`` counts in; set by :meth:`calibrate`.
    floor : float, default=0.0
        What is added to every squared residual; set by :meth:`calibrate`.

    See Also
    --------
    Power : Least squares and the R1 norm.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.losses import Correntropy
    >>> loss = Correntropy(alpha=2, beta=1, scale=None)
    >>> loss.value(np.array([0.0, 1.0, 1e6])).round(3)
    array([0.   , 0.632, 1.   ])
    >>> np.exp(loss.log_weight(np.array([0.0, 1.0, 4.0]))).round(3)
    array([1.   , 0.368, 0.018])
    """

    alpha: float = 4.0
    beta: float = 2.0
    p: float = 2.0
    scale: str | float | None = "auto"
    cap: bool = True
    reach: float = 4.0
    good: float = field(default=0.0, repr=False)
    unit: float = field(default=1.0, repr=False)
    floor: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        require_positive(alpha=self.alpha, beta=self.beta, p=self.p, reach=self.reach)
        if isinstance(self.scale, str):
            if self.scale not in ("auto", "median"):
                raise ValueError(
                    f"scale={self.scale!r}: use 'auto', 'median', None or a positive number"
                )
        elif self.scale is not None:
            require_positive(scale=self.scale)

    @property
    def width(self) -> float:
        """The bandwidth b in the data's units."""
        return self.beta * self.unit

    @property
    def log_width(self) -> float:
        """Its logarithm, also where the width itself overflows or vanishes."""
        if 0 < self.width < math.inf:
            return math.log(self.width)
        return math.log(self.beta) + math.log(self.unit)

    def calibrate(self, s: np.ndarray) -> Self:
        if self.scale == "auto":
            # All that is within the edge keeps its full weight.
            unit = math.sqrt(2 * max(upper_edge(s, self.reach), self.good)) / 2
        elif self.scale == "median":
            unit = math.sqrt(typical(s))
        else:
            unit = 1.0 if self.scale is None else float(self.scale)
        return replace(self, unit=unit, floor=RELATIVE_FLOOR * typical(s))

    @cached_property
    def peak(self) -> float:
        """The squared residual of the largest weight: zero when alpha * p <= 4."""

        # d log w / d log u, a falling function of u (docs/method.md, section 3)
        def slope(u: float) -> float:
            return 1 - 2 / self.alpha - u + (self.p / 2 - 1) * u / math.expm1(u)

        # Where alpha * p is next to 4, only rounding tells.
        if self.alpha * self.p <= 4 or slope(SMALLEST) <= 0:
            return 0.0
        u = brentq(slope, SMALLEST, min(1 + self.p, LARGEST_LOG))
        direct = self.width * self.width * u ** (2 / self.alpha)
        if 0 < direct < math.inf:
            return float(direct)
        log_peak = 2 * self.log_width + 2 / self.alpha * math.log(u)
        return math.exp(min(log_peak, LARGEST_LOG))

    def _log_u(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            log_s = np.log(s + self.floor)
        log_u = self.alpha / 2 * (log_s - 2 * self.log_width)
        # Still growing: of residuals that are all far out, the smallest must count most.
        beyond = 1 + np.log1p(np.maximum(log_u - LARGEST_LOG, 0))
        return log_s, log_u, np.exp(np.minimum(log_u, LARGEST_LOG)) * beyond

    def _value(self, s: np.ndarray) -> np.ndarray:
        return (-np.expm1(-self._log_u(s)[2])) ** (self.p / 2)

    def value(self, s: np.ndarray) -> np.ndarray:
        # Below the peak of the weight, if capped, a straight piece.
        if not self.cap or not self.peak:
            return self._value(s)
        peak = np.array(self.peak)
        steepest = math.exp(float(self._log_weight(peak)) + math.log(self.peak))
        straight = steepest * (np.minimum(s, peak) / self.peak)
        # In this order: the values far out must not drown the straight piece.
        return straight + (self._value(np.maximum(s, peak)) - self._value(peak))

    def _log_weight(self, s: np.ndarray) -> np.ndarray:
        log_s, log_u, u = self._log_u(s)
        half = self.alpha / 2
        log_slope = math.log(half) - self.alpha * self.log_width
        # At s = 0 the power of s alone decides; where it is absent, 0 * -inf must not.
        power = (half - 1) * log_s if half != 1 else np.zeros_like(log_s)
        result = log_slope - u + power + math.log(self.p / 2)
        if self.p != 2:
            with np.errstate(divide="ignore"):
                log_value = np.where(u < SMALLEST, log_u, np.log(-np.expm1(-u)))
            result = result + (self.p / 2 - 1) * log_value
        return result

    def log_weight(self, s: np.ndarray) -> np.ndarray:
        return self._log_weight(np.maximum(s, self.peak) if self.cap else s)
