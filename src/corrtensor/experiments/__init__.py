"""Runs that answer a question: values in, numbers and arrays out. Nothing is drawn or printed."""

from corrtensor.experiments.demo import CaseResult, Fit, origin, rows, run_demo

__all__ = ["CaseResult", "Fit", "origin", "rows", "run_demo"]
