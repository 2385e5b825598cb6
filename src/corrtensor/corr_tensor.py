"""Corr-Tensor, the robust estimator."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from corrtensor._base.checks import is_number, require_positive
from corrtensor._base.warn import warn
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.callbacks import effective_samples
from corrtensor._engine.ranks import Rank
from corrtensor._engine.solver import measured, rounding_of, solve
from corrtensor._engine.state import Options, Solution, State
from corrtensor._engine.weights import times
from corrtensor._robust.completed import CompletedSource
from corrtensor._robust.completion import BANDWIDTH
from corrtensor._robust.isolation import spread
from corrtensor._robust.search import Judge, search
from corrtensor._robust.verdict import Verdict
from corrtensor.losses import Correntropy, Loss
from corrtensor.subspace import MultilinearSubspace

__all__ = ["CorrTensor", "RejectionWarning"]

# Below this many effective samples, or this share of them, the fit rests on too few.
FEWEST_SAMPLES, FEWEST_SHARE = 2.0, 0.05


class RejectionWarning(UserWarning):
    """The samples that count are too few for the ranks to mean anything.

    The message says how many, and ``diagnostics_`` of the model names those that were rejected.

    See Also
    --------
    CorrTensor : Warns when it is fitted.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> import corrtensor as ct
    >>> X = np.random.default_rng(0).normal(size=(60, 8, 7))
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     model = ct.CorrTensor(ranks=(2, 2), alpha=8, beta=0.01, scale=None).fit(X)
    >>> caught[0].category.__name__
    'RejectionWarning'
    """


class CorrTensor(MultilinearSubspace):
    """Corr-Tensor: a multilinear subspace that ignores outliers.

    Groups of samples that lie apart from the majority are rejected first. Then the generalised
    correntropy loss of the residuals is minimised: a sample that the subspace does not explain
    gets a weight near zero and moves neither the mean nor the factors.

    Parameters
    ----------
    ranks : int, float, "auto", None or tuple of these, default=0.95
        Columns of each factor, one entry per mode or one for all: a number, a share of
        explained variance, ``"auto"``, or ``None`` not to project the mode (:term:`ranks`).
    alpha : float, default=4.0
        Power of the residual in the kernel. 2 is the Gaussian; larger cuts sharper.
    beta : float, default=2.0
        Bandwidth in units of ``scale``. Larger forgives more.
    p : float, default=2.0
        Order of the loss in the kernel space.
    scale : {"auto", "median"}, float or None, default="auto"
        Unit of ``beta``. ``"auto"``: such that ``beta=2`` gives full weight to all samples that
        are not outliers. ``"median"``: the root of the median squared residual at the start. A
        number, or ``None`` for the data's own units as in the paper. Outliers are looked for
        before the first sweep with ``"auto"`` only.
    breakdown : float, default=0.5
        Largest share of the samples that may be outliers, from 0 to 0.5. A larger group that lies
        apart counts as good; 0 rejects no group.
    cells : bool or float, default=False
        Whether single cells (pixels, bands) may be bad, and not whole samples alone. They are
        then found, count by :meth:`cell_weights`, and :meth:`repair` replaces them. A number is
        the bandwidth, in robust standard deviations of a cell's residual; ``True`` is 4. Missing
        cells, NaN, need no switch.
    init : {"2dsvd"} or (mean, factors), default="2dsvd"
        Where the sweeps begin: at 2DSVD of the samples that are not rejected (of fewer than 100,
        none counts for its size there), or as given.
    center : {"weighted", "plain", None}, default="weighted"
        The mean: weighted and updated in every sweep, the plain mean, or none.
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
    outlier_scores_ : ndarray of shape (n_samples,)
        How unlike the samples that count each one is, in robust standard deviations: of the
        logarithm of its residual, or, for a rejected sample, of its distance if that is more; 0
        where no cell is seen.
    completion_ : object
        With ``cells``, or if cells are missing: what is expected of a sample, learned before the
        fit. :meth:`repair` uses it.
    cell_scale_ : ndarray of the samples' shape
        With ``cells``: the robust standard deviation of the residuals of every cell.
    diagnostics_ : dict
        ``effective_samples``, the number of samples that the weights amount to; ``rejected``,
        the samples of weight below one half; ``groups``, those that lie apart, each with its
        samples, how far off they are, what was decided, and a sentence that says so.
    mean_, factors_, weights_, residuals_, objective_, n_iter_, converged_, loss_, ranks_
        And the others of :class:`MultilinearSubspace`.

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
        breakdown: float = 0.5,
        cells: bool | float = False,
        init: Any = "2dsvd",
        center: str | None = "weighted",
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
        self.alpha = alpha
        self.beta = beta
        self.p = p
        self.scale = scale
        self.breakdown = breakdown
        self.cells = cells
        self.init = init
        self.center = center
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

    coupled = True

    def _bandwidth(self) -> float | None:
        if not self.cells:
            return None
        if isinstance(self.cells, bool | np.bool_):
            return BANDWIDTH
        require_positive(cells=self.cells)
        return float(self.cells)

    def _options(self) -> Options:
        self._bandwidth()
        return super()._options()

    def _loss(self) -> Loss:
        return Correntropy(self.alpha, self.beta, self.p, self.scale)

    def _judge(
        self,
        source: Source,
        ranks: tuple[Rank, ...],
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> tuple[np.ndarray | None, Verdict | None]:
        share = self.breakdown
        if not is_number(share):
            raise TypeError(f"breakdown={share!r} must be a number from 0 to 0.5")
        if not 0 <= share <= 0.5:
            raise ValueError(f"breakdown={share!r} must lie from 0 to 0.5")
        if self.scale != "auto":
            self._complete(source, ranks, sample_weight)
            return self._trusted(source, sample_weight), None
        # What is missing must look like the rest before samples are compared.
        self._complete(source, ranks, sample_weight, searched=False)
        known = {} if source.memory is None else source.memory
        verdict = known.get("verdict") or search(
            source, ranks, options, sample_weight, float(share)
        )
        if all(math.isnan(group.keeping) for group in verdict.groups):
            # The ranks were not asked: it holds for all of them.
            known["verdict"] = verdict
        if self.cells:
            # What is so large may be a few cells, which are doubted by themselves.
            verdict = replace(verdict, gross=None)
        prior = times(verdict.kept.astype(float), sample_weight)
        w = np.ones(source.n_samples) if sample_weight is None else sample_weight
        left = w @ verdict.kept
        judge = Judge(ranks, options, (share * w.sum() - w.sum() + left) / left)
        if (stray := self._complete(source, ranks, prior, judge=judge)) is not None:
            assert isinstance(source, CompletedSource)  # noqa: S101
            verdict = verdict.without_strays(stray, source.strays)
            prior = times(verdict.kept.astype(float), sample_weight)
        return self._trusted(source, prior), verdict

    @staticmethod
    def _trusted(source: Source, prior: np.ndarray | None) -> np.ndarray | None:
        """Return how much samples may count: not at all if hardly any of their cells does."""
        return source.trusted(prior) if isinstance(source, CompletedSource) else prior

    def _first_state(self, source: Source, start: State) -> State:
        if isinstance(self.init, str) and self.init == "2dsvd":
            return start
        pair = self.init if isinstance(self.init, tuple | list) and len(self.init) == 2 else ()
        if not pair or not isinstance(pair[1], tuple | list):
            raise ValueError(f"init={self.init!r}: use '2dsvd' or (mean, factors)")
        mean, factors = pair
        given = tuple(None if U is None else np.asarray(U, dtype=float) for U in factors)
        shapes = [None if U is None else U.shape for U in given]
        wanted = [None if U is None else U.shape for U in start.factors]
        if np.shape(mean) != source.sample_shape or shapes != wanted:
            raise ValueError(
                f"init has a mean of shape {np.shape(mean)} and factors of shapes {shapes}; "
                f"needed are {source.sample_shape} and {wanted}"
            )
        if not all(np.isfinite(part).all() for part in (mean, *given) if part is not None):
            raise ValueError("init holds NaN or infinity")
        bases = tuple(None if U is None else np.linalg.qr(U)[0] for U in given)
        return State((np.asarray(mean, dtype=float) - source.origin) / source.unit, bases)

    def _sweep(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        prior: np.ndarray | None,
        verdict: Verdict | None,
    ) -> Solution:
        state = self._first_state(source, start)
        if verdict is not None:
            state = measured(source, state)
            assert isinstance(loss, Correntropy)  # noqa: S101
            left = verdict.without_gross(state.squares, prior)
            if left is not verdict:
                verdict, prior = left, times(left.kept.astype(float), prior)
            noise = self._least_square(state, source.dtype)
            # What was not rejected is good, however rare its kind.
            counting = verdict if prior is None else replace(verdict, kept=prior > 0)
            good = counting.largest_good(state.squares, noise) * source.unit**2
            loss = replace(loss, good=good)
        solution = solve(source, state, loss, options, prior)
        weights = solution.weights if verdict is None else solution.weights * verdict.kept
        return replace(solution, weights=weights, verdict=verdict, prior=prior)

    @staticmethod
    def _least_square(state: State, dtype: np.dtype) -> float:
        """Return the squared residual below which all is rounding."""
        return rounding_of(state.norms, dtype, None) + float(np.finfo(float).tiny)

    def _keep(self, solution: Solution, dtype: np.dtype) -> None:
        super()._keep(solution, dtype)
        w, verdict, state = solution.weights, solution.verdict, solution.state
        count = effective_samples(w)
        self.diagnostics_ = {
            "effective_samples": count,
            "rejected": np.flatnonzero(w < 0.5),
            "groups": () if verdict is None else verdict.groups,
        }
        logs = np.log(np.maximum(state.squares, self._least_square(state, dtype)))
        location, scale = spread(logs, times(w, solution.prior))
        scores = (logs - location) / (scale or 1.0)
        scores = scores if verdict is None else np.maximum(scores, verdict.scores)
        # Nothing is known of a sample that shows no cell: it is neither near nor far.
        self.outlier_scores_ = np.where(solution.seen, scores, 0.0)
        few = max(FEWEST_SAMPLES, FEWEST_SHARE * len(w))
        if count < few:
            warn(
                f"only {count:.1f} of {len(w)} samples count: the bandwidth "
                f"(alpha={self.alpha}, beta={self.beta}, scale={self.scale!r}) is too narrow",
                RejectionWarning,
            )
