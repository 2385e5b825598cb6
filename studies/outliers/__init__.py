"""Folders of real pictures with eight kinds of damage: who finds it? ``docs/outliers.md``."""
