"""Published methods by name: each is a row of a table, not a class.

``docs/method.md``, section 1, has the same table in mathematics.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from corrtensor._base.checks import is_whole
from corrtensor._engine.containers import bare
from corrtensor._engine.shapes import count_axes
from corrtensor.baselines import L1TwoDPCA, TwoDNPP
from corrtensor.corr_tensor import CorrTensor
from corrtensor.losses import Power
from corrtensor.subspace import MultilinearSubspace

__all__ = ["METHODS", "Method", "make", "path"]


@dataclass(frozen=True)
class Method:
    """A published method: which estimator, with which settings, kept read-only.

    Of one-sided methods only the last mode is projected, and ``ranks`` is one value.
    """

    summary: str
    estimator: Callable[..., Any] = MultilinearSubspace
    settings: Mapping[str, Any] = field(default_factory=dict)
    one_sided: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))


R1 = {"loss": Power(p=1.0), "center": "plain"}

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "PCA": Method("principal components of vectors", settings={"order": 1, "coupled": False}),
        "2DPCA": Method(
            "columns projected, rows not projected (Yang et al. 2004)",
            settings={"order": 2, "coupled": False},
            one_sided=True,
        ),
        "L1-2DPCA": Method("greedy L1 directions (Li et al. 2010)", L1TwoDPCA, one_sided=True),
        "2DSVD": Method(
            "both sides from the raw data (Ding and Ye 2005)",
            settings={"order": 2, "coupled": False},
        ),
        "GLRAM": Method(
            "both sides, coupled, no mean (Ye 2005)", settings={"order": 2, "center": None}
        ),
        "MPCA": Method("all modes, coupled: Tucker of centred samples (Lu et al. 2008)"),
        "R1-2DSVD": Method(
            "norm of the residual (Huang and Ding 2008)", settings={"order": 2, **R1}
        ),
        "R1-Tensor": Method("the same for any order (Huang and Ding 2008)", settings=R1),
        "N-2DNPP": Method(
            "neighbours kept, nuclear norm (Zhang et al. 2017)",
            TwoDNPP,
            {"norm": "nuclear"},
            one_sided=True,
        ),
        "S-2DNPP": Method(
            "neighbours kept, L2,1 norm (Zhang et al. 2017)",
            TwoDNPP,
            {"norm": "l21"},
            one_sided=True,
        ),
        "Corr-2DSVD": Method("generalised correntropy of matrices", CorrTensor, {"order": 2}),
        "Corr-Tensor": Method("generalised correntropy, any order", CorrTensor),
    }
)


def make(name: str, ranks: Any = 0.95, **params: Any) -> Any:
    """Build a published method by its name.

    Parameters
    ----------
    name : str
        A name in ``METHODS``; capitals do not matter.
    ranks : int, float, "auto", None or tuple of these, default=0.95
        As in :class:`CorrTensor`. For a one-sided method (2DPCA and its kin), one value for
        the columns, or a tuple that starts with ``None``; it must not be ``None`` itself, which
        would project no mode.
    **params : dict
        Further arguments of the estimator.

    Returns
    -------
    estimator : object
        Unfitted.

    Examples
    --------
    >>> import corrtensor as ct
    >>> ct.make("R1-2DSVD", ranks=(4, 3))
    MultilinearSubspace(center='plain', loss=Power(p=1.0), order=2, ranks=(4, 3))
    >>> ct.make("2DPCA", ranks=3).ranks
    (None, 3)
    """
    method = _row(name)
    if method.one_sided:
        ranks = _one_sided(name, ranks)
        if method.estimator is not MultilinearSubspace:
            return method.estimator(ranks[1], **{**method.settings, **params})
    return method.estimator(ranks, **{**method.settings, **params})


def path(
    X: Any,
    ranks: Iterable[Any],
    name: str = "Corr-Tensor",
    *,
    sample_weight: ArrayLike | None = None,
    **params: Any,
) -> list[Any]:
    """Fit a method at several ranks, for less than the fits one by one would take.

    What does not depend on the ranks is done once: the samples are prepared, outliers looked for,
    scatters of the raw samples added up. The sweeps begin where they would without that, so
    every model is the one that ``make(name, k, **params).fit(X)`` gives.

    Parameters
    ----------
    X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
        Samples, as in :meth:`CorrTensor.fit`. Where cells are missing, or in doubt, nothing is
        shared.
    ranks : iterable
        The ranks of each fit, each as in :class:`CorrTensor`.
    name : str, default="Corr-Tensor"
        A name in ``METHODS``.
    sample_weight : array-like of shape (n_samples,), default=None
        How often each sample counts.
    **params : dict
        Further arguments of the estimators.

    Returns
    -------
    models : list
        The fitted estimators, in the order of the ranks.

    Examples
    --------
    >>> import corrtensor as ct
    >>> X = ct.datasets.load_digits().images[:200]
    >>> models = ct.path(X, [(2, 2), (4, 4), (6, 6)])
    >>> [round(float(model.explained_variance_ratio_.sum()), 2) for model in models]
    [0.38, 0.78, 0.95]
    """
    if isinstance(ranks, str | int | float) or not isinstance(ranks, Iterable):
        raise TypeError(
            f"ranks={ranks!r} must be a list with the ranks of each fit, as [{ranks!r}]"
        )
    if params.get("checkpoint") is not None:
        raise ValueError(
            "checkpoint: fits at several ranks cannot share a file; fit them one by one"
        )
    if isinstance(ranks, tuple) and not _row(name).one_sided:
        shape = params.get("sample_shape")
        _refuse_one_entry(ranks, count_axes(bare(X)) - 1 if shape is None else np.size(shape))
    given = {} if sample_weight is None else {"sample_weight": sample_weight}
    memory: dict[Any, Any] = {}
    models = []
    try:
        for k in ranks:
            model = make(name, k, **params)
            model._memory = memory
            models.append(model.fit(X, **given))
            del model._memory
    finally:
        # The samples are kept by it, and it by what they are read from.
        memory.clear()
    return models


def _row(name: str) -> Method:
    names = {known.lower(): known for known in METHODS}
    if not isinstance(name, str) or name.lower() not in names:
        raise ValueError(f"name={name!r}: no such method; there are {', '.join(METHODS)}")
    return METHODS[names[name.lower()]]


def _refuse_one_entry(ranks: tuple[Any, ...], n_modes: int) -> None:
    """Raise a ``ValueError`` if what should be a list of ranks looks like those of one fit."""
    if len(ranks) == n_modes > 1 and all(is_whole(k) for k in ranks):
        raise ValueError(
            f"ranks={ranks!r} are those of one fit to samples of {n_modes} modes: "
            f"write [{ranks!r}] for one fit, {list(ranks)!r} for {n_modes}"
        )


def _one_sided(name: str, ranks: Any) -> tuple[None, Any]:
    if isinstance(ranks, np.ndarray):
        ranks = ranks.tolist()
    if not isinstance(ranks, tuple | list):
        return (None, ranks)
    if len(ranks) == 2 and ranks[0] is None:
        return (None, ranks[1])
    raise ValueError(
        f"{name} projects columns only: ranks={ranks!r} must be one value or (None, k)"
    )
