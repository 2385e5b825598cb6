"""What the solver asks of a loss."""

from typing import Protocol, Self

import numpy as np


class Loss(Protocol):
    """What the solver asks of a loss.

    Any object with these three methods will do; it need not derive from this class.

    See Also
    --------
    Correntropy : The robust loss of the paper.
    Power : Least squares and the R1 norm.

    Examples
    --------
    >>> from corrtensor.losses import Loss, Power
    >>> loss: Loss = Power(p=1)
    """

    def value(self, s: np.ndarray) -> np.ndarray:
        """Return phi(s).

        Parameters
        ----------
        s : ndarray of shape (n_samples,)
            Squared residuals.

        Returns
        -------
        phi : ndarray of shape (n_samples,)
            The loss of each.
        """
        ...

    def log_weight(self, s: np.ndarray) -> np.ndarray:
        """Return log phi'(s).

        Parameters
        ----------
        s : ndarray of shape (n_samples,)
            Squared residuals.

        Returns
        -------
        log_weight : ndarray of shape (n_samples,)
            Logarithm of the weight of each.
        """
        ...

    def calibrate(self, s: np.ndarray) -> Self:
        """Return a copy with its constants frozen for these residuals.

        Parameters
        ----------
        s : ndarray of shape (n_samples,)
            Squared residuals.

        Returns
        -------
        loss : Loss
            The copy.
        """
        ...


def weights_of(loss: Loss, s: np.ndarray) -> np.ndarray:
    """Return the weights that a loss gives to squared residuals, the largest 1."""
    log_w = loss.log_weight(s)
    return np.asarray(np.exp(log_w - log_w.max()))
