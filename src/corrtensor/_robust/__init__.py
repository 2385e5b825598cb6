"""Which samples count: ``docs/method.md``, section 6."""
