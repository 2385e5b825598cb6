"""Packages that only some data sets need, imported when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["need"]


def need(module: str, package: str, wanted_by: str) -> Any:
    """Import ``module``, or say which ``package`` to install for ``wanted_by``."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{wanted_by} needs {package}: pip install 'corrtensor[data]' ({error})"
        ) from error
