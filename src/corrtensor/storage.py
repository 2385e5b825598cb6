"""Model files: ``save`` and ``load``."""

import os
from typing import Any

from corrtensor.io.encoding import ESTIMATORS
from corrtensor.io.model_file import FORMAT, ModelFileError, read, write

__all__ = ["ModelFileError", "load", "save"]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file.

    The file appears when it is complete; should anything fail, one that was there is untouched.
    The format is open and holds no code: ``docs/model-files.md``.

    Parameters
    ----------
    model : estimator
        Any estimator of this package, fitted or not, with what it is made of. ``callback``,
        ``checkpoint`` and ``verbose``, which belong to a run, are left out.
    path : path-like
        The file, by custom ``.ct``.

    See Also
    --------
    load : Read it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import corrtensor as ct
    >>> X = np.random.default_rng(0).normal(size=(30, 5, 4))
    >>> model = ct.CorrTensor(ranks=(2, 2)).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ct.save(model, Path(folder) / "model.ct")
    ...     again = ct.load(Path(folder) / "model.ct")
    >>> bool(np.array_equal(again.transform(X), model.transform(X)))
    True
    """
    if type(model).__name__ not in ESTIMATORS:
        raise TypeError(
            f"a {type(model).__name__} cannot be saved; these can: {', '.join(ESTIMATORS)}"
        )
    write(model, path, FORMAT)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that :func:`save` has written.

    No file can run code or ask for more memory than a few times its own size.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    model : estimator
        As it was saved.

    Raises
    ------
    ModelFileError
        A ``ValueError``: the file is no model file, was cut short or altered, or comes from a
        later version.

    See Also
    --------
    save : Write it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import corrtensor as ct
    >>> X = np.random.default_rng(0).normal(size=(30, 5, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ct.save(ct.CorrTensor(ranks=(2, 2)).fit(X), Path(folder) / "model.ct")
    ...     ct.load(Path(folder) / "model.ct").ranks_
    (2, 2)
    """
    model = read(path, FORMAT)
    if type(model).__name__ not in ESTIMATORS:
        raise ModelFileError(f"{path} holds no model: its content is a {type(model).__name__}")
    return model
