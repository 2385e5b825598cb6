"""The estimators: a robust multilinear subspace of samples that are tensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if

from corrtensor._base.checks import require_count, require_not_negative
from corrtensor._base.files import held
from corrtensor._engine.arrays import source_of
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.callbacks import CallbackSupportMixin, observer, with_callbacks
from corrtensor._engine.checkpoint import Checkpoint, fingerprint
from corrtensor._engine.core_distances import FEWEST_DRAWN, CoreDistances, CoreModel
from corrtensor._engine.ranks import Rank, check_ranks
from corrtensor._engine.shapes import MissingCells, as_float, has_gaps
from corrtensor._engine.solver import solve
from corrtensor._engine.start import refuse_identical, spectral
from corrtensor._engine.state import STATUS, Options, Solution, State
from corrtensor._engine.stream import Stream, absorb, begin
from corrtensor._engine.threads import team
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor._engine.weights import check_weight, times
from corrtensor._robust.cell_methods import CellMethods
from corrtensor._robust.completed import completed
from corrtensor.losses import Loss, Power

__all__ = ["MultilinearSubspace"]

CENTERS = ("weighted", "plain", None)
# The share of energy by which ranks that shall come by themselves are first chosen.
FIRST_SHARE = 0.95


class MultilinearSubspace(CallbackSupportMixin, CoreDistances, CellMethods):
    """A multilinear subspace that minimises a loss of the samples' residuals.

    Every sample X is approximated by ``mean + core x_1 U_1 ... x_d U_d`` with orthonormal
    factors ``U_n``. The loss decides how much a badly fitted sample counts; :func:`make` gives
    the published methods that come out of it, :class:`CorrTensor` the robust one.

    Parameters
    ----------
    ranks : int, float, "auto", None or tuple of these, default=0.95
        Columns of each factor, one entry per mode or one for all: a number, a share of energy,
        ``"auto"``, or ``None`` to leave the mode whole (:term:`ranks`).
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
        Sweeps end when the objective falls by no more than this share of itself and the
        projectors hardly turn (:term:`tol`).
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use. It never changes the result.
    block_size : int, default=None
        Samples worked on at a time; ``None`` for as many as a core's cache holds.
    callback : callable, default=None
        Called after every sweep; ends the fit there by returning true (:term:`callback`).
    checkpoint : path-like, default=None
        A file that keeps where the fit stands; a killed one goes on there (:term:`checkpoint`).

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
    objective_ : ndarray of shape (n_sweeps,)
        Value of the objective after each sweep.
    n_iter_ : int
        Sweeps run.
    converged_ : bool
        Whether they came to rest.
    loss_ : loss object
        The loss with its constants frozen.
    core_location_, core_scale_ : ndarray of shape ``core_shape_``
        Median and spread of every entry of the cores of the samples that count, for
        :meth:`score_distances`.
    ranks_ : tuple of int
        Shape of a core.
    sample_shape_, core_shape_ : tuple of int
        Shapes of a sample and of a core.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    CorrTensor : The robust estimator with its starts and scales.

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
        callback: Callable[..., object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
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
        self.callback = callback
        self.checkpoint = checkpoint

    def _loss(self) -> Loss:
        loss = Power(2.0) if self.loss is None else self.loss
        methods = ("value", "log_weight", "calibrate")
        if isinstance(loss, type) or not all(callable(getattr(loss, m, None)) for m in methods):
            raise TypeError(f"loss={loss!r} must be an object with {', '.join(methods)}")
        return loss

    def _options(self) -> Options:
        if not (self.center is None or isinstance(self.center, str)) or self.center not in CENTERS:
            raise ValueError(f"center={self.center!r}: use 'weighted', 'plain' or None")
        if not isinstance(self.coupled, bool | np.bool_):
            raise TypeError(f"coupled={self.coupled!r} must be True or False")
        if not (self.checkpoint is None or isinstance(self.checkpoint, str | os.PathLike)):
            raise TypeError(f"checkpoint={self.checkpoint!r} must be the name of a file, or None")
        if not (self.callback is None or callable(self.callback)):
            raise TypeError(f"callback={self.callback!r} must be callable or None")
        require_count(max_iter=self.max_iter)
        require_not_negative(tol=self.tol)
        if self.block_size is not None:
            require_count(block_size=self.block_size)
        return Options(self.center, bool(self.coupled), int(self.max_iter), float(self.tol))

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples; in two dimensions vectors, or tensors flattened to ``sample_shape``. Arrays on
            disk are read block by block, chunks of a Dask array, also in an ``xarray.DataArray``,
            where they are (``docs/scaling.md``). NaN, or a mask, is a missing cell.
        y : object, default=None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each sample counts.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        options = self._options()
        context = None
        if getattr(self, "_skl_callbacks", None):
            context = self._init_callback_context(max_subtasks=options.max_iter)
            context.call_on_fit_task_begin(estimator=self)
        options = replace(options, observe=observer(self.callback, self, context))
        kept = nullcontext() if self.checkpoint is None else held(self.checkpoint)
        with kept, unchanged_on_error(self):
            X, _ = self._check(X, reset=True)
            for earlier in ("_stream", "n_samples_seen_", "cell_scale_", "cell_bandwidth_"):
                self.__dict__.pop(earlier, None)
            if X.shape[0] < 2:
                raise ValueError(f"n_samples={X.shape[0]}: at least two samples are needed")
            weight, doubts = check_weight(sample_weight, X), bool(getattr(self, "cells", False))
            try:
                self._learn(X, weight, options, doubts)
            except MissingCells:
                self._learn(X, weight, options, True)
            if self.checkpoint is not None:
                Checkpoint(self.checkpoint, {}).remove()
        if context is not None:
            context.call_on_fit_task_end(estimator=self)
        return self

    def _learn(self, X: Any, weight: np.ndarray | None, options: Options, missing: bool) -> None:
        source = self._first_source(X, missing)
        with team(source.n_threads):
            source, weight = completed(source, weight) if missing else (source, weight)
            solution = self._solve(source, weight, options)
            self._keep(solution, as_float(np.dtype(X.dtype)))
            self._learn_cores(source, times(solution.weights, weight))

    def _solve(self, source: Source, weight: np.ndarray | None, options: Options) -> Solution:
        loss, shape, order = self._loss(), self.sample_shape_, getattr(self, "order", None)
        if order is not None and len(shape) != order:
            raise ValueError(
                f"samples of order {order} are needed; these have shape {shape} "
                "(for flattened samples, give sample_shape)"
            )
        ranks = check_ranks(self.ranks, shape)
        centered = options.center is not None

        def start_with(ranks: tuple[Rank, ...], weights: np.ndarray | None) -> State:
            return spectral(source, ranks, centered=centered, weights=weights)

        def run(start: State) -> Solution:
            if self.checkpoint is None:
                return self._sweep(source, start, loss, options, prior, verdict)
            mark = fingerprint(start, self.get_params(deep=False), weight)
            kept = Checkpoint(self.checkpoint, mark).options(options, start)
            return self._sweep(source, start, loss, kept, prior, verdict)

        prior, verdict = self._judge(source, ranks, options, weight)
        # An elbow is sought last: large ranks tell good samples from others.
        coarse = tuple(FIRST_SHARE if isinstance(k, str) else k for k in ranks)
        start = start_with(coarse, prior)
        refuse_identical(start, prior, np.finfo(source.dtype).eps)
        if not any(isinstance(k, float | str) for k in ranks):
            return run(start)
        # Ranks depend on the weights, and these on the ranks: once more is enough.
        solution = run(start)
        again = start_with(ranks, times(solution.weights, prior)).ranks
        return solution if again == start.ranks else run(start_with(again, prior))

    def _judge(
        self, source: Source, ranks: tuple[Rank, ...], options: Options, weight: np.ndarray | None
    ) -> tuple[np.ndarray | None, Any]:
        """Return how much each sample may count, and why."""
        return weight, None

    def _first_source(self, X: Any, missing: bool = False) -> Source:
        # Without a mean, the origin itself is the centre, and must not be moved.
        origin = None if self.center is not None else np.zeros(self.sample_shape_)
        options = {"n_jobs": self.n_jobs, "block_size": self.block_size, "missing": missing}
        return source_of(X, origin=origin, **options)

    def _sweep(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        prior: np.ndarray | None,
        verdict: Any,
    ) -> Solution:
        return solve(source, start, loss, options, prior)

    def _keep(self, solution: Solution, dtype: np.dtype) -> None:
        self.mean_ = solution.mean.astype(dtype)
        self.factors_ = tuple(None if U is None else U.astype(dtype) for U in solution.factors)
        self.weights_, self.residuals_ = solution.weights, solution.residuals
        self.objective_, self.n_iter_ = solution.objective, solution.n_iter
        self.converged_ = solution.converged
        self.loss_ = solution.loss
        self.core_shape_ = tuple(
            a if U is None else U.shape[1]
            for a, U in zip(self.sample_shape_, solution.factors, strict=True)
        )
        self.ranks_ = self.core_shape_
        if solution.status in ("max_iter", "rose"):
            words = f"{type(self).__name__} {STATUS[solution.status].format(n=solution.n_iter)}"
            warnings.warn(words, ConvergenceWarning, stacklevel=4)

    @available_if(lambda self: self.coupled)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, *, decay: float = 0.95) -> Self:
        """Learn from a batch of a stream and forget it. Approximate: see ``docs/decisions/0006``.

        The first batch is fitted as by :meth:`fit`; each further one moves mean and factors, its
        missing cells filled. Samples that are not explained are ignored, until they become the
        majority of those seen lately. :meth:`fit` ends the stream.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            A batch; of the first one, enough samples to tell the good from the bad.
        y : object, default=None
            Ignored.
        decay : float, default=0.95
            What is left of the weight of all earlier batches; 1 forgets nothing.

        Returns
        -------
        self : object
            The estimator; ``weights_`` and ``residuals_`` are those of this batch before it was
            learned from; ``outlier_scores_`` and ``diagnostics_`` stay those of the first.
        """
        if not isinstance(decay, int | float | np.number) or not 0 < decay <= 1:
            raise ValueError(f"decay={decay!r} must lie above 0 and not above 1")
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None or stream.state.factors is not self.factors_:
            self.fit(X)
            stream = None
        with unchanged_on_error(self):
            X = self._check(self.repair(X) if has_gaps(X) else X)[0]
            options: dict[str, Any] = {"n_jobs": self.n_jobs, "block_size": self.block_size}
            if stream is None:
                source = self._first_source(X)
                stream = begin(source, self.mean_, self.factors_, self.residuals_)
            source = source_of(X, origin=stream.origin, unit=stream.unit, **options)
            self._stream, batch = absorb(stream, source, self.loss_, self.center, decay)
            mean = stream.origin + stream.unit * self._stream.state.mean
            factors = self._stream.state.factors
            known = CoreModel(self.core_location_, self.core_scale_)
            known = known.moved(self.factors_, factors, mean - self.mean_)
            self.mean_, self.factors_ = mean.astype(self.mean_.dtype), factors
            self.weights_, self.residuals_ = batch.weights, batch.residuals
            # A batch may be too small to learn the cores from; what is known is turned along.
            self.core_location_, self.core_scale_ = known.location, known.scale
            if batch.weights.sum() >= FEWEST_DRAWN:
                self._learn_cores(source, batch.weights)
            self.loss_, self.n_samples_seen_ = batch.loss, self._stream.n_seen
        return self
