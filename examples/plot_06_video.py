"""
The background of a video
=========================

A camera that does not move looks at a wall in changing daylight. In a third of the frames
something large goes by. The robust subspace is the scene without it; what a frame has beyond the
scene is the foreground.
"""

# %%
# The frames are made here, from a picture of bricks; a file would be read by
# :func:`corrtensor.io.open_samples`. Each sample is a frame.

import matplotlib.pyplot as plt
import numpy as np
from skimage.data import brick

import corrtensor as ct

rng = np.random.default_rng(0)
wall = brick()[::8, ::8] / 255
height, width = wall.shape
time = np.arange(100)
daylight = 0.8 + 0.25 * np.sin(2 * np.pi * time / 100)[:, None, None]
shade = np.linspace(-0.15, 0.15, width) * np.cos(2 * np.pi * time / 100)[:, None, None]
scene = wall * daylight + shade
frames = scene + 0.01 * rng.normal(size=scene.shape)

rows, columns = np.mgrid[:height, :width]
passes = (time % 50 >= 17) & (time % 50 < 34)
for t in np.flatnonzero(passes):
    middle = (t % 50 - 17) / 16 * width
    van = (np.abs(columns - middle) < 18) & (rows > 22)
    frames[t][van] = 0.85 + 0.1 * np.sin(rows[van] / 3)

# %%
# A wall of bricks in changing light is not a sum of a few rows times a few columns, but it does
# move along a few directions in the space of all pictures. So each frame is taken as one vector.

X = frames.reshape(len(frames), -1)
robust = ct.CorrTensor(ranks=2).fit(X)
plain = ct.make("PCA", ranks=2).fit(X)
low = robust.weights_ < 0.5
print(f"{low.sum()} frames of small weight, the van in {np.sum(low & passes)} of them")
print(f"frames with the van: {passes.sum()}")

# %%
# A frame, the scene as each model sees it, and what the frame has beyond that. Plain PCA learned
# the van as well.

t = 26
fig, axes = plt.subplots(2, 3, figsize=(9, 6), layout="constrained")
for row, (name, model) in zip(axes, {"PCA": plain, "CorrTensor": robust}.items(), strict=True):
    made = model.inverse_transform(model.transform(X[t : t + 1])).reshape(height, width)
    row[0].imshow(made, cmap="gray", vmin=0, vmax=1)
    row[0].set_title(f"background by {name}", fontsize=10)
    row[1].imshow(np.abs(frames[t] - made), cmap="magma", vmin=0, vmax=0.6)
    row[1].set_title("what is left: foreground", fontsize=10)
axes[0, 2].imshow(frames[t], cmap="gray", vmin=0, vmax=1)
axes[0, 2].set_title(f"frame {t}", fontsize=10)
for ax in axes.flat[:5]:
    ax.axis("off")
last = axes.flat[5]
last.scatter(time, robust.residuals_, s=10, c=np.where(passes, "#D55E00", "#0072B2"))
last.set(yscale="log", xlabel="frame", title="squared residual; red: the van")
plt.show()
