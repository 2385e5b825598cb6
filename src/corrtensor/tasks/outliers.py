"""Which samples are unlike the others, in which way, and where in the sample?"""

import math
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from corrtensor._base.checks import is_share
from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.containers import bare
from corrtensor._engine.transformer import unchanged_on_error
from corrtensor.corr_tensor import CorrTensor
from corrtensor.tasks._subspace import (
    differences,
    filled,
    fit_subspace,
    name_features,
    sample_weights,
    torn,
)
from corrtensor.tasks.profile import fit_profile
from corrtensor.tasks.reasons import reasons
from corrtensor.tasks.samples import blocks_of, in_shape
from corrtensor.tasks.table import FALSE_ALARMS, TableProfile, fit_table

# Scores that differ from the cut by no more than this share lie on it.
ON_THE_CUT = 1e-6
# The score of a sample that shows no cell: nothing speaks for it, and its picture was made up.
OF_NOTHING = 10.0


def refuse_foreign(weights: np.ndarray | None) -> None:
    """Raise a ``ValueError`` if so few samples count that they do not tell what is usual."""
    if weights is None:
        return
    n = np.count_nonzero(weights >= 0.5)
    if n < 2 <= len(weights):
        raise ValueError(
            f"the subspace explains {n} of {len(weights)} samples: are they of another kind than "
            "those that it was fitted to, or in other units?"
        )


