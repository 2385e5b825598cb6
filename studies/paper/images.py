"""The paper's data sets by name, and what stands in for those that are missing.

Images are float64 with entries in [0, 1]; those of MNIST stay bytes until they are drawn. What
stands in comes with other packages: faces of 25 x 25 pixels, digits, pieces of a photograph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import numpy as np

from corrtensor._base.extras import need
from corrtensor.datasets import (
    load_digits,
    load_faces,
    load_lfwcrop,
    load_mnist,
    load_mnist_part,
    load_orl,
    load_yale,
)
from studies.paper.study import Folder

__all__ = [
    "PIXELS",
    "STAND_INS",
    "UNIT",
    "UNIT_ALL",
    "as_floats",
    "find",
    "load",
    "stands_in",
    "unit_norm",
]

Labelled = tuple[np.ndarray, np.ndarray]

# The units that samples may be in.
PIXELS, UNIT, UNIT_ALL = "pixels", "unit norm", "unit norm, noise too"
YALE_SIDE = 100
# The paper's five people, and the one of its colour reconstructions.
FIVE = ("Colin_Powell", "Donald_Rumsfeld", "George_W_Bush", "Gerhard_Schroeder", "Tony_Blair")
ONE = "Amelie_Mauresmo"
FIRST_PEOPLE = 10
PIECE, N_PIECES = 32, 21


def yale(folder: Folder) -> Labelled:
    """Return the 165 faces; the paper does not give their size."""
    faces = load_yale(folder, size=(YALE_SIDE, YALE_SIDE))
    return faces.images / 255.0, faces.target


def orl(folder: Folder, after: int = 0) -> Labelled:
    """Return ten people after some others, 112 x 92 pixels."""
    faces = load_orl(folder)
    chosen = (faces.target > after) & (faces.target <= after + FIRST_PEOPLE)
    return faces.images[chosen] / 255.0, faces.target[chosen]


def lfw_grey(folder: Folder) -> Labelled:
    """Return the five people in grey."""
    faces = load_lfwcrop(folder, color=False, people=FIVE)
    return faces.images / 255.0, faces.target


def lfw_colour(folder: Folder) -> Labelled:
    """Return the five people in colour."""
    faces = load_lfwcrop(folder, people=FIVE)
    return faces.images / 255.0, faces.target


def one_person(folder: Folder) -> Labelled:
    """Return the 21 colour images of one person."""
    faces = load_lfwcrop(folder, people=[ONE])
    return faces.images / 255.0, faces.target


def mnist(folder: Folder) -> Labelled:
    """Return the training images."""
    digits = load_mnist(folder)
    return digits.images, digits.target


def mnist_test(folder: Folder) -> Labelled:
    """Return the test images."""
    digits = load_mnist(folder, subset="test")
    return digits.images, digits.target


def mnist_part(folder: Folder) -> Labelled:
    """Return 500 of each digit."""
    digits = load_mnist_part()
    return digits.images, digits.target


def small_faces(folder: Folder) -> Labelled:
    """Return 100 faces of 25 x 25 pixels."""
    faces = load_faces()
    chosen = faces.target == 1
    return faces.images[chosen], faces.target[chosen]


def digits(folder: Folder) -> Labelled:
    """Return digits of 8 x 8 pixels."""
    small = load_digits()
    return small.images / 16.0, small.target


def ten_digits(folder: Folder) -> Labelled:
    """Return the first ten images of each digit of MNIST's part, by digit."""
    images, labels = mnist_part(folder)
    chosen = np.concatenate([np.flatnonzero(labels == digit)[:10] for digit in range(10)])
    return as_floats(images[chosen]), labels[chosen]


def pieces(folder: Folder) -> Labelled:
    """Return 21 overlapping pieces of a photograph in colour, from its face outwards."""
    data = need("skimage.data", "data", "the photograph")
    photograph = data.astronaut()[:256, 96:352] / 255.0
    # Every second pixel, so that a piece shows more than skin.
    thin = photograph[::2, ::2]
    places = [(row, column) for row in range(0, 96, 16) for column in range(16, 80, 16)]
    cut = [thin[r : r + PIECE, c : c + PIECE] for r, c in places[:N_PIECES]]
    return np.stack(cut), np.zeros(N_PIECES, dtype=int)


SETS: Mapping[str, Callable[[Folder], Labelled]] = {
    "Yale 100x100": yale,
    "ORL 10 people": orl,
    "ORL people 11 to 20": partial(orl, after=10),
    "ORL people 21 to 30": partial(orl, after=20),
    "ORL people 31 to 40": partial(orl, after=30),
    "LFW grey": lfw_grey,
    "LFW colour": lfw_colour,
    "LFW Mauresmo": one_person,
    "MNIST": mnist,
    "MNIST test": mnist_test,
    "MNIST part": mnist_part,
    "small faces 25x25": small_faces,
    "digits 8x8": digits,
    "MNIST 10 each": ten_digits,
    "photograph 32x32x3": pieces,
}
STAND_INS: Mapping[str, str] = {
    "Yale 100x100": "small faces 25x25",
    "ORL 10 people": "MNIST 10 each",
    "LFW grey": "digits 8x8",
    "LFW Mauresmo": "photograph 32x32x3",
    "MNIST": "MNIST part",
}


@lru_cache(maxsize=6)
def load(name: str, folder: Folder) -> Labelled:
    """Return the images and labels of a set, loaded once."""
    return SETS[name](folder)


def find(name: str, folder: Folder) -> str:
    """Return the name of a set, or of what stands in for it where it is missing."""
    try:
        load(name, folder)
    except FileNotFoundError:
        return STAND_INS[name]
    return name


def stands_in(name: str) -> bool:
    """Tell whether a set only stands in for one of the paper's."""
    return name in STAND_INS.values()


def as_floats(X: np.ndarray) -> np.ndarray:
    """Return images with entries in [0, 1]."""
    return X / 255.0 if X.dtype == np.uint8 else X


def unit_norm(X: np.ndarray) -> np.ndarray:
    """Return samples scaled to norm one; those of zeros stay."""
    norms = np.linalg.norm(X.reshape(len(X), -1), axis=1)
    return X / np.where(norms > 0, norms, 1.0).reshape(-1, *[1] * (X.ndim - 1))
