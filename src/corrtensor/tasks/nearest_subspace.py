"""The nearest subspace: one robust subspace per class, the smallest residual wins."""

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from corrtensor.corr_tensor import CorrTensor
from corrtensor.tasks._classifier import ScoringClassifier, fit_temperature
from corrtensor.tasks._subspace import read_samples, sample_weights, squared_residuals, unfitted

# Share of the energy of a class that its default subspace keeps.
DEFAULT_SHARE = 0.75


class SubspaceClassifier(ScoringClassifier):
    """One robust subspace for each class; a sample goes to the one it is nearest to.

    Outliers among the samples of a class do not bend its subspace. Beyond the paper.

    Parameters
    ----------
    subspace : estimator, default=None
        Cloned and fitted to each class; ``None`` is ``CorrTensor(0.75)``.
    flatten : bool, default=True
        Whether samples are taken as vectors. A subspace of vectors knows which entries go
        together and tells classes apart better than one of matrices of any ranks; it costs
        more. A ``subspace`` with ranks for several modes needs ``flatten=False``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    subspaces_ : list of estimators
        The fitted subspace of each class.
    temperature_ : float
        What the scores are multiplied by under the softmax of ``predict_proba``: the best for
        the training samples. Probabilities are overconfident when a class has few samples,
        since these lie nearer to their own subspace than new ones will.
    sample_shape_ : tuple of int
        Shape of a sample.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    CorrentropyCenterClassifier : The paper's classifier, by centres of classes.

    Notes
    -----
    ``decision_function`` gives minus the distances. A class needs as many samples as
    ``subspace`` does: two, for a ``CorrTensor``.

    Examples
    --------
    >>> from corrtensor.datasets import load_digits
    >>> from corrtensor.tasks import SubspaceClassifier
    >>> digits = load_digits()
    >>> X, y = digits.images.copy(), digits.target
    >>> X[:100] *= 50
    >>> model = SubspaceClassifier().fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.92)
    True
    """

    def __init__(self, subspace: Any = None, *, flatten: bool = True) -> None:
        self.subspace = subspace
        self.flatten = flatten

    def _check_parameters(self) -> None:
        if isinstance(self.subspace, FrozenEstimator):
            raise ValueError(
                f"subspace={self.subspace!r} is frozen; a subspace must be fitted to each class"
            )

    def _fit(self, X: Any, codes: np.ndarray) -> None:
        X = self._read(X, reset=True)
        self.subspaces_ = [self._fit_class(X[codes == c], c) for c in range(len(self.classes_))]
        weights = np.ones(len(X))
        for c, subspace in enumerate(self.subspaces_):
            w = sample_weights(subspace, X[codes == c])
            weights[codes == c] = 1.0 if w is None else w
        self.temperature_ = fit_temperature(-self._distances(X), codes, weights)

    def _fit_class(self, X: np.ndarray, c: int) -> Any:
        subspace = unfitted(self.subspace, CorrTensor(DEFAULT_SHARE))
        try:
            return subspace.fit(X)
        except ValueError as error:
            flat = self.flatten and len(self.sample_shape_) > 1
            hint = f"; flatten=False leaves them their shape, {self.sample_shape_}" if flat else ""
            raise ValueError(
                f"no subspace for class {self.classes_.tolist()[c]!r} "
                f"with its {len(X)} sample{'' if len(X) == 1 else 's'}: {error}{hint}"
            ) from error

    def _read(self, X: Any, *, reset: bool = False) -> np.ndarray:
        """Check X and return it the way the subspaces take it."""
        X = read_samples(self, X, reset=reset)
        return X.reshape(len(X), -1) if self.flatten else X

    def _distances(self, X: np.ndarray) -> np.ndarray:
        return np.sqrt(np.stack([squared_residuals(S, X) for S in self.subspaces_], axis=1))

    def _scores(self, X: Any) -> np.ndarray:
        return -self._distances(self._read(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for 83 % on round blobs in the plane, where every line through one
        # class runs on through others.
        tags.classifier_tags.poor_score = True
        tags.input_tags.allow_nan = True
        return tags
