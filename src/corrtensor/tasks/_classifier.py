"""From scores of classes to labels and probabilities."""

from typing import Any, Self

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.containers import bare
from corrtensor._engine.transformer import unchanged_on_error

# Powers of e between which the temperature is looked for.
LOG_TEMPERATURES = (-12.0, 12.0)


class ScoringClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with one score per class: the largest wins.

    A subclass has ``_check_parameters()``, ``_fit(X, codes)``, which sets ``temperature_``, and
    ``_scores(X)``.
    """

    classes_: np.ndarray
    temperature_: float
    _check_parameters: Any
    _fit: Any
    _scores: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        with unchanged_on_error(self):
            self._check_parameters()
            X = bare(X, self, "fit")
            self._fit(X, self._encode(X, y))
        return self

    def _encode(self, X: Any, y: Any) -> np.ndarray:
        """Check the labels, set ``classes_``, and return each sample's place in it."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        labels = column_or_1d(y, warn=True)
        if labels.dtype.kind == "f":
            assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if hasattr(X, "shape") or hasattr(X, "__len__"):
            check_consistent_length(X, labels)
        if len(labels) == 0:
            raise ValueError(f"{type(self).__name__} was given no samples: y is empty")
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes; "
                f"y has only one class, {self.classes_.tolist()[0]!r}"
            )
        return codes

    @by_chunks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the score of each class.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            The largest wins; for two classes, the second's less the first's.
        """
        check_is_fitted(self)
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @by_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the largest score.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Entries of ``classes_``.
        """
        check_is_fitted(self)
        return self.classes_[self._scores(X).argmax(axis=1)]

    @by_chunks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return a probability for each class: the softmax of the scores times ``temperature_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Samples.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows add up to one; their order is that of the scores.
        """
        check_is_fitted(self)
        return softmax(self.temperature_ * self._scores(X), axis=1)


def fit_temperature(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    """Return the factor under which the softmax of the scores predicts the labels best.

    The weighted logarithmic loss is minimised. Labels are believed a little less than fully
    (Platt's rule), so that classes which the scores separate perfectly leave it finite.
    """
    scores = scores - scores.mean(axis=1, keepdims=True)
    unit = float(np.sqrt(np.average(np.square(scores).mean(axis=1), weights=weights)))
    if not 0 < unit < np.inf:
        return 1.0
    scores = scores / unit
    doubt = 1 / (weights.sum() / weights.max() + 2)
    own = scores[np.arange(len(scores)), codes]

    def loss(log_t: float) -> float:
        t = np.exp(log_t)
        # log p_own = t own - log sum exp(t scores); the mean of the scores is zero
        log_own = log_softmax(t * scores, axis=1)[np.arange(len(scores)), codes]
        return float(weights @ (doubt * t * own - log_own))

    best = minimize_scalar(loss, bounds=LOG_TEMPERATURES, method="bounded")
    return float(np.exp(best.x) / unit)
