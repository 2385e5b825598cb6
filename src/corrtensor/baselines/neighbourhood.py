"""N-2DNPP and S-2DNPP: projections in which each sample still follows from its neighbours.

The mathematics, and why no step raises the objective, is in ``docs/method.md``.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import polar
from sklearn.neighbors import NearestNeighbors

from corrtensor._base.checks import require_count, require_not_negative, require_positive
from corrtensor.baselines.one_sided import OneSided

# The usual ridge of locally linear embedding, as a share of the trace of the local Gram matrix.
RIDGE = 1e-3
# Variance below this share of the largest counts as none.
RANGE = 1e-8

# At R: the matrix H of the reweighted problem, and the smoothed objective.
Objective = Callable[[np.ndarray], tuple[np.ndarray, float]]


class TwoDNPP(OneSided):
    """N-2DNPP and S-2DNPP of Zhang, Li, Zhao, Zhang and Yan (2017), re-derived.

    Writes each centred sample as a combination of its nearest neighbours, with the error
    ``E_i = X_i - sum_j w_ij X_j``, and minimises ``sum_i |E_i P| + g |P|`` subject to
    ``P' (sum_i X_i' X_i) P = I``, in the nuclear norm (N-2DNPP) or in the L2,1 norm, the sum of
    the lengths of the rows (S-2DNPP). Solved by reweighting: each step takes the smallest
    generalised eigenvectors of ``sum_i E_i' V_i E_i + g U``.

    Parameters
    ----------
    rank : int, float or "auto", default=1
        Columns of the projection, at most the number b of those of a sample; or a share of the
        columns' energy in (0, 1), or ``"auto"`` for the elbow of their spectrum: as many as
        2DPCA then takes.
    norm : {"nuclear", "l21"}, default="nuclear"
        ``"nuclear"`` is N-2DNPP, ``"l21"`` is S-2DNPP.
    n_neighbors : int, default=5
        Neighbours of a sample, by Frobenius distance; all the others if there are fewer.
    gamma : float, default=0.1
        Weight of ``|P|``, free of units: ``g = gamma * n_samples * scale_``. At 1, ``|P|`` weighs
        about as much as the errors of samples that their neighbours do not explain at all.
    eps : float, default=0.1
        Smoothing of the norms, relative to the typical squared singular value (row length) of
        ``E_i P``, and of P, at the start. Smaller comes closer to the norm and converges slower.
    sample_shape : tuple of int, optional
        Shape (a, b) of one sample when they come flattened; one entry may be -1.
    sample_dim : str, default=None
        The dim of an ``xarray.DataArray`` that counts the samples; ``None`` is the first.
    output : {"auto", "tensor", "flat"}, default="auto"
        How :meth:`transform` gives the cores: as tensors, as rows of features, or as what follows
        is likely to need (:term:`output`).
    max_iter : int, default=200
        Largest number of reweightings.
    tol : float, default=5e-3
        Stop when the optimality condition ``M P = B P L`` holds up to this relative error.

    Attributes
    ----------
    rank_ : int
        Number of columns that are kept.
    mean_ : ndarray of shape (a, b)
        Plain mean of the samples.
    factors_ : tuple (None, ndarray of shape (b, rank))
        The rows are left alone; the columns are projected by Q, an orthonormal basis of the span
        of P along the samples' principal axes in it. If the samples span fewer than ``rank``
        directions, an orthonormal basis of the rest fills up Q.
    projection_ : ndarray of shape (b, <= rank)
        P itself, its columns in the order of their eigenvalues.
    neighbors_, neighbor_weights_ : ndarray of shape (n_samples, n_neighbors)
        The neighbours of each sample and their weights, which sum to one.
    scale_ : float
        Root of the mean energy of a sample per column, ``sqrt(mean_i |X_i|^2 / b)``.
    eps_ : tuple of two floats
        The smoothing of ``E_i P`` and of P in the units of ``objective_``.
    objective_ : ndarray
        The smoothed objective at the start and after each step, divided by
        ``sqrt(n_samples)``: ``mean_i phi(E_i P) + gamma phi(P)`` with the samples divided by
        ``scale_`` and ``P' (mean_i X_i' X_i) P = I``.
    n_iter_ : int
        Number of reweightings.
    converged_ : bool
        Whether the optimality condition holds at the end, or no step lowers the objective more.

    See Also
    --------
    corrtensor.make : The published methods by name.

    Notes
    -----
    *Re-derived*: the original text was not at hand. Uncertain are whether the samples are centred
    (here they are: the E_i do not change, the constraint does, and the answer no longer depends
    on a constant image added to all samples), the sizes of g and of the smoothing, the start
    (here the solution in the Frobenius norm), and how the original reconstructs. Features are
    ``(X - mean_) Q`` rather than ``X P``, so that they can be turned back into samples.

    Where ``sum_i X_i' X_i`` is singular, P is sought in its range (variance above 1e-8 of the
    largest): outside it every error is zero and the constraint cannot hold.

    References
    ----------
    Z. Zhang, F. Li, M. Zhao, L. Zhang, S. Yan, "Robust Neighborhood Preserving Projection by
    Nuclear/L2,1-Norm Regularization for Image Feature Extraction", IEEE Trans. Image Processing
    26(4), 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from corrtensor.baselines import TwoDNPP
    >>> X = np.random.default_rng(0).normal(size=(30, 6, 5))
    >>> model = TwoDNPP(rank=2, norm="l21").fit(X)
    >>> model.transform(X).shape
    (30, 6, 2)
    >>> bool(np.all(np.diff(model.objective_) <= 0))
    True
    """

    def __init__(
        self,
        rank: int | float | str = 1,
        *,
        norm: str = "nuclear",
        n_neighbors: int = 5,
        gamma: float = 0.1,
        eps: float = 0.1,
        sample_shape: tuple[int, ...] | None = None,
        sample_dim: str | None = None,
        output: str = "auto",
        max_iter: int = 200,
        tol: float = 5e-3,
    ) -> None:
        self.rank = rank
        self.norm = norm
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.eps = eps
        self.sample_shape = sample_shape
        self.sample_dim = sample_dim
        self.output = output
        self.max_iter = max_iter
        self.tol = tol

    def _fit(self, X: np.ndarray) -> bool:
        """Learn the projection and tell whether it is optimal."""
        mean = X.mean(axis=0)
        X = X - mean
        N, _, b = X.shape
        peak = abs(X).max() or 1.0
        X /= peak
        unit = np.sqrt((X**2).sum() / (N * b)) or 1.0
        X /= unit
        self.scale_ = float(peak * unit)
        m = min(self.n_neighbors, N - 1)
        self.neighbors_, self.neighbor_weights_, E = neighbour_errors(X, m)
        B = np.tensordot(X, X, axes=((0, 1), (0, 1))) / N
        T = whitening(B)
        R, converged = self._minimise(E @ T, T)
        P = T @ R
        self.projection_ = P / (self.scale_ * np.sqrt(N))
        Q = np.linalg.qr(P)[0]
        self._keep(mean, Q @ np.linalg.eigh(Q.T @ B @ Q)[1][:, ::-1])
        return converged

    def _check_parameters(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"norm={self.norm!r}: must be one of {sorted(NORMS)}")
        require_count(n_neighbors=self.n_neighbors, max_iter=self.max_iter)
        require_not_negative(gamma=self.gamma, tol=self.tol)
        require_positive(eps=self.eps)

    def _minimise(self, F: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, bool]:
        """Return the R that makes ``P = T R`` best, and whether it is optimal; F_i = E_i T."""
        N, a, r = F.shape
        G = F.reshape(N * a, r)
        R = np.linalg.eigh(G.T @ G / N + self.gamma * (T.T @ T))[1][:, : min(self.rank_, r)]
        eps_E = self.eps * typical_square(F @ R, self.norm)
        eps_P = self.eps * typical_square((T @ R)[None], self.norm)
        self.eps_ = (eps_E, eps_P)
        errors, penalty = NORMS[self.norm](F, eps_E), NORMS[self.norm](T[None], eps_P)

        def at(R: np.ndarray) -> tuple[np.ndarray, float]:
            (H, f), (K, g) = errors(R), penalty(R)
            return H / N + self.gamma * K, f / N + self.gamma * g

        R, values, converged = descend(at, R, self.max_iter, self.tol)
        self.objective_, self.n_iter_ = np.array(values), len(values)
        return R, converged


def neighbour_errors(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the m nearest samples of each sample, their weights, and the errors E_i."""
    A = X.reshape(len(X), -1)
    nearest = NearestNeighbors(n_neighbors=m).fit(A).kneighbors(return_distance=False)
    weights, E = np.empty((len(A), m)), np.empty_like(A)
    for i, near in enumerate(nearest):
        D = A[i] - A[near]
        G = D @ D.T
        # Neighbours that equal the sample leave nothing to solve: they share alike.
        G[np.diag_indices(m)] += RIDGE * np.trace(G) or 1.0
        w = np.linalg.solve(G, np.ones(m))
        weights[i] = w / w.sum()
        E[i] = weights[i] @ D
    return nearest, weights, E.reshape(X.shape)


