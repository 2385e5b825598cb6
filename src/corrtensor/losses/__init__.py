"""Losses: what a squared residual costs, and how much weight that leaves its sample.

A solver loss has three methods (see ``docs/method.md``, section 2, and ``CONTRIBUTING.md``):

``value(s)``
    the loss phi of each squared residual ``s``;
``log_weight(s)``
    the logarithm of its slope, ``log phi'(s)``;
``calibrate(s)``
    a copy whose constants are frozen for data with these residuals, so that the objective
    stays one function during the sweeps.

A concave phi makes every sweep a descent step.
"""

from corrtensor.losses.correntropy import Correntropy
from corrtensor.losses.power import Power
from corrtensor.losses.protocol import Loss

__all__ = ["Correntropy", "Loss", "Power"]
