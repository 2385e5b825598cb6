"""Bad and missing cells: subspaces and repairs beside those of peers."""
