"""Which samples does a subspace not explain, and where in the sample?"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted

from corrtensor._base.checks import is_share
from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.containers import bare
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor.corr_tensor import CorrTensor
from corrtensor.tasks._subspace import (
    differences,
    fit_subspace,
    name_features,
    sample_weights,
    squared_residuals,
    weighted_median,
)
from corrtensor.tasks.profile import fit_profile

# Clean samples flagged at least: the rate of false alarms that "auto" states.
FALSE_ALARMS = 0.01
# Robust standard deviations above the median at which samples are first set aside, and at which
# an outlier begins.
FIRST_CUT, CUT = 2.5, 3.75
# A normal distribution's standard deviation over its median and its mean absolute deviation.
SIGMA_PER_MEDIAN, SIGMA_PER_MEAN = 1.4826, 1.2533
MAX_ROUNDS = 50
# Distances that differ from the cut by no more than this share lie on it.
ON_THE_CUT = 1e-6


class TensorOutlierDetector(OutlierMixin, BaseEstimator):
    """Samples that a robust subspace does not explain.

    The score of a sample is minus its distance from the subspace; outliers, which have little or
    no weight in the fit, cannot bend it towards themselves.

    Parameters
    ----------
    subspace : estimator, default=None
        ``None`` is ``CorrTensor()``, and with one rank fewer than entries in every mode where
        that would explain all samples completely. It is cloned and fitted to the samples,
        unless it comes as ``FrozenEstimator(subspace)``: then it is taken as it is.
    contamination : {"auto"} or float, default="auto"
        Share of the samples to flag, in (0, 0.5]. ``"auto"`` reads the cut off the distances
        themselves: see the notes.
    distance : {"orthogonal", "features"}, default="orthogonal"
        What makes an outlier: a large orthogonal distance, that from the subspace, or features
        unlike those of the others. Features also tell outliers that the subspace explains, such
        as half of a face, a smooth thing that is no face, or a picture out of focus.

    Attributes
    ----------
    offset_ : float
        The score below which a sample is an outlier; ``decision_function`` is
        ``score_samples`` less this.
    subspace_ : estimator
        The fitted subspace.
    profile_ : Profile
        What is usual among the samples, with ``distance="features"``.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    CorrTensor : The robust subspace behind it.
    corrtensor.plot.outlier_map : Distances outside and inside the subspace.

    Notes
    -----
    With ``"auto"``, a sample is an outlier when the cube root of its squared distance exceeds the
    median by 3.75 robust standard deviations, or is among the largest hundredth of all. (The cube
    root of a sum of squares is nearly normal, however few or many there are: Wilson and Hilferty
    1931.) Samples above 2.5 deviations are set aside first; then median and deviation are taken
    from those below the cut until no sample changes sides. Samples count by their weights in the
    fit. The deviation is 1.4826 times the median absolute deviation, or that of the upper half
    if it is larger.

    Hence 1 % of clean samples are flagged when they are about as far out as normal noise, none of
    fewer than a hundred. On clean real data (Yale, ORL and LFW faces, MNIST digits) it was 0.6 to
    4.7 % of the samples of the fit; more, up to 9 %, only for digits at ranks that leave most of
    them hardly any residual (20 of 28). New samples lie a little farther out: with 82 Yale faces
    to learn from, 3 to 10 % of the other 83 were flagged. Outliers nearer than the cut are not
    flagged, though they may rank first: if their share is known, give it as ``contamination``.

    By orthogonal distance, a sample that the subspace explains is no outlier, however odd: smooth
    images that are no faces lie nearer to a subspace of faces than the faces do.
    ``distance="features"`` looks at three things instead (:mod:`corrtensor.tasks.profile`): the
    energy of a sample in shells of directions, its leading components, and its likeness to the few
    most similar others. Its
    distances are roots of sums of squared excesses, and go to the cut without a further root. On
    clean LFW, ORL, Yale and MNIST samples, of the fit and new ones, it flagged 0 to 1 %.

    A subspace of full ranks explains everything: all distances are zero but for rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.datasets import dummy_outliers, load_faces
    >>> from corrtensor.tasks import TensorOutlierDetector
    >>> faces = load_faces().images[:100]
    >>> X, is_outlier = dummy_outliers(faces, 20, rng=0)
    >>> flagged = TensorOutlierDetector().fit_predict(X) == -1
    >>> bool(flagged[is_outlier].all()), bool(flagged[~is_outlier].mean() <= 0.05)
    (True, True)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __init__(
        self,
        subspace: Any = None,
        *,
        contamination: str | float = "auto",
        distance: str = "orthogonal",
    ) -> None:
        self.subspace = subspace
        self.contamination = contamination
        self.distance = distance

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the subspace and set the cut.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, some of them outliers.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The fitted detector.
        """
        share = self.contamination
        auto = isinstance(share, str) and share == "auto"
        if not auto and not is_share(share, 0.5):
            raise ValueError(f"contamination={share!r}: use 'auto' or a share in (0, 0.5]")
        if self.distance not in ("orthogonal", "features"):
            raise ValueError(f"distance={self.distance!r}: use 'orthogonal' or 'features'")
        with unchanged_on_error(self):
            self.subspace_ = self._fit_subspace(X)
            X = bare(X, self)
            name_features(self, self.subspace_)
            weights = sample_weights(self.subspace_, X)
            if self.distance == "features":
                self.profile_ = fit_profile(self.subspace_, X, weights)
            distances = -np.asarray(self.score_samples(X))
            self.offset_ = self._offset(distances, weights)
        return self

    def _offset(self, distances: np.ndarray, weights: np.ndarray | None) -> float:
        if not isinstance(self.contamination, str):
            cut = float(np.percentile(distances, 100 * (1 - self.contamination)))
        elif self.distance == "features":
            # These are nearly normal as they are; the cut takes a cube root.
            cut = float(np.cbrt(upper_cut(distances**3, weights)))
        else:
            cut = math.sqrt(upper_cut(np.square(distances), weights))
        return -clear_of(distances, cut)

    def _fit_subspace(self, X: Any) -> Any:
        subspace = fit_subspace(self.subspace, X)
        if self.subspace is None and subspace.core_shape_ == subspace.sample_shape_:
            ranks = tuple(max(1, a - 1) for a in subspace.sample_shape_)
            return CorrTensor(ranks).fit(X)
        return subspace

    @by_chunks
    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus the distance of each sample from the subspace, or from the usual profile.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The larger, the more normal.
        """
        check_is_fitted(self)
        if self.distance == "features":
            return -self.profile_.score(self.subspace_, X)
        return -np.sqrt(squared_residuals(self.subspace_, X))

    @by_chunks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return how far inside the cut each sample lies.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            ``score_samples(X) - offset_``; outliers are negative.
        """
        return self.score_samples(X) - self.offset_

    @by_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Tell outliers from inliers.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            -1 for outliers, 1 for the others.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @by_chunks
    def residual_map(self, X: Any) -> np.ndarray:
        """Return where in each sample its residual lies: why it is an outlier.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        squares : ndarray of the shape of X
            Squared difference between each entry and its reconstruction; over a sample they
            add up to the square of its score.
        """
        check_is_fitted(self)
        return np.square(differences(self.subspace_, X))


def clear_of(distances: np.ndarray, cut: float) -> float:
    """Return a cut on which no sample lies: rounding must not decide about the last one within.

    Where one does, the cut moves out a little, at most midway to the next sample.
    """
    within = distances[distances <= (1 + ON_THE_CUT) * cut]
    if not within.size or within.max() < (1 - ON_THE_CUT) * cut:
        return cut
    last = float(within.max())
    return min(
        (1 + ON_THE_CUT) * last, (last + min(distances[distances > last], default=math.inf)) / 2
    )


def upper_cut(s: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return where clean squared residuals end.

    See the notes of :class:`TensorOutlierDetector`.
    """
    roots = np.cbrt(s)
    weights = np.ones(len(s)) if weights is None else weights
    cut = cut_above(roots, weights, FIRST_CUT, skewed=False)
    kept = np.zeros(len(s), dtype=bool)
    for _ in range(MAX_ROUNDS):
        below = roots <= cut
        if np.array_equal(below, kept):
            break
        kept = below
        cut = cut_above(roots[kept], weights[kept], CUT, skewed=True)
    place = len(s) - 1 - int(FALSE_ALARMS * len(s))
    # Rounding may put the cube of a root below its residual: what is kept lies within the cut.
    end = max(cut**3, s[roots <= cut].max())
    return float(min(end, np.partition(s, place)[place]))


def cut_above(roots: np.ndarray, weights: np.ndarray, sigmas: float, *, skewed: bool) -> float:
    """Return the median plus so many robust standard deviations."""
    median = weighted_median(roots, weights)
    off = np.abs(roots - median)
    sigma = SIGMA_PER_MEDIAN * weighted_median(off, weights)
    if skewed:
        # Before anything was set aside, the upper half may be full of outliers.
        upper = roots >= median
        sigma = max(sigma, SIGMA_PER_MEDIAN * weighted_median(off[upper], weights[upper]))
    if sigma == 0:
        # Half of the samples are equally far out, such as copies of one sample.
        sigma = SIGMA_PER_MEAN * float(np.average(off, weights=weights))
    return median + sigmas * sigma
