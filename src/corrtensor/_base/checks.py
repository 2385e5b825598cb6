"""Checks of parameters: what was wrong, with its value, and what would be right.

A value of the wrong kind is a ``TypeError``, one out of range a ``ValueError``. ``True`` is no
number here, though Python counts with it.
"""

import math
from numbers import Integral, Real
from typing import Any


def is_number(value: Any) -> bool:
    """Tell whether ``value`` is a real number; NaN and the infinities are."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Tell whether ``value`` is a whole number by its type: 2.0 is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_share(value: Any, most: float = 1.0) -> bool:
    """Tell whether ``value`` is a number above 0 and at most ``most``."""
    return is_number(value) and 0 < value <= most


def require_positive(**values: Any) -> None:
    """Raise an error that names the first value which is no positive finite number."""
    for name, value in values.items():
        if not is_number(value):
            raise TypeError(f"{name}={value!r} must be a number")
        if not 0 < value < math.inf:
            raise ValueError(f"{name}={value!r} must be positive and finite")


def require_not_negative(**values: Any) -> None:
    """Raise an error that names the first value which is no finite number of at least 0."""
    for name, value in values.items():
        if not is_number(value):
            raise TypeError(f"{name}={value!r} must be a number")
        if not 0 <= value < math.inf:
            raise ValueError(f"{name}={value!r} must be at least 0 and finite")


def require_count(least: int = 1, /, **values: Any) -> None:
    """Raise an error that names the first value which is no whole number of at least ``least``."""
    for name, value in values.items():
        if not is_number(value):
            raise TypeError(f"{name}={value!r} must be a whole number")
        if not is_whole(value) or value < least:
            raise ValueError(f"{name}={value!r} must be a whole number of at least {least}")
