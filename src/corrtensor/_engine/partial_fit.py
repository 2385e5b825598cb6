"""Fits to a stream of batches: ``partial_fit``."""

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from corrtensor._base.checks import is_share
from corrtensor._engine.arrays import source_of
from corrtensor._engine.core_distances import FEWEST_DRAWN, CoreModel
from corrtensor._engine.likelihood import Likelihood
from corrtensor._engine.shapes import MissingCells
from corrtensor._engine.state import State
from corrtensor._engine.stream import RECENT, Stream, absorb, with_a_fit
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor._engine.variance import Explained


class PartialFit(Likelihood):
    """Learning on from where a fit ended, with each batch seen once."""

    fit: Any
    coupled: bool
    center: str | None
    loss_: Any
    weights_: np.ndarray
    repair: Any
    _first_source: Any

    @available_if(lambda self: self.coupled)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: object = None, *, decay: float = 0.95) -> Self:
        """Learn from a batch of a stream and forget it. Approximate: see ``docs/decisions/0006``.

        The first batch is fitted as by :meth:`fit`; each further one moves the mean and the
        factors. Samples that the subspace does not explain are ignored, until they become the
        majority of those seen lately. After a call of :meth:`fit` the stream goes on from there:
        what is remembered of the samples of the fit are the variances that it found.

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
            before it was learned from; ``explained_variance_`` and what follows from it are of all
            that is remembered. ``outlier_scores_`` and ``diagnostics_`` of a ``CorrTensor`` stay
            those of the first.
        """
        if not is_share(decay):
            raise ValueError(f"decay={decay!r} must lie above 0 and not above 1")
        stream: Stream | None = getattr(self, "_stream", None)
        fitted = hasattr(self, "factors_")
        if not fitted:
            self.fit(X)
        with unchanged_on_error(self):
            try:
                self._follow(
                    self.repair(X) if hasattr(self, "cell_scale_") else X, stream, fitted, decay
                )
            except MissingCells:
                self._follow(self.repair(X), stream, fitted, decay)
        return self

    def _follow(self, X: Any, stream: Stream | None, fitted: bool, decay: float) -> None:
        """Move mean and factors by a batch without gaps."""
        X = self._check(X)[0]
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "block_size": self.block_size}
        if stream is None:
            source = self._first_source(X)
            state = State((self._mean - source.origin) / source.unit, self._factors)
            stream = Stream(source.origin, source.unit, state, self.residuals_[-RECENT:])
        if fitted and not stream.n_seen:
            found = Explained(self.explained_variance_, self.noise_variance_, 0.0)
            stream = with_a_fit(stream, self.loss_, len(self.residuals_), found)
        source = source_of(X, origin=stream.origin, unit=stream.unit, **options)
        # The first batch counts as the fit has found.
        weights = None if fitted else self.weights_
        self._stream, batch = absorb(stream, source, self.loss_, self.center, decay, weights)
        mean = stream.origin + stream.unit * self._stream.state.mean
        factors = self._stream.state.factors
        known = CoreModel(self.core_location_, self.core_scale_)
        known = known.moved(self._factors, factors, mean - self._mean)
        self.mean_, self.factors_ = mean.astype(self._mean.dtype), factors
        self.weights_, self.residuals_ = batch.weights, batch.residuals
        # A batch may be too small to learn the cores from; what is known is turned along.
        self.core_location_, self.core_scale_ = known.location, known.scale
        if batch.weights.sum() >= FEWEST_DRAWN:
            self._learn_cores(source, batch.weights, {})
        self._keep_variances(self._stream.explained)
        # What was expected of the first samples need not be expected of later ones.
        self.__dict__.pop("completion_", None)
        self.loss_, self.n_samples_seen_ = batch.loss, self._stream.n_seen
