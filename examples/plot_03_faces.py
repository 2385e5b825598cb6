"""
Faces with noise and with blocks
================================

The paper's two kinds of outliers, on faces that come with scikit-image: thirty images of noise
among a hundred faces, and thirty faces with a block over them. What do plain and robust methods
make of the *good* faces?
"""

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

faces = ct.datasets.load_faces().images[:100]
stacks = {
    "noise": ct.datasets.dummy_outliers(faces, 30, rng=0),
    "blocks": ct.datasets.block_outliers(faces, 30, rng=0),
}
names = ("2DSVD", "R1-2DSVD", "Corr-Tensor")

# %%
# All methods learn 15 x 15 components. The oracle, a fit of the good faces alone, says what can
# be had.

fits, errors = {}, {}
for kind, (X, is_outlier) in stacks.items():
    oracle = ct.make("MPCA", ranks=(15, 15)).fit(X[~is_outlier])
    best = oracle.residuals(X[~is_outlier]).mean()
    for name in names:
        model = fits[kind, name] = ct.make(name, ranks=(15, 15)).fit(X)
        errors[kind, name] = model.residuals(X[~is_outlier]).mean() / best
        print(f"{kind:7s}{name:12s}{errors[kind, name]:.3f} times the oracle's error")

# %%
# The good face on which 2DSVD loses most, for each kind. Outliers took directions that the face
# needs.

fig, axes = plt.subplots(2, 5, figsize=(9, 4.2), layout="constrained")
for row, (kind, (X, is_outlier)) in zip(axes, stacks.items(), strict=True):
    gap = fits[kind, "2DSVD"].residuals_ - fits[kind, "Corr-Tensor"].residuals_
    i = int(np.argmax(np.where(is_outlier, -np.inf, gap)))
    pictures = {f"an outlier: {kind}": X[np.flatnonzero(is_outlier)[0]], "a good face": X[i]}
    for name in names:
        model = fits[kind, name]
        words = f"{name}\n{errors[kind, name]:.2f} x oracle"
        pictures[words] = model.inverse_transform(model.transform(X[i : i + 1]))[0]
    for ax, (words, picture) in zip(row, pictures.items(), strict=True):
        ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
        ax.set_title(words, fontsize=9)
        ax.axis("off")
plt.show()

# %%
# How much each image counted in the fit: blocks, by sample.

X, is_outlier = stacks["blocks"]
ax = ct.plot.outlier_map(fits["blocks", "Corr-Tensor"], X)
ax.set_title("faces, thirty of them covered")
plt.show()
