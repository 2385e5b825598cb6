"""What completed samples hide: they vary less than whole ones, by what none of their cells tells.

Added to scatters and residuals of completed samples, it makes them those that are to be expected
of whole ones (``docs/method.md``, section 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corrtensor._engine.passes import Part, ResidualPass, SweepPass
from corrtensor._engine.products import Factors, project, row_squares


@dataclass(frozen=True, eq=False)
class Hidden:
    """What a missing cell hides: the square ``each``, alike in all directions.

    Or, if it is much, the scatter of ``rows``: errors of what was foretold in gaps.
    """

    each: float
    rows: np.ndarray | None = None

    def astype(self, dtype: np.dtype) -> Hidden:
        """Return it in the type of the blocks."""
        return self if self.rows is None else replace(self, rows=self.rows.astype(dtype))

    def unexplained(self, factors: Factors | None) -> float:
        """Return how much of it factors do not explain; without them, all that scatters hold."""
        if self.rows is None:
            # Alike in all directions, it prefers none: scatters do without.
            shapes = [U.shape for U in factors or () if U is not None]
            return self.each * (1 - math.prod(k / a for a, k in shapes))
        squares = row_squares(self.rows)
        if factors is not None:
            U = [None if V is None else V.astype(self.rows.dtype) for V in factors]
            squares -= row_squares(project(self.rows, U))
        return float(squares.sum())


@dataclass(frozen=True, eq=False)
class Unseen:
    """What completed samples do not show: what their missing cells hide, and doubted ones cost.

    ``gaps`` are the numbers of missing cells of each sample, ``cost`` is that of its doubted ones.
    """

    hidden: Hidden
    gaps: np.ndarray
    cost: np.ndarray

    def beside(self, factors: Factors | None) -> np.ndarray:
        """Return by how much the squared residuals of whole samples are expected to be larger.

        Without factors, their squared norms.
        """
        return self.hidden.unexplained(factors) * self.gaps

    def reduce(self, run: Callable[..., Part], task: Any, **per_sample: Any) -> Part:
        """Run a pass, and make its residuals and scatters those of whole samples."""
        known = per_sample.keys() & {"weights", "squares"}
        if isinstance(task, ResidualPass | SweepPass) and not known:
            per_sample["unseen"] = self.beside(task.at.factors) + self.cost
        part = run(task, **per_sample)
        if part.sums.second and self.hidden.rows is not None:
            w = per_sample.get("weights")
            if w is None and part.log_weights:
                w = np.exp(np.concatenate(part.log_weights) - part.sums.shift)
            gone = float(self.gaps.sum() if w is None else w @ self.gaps)
            for n, S in task.scatters(self.hidden.rows).items():
                part.sums.second[n] += gone * S
        return part
