"""
Dask: chunks, threads, clusters
===============================

A Dask array goes in where an array in memory does, and the same numbers come out. Here its
chunks are worked on by threads of this process; with a cluster nothing changes but one line,
``connect("tcp://...")`` of :mod:`corrtensor.clusters`.
"""

# %%
# Frames of a process that drifts, made chunk by chunk when they are needed: none of them is held
# by us. Every fiftieth frame is broken.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

n, rows = 4000, np.linspace(-1, 1, 32)


def frames(block_info=None):
    """Make the frames of one chunk: a spot that wanders, and noise."""
    (start, stop), *_ = block_info[None]["array-location"]
    time = np.arange(start, stop)[:, None, None]
    rng = np.random.default_rng(start)
    x, y = np.sin(time / 300), np.cos(time / 170)
    spot = np.exp(-4 * ((rows[:, None] - 0.5 * x) ** 2 + (rows - 0.5 * y) ** 2))
    X = spot + 0.05 * rng.normal(size=spot.shape)
    X[time.ravel() % 50 == 0] = rng.random((np.sum(time % 50 == 0), 32, 32))
    return X


X = da.map_blocks(frames, chunks=((500,) * 8, (32,), (32,)), dtype=float, meta=np.empty((0, 0, 0)))
print(X)

# %%
# ``fit`` computes; what ``transform`` and ``residuals`` return is another Dask array, not yet
# computed.

model = ct.CorrTensor(ranks=(6, 6)).fit(X)
cores = model.transform(X)
print(type(cores).__module__, cores.shape)
broken = np.arange(n) % 50 == 0
rejected = model.weights_ < 0.5
print(f"{np.sum(rejected & broken)} of {broken.sum()} broken frames rejected")
print(f"{np.sum(rejected & ~broken)} others rejected")

# %%
# The fit in memory gives the same.

local = ct.CorrTensor(ranks=(6, 6)).fit(X.compute())
print(f"largest difference of the weights: {np.abs(local.weights_ - model.weights_).max():.0e}")

# %%
# Two components of the cores over time, and the frames that did not count.

found = da.compute(cores[:, :2, 0])[0]
fig, (left, right) = plt.subplots(
    1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=[1.6, 1]
)
for k, colour in enumerate(("#0072B2", "#009E73")):
    left.plot(np.flatnonzero(~broken), found[~broken, k], ".", markersize=2, color=colour)
left.plot(np.flatnonzero(broken), found[broken, 0], "x", markersize=4, color="#D55E00")
left.set(xlabel="frame", title="two entries of the cores; crosses: broken frames")
drawn = right.imshow(model.mean_, cmap="magma")
right.set(title="mean of the frames that count", xticks=[], yticks=[])
fig.colorbar(drawn)
plt.show()
