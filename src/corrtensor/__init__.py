"""Robust multilinear subspace learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrtensor import correntropy, datasets, losses, metrics, plot
    from corrtensor.corr_tensor import CorrTensor, RejectionWarning
    from corrtensor.methods import METHODS, make, path
    from corrtensor.storage import ModelFileError, load, save
    from corrtensor.subspace import MultilinearSubspace
    from corrtensor.tasks import (
        CorrentropyCenterClassifier,
        DensityPeaksKMeans,
        SubspaceClassifier,
        TensorOutlierDetector,
        find_duplicates,
    )

__all__ = [
    "METHODS",
    "CorrTensor",
    "CorrentropyCenterClassifier",
    "DensityPeaksKMeans",
    "ModelFileError",
    "MultilinearSubspace",
    "RejectionWarning",
    "SubspaceClassifier",
    "TensorOutlierDetector",
    "correntropy",
    "datasets",
    "find_duplicates",
    "load",
    "losses",
    "make",
    "metrics",
    "path",
    "plot",
    "save",
]
__version__ = "0.1.0"

# Where each name lives. They are imported when first used, so that the command line starts fast.
_HOMES = {
    "CorrTensor": "corr_tensor",
    "RejectionWarning": "corr_tensor",
    "METHODS": "methods",
    "make": "methods",
    "path": "methods",
    "ModelFileError": "storage",
    "load": "storage",
    "save": "storage",
    "MultilinearSubspace": "subspace",
    "CorrentropyCenterClassifier": "tasks",
    "DensityPeaksKMeans": "tasks",
    "SubspaceClassifier": "tasks",
    "TensorOutlierDetector": "tasks",
    "find_duplicates": "tasks",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(f"corrtensor.{_HOMES[name]}"), name)
    elif name in __all__:
        value = import_module(f"corrtensor.{name}")
    else:
        raise AttributeError(f"module 'corrtensor' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
