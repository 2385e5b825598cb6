"""The general estimator: a multilinear subspace of samples that are tensors, by any loss."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from corrtensor._base.checks import require_count, require_not_negative
from corrtensor._base.files import held
from corrtensor._base.warn import warn
from corrtensor._engine.arrays import source_of
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.callbacks import (
    CallbackSupportMixin,
    observer,
    say_end,
    told,
    with_callbacks,
)
from corrtensor._engine.checkpoint import Checkpoint, fingerprint
from corrtensor._engine.partial_fit import PartialFit
from corrtensor._engine.ranks import FIRST_SHARE, Rank, check_ranks, require_order
from corrtensor._engine.shapes import MissingCells, as_float
from corrtensor._engine.sharing import shared
from corrtensor._engine.solver import solve
from corrtensor._engine.span import span_of
from corrtensor._engine.start import refuse_identical, spectral
from corrtensor._engine.state import STATUS, Options, Solution, State
from corrtensor._engine.threads import single_blas, team
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor._engine.weights import check_weight, times
from corrtensor._robust.cell_methods import CellMethods
from corrtensor._robust.completed import completed
from corrtensor.losses import Loss, Power

__all__ = ["MultilinearSubspace"]

CENTERS = ("weighted", "plain", None)


class MultilinearSubspace(CallbackSupportMixin, PartialFit, CellMethods):
    """A multilinear subspace that minimises a loss of the samples' residuals.

    Every sample X is approximated by ``mean + core x_1 U_1 ... x_d U_d`` with orthonormal
    factors ``U_n``. The loss decides how much a badly fitted sample counts; :func:`make` gives
    the published methods that come out of it, :class:`CorrTensor` the robust one.

    Parameters
    ----------
    ranks : int, float, "auto", None or tuple of these, default=0.95
        Columns of each factor, one entry per mode or one for all: a number, a share of
        explained variance, ``"auto"``, or ``None`` not to project the mode (:term:`ranks`).
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
    sample_dim : str, default=None
        The dim of an ``xarray.DataArray`` that counts the samples; ``None`` is the first.
    missing_values : float, default=nan
        What stands for a missing cell, beside NaN and masks: -1, say (:term:`missing_values`).
    output : {"auto", "tensor", "flat"}, default="auto"
        How :meth:`transform` gives the cores: as tensors, as rows of features, or as what follows
        is likely to need (:term:`output`).
    max_iter : int, default=100
        Most sweeps.
    tol : float, default=1e-6
        Sweeps end when the objective falls by no more than this share of itself and the
        projectors hardly turn (:term:`tol`).
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use. It never changes the result.
    block_size : int, default=None
        Samples worked on at a time; ``None`` for as many as a core's cache holds.
    verbose : bool, default=False
        Whether to print a line about the sweeps, one a second at most, and how the fit ended.
    callback : callable, default=None
        Called after every sweep; ends the fit there by returning true (:term:`callback`).
    checkpoint : path-like, default=None
        A file that keeps where the fit stands; a killed one goes on there (:term:`checkpoint`).

    Attributes
    ----------
    mean_ : ndarray of the samples' shape
        Mean.
    factors_ : tuple of ndarray or None
        One orthonormal matrix per mode, ``None`` where the mode is not projected.
    weights_ : ndarray of shape (n_samples,)
        Weight of each sample, the largest 1; less in a batch of a stream with no usual sample.
    residuals_ : ndarray of shape (n_samples,)
        Squared distance of each sample from the subspace.
    objective_ : ndarray of shape (n_sweeps,)
        Value of the objective after each sweep.
    n_iter_, converged_ : int, bool
        Sweeps run, and whether they converged.
    loss_ : loss object
        The loss with its constants frozen.
    core_location_, core_scale_ : ndarray of shape ``core_shape_``
        Median and spread of every entry of the cores of the samples that count, for
        :meth:`score_distances`.
    explained_variance_, explained_variance_ratio_ : ndarray of shape ``core_shape_``
        Variance of each entry of the cores, samples counting by their weights, and its share of
        the variance of whole samples. The shares add up to what is explained in all. Of more
        than 500 tensors, those of single entries come from at most 2000 drawn by their weights.
    explained_variance_ratio_by_mode_ : tuple of ndarray
        The shares of the directions of each mode, added up over the other modes.
    noise_variance_ : float
        Variance of one entry of what the subspace does not explain.
    sample_shape_, core_shape_, ranks_ : tuple of int
        Shape of a sample, and, by two names, of a core.
    n_components_, n_features_in_ : int
        Entries of a core, and of a sample.

    See Also
    --------
    CorrTensor : The robust estimator with its starts and scales.
    make : The published methods by name.

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
    _memory: dict[Any, Any] | None = None

    def __init__(
        self,
        ranks: Any = 0.95,
        *,
        loss: Loss | None = None,
        center: str | None = "weighted",
        coupled: bool = True,
        order: int | None = None,
        sample_shape: tuple[int, ...] | None = None,
        sample_dim: str | None = None,
        missing_values: float = np.nan,
        output: str = "auto",
        max_iter: int = 100,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        block_size: int | None = None,
        verbose: bool = False,
        callback: Callable[..., object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.ranks = ranks
        self.loss = loss
        self.center = center
        self.coupled = coupled
        self.order = order
        self.sample_shape = sample_shape
        self.sample_dim = sample_dim
        self.missing_values = missing_values
        self.output = output
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.block_size = block_size
        self.verbose = verbose
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
            Samples; in two dimensions they are vectors, or tensors flattened to
            ``sample_shape``. Arrays on disk (memmap, zarr, HDF5) are read block by block; the
            chunks of a Dask array are worked on where they are (``docs/scaling.md``). An
            ``xarray.DataArray`` keeps its dims and coordinates through all results; a torch
            tensor on the CPU gives tensors. NaN, or a mask, is a missing cell.
        y : object, default=None
            Not learned from; with ``output="auto"`` it makes :meth:`transform` give flat cores.
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
        name, callback = type(self).__name__, self.callback
        if self.verbose:
            callback = told(name, options.max_iter, callback)
        options = replace(options, observe=observer(callback, self, context))
        kept = nullcontext() if self.checkpoint is None else held(self.checkpoint)
        with kept, unchanged_on_error(self):
            X, _ = self._check(X, reset=True)
            self._choose_output(y)
            for earlier in ("_stream", "n_samples_seen_", "completion_", "cell_scale_"):
                self.__dict__.pop(earlier, None)
            if X.shape[0] < 2:
                raise ValueError(f"n_samples={X.shape[0]}: at least two samples are needed")
            weight, doubts = check_weight(sample_weight, X), bool(getattr(self, "cells", False))
            try:
                solution = self._learn(X, weight, options, doubts)
            except MissingCells:
                solution = self._learn(X, weight, options, True)
            if self.verbose:
                say_end(name, solution)
            if self.checkpoint is not None:
                Path(self.checkpoint).unlink(missing_ok=True)
        if context is not None:
            context.call_on_fit_task_end(estimator=self)
        return self

    def _learn(
        self, X: Any, weight: np.ndarray | None, options: Options, missing: bool
    ) -> Solution:
        source = self._first_source(X, missing)
        with team(source.n_threads), single_blas():
            if missing:
                centered = options.center is not None
                source, weight = completed(source, weight, self._bandwidth(), centered)
            solution = self._solve(source, weight, options)
            solution = replace(solution, weights=solution.weights * source.seen, seen=source.seen)
            self._keep(solution, as_float(np.dtype(X.dtype)))
            counted = times(solution.weights, weight)
            squares = self._learn_cores(source, counted, solution.state.energies)
            self._learn_variances(source, squares, counted)
        return solution

    def _solve(self, source: Source, weight: np.ndarray | None, options: Options) -> Solution:
        require_order(self.order, self.sample_shape_)
        ranks = check_ranks(self.ranks, self.sample_shape_)
        # What was given or is kept of a fit is in the samples' own entries.
        turnable = self.checkpoint is None and isinstance(getattr(self, "init", ""), str)
        span = span_of(source, ranks) if turnable else None
        if span is None:
            return self._solve_with(source, ranks, weight, options)
        return span.turned_back(self._solve_with(span.source, ranks, weight, options))

    def _solve_with(
        self, source: Source, ranks: tuple[Rank, ...], weight: np.ndarray | None, options: Options
    ) -> Solution:
        loss = self._loss()
        start_with = partial(spectral, source, centered=options.center is not None)

        def run(start: State) -> Solution:
            if self.checkpoint is None:
                return self._sweep(source, start, loss, options, prior, verdict)
            mark = fingerprint(start, self.get_params(deep=False), weight)
            kept = Checkpoint(self.checkpoint, mark).options(options, start)
            return self._sweep(source, start, loss, kept, prior, verdict)

        prior, verdict = self._judge(source, ranks, options, weight)
        # An elbow is sought last: large ranks tell good samples from others.
        coarse = tuple(FIRST_SHARE if isinstance(k, str) else k for k in ranks)
        first = prior if verdict is None else verdict.first(prior)
        start = start_with(coarse, weights=first)
        refuse_identical(start, first, np.finfo(source.dtype).eps, self.sample_shape_)
        if not any(isinstance(k, float | str) for k in ranks):
            return run(start)
        # Ranks depend on the weights, and these on the ranks: once more is enough.
        solution = run(start)
        again = start_with(ranks, weights=times(solution.weights, prior)).ranks
        return solution if again == start.ranks else run(start_with(again, weights=first))

    def _judge(
        self, source: Source, ranks: tuple[Rank, ...], options: Options, weight: np.ndarray | None
    ) -> tuple[np.ndarray | None, Any]:
        """Complete the samples; return how much each may count, and why."""
        self._complete(source, ranks, weight)
        return weight, None

    def _first_source(self, X: Any, missing: bool = False) -> Source:
        # Without a mean, the origin itself is the centre, and must not be moved.
        origin = None if self.center is not None else np.zeros(self.sample_shape_)
        how = {"n_jobs": self.n_jobs, "block_size": self.block_size, "missing": missing}
        how["doubtful"] = bool(getattr(self, "cells", False))
        make = partial(source_of, X, origin=origin, **how)
        return make() if missing else shared(self._memory, make)

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
        self.weights_ = solution.weights
        self.residuals_ = solution.residuals
        self.objective_ = solution.objective
        self.n_iter_ = solution.n_iter
        self.converged_ = solution.converged
        self.loss_ = solution.loss
        modes = zip(self.sample_shape_, solution.factors, strict=True)
        self.core_shape_ = tuple(a if U is None else U.shape[1] for a, U in modes)
        self.ranks_ = self.core_shape_
        if solution.status in ("max_iter", "rose"):
            words = STATUS[solution.status].format(n=solution.n_iter)
            warn(f"{type(self).__name__} {words}", ConvergenceWarning)
