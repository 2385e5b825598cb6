"""The robustness grid: kinds and shares of outliers put into real data; ``docs/robustness.md``."""
