"""Pages about a fitted model and samples, and about outliers. No subspace is fitted here."""

from corrtensor.report.page import write_page

__all__ = ["write_page"]
