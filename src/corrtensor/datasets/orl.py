"""ORL (AT&T) faces: 40 people, 10 grey images each, 112 x 92 pixels."""

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from corrtensor.datasets._places import data_root, read_archive, read_pnm, whole_folder

SHAPE = (112, 92)
FOLDERS = ("orl", "orl_faces", "att_faces")


def load_orl(data_dir: str | os.PathLike[str] | None = None) -> Bunch:
    """Load the ORL faces from ``orl.npz`` or from folders ``s1/1.pgm`` to ``s40/10.pgm``.

    Parameters
    ----------
    data_dir : path-like, default=None
        The folder with the files. By default the folder that the environment variable
        ``CORRTENSOR_DATA`` names, else ``corrtensor`` in scikit-learn's data home.
        ``orl.npz`` is taken first; else ``s1`` to ``s40`` in the folder itself or in ``orl``,
        ``orl_faces`` or ``att_faces``. All 400 images must be there; other files are ignored.

    Returns
    -------
    Bunch
        ``images`` (uint8, shape (400, 112, 92), by person and number), ``target`` (the person,
        1 to 40), ``description`` and ``source`` (the file or folder read).

    Examples
    --------
    With the files in place, the paper's first ten people are ``load_orl().images[:100]``.
    Without them, the error says what to put where:

    >>> from corrtensor.datasets import load_orl
    >>> load_orl("no-such-folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: ORL faces not found in no-such-folder (there is no such folder)...
    """
    root = data_root(data_dir)
    source = root / "orl.npz"
    if source.is_file():
        with read_archive(source) as arrays:
            images, target = arrays["images"], arrays["labels"]
    else:
        names = [f"s{k}/{j}.pgm" for k in range(1, 41) for j in range(1, 11)]
        forms = [
            "orl.npz (arrays images, labels)",
            f"folders s1/1.pgm to s40/10.pgm, here or in one of {', '.join(FOLDERS)}",
        ]
        paths, source = whole_folder("ORL faces", root, FOLDERS, _files, names, forms)
        images = np.stack([read_pnm(path, SHAPE) for path in paths])
        target = np.repeat(np.arange(1, 41), 10)
    return Bunch(
        images=images,
        target=target,
        description="ORL (AT&T) faces: 400 grey images of 112 x 92 pixels, 40 people, 10 each",
        source=str(source),
    )


def _files(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.glob("s*/*.pgm")}
