"""The words and numbers of a report page."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from corrtensor._base.names import printable, visible
from corrtensor.report.distances import Distances
from corrtensor.report.pictures import times
from corrtensor.report.survey import Survey

LONGEST_SETTING = 60


def readable(text: object) -> str:
    """Return a text that can be written: one line, escapes for what is not printed."""
    return printable(str(text))


def number(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def column(values: np.ndarray) -> list[str]:
    """Return numbers of one column with as many decimals as the largest needs."""
    largest = float(np.abs(values).max())
    if largest and not 1e-3 <= largest < 1e7:
        return [f"{v:.2e}" for v in values.tolist()]
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest else 0
    return [f"{v:,.{decimals}f}" for v in values.tolist()]


def share(part: float, whole: float) -> str:
    """Return a part of a whole in percent."""
    percent = 100 * part / whole if whole else 0.0
    if 99 < percent < 100:
        # Nearly all must not read as all.
        return f"{math.floor(10 * percent) / 10:.1f} %"
    return f"{percent:.0f} %" if percent >= 10 or percent == 0 else f"{percent:.2g} %"


def headline(found: Survey) -> list[tuple[str, str]]:
    """Return the few numbers that stand on top: value and what it is."""
    entries, kept = math.prod(found.subspace.shape), math.prod(found.subspace.core_shape)
    facts = [
        (f"{found.source.n_samples:,}", f"samples of {times(found.subspace.shape)}"),
        (times(found.subspace.core_shape), f"core: {entries / kept:.3g} times smaller"),
        (f"{np.count_nonzero(found.distances.unusual > 1):,}", "beyond the cut"),
    ]
    if found.distances.weights is not None:
        low = np.count_nonzero(found.distances.weights < 0.5)
        facts.insert(2, (f"{low:,}", "weights below one half"))
    if found.energy > 0:
        explained = float(found.core_energy.sum())
        facts.append((share(explained, found.energy), "of the variance explained"))
    return facts


def summary(model: Any, found: Survey, names: Sequence[str]) -> list[str]:
    """Say in sentences what was found."""
    n = found.source.n_samples
    said = []
    weights = found.distances.weights
    if weights is not None:
        low = int(np.count_nonzero(weights < 0.5))
        if low:
            said.append(
                f"{low:,} of {n:,} samples ({share(low, n)}) have a weight below one half in this "
                "model: they are outliers to it, and hardly move it."
            )
        else:
            said.append(f"All {n:,} samples count: none has a weight below one half.")
    measured, first = found.distances, int(found.order[0])
    ratio = float(measured.unusual[first])
    if ratio > 1:
        why = " and ".join(measured.reasons[first])
        said.append(
            f"The most unusual one, {names[first]}, is {number(ratio)} times beyond the cut: {why}."
        )
    said += disagreement(measured)
    groups = getattr(model, "diagnostics_", {}).get("groups", ())
    return said + [f"In the fit, {group}." for group in groups]


def disagreement(measured: Distances) -> list[str]:
    """Say where the ranking and the weights of the fit differ, and why they may."""
    if measured.weights is None:
        return []
    odd, counting = measured.unusual > 1, measured.weights >= 0.5
    explained = measured.residual <= measured.residual_limit
    known, unknown = (int((odd & counting & some).sum()) for some in (explained, ~explained))
    dropped, said = int((~odd & ~counting).sum()), []
    if known:
        said.append(
            f"{known:,} of those beyond the cut count in the fit: the subspace explains them, "
            "though they are unlike the others."
        )
    if unknown:
        said.append(
            f"{unknown:,} of those beyond the cut count in the fit, although the subspace does not "
            "explain them: no gap beyond chance was found before them."
        )
    if dropped:
        said.append(
            f"{dropped:,} that count less than half are within the cut: the subspace does not "
            "explain them, but they resemble others."
        )
    return said


def rest(model: Any) -> str:
    """Say how the fit ended."""
    if not (hasattr(model, "converged_") and hasattr(model, "n_iter_")):
        return "This method does not iterate, or does not tell."
    sweeps = f"{model.n_iter_} {'sweep' if model.n_iter_ == 1 else 'sweeps'}"
    if not model.converged_:
        return f"The fit was stopped after {sweeps}, before it converged."
    values = getattr(model, "objective_", None)
    said = f"The fit converged in {sweeps}."
    if isinstance(values, np.ndarray) and values.ndim == 1 and len(values):
        said += f" The objective is {values[-1]:.6g} at its end."
    return said


def settings(model: Any) -> list[tuple[str, str]]:
    """Return the parameters of a model in words of bounded length."""
    return [
        (name, visible(textwrap.shorten(repr(value), LONGEST_SETTING, placeholder=" …")))
        for name, value in model.get_params(deep=False).items()
    ]
