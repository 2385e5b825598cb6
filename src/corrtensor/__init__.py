"""Robust multilinear subspace learning."""

from corrtensor import datasets, losses, metrics
from corrtensor.methods import METHODS, make
from corrtensor.subspace import CorrTensor, MultilinearSubspace

__all__ = [
    "METHODS",
    "CorrTensor",
    "MultilinearSubspace",
    "datasets",
    "losses",
    "make",
    "metrics",
]
__version__ = "0.1.0"
