"""What a fitted subspace says about single cells, and what it does with samples that miss some."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.arrays.disk import check_output
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.subspace_transformer import SubspaceTransformer
from corrtensor._robust.cells import Block, Model, cell_weights, deviations, repaired
from corrtensor._robust.completed import NewSource

# Residuals of neighbours go together: so many cells tell as much as one of white noise would.
CORRELATED = 3.0


class CellMethods(SubspaceTransformer):
    """The methods of a subspace, for samples with bad or missing cells."""

    cell_scale_: np.ndarray
    cell_bandwidth_: float
    noise_variance_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _source(self, X: Any) -> tuple[NewSource, bool]:
        raw, flat = super()._source(X)
        return NewSource(raw, self._cell_model(raw)), flat

    def _cell_model(self, source: Source) -> Model:
        """Return what is expected of samples counted from the mean."""
        scale = getattr(self, "cell_scale_", None)
        width = None if scale is None else self.cell_bandwidth_ * scale / source.unit
        return Model(
            np.zeros(self.sample_shape_), self._factors, source.dtype, width, self._prior()
        )

    def _prior(self) -> np.ndarray | float:
        """Return what cores cost by the variances that were learned: noise over signal."""
        variance = getattr(self, "explained_variance_", None)
        if variance is None:
            return 0.0
        noise = CORRELATED * self.noise_variance_
        return np.asarray(noise / np.maximum(variance, max(noise, np.finfo(float).tiny)))

    def _by_cells(self, X: Any, out: Any, make: Callable[[np.ndarray, Block], np.ndarray]) -> Any:
        """Write an array of the samples' shape, made of every block and what completes it."""
        source, flat = self._source(X)
        shape = (math.prod(self.sample_shape_),) if flat else self.sample_shape_
        made = check_output(out, (source.n_samples, *shape), source.dtype)
        # Good cells must come back as they are: nothing is taken off and put back.
        raw = Source(
            source.X,
            origin=np.zeros(1),
            unit=1.0,
            n_jobs=self.n_jobs,
            block_size=source.block_size,
            missing=True,
        )
        mean, unit = self._mean.astype(source.dtype), source.dtype.type(source.unit)

        def task(x: np.ndarray) -> np.ndarray:
            block = source.model.found((x - mean) / unit)[1]
            return make(x, block._replace(expected=block.expected * unit + mean))

        raw.fill(made, task)
        return made

    @by_chunks
    def repair(self, X: Any, out: Any = None) -> Any:
        """Return samples with their missing cells filled, and their bad ones replaced.

        What the subspace expects of a sample takes their place. Good cells come back as they are,
        a doubted one in part: by as much as it counts.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, NaN in the place of missing cells.
        out : array of the shape of X, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        X_new : ndarray of the shape of X, or ``out``
            The samples; lazy, as in :meth:`transform`. Bad cells are looked for only if the fit
            did (``cells=True`` of :class:`CorrTensor`).

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import MultilinearSubspace
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 8, 1)) * rng.normal(size=7)
        >>> torn = np.where(rng.random(X.shape) < 0.2, np.nan, X)
        >>> whole = MultilinearSubspace(ranks=(8, 1), max_iter=300).fit(torn).repair(torn)
        >>> bool(np.abs(whole - X).max() < 1e-3)
        True
        """
        return self._by_cells(X, out, repaired)

    @available_if(lambda self: getattr(self, "cells", False))  # type: ignore[untyped-decorator]
    @by_chunks
    def cell_weights(self, X: Any, out: Any = None) -> Any:
        """Return how much every cell of every sample counts: 1 if it is good, 0 if not, or missing.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, NaN in the place of missing cells.
        out : array of the shape of X, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        weights : ndarray of the shape of X, or ``out``
            From 0 to 1; lazy, as in :meth:`transform`.
        """
        return self._by_cells(X, out, cell_weights)

    @available_if(lambda self: getattr(self, "cells", False))  # type: ignore[untyped-decorator]
    @by_chunks
    def cell_residuals(self, X: Any, out: Any = None) -> Any:
        """Return how far every cell is from what is expected, in robust standard deviations.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, NaN in the place of missing cells.
        out : array of the shape of X, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        deviations : ndarray of the shape of X, or ``out``
            Residuals divided by ``cell_scale_``, NaN where a cell is missing; lazy, as in
            :meth:`transform`.
        """
        return self._by_cells(X, out, deviations(self.cell_scale_))
