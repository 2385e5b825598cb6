"""Results made visible: figures from what ``experiments`` computed, pages about fitted models.

Nothing is fitted here. Names are imported when first used: a page needs no matplotlib, a figure
no Jinja.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrtensor.report.demo_figure import draw_demo, save_figure
    from corrtensor.report.page import write_page

__all__ = ["draw_demo", "save_figure", "write_page"]

_HOMES = {"draw_demo": "demo_figure", "save_figure": "demo_figure", "write_page": "page"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'corrtensor.report' has no attribute {name!r}")
    return getattr(import_module(f"corrtensor.report.{_HOMES[name]}"), name)
