"""Generalised correntropy of two random variables: the paper's definitions as functions.

The losses that the solver takes are in :mod:`corrtensor.losses`; how they follow from these
definitions is in ``docs/method.md``, section 8.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gamma as gamma_function

from corrtensor._base.checks import require_positive

__all__ = [
    "corr_loss",
    "corr_ploss",
    "generalized_correntropy",
    "generalized_gaussian",
    "ggd_constants",
]


def ggd_constants(alpha: float, beta: float) -> tuple[float, float]:
    """Return the constants of the generalised Gaussian density (paper, eq. 7).

    Parameters
    ----------
    alpha, beta : float
        Shape and width.

    Returns
    -------
    gamma, lam : float
        The normalisation ``alpha / (2 beta Gamma(1/alpha))`` and ``1 / beta**alpha``.

    Examples
    --------
    >>> from corrtensor.correntropy import ggd_constants
    >>> gamma, lam = ggd_constants(2.0, 1.0)
    >>> round(gamma, 6), lam
    (0.56419, 1.0)
    """
    require_positive(alpha=alpha, beta=beta)
    with np.errstate(over="ignore"):
        lam = float(np.power(float(beta), -float(alpha)))
    return float(alpha / (2 * beta * gamma_function(1 / alpha))), lam


def generalized_gaussian(e: ArrayLike, alpha: float, beta: float) -> np.ndarray:
    """Return the generalised Gaussian density with zero mean (paper, eq. 7).

    Parameters
    ----------
    e : array-like
        Where.
    alpha, beta : float
        Shape and width; alpha = 2 is the Gaussian with variance ``beta**2 / 2``.

    Returns
    -------
    density : ndarray
        ``gamma * exp(-|e/beta|**alpha)``.

    Examples
    --------
    >>> from corrtensor.correntropy import generalized_gaussian
    >>> generalized_gaussian([0.0, 1.0], alpha=2.0, beta=1.0).round(4)
    array([0.5642, 0.2076])
    """
    gamma = ggd_constants(alpha, beta)[0]
    with np.errstate(over="ignore"):
        return gamma * np.exp(-(np.abs(np.asarray(e, dtype=float) / beta) ** alpha))


def generalized_correntropy(a: ArrayLike, b: ArrayLike, alpha: float, beta: float) -> float:
    """Return the Parzen estimate of the generalised correntropy (paper, eq. 10).

    Parameters
    ----------
    a, b : array-like
        Paired observations of two random variables.
    alpha, beta : float
        Shape and width of the kernel.

    Returns
    -------
    correntropy : float
        Mean of the density of the differences.

    Examples
    --------
    >>> from corrtensor.correntropy import generalized_correntropy
    >>> round(generalized_correntropy([0, 1], [0, 0], alpha=2.0, beta=1.0), 4)
    0.3859
    """
    e = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    return float(np.mean(generalized_gaussian(e, alpha, beta)))


def corr_loss(a: ArrayLike, b: ArrayLike, alpha: float, beta: float) -> float:
    """Return Corr-Loss, ``gamma`` less the correntropy (paper, eqs. 9 and 11).

    Parameters
    ----------
    a, b : array-like
        Paired observations of two random variables.
    alpha, beta : float
        Shape and width of the kernel.

    Returns
    -------
    loss : float
        Zero when ``a`` equals ``b``, at most ``gamma``.

    Examples
    --------
    >>> from corrtensor.correntropy import corr_loss
    >>> corr_loss([1.0, 2.0], [1.0, 2.0], alpha=1.6, beta=0.8)
    0.0
    """
    return corr_ploss(a, b, alpha, beta, p=2.0)


def corr_ploss(a: ArrayLike, b: ArrayLike, alpha: float, beta: float, p: float) -> float:
    """Return Corr-PLoss, the loss of order ``p`` in the kernel space (paper, eq. 36).

    Parameters
    ----------
    a, b : array-like
        Paired observations of two random variables.
    alpha, beta : float
        Shape and width of the kernel.
    p : float
        Order; 2 is Corr-Loss.

    Returns
    -------
    loss : float
        Mean of ``(gamma - density)**(p/2)``.

    Examples
    --------
    >>> from corrtensor.correntropy import corr_loss, corr_ploss
    >>> pair = [0.3, 1.0], [0.0, 0.0]
    >>> corr_ploss(*pair, alpha=2, beta=1, p=2) == corr_loss(*pair, alpha=2, beta=1)
    True
    """
    require_positive(p=p)
    gamma = ggd_constants(alpha, beta)[0]
    e = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    return float(np.mean((gamma - generalized_gaussian(e, alpha, beta)) ** (p / 2)))
