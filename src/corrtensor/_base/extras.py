"""Packages that only some users need, imported when they are asked for."""

from importlib import import_module
from typing import Any

# Where the name of a package is not that of its module.
PACKAGES = {"PIL": "pillow", "skimage": "scikit-image"}


def need(module: str, extra: str, wanted_by: str) -> Any:
    """Import a module, or say which extra of this package brings it."""
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise ImportError(
            f"{wanted_by} needs {PACKAGES.get(name, name)}: pip install 'corrtensor[{extra}]' "
            f"({error})"
        ) from error
