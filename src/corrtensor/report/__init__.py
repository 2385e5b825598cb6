"""Results made visible: figures from what ``experiments`` computed. Nothing is recomputed here."""

from corrtensor.report.demo_figure import draw_demo, save_figure

__all__ = ["draw_demo", "save_figure"]
