"""What the methods that project only the columns of matrices have in common."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..checks import is_number, is_whole, require_count
from ..chunked import by_chunks
from ..labels import Labelled
from ..samples import TensorTransformer, as_float, check_finite, flatten_if
from ..spectral import choose_rank

__all__ = ["OneSided"]


def check_rank(rank: Any, shape: tuple[int, ...]) -> None:
    """Raise an error unless ``rank`` is a rule for the columns of matrices of this shape."""
    if rank is None:
        raise ValueError("rank=None leaves every mode of the samples whole: give a rank")
    if isinstance(rank, str) and rank == "auto":
        return
    if not is_number(rank):
        raise TypeError(f"rank={rank!r} must be a whole number, a share of energy or 'auto'")
    if not is_whole(rank):
        if not 0 < rank < 1:
            raise ValueError(f"rank={rank!r}: a share of energy lies between 0 and 1")
        return
    require_count(rank=rank)
    if rank > shape[1]:
        raise ValueError(
            f"rank={rank}: mode 2 of the samples has only {shape[1]} entries "
            f"(samples of shape {shape})"
        )


class OneSided(TensorTransformer):
    """Samples are matrices a x b; their columns are projected by one orthonormal Q, b x rank.

    A subclass stores ``rank`` and ``sample_shape``, starts ``fit`` with ``_read_training``, which
    sets ``rank_``, and ends it with ``_keep``.
    """

    rank: int | float | str
    rank_: int
    mean_ = Labelled()
    factors_ = Labelled()

    @property
    def _mean(self) -> np.ndarray:
        return vars(self)["mean_"]

    @property
    def _Q(self) -> np.ndarray:
        return vars(self)["factors_"][1]

    @by_chunks
    def transform(self, X: Any) -> np.ndarray:
        """Return the features ``(X - mean_) Q``.

        Parameters
        ----------
        X : array of shape (n_samples, a, b)
            Samples, or flattened samples of shape (n_samples, a * b).

        Returns
        -------
        ndarray of shape (n_samples, a, rank)
            Flattened if ``X`` was, or as ``output`` says.
        """
        check_is_fitted(self)
        X, flat = self._read(X)
        dtype = as_float(X.dtype)
        Q = self._Q.astype(dtype, copy=False)
        cores = (X - self._mean.astype(dtype, copy=False)) @ Q
        return flatten_if(cores, self._gives_flat(flat))

    @by_chunks
    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the samples ``X Q' + mean_`` that features stand for.

        Parameters
        ----------
        X : array of shape (n_samples, a, rank)
            What :meth:`transform` gave, or the same flattened.

        Returns
        -------
        ndarray of shape (n_samples, a, b)
            Flattened if ``X`` was.
        """
        cores, flat = self._check_cores(X)
        dtype = as_float(cores.dtype)
        Q = self._Q.astype(dtype, copy=False)
        made = cores @ Q.T + self._mean.astype(dtype, copy=False)
        return flatten_if(made, self._inverse_is_flat(flat))

    @by_chunks
    def residuals(self, X: Any) -> np.ndarray:
        """Return each sample's squared distance from the subspace.

        Parameters
        ----------
        X : array of shape (n_samples, a, b)
            Samples, or flattened samples of shape (n_samples, a * b).

        Returns
        -------
        ndarray of shape (n_samples,)
            ``|(X_i - mean_)(I - Q Q')|^2``.
        """
        check_is_fitted(self)
        D = self._read(X)[0] - self._mean
        Q = self._Q
        return ((D - D @ Q @ Q.T) ** 2).sum(axis=(1, 2))

    def _read(self, X: Any, *, reset: bool = False) -> tuple[np.ndarray, bool]:
        X, flat = self._check(X, reset=reset)
        X = np.asarray(X[:])
        check_finite(X)
        return X, flat

    def _read_training(self, X: Any, y: object) -> np.ndarray:
        X, _ = self._read(X, reset=True)
        self._choose_output(y)
        name, shape = type(self).__name__, self.sample_shape_
        if len(shape) != 2:
            raise ValueError(
                f"{name} needs matrices as samples; these have shape {shape}. Flattened matrices "
                "need sample_shape=(rows, columns), vectors sample_shape=(1, -1)"
            )
        if len(X) < 2:
            raise ValueError(f"n_samples={len(X)}: {name} needs at least 2 samples")
        check_rank(self.rank, shape)
        X = X.astype(np.float64, copy=False)
        self.rank_ = int(self.rank) if is_whole(self.rank) else self._rank_by_energy(X)
        return X

    def _rank_by_energy(self, X: np.ndarray) -> int:
        """Return the rank that 2DPCA would take by the same rule."""
        A = (X - X.mean(axis=0)).reshape(-1, X.shape[2])
        A /= abs(A).max() or 1.0
        return choose_rank(np.linalg.eigvalsh(A.T @ A), self.rank)

    def _keep(self, mean: np.ndarray, Q: np.ndarray) -> None:
        """Store the mean and Q, filled up to ``rank_`` columns where the samples span fewer."""
        rest = np.linalg.qr(Q, mode="complete")[0][:, Q.shape[1] : self.rank_]
        Q = np.hstack([Q, rest])
        peak = np.take_along_axis(Q, abs(Q).argmax(axis=0)[None], axis=0)
        self.mean_, self.factors_ = mean, (None, Q * np.where(peak < 0, -1.0, 1.0))
        self.core_shape_ = (mean.shape[0], self.rank_)

    def _warn_unless_converged(self, converged: bool, max_iter: int) -> None:
        self.converged_ = converged
        if not converged:
            warnings.warn(
                f"{type(self).__name__} did not converge within max_iter={max_iter} steps",
                ConvergenceWarning,
                stacklevel=3,
            )