def whitening(B: np.ndarray) -> np.ndarray:
    """Return T with ``T' B T = I``, its columns a basis of the range of B."""
    size, Z = np.linalg.eigh(B)
    kept = size > RANGE * size[-1]
    return Z[:, kept] / np.sqrt(size[kept])


def typical_square(M: np.ndarray, norm: str) -> float:
    """Return the mean squared singular value, or row length, of the median matrix."""
    parts = min(M.shape[1:]) if norm == "nuclear" else M.shape[1]
    energy = (M**2).sum(axis=(1, 2)) / max(parts, 1)
    return float(np.median(energy) or energy.mean() or 1.0)


def smooth_nuclear(F: np.ndarray, eps: float) -> Objective:
    """Sum of the nuclear norms of M_i = F_i R: ``sum tr W_i^(1/2)``, ``W_i = M_i M_i' + eps I``.

    The matrix is ``sum F_i' V_i F_i`` with ``V_i = W_i^(-1/2)``.
    """
    N, a, r = F.shape
    G = F.reshape(N * a, r)
    FF = G.T @ G

    def at(R: np.ndarray) -> tuple[np.ndarray, float]:
        M = (G @ R).reshape(N, a, R.shape[1])
        if M.shape[2] <= a:
            s, C = np.linalg.eigh(M.mT @ M)
            L = M @ C
        else:
            s, L = np.linalg.eigh(M @ M.mT)
            L = L * np.sqrt(np.maximum(s, 0.0))[:, None]
        s = np.maximum(s, 0.0) + eps
        # As L_i L_i' = M_i M_i': V_i = (I - L_i diag(1 / (s + sqrt(eps s))) L_i') / sqrt(eps).
        Y = (F.mT @ L) / np.sqrt(s + np.sqrt(eps * s))[:, None]
        Y = Y.transpose(1, 0, 2).reshape(r, s.size)
        value = np.sqrt(s).sum() + N * (a - s.shape[1]) * np.sqrt(eps)
        return (FF - Y @ Y.T) / np.sqrt(eps), float(value)

    return at


