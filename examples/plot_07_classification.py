"""
Classification under outliers
=============================

Some training images are fifty times too bright: a wrong gain, a saturated sensor. Class means
move with them, and so does a classifier that trusts means. One robust subspace for each class
hardly notices.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import corrtensor as ct

digits = ct.datasets.load_digits()
X_train, X_test, y_train, y_test = train_test_split(
    digits.images, digits.target, test_size=0.4, stratify=digits.target, random_state=0
)

# %%
# Three classifiers, and ever more training images times fifty.

shares = [0, 0.02, 0.05, 0.1, 0.2, 0.3]
accuracy = {"nearest mean": [], "correntropy centres": [], "robust subspaces": []}
for share in shares:
    X = X_train
    if share:
        X, _ = ct.datasets.magnified_outliers(X_train, share, rng=0)
    means = np.stack([X[y_train == digit].mean(axis=0) for digit in range(10)])
    nearest = np.square(X_test[:, None] - means).sum(axis=(2, 3)).argmin(axis=1)
    accuracy["nearest mean"].append(np.mean(nearest == y_test))
    centres = ct.CorrentropyCenterClassifier(ct.CorrTensor(ranks=(6, 6))).fit(X, y_train)
    accuracy["correntropy centres"].append(centres.score(X_test, y_test))
    subspaces = ct.SubspaceClassifier().fit(X, y_train)
    accuracy["robust subspaces"].append(subspaces.score(X_test, y_test))

for name, values in accuracy.items():
    print(f"{name:20s}", " ".join(f"{value:.3f}" for value in values))

# %%
# The means of three classes at the largest share, in the range of the good images: the plain ones
# are far outside.

fig = plt.figure(figsize=(9, 3.8), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1.5, 1])
ax = left.subplots()
for (name, values), mark in zip(accuracy.items(), ("s:", "^--", "o-"), strict=True):
    ax.plot(100 * np.array(shares), 100 * np.array(values), mark, label=name)
ax.set(xlabel="training images times 50 (%)", ylabel="correct test images (%)", ylim=(0, 101))
ax.legend(frameon=False, loc="center right")
grid = right.subplots(2, 3)
for column, digit in enumerate((0, 3, 8)):
    robust = subspaces.subspaces_[digit].mean_.reshape(8, 8)
    for ax, picture in zip(grid[:, column], (means[digit], robust), strict=True):
        ax.imshow(picture, cmap="gray_r", vmin=0, vmax=16)
        ax.set(xticks=[], yticks=[])
grid[0, 0].set_ylabel("plain mean")
grid[1, 0].set_ylabel("robust mean")
plt.show()
