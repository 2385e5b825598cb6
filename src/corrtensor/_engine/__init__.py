"""From samples to factors: blocks, passes, the solver."""
