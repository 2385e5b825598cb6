"""Torture: mutated files, faults in the middle of fits, many fits; ``docs/reliability.md``."""
