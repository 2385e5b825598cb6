"""Robust multilinear subspace learning."""

from corrtensor import datasets, losses, metrics
from corrtensor.corr_tensor import CorrTensor, RejectionWarning
from corrtensor.methods import METHODS, make
from corrtensor.subspace import MultilinearSubspace

__all__ = [
    "METHODS",
    "CorrTensor",
    "MultilinearSubspace",
    "RejectionWarning",
    "datasets",
    "losses",
    "make",
    "metrics",
]
__version__ = "0.1.0"
