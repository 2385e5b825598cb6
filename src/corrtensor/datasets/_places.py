"""Where the data sets are on disk, and whether their archives are whole."""

import hashlib
import io
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import get_data_home

VARIABLE = "CORRTENSOR_DATA"

# Each known archive: the sha256 of its accepted contents, and their sizes in bytes.
# The second of MNIST is the file that Keras hands out: the same arrays, packed anew.
ARCHIVES: dict[str, dict[str, int]] = {
    "mnist.npz": {
        "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64": 11_490_519,
        "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1": 11_490_434,
    },
    "orl.npz": {
        "3f2d3390be2c7a501d19bc98a4a233e8008336b447ce299d2807c52984e573b6": 3_687_891,
    },
    "yale.npz": {
        "f004742f69614a59424f3d605e4bf410c6a06c81b545d0e1f9ac13250904c56b": 5_439_568,
    },
    "yale64.npz": {
        "b36ade0ed72854d4655035d034a090caa5272540fb183acec0fcc63a006964e1": 601_996,
    },
    "lfwcrop_subset.npz": {
        "b0c089ce426be0b56ae1ca9289dd40cda6dbafab520b0a763e433e7ad71dd1bf": 13_198_800,
    },
}


def data_root(data_dir: str | os.PathLike[str] | None) -> Path:
    """Return the data folder: the argument, else the variable, else scikit-learn's data home."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    return Path(get_data_home()) / "corrtensor"


def missing(title: str, root: Path, forms: Iterable[str]) -> FileNotFoundError:
    """Make the error that says which files to put where."""
    where = f"in {root}" if root.is_dir() else f"in {root} (there is no such folder)"
    return FileNotFoundError(
        "\n".join(
            [
                f"{title} not found {where}. Nothing is downloaded; put one of these there:",
                *(f"  - {form}" for form in forms),
                f"or name another folder with data_dir= or the environment variable {VARIABLE}.",
            ]
        )
    )


def incomplete(title: str, folder: Path, absent: Sequence[str], total: int) -> ValueError:
    """Make the error for a folder that holds only a part of a data set."""
    named = ", ".join(absent[:3]) + (", ..." if len(absent) > 3 else "")
    return ValueError(f"{title} in {folder}: {len(absent)} of {total} images are missing ({named})")


def matching(folder: Path, pattern: str) -> list[tuple[re.Match[str], Path]]:
    """List the files whose whole name fits ``pattern``, in any case; strays are passed over."""
    if not folder.is_dir():
        return []
    found = (
        (re.fullmatch(pattern, path.name, re.IGNORECASE), path) for path in sorted(folder.iterdir())
    )
    return [(match, path) for match, path in found if match and path.is_file()]


def read_archive(path: Path) -> Any:
    """Open a known ``.npz`` after checking its sum."""
    content = path.read_bytes()
    sums = ARCHIVES[path.name]
    found = hashlib.sha256(content).hexdigest()
    if found not in sums:
        expected, size = next(iter(sums.items()))
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {size} bytes with sha256 {expected} expected, "
            f"{len(content)} bytes with sha256 {found} found. Fetch it again."
        )
    return np.load(io.BytesIO(content), allow_pickle=False)
