"""Robust multilinear subspace learning."""

from corrtensor import losses
from corrtensor.subspace import CorrTensor, MultilinearSubspace

__all__ = ["CorrTensor", "MultilinearSubspace", "losses"]
__version__ = "0.1.0"
