"""A few long vectors, fitted in coordinates of their own span.

Mean and factors lie in the span of the samples, and a rotation of the samples rotates them: what is
found in an orthonormal basis of the span is the answer, once turned back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from corrtensor._engine import large_modes
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.eigenvectors import fix_signs
from corrtensor._engine.large_modes import n_spare, tall_qr
from corrtensor._engine.passes import checked_squares
from corrtensor._engine.ranks import Rank
from corrtensor._engine.sharing import once
from corrtensor._engine.state import Solution
from corrtensor._engine.threads import single_blas

# Shorter vectors gain nothing; nor do samples of more bytes than this, in double precision.
SHORTEST, MOST_BYTES = 256, 1 << 27
# Samples up to this share of the entries; of modes too large for a square matrix, up to so many
# when a share of energy is asked for.
SHARE, MOST = 0.75, 512
# With a known rank a large mode is seen through about so many blocks of directions: fewer samples
# than these would be spanned by them.
BLOCKS = 4


@dataclass(frozen=True)
class Span:
    """An orthonormal basis of the samples' span, and the samples in it."""

    basis: np.ndarray
    origin: np.ndarray
    source: Source

    @classmethod
    def of(cls, source: Source) -> Span:
        """Return the span of the samples, counted from their origin."""
        x = np.concatenate([block for _, _, block in source.blocks(0, source.n_samples)])
        checked_squares(x, 0)
        with single_blas():
            Q, R = tall_qr(x.T.astype(np.float64))
        rows = np.ascontiguousarray(R.T * source.unit, dtype=source.dtype)
        inside = Source(
            rows,
            origin=np.zeros(rows.shape[1]),
            unit=source.unit,
            n_jobs=source.n_threads,
        )
        inside.memory = None if source.memory is None else {}
        return cls(Q, source.origin, inside)

    def turned_back(self, solution: Solution) -> Solution:
        """Return a solution found in the span in the samples' own entries."""
        (U,) = solution.factors
        assert U is not None  # noqa: S101
        with single_blas():
            mean, V = self.origin + self.basis @ solution.mean, fix_signs(self.basis @ U)
        return replace(solution, mean=mean, factors=(V,))


def span_of(source: Source, ranks: tuple[Rank, ...]) -> Span | None:
    """Return the span of vectors in memory where a fit in it is cheaper; else nothing."""
    n, a, k = source.n_samples, source.sample_shape[0], ranks[0]
    if len(ranks) > 1 or k is None or type(source) is not Source:
        return None
    if not isinstance(source.X, np.ndarray):
        return None
    if a < SHORTEST or 8 * n * a > MOST_BYTES or (isinstance(k, int) and k > n):
        return None
    most = SHARE * a
    if a > large_modes.LARGE:
        # No elbow is found in a sketch: there is no other way.
        few = BLOCKS * (k + n_spare(k)) if isinstance(k, int) else MOST
        most = min(most, large_modes.LARGE, large_modes.LARGE if isinstance(k, str) else few)
    return once(source, "span", lambda: Span.of(source)) if n <= most else None
