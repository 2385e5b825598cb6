"""The estimators: a robust multilinear subspace of samples that are tensors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from corrtensor.kernels import ResidualPass, expand, project
from corrtensor.losses import Correntropy, Loss, Power
from corrtensor.minority import minority
from corrtensor.samples import TensorTransformer, check_finite, flatten_if
from corrtensor.solver import Options, Solution, State, solve
from corrtensor.sources import Source
from corrtensor.starts import Rank, spectral, transplant, unexplained

__all__ = ["CorrTensor", "MultilinearSubspace"]


def check_ranks(ranks: Any, shape: tuple[int, ...]) -> tuple[Rank, ...]:
    """Return one checked rank per mode."""
    entries = tuple(ranks) if isinstance(ranks, tuple | list | np.ndarray) else (ranks,) * len(shape)
    if len(entries) != len(shape):
        raise ValueError(
            f"ranks={ranks!r} has {len(entries)} entries; the samples have {len(shape)} modes, "
            f"their shape is {shape}"
        )
    checked = tuple(_check_rank(k, n, a, ranks) for n, (k, a) in enumerate(zip(entries, shape)))
    if all(k is None for k in checked):
        raise ValueError(f"ranks={ranks!r} leaves every mode of the samples whole; give one a rank")
    return checked


def _check_rank(k: Any, mode: int, size: int, ranks: Any) -> Rank:
    if k is None:
        return None
    if isinstance(k, bool | np.bool_) or not isinstance(k, int | float | np.integer | np.floating):
        raise TypeError(f"ranks={ranks!r}: {k!r} is not an int, a share of energy, or None")
    if isinstance(k, float | np.floating):
        if not 0 < k < 1:
            raise ValueError(f"ranks={ranks!r}: a share of energy lies between 0 and 1, not at {k!r}")
        return float(k)
    if k < 1:
        raise ValueError(f"ranks={ranks!r}: a rank is at least 1, not {k!r}")
    if k > size:
        raise ValueError(
            f"ranks={ranks!r}: mode {mode + 1} of the samples has only {size} entries"
        )
    return int(k)


SUBSAMPLE = 1000
REACH = {"unexplained": 4.0, "minority": 1.8}


class MultilinearSubspace(TensorTransformer):
    """A multilinear subspace that minimises a loss of the samples' residuals.

    Every sample X is approximated by ``mean + core x_1 U_1 ... x_d U_d`` with orthonormal
    factors ``U_n``. The loss decides how much a badly fitted sample counts; :func:`make` gives
    the published methods that come out of it, :class:`CorrTensor` the robust one.

    Parameters
    ----------
    ranks : int, float, None or tuple of these, default=0.95
        Columns of each factor: one entry per mode, or one for all. An int; a float in (0, 1)
        to keep that share of the (weighted) energy of the mode; ``None`` to leave it whole.
    loss : loss object, default=None
        What a squared residual costs, see :mod:`corrtensor.losses`; ``None`` is least squares.
    center : {"weighted", "plain", None}, default="weighted"
        The mean: weighted by the samples' weights and updated in every sweep, the plain mean,
        or none.
    coupled : bool, default=True
        Whether each factor sees the data projected by the others, which takes sweeps. If
        not, the factors come from the raw data at once (2DSVD).
    order : int, default=None
        Required number of modes of a sample, or ``None`` for any.
    sample_shape : tuple of int, default=None
        Shape of one sample when X is given flattened; one entry may be -1.
    max_iter : int, default=100
        Most sweeps.
    tol : float, default=1e-6
        Sweeps end when the objective falls by no more than this share of itself and no
        projector turns by more than the square root of it (root mean square sine).
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use. It never changes the result.
    block_size : int, default=None
        Samples worked on at a time; ``None`` for as many as a core's cache holds.

    Attributes
    ----------
    mean_ : ndarray of the samples' shape
        Mean.
    factors_ : tuple of ndarray or None
        One orthonormal matrix per mode, ``None`` where the mode was left whole.
    weights_ : ndarray of shape (n_samples,)
        Weight of each sample, the largest 1.
    residuals_ : ndarray of shape (n_samples,)
        Squared distance of each sample from the subspace.
    objective_ : ndarray of shape (n_iter_,)
        Value of the objective after each sweep.
    n_iter_ : int
        Sweeps run.
    converged_ : bool
        Whether they came to rest.
    loss_ : loss object
        The loss with its constants frozen.
    ranks_ : tuple of int
        Shape of a core.
    sample_shape_, core_shape_ : tuple of int
        Shapes of a sample and of a core.
    n_features_in_ : int
        Entries of a sample.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor import MultilinearSubspace
    >>> from corrtensor.losses import Power
    >>> X = np.random.default_rng(0).normal(size=(50, 6, 5))
    >>> model = MultilinearSubspace(ranks=(3, 2), loss=Power(p=1)).fit(X)
    >>> model.transform(X).shape
    (50, 3, 2)
    """

    mean_: np.ndarray
    factors_: tuple[np.ndarray | None, ...]
    weights_: np.ndarray
    residuals_: np.ndarray

    def __init__(
        self,
        ranks: Any = 0.95,
        *,
        loss: Loss | None = None,
        center: str | None = "weighted",
        coupled: bool = True,
        order: int | None = None,
        sample_shape: tuple[int, ...] | None = None,
        max_iter: int = 100,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self.ranks = ranks
        self.loss = loss
        self.center = center
        self.coupled = coupled
        self.order = order
        self.sample_shape = sample_shape
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.block_size = block_size

    def _loss(self) -> Loss:
        return Power(2.0) if self.loss is None else self.loss

    def _options(self) -> Options:
        if self.center not in ("weighted", "plain", None):
            raise ValueError(f"center={self.center!r}: use 'weighted', 'plain' or None")
        if not isinstance(self.max_iter, int | np.integer) or self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r} must be an integer of at least 1")
        if not self.tol >= 0:
            raise ValueError(f"tol={self.tol!r} must not be negative")
        return Options(self.center, self.coupled, int(self.max_iter), float(self.tol))

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples; in two dimensions they are vectors, or tensors flattened to
            ``sample_shape``. Arrays on disk (memmap, zarr, HDF5) are read block by block.
        y : object, default=None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each sample counts.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with self._unchanged_on_error():
            X, _ = self._check(X, reset=True)
            solution = self._solve(X, sample_weight)
            self._keep(solution, X.shape)
        return self

    def _solve(self, X: Any, sample_weight: ArrayLike | None) -> Solution:
        loss, options = self._loss(), self._options()
        shape = self.sample_shape_
        order = getattr(self, "order", None)
        if order is not None and len(shape) != order:
            raise ValueError(
                f"samples of order {order} are needed; these have shape {shape} "
                "(for flattened samples, give sample_shape)"
            )
        ranks = check_ranks(self.ranks, shape)
        if X.shape[0] < 2:
            raise ValueError(f"n_samples={X.shape[0]}: at least two samples are needed")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
            if np.count_nonzero(sample_weight) < 2:
                raise ValueError("sample_weight leaves fewer than two samples that count")
        source = Source(X, n_jobs=self.n_jobs, block_size=self.block_size)
        start = spectral(source, ranks, centered=self.center is not None, weights=sample_weight)
        solution = self._from(source, start, loss, options, sample_weight)
        if not any(isinstance(k, float) for k in ranks):
            return solution
        # Shares of energy were taken before the weights were known: take them once more.
        weights = solution.weights * (1 if sample_weight is None else sample_weight)
        again = spectral(source, ranks, centered=self.center is not None, weights=weights)
        if _shapes(again) == _shapes(start):
            return solution
        return solve(source, again, loss, options, sample_weight)

    def _from(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> Solution:
        return solve(source, start, loss, options, sample_weight)

    def _keep(self, solution: Solution, shape: tuple[int, ...]) -> None:
        dtype = np.result_type(*(U.dtype for U in solution.factors if U is not None))
        self.mean_ = solution.mean.astype(dtype)
        self.factors_ = solution.factors
        self.weights_ = solution.weights
        self.residuals_ = solution.residuals
        self.objective_ = solution.objective
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        self.loss_ = solution.loss
        self.core_shape_ = tuple(
            a if U is None else U.shape[1]
            for a, U in zip(self.sample_shape_, solution.factors, strict=True)
        )
        self.ranks_ = self.core_shape_
        if not solution.converged:
            warnings.warn(
                f"{type(self).__name__} did not converge in max_iter={self.max_iter} sweeps; "
                "raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=3,
            )

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _source(self, X: Any) -> tuple[Source, bool]:
        check_is_fitted(self)
        X, flat = self._check(X)
        source = Source(X, origin=self.mean_, n_jobs=self.n_jobs, block_size=self.block_size)
        return source, flat

    def transform(self, X: Any) -> np.ndarray:
        """Project samples onto the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.

        Returns
        -------
        cores : ndarray of shape (n_samples, k_1, ..., k_d), or flat if X is
            The cores, ``(X - mean) x_1 U_1' ... x_d U_d'``.
        """
        source, flat = self._source(X)
        cores = np.empty((source.n_samples, *self.core_shape_), source.dtype)

        factors = [None if U is None else U.astype(source.dtype) for U in self.factors_]

        def task(blocks: Any) -> None:
            for lo, hi, x in blocks:
                check_finite(x, first=lo)
                cores[lo:hi] = project(x, factors) * x.dtype.type(source.unit)

        for _ in source.map(task):
            continue
        return flatten_if(cores, flat)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Reconstruct samples from their cores.

        Parameters
        ----------
        X : array-like of shape (n_samples, k_1, ..., k_d), or flattened
            Cores.

        Returns
        -------
        X_new : ndarray of shape (n_samples, a_1, ..., a_d), or flat if the cores are
            ``mean + core x_1 U_1 ... x_d U_d``.
        """
        cores, flat = self._check_cores(X)
        return flatten_if(expand(cores, self.factors_) + self.mean_, flat)

    def residuals(self, X: Any) -> np.ndarray:
        """Return the squared distance of each sample from the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.

        Returns
        -------
        residuals : ndarray of shape (n_samples,)
            Squared residuals.
        """
        source, _ = self._source(X)
        zero = np.zeros(self.sample_shape_)
        part = source.reduce(ResidualPass(source.at(zero, self.factors_)))
        return np.concatenate(part.squares) * source.unit**2


