"""Sums of chunks: the same as one sum over all samples, whatever the weights."""

import itertools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from corrtensor._engine import products
from corrtensor._engine.passes import Sums
from corrtensor._engine.products import contract, core_squares, fibres, project, scatter, unfold


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


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("there", [True, False])
def test_modes_are_contracted_in_the_cheapest_order(seed, there, monkeypatch):
    """Beside all orders, counted; there (projecting) and back (expanding)."""
    rng = np.random.default_rng(seed)
    sizes = [(int(a), int(rng.integers(1, a + 1))) for a in rng.integers(2, 30, size=4)]
    if not there:
        sizes = [(k, a) for a, k in sizes]
    taken: list[int] = []

    def contracted(T, U, mode):
        taken.append(mode)
        return contract(T, U, mode)

    monkeypatch.setattr(products, "contract", contracted)
    T, factors = np.zeros((1, *(a for a, _ in sizes))), [np.zeros(pair) for pair in sizes]
    made = project(T, factors) if there else products.expand(T, [U.T for U in factors])
    assert made.shape[1:] == tuple(k for _, k in sizes)

    def multiplications(order):
        shape, total = [a for a, _ in sizes], 0
        for n in order:
            total += math.prod(shape) * sizes[n][1]
            shape[n] = sizes[n][1]
        return total

    assert multiplications(taken) == min(map(multiplications, itertools.permutations(range(4))))


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("shape", [(9, 10, 11), (9, 10, 4), (9, 10)])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("long", [False, True])
def test_weighted_scatters_and_cores_are_those_of_a_loop(mode, shape, own, long, monkeypatch):
    """With the products that suit either kind of processor."""
    monkeypatch.setattr(products, "LONG", long)
    rng = np.random.default_rng(0)
    mode = min(mode, len(shape) - 1)
    x, w, Q = rng.normal(size=(7, *shape)), rng.random(7), rng.normal(size=(shape[mode], 2))
    factors = [np.linalg.qr(rng.normal(size=(a, 3)))[0] for a in shape]
    seen, plain = fibres(x, factors, mode), unfold(project(x, factors, {mode}), mode)
    assert_allclose(seen, plain, atol=1e-12)
    for A in (unfold(x, mode).copy(), unfold(x, mode), seen):
        before = A.copy()
        S = sum(wi * Ai.T @ Ai for wi, Ai in zip(w, before, strict=True))
        squares = [np.square(Ai @ factors[mode]).sum() for Ai in before]
        assert_allclose(core_squares(A, factors[mode]), squares, atol=1e-11)
        assert_allclose(scatter(A, Q, w), S @ Q, atol=1e-11)
        mine = own and not np.may_share_memory(A, x)
        assert_allclose(scatter(A, weights=w, own=mine), S, atol=1e-11)
        assert mine or np.array_equal(A, before)


@pytest.mark.parametrize(("n", "shape"), [(3, (300, 250)), (33, (64, 64)), (5, (70, 9, 120))])
@pytest.mark.parametrize("mode", [0, 1])
def test_samples_of_others_are_not_weighted_in_place(n, shape, mode):
    """Also where one sample alone is worked on, which lies in memory as it is wanted."""
    x = np.random.default_rng(3).normal(size=(n, *shape))
    kept, w = x.copy(), np.linspace(0, 0.9, n)
    S = scatter(unfold(x, mode), None, w)
    assert_array_equal(x, kept)
    rows = np.moveaxis(kept, mode + 1, 1).reshape(n, shape[mode], -1)
    assert_allclose(S, np.einsum("n,nai,nbi->ab", w, rows, rows, optimize=True), rtol=1e-9)
