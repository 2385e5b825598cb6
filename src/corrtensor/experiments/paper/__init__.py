"""The paper's tables and figures, one study each."""

from corrtensor.experiments.paper.catalogue import COMPANIONS, NAMES, missing_data, study
from corrtensor.experiments.paper.study import Cell, Study

__all__ = ["COMPANIONS", "NAMES", "Cell", "Study", "missing_data", "study"]
