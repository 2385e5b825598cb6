"""A fitted model as pages and plots see it: cores of samples, and back."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corrtensor._engine.products import expand, project
from corrtensor._engine.transformer import TensorTransformer


class Subspace:
    """The cores of samples and back, whatever the type of their numbers.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, TensorTransformer):
            raise TypeError(
                f"a fitted subspace such as CorrTensor is needed, not {type(model).__name__}"
            )
        check_is_fitted(model)
        self.model = model
        self.shape: tuple[int, ...] = tuple(model.sample_shape_)
        self.core_shape: tuple[int, ...] = tuple(model.core_shape_)
        self.mean: np.ndarray | None = vars(model).get("mean_")
        self.factors: tuple[np.ndarray | None, ...] | None = vars(model).get("factors_")

    @property
    def nested(self) -> bool:
        """Whether the leading part of a core is the core of a smaller subspace."""
        return self.mean is not None and self.factors is not None

    def cores(self, x: np.ndarray) -> np.ndarray:
        """Return the cores of samples."""
        if self.mean is not None and self.factors is not None:
            return project(x - self.mean, self.factors)
        return np.asarray(self.model.transform(x)).reshape(len(x), *self.core_shape)

    def back(self, cores: np.ndarray) -> np.ndarray:
        """Return the samples that cores stand for."""
        if self.mean is not None and self.factors is not None:
            return expand(cores, self.factors) + self.mean
        return np.asarray(self.model.inverse_transform(cores)).reshape(len(cores), *self.shape)
