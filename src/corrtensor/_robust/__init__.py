"""Which samples count, and which of their cells: ``docs/method.md``, sections 6 and 13."""
