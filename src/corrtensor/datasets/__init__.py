"""Data sets, and outliers put in on purpose.

Loaders return a scikit-learn ``Bunch``; nothing is downloaded. The makers of outliers return the
data and the truth: ``(X_with_outliers, is_outlier)``.
"""

from corrtensor.datasets.embedded import load_digits, load_faces, load_mnist_part
from corrtensor.datasets.lfwcrop import load_lfwcrop
from corrtensor.datasets.mnist import load_mnist
from corrtensor.datasets.orl import load_orl
from corrtensor.datasets.outliers import block_outliers, dummy_outliers, magnified_outliers
from corrtensor.datasets.yale import load_yale

__all__ = [
    "block_outliers",
    "dummy_outliers",
    "load_digits",
    "load_faces",
    "load_lfwcrop",
    "load_mnist",
    "load_mnist_part",
    "load_orl",
    "load_yale",
    "magnified_outliers",
]
