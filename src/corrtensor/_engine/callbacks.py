"""Watching a fit: the user's callback and scikit-learn's, after every sweep."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from corrtensor._engine.state import STATUS, Snapshot, Solution
from corrtensor.losses.protocol import weights_of

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn before 1.9 has none

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


Observer = Callable[[Snapshot], object]


def effective_samples(weights: np.ndarray) -> float:
    """Return the number of samples that weights amount to."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def told(name: str, max_iter: int, callback: Callable[..., object] | None) -> Callable[..., object]:
    """Return a callback that prints a line about every sweep, one a second at most.

    What the callback of the user returns still ends the fit.
    """
    said = -math.inf

    def tell(sweep: int, objective: float, count: float, seconds: float) -> object:
        nonlocal said
        if seconds - said >= 1 or sweep == max_iter:
            said = seconds
            print(
                f"{name}: sweep {sweep} of at most {max_iter}, objective {objective:.6g}, "
                f"{count:.0f} samples count, {seconds:.1f} s"
            )
        return callback(sweep, objective, count, seconds) if callback is not None else False

    return tell


def say_end(name: str, solution: Solution) -> None:
    """Print how a fit ended."""
    words = STATUS[solution.status].format(n=solution.n_iter)
    few = int((solution.weights < 0.5).sum())
    print(f"{name} {words}; {few} of {len(solution.weights)} samples have a weight below one half")


def observer(
    callback: Callable[..., object] | None, estimator: Any, context: Any
) -> Observer | None:
    """Return what the solver calls after every sweep, or nothing if nobody watches.

    ``callback`` is given the sweep, the objective, the number of samples that count and the seconds
    since the fit began, and ends the fit by returning true. scikit-learn's own callbacks, if any
    were set, have the ``context`` of the fit and are told about the ``estimator``.
    """
    if callback is None and context is None:
        return None
    began = time.perf_counter()

    def observe(seen: Snapshot) -> bool:
        stop = False
        if context is not None:
            sweep = context.subcontext(task_name="sweep")
            sweep.call_on_fit_task_begin(estimator=estimator)
            sweep.call_on_fit_task_end(estimator=estimator)
        if callback is not None:
            count = effective_samples(weights_of(seen.loss, seen.residuals))
            seconds = time.perf_counter() - began
            stop = bool(callback(len(seen.objective) - 1, seen.objective[-1], count, seconds))
        return stop

    return observe
