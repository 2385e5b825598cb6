"""Corr-Tensor, the robust estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from corrtensor.losses import Correntropy, Loss, lower_quantile
from corrtensor.questions import STARTS, Answer, ask
from corrtensor.solver import Options, Solution, State, solve, weighted_quantiles
from corrtensor.sources import Source
from corrtensor.starts import REACH, Rank, distances, spectral, survey, times
from corrtensor.subspace import MultilinearSubspace
from corrtensor.watching import effective_samples

__all__ = ["CorrTensor", "RejectionWarning"]

# Below this many effective samples, or this share of them, the fit rests on too few.
FEWEST_SAMPLES, FEWEST_SHARE = 2.0, 0.05
# A warning is given when so many samples, and this share of them, are contested.
FEWEST_CONTESTED, CONTESTED_SHARE = 10, 0.15


class RejectionWarning(UserWarning):
    """The samples that count are too few, or depend on the question asked.

    The message says which, and ``diagnostics_`` of the model names the samples.

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
    """Corr-Tensor: a multilinear subspace that ignores spoiled samples.

    Minimises the generalised correntropy loss of the residuals. A sample that the subspace
    does not explain gets a weight near zero and moves neither the mean nor the factors.

    Parameters
    ----------
    ranks : int, float, "auto", None or tuple of these, default=0.95
        Columns of each factor: one entry per mode, or one for all. An int; a float in (0, 1)
        to keep that share of the (weighted) energy of the mode; ``"auto"`` for the elbow of
        its spectrum; ``None`` to leave it whole.
    alpha : float, default=4.0
        Power of the residual in the kernel. 2 is the Gaussian; larger cuts sharper.
    beta : float, default=2.0
        Bandwidth in units of ``scale``. Larger forgives more.
    p : float, default=2.0
        Order of the loss in the kernel space.
    scale : {"auto", "median"}, float or None, default="auto"
        Unit of ``beta``. ``"auto"``: judged by the quartiles of the residuals of the samples
        that count, so that ``beta=2`` keeps what belongs to their distribution. ``"median"``:
        the root of the median squared residual at the start. A number, or ``None`` for the
        data's own units as in the paper.
    reject : {"unexplained", "minority"}, default="unexplained"
        Which samples are bad: those that the joint subspace cannot explain (the paper), or
        those that do not look like the majority.
    leverage : bool, default=False
        Whether to set aside samples that the subspace explains only because they bent it: their
        residuals are small, but their cores are far from those of the others (see
        :meth:`score_distances`). Such are images of one pattern among faces, up to 40 % of the
        samples. Costs a pass over the data where there are none, else a second fit or more.
    init : {"auto", "2dsvd", "tight", "spherical", "subsets"} or (mean, factors), default="auto"
        Where the sweeps begin. ``"2dsvd"`` is the paper's start. ``"tight"`` lets go of all that
        is far and takes back what the fit explains; ``"spherical"`` begins at the geometric
        median with samples scaled to unit distance; ``"subsets"`` with the best of many fits of
        a few samples. ``"auto"`` is ``"subsets"`` for ``reject="minority"``, else ``"tight"``
        if ``scale="auto"``, else ``"2dsvd"``.
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
        projector turns by as much as the square root of it (root mean square sine), or when ten
        in a row gain no more than rounding. With 0, ``max_iter`` sweeps are run.
    random_state : int, RandomState instance or None, default=0
        Draws of the starts on subsamples.
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
        Weighted mean.
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
    loss_ : Correntropy
        The loss with its bandwidth frozen.
    diagnostics_ : dict
        ``effective_samples``, the number of samples that the weights amount to; ``rejected``,
        the samples of weight below one half; ``contested``, samples that are kept though a
        narrow fit of the majority doubts them, or though they are copies of one another: where
        ``reject="minority"`` may answer otherwise, sought among at most 500 samples;
        ``leverage``, samples set aside for being far inside.
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
        leverage: bool = False,
        init: Any = "auto",
        center: str | None = "weighted",
        order: int | None = None,
        sample_shape: tuple[int, ...] | None = None,
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = 0,
        n_jobs: int | None = None,
        block_size: int | None = None,
        callback: Callable[..., object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.ranks = ranks
        self.alpha = alpha
        self.beta = beta
        self.p = p
        self.scale = scale
        self.reject = reject
        self.leverage = leverage
        self.init = init
        self.center = center
        self.order = order
        self.sample_shape = sample_shape
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.block_size = block_size
        self.callback = callback
        self.checkpoint = checkpoint

    coupled = True

    def _loss(self) -> Loss:
        if not isinstance(self.reject, str) or self.reject not in REACH:
            raise ValueError(f"reject={self.reject!r}: use 'unexplained' or 'minority'")
        return Correntropy(self.alpha, self.beta, self.p, self.scale, reach=REACH[self.reject])

    def _start_name(self) -> str:
        if not isinstance(self.leverage, bool | np.bool_):
            raise TypeError(f"leverage={self.leverage!r}: use True or False")
        if isinstance(self.init, tuple | list) and len(self.init) == 2:
            if self.leverage:
                raise ValueError(
                    "leverage=True seeks its start several times: give init by name, not as arrays"
                )
            return "given"
        if self.init == "auto":
            tight = "tight" if self.scale == "auto" else "2dsvd"
            return "subsets" if self.reject == "minority" else tight
        if not isinstance(self.init, str) or self.init not in ("2dsvd", *STARTS):
            raise ValueError(
                f"init={self.init!r}: use 'auto', '2dsvd', {', '.join(map(repr, STARTS))} "
                "or (mean, factors)"
            )
        return self.init

    def _given(self, source: Source, start: State) -> State:
        mean, factors = self.init
        given = tuple(None if U is None else np.asarray(U, dtype=float) for U in factors)
        shapes = [None if U is None else U.shape for U in given]
        wanted = [None if U is None else U.shape for U in start.factors]
        if np.shape(mean) != source.sample_shape or shapes != wanted:
            raise ValueError(
                f"init has a mean of shape {np.shape(mean)} and factors of shapes {shapes}; "
                f"needed are {source.sample_shape} and {wanted}"
            )
        bases = tuple(None if U is None else np.linalg.qr(U)[0] for U in given)
        return State((np.asarray(mean, dtype=float) - source.origin) / source.unit, bases)

    def _first_weights(
        self, source: Source, start: State, sample_weight: np.ndarray | None
    ) -> np.ndarray | None:
        """Let no sample count for more energy than a typical one."""
        d = distances(source, start)
        typical = lower_quantile(weighted_quantiles(d, sample_weight))
        return times(np.minimum(1.0, typical / np.maximum(d, 1e-300)), sample_weight)

    def _begin(self, source: Source, ranks: tuple[Rank, ...], **known: Any) -> State:
        sought = self._start_name() in STARTS or self.leverage
        # A search has a start of its own, for the samples that it is given.
        return (survey if sought else spectral)(source, ranks, **known)

    def _sweep(
        self,
        source: Source,
        start: State,
        loss: Loss,
        options: Options,
        sample_weight: np.ndarray | None,
    ) -> Solution:
        name = self._start_name()
        answer = Answer(start, loss)
        if name == "given":
            answer = replace(answer, state=self._given(source, start))
        elif name != "2dsvd" or self.leverage:
            rng = check_random_state(self.random_state)
            given = (source, start, loss, options, sample_weight, rng)
            answer = ask(name, *given, leverage=bool(self.leverage))
        inside = answer.inside
        if inside is None:
            inside, prior = np.ones(source.n_samples, dtype=bool), sample_weight
        else:
            prior = times(inside.astype(float), sample_weight)
        solution = solve(source, answer.state, answer.loss, options, prior)
        return replace(
            solution,
            weights=solution.weights * inside,
            contested=answer.contested,
            set_aside=np.flatnonzero(~inside),
        )

    def _keep(self, solution: Solution, dtype: np.dtype) -> None:
        super()._keep(solution, dtype)
        w, contested = solution.weights, solution.contested
        count = effective_samples(w)
        self.diagnostics_ = {
            "effective_samples": count,
            "rejected": np.flatnonzero(w < 0.5),
            "contested": contested.samples,
            "leverage": solution.set_aside,
        }
        few = max(FEWEST_SAMPLES, FEWEST_SHARE * len(w))
        if count < few:
            warnings.warn(
                f"only {count:.1f} of {len(w)} samples count: the bandwidth "
                f"(alpha={self.alpha}, beta={self.beta}, scale={self.scale!r}) is too narrow",
                RejectionWarning,
                stacklevel=5,
            )
        if len(contested.samples) >= FEWEST_CONTESTED and contested.share >= CONTESTED_SHARE:
            warnings.warn(
                f"{contested.share:.0%} of the samples are explained by the subspace, but unlike "
                "the majority or copies of one another; look at diagnostics_['contested'], and "
                "use reject='minority' if they are bad",
                RejectionWarning,
                stacklevel=5,
            )
