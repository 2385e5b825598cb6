"""Draw docs/found.png, the first picture of README: broken pictures found, grainy ones cleaned.

python docs/found.py, with corrtensor[demo] installed; seed 0.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

rng = np.random.default_rng(0)
faces = ct.datasets.load_faces().images[:100].clip(0, 1)
X, new = faces[:95].copy(), faces[95:]
X[[7, 42]] = rng.uniform(size=X[:2].shape)  # noise
X[[20, 61], 8:17, 4:21] = 0  # a hand before the lens
X[[33, 88], :12] = 1  # half of the image is lost
grainy = (new + 0.1 * rng.normal(size=new.shape)).clip(0, 1)

score = -ct.TensorOutlierDetector().fit(X).score_samples(X)
order = np.argsort(-score)
model = ct.CorrTensor(ranks=(13, 13)).fit(X)
cleaned = model.inverse_transform(model.transform(grainy))
print("first six of the list:", sorted(order[:6].tolist()))
before, after = (np.square(Y - new).mean() for Y in (grainy, cleaned))
print(f"mean squared error of the grainy ones: {before:.4f}, cleaned {after:.4f}")


def show(ax, picture, colour="0.8", title=""):
    ax.imshow(picture, cmap="gray", vmin=0, vmax=1)
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)
    ax.spines[:].set(color=colour, linewidth=3)


figure = plt.figure(figsize=(11, 3.2), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(6, 5), wspace=0.04)
left.suptitle("A folder of pictures; below, the six least like the others", fontsize=11)
right.suptitle("New ones, grainy; below, cleaned", fontsize=11)
above, below = left.subplots(2, 6)
for ax, i in zip(above, range(18, 24), strict=True):
    show(ax, X[i], title=f"{score[i]:.1f}")
for ax, i in zip(below, order, strict=False):
    show(ax, X[i], "#D55E00", f"{score[i]:.1f}")
above, below = right.subplots(2, 5)
for ax, picture in zip((*above, *below), (*grainy, *cleaned), strict=True):
    show(ax, picture, title=" ")
figure.savefig(Path(__file__).with_name("found.png"), dpi=90, metadata={"Software": None})
