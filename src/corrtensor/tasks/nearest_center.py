"""The nearest centre in a subspace, by generalised correntropy (Algorithm 2 of the paper)."""

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from corrtensor._base.checks import require_positive
from corrtensor._base.warn import warn
from corrtensor.corr_tensor import CorrTensor
from corrtensor.tasks._classifier import ScoringClassifier, fit_temperature
from corrtensor.tasks._subspace import (
    cores_of,
    fit_subspace,
    in_memory,
    name_features,
    read_floats,
    sample_weights,
    weighted_median,
)

# Powers beyond this are all the same to a kernel; cut, they stay comparable numbers.
LARGEST_POWER = 1e300


class CorrentropyCenterClassifier(ScoringClassifier):
    """Nearest class centre among the cores of a subspace (the paper's Algorithm 2).

    The centre of a class is the mean of its cores, weighted by the weights that the samples
    have in the subspace: an outlier moves neither the subspace nor a centre. A sample goes to
    the class whose centre it is most similar to.

    Parameters
    ----------
    subspace : estimator, default=None
        Where centres are taken; ``None`` is ``CorrTensor()`` with a ``breakdown`` of half the share
        of the smallest class. It is cloned and fitted to the samples, unless it comes as
        ``FrozenEstimator(subspace)``: then it is taken as it is.
        One without weights (2DPCA, L1-2DPCA, ...) gives every sample the weight one.
    kernel : {"frobenius", "entries"}, default="frobenius"
        How eq. (30) is read, with d = core - centre and a width b:
        ``exp(-(|d|/b)**alpha)`` of the Frobenius norm, which is the plain nearest centre; or
        the sum over the entries of the core of ``exp(-(|d_jk|/b)**alpha)``, in which a few
        entries far off cost no more than a few entries.
    alpha : float, default=2.0
        Power in the kernel. Under the root that eq. (30) prints, the paper's alpha is twice
        this one: its Table I is reproduced with ``alpha / 2``.
    beta : float, default=8.0
        Width b in units of ``scale``. It matters to ``"entries"`` alone; the larger, the
        nearer to the plain nearest centre at ``alpha=2``.
    scale : {"median"}, float or None, default="median"
        Unit of ``beta``: the median distance of the samples from the centre of their class
        (for ``"entries"`` over the root of the number of entries, hence per entry), a
        number, or ``None`` for the cores' own units.
    weighted : bool, default=True
        Whether the samples' weights enter the centres. The paper takes plain means for all
        methods but its own.
    normalize : bool, default=False
        Whether every sample is first scaled to norm one (a sample of zeros stays). A frozen
        subspace should have seen its samples scaled, too.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    centers_ : ndarray of shape (n_classes, k_1, ..., k_d)
        Centres of the classes; flat if X was.
    weights_ : ndarray of shape (n_samples,)
        Weights of the samples, the largest 1.
    subspace_ : estimator
        The fitted subspace.
    width_ : float
        Width of the kernel in the cores' units.
    temperature_ : float
        What the scores are multiplied by under the softmax of ``predict_proba``: the best for
        the training samples, each held against a centre that it is left out of.
    n_features_in_ : int
        Entries of a sample.

    See Also
    --------
    SubspaceClassifier : One robust subspace for each class.

    Notes
    -----
    ``decision_function`` gives the logarithm of the similarity, which does not underflow. If all
    samples of a class have the weight zero, its centre is their plain mean, with a warning.

    Examples
    --------
    >>> from corrtensor import CorrTensor
    >>> from corrtensor.datasets import load_digits
    >>> from corrtensor.tasks import CorrentropyCenterClassifier
    >>> digits = load_digits()
    >>> X, y = digits.images.copy(), digits.target
    >>> X[:100] *= 50
    >>> model = CorrentropyCenterClassifier(CorrTensor((6, 6))).fit(X[:1000], y[:1000])
    >>> bool(model.score(X[1000:], y[1000:]) > 0.85)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def __init__(
        self,
        subspace: Any = None,
        *,
        kernel: str = "frobenius",
        alpha: float = 2.0,
        beta: float = 8.0,
        scale: str | float | None = "median",
        weighted: bool = True,
        normalize: bool = False,
    ) -> None:
        self.subspace = subspace
        self.kernel = kernel
        self.alpha = alpha
        self.beta = beta
        self.scale = scale
        self.weighted = weighted
        self.normalize = normalize

    def _fit(self, X: Any, codes: np.ndarray) -> None:
        X = self._scaled(X, reset=True)
        # A class is no group of outliers: what may be one is smaller than half of the smallest.
        least = float(np.bincount(codes).min() / len(codes) / 2)
        own = CorrTensor(breakdown=min(0.5, least)) if self.subspace is None else self.subspace
        self.subspace_ = fit_subspace(own, X)
        if not self.normalize:
            name_features(self, self.subspace_)
        cores = cores_of(self.subspace_, X)
        flat = cores.reshape(len(cores), -1)
        weights = sample_weights(self.subspace_, X) if self.weighted else None
        self.weights_ = np.ones(len(flat)) if weights is None else weights
        centers, shares = self._centers(flat, codes)
        self.centers_ = centers.reshape(-1, *cores.shape[1:])
        own = np.linalg.norm(flat - centers[codes], axis=1)
        self.width_ = self._width(own, flat.shape[1])
        scores = self._similarities(flat, (codes, shares))
        self.temperature_ = fit_temperature(scores, codes, self.weights_)

    def _check_parameters(self) -> None:
        if self.kernel not in ("frobenius", "entries"):
            raise ValueError(f"kernel={self.kernel!r}: use 'frobenius' or 'entries'")
        require_positive(alpha=self.alpha, beta=self.beta)
        if isinstance(self.scale, str):
            if self.scale != "median":
                raise ValueError(f"scale={self.scale!r}: use 'median', None or a positive number")
        elif self.scale is not None:
            require_positive(scale=self.scale)

    def _scaled(self, X: Any, *, reset: bool = False) -> Any:
        if not self.normalize:
            return X
        # The subspace gets no table, so what a table says is kept, and checked, here.
        X = read_floats(self, in_memory(self, X), reset=reset)
        norms = np.linalg.norm(X.reshape(len(X), -1), axis=1)
        return X / np.where(norms > 0, norms, 1).reshape(-1, *[1] * (X.ndim - 1)).astype(X.dtype)

    def _centers(self, flat: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the centres and the share that each sample has in its own."""
        centers = np.empty((len(self.classes_), flat.shape[1]))
        shares = np.empty(len(flat))
        for c, label in enumerate(self.classes_.tolist()):
            members = np.flatnonzero(codes == c)
            w = self.weights_[members]
            if not w.any():
                warn(
                    f"all samples of class {label!r} have weight zero: the subspace explains "
                    "none of them; its centre is their plain mean",
                )
                w = np.ones(len(members))
            shares[members] = w / w.sum()
            centers[c] = shares[members] @ flat[members]
        return centers, shares

    def _width(self, own: np.ndarray, n_entries: int) -> float:
        if not isinstance(self.scale, str):
            return float(self.beta * (1.0 if self.scale is None else self.scale))
        unit = weighted_median(own, self.weights_) or float(own.mean()) or 1.0
        return float(self.beta * unit / (math.sqrt(n_entries) if self.kernel == "entries" else 1))

    def _scores(self, X: Any) -> np.ndarray:
        cores = cores_of(self.subspace_, self._scaled(X))
        return self._similarities(cores.reshape(len(cores), -1))

    def _similarities(
        self, flat: np.ndarray, left_out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> np.ndarray:
        """Return the logarithm of the similarity of cores to every centre.

        ``left_out`` holds the class of each core and its share in that centre: it is then
        compared with the centre of the others.
        """
        scores = np.empty((len(flat), len(self.classes_)))
        for c, center in enumerate(self.centers_.reshape(len(self.classes_), -1)):
            d = flat - center
            if left_out is not None:
                members = left_out[0] == c
                # A sample alone in its class has no others: half of its share stays.
                d[members] /= np.maximum(1 - left_out[1][members, None], 0.5)
            scores[:, c] = self._log_kernel(d)
        return scores

    def _log_kernel(self, d: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            if self.kernel == "frobenius":
                power = (np.linalg.norm(d, axis=1) / self.width_) ** self.alpha
                return -np.minimum(power, LARGEST_POWER)
            power = np.minimum((np.abs(d) / self.width_) ** self.alpha, LARGEST_POWER)
        return logsumexp(-power, axis=1)
