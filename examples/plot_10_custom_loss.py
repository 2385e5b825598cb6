"""
A loss of your own
==================

The solver takes any loss with three methods. Here is Geman and McClure's, beside least squares,
the R1 norm and the generalised correntropy.
"""

# %%
# ``value`` is what a squared residual costs, ``log_weight`` the logarithm of its slope,
# ``calibrate`` a copy with everything frozen that depends on the data.

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct


@dataclass(frozen=True)
class GemanMcClure:
    """``phi(s) = s / (c**2 + s)``; ``c`` is counted in roots of the median residual."""

    width: float = 2.0
    unit: float = 1.0

    def value(self, s):
        return s / (self.width**2 * self.unit + s)

    def log_weight(self, s):
        square = self.width**2 * self.unit
        return np.log(square) - 2 * np.log(square + s)

    def calibrate(self, s):
        return replace(self, unit=float(np.median(s)))


# %%
# Faces, and images of noise.

faces = ct.datasets.load_faces().images[:100]
X, is_bad = ct.datasets.dummy_outliers(faces, 30, rng=0)

losses = {
    "least squares": ct.losses.Power(2),
    "R1": ct.losses.Power(1),
    "Geman-McClure": GemanMcClure(),
    "correntropy": ct.losses.Correntropy(),
}
fits = {name: ct.MultilinearSubspace((12, 12), loss=loss).fit(X) for name, loss in losses.items()}
best = ct.MultilinearSubspace((12, 12)).fit(X[~is_bad]).residuals(X[~is_bad]).mean()
for name, model in fits.items():
    print(f"{name:15s}{model.residuals(X[~is_bad]).mean() / best:.3f} times the oracle's error")

# %%
# Weights against residuals: what each loss thinks of the same samples.

fig, axes = plt.subplots(1, 4, figsize=(9, 3), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, fits.items(), strict=True):
    for mask, colour, mark in ((~is_bad, "#0072B2", "o"), (is_bad, "#D55E00", "x")):
        ax.scatter(model.residuals_[mask], model.weights_[mask], s=14, color=colour, marker=mark)
    ax.set(title=name, xscale="log", xlabel="squared residual")
axes[0].set_ylabel("weight")
plt.show()
