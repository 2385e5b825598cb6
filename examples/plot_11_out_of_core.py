"""
Out of core
===========

The stack stays on disk; a fit reads it block by block. This one is small so that the page builds
quickly, but the memory that the fit takes would be the same for a file of any length.
"""

# %%
# Twenty thousand digits, one byte for each pixel, and two hundred images of noise among them.

import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import corrtensor as ct

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "digits.npy"
images, n = ct.datasets.load_mnist_part().images, 20_000
rng = np.random.default_rng(0)
stack = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint8, shape=(n, 28, 28))
for start in range(0, n, 5000):
    stack[start : start + 5000] = images[rng.permutation(5000)]
bad = np.sort(rng.choice(n, 200, replace=False))
stack[bad] = rng.integers(0, 256, (200, 28, 28))
stack.flush()
del stack

# %%
# ``mmap_mode="r"`` reads nothing. ``tracemalloc`` counts what is allocated while the fit runs.

X = np.load(path, mmap_mode="r")
tracemalloc.start()
model = ct.CorrTensor(ranks=(8, 8), n_jobs=1).fit(X)
peak = tracemalloc.get_traced_memory()[1]
tracemalloc.stop()
rejected = model.diagnostics_["rejected"]
megabytes = {"as floats": 8 * X.nbytes, "on disk": X.nbytes, "peak of the fit": peak}
megabytes = {what: size / 2**20 for what, size in megabytes.items()}
print(", ".join(f"{what} {size:.0f} MB" for what, size in megabytes.items()))
print(f"{np.isin(bad, rejected).sum()} of the 200 bad ones rejected")
print(f"{np.isin(rejected, bad, invert=True).sum()} others rejected")

# %%
# Cores go to a file as well, so that nothing is ever held.

cores = np.lib.format.open_memmap(
    Path(folder.name) / "cores.npy", mode="w+", dtype=np.float64, shape=(n, 8, 8)
)
model.transform(X, out=cores)

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
bars = left.barh(list(megabytes), megabytes.values(), color=["0.7", "0.7", "#0072B2"])
left.bar_label(bars, fmt="%.0f MB", padding=3)
left.set(xlabel="MB", xlim=(0, 1.3 * max(megabytes.values())))
is_bad = np.isin(np.arange(n), bad)
right.scatter(np.flatnonzero(~is_bad)[::10], model.residuals_[~is_bad][::10], s=2, color="#0072B2")
right.scatter(bad, model.residuals_[bad], s=10, marker="x", color="#D55E00")
right.set(yscale="log", xlabel="place in the file", ylabel="squared residual")
right.set_title("every tenth digit, and the bad ones")
plt.show()

del X, cores
folder.cleanup()
