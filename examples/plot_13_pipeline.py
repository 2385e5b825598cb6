"""
A scikit-learn pipeline, and a grid search
==========================================

A pipeline takes images as they are: where a classifier follows, the cores come out flat. A grid
search then tries kernels (``alpha``) and bandwidths (``beta``) like any other parameters; ranks can
be searched for without any classes.
"""

# %%
# Handwritten digits, and among the training images 150 of bright noise with labels at random.
# Test images are clean.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import corrtensor as ct

digits = ct.datasets.load_digits()
good, X_test, y_good, y_test = train_test_split(
    digits.images, digits.target, train_size=500, stratify=digits.target, random_state=0
)
X_train, is_noise = ct.datasets.dummy_outliers(good, 150, rng=0)
X_train[is_noise] *= 3
y_train = np.concatenate([y_good, np.random.default_rng(0).integers(0, 10, 150)])


# %%
# Only 2 x 2 numbers are kept of each digit: it matters which. ``scale="median"`` counts ``beta``
# in median residuals, as a search that tries to be wrong should; the default ``"auto"`` would
# forgive most of the bad choices below.

pipeline = make_pipeline(ct.CorrTensor(ranks=(2, 2), scale="median"), KNeighborsClassifier(3))
grid = {
    "corrtensor__alpha": [1.0, 2.0, 4.0, 8.0],
    "corrtensor__beta": [0.7, 1.0, 1.5, 2.0, 4.0, 16.0],
}
search = GridSearchCV(pipeline, grid, cv=3).fit(X_train, y_train)
print(search.best_params_)

plain = make_pipeline(ct.make("MPCA", ranks=(2, 2)), KNeighborsClassifier(3)).fit(X_train, y_train)
print(f"test accuracy, MPCA:            {plain.score(X_test, y_test):.3f}")
print(f"test accuracy, best of the grid: {search.score(X_test, y_test):.3f}")

# %%
# The whole table. A wide kernel trusts everybody and loses the digits' directions to the noise;
# alpha = 8 draws the sharpest line between the two.

scores = search.cv_results_["mean_test_score"].reshape(4, 6)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
drawn = ax.imshow(scores, cmap="cividis")
for (row, column), value in np.ndenumerate(scores):
    dark = value < (scores.min() + scores.max()) / 2
    ax.text(column, row, f"{value:.3f}", ha="center", va="center", color="w" if dark else "k")
ax.set_xticks(range(6), grid["corrtensor__beta"])
ax.set_yticks(range(4), grid["corrtensor__alpha"])
ax.set(xlabel="beta", ylabel="alpha", title="accuracy in folds that hold noise as well")
fig.colorbar(drawn)
plt.show()

# %%
# Which ranks? Without classes, held-out samples tell: their likelihood under the subspace, of the
# likelier half, so that the noise among them has no say. The second search sees no noise.

ranks = {"ranks": [(2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)]}
for name, X in (("with noise", X_train), ("clean", good)):
    chosen = GridSearchCV(ct.CorrTensor(), ranks, cv=3).fit(X).best_params_["ranks"]
    print(f"{name}: ranks {chosen}")

ct.plot.scree(ct.CorrTensor(ranks=(7, 7)).fit(X_train))
plt.show()
