"""Faults put into the core one at a time: do the tests meant for it notice? ``make mutants``.

A fault is a piece of text that occurs once in a file of the package, what takes its place, and
the tests that should fail then. Each is put into a copy of the package; the working tree is never
touched. What no test notices is a survivor, and the number of survivors is the exit code. A piece
that is not found any more is an error: the list has to follow the code.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 300


@dataclass(frozen=True)
class Fault:
    """What goes wrong, where, and the names of the test files that should notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str


FAULTS = [
    # outlying samples beside gaps and bad cells
    Fault(
        "before the search: outlying samples own what is put into gaps",
        "_robust/learning.py",
        "return learner if searched else replace(learner, weights=w * learner.tame())",
        "return learner",
        "doubt",
    ),
    Fault(
        "doubted cells cost nothing",
        "_robust/cells.py",
        "DEAREST = math.sqrt(2)",
        "DEAREST = 0.0",
        "doubt",
    ),
    Fault(
        "doubted cells of new samples cost nothing",
        "_robust/completed.py",
        "if isinstance(self.task, ResidualPass):",
        "if False:",
        "doubt",
    ),
    Fault(
        "samples that are bad everywhere count",
        "_robust/completed.py",
        "good = self.trust >= TRUSTED * np.median(self.trust)",
        "good = self.trust >= 0",
        "doubt",
    ),
    Fault(
        "how far cells stray at a place is told by the bad third",
        "_robust/spread.py",
        "MOST = 3.0",
        "MOST = 1e9",
        "doubt",
    ),
    Fault(
        "noise is what doubted cells cost",
        "_engine/likelihood.py",
        "self.residuals_ - source.unit**2 * cost, math",
        "self.residuals_ - 0 * source.unit**2 * cost, math",
        "doubt",
    ),
    # what completed samples hide
    Fault(
        "hidden: residuals leave it out",
        "_robust/unseen.py",
        'per_sample["unseen"] = self.beside(task.at.factors)',
        'per_sample["unseen"] = 0 * self.gaps',
        "unseen",
    ),
    Fault(
        "hidden: every sample has as many gaps",
        "_robust/unseen.py",
        "w @ self.gaps",
        "w.sum() * self.gaps.mean()",
        "unseen",
    ),
    Fault(
        "hidden: single missing cells hide something, too",
        "_robust/completion.py",
        "MORE = 2.0",
        "MORE = 0.0",
        "unseen",
    ),
    Fault(
        "hidden: errors count for all cells of a gap",
        "_robust/completion.py",
        "(learner.weights[which] @ gaps[which])",
        "learner.weights[which].sum()",
        "unseen",
    ),
    Fault(
        "hidden: bad cells of others are taken for it",
        "_robust/completion.py",
        "y = model.complete_by(x, guess.expected, model.spread(x, guess.expected), 0).x",
        "y = np.where(gone, guess.expected, x)",
        "unseen",
    ),
    Fault(
        "hidden: the energy of long vectors leaves it out",
        "_engine/start.py",
        "squares = norms + source.beside(None)",
        "squares = norms",
        "unseen",
    ),
    Fault(
        "hidden: neighbours tell, who may miss the same cells",
        "_robust/completion.py",
        "whole = y[other[which]]",
        "whole = y[which - 1]",
        "unseen",
    ),
    Fault(
        "hidden: residuals of the fit keep it",
        "_engine/likelihood.py",
        "self.residuals_ = s + source.unit**2 * (cost - beside)",
        "self.residuals_ = s + source.unit**2 * cost",
        "unseen",
    ),
    # cells
    Fault(
        "doubted cells are moved to the other side of what is expected",
        "_robust/cells.py",
        "R.reshape(-1)[doubted] *= v",
        "R.reshape(-1)[doubted] *= -v",
        "cells",
    ),
    Fault(
        "few samples all count",
        "_robust/search.py",
        "return verdict if verdict.pull is None else",
        "return verdict if True else",
        "search",
    ),
    Fault(
        "what scattered gaps hide counts as explained",
        "_robust/unseen.py",
        "return self.each * (1",
        "return 0 * (1",
        "unseen",
    ),
    Fault(
        "learning ends before a band that is missing is told",
        "_robust/learning.py",
        "ROUNDS, STILL, STEPS = (3, 50)",
        "ROUNDS, STILL, STEPS = (3, 3)",
        "spectra",
    ),
    Fault(
        "what is hidden hangs on where samples stand",
        "_robust/completion.py",
        'learner = learner.some(np.argsort(row_squares(whole(learner.x)), kind="stable"))',
        "pass",
        "unseen",
    ),
    Fault(
        "what a codec does to a still scene moves",
        "_robust/learning.py",
        "searched, strays_of(source.X) / source.unit",
        "searched, 0.0",
        "repair_command",
    ),
    Fault(
        "a block that most samples miss makes a direction",
        "_robust/learning.py",
        "if np.count_nonzero(little) < MANY * largest:",
        "if True:",
        "unseen",
    ),
    Fault(
        "completed samples tell what is in a band",
        "_robust/learning.py",
        "by_columns = model.width is None and",
        "by_columns = False and",
        "spectra",
    ),
    Fault(
        "cores are taken for known",
        "_robust/learning.py",
        "squares[:, :k, :k] += noise *",
        "squares[:, :k, :k] += 0 *",
        "spectra",
    ),
    Fault(
        "cores of vectors are found by the cells that are missing",
        "_robust/cells.py",
        "U.T * block.cell_weights[:, None]",
        "U.T * (1 - block.cell_weights[:, None])",
        "spectra",
    ),
    Fault(
        "the neighbours of a cell in doubt are not asked",
        "_robust/cells.py",
        "(0.0 if alone else around(T, far, edge))",
        "0.0",
        "cells",
    ),
    Fault(
        "neighbours beyond the end of a mode are those of the next row",
        "_robust/spread.py",
        "np.where(at[n] == end, -toward, toward)",
        "toward",
        "cells",
    ),
    Fault(
        "the edge of the cap is not a root",
        "_robust/cells.py",
        "edge = len(R), R * self.narrow, math.sqrt(EDGE)",
        "edge = len(R), R * self.narrow, EDGE",
        "cells",
    ),
    Fault(
        "cores are drawn away from the usual ones",
        "_robust/cells.py",
        "self.projected(R) - self.cost * Z",
        "self.projected(R) + self.cost * Z",
        "cells",
    ),
    Fault(
        "samples that stray as a whole are not told from others",
        "_robust/cells.py",
        "T /= by_sample(spread, T)",
        "T /= 1",
        "cells",
    ),
    Fault(
        "missing cells weigh when cores are found",
        "_robust/block.py",
        "(~self.missing).astype",
        "(self.missing | True).astype",
        "cells",
    ),
    Fault(
        "two kinds hide what is far off",
        "_robust/isolation.py",
        "self.gaps * self.distances >= GAP * FAR",
        "self.distances >= FAR",
        "search",
    ),
    Fault(
        "a narrower gap hides what is farther off",
        "_robust/isolation.py",
        "(self.gaps >= GAP / 2)",
        "(self.gaps >= GAP)",
        "search",
    ),
    Fault(
        "the order of samples decides",
        "_robust/sizes.py",
        "if n <= ORDERLESS:",
        "if n <= 0:",
        "invariances",
    ),
    Fault(
        "beside gaps gross cells make outliers of samples",
        "_robust/cell_methods.py",
        "bandwidth *= GROSS",
        "bandwidth = None",
        "cells",
    ),
    Fault(
        "few samples say by their size where to begin",
        "_robust/verdict.py",
        "return times(self.pull, prior)",
        "return prior",
        "search",
    ),
    Fault(
        "gross samples are left to the bandwidth",
        "_robust/verdict.py",
        "s > s[others].max()",
        "s > math.inf",
        "search",
    ),
    Fault(
        "gross samples go even where the others explain them",
        "_robust/verdict.py",
        "s > s[others].max()",
        "s >= 0",
        "search",
    ),
    Fault(
        "what samples vary by is an error before their cores are known",
        "_robust/cells.py",
        "np.square(self.width) + expand(cores[None], squares)[0]",
        "np.square(self.width)",
        "cells",
    ),
    Fault(
        "samples are pulled to what is usual as hard as in learning",
        "_robust/completion.py",
        "prior=pull * model.prior",
        "prior=1.0 * model.prior",
        "cells",
    ),
    Fault(
        "votes veto",
        "_robust/search.py",
        "least = CLEARLY if outvoted or many",
        "least = math.inf if outvoted or many",
        "search",
    ),
    Fault(
        "votes do not weigh",
        "_robust/search.py",
        "least = CLEARLY if outvoted or many",
        "least = CLEARLY if many",
        "search",
    ),
    Fault(
        "one of two halves is left out",
        "_robust/search.py",
        "if outvoted or many else",
        "if outvoted else",
        "cells",
    ),
    Fault(
        "what is foreign strays at all costs",
        "_robust/search.py",
        "at_all_costs=False",
        "at_all_costs=True",
        "cells",
    ),
    Fault(
        "what is foreign strays as others do",
        "_robust/search.py",
        "-CLEARLY if foreign",
        "0.0 if foreign",
        "cells",
    ),
    Fault(
        "what differs from many equal samples strays",
        "_robust/completion.py",
        "which = learner.once(guess)",
        "which = learner, guess, np.arange(len(learner.x))",
        "cells",
    ),
    Fault(
        "the cells of a vector may stray any number of times as far as usual",
        "_robust/cells.py",
        "most = FARTHER if x.ndim == 2 else math.inf",
        "most = math.inf",
        "cells",
    ),
    Fault(
        "what a wide bandwidth lets in widens it",
        "_robust/learning.py",
        "guess = replace(guess, scale=self.scale(guess))",
        "guess = replace(guess, scale=None)",
        "cells",
    ),
    Fault(
        "bad cells choose the first directions of vectors",
        "_robust/learning.py",
        "first = self.filled(TIGHTENING[0] * bandwidth)",
        "first = y",
        "cells",
    ),
    Fault(
        "small variances are hidden in narrow tables, too",
        "_robust/search.py",
        "FINE * few**2",
        "FINE",
        "search",
    ),
    Fault(
        "gross errors bend the first core",
        "_robust/cells.py",
        "wide = off *",
        "wide = math.inf *",
        "cells",
    ),
    Fault(
        "what is expected is counted from nowhere",
        "_robust/completion.py",
        "(learner.place + guess.model.mean)",
        "guess.model.mean",
        "cells",
    ),
    Fault(
        "thin modes are merged in the wrong order",
        "_engine/products.py",
        "reduce(np.kron, whole)]",
        "reduce(np.kron, whole[::-1])]",
        "cells",
    ),
    Fault(
        "what is expected has the ranks of the fit",
        "_robust/completion.py",
        "WIDER, MOST, CORE_BYTES = 2.0,",
        "WIDER, MOST, CORE_BYTES = 1.0,",
        "cells",
    ),
    Fault(
        "what is expected is learned once, whoever was rejected",
        "_robust/cell_methods.py",
        "if source.teaching == teaching:",
        "if source.teaching is not None:",
        "cells",
    ),
    Fault(
        "single precision holds everything",
        "_engine/arrays/origin.py",
        "return bool(moderate and ",
        "return bool(moderate or ",
        "cells",
    ),
    Fault(
        "one round tells what is expected",
        "_robust/learning.py",
        "if moved <= STILL * guess.noise:",
        "if True:",
        "cells",
    ),
    Fault(
        "the scale of a cell has no floor",
        "_robust/spread.py",
        "np.maximum(np.where(np.isnan(away), typical, away), typical)",
        "np.where(np.isnan(away), typical, away)",
        "cells",
    ),
    Fault(
        "masks of blocks are not looked at",
        "_engine/arrays/source.py",
        "x = np.asarray(with_gaps(x))",
        "x = np.asarray(x)",
        "cells",
    ),
    Fault(
        "masks are ignored on Dask",
        "_engine/transformer.py",
        "map_blocks(with_gaps, dtype=kind",
        "map_blocks(np.asarray, dtype=kind",
        "cells",
    ),
    # solver
    Fault(
        "exact fits count for the scale",
        "_engine/solver.py",
        "telling = s > EXACT *",
        "telling = s > -EXACT *",
        "sweeps",
    ),
    Fault(
        "residuals of rounding set the scale",
        "_engine/solver.py",
        "np.maximum(weighted_quantiles(s, counted), noise)",
        "weighted_quantiles(s, counted)",
        "sweeps",
    ),
    Fault(
        "a rising sweep is not taken back",
        "_engine/solver.py",
        "                state, s = before\n",
        "",
        "sweeps",
    ),
    Fault(
        "the value of a rising sweep stays",
        "_engine/solver.py",
        "risen = objective.pop() - objective[-1]",
        "risen = objective[-1] - objective[-2]",
        "sweeps",
    ),
    Fault(
        "turned takes the smallest mode",
        "_engine/eigenvectors.py",
        "return max(sines, default=0.0)",
        "return min(sines, default=0.0)",
        "sweeps",
    ),
    Fault(
        "half of the digits of a turn",
        "_engine/eigenvectors.py",
        "float(np.linalg.norm(V - U @ (U.T @ V))) / math.sqrt(V.shape[1])",
        "math.sqrt(max(0.0, 1 - float(np.square(U.T @ V).sum()) / U.shape[1]))",
        "sweeps",
    ),
    Fault(
        "a turn may end no sweeps",
        "_engine/solver.py",
        " and moved < math.sqrt(tol)",
        "",
        "sweeps",
    ),
    Fault(
        "no patience",
        "_engine/solver.py",
        "long = tol > 0 and len(objective) > PATIENCE",
        "long = False",
        "sweeps",
    ),
    Fault(
        "sweeps rest though tol=0",
        "_engine/solver.py",
        "long = tol > 0 and",
        "long =",
        "sweeps",
    ),
    Fault(
        "the search resumes from the checkpoint",
        "_engine/state.py",
        "max_iter=sweeps, observe=None, resume=None",
        "max_iter=sweeps, observe=None",
        "sweeps",
    ),
    Fault(
        "the search is watched",
        "_engine/state.py",
        "max_iter=sweeps, observe=None, resume=None",
        "max_iter=sweeps, resume=None",
        "sweeps",
    ),
    Fault(
        "rounding chooses a sign",
        "_engine/eigenvectors.py",
        "(size >= (1 - EQUAL) * size.max(axis=0)).argmax(axis=0)",
        "size.argmax(axis=0)",
        "sweeps",
    ),
    Fault(
        "the trailing eigenvectors",
        "_engine/eigenvectors.py",
        "subset_by_index=(a - k, a - 1)",
        "subset_by_index=(0, k - 1)",
        "oracles",
    ),
    Fault(
        "weights of the user are not in the cost",
        "_engine/solver.py",
        "return float(value.sum() if weight is None else value @ weight)",
        "return float(value.sum())",
        "invariances trust_properties estimators",
    ),
    Fault(
        "the mean stays where it was",
        "_engine/solver.py",
        'mean = first / total if center == "weighted" else state.mean',
        "mean = state.mean",
        "oracles",
    ),
    Fault(
        "a plain mean moves",
        "_engine/solver.py",
        'mean = first / total if center == "weighted" else state.mean',
        "mean = first / total if center else state.mean",
        "oracles",
    ),
    Fault(
        "weights are not those of the residuals kept",
        "_engine/solver.py",
        "weights=weights_of(loss, residuals),",
        "weights=weights_of(loss, residuals[::-1]),",
        "oracles",
    ),
    Fault(
        "samples of weight zero set the scale",
        "_engine/solver.py",
        "counted = sample_weight\n",
        "counted = None\n",
        "sweeps losses invariances",
    ),
    # losses
    Fault(
        "log(p/2) forgotten",
        "losses/power.py",
        "math.log(self.p / 2) + (self.p / 2 - 1) * np.log(s + self.floor)",
        "(self.p / 2 - 1) * np.log(s + self.floor)",
        "losses",
    ),
    Fault(
        "alpha for alpha/2",
        "losses/correntropy.py",
        "log_u = self.alpha / 2 * (log_s - 2 * self.log_width)",
        "log_u = self.alpha * (log_s - 2 * self.log_width)",
        "losses oracles",
    ),
    Fault(
        "no floor of the weights",
        "losses/power.py",
        "return self if self.p == 2 else replace(self, floor=RELATIVE_FLOOR * typical(s))",
        "return self",
        "losses",
    ),
    Fault(
        "the cap is gone",
        "losses/correntropy.py",
        "return self._log_weight(np.maximum(s, self.peak) if self.cap else s)",
        "return self._log_weight(s)",
        "losses",
    ),
    Fault(
        "the unit is not a root",
        "losses/correntropy.py",
        "            unit = math.sqrt(typical(s))\n",
        "            unit = typical(s)\n",
        "losses oracles",
    ),
    Fault(
        "the upper quartile alone",
        "losses/scale.py",
        "sigma = math.log(min(below, above))",
        "sigma = math.log(above)",
        "losses",
    ),
    Fault(
        "the edge has no upper bound",
        "losses/scale.py",
        "min(max(math.exp(reach * sigma), EDGE_LEAST), EDGE_MOST)",
        "max(math.exp(reach * sigma), EDGE_LEAST)",
        "losses",
    ),
    Fault(
        "p is not in the weight",
        "losses/correntropy.py",
        "result = result + (self.p / 2 - 1) * log_value",
        "result = result + 0 * log_value",
        "losses",
    ),
    # kernels
    Fault(
        "merging forgets to rescale the other part",
        "_engine/passes.py",
        "        other.rescale(self.shift)\n",
        "",
        "sums",
    ),
    Fault(
        "merging forgets to rescale itself",
        "_engine/passes.py",
        "        self.rescale(other.shift)\n",
        "",
        "sums",
    ),
    Fault(
        "scatters are not rescaled",
        "_engine/passes.py",
        "self.second = {n: S * factor for n, S in self.second.items()}",
        "pass",
        "sums",
    ),
    Fault(
        "cancelled residuals are kept",
        "_engine/passes.py",
        "        if lost.size:\n",
        "        if False:\n",
        "invariances numerical_trust",
    ),
    Fault(
        "the mean's part beside the subspace is forgotten",
        "_engine/passes.py",
        "            s += float(self.beside @ self.beside)\n",
        "",
        "oracles",
    ),
    Fault(
        "recentring with the wrong sign",
        "_engine/products.py",
        "return S - weight *",
        "return S + weight *",
        "oracles",
    ),
    Fault(
        "weights for their roots",
        "_engine/products.py",
        "root = np.sqrt(weights).astype(A.dtype)",
        "root = weights.astype(A.dtype)",
        "oracles",
    ),
    Fault(
        "samples too large to be squared",
        "_engine/passes.py",
        "    if not (norms < LARGEST_SQUARE).all():\n",
        "    if False:\n",
        "bad_input numerical_trust",
    ),
    Fault(
        "the last chunk has no log-prior",
        "_engine/passes.py",
        "                    log_w = log_w + log_prior[lo:hi]\n",
        "                    log_w = log_w + 0 * log_prior[lo:hi]\n",
        "invariances trust_properties estimators",
    ),
    # sources
    Fault(
        "BLAS is not limited in the map",
        "_engine/arrays/source.py",
        "        with single_blas():\n            if self.n_threads == 1",
        "        with nullcontext():\n            if self.n_threads == 1",
        "threads",
    ),
    Fault(
        "a failed output looks whole",
        "_engine/arrays/source.py",
        "                    out[lo : lo + self.span] = np.nan\n",
        "                    pass\n",
        "threads out_of_core",
    ),
    Fault(
        "integers wrap around",
        "_engine/arrays/source.py",
        "x = np.subtract(x, self.origin.astype(self.dtype), dtype=self.dtype)",
        "x = (x - self.origin.astype(x.dtype)).astype(self.dtype)",
        "invariances numerical_trust out_of_core estimators",
    ),
    Fault(
        "the origin never moves",
        "_engine/arrays/origin.py",
        "    return place\n\n\ndef single",
        "    return np.zeros_like(place)\n\n\ndef single",
        "numerical_trust",
    ),
    Fault(
        "the unit is always one",
        "_engine/arrays/origin.py",
        "    return 2.0 ** math.floor(math.log2(largest))\n",
        "    return 1.0\n",
        "invariances trust_properties",
    ),
    Fault(
        "a pass that failed runs on",
        "_engine/arrays/source.py",
        "                        future.cancel()\n                    wait(waiting)\n",
        "                        pass\n",
        "threads",
    ),
    # sketch
    Fault(
        "no spare directions for large modes",
        "_engine/large_modes.py",
        "    return 10 + k // 2\n",
        "    return 0\n",
        "large_modes",
    ),
    Fault(
        "spares are not carried along",
        "_engine/large_modes.py",
        "    if spare is None:\n",
        "    if spare is not None or True:\n",
        "large_modes",
    ),
    Fault(
        "the first look at a large mode is the last",
        "_engine/large_modes.py",
        "            if next_gain(held) <= GAIN[dtype] *",
        "            if True or next_gain(held) <= GAIN[dtype] *",
        "large_modes",
    ),
    Fault(
        "a verdict that hangs on the ranks is kept for other ranks",
        "corr_tensor.py",
        "        if all(math.isnan(group.keeping) for group in verdict.groups):",
        "        if True:",
        "path",
    ),
    # scores
    Fault(
        "scales of the cores have no floor",
        "_engine/core_distances.py",
        "np.maximum(scale, RELATIVE_FLOOR * typical)",
        "np.maximum(scale, 0.0 * typical)",
        "scores",
    ),
    Fault(
        "the model of the cores steps with the wrong sign",
        "_engine/core_distances.py",
        "expand(self.location[None], old) - step",
        "expand(self.location[None], old) + step",
        "scores",
    ),
    Fault(
        "scales do not turn along",
        "_engine/core_distances.py",
        "None if U is None or V is None else np.square(U.T @ V)\n",
        "None if U is None or V is None else np.eye(U.shape[1])\n",
        "scores",
    ),
    Fault(
        "squares of distances overflow",
        "_engine/core_distances.py",
        "        z /= largest[:, None]\n",
        "        largest = np.ones(len(z))\n",
        "scores",
    ),
    # stream
    Fault(
        "the spread between means is dropped",
        "_engine/stream.py",
        "                S = S + past * added / total * scatter(F, Q)\n",
        "",
        "stream",
    ),
    Fault(
        "no bound of a weight",
        "_engine/stream.py",
        "np.exp(np.minimum(log_w - usual, math.log(HEAVIEST)))",
        "np.exp(log_w - usual)",
        "stream",
    ),
    Fault(
        "nothing is forgotten",
        "_engine/stream.py",
        "S = S + decay * remembered(",
        "S = S + remembered(",
        "stream",
    ),
    Fault(
        "the recent residuals are the oldest",
        "_engine/stream.py",
        "np.concatenate([stream.recent, s])[-RECENT:]",
        "np.concatenate([stream.recent, s])[:RECENT]",
        "stream",
    ),
    # checkpoint and files
    Fault(
        "the order of the samples is not in the mark",
        "_engine/checkpoint.py",
        "for array in (start.norms, start.mean, weight):",
        "for array in (np.sort(start.norms), start.mean.round(6), weight):",
        "checkpoint",
    ),
    Fault(
        "factors of a checkpoint may be any matrix",
        "_engine/checkpoint.py",
        "U.ndim == 2 and np.allclose(U.T @ U, np.eye(U.shape[1]), rtol=0, atol=1e-6)",
        "U.ndim == 2",
        "checkpoint",
    ),
    Fault(
        "other settings go on",
        "_engine/checkpoint.py",
        "        if other:\n",
        "        if other == ['data']:\n",
        "checkpoint",
    ),
    Fault(
        "weights of the user are not in the mark",
        "_engine/checkpoint.py",
        "(start.norms, start.mean, weight)",
        "(start.norms, start.mean)",
        "checkpoint",
    ),
    Fault(
        "the size of an array is not checked",
        "io/model_file.py",
        "if not known or math.prod(shape) * dtype.itemsize != size:",
        "if not known:",
        "storage",
    ),
    Fault(
        "the checksum is not looked at",
        "io/model_file.py",
        "    if end != COMMENT + digest:\n",
        "    if False:\n",
        "storage",
    ),
    Fault(
        "a compressed bomb is unpacked",
        "io/model_file.py",
        "    if not plain or sum(info.file_size for info in infos) > size:\n",
        "    if False:\n",
        "storage",
    ),
    Fault(
        "a later version is read",
        "io/model_file.py",
        "    if named[1] != VERSION:\n",
        "    if False:\n",
        "storage",
    ),
    # scores of outliers
    Fault(
        "a cut on a sample",
        "tasks/outliers.py",
        "self.offset_ = -clear_of(scores, float(cut))",
        "self.offset_ = -float(cut)",
        "outlier_detector",
    ),
    Fault(
        "likeness in single precision",
        "tasks/views.py",
        "    C = normalised(x) @ references.T\n",
        "    C = (normalised(x).astype('f4') @ references.T.astype('f4')).astype(float)\n",
        "profile",
    ),
    Fault(
        "a sample is its own likeness",
        "tasks/views.py",
        "    C[C > ITSELF] = -1.0\n",
        "",
        "profile",
    ),
    Fault(
        "rows of a table are judged by what they taught",
        "tasks/table.py",
        "own = np.where(teach, d, 0.0)",
        "own = np.where(teach, 0.0, 0.0)",
        "outlying_rows",
    ),
    Fault(
        "a row of bad cells is mended, and then judged",
        "tasks/_subspace.py",
        "gone |= gross & by_sample(few, gross)",
        "gone |= gross",
        "outlying_rows",
    ),
    Fault(
        "a move that is not noted before it is made",
        "io/moving.py",
        "        os.fsync(notes.fileno())\n        move_new(source, target)\n",
        "        move_new(source, target)\n",
        "moving",
    ),
    # tables as text
    Fault(
        "a line with a bad number is taken for names of columns",
        "io/csv_table.py",
        "named = any(map(is_text, names)) and not any(map(is_number, names))\n",
        "named = any(map(is_text, names))\n",
        "inputs",
    ),
    Fault(
        "a column with some text holds names",
        "io/csv_table.py",
        "    if is_number(field):\n",
        "    if False:\n",
        "inputs",
    ),
    Fault(
        "a gap and numbers are names of columns",
        "io/csv_table.py",
        "        and any(np.array_equal(column[1:], rows + start) for start in (0, 1))\n",
        "",
        "inputs",
    ),
    Fault(
        "decimal commas in the first line are names of columns",
        "io/csv_table.py",
        "        refuse_comma(path, line, k, name)\n",
        "        pass\n",
        "inputs",
    ),
    # which samples count
    Fault(
        "samples are judged by what they taught",
        "_robust/search.py",
        "teachers = some & ~half\n",
        "teachers = some.copy()\n",
        "search",
    ),
    Fault(
        "the metric counts samples by their size",
        "_robust/search.py",
        "weights = clipped * np.exp(d.min() - d)",
        "weights = np.maximum(self.away, 1e-300)",
        "search",
    ),
    Fault(
        "a group larger than the breakdown is rejected",
        "_robust/search.py",
        "> breakdown * counting.sum()",
        "> counting.sum()",
        "search",
    ),
    Fault(
        "samples that were not looked at are all kept",
        "_robust/verdict.py",
        "beyond = self.kept & (away > split.cut)",
        "beyond = np.zeros(len(away), dtype=bool)",
        "search",
    ),
    Fault(
        "what rejecting costs is not asked",
        "_robust/search.py",
        "keeping - rejecting > least",
        "math.inf > least",
        "search",
    ),
    Fault(
        "few samples far off are left to their costs",
        "_robust/search.py",
        "return split.distance >= 2 * FAR or",
        "return",
        "search",
    ),
    Fault(
        "samples that do not count say where learning begins",
        "_robust/learning.py",
        "middle = usual(x)",
        "middle = source.model.mean",
        "cells",
    ),
    Fault(
        "where no sample shows a cell, a mean is expected there all the same",
        "_robust/completed.py",
        "source.centered = centered or not nowhere.any()",
        "source.centered = True",
        "cells",
    ),
    Fault(
        "how far rare values stray shrinks to nothing",
        "_robust/completion.py",
        "LEAST_STRAY * float(np.median(away[away > 0]))",
        "0.0 * float(np.median(away[away > 0]))",
        "cells",
    ),
    Fault(
        "noise is not told by its cells",
        "_robust/completion.py",
        "proposed = splits.isolated() or splits.likeliest()",
        "proposed = None",
        "cells",
    ),
    Fault(
        "strays are judged by what they taught",
        "_robust/completion.py",
        "judged[np.flatnonzero(proposed.kept)[::2]] = False",
        "judged[proposed.kept] = False",
        "cells",
    ),
    Fault(
        "more samples stray than may be rejected",
        "_robust/search.py",
        "if group.rejected and weights[~split.kept].sum() > self.share * weights.sum():",
        "if False:",
        "cells",
    ),
    Fault(
        "equal samples are no evidence",
        "_robust/search.py",
        "Splits(d, least, self.times)",
        "Splits(d, least)",
        "search",
    ),
    Fault(
        "copies are a majority",
        "_robust/search.py",
        "votes = 1 / count_copies(entries, ALIKE)",
        "votes = np.ones(len(kept))",
        "search",
    ),
    Fault(
        "samples beyond the gap say nothing of the tail",
        "_robust/isolation.py",
        "joint = excess + beyond / tail * (x[self.kept - 1] - high[some])",
        "joint = excess",
        "search",
    ),
    Fault(
        "a mean excess is no estimate",
        "_robust/isolation.py",
        "tail * np.log1p(gap / excess / tail)",
        "gap / excess",
        "search",
    ),
    Fault(
        "what has no direction of its own is forgotten",
        "_robust/metric.py",
        "np.sqrt(rest).astype(x.dtype)",
        "0 * np.sqrt(rest).astype(x.dtype)",
        "search",
    ),
    Fault(
        "variances are not shrunk",
        "_robust/metric.py",
        "factors[n] = v + shrink * v.mean()",
        "factors[n] = v + 1e-12 * v.mean()",
        "search",
    ),
]


