"""
Colour images as third-order samples
====================================

A colour image has three modes: rows, columns, channels. Nothing is flattened; the channels get a
factor of their own, which says which mixtures of red, green and blue the pictures are made of.
"""

# %%
# Three hundred pieces of a photograph of a cat. In forty of them a channel of the sensor failed:
# stuck, swapped or full of noise.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import chelsea

import corrtensor as ct

photo = chelsea() / 255
rng = np.random.default_rng(0)
corners = rng.integers(0, (photo.shape[0] - 48, photo.shape[1] - 48), (300, 2))
pieces = np.stack([photo[r : r + 48 : 2, c : c + 48 : 2] for r, c in corners])
X, bad = pieces.copy(), rng.choice(300, 40, replace=False)
for k, i in enumerate(bad):
    if k % 3 == 0:
        X[i, ..., 1] = 1
    elif k % 3 == 1:
        X[i] = X[i, ..., ::-1]
    else:
        X[i, ..., 2] = rng.random((24, 24))
is_bad = np.isin(np.arange(300), bad)

# %%
# Eight directions for rows and for columns, two for the colours. Swapped channels are alike, and
# could earn a direction of their own: the question is what does not look like the majority.

models = {
    "MPCA": ct.make("MPCA", ranks=(8, 8, 2)).fit(X),
    "Corr-Tensor": ct.CorrTensor(ranks=(8, 8, 2)).fit(X),
}
oracle = ct.make("MPCA", ranks=(8, 8, 2)).fit(X[~is_bad])
best = oracle.residuals(X[~is_bad]).mean()
for name, model in models.items():
    print(f"{name:12s}{model.residuals(X[~is_bad]).mean() / best:.3f} times the oracle's error")
found = np.argsort(-models["Corr-Tensor"].residuals_)[:40]
print(f"{is_bad[found].sum()} of the 40 failures are the 40 largest residuals")

# %%
# The colours that each model can paint: its mean colour plus and minus its two directions. The
# cat is grey and ginger; to plain MPCA she is olive and purple.

good = int(np.flatnonzero(~is_bad)[np.argmax(pieces[~is_bad].var(axis=(1, 2, 3)))])
steps = np.linspace(-0.35, 0.35, 15)
shown = {"stuck": X[bad[0]], "swapped": X[bad[1]], "noise": X[bad[2]], "good": X[good]}
for name, model in models.items():
    shown[f"good, by {name}"] = model.inverse_transform(model.transform(X[good : good + 1]))[0]
for name, model in models.items():
    first, second = model.factors_[2].T
    plane = steps[:, None, None] * first + steps[:, None] * second
    shown[f"colours of {name}"] = model.mean_.mean(axis=(0, 1)) + plane

fig, axes = plt.subplots(2, 4, figsize=(9, 4.9), layout="constrained")
for ax, (words, picture) in zip(axes.flat, shown.items(), strict=True):
    ax.imshow(picture.clip(0, 1))
    ax.set_title(words, fontsize=10)
    ax.axis("off")
plt.show()
