"""The paper's tables and figures, one study each."""

from studies.paper.catalogue import COMPANIONS, NAMES, missing_data, study
from studies.paper.study import Cell, Study

__all__ = ["COMPANIONS", "NAMES", "Cell", "Study", "missing_data", "study"]
