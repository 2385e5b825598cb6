"""
Find the broken images in a folder
==================================

A folder of pictures, some of which are broken: noise, a hand before the lens, half a transfer,
motion. Nobody has labelled them. The detector learns what the pictures have in common and lists
those that differ.
"""

# %%
# The folder
# ----------
# A hundred faces, ten of them broken. In the shell the whole example is ``corrtensor outliers
# faces``.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

import corrtensor as ct
from corrtensor.io import open_samples

rng = np.random.default_rng(0)
faces = np.uint8(255 * ct.datasets.load_faces().images[:100].clip(0, 1))
broken = {7: "noise", 42: "noise", 20: "covered", 61: "covered", 33: "cut", 88: "cut"}
broken |= {12: "upside down", 55: "upside down", 71: "smeared", 95: "smeared"}
for i, fault in broken.items():
    if fault == "noise":
        faces[i] = rng.integers(0, 256, faces[i].shape)
    elif fault == "covered":
        faces[i, 8:17, 4:21] = 0
    elif fault == "cut":
        faces[i, :12] = 255
    elif fault == "upside down":
        faces[i] = faces[i, ::-1]
    else:
        faces[i] = faces[i].mean(axis=1, keepdims=True)

folder = tempfile.TemporaryDirectory()
for i, face in enumerate(faces):
    Image.fromarray(face).save(Path(folder.name) / f"{i:03d}.png")

# %%
# The search
# ----------
# ``distance="features"`` looks at texture, place and likeness, not only at what the subspace cannot
# explain.

stack = open_samples(folder.name)
X = stack[:]
detector = ct.TensorOutlierDetector(distance="features").fit(X)
score = -detector.score_samples(X)
order = np.argsort(-score)
flagged = detector.predict(X) == -1

is_broken = np.isin(np.arange(len(X)), list(broken))
print(f"the first ten of the list hold {is_broken[order[:10]].sum()} of the ten broken pictures")
print(f"{flagged.sum()} lie beyond the cut, {is_broken[flagged].sum()} of them broken")

# %%
# The first eighteen of the list. The two faces upside down are not among them: to the subspace,
# as to most statistics of texture, they are faces. Red: broken by us; a star: beyond the cut,
# which is careful with false alarms.

fig, axes = plt.subplots(3, 6, figsize=(9, 5.2), layout="constrained")
for ax, i in zip(axes.flat, order, strict=False):
    colour = "#D55E00" if i in broken else "0.6"
    ax.imshow(X[i], cmap="gray", vmin=0, vmax=255)
    ax.set(xticks=[], yticks=[])
    star = " *" if flagged[i] else ""
    ax.set_title(f"{broken.get(int(i), 'good')} {score[i]:.1f}{star}", fontsize=9)
    for spine in ax.spines.values():
        spine.set(color=colour, linewidth=3)
plt.show()

folder.cleanup()
