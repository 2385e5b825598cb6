"""What several ranks at once cost."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from corrtensor.methods import make, path
from studies.bench.cases import OUTLIERS, BenchRow, compare, describe, draw, in_turns

__all__ = ["path_rows"]


def path_rows(quick: bool) -> Iterator[BenchRow]:
    """Ten ranks at once, beside a fit at the largest of them."""
    n = 4 if quick else 1
    for shape, d in (((4000 // n, 64, 64), 2), ((50000 // n, 300), 1)):
        X = draw(shape, (20,) * d, "float32", OUTLIERS)
        grid = [(k,) * d for k in range(2, 22, 2)]
        tasks: dict[str, Callable[[], Any]] = {
            "ours": partial(path, X, grid),
            "one fit": partial(make("Corr-Tensor", grid[-1]).fit, X),
        }
        case = f"path of 10 ranks, {describe(shape, grid[-1], 'float32')}"
        yield compare(case, in_turns(tasks, 3 if quick else 5), "one fit", at_most=3.0)
