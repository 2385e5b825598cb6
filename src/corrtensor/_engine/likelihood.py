"""What a subspace learns of its cores, and how usual and how likely samples are by it."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.core_distances import CoreModel, ScorePass, learn
from corrtensor._engine.passes import ResidualPass
from corrtensor._engine.subspace_transformer import SubspaceTransformer
from corrtensor._engine.variance import (
    Explained,
    Gaussian,
    explained,
    log_likelihood_of_noise,
    mean_of_best,
)


class Likelihood(SubspaceTransformer):
    """How far samples are from the cores that count, and how likely they are."""

    residuals_: np.ndarray
    core_location_: np.ndarray
    core_scale_: np.ndarray

    def _learn_cores(
        self, source: Source, weights: np.ndarray, energies: Mapping[int, np.ndarray]
    ) -> np.ndarray:
        """Learn location and scale of the cores; return the mean square of every entry."""
        subspace = self._mean, self._factors, self.residuals_
        cores, squares = learn(source, *subspace, weights, energies)
        self.core_location_, self.core_scale_ = cores.location, cores.scale
        return squares

    @by_chunks
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
        measured = source.reduce(ScorePass(self._factors, model, source.unit, source.dtype))
        return np.concatenate(measured.squares)

    def _learn_variances(self, source: Source, squares: np.ndarray, weights: np.ndarray) -> None:
        """Learn them from samples as they should be; residuals are then of what they show."""
        cost, beside = source.cost, source.beside(self._factors)
        s, entries = self.residuals_ - source.unit**2 * cost, math.prod(self.sample_shape_)
        self._keep_variances(explained(squares, s, weights, entries))
        self.residuals_ = s + source.unit**2 * (cost - beside)

    def _keep_variances(self, found: Explained) -> None:
        self.explained_variance_, self.noise_variance_ = found.cores, found.noise
        self.explained_variance_ratio_ = found.ratio
        self.explained_variance_ratio_by_mode_ = found.by_mode
        self.n_components_ = found.cores.size

    @by_chunks
    def score_samples(self, X: Any) -> np.ndarray:
        """Return the log-likelihood of each sample.

        The model is that of probabilistic PCA: normal entries of the core with the variances
        ``explained_variance_``, and beside the subspace noise of the size ``noise_variance_``.
        Of a sample that misses cells it is about that of those it shows, 0 if it shows none.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.

        Returns
        -------
        log_likelihood : ndarray of shape (n_samples,)
            The larger, the more usual; lazy, as in :meth:`transform`.
        """
        return self._likelihoods(X)[0]

    @by_chunks
    def _bounded(self, X: Any) -> np.ndarray:
        """Return the log-likelihood, of no sample less than that of noise of its own size."""
        return np.maximum(*self._likelihoods(X))

    def _likelihoods(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        source, _ = self._source(X)
        entries = math.prod(self.sample_shape_)
        model = Gaussian.of(self.explained_variance_, self.noise_variance_, entries)
        cores = CoreModel(np.zeros(self.core_shape_), np.sqrt(model.variances))
        inside = source.reduce(ScorePass(self._factors, cores, source.unit, source.dtype))
        beside = source.reduce(ResidualPass(source.at(np.zeros(self.sample_shape_), self._factors)))
        s, norms = (np.concatenate(v) * source.unit**2 for v in (beside.squares, beside.norms))
        seen = source.seen_shares()
        likelihood = model.log_likelihood(np.concatenate(inside.squares), s, seen)
        # A sample at the mean, such as one that shows nothing, is no noise without any size.
        sizes = np.maximum(norms, entries * self.noise_variance_)
        return likelihood, log_likelihood_of_noise(sizes, entries, seen)

    def score(self, X: Any, y: object = None) -> float:
        """Return the mean log-likelihood of samples, for cross-validation.

        Outliers among them must not choose the ranks. So for a ``CorrTensor`` no sample counts as
        less likely than noise of its own size, whatever the ranks, and the least likely samples
        are left out, as many as ``breakdown`` allows. With ``breakdown=0``, and for methods
        without, it is the plain mean of ``score_samples``.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples that were held out.
        y : object, default=None
            Ignored.

        Returns
        -------
        score : float
            The larger, the better.

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import CorrTensor
        >>> from sklearn.model_selection import GridSearchCV
        >>> rng = np.random.default_rng(0)
        >>> A, B = rng.normal(size=(8, 3)), rng.normal(size=(7, 2))
        >>> X = A @ rng.normal(size=(100, 3, 2)) @ B.T + 0.3 * rng.normal(size=(100, 8, 7))
        >>> search = GridSearchCV(CorrTensor(), {"ranks": [(2, 2), (3, 2), (4, 4)]}).fit(X)
        >>> search.best_params_
        {'ranks': (3, 2)}
        """
        left_out = getattr(self, "breakdown", 0.0)
        if not left_out:
            return float(np.mean(np.asarray(self.score_samples(X))))
        return mean_of_best(np.asarray(self._bounded(X)), left_out)
