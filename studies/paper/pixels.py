"""Small pictures as text, so that a record can hold them: eight bits, packed."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

__all__ = ["pack", "unpack"]

WHITE = 255


def pack(image: np.ndarray) -> dict[str, Any]:
    """Return an array with entries in [0, 1] as JSON can hold it, rounded to 256 levels.

    Parameters
    ----------
    image : ndarray
        Entries beyond [0, 1] are cut off.

    Returns
    -------
    packed : dict
        ``shape`` and ``pixels``.

    Examples
    --------
    >>> import numpy as np
    >>> from studies.paper.pixels import pack, unpack
    >>> unpack(pack(np.array([[0.0, 0.2], [1.0, 7.0]]))).tolist()
    [[0.0, 0.2], [1.0, 1.0]]
    """
    levels = np.rint(np.clip(image, 0, 1) * WHITE).astype(np.uint8)
    text = base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode("ascii")
    return {"shape": list(levels.shape), "pixels": text}


def unpack(packed: dict[str, Any]) -> np.ndarray:
    """Return the array that :func:`pack` was given, to within rounding."""
    levels = np.frombuffer(zlib.decompress(base64.b64decode(packed["pixels"])), dtype=np.uint8)
    return levels.reshape(packed["shape"]) / WHITE
