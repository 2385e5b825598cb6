"""What completed samples hide: they vary less than whole ones, by what none of their cells tells.

Added to scatters and residuals of completed samples, it makes them those that are to be expected
of whole ones (``docs/method.md``, section 13).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor._engine.passes import Part, ResidualPass, SweepPass
from corrtensor._engine.products import Factors, project, row_squares


@dataclass(frozen=True, eq=False)
class Unseen:
    """Errors of what was foretold in gaps, and how large the gaps of all samples are.

    The scatter of ``rows`` is what one missing cell hides; ``gaps`` are the cells of every sample
    that are missing.
    """

    rows: np.ndarray
    gaps: np.ndarray

    def beside(self, factors: Factors | None) -> np.ndarray:
        """Return by how much the squared residuals of whole samples are expected to be larger.

        Without factors, their squared norms.
        """
        hidden = row_squares(self.rows)
        if factors is not None:
            U = [None if V is None else V.astype(self.rows.dtype) for V in factors]
            hidden -= row_squares(project(self.rows, U))
        return float(hidden.sum()) * self.gaps

    def reduce(self, run: Callable[..., Part], task: Any, **per_sample: Any) -> Part:
        """Run a pass, and make its residuals and scatters those of whole samples."""
        known = per_sample.keys() & {"weights", "squares"}
        if isinstance(task, ResidualPass | SweepPass) and not known:
            per_sample["unseen"] = self.beside(task.at.factors)
        part = run(task, **per_sample)
        if part.sums.second:
            w = per_sample.get("weights")
            if w is None and part.log_weights:
                w = np.exp(np.concatenate(part.log_weights) - part.sums.shift)
            gone = float(self.gaps.sum() if w is None else w @ self.gaps)
            for n, S in task.scatters(self.rows).items():
                part.sums.second[n] += gone * S
        return part
