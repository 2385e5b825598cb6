"""What a fitted subspace does with samples: cores, reconstructions, distances."""

import math
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.arrays.disk import check_output
from corrtensor._engine.arrays.source import Source
from corrtensor._engine.labels import Labelled
from corrtensor._engine.passes import ResidualPass
from corrtensor._engine.products import expand, project
from corrtensor._engine.shapes import is_on_disk
from corrtensor._engine.transformer import TensorTransformer


class SubspaceTransformer(TensorTransformer):
    """The methods of a subspace that has been learned; ``fit`` is its subclass's."""

    mean_ = Labelled()
    factors_ = Labelled()
    n_jobs: int | None
    block_size: int | None

    @property
    def _mean(self) -> np.ndarray:
        return vars(self)["mean_"]

    @property
    def _factors(self) -> tuple[np.ndarray | None, ...]:
        return vars(self)["factors_"]

    def _source(self, X: Any, closely: bool = False) -> tuple[Source, bool]:
        """Return samples to be read; their gaps are filled as the fit did, or more closely."""
        check_is_fitted(self)
        X, flat = self._check(X)
        # Where cells may be missing, whoever reads them sees to it.
        missing = self.__sklearn_tags__().input_tags.allow_nan
        how: Any = {"n_jobs": self.n_jobs, "block_size": self.block_size, "missing": missing}
        doubtful = bool(getattr(self, "cells", False))
        return Source(X, origin=self._mean, doubtful=doubtful, **how), flat

    @by_chunks
    def transform(self, X: Any, out: Any = None) -> Any:
        """Project samples onto the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples, in memory, on disk or in a Dask array.
        out : array of the result's shape, default=None
            Where to write, block by block: an array in memory or on disk (memmap, zarr, HDF5).
            Should anything fail on the way, it is filled with NaN.

        Returns
        -------
        cores : ndarray of shape (n_samples, k_1, ..., k_d), or flat (:term:`output`); or ``out``
            The cores, ``(X - mean) x_1 U_1' ... x_d U_d'``. For a Dask array, a Dask array with
            the same chunks, not yet computed.
        """
        source, flat = self._source(X, closely=True)
        core = (math.prod(self.core_shape_),) if self._gives_flat(flat) else self.core_shape_
        cores = check_output(out, (source.n_samples, *core), source.dtype)
        factors = [None if U is None else U.astype(source.dtype) for U in self._factors]
        unit = source.dtype.type(source.unit)
        source.fill(cores, lambda x: project(x, factors) * unit)
        return cores

    @by_chunks
    def inverse_transform(self, X: Any, out: Any = None) -> Any:
        """Reconstruct samples from their cores.

        Parameters
        ----------
        X : array-like of shape (n_samples, k_1, ..., k_d), or flattened
            Cores, in memory, in a Dask array, or, not flattened, on disk.
        out : array of the result's shape, default=None
            Where to write, as in :meth:`transform`.

        Returns
        -------
        X_new : ndarray of shape (n_samples, a_1, ..., a_d), or flat if the cores were; or ``out``
            ``mean + core x_1 U_1 ... x_d U_d``; lazy, as in :meth:`transform`. Flat cores that
            ``output="flat"`` has made of tensors come back as tensors.
        """
        if is_on_disk(X):
            check_is_fitted(self)
            if tuple(X.shape[1:]) != self.core_shape_:
                raise ValueError(
                    f"transformed samples have shape {self.core_shape_}, on disk not flattened; "
                    f"an array of shape {tuple(X.shape)} was given"
                )
            cores, flat = X, len(X.shape) == 2
        else:
            cores, flat = self._check_cores(X)
        source = Source(cores, origin=np.zeros(1), n_jobs=self.n_jobs, block_size=self.block_size)
        rows = (math.prod(self.sample_shape_),)
        shape = rows if self._inverse_is_flat(flat) else self.sample_shape_
        made = check_output(out, (source.n_samples, *shape), source.dtype)
        factors = [None if U is None else U.astype(source.dtype) for U in self._factors]
        mean, unit = self._mean.astype(source.dtype), source.dtype.type(source.unit)
        source.fill(made, lambda x: expand(x, factors) * unit + mean)
        return made

    @by_chunks
    def residuals(self, X: Any) -> np.ndarray:
        """Return the squared distance of each sample from the subspace.

        Parameters
        ----------
        X : array-like of shape (n_samples, a_1, ..., a_d) or (n_samples, n_features)
            Samples.

        Returns
        -------
        residuals : ndarray of shape (n_samples,)
            Squared residuals; lazy, as in :meth:`transform`.
        """
        source, _ = self._source(X)
        zero = np.zeros(self.sample_shape_)
        part = source.reduce(ResidualPass(source.at(zero, self._factors)))
        return np.concatenate(part.squares) * source.unit**2