def pytest_arguments(tests: str) -> list[str]:
    return [str(ROOT / "tests" / f"test_{name}.py") for name in tests.split()]


def run_tests(package: Path, tests: str) -> str:
    """Return how the tests end with the package of a folder: passed, failed, or in words."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-qx", "--tb=no", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *pytest_arguments(tests)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "failed"
    return {0: "passed", 1: "failed"}.get(done.returncode, done.stdout + done.stderr)


def try_fault(fault: Fault) -> str:
    """Return what becomes of the tests with the fault in place."""
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder) / "corrtensor"
        shutil.copytree(ROOT / "src" / "corrtensor", package)
        file = package / fault.file
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace(fault.old, fault.new), encoding="utf-8")
        return run_tests(Path(folder), fault.tests)


def check_list(faults: list[Fault]) -> None:
    """End with a message unless every fault can be put in, in one place."""
    for fault in faults:
        text = (ROOT / "src" / "corrtensor" / fault.file).read_text(encoding="utf-8")
        if (count := text.count(fault.old)) != 1:
            sys.exit(f"{fault.file}: {fault.old!r} occurs {count} times, not once ({fault.name})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only faults whose name or file has one of these")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    faults = [
        fault
        for fault in FAULTS
        if not options.words or any(word in f"{fault.file} {fault.name}" for word in options.words)
    ]
    check_list(faults)
    files = sorted({name for fault in faults for name in fault.tests.split()})
    with ThreadPoolExecutor(options.jobs) as pool:
        # Without a fault everything passes, or a failure would tell nothing.
        sound = pool.map(lambda name: run_tests(ROOT / "src", name), files)
        broken = [
            f"{name}: {end}" for name, end in zip(files, sound, strict=True) if end != "passed"
        ]
        if broken:
            sys.exit("without any fault, these tests do not pass:\n" + "\n".join(broken))
        survivors = 0
        for fault, end in zip(faults, pool.map(try_fault, faults), strict=True):
            if end not in ("passed", "failed"):
                sys.exit(f"{fault.name}: {end}")
            survivors += end == "passed"
            said = "SURVIVED" if end == "passed" else "caught"
            print(f"{said:9} {fault.file:26} {fault.name}", flush=True)
    print(f"{len(faults) - survivors} of {len(faults)} caught")
    return survivors


if __name__ == "__main__":
    sys.exit(main())
