"""The estimators: a robust multilinear subspace of samples that are tensors."""

from __future__ import annotations

import math
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
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from corrtensor._robust.cells import Block, Model, repaired
from corrtensor._robust.completed import CompletedSource, NewSource, seen_weight
from corrtensor.checkpoint import Checkpoint, fingerprint
from corrtensor.checks import require_count, require_not_negative
from corrtensor.chunked import by_chunks
from corrtensor.dask_source import source_of
from corrtensor.files import held
from corrtensor.kernels import ResidualPass, expand, project
from corrtensor.losses import Loss, Power
from corrtensor.samples import (
    MissingCells,
    TensorTransformer,
    as_float,
    is_on_disk,
    unchanged_on_error,
)
from corrtensor.scores import FEWEST_DRAWN, CoreModel, ScorePass, learn
from corrtensor.solver import STATUS, Options, Solution, State, solve, times
from corrtensor.sources import Source, check_output
from corrtensor.spectral import Rank, spectral
from corrtensor.stream import Stream, absorb, begin
from corrtensor.threads import team
from corrtensor.watching import CallbackSupportMixin, observer, with_callbacks

__all__ = ["MultilinearSubspace"]

CENTERS = ("weighted", "plain", None)
# The share of energy by which ranks that shall come by themselves are first chosen.
FIRST_SHARE = 0.95


def check_ranks(ranks: Any, shape: tuple[int, ...]) -> tuple[Rank, ...]:
    """Return one checked rank per mode."""
    several = isinstance(ranks, tuple | list) or (isinstance(ranks, np.ndarray) and ranks.ndim == 1)
    entries = tuple(ranks) if several else (ranks,) * len(shape)
    if len(entries) != len(shape):
        raise ValueError(
            f"ranks={ranks!r} has {len(entries)} entries; the samples have {len(shape)} modes, "
            f"their shape is {shape}"
        )
    checked = tuple(
        _check_rank(k, n, a, ranks) for n, (k, a) in enumerate(zip(entries, shape, strict=True))
    )
    if all(k is None for k in checked):
        raise ValueError(f"ranks={ranks!r} leaves every mode of the samples whole; give one a rank")
    return checked


def _check_rank(k: Any, mode: int, size: int, ranks: Any) -> Rank:
    if k is None or (isinstance(k, str) and k == "auto"):
        return k
    if isinstance(k, bool | np.bool_) or not isinstance(k, int | float | np.integer | np.floating):
        raise TypeError(f"ranks={ranks!r}: {k!r} is not an int, a share of energy, 'auto' or None")
    if isinstance(k, float | np.floating):
        if not 0 < k < 1:
            raise ValueError(
                f"ranks={ranks!r}: a share of energy lies between 0 and 1, not at {k!r}"
            )
        return float(k)
    if k < 1:
        raise ValueError(f"ranks={ranks!r}: a rank is at least 1, not {k!r}")
    if k > size:
        raise ValueError(f"ranks={ranks!r}: mode {mode + 1} of the samples has only {size} entries")
    return int(k)


def refuse_identical(start: State, sample_weight: np.ndarray | None, eps: float) -> None:
    """Raise a ``ValueError`` when the samples that count do not differ."""
    assert start.norms is not None  # noqa: S101
    w = np.ones(len(start.norms)) if sample_weight is None else sample_weight
    square = float(w @ start.norms)
    if square - w.sum() * float(np.vdot(start.mean, start.mean)) <= 16 * eps * square:
        raise ValueError(
            f"all {np.count_nonzero(w)} samples of shape {start.mean.shape} are identical: "
            "there is no subspace to learn"
        )


