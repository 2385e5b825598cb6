"""
Robust PCA of vectors
=====================

Samples need not be images. A table with one row for each sample is a stack of vectors, and
:class:`corrtensor.CorrTensor` is then a robust PCA: rows that do not follow the others do not
bend the axes.
"""

# %%
# Measurements of 569 cell nuclei. In forty rows somebody wrote ten of the thirty columns down in
# other units.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.preprocessing import RobustScaler

import corrtensor as ct

table = load_breast_cancer()
rng = np.random.default_rng(0)
rows = rng.choice(len(table.data), 40, replace=False)
spoiled = table.data.copy()
spoiled[np.ix_(rows, np.arange(20, 30))] *= 10
is_bad = np.isin(np.arange(len(spoiled)), rows)

scaler = RobustScaler().fit(spoiled)
X, truth = scaler.transform(spoiled), scaler.transform(table.data)

# %%
# Both learn five components. The spoiled rows are alike and lie apart from all others, so they do
# not count; extreme tumours pass into the rest, and do. The oracle is a PCA of the rows that nobody
# touched.

plain = PCA(5).fit(X)
robust = ct.CorrTensor(ranks=5).fit(X)
oracle = PCA(5).fit(X[~is_bad])


def lost(components, mean):
    """Return the mean squared error of the untouched rows."""
    Z = truth[~is_bad] - mean
    return np.square(Z - Z @ components.T @ components).sum(axis=1).mean()


best = lost(oracle.components_, oracle.mean_)
print(f"PCA:        {lost(plain.components_, plain.mean_) / best:.2f} times the oracle's error")
print(f"CorrTensor: {lost(robust.factors_[0].T, robust.mean_) / best:.2f} times the oracle's error")
low = robust.weights_ < 0.5
print(f"rows of small weight: {low.sum()}, {is_bad[low].sum()} of them spoiled")

# %%
# The first two axes. Those of plain PCA point at the mistake and press the patients into a clump.

fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
scores = {"PCA": plain.transform(X), "CorrTensor": robust.transform(X)}
for ax, (name, Z) in zip(axes, scores.items(), strict=True):
    for kind, colour in ((1, "#0072B2"), (0, "#009E73")):
        shown = ~is_bad & (table.target == kind)
        ax.scatter(*Z[shown, :2].T, s=10, color=colour, label=table.target_names[kind])
    ax.scatter(*Z[is_bad, :2].T, s=24, marker="x", color="#D55E00", label="wrong units")
    ax.set(title=name, xlabel="first axis", ylabel="second axis")
good = np.abs(scores["CorrTensor"][~is_bad, :2]).max(axis=0) * 1.1
axes[1].set(xlim=(-good[0], good[0]), ylim=(-good[1], good[1]))
axes[0].legend(frameon=False)
plt.show()
