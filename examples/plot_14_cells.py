"""
Dead pixels, lost lines, squares of noise
=========================================

Whole pictures are rarely bad; parts of them are. Pixels are dead, lines are lost, a hand covers a
face. With ``cells=True`` single pixels may be doubted, and the others of the same picture still
count; ``repair`` gives the picture back.
"""

# %%
# Faces of the size 25 x 25. In a third of them a square is covered by noise, one pixel in fifty is
# dead, and some lines were never recorded: they are NaN.

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

faces = ct.datasets.load_faces().images
rng = np.random.default_rng(0)
X = faces.copy()
for i in range(0, len(X), 3):
    top, left = rng.integers(0, 15, 2)
    X[i, top : top + 10, left : left + 10] = rng.random((10, 10))
dead = rng.random(X.shape) < 0.02
X[dead] = rng.integers(0, 2, dead.sum())
X[1::3, 12] = np.nan

# %%
# The plain fit is bent by what it sees; the one that may doubt pixels hardly differs from the fit
# to the faces as they were.

ranks = (5, 5)
truth = ct.make("MPCA", ranks).fit(faces)
filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
models = {"MPCA": ct.make("MPCA", ranks).fit(filled), "cells": ct.CorrTensor(ranks, cells=True)}
models["cells"].fit(X)


def left_by(model):
    P, Q = (U @ U.T for U in model.factors_)
    d = faces - model.mean_
    return np.square(d - P @ d @ Q).sum()


for name, model in models.items():
    print(f"{name:6s}{left_by(model) / left_by(truth):.3f} times the error of the fit to the truth")

# %%
# What was given, which pixels were doubted, and what came back. Dead pixels and lost lines are
# gone; of the squares of noise only what is far from a face is, and one of a single colour would be
# taken for a shadow.

repaired, weights = models["cells"].repair(X), models["cells"].cell_weights(X)
before = np.sqrt(np.nanmean(np.square(X - faces)))
after = np.sqrt(np.mean(np.square(repaired - faces)))
print(f"root mean square error: {before:.3f} before, {after:.3f} after")
rows = {"given": X, "doubted": 1 - weights, "repaired": repaired, "as it was": faces}
figure, axes = plt.subplots(4, 7, figsize=(7, 4.4), layout="constrained")
for line, (name, pictures) in zip(axes, rows.items(), strict=True):
    for axis, picture in zip(line, pictures[:7], strict=True):
        axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
        axis.set_axis_off()
    line[0].set_title(name, fontsize=9, loc="left")
plt.show()
