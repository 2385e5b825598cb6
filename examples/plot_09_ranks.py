"""
How many components?
====================

Too few ranks explain nothing, neither the good samples nor the bad ones; too many make cores
large. Three ways to choose: a share of the variance, the elbow of the spectrum, and the error of
samples that were not in the fit.
"""

# %%
# Handwritten threes, 28 x 28 pixels, and 50 images of noise.

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

digits = ct.datasets.load_mnist_part()
threes = digits.images[digits.target == 3] / 255
train, held_out = threes[:350], threes[350:]
X, is_noise = ct.datasets.dummy_outliers(train, 50, rng=0)

# %%
# A float keeps that share of the variance of each mode, weighted by how much each sample counts:
# noise has no say. ``"auto"`` takes the elbow.

for ranks in (0.8, 0.95, 0.99, "auto"):
    print(f"ranks={ranks!r}: {ct.CorrTensor(ranks=ranks).fit(X).ranks_}")

# %%
# The error of held-out threes falls with every rank; what it shows is where more ranks stop
# paying, and what the noise takes from a plain fit. Below about six, noise and threes are equally
# badly explained, and residuals cannot tell them apart: all that a small subspace sees of noise
# is its grey level, which is easily explained.

sizes = [2, 4, 6, 8, 11, 14, 18]
held, gap = {"MPCA": [], "Corr-Tensor": []}, []
for k in sizes:
    for name, errors in held.items():
        model = ct.make(name, ranks=(k, k)).fit(X)
        errors.append(model.residuals(held_out).mean())
    s = model.residuals_
    gap.append(np.median(s[is_noise]) / np.quantile(s[~is_noise], 0.99))

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
for (name, errors), mark in zip(held.items(), ("s--", "o-"), strict=True):
    left.plot(sizes, errors, mark, label=name)
left.set(xlabel="rank of both modes", ylabel="squared error", yscale="log")
left.set_title("threes that were not in the fit")
left.legend(frameon=False)
right.plot(sizes, gap, "o-", color="#D55E00")
right.axhline(1, color="0.5", linestyle="--", linewidth=1)
right.set(xlabel="rank of both modes", ylabel="residual of noise / worst good one")
right.set_title("how clearly noise stands out")
plt.show()
