"""The ranking of samples that tables and pages show: one list, whoever asks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor.tasks.duplicates import Duplicates, find_duplicates
from corrtensor.tasks.reasons import reasons


@dataclass(frozen=True)
class Ranking:
    """How odd every sample is, from where on that is too much, why, and which are copies.

    ``nearest`` is the number of the most similar usual sample, -1 where none of these samples is.
    """

    scores: np.ndarray
    cut: float
    reasons: list[tuple[str, ...]]
    nearest: np.ndarray
    duplicates: Duplicates

    @property
    def order(self) -> np.ndarray:
        """All samples, the oddest first."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def flagged(self) -> np.ndarray:
        """Whether each sample is an outlier."""
        return self.scores > self.cut

    def words(self, names: Sequence[str]) -> list[str]:
        """Return for each sample in words why it is odd, and of which other it is a copy."""
        copies = self.duplicates.words(names)
        return [
            "; ".join([*why, *([copies[i]] if i in copies else [])])
            for i, why in enumerate(self.reasons)
        ]


def rank_samples(
    detector: Any, X: Any, duplicates: Duplicates | None = None, *, own: bool = True
) -> Ranking:
    """Rank samples by a fitted detector; ``own`` if it was fitted to these.

    Without a detector, nothing is odd. Copies are looked for unless they are known.
    """
    found = find_duplicates(X) if duplicates is None else duplicates
    if detector is None:
        n = len(found.same)
        return Ranking(np.zeros(n), 1.0, [()] * n, np.full(n, -1), found)
    measured, cut = detector.measure(X), -float(detector.offset_)
    nearest = measured["nearest"] if own else np.full(len(measured["score"]), -1)
    return Ranking(measured["score"], cut, reasons(measured, cut), nearest, found)
