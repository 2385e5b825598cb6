"""Warnings that name the user's line, however deep in the package they come up."""

import sys
import warnings

# scikit-learn and joblib call estimators for the user, too.
OURS = {"corrtensor", "sklearn", "joblib"}


def warn(words: str, category: type[Warning] = UserWarning) -> None:
    """Warn whoever called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    warnings.warn(words, category, stacklevel=level)
