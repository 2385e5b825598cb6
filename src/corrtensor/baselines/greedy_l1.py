"""L1-2DPCA: one direction after the other, each of the largest L1 dispersion."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corrtensor._base.checks import require_count
from corrtensor.baselines.one_sided import OneSided

# Beside rows of length one, what rounding leaves of a zero.
ZERO = 1e-12


class L1TwoDPCA(OneSided):
    """L1-2DPCA of Li, Pang and Yuan (2010): directions of the largest L1 dispersion.

    Finds orthonormal ``w_1, ..., w_rank``, one after the other, that maximise
    ``sum_i |X_i w|_1`` over the centred samples with the directions found before taken out of
    them: ``X_i (I - w w')``. Each is the limit of ``w = v/|v|``, ``v = sum_i X_i' sign(X_i w)``,
    reached when the signs stay. The sum never falls; its limit is a local maximum.

    Parameters
    ----------
    rank : int, float or "auto", default=1
        Columns of the projection, at most the number b of those of a sample; or a share of the
        columns' energy in (0, 1), or ``"auto"`` for the elbow of their spectrum: as many as
        2DPCA then takes.
    sample_shape : tuple of int, optional
        Shape (a, b) of one sample when they come flattened; one entry may be -1.
    sample_dim : str, default=None
        The dim of an ``xarray.DataArray`` that counts the samples; ``None`` is the first.
    output : {"auto", "tensor", "flat"}, default="auto"
        How :meth:`transform` gives the cores: as tensors, as rows of features, or as what follows
        is likely to need (:term:`output`).
    n_init : int, default=1
        Starts tried for each direction; the best end wins. The first is the leading direction of
        2DPCA, the others are random.
    max_iter : int, default=500
        Largest number of steps for one direction from one start.
    random_state : int, RandomState or None, default=None
        For the random starts. With ``n_init=1`` nothing is random.

    Attributes
    ----------
    rank_ : int
        Number of directions.
    mean_ : ndarray of shape (a, b)
        Plain mean of the samples.
    factors_ : tuple (None, ndarray of shape (b, rank))
        The rows are left alone; the columns are projected by W, the directions side by side. If
        the samples span fewer than ``rank`` of them, an orthonormal basis of the rest fills up W.
    objective_ : list of ndarray
        For each direction, ``sum_i |X_i w|_1`` at the start and after each step.
    n_iter_ : int
        Largest number of steps that a direction took.
    converged_ : bool
        Whether the signs stayed at the end of every direction.

    See Also
    --------
    corrtensor.make : The published methods by name.

    Notes
    -----
    Where the signs stay but a row x of a sample has ``x w = 0``, w may be no maximum. Instead of
    moving w at random, its sign is turned over, which moves w along x and adds ``4 |x|^2`` to
    ``|v|^2``: still no randomness, and still the sum never falls. Derivation: ``docs/method.md``.

    References
    ----------
    X. Li, Y. Pang, Y. Yuan, "L1-norm-based 2DPCA", IEEE Trans. Systems, Man, and Cybernetics B
    40(4), 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.baselines import L1TwoDPCA
    >>> X = np.random.default_rng(0).normal(size=(30, 6, 5))
    >>> model = L1TwoDPCA(rank=2).fit(X)
    >>> model.transform(X).shape
    (30, 6, 2)
    >>> model.converged_
    True
    """

    def __init__(
        self,
        rank: int | float | str = 1,
        *,
        sample_shape: tuple[int, ...] | None = None,
        sample_dim: str | None = None,
        output: str = "auto",
        n_init: int = 1,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.rank = rank
        self.sample_shape = sample_shape
        self.sample_dim = sample_dim
        self.output = output
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    def _check_parameters(self) -> None:
        require_count(n_init=self.n_init, max_iter=self.max_iter)

    def _fit(self, X: np.ndarray) -> bool:
        """Find the directions and tell whether the signs stayed at the end of all."""
        mean = X.mean(axis=0)
        A = (X - mean).reshape(-1, mean.shape[1])
        unit = abs(A).max() or 1.0
        A /= unit
        random = check_random_state(self.random_state)
        W, self.objective_, self.n_iter_, converged = np.empty((A.shape[1], 0)), [], 1, True
        for _ in range(self.rank_):
            if not A.any():
                self.objective_.append(np.zeros(1))
                continue
            ends = [ascend(A, w, self.max_iter) for w in starts(A, self.n_init, random)]
            w, values, stayed = max(ends, key=lambda end: end[1][-1])
            w = w - W @ (W.T @ w)
            w /= np.linalg.norm(w)
            W = np.column_stack([W, w])
            A -= np.outer(A @ w, w)
            A[np.linalg.norm(A, axis=1) <= ZERO] = 0.0
            self.objective_.append(unit * values)
            self.n_iter_ = max(self.n_iter_, len(values) - 1)
            converged = converged and stayed
        self._keep(mean, W)
        return converged


def starts(A: np.ndarray, n: int, random: np.random.RandomState) -> Iterator[np.ndarray]:
    """Yield the leading direction of 2DPCA, then ``n - 1`` random ones."""
    yield np.linalg.eigh(A.T @ A)[1][:, -1]
    for _ in range(n - 1):
        # Inside the span of the rows: a start across it would have nothing to climb.
        w = A.T @ random.standard_normal(len(A))
        yield w / np.linalg.norm(w)


def ascend(A: np.ndarray, w: np.ndarray, max_iter: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """Climb ``|A w|_1`` from w; return the end, the values on the way, whether the signs stayed."""
    length = np.linalg.norm(A, axis=1)
    t = A @ w
    s = np.where(t < 0, -1.0, 1.0)
    v = A.T @ s
    values = [abs(t).sum()]
    for _ in range(max_iter):
        w = v / np.linalg.norm(v)
        t = A @ w
        values.append(abs(t).sum())
        zero = abs(t) <= ZERO * length
        turned = np.flatnonzero((t * s < 0) & ~zero)
        if not turned.size:
            r = np.where(zero, length, 0.0).argmax()
            if not (zero[r] and length[r]):
                return w, np.array(values), True
            turned = np.array([r])
        s[turned] *= -1
        v += 2 * (s[turned] @ A[turned])
    return w, np.array(values), False