class MultilinearSubspace(CallbackSupportMixin, TensorTransformer):
    """A multilinear subspace that minimises a loss of the samples' residuals.

    Every sample X is approximated by ``mean + core x_1 U_1 ... x_d U_d`` with orthonormal
    factors ``U_n``. The loss decides how much a badly fitted sample counts; :func:`make` gives
    the published methods that come out of it, :class:`CorrTensor` the robust one.

    Parameters
    ----------
    ranks : int, float, "auto", None or tuple of these, default=0.95
        Columns of each factor: one entry per mode, or one for all. An int; a float in (0, 1)
        to keep that share of the (weighted) energy of the mode; ``"auto"`` for the elbow of
        its spectrum; ``None`` to leave it whole.
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
        projector turns by as much as the square root of it (root mean square sine), or when ten
        in a row gain no more than rounding. With 0, ``max_iter`` sweeps are run.
    n_jobs : int, default=None
        Threads; ``None`` for as many as BLAS may use. It never changes the result.
    block_size : int, default=None
        Samples worked on at a time; ``None`` for as many as a core's cache holds.
    callback : callable, default=None
        Called after every sweep as ``callback(sweep, objective, effective_samples, seconds)``;
        ends the fit there by returning true. With scikit-learn 1.9 or later its own callbacks,
        such as progress bars, can be set by ``set_callbacks`` as well.
    checkpoint : path-like, default=None
        A file in which to keep where the fit stands, every few seconds. A fit that was killed
        goes on from there when it is called again with the same data and settings, and ends
        with the same result; the file is then removed. Other data or settings are refused.

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

    mean_: np.ndarray
    factors_: tuple[np.ndarray | None, ...]
    weights_: np.ndarray
    residuals_: np.ndarray
    core_location_: np.ndarray
    core_scale_: np.ndarray

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

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
            chunks of a Dask array, also inside an ``xarray.DataArray``, are worked on where they
            are (``docs/scaling.md``).
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
            for streamed in ("_stream", "n_samples_seen_"):
                self.__dict__.pop(streamed, None)
            if X.shape[0] < 2:
                raise ValueError(f"n_samples={X.shape[0]}: at least two samples are needed")
            weight = self._check_weight(sample_weight, X)
            try:
                self._learn(X, weight, options, missing=bool(getattr(self, "cells", False)))
            except MissingCells:
                self._learn(X, weight, options, missing=True)
            if self.checkpoint is not None:
                Checkpoint(self.checkpoint, {}).remove()
        if context is not None:
            context.call_on_fit_task_end(estimator=self)
        return self

    def _learn(
        self, X: Any, weight: np.ndarray | None, options: Options, *, missing: bool
    ) -> None:
        source = self._first_source(X, missing=missing)
        with team(source.n_threads):
            if missing:
                source = CompletedSource(source)
                weight = seen_weight(source, weight)
            solution = self._solve(source, weight, options)
            self._keep(solution, as_float(np.dtype(X.dtype)))
            self._learn_cores(source, times(solution.weights, weight))

    def _learn_cores(self, source: Source, weights: np.ndarray) -> None:
        cores = learn(source, self.mean_, self.factors_, self.residuals_, weights)
        self.core_location_, self.core_scale_ = cores.location, cores.scale

    def _solve(self, source: Source, weight: np.ndarray | None, options: Options) -> Solution:
        loss = self._loss()
        shape = self.sample_shape_
        order = getattr(self, "order", None)
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
        self,
        source: Source,
        ranks: tuple[Rank, ...],
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> tuple[np.ndarray | None, Any]:
        """Return how much each sample may count, and why."""
        return sample_weight, None

    def _first_source(self, X: Any, *, missing: bool = False) -> Source:
        # Without a mean, the origin itself is the centre, and must not be moved.
        origin = None if self.center is not None else np.zeros(self.sample_shape_)
        options = {"n_jobs": self.n_jobs, "block_size": self.block_size, "missing": missing}
        return source_of(X, origin=origin, **options)

    @staticmethod
    def _check_weight(sample_weight: ArrayLike | None, X: Any) -> np.ndarray | None:
        if sample_weight is None:
            return None
        weight: np.ndarray = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        if np.count_nonzero(weight) < 2:
            raise ValueError("sample_weight leaves fewer than two samples that count")
        largest = float(weight.max())
        # Weights count beside one another; huge or tiny ones would overflow in sums.
        return weight if 1e-30 < largest < 1e30 else weight / largest

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
        self.core_shape_ = tuple(
            a if U is None else U.shape[1]
            for a, U in zip(self.sample_shape_, solution.factors, strict=True)
        )
        self.ranks_ = self.core_shape_
        if solution.status in ("max_iter", "rose"):
            words = STATUS[solution.status].format(n=solution.n_iter)
            warnings.warn(f"{type(self).__name__} {words}", ConvergenceWarning, stacklevel=3)

    @available_if(lambda self: self.coupled)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, *, decay: float = 0.95) -> Self:
        """Learn from a batch of a stream and forget it. Approximate: see ``corrtensor.stream``.

        The first batch is fitted as by :meth:`fit`; each further one moves the mean and the
        factors. Samples that the subspace does not explain are ignored, until they become the
        majority of those seen lately. A call of :meth:`fit` ends the stream.

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
            The estimator; ``weights_`` and ``residuals_`` are those of this batch, as it looked
            before it was learned from. ``outlier_scores_`` and ``diagnostics_`` of a ``CorrTensor``
            stay those of the first.
        """
        if not isinstance(decay, int | float | np.number) or not 0 < decay <= 1:
            raise ValueError(f"decay={decay!r} must lie above 0 and not above 1")
        stream: Stream | None = getattr(self, "_stream", None)
        if stream is None or stream.state.factors is not self.factors_:
            self.fit(X)
            stream = None
        with unchanged_on_error(self):
            X, _ = self._check(X)
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

    def _source(self, X: Any) -> tuple[Source, bool]:
        check_is_fitted(self)
        X, flat = self._check(X)
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "block_size": self.block_size}
        source = Source(X, origin=self.mean_, missing=True, **options)
        return NewSource(source, self._cell_model(source)), flat

    def _cell_model(self, source: Source) -> Model:
        """Return what is expected of samples counted from the mean."""
        scale = getattr(self, "cell_scale_", None)
        width = None if scale is None else self._bandwidth() * scale / source.unit
        return Model(np.zeros(self.sample_shape_), self.factors_, source.dtype, width)

    def _bandwidth(self) -> float:
        return math.inf

    @by_chunks
    def transform(self, X: Any, out: Any = None) -> Any:
        """Project samples onto the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, in memory, on disk or in a Dask array.
        out : array of the result's shape, default=None
            Where to write, block by block: an array in memory or on disk (memmap, zarr, HDF5).
            Should anything fail on the way, it is filled with NaN.

        Returns
        -------
        cores : ndarray of shape (n_samples, k_1, ..., k_d), or flat if X is; or ``out``
            The cores, ``(X - mean) x_1 U_1' ... x_d U_d'``. For a Dask array, a Dask array with
            the same chunks, not yet computed.
        """
        source, flat = self._source(X)
        core = (math.prod(self.core_shape_),) if flat else self.core_shape_
        cores = check_output(out, (source.n_samples, *core), source.dtype)
        factors = [None if U is None else U.astype(source.dtype) for U in self.factors_]
        unit = source.dtype.type(source.unit)
        source.fill(cores, lambda x: project(x, factors) * unit)
        return cores

    @by_chunks
    def inverse_transform(self, X: Any, out: Any = None) -> Any:
        """Reconstruct samples from their cores.

        Parameters
        ----------
        X : array-like of shape (n_samples, k_1, ..., k_d), or flattened
            Cores, in memory, on disk or in a Dask array.
        out : array of the result's shape, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, a_1, ..., a_d), or flat if the cores are; or ``out``
            ``mean + core x_1 U_1 ... x_d U_d``; lazy, as in :meth:`transform`.
        """
        if is_on_disk(X):
            check_is_fitted(self)
            if tuple(X.shape[1:]) != self.core_shape_:
                raise ValueError(
                    f"transformed samples have shape {self.core_shape_}; "
                    f"an array of shape {X.shape} was given"
                )
            cores, flat = X, len(X.shape) == 2
        else:
            cores, flat = self._check_cores(X)
        source = Source(cores, origin=np.zeros(1), n_jobs=self.n_jobs, block_size=self.block_size)
        shape = (math.prod(self.sample_shape_),) if flat else self.sample_shape_
        made = check_output(out, (source.n_samples, *shape), source.dtype)
        factors = [None if U is None else U.astype(source.dtype) for U in self.factors_]
        mean, unit = self.mean_.astype(source.dtype), source.dtype.type(source.unit)
        source.fill(made, lambda x: expand(x, factors) * unit + mean)
        return made

    @by_chunks
    def repair(self, X: Any, out: Any = None) -> Any:
        """Return samples with their missing cells filled, and their bad ones replaced.

        What the subspace expects of a sample takes their place. Good cells come back as they are,
        a doubted one in part: by as much as it counts.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, NaN in the place of missing cells.
        out : array of the shape of X, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        X_new : ndarray of the shape of X, or ``out``
            The samples; lazy, as in :meth:`transform`. Bad cells are looked for only if the fit
            did (``cells=True`` of :class:`CorrTensor`).

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import MultilinearSubspace
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 8, 1)) * rng.normal(size=7)
        >>> torn = np.where(rng.random(X.shape) < 0.2, np.nan, X)
        >>> whole = MultilinearSubspace(ranks=(8, 1)).fit(torn).repair(torn)
        >>> bool(np.abs(whole - X).max() < 1e-3)
        True
        """
        return self._fill_cells(X, out, repaired)

    def _fill_cells(self, X: Any, out: Any, make: Callable[[np.ndarray, Block], np.ndarray]) -> Any:
        """Write an array of the samples' shape, made of every block and what completes it."""
        source, flat = self._source(X)
        X = source.inner.X
        shape = (math.prod(self.sample_shape_),) if flat else self.sample_shape_
        made = check_output(out, (source.n_samples, *shape), source.dtype)
        raw = Source(
            X,
            origin=np.zeros(1),
            unit=1.0,
            n_jobs=self.n_jobs,
            block_size=source.block_size,
            missing=True,
        )
        mean, unit = self.mean_.astype(source.dtype), source.dtype.type(source.unit)

        def task(x: np.ndarray) -> np.ndarray:
            block = source.model.found((x - mean) / unit)[1]
            return make(x, block._replace(expected=block.expected * unit + mean))

        raw.fill(made, task)
        return made

    @by_chunks
    def residuals(self, X: Any) -> np.ndarray:
        """Return the squared distance of each sample from the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.

        Returns
        -------
        residuals : ndarray of shape (n_samples,)
            Squared residuals; lazy, as in :meth:`transform`.
        """
        source, _ = self._source(X)
        zero = np.zeros(self.sample_shape_)
        part = source.measure(ResidualPass(source.at(zero, self.factors_)))
        return np.concatenate(part.squares) * source.unit**2

    def score_distances(self, X: Any) -> np.ndarray:
        """Return how far the core of each sample is from those of the samples that count.

        Beside the residuals this tells good leverage from bad: a sample that the subspace
        explains may still be unlike the others (the outlier map of ROBPCA, Hubert et al. 2005).

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, in memory or on disk.

        Returns
        -------
        distances : ndarray of shape (n_samples,)
            Root of the sum of squares of the core's entries, each less ``core_location_`` and
            divided by ``core_scale_``. Normal cores of k entries lie near the root of k.

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import MultilinearSubspace
        >>> X = np.random.default_rng(0).normal(size=(200, 6, 5))
        >>> model = MultilinearSubspace(ranks=(3, 2)).fit(X)
        >>> bool(abs(np.median(model.score_distances(X)) - np.sqrt(3 * 2)) < 0.3)
        True
        """
        source, _ = self._source(X)
        model = CoreModel(self.core_location_, self.core_scale_)
        measured = source.reduce(ScorePass(self.factors_, model, source.unit, source.dtype))
        return np.concatenate(measured.squares)
