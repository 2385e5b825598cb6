"""
Clustering under outliers
=========================

K-means spends its centres on whatever is far away. Here clusters are formed among the cores of a
robust subspace, and samples count by their weights: noise gets a label at the end, but no
centre.
"""

# %%
# Four digits, 400 images, and 80 images of noise.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans

import corrtensor as ct

digits = ct.datasets.load_digits()
chosen = np.flatnonzero(np.isin(digits.target, (0, 1, 4, 6)))[:400]
X, is_noise = ct.datasets.dummy_outliers(digits.images[chosen], 80, rng=0)
truth = digits.target[chosen]

# %%
# Plain K-means on the pixels, and density peaks with K-means on weighted cores.

plain = KMeans(4, n_init=10, random_state=0).fit(X.reshape(len(X), -1))
subspace = ct.CorrTensor(ranks=(5, 5))
robust = ct.DensityPeaksKMeans(4, subspace=subspace, random_state=0).fit(X)
for name, labels in (("K-means", plain.labels_), ("DensityPeaksKMeans", robust.labels_)):
    score = ct.metrics.clustering_accuracy(truth, labels[~is_noise])
    print(f"{name:20s}{score:.3f} of the digits in the right cluster")

# %%
# The centres, and the decision graph from which the robust ones began: dense samples that are far
# from any denser one.

fig = plt.figure(figsize=(9, 4), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.1])
grid = left.subplots(2, 4)
centres = robust.subspace_.inverse_transform(robust.cluster_centers_)
for row, pictures, words in zip(
    grid, (plain.cluster_centers_.reshape(-1, 8, 8), centres), ("K-means", "robust"), strict=True
):
    row[0].set_ylabel(words)
    for ax, picture in zip(row, pictures, strict=True):
        ax.imshow(picture, cmap="gray_r")
        ax.set(xticks=[], yticks=[])
left.suptitle("centres", fontsize=11)
ct.plot.decision_graph(robust, ax=right.subplots())
plt.show()
