"""Rivals of the paper that are algorithms of their own: greedy L1, neighbourhood preserving."""

from corrtensor.baselines.greedy_l1 import L1TwoDPCA
from corrtensor.baselines.neighbourhood import TwoDNPP

__all__ = ["L1TwoDPCA", "TwoDNPP"]
