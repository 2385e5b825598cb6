"""The demo: three methods on real images with outliers; what was computed, and its figure."""

from corrtensor.demo.cases import CaseResult, Fit, origin, rows, run_demo

__all__ = ["CaseResult", "Fit", "origin", "rows", "run_demo"]