class TensorOutlierDetector(OutlierMixin, BaseEstimator):
    """Samples that are unlike the others, and why.

    Five things are measured of every sample beside the few others that it resembles most: its
    texture, its likeness to them, whether it would be more like them if it were turned or made
    negative, its distance in the metric of the search of samples, and how much of it is flat. Of a
    row of a table (a vector) it is one thing, how far it is from the others; order, units and
    offsets of the columns do not matter. What is usual is learned from samples that count in the
    fit of a robust subspace.

    Parameters
    ----------
    subspace : estimator, default=None
        ``None`` is ``CorrTensor()``, and with one rank fewer than entries in every mode where
        that would explain all samples completely. It is cloned and fitted to the samples,
        unless it comes as ``FrozenEstimator(subspace)``: then it is taken as it is. It tells which
        samples may be usual, fills missing cells (and gross errors, if it looks for bad cells) and
        makes ``residual_map``; what is measured of a sample is measured of the sample itself,
        whatever the ranks. A sample of which half of the cells are gross errors is not filled in.
    contamination : {"auto"} or float, default="auto"
        Share of the samples to flag, in (0, 0.5]. ``"auto"`` flags what good samples hardly ever
        reach: see the notes.

    Attributes
    ----------
    offset_ : float
        The score below which a sample is an outlier; ``decision_function`` is
        ``score_samples`` less this. With ``"auto"`` at least -1.
    subspace_ : estimator
        The fitted subspace.
    profile_ : Profile or TableProfile
        What is usual among the samples, or among the rows of a table.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    CorrTensor : The robust subspace behind it.
    corrtensor.plot.outlier_map : Distances outside and inside the subspace.

    Notes
    -----
    Each part is counted in robust standard deviations above the median of the samples that count;
    what is above adds up in squares. A score of 1 is 2.9 times the upper quartile of those that
    serve as likes, and with ``"auto"`` what is above 1 is flagged, or the largest hundredth. In
    clean folders of faces, palms and digits that was at most 1.3 % of a folder of one kind; of 600
    handwritten ones, some with serifs and stray dots, 6.5 %. ``make outliers`` measures it, and
    what is found of eight kinds of damage. If the share of outliers is known, give it as
    ``contamination``.

    Of tables the score is a Mahalanobis distance, with as much added to the variances as makes rows
    that have taught nothing the likeliest; the limit is learned from these, so that about one good
    row in a hundred is beyond it, of new ones 1 to 3. Of tables with heavy tails it is more: of
    breast cancer, wine and diabetes 2 to 3 %, of the pixels of digits 4 to 6 %, of new ones up to
    11 %: give pictures as pictures, or ``CorrTensor(sample_shape=...)``.

    Where samples are of one kind, a quarter of them may be of another texture and is found; where
    they are of several kinds, so that likes tell what a sample is, each kind with a dozen members
    is usual.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.datasets import dummy_outliers, load_faces
    >>> from corrtensor.tasks import TensorOutlierDetector
    >>> faces = load_faces().images[:100]
    >>> X, is_outlier = dummy_outliers(faces, 20, rng=0)
    >>> detector = TensorOutlierDetector().fit(X)
    >>> flagged = detector.predict(X) == -1
    >>> bool(flagged[is_outlier].all()), bool(flagged[~is_outlier].mean() <= 0.05)
    (True, True)
    >>> detector.explain(X[-1:])[0][0]
    'noise-like'
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __init__(self, subspace: Any = None, *, contamination: str | float = "auto") -> None:
        self.subspace = subspace
        self.contamination = contamination

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the subspace, learn what is usual, and set the cut.

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
        with unchanged_on_error(self):
            self.subspace_ = self._fit_subspace(X)
            X = bare(X, self)
            name_features(self, self.subspace_)
            weights = sample_weights(self.subspace_, X, as_known=True)
            if isinstance(self.subspace_, FrozenEstimator):
                refuse_foreign(weights)
            whole = self._whole(X)
            shape = getattr(self.subspace_, "sample_shape_", None) or np.shape(whole)[1:]
            learn = fit_table if len(shape) == 1 else fit_profile
            self.profile_ = learn(self.subspace_, whole, weights)
            scores = -np.asarray(self.score_samples(X))
            if auto and isinstance(self.profile_, TableProfile):
                # That is settled: fewer of the rows that taught are beyond it.
                cut = 1.0
            elif isinstance(share, str):
                place = len(scores) - 1 - int(FALSE_ALARMS * len(scores))
                cut = min(1.0, np.partition(scores, place)[place] or 1.0)
            else:
                cut = np.percentile(scores[scores != OF_NOTHING], 100 * (1 - share))
            self.offset_ = -clear_of(scores, float(cut))
        return self

    def _fit_subspace(self, X: Any) -> Any:
        subspace = fit_subspace(self.subspace, X)
        if self.subspace is None and subspace.core_shape_ == subspace.sample_shape_:
            ranks = tuple(max(1, a - 1) for a in subspace.sample_shape_)
            return CorrTensor(ranks).fit(X)
        return subspace

    @by_chunks
    def score_samples(self, X: Any) -> np.ndarray:
        """Return minus how unlike the usual each sample is.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            The larger, the more normal; outliers begin about -1.
        """
        return -self.measure(X)["score"]

    def measure(self, X: Any) -> dict[str, np.ndarray]:
        """Return the parts of the score, and what else is measured of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        measured : dict of ndarray
            ``score``; in robust standard deviations above the usual ``texture``, ``likeness``,
            ``turn``, ``distance``, ``cover``, of which the score is made, and ``detail``,
            ``level``, ``contrast``; ``faint``, the logarithm of how much less contrast than usual
            there is; ``turned``, the likeness after each turn and of the negative, and ``righted``,
            how unlike the others it still is after the best of these; ``nearest``, the number
            of the most similar usual sample among those of the fit; and ``unseen``, whether all
            of its cells are missing: its score is 10 then. Of rows of a table ``score``,
            ``distance``, ``nearest`` and ``unseen``, and in standard deviations ``size``, how far
            off the farthest cell is by itself, and ``together``, from what the other columns tell;
            ``largest`` and ``apart`` are the names of these columns.
        """
        check_is_fitted(self)
        if hasattr(self.subspace_, "_check"):
            self.subspace_._check(X)
        X, step = bare(X), getattr(self.subspace_, "block_size", None)
        measured = self.profile_.measure(self._whole(X), step)
        if isinstance(self.profile_, TableProfile):
            names = getattr(self, "feature_names_in_", None)
            if names is None:
                names = [f"column {i}" for i in range(self.profile_.mean.size)]
            for name in ("largest", "apart"):
                measured[name] = np.asarray(names, dtype=str)[measured[name]]
        measured["unseen"] = unseen(self.subspace_, X, self.profile_.mean.shape, step)
        measured["score"] = np.where(measured["unseen"], OF_NOTHING, measured["score"])
        return measured

    @by_chunks
    def _whole(self, X: Any) -> Any:
        """Return samples as the subspace fills them in: their missing cells, and gross errors."""
        shape = getattr(self.subspace_, "sample_shape_", None)
        if shape is None:
            return X
        # A table goes to the subspace as it is, for it may know the names of the columns.
        return in_shape(
            filled(self.subspace_, X if hasattr(X, "iloc") else in_shape(X, shape)), shape
        )

    def explain(self, X: Any) -> list[tuple[str, ...]]:
        """Return for each sample the one or two ways in which it stands out, in words.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        words : list of tuple of str
            Such as ``("blurred",)``, of a row of a table ``("unusual size: column 7",)``; empty
            where nothing stands out, and for samples that are not even half as odd as an outlier.
        """
        return reasons(self.measure(X), -self.offset_)

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
            add up to its squared residual.
        """
        check_is_fitted(self)
        return np.square(differences(self.subspace_, X))


def unseen(subspace: Any, X: Any, shape: tuple[int, ...], block_size: int | None) -> np.ndarray:
    """Tell of each sample whether all of its cells are missing to a subspace."""
    value = getattr(subspace, "missing_values", np.nan)
    masked = np.ma.isMaskedArray(X)
    if np.isnan(value) and not masked and getattr(getattr(X, "dtype", None), "kind", "f") in "iub":
        return np.zeros(np.shape(X)[0], bool)
    blocks = blocks_of(X, shape, block_size, missing=True)
    rows = (torn(subspace, x).reshape(len(x), -1) for x in blocks)
    return np.concatenate([np.isnan(x).all(axis=1) for x in rows])


def clear_of(scores: np.ndarray, cut: float) -> float:
    """Return a cut on which no sample lies: rounding must not decide about the last one within.

    Where one does, the cut moves out a little, at most midway to the next sample.
    """
    within = scores[scores <= (1 + ON_THE_CUT) * cut]
    if not within.size or within.max() < (1 - ON_THE_CUT) * cut:
        return cut
    last = float(within.max())
    return min((1 + ON_THE_CUT) * last, (last + min(scores[scores > last], default=math.inf)) / 2)
