"""What a fit is made of: where it stands, how it is run, what it found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from corrtensor._engine.large_modes import basis
from corrtensor.losses import Loss

# How sweeps can end, in words.
STATUS = {
    "converged": "converged in {n} sweeps",
    "max_iter": "did not converge in max_iter={n} sweeps; raise max_iter or tol",
    "rose": "stopped after {n} sweeps because another would raise the objective; the loss "
    "is not a concave function of the squared residual, or too few samples count",
    "stopped": "was stopped by its callback after {n} sweeps",
}


@dataclass(frozen=True)
class State:
    """Where a sweep starts: a mean and one orthonormal factor per mode (``None``: not projected).

    What is already known of the samples comes along, ``None`` is what is not: their squared norms,
    their squared residuals here, and how much each counted when the factors were learned from the
    raw samples.
    ``spares`` are further directions of large modes (:mod:`corrtensor._engine.large_modes`);
    ``energies`` the mean squares of the cores along the directions of the mode that was learned
    last.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    norms: Any = None
    squares: Any = None
    spares: Mapping[int, np.ndarray] = field(default_factory=dict)
    taught: np.ndarray | None = None
    energies: Mapping[int, np.ndarray] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int | None, ...]:
        """The number of columns of each factor."""
        return tuple(None if U is None else U.shape[1] for U in self.factors)

    def basis(self, mode: int) -> np.ndarray | None:
        """Return the directions through which the scatter of a large mode is seen."""
        return basis(self.factors[mode], self.spares.get(mode))


@dataclass(frozen=True)
class Solution:
    """What the solver found, in the data's own units; ``state`` is in the source's.

    ``verdict`` is what was decided before on which samples count, ``prior`` how much each may,
    ``seen`` which of them show any cell.
    """

    mean: np.ndarray
    factors: tuple[np.ndarray | None, ...]
    weights: np.ndarray
    residuals: np.ndarray
    objective: np.ndarray
    n_iter: int
    status: str
    loss: Loss
    state: State
    verdict: Any = None
    prior: np.ndarray | None = None
    seen: np.ndarray | bool = True

    @property
    def converged(self) -> bool:
        """Whether the sweeps converged."""
        return self.status == "converged"


@dataclass(frozen=True)
class Snapshot:
    """A fit after a sweep: what is needed to watch it, or to go on from there.

    ``objective`` begins with its value at the start; ``residuals`` are in the data's units;
    ``finished`` tells that no sweep follows.
    """

    state: State
    loss: Loss
    objective: tuple[float, ...]
    residuals: np.ndarray
    finished: bool = False


@dataclass(frozen=True)
class Options:
    """How the sweeps are run; what they minimise is the loss.

    ``observe`` is called after every sweep and may end the fit by returning true; ``resume`` is
    where an earlier fit stood.
    """

    center: str | None = "weighted"
    coupled: bool = True
    max_iter: int = 100
    tol: float = 1e-6
    observe: Callable[[Snapshot], object] | None = None
    resume: Snapshot | None = None

    def brief(self, sweeps: int) -> Options:
        """Return these options for a few sweeps on the way, which nobody watches."""
        return replace(self, max_iter=sweeps, observe=None, resume=None)
