"""MNIST: 70 000 handwritten digits of 28 x 28 pixels."""

import os
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from corrtensor.datasets._places import check_shape, data_root, missing, read_archive, read_idx

PREFIXES = {"train": "train", "test": "t10k"}


def load_mnist(data_dir: str | os.PathLike[str] | None = None, *, subset: str = "train") -> Bunch:
    """Load the MNIST digits from ``mnist.npz`` or from the original IDX files.

    Parameters
    ----------
    data_dir : path-like, default=None
        The folder with the files. By default the folder that the environment variable
        ``CORRTENSOR_DATA`` names, else ``corrtensor`` in scikit-learn's data home.
        ``mnist.npz`` is taken first; else the IDX files, packed or not, in the folder
        itself, in ``mnist`` or in ``MNIST/raw``.
    subset : {"train", "test"}, default="train"
        The 60 000 training images or the 10 000 test images.

    Returns
    -------
    Bunch
        ``images`` (uint8, 0 to 255, shape (N, 28, 28)), ``target`` (the digits),
        ``target_names``, ``description`` and ``source`` (the file or folder read).

    Examples
    --------
    With the files in place, ``load_mnist().images`` has shape (60000, 28, 28). Without them,
    the error says what to put where:

    >>> from corrtensor.datasets import load_mnist
    >>> load_mnist("no-such-folder")
    Traceback (most recent call last):
        ...
    FileNotFoundError: MNIST (train) not found in no-such-folder (there is no such folder)...
    """
    if subset not in PREFIXES:
        raise ValueError(f"subset={subset!r}: choose 'train' or 'test'")
    root = data_root(data_dir)
    archive = root / "mnist.npz"
    if archive.is_file():
        with read_archive(archive) as arrays:
            images, target = arrays[f"x_{subset}"], arrays[f"y_{subset}"]
        source = archive
    else:
        images, target, source = _from_idx(root, subset)
    return Bunch(
        images=images,
        target=target.astype(np.int64),
        target_names=np.array([str(digit) for digit in range(10)]),
        description=f"MNIST handwritten digits, {subset}: {len(images)} images of 28 x 28 pixels",
        source=str(source),
    )


def _from_idx(root: Path, subset: str) -> tuple[np.ndarray, np.ndarray, Path]:
    prefix = PREFIXES[subset]
    for folder in (root, root / "mnist", root / "MNIST" / "raw"):
        image_file = _find(folder, f"{prefix}-images", "idx3-ubyte")
        label_file = _find(folder, f"{prefix}-labels", "idx1-ubyte")
        if image_file and label_file:
            break
    else:
        raise missing(
            f"MNIST ({subset})",
            root,
            [
                "mnist.npz (arrays x_train, y_train, x_test, y_test)",
                f"{prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte, each with or without "
                ".gz, also spelt with a dot (images.idx3), here or in mnist or MNIST/raw",
            ],
        )
    images, labels = read_idx(image_file), read_idx(label_file)
    check_shape(image_file, images.shape[1:], (28, 28))
    if labels.shape != (len(images),) or labels.max(initial=0) > 9:
        raise ValueError(
            f"{label_file} holds {labels.shape} labels up to {labels.max(initial=0)}; one digit "
            f"for each of the {len(images)} images of {image_file.name} expected"
        )
    return images, labels, folder


def _find(folder: Path, stem: str, kind: str) -> Path | None:
    names = [f"{stem}{joint}{kind}{packed}" for packed in ("", ".gz") for joint in "-."]
    return next((folder / name for name in names if (folder / name).is_file()), None)
