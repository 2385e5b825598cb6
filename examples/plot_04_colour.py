"""
Colour images as third-order samples
====================================

A colour image has three modes: rows, columns, channels. Nothing is flattened; the channels get a
factor of their own, which says which mixtures of red, green and blue the pictures are made of.
"""

# %%
# Three hundred pieces of a photograph of stained tissue. In forty of them a channel of the sensor
# failed: green five times too bright, or blue full of noise.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import immunohistochemistry

import corrtensor as ct

photo = immunohistochemistry() / 255
rng = np.random.default_rng(0)
corners = rng.integers(0, (photo.shape[0] - 48, photo.shape[1] - 48), (300, 2))
pieces = np.stack([photo[r : r + 48 : 2, c : c + 48 : 2] for r, c in corners])
X, bad = pieces.copy(), rng.choice(300, 40, replace=False)
for k, i in enumerate(bad):
    if k % 2 == 0:
        X[i, ..., 1] *= 5
    else:
        X[i, ..., 2] = rng.random((24, 24))
is_bad = np.isin(np.arange(300), bad)

# %%
# Eight directions for rows and for columns, two for the colours. The failures lie apart from all
# other pieces, so they do not count. (Swapped channels, or one that is stuck at its end, would be
# no farther off than pieces are from one another: those stay.)

models = {
    "MPCA": ct.make("MPCA", ranks=(8, 8, 2)).fit(X),
    "Corr-Tensor": ct.CorrTensor(ranks=(8, 8, 2)).fit(X),
}
oracle = ct.make("MPCA", ranks=(8, 8, 2)).fit(X[~is_bad])
best = oracle.residuals(X[~is_bad]).mean()
for name, model in models.items():
    print(f"{name:12s}{model.residuals(X[~is_bad]).mean() / best:.3f} times the oracle's error")
rejected = models["Corr-Tensor"].weights_ < 0.5
print(f"{is_bad[rejected].sum()} of the 40 failures rejected, {np.sum(rejected & ~is_bad)} others")

# %%
# The colours that each model can paint: its mean colour plus and minus its two directions. The
# stains are brown and blue; to plain MPCA they are green and purple.

good = int(np.flatnonzero(~is_bad)[np.argmax(pieces[~is_bad].var(axis=(1, 2, 3)))])
steps = np.linspace(-0.35, 0.35, 15)
shown = {"too bright": X[bad[0]], "noise": X[bad[1]], "untouched": pieces[bad[1]], "good": X[good]}
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
