"""What the methods that project only the columns of matrices have in common."""

from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from corrtensor._base.checks import is_whole
from corrtensor._base.warn import warn
from corrtensor._engine.arrays.origin import choose_pilots, choose_unit
from corrtensor._engine.eigenvectors import fix_signs
from corrtensor._engine.ranks import check_ranks, choose_rank
from corrtensor._engine.shapes import check_finite
from corrtensor._engine.subspace_transformer import SubspaceTransformer
from corrtensor._engine.transformer import unchanged_on_error


class OneSided(SubspaceTransformer):
    """Samples are matrices a x b; their columns are projected by one orthonormal Q, b x rank.

    A subclass stores ``rank``, ``sample_shape`` and ``max_iter``, and has ``_check_parameters`` and
    ``_fit``, which ends with ``_keep`` and tells whether it converged.
    """

    rank: int | float | str
    rank_: int
    max_iter: int
    _check_parameters: Any
    _fit: Any

    n_jobs: int | None = None
    block_size: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the projection.

        Parameters
        ----------
        X : array of shape (n_samples, a, b)
            Samples, or flattened samples of shape (n_samples, a * b).
        y : object, default=None
            Not learned from; with ``output="auto"`` it makes the features flat.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            self._check_parameters()
            self.converged_ = self._fit(self._read_training(X, y))
            if not self.converged_:
                warn(
                    f"{type(self).__name__} did not converge within max_iter={self.max_iter} steps",
                    ConvergenceWarning,
                )
        return self

    def _read_training(self, X: Any, y: object) -> np.ndarray:
        X, _ = self._check(X, reset=True)
        self._choose_output(y)
        X = np.asarray(X[:])
        check_finite(X)
        name, shape = type(self).__name__, self.sample_shape_
        if len(shape) != 2:
            raise ValueError(
                f"{name} needs matrices as samples; these have shape {shape}. Flattened matrices "
                "need sample_shape=(rows, columns), vectors sample_shape=(1, -1)"
            )
        if len(X) < 2:
            raise ValueError(f"n_samples={len(X)}: {name} needs at least 2 samples")
        check_ranks((None, self.rank), shape, f"rank={self.rank!r}")
        X = X.astype(np.float64, copy=False)
        # Refuses sizes whose squares, and so residuals, cannot be represented.
        choose_unit(X[choose_pilots(len(X), shape)], X.dtype)
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
        self.mean_, self.factors_ = mean, (None, fix_signs(np.hstack([Q, rest])))
        self.core_shape_ = (mean.shape[0], self.rank_)