class CorrTensor(MultilinearSubspace):
    """Corr-Tensor: a multilinear subspace that ignores spoiled samples.

    Minimises the generalised correntropy loss of the residuals. A sample that the subspace
    does not explain gets a weight near zero and moves neither the mean nor the factors.

    Parameters
    ----------
    ranks : int, float, None or tuple of these, default=0.95
        Columns of each factor: one entry per mode, or one for all. An int; a float in (0, 1)
        to keep that share of the (weighted) energy of the mode; ``None`` to leave it whole.
    alpha : float, default=2.0
        Power of the residual in the kernel; 2 is the Gaussian.
    beta : float, default=2.0
        Bandwidth in units of ``scale``. Larger forgives more.
    p : float, default=2.0
        Order of the loss in the kernel space.
    scale : {"median"}, float or None, default="median"
        Unit of ``beta``: the root of the median squared residual at the start, a number, or
        ``None`` for the data's own units as in the paper.
    center : {"weighted", "plain", None}, default="weighted"
        The mean: weighted and updated in every sweep, the plain mean, or none.
    order : int, default=None
        Required number of modes of a sample, or ``None`` for any.
    sample_shape : tuple of int, default=None
        Shape of one sample when X is given flattened; one entry may be -1.
    max_iter : int, default=100
        Most sweeps.
    tol : float, default=1e-6
        Sweeps end when the objective falls by no more than this share of itself and no
        projector turns by more than the square root of it (root mean square sine).
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use. It never changes the result.
    block_size : int, default=None
        Samples worked on at a time; ``None`` for as many as a core's cache holds.

    Attributes
    ----------
    mean_ : ndarray of the samples' shape
        Weighted mean.
    factors_ : tuple of ndarray or None
        One orthonormal matrix per mode, ``None`` where the mode was left whole.
    weights_ : ndarray of shape (n_samples,)
        Weight of each sample, the largest 1.
    residuals_ : ndarray of shape (n_samples,)
        Squared distance of each sample from the subspace.
    objective_ : ndarray of shape (n_iter_,)
        Value of the objective after each sweep.
    n_iter_ : int
        Sweeps run.
    converged_ : bool
        Whether they came to rest.
    loss_ : Correntropy
        The loss with its bandwidth frozen.
    ranks_, core_shape_, sample_shape_ : tuple of int
        Shapes of a core and of a sample.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    make : The published methods by name.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor import CorrTensor
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.normal(size=(8, 2)), rng.normal(size=(7, 2))
    >>> X = A @ rng.normal(size=(60, 2, 2)) @ B.T + 0.1 * rng.normal(size=(60, 8, 7))
    >>> X[:10] = 10 * rng.normal(size=(10, 8, 7))
    >>> model = CorrTensor(ranks=(2, 2)).fit(X)
    >>> np.flatnonzero(model.weights_ < 0.01)
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    def __init__(
        self,
        ranks: Any = 0.95,
        *,
        alpha: float = 4.0,
        beta: float = 2.0,
        p: float = 2.0,
        scale: str | float | None = "auto",
        reject: str = "unexplained",
        center: str | None = "weighted",
        order: int | None = None,
        sample_shape: tuple[int, ...] | None = None,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = 0,
        n_jobs: int | None = None,
        block_size: int | None = None,
    ) -> None:
        self.ranks = ranks
        self.alpha = alpha
        self.beta = beta
        self.p = p
        self.scale = scale
        self.reject = reject
        self.center = center
        self.order = order
        self.sample_shape = sample_shape
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.block_size = block_size

    coupled = True

    def _loss(self) -> Loss:
        return Correntropy(self.alpha, self.beta, self.p, self.scale, reach=REACH[self.reject])

    def _from(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> Solution:
        if self.scale == "auto":
            start = self._asked(source, start, loss, options, sample_weight)
        return solve(source, start, loss, options, sample_weight)

    def _asked(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> State:
        """Seek the start on a subsample, so that its cost does not grow with the data."""
        rng = check_random_state(self.random_state)
        part, weight = source, sample_weight
        if source.n_samples > SUBSAMPLE:
            drawn = np.sort(rng.choice(source.n_samples, SUBSAMPLE, replace=False))
            part = Source(source.take(drawn), n_jobs=self.n_jobs, block_size=self.block_size)
            weight = None if sample_weight is None else sample_weight[drawn]
            start = spectral(part, tuple(_ranks(start)), centered=self.center is not None, weights=weight)
        if self.reject == "minority":
            solution = minority(part, start, loss, options, weight, rng)
        else:
            solution = unexplained(part, start, loss, options, weight)
        return transplant(solution, source, sample_weight)


def _ranks(state: State) -> list[int | None]:
    return [None if U is None else U.shape[1] for U in state.factors]


def _shapes(state: State) -> list[tuple[int, ...] | None]:
    return [None if U is None else U.shape for U in state.factors]
