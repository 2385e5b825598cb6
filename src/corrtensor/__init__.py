"""Robust multilinear subspace learning."""
