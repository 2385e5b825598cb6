"""
A hyperspectral cube with dead lines
====================================

A scanner builds its image line by line; each line is a matrix, pixels by wavelengths. Some lines
are dead or drowned in noise. Taken as samples, they are outliers, and the spectra of the fields
are learned from the other lines.
"""

# %%
# Indian Pines, which comes with tensorly: 145 lines of 145 pixels with 200 bands; to be quick,
# neighbouring bands are averaged and every second pixel is left out. We kill twelve lines and
# drown ten.

import matplotlib.pyplot as plt
import numpy as np
from tensorly.datasets.data_imports import load_indian_pines

import corrtensor as ct

cube = np.asarray(load_indian_pines()["tensor"], dtype=np.float64)
X = cube[:, ::2].reshape(145, 73, 50, 4).mean(axis=-1)
X /= X.max()
rng = np.random.default_rng(0)
lines = rng.choice(len(X), 22, replace=False)
X[lines[:12]] = 0
X[lines[12:]] += 0.5 * rng.random(X[lines[12:]].shape)
is_bad = np.isin(np.arange(len(X)), lines)

# %%
# Twenty directions along the line, six spectra. Honest lines differ much (fields, roads, forest),
# but pass into one another; noisy lines are a group apart, and dead lines another.

plain = ct.make("MPCA", ranks=(20, 6)).fit(X)
robust = ct.CorrTensor(ranks=(20, 6)).fit(X)
oracle = ct.make("MPCA", ranks=(20, 6)).fit(X[~is_bad])
best = oracle.residuals(X[~is_bad]).mean()
for name, model in {"MPCA": plain, "CorrTensor": robust}.items():
    error = model.residuals(X[~is_bad]).mean() / best
    print(f"{name:11s}{error:.3f} times the oracle's error on good lines")
print(f"noisy lines of small weight: {np.sum(robust.weights_[lines[12:]] < 0.5)} of 10")
print(f"dead lines of small weight: {np.sum(robust.weights_[lines[:12]] < 0.5)} of 12")

# %%
# One band of the image with the weight of each line beside it, and the first spectra that each
# model found.

fig = plt.figure(figsize=(9, 4.2), layout="constrained")
left, middle, right = fig.subplots(1, 3, width_ratios=[4, 1, 4])
left.imshow(X[..., 8], cmap="viridis", vmax=np.quantile(X[~is_bad, :, 8], 0.995), aspect="auto")
left.set(title="one band", xlabel="pixel", ylabel="line")
middle.barh(np.arange(len(X)), robust.weights_, height=1, color="#0072B2")
middle.set(title="weight", ylim=(len(X) - 0.5, -0.5), yticks=[])
styles = {"oracle": (oracle, "-"), "MPCA": (plain, ":"), "CorrTensor": (robust, "--")}
for name, (model, style) in styles.items():
    for k, colour in enumerate(("#0072B2", "#D55E00", "#009E73")):
        spectrum = model.factors_[1][:, k]
        spectrum = spectrum * np.sign(spectrum @ oracle.factors_[1][:, k])
        right.plot(spectrum, style, color=colour, linewidth=1.4, label=name if k == 0 else None)
right.set(title="the first three spectra", xlabel="bands of four")
right.legend(frameon=False)
plt.show()