def smooth_l21(F: np.ndarray, eps: float) -> Objective:
    """Sum of the lengths of the rows m of the M_i = F_i R: ``sum sqrt(|m|^2 + eps)``.

    The matrix is ``sum F_i' V_i F_i`` with one over these lengths on the diagonals of the V_i.
    """
    G = F.reshape(F.shape[0] * F.shape[1], F.shape[2])

    def at(R: np.ndarray) -> tuple[np.ndarray, float]:
        length = np.sqrt(((G @ R) ** 2).sum(axis=1) + eps)
        Y = G / np.sqrt(length)[:, None]
        return Y.T @ Y, float(length.sum())

    return at


NORMS = {"nuclear": smooth_nuclear, "l21": smooth_l21}


def descend(
    at: Objective, R: np.ndarray, max_iter: int, tol: float
) -> tuple[np.ndarray, list[float], bool]:
    """Lower the objective from R by reweighting; return the end, the values, if it is optimal.

    Plain steps are short where ``eps`` is small, so each is drawn out in the direction of the
    last two (momentum), and taken plainly when that does not pay.
    """
    k = R.shape[1]
    H, value = at(R)
    values, last, run, optimal = [value], R, 0, False
    while True:
        size, vectors = np.linalg.eigh(H)
        HR = H @ R
        C = R.T @ HR
        off = np.linalg.norm(HR - R @ C)
        optimal = off <= tol * np.linalg.norm(HR) and np.trace(C) <= (1 + tol) * size[:k].sum()
        if optimal or len(values) == max_iter:
            break
        step = align(vectors[:, :k], R)
        ahead = np.linalg.qr(step + run / (run + 3) * (step - align(last, step)))[0]
        H_new, value_new = at(ahead)
        run += 1
        if value_new > value:
            ahead, run = step, 0
            H_new, value_new = at(ahead)
        if value_new >= value:  # only rounding is left
            optimal = True
            break
        R, last, H, value = ahead, step, H_new, value_new
        values.append(value)
    # The objective does not see a rotation of P; eigenvectors are the natural choice.
    return R @ np.linalg.eigh(R.T @ H @ R)[1], values, bool(optimal)


def align(R: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Rotate the columns of R, within their span, as near to ``target`` as they go."""
    return R @ polar(R.T @ target)[0]
