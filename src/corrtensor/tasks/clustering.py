"""K-means that starts from density peaks and whose centres no outlier moves."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.cluster import KMeans
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from corrtensor._base.checks import is_share, require_count, require_not_negative
from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.containers import bare
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor.tasks._subspace import (
    cores_of,
    fit_subspace,
    name_features,
    read_samples,
    sample_weights,
)
from corrtensor.tasks.density_peaks import cutoff_distance, decision_graph

# A sample with less than this share of the largest weight neither is nor moves a centre.
NEGLIGIBLE = 1e-3
# Squares of larger numbers overflow when they are added up.
LARGEST = 1e150


class DensityPeaksKMeans(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator
):
    """K-means from density peaks, weighted.

    The starting centres are the samples with many neighbours and no denser sample near
    (Rodriguez and Laio 2014); Lloyd's iterations follow, then a few more runs from random starts
    (k-means++). The run with the smallest inertia is kept. Samples count by their weights: those
    with less than a thousandth of the largest weight are left out and get their label, that of
    the nearest centre, at the end.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    subspace : estimator, default=None
        Clusters are formed among its cores, weighted by its weights. It is cloned and fitted to
        the samples, unless it comes as ``FrozenEstimator(subspace)``: then it is taken as it
        is. ``None``: the samples are features already; give the weights to ``fit``.
        A cluster that lies far apart from all others may be an outlying group to ``CorrTensor``,
        unless its ``breakdown`` is below the cluster's share of the samples.
    cutoff : {"auto"} or float, default="auto"
        Share of all pairs of samples that are neighbours, in (0, 1]: it sets the distance
        of the density's kernel. ``"auto"`` is ``1 / n_clusters``, the share of pairs within
        clusters of equal size.
    n_init : int, default=10
        Further runs from random starts; 0 for density peaks alone.
    max_iter : int, default=300
        Most iterations of a run.
    tol : float, default=1e-4
        A run ends when its centres move by less, relative to the variance of the features.
    random_state : int, RandomState instance or None, default=None
        Source of the random starts (and of the samples that set the cut-off distance, beyond
        2000 of them).

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample, outliers included.
    cluster_centers_ : ndarray of shape (n_clusters, k_1, ..., k_d)
        Weighted means of the clusters' features, of the shape of the features; the heaviest
        cluster comes first, whatever start found it.
    inertia_ : float
        Weighted sum of squared distances from the centres, over the samples that count.
    n_iter_ : int
        Iterations of the run that was kept.
    decision_graph_ : DecisionGraph
        ``rho``, ``delta``, ``chosen`` and ``cutoff`` of the density peaks.
    weights_ : ndarray of shape (n_samples,)
        Weights of the samples.
    subspace_ : estimator or None
        The fitted subspace.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    CorrTensor : The subspace whose cores and weights it takes.
    corrtensor.plot.decision_graph : Where the clusters began.

    Notes
    -----
    On faces and digits the inertia reached from density peaks alone was 8 % above the best known
    (one start of k-means++: 4 %; ten: 1 %), whence ``n_init``. Fewer distinct samples than
    clusters: some clusters are empty, and scikit-learn's ``ConvergenceWarning`` says so.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.tasks import DensityPeaksKMeans
    >>> rng = np.random.default_rng(0)
    >>> X = np.repeat([0.0, 5.0, 10.0], 20)[:, None, None] + rng.normal(size=(60, 4, 3))
    >>> X[0] = 1000
    >>> model = DensityPeaksKMeans(3, n_init=0).fit(X, sample_weight=np.arange(60) > 0)
    >>> model.cluster_centers_.mean(axis=(1, 2)).round().astype(int).tolist()
    [5, 10, 0]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        subspace: Any = None,
        cutoff: str | float = "auto",
        n_init: int = 10,
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.subspace = subspace
        self.cutoff = cutoff
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like of shape (n_samples, k_1, ..., k_d) or (n_samples, n_features)
            Features, such as cores; or samples, if there is a ``subspace``.
        y : object, default=None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each sample counts, such as a fit's ``weights_``. The weights that a
            ``subspace`` gives are multiplied by it.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_error(self):
            share = self._check_parameters()
            X = bare(X, self, "fit")
            features = self._features(X, reset=True, sample_weight=sample_weight)
            self._fit(X, features, sample_weight, share)
        return self

    def _fit(
        self, X: Any, features: np.ndarray, sample_weight: ArrayLike | None, share: float
    ) -> None:
        vectors = features.reshape(len(features), -1)
        if (largest := float(abs(vectors).max())) > LARGEST:
            raise ValueError(
                f"samples are about {largest:.0e} in size: their squares cannot be represented"
            )
        weights = self._weights(X, vectors, sample_weight)
        counts = weights >= NEGLIGIBLE * weights.max()
        if counts.sum() < self.n_clusters:
            raise ValueError(
                f"n_samples={int(counts.sum())} that count should be >= n_clusters="
                f"{self.n_clusters}; {len(weights)} were given"
            )
        random = check_random_state(self.random_state)
        # Distances come from products, which cancel far from the origin.
        shifted = vectors - vectors[counts].mean(axis=0)
        cutoff = cutoff_distance(shifted[counts], weights[counts], share, random)
        self.decision_graph_ = decision_graph(shifted, weights, counts, self.n_clusters, cutoff)
        best = self._best(vectors, weights, counts, random)
        self.weights_ = weights
        self.inertia_, self.n_iter_ = best.inertia_, best.n_iter_
        centers = best.cluster_centers_
        masses = np.bincount(best.labels_, weights[counts], minlength=self.n_clusters)
        order = np.lexsort((centers[:, 0], -masses.round(9)))
        self.cluster_centers_ = centers[order].reshape(-1, *features.shape[1:])
        self.labels_ = self._from_centers(vectors).argmin(axis=1).astype(np.int32)

    def _check_parameters(self) -> float:
        """Check the parameters and return the share of pairs within the cut-off."""
        require_count(n_clusters=self.n_clusters, max_iter=self.max_iter)
        require_count(0, n_init=self.n_init)
        require_not_negative(tol=self.tol)
        if isinstance(self.cutoff, str) and self.cutoff == "auto":
            return 1 / self.n_clusters
        if not is_share(self.cutoff):
            raise ValueError(f"cutoff={self.cutoff!r}: use 'auto' or a share of pairs in (0, 1]")
        return float(self.cutoff)

    def _features(
        self, X: Any, *, reset: bool = False, sample_weight: ArrayLike | None = None
    ) -> np.ndarray:
        if reset:
            self.subspace_ = None
            if self.subspace is not None:
                self.subspace_ = fit_subspace(self.subspace, X, sample_weight)
                name_features(self, self.subspace_)
        if self.subspace_ is not None:
            return cores_of(self.subspace_, X)
        return read_samples(self, X, reset=reset)

    def _weights(self, X: Any, vectors: np.ndarray, given: ArrayLike | None) -> np.ndarray:
        weights = _check_sample_weight(given, vectors, dtype=np.float64, ensure_non_negative=True)
        fitted = None if self.subspace_ is None else sample_weights(self.subspace_, X)
        weights = weights if fitted is None else weights * fitted
        if not weights.any():
            raise ValueError("every sample has the weight zero: there is nothing to cluster")
        return weights

    def _best(
        self,
        vectors: np.ndarray,
        weights: np.ndarray,
        counts: np.ndarray,
        random: np.random.RandomState,
    ) -> KMeans:
        """Return the best of the run from the density peaks and those from random starts."""
        peaks = vectors[self.decision_graph_.chosen]
        starts = [(peaks, 1), ("k-means++", self.n_init)] if self.n_init else [(peaks, 1)]
        runs = [
            KMeans(
                self.n_clusters,
                init=init,
                n_init=n_init,
                max_iter=self.max_iter,
                tol=self.tol,
                random_state=random,
            ).fit(vectors[counts], sample_weight=weights[counts])
            for init, n_init in starts
        ]
        return min(runs, key=lambda run: run.inertia_)

    def _distances(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        features = self._features(X)
        return self._from_centers(features.reshape(len(features), -1))

    def _from_centers(self, vectors: np.ndarray) -> np.ndarray:
        return cdist(vectors, self.cluster_centers_.reshape(len(self.cluster_centers_), -1))

    @by_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster whose centre is nearest.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            As in ``fit``.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Places in ``cluster_centers_``.
        """
        return self._distances(X).argmin(axis=1).astype(np.int32)

    @by_chunks
    def transform(self, X: Any) -> np.ndarray:
        """Return the distances from the centres.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            As in ``fit``.

        Returns
        -------
        distances : ndarray of shape (n_samples, n_clusters)
            Euclidean distances.
        """
        return self._distances(X)

    def score(self, X: Any, y: object = None) -> float:
        """Return minus the sum of squared distances from the nearest centres.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            As in ``fit``.
        y : object, default=None
            Ignored.

        Returns
        -------
        score : float
            The larger, the better.
        """
        return -float(np.square(self._distances(bare(X, self)).min(axis=1)).sum())

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)
