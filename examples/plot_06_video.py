"""
Background and foreground of a clip
===================================

A camera that does not move looks at a table in changing light, and something moves in every frame.
With ``cells=True`` single pixels may be doubted: the robust subspace is the scene without what
moves, and the doubted pixels are the foreground. ``corrtensor repair clip.mp4 -o background.mp4
--foreground mask.mp4`` does the same with files.
"""

# %%
# The frames are made here, from one real picture, so that it is known what moves. A file would be
# read by :func:`corrtensor.io.open_samples`. Principal component pursuit, for comparison, is that
# of ``studies/`` in the source: run this example from there.

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import coffee

import corrtensor as ct
from studies.cells.peers import pursuit


def shapes_on(still, n=100):
    """Return frames of a scene in which three shapes move, the scene, and where the shapes are."""
    rng = np.random.default_rng(0)
    height, width = still.shape
    light = 1 + 0.3 * np.sin(2 * np.pi * np.arange(n) / n)
    scene = still * light[:, None, None]
    frames = scene + 0.01 * rng.normal(size=scene.shape)
    rows, columns = np.mgrid[:height, :width]
    moving = np.zeros(frames.shape, bool)
    for k, (level, speed) in enumerate([(0.2, 1.7), (0.9, -1.2), (0.1, 2.2)]):
        top, size = height * (k + 1) / 4, height / 8
        for t in range(n):
            left = (speed * t + 25 * k) % (width + 4 * size) - 2 * size
            apart = np.abs(rows - top), np.abs(columns - left)
            shape = (np.maximum(*apart) if k == 1 else np.hypot(*apart)) < size
            frames[t][shape] = level + 0.01 * rng.normal(size=shape.sum())
            moving[t] |= shape
    return frames, scene, moving


frames, scene, moving = shapes_on(coffee()[::8, ::8].mean(axis=2) / 255)
print(f"{moving.mean():.1%} of the pixels are covered, some in every frame")

# %%
# A table in changing light is not a sum of a few rows times a few columns, but it does move along
# one direction in the space of all pictures. So each frame is taken as one vector, of rank 1. The
# foreground is where a frame differs from its background by more than a threshold, for every method
# the best one.


def by_subspace(model, frames):
    X = frames.reshape(len(frames), -1)
    return model.fit(X).inverse_transform(model.transform(X)).reshape(frames.shape)


METHODS = {
    "PCA": lambda x: by_subspace(ct.make("PCA", ranks=1), x),
    "pursuit": pursuit,
    "CorrTensor": lambda x: by_subspace(ct.CorrTensor(ranks=1, cells=True), x),
}


def f_measure(away, moving):
    """Return the F-measure at the best threshold."""
    found = [away > threshold for threshold in np.linspace(0.01, 0.3, 146)]
    return max(2 * np.sum(f & moving) / (np.sum(f) + np.sum(moving)) for f in found)


def compare(frames, scene, moving):
    """Return the background, its error behind the shapes, the F-measure and the seconds of each."""
    told = {}
    for name, background_of in METHODS.items():
        began = process_time()
        made = background_of(frames)
        seconds = process_time() - began
        error = np.sqrt(np.square(made - scene)[moving].mean())
        told[name] = made, error, f_measure(np.abs(frames - made), moving), seconds
    return told


told = compare(frames, scene, moving)
for name, (_, error, f, seconds) in told.items():
    print(f"{name:11s}error behind the shapes {error:.4f}, F-measure {f:.3f}, {seconds:.1f} s")

# %%
# A frame, and the background and the foreground by each method. Plain PCA learned the shapes as
# well. What stands still for a third of the clip would become a part of the scene for all of them.

t = 26
fig, axes = plt.subplots(2, 4, figsize=(9, 3.6), layout="constrained")
axes[0, 0].imshow(frames[t], cmap="gray", vmin=0, vmax=1)
axes[0, 0].set_title(f"frame {t}", fontsize=10)
axes[1, 0].imshow(moving[t], cmap="gray")
axes[1, 0].set_title("what moves", fontsize=10)
for column, (name, (made, *_)) in zip(axes.T[1:], told.items(), strict=True):
    column[0].imshow(made[t], cmap="gray", vmin=0, vmax=1)
    column[0].set_title(name, fontsize=10)
    column[1].imshow(np.abs(frames[t] - made[t]), cmap="magma", vmin=0, vmax=0.3)
for ax in axes.flat:
    ax.axis("off")
plt.show()
