"""Powers of the residual: least squares and the R1 norm."""

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from corrtensor._base.checks import require_positive
from corrtensor.losses.protocol import Loss
from corrtensor.losses.scale import RELATIVE_FLOOR, typical


@dataclass(frozen=True)
class Power(Loss):
    """``phi(s) = s**(p/2)``: least squares at ``p=2``, the R1 norm at ``p=1``.

    Below 2 the weight falls with the residual, but never to zero.

    Parameters
    ----------
    p : float, default=2.0
        Power of the residual's norm, in (0, 2].
    floor : float, default=0.0
        What is added to every squared residual; set by :meth:`calibrate`.

    See Also
    --------
    Correntropy : A loss that lets go of outliers altogether.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.losses import Power
    >>> np.exp(Power(p=1).log_weight(np.array([1.0, 4.0])))
    array([0.5 , 0.25])
    """

    p: float = 2.0
    floor: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        require_positive(p=self.p)
        if self.p > 2:
            raise ValueError(f"p={self.p!r} must not exceed 2: the loss would not be concave")

    def value(self, s: np.ndarray) -> np.ndarray:
        return (s + self.floor) ** (self.p / 2)

    def log_weight(self, s: np.ndarray) -> np.ndarray:
        if self.p == 2:
            return np.zeros_like(s)
        with np.errstate(divide="ignore"):
            return math.log(self.p / 2) + (self.p / 2 - 1) * np.log(s + self.floor)

    def calibrate(self, s: np.ndarray) -> Self:
        # Smoothed below a small share of the median residual.
        return self if self.p == 2 else replace(self, floor=RELATIVE_FLOOR * typical(s))
