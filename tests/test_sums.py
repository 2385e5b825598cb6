"""Sums of chunks: the same as one sum over all samples, whatever the weights."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from corrtensor._engine.passes import Sums


def sums_of(log_w, x):
    """The sums of one chunk, in the unit of its largest weight."""
    sums = Sums(shift=max(log_w))
    w = np.exp(log_w - sums.shift)
    sums.add(float(w.sum()), w @ x, {0: (w[:, None] * x).T @ x})
    return sums


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_chunks_of_very_different_weights(order):
    """Any order of chunks gives the sums of all samples; units of 1e-13, 1 and 1e13."""
    rng = np.random.default_rng(0)
    chunks = [(shift + rng.normal(size=5), rng.normal(size=(5, 3))) for shift in (-30, 0, 30)]
    total = Sums()
    for k in order:
        total.merge(sums_of(*chunks[k]))
    log_w, x = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    w = np.exp(log_w - log_w.max())
    assert total.shift == log_w.max()
    assert_allclose(total.weight, w.sum(), rtol=1e-14)
    assert_allclose(total.first, w @ x, rtol=1e-12)
    assert_allclose(total.second[0], (w[:, None] * x).T @ x, rtol=1e-12)


def test_a_chunk_without_any_weight_adds_nothing():
    rng = np.random.default_rng(0)
    total = sums_of(rng.normal(size=5), rng.normal(size=(5, 3)))
    before = (total.shift, total.weight, total.first.copy())
    total.merge(Sums())
    assert (total.shift, total.weight) == before[:2]
    assert_allclose(total.first, before[2], rtol=0)
    empty = Sums()
    empty.merge(total)
    assert math.isfinite(empty.shift)
    assert empty.weight == total.weight
