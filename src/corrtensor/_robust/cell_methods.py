"""What a fitted subspace says about single cells, and what it does with samples that miss some."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from corrtensor._engine.arrays.dask_lazy import by_chunks
from corrtensor._engine.arrays.disk import check_output
from corrtensor._engine.arrays.source import Source, plain
from corrtensor._engine.passes import by_sample
from corrtensor._engine.ranks import Rank
from corrtensor._engine.sharing import mark
from corrtensor._engine.subspace_transformer import SubspaceTransformer
from corrtensor._robust.block import Block, repaired
from corrtensor._robust.cells import GROSS, ROUGHLY, Model, gross
from corrtensor._robust.completed import CompletedSource, NewSource
from corrtensor._robust.completion import Completion, learned
from corrtensor._robust.learning import prior_of
from corrtensor._robust.search import Judge
from corrtensor._robust.verdict import Stray


def looks_for_bad_cells(model: Any) -> bool:
    """Tell whether a model doubts cells; raise an ``AttributeError`` that says how one does."""
    if not getattr(model, "cells", False):
        raise AttributeError(
            f"this {type(model).__name__} looks for no bad cells: CorrTensor(cells=True) does"
        )
    return True


class CellMethods(SubspaceTransformer):
    """The methods of a subspace, for samples with bad or missing cells."""

    completion_: Completion
    cell_scale_: np.ndarray
    noise_variance_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _source(self, X: Any, closely: bool = False) -> tuple[NewSource, bool]:
        raw, flat = super()._source(X)
        return NewSource(raw, self._cell_model(raw, closely)), flat

    def _cell_model(self, source: Source, closely: bool) -> Model:
        """Return what is expected of samples counted from the mean."""
        known = getattr(self, "completion_", None)
        if known is None:
            # A fit to whole samples, or a stream: its own subspace, by the variances it learned.
            cost = np.zeros(self.core_shape_)
            if hasattr(self, "explained_variance_"):
                cost = prior_of(self.noise_variance_, self.explained_variance_)
            scale, bandwidth = getattr(self, "cell_scale_", None), self._bandwidth() or math.inf
            known = Completion(self._mean, self._factors, cost, scale, bandwidth)
        if closely:
            return known.model(self._mean, source.unit, source.dtype, known.pull)
        model = known.model(self._mean, source.unit, source.dtype)
        return replace(model, accuracy=ROUGHLY)

    def _bandwidth(self) -> float | None:
        """Return how far a cell may stray, in robust standard deviations; ``None``: any way."""
        return None

    def _complete(
        self,
        source: Source,
        ranks: tuple[Rank, ...],
        weight: np.ndarray | None,
        searched: bool = True,
        judge: Judge | None = None,
    ) -> Stray | None:
        """Learn what is expected of samples that miss cells, and complete them by it.

        Before they are ``searched`` for outliers only gross errors among the cells are moved. Then
        the cells of a group of samples may stray as a whole: ``judge`` decides on it.
        """
        bandwidth = self._bandwidth()
        if not isinstance(source, CompletedSource) or not (source.gaps or (searched and bandwidth)):
            return None
        if bandwidth is not None and not searched:
            bandwidth *= GROSS
        alike = weight is None or bool((weight == 1).all())
        # What vectors tell is taken coarsely before.
        teaching = (
            mark(None if alike else weight),
            bandwidth,
            searched or len(source.sample_shape) > 1,
        )
        if source.teaching == teaching:
            return None
        made, stray, hidden = learned(source, ranks, weight, bandwidth, searched, judge)
        self.completion_ = made
        source.settle(made.model(source.origin, source.unit, source.dtype), teaching, hidden)
        if made.scale is not None:
            self.cell_scale_ = made.scale
        return stray

    def _scale(self) -> np.ndarray:
        """Return how far cells stray, if the fit has looked for bad ones."""
        check_is_fitted(self)
        if not hasattr(self, "cell_scale_"):
            raise ValueError(
                f"cells={self.cells!r} was set after the fit, "
                "which has not looked for bad cells: fit again"
            )
        return self.cell_scale_

    def _by_cells(self, X: Any, out: Any, make: Callable[[np.ndarray, Block], np.ndarray]) -> Any:
        """Write an array of the samples' shape, made of every block and what completes it."""
        source, flat = self._source(X, closely=True)
        shape = (math.prod(self.sample_shape_),) if flat else self.sample_shape_
        made = check_output(out, (source.n_samples, *shape), source.dtype)
        # Good cells must come back as they are: nothing is taken off and put back.
        raw = plain(source.X, n_jobs=self.n_jobs, block_size=source.block_size, missing=True)
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
            The samples; lazy, as in :meth:`transform`; of a pandas table, such a table. Bad cells
            are looked for only if the fit did (``cells=True`` of :class:`CorrTensor`). A fit to
            samples with gaps has learned what is expected beyond its ranks; one to whole samples
            completes by its ranks alone.

        Examples
        --------
        >>> import numpy as np
        >>> from corrtensor import MultilinearSubspace
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(40, 8, 1)) * rng.normal(size=7)
        >>> torn = np.where(rng.random(X.shape) < 0.2, np.nan, X)
        >>> whole = MultilinearSubspace(ranks=(8, 1)).fit(torn).repair(torn)
        >>> bool(np.abs(whole - X).max() < 1e-3)
        True
        """
        return self._by_cells(X, out, repaired)

    @available_if(looks_for_bad_cells)  # type: ignore[untyped-decorator]
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
        self._scale()
        return self._by_cells(X, out, lambda x, block: block.cell_weights)

    @available_if(looks_for_bad_cells)  # type: ignore[untyped-decorator]
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
            Residuals divided by ``cell_scale_``, and by how many times as far as usual the cells
            of the sample stray; NaN where a cell is missing; lazy, as in :meth:`transform`.
        """
        scale = self._scale()

        def count(x: np.ndarray, block: Block) -> np.ndarray:
            return (x - block.expected) / (scale.astype(x.dtype) * by_sample(block.spread, x))

        return self._by_cells(X, out, count)

    def _gross_cells(self, X: Any) -> np.ndarray:
        """Tell which cells are gross errors, as those that a search for outliers does not see."""
        far = gross(self._mean) * (self._bandwidth() or math.inf)
        return np.abs(np.asarray(self.cell_residuals(X))) > far
