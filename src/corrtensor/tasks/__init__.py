"""What the features are for: classes, clusters, outliers. Arrays in, numbers or labels out."""

from corrtensor.tasks.clustering import DensityPeaksKMeans
from corrtensor.tasks.density_peaks import DecisionGraph
from corrtensor.tasks.nearest_center import CorrentropyCenterClassifier
from corrtensor.tasks.nearest_subspace import SubspaceClassifier
from corrtensor.tasks.outliers import TensorOutlierDetector

__all__ = [
    "CorrentropyCenterClassifier",
    "DecisionGraph",
    "DensityPeaksKMeans",
    "SubspaceClassifier",
    "TensorOutlierDetector",
]
