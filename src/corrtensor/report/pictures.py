"""What is drawn of a sample: a line, a grey or a colour picture, or a few slices of a tensor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_SLICES = 4
# Last modes of so many entries are the channels of a colour.
CHANNELS = (3, 4)
# The share of entries at either end that may lie outside the range of a picture.
CLIPPED = 0.005
# Anchors of two scales that all eyes can tell apart: cividis, and Okabe and Ito's blue against
# vermilion.
CIVIDIS = ((0, 32, 77), (65, 77, 107), (124, 123, 120), (188, 175, 111), (255, 234, 70))
BLUE_TO_VERMILION = ((0, 90, 160), (120, 175, 215), (247, 247, 247), (240, 160, 110), (190, 70, 0))


@dataclass(frozen=True)
class View:
    """Which entries of a sample are drawn, and how: as a line, a grey or a colour picture.

    ``slices`` are those that are drawn, counted through the leading modes; ``words`` tell a reader.
    """

    shape: tuple[int, ...]
    kind: str
    slices: tuple[int, ...]
    words: str

    def picture(self, sample: np.ndarray) -> np.ndarray:
        """Return the drawn part of a sample: (n,), (rows, columns) or (rows, columns, 3)."""
        if self.kind == "line":
            return sample
        tail = 3 if self.kind == "colour" else 2
        images = sample.reshape(-1, *self.shape[len(self.shape) - tail :])
        if not self.slices:
            image = images[0]
        else:
            side = math.ceil(math.sqrt(len(self.slices)))
            # A line of nothing parts the slices.
            part = [(0, 1), (0, 1)] + [(0, 0)] * (tail - 2)
            chosen = [
                np.pad(images[i].astype(float), part, constant_values=np.nan) for i in self.slices
            ]
            chosen += [np.full_like(chosen[0], np.nan)] * (-len(chosen) % side)
            rows = [chosen[i : i + side] for i in range(0, len(chosen), side)]
            image = np.concatenate([np.concatenate(row, axis=1) for row in rows])[:-1, :-1]
        return image[..., :3] if self.kind == "colour" else image

    def magnitude(self, difference: np.ndarray) -> np.ndarray:
        """Return the size of a difference, one number for each drawn place."""
        picture = self.picture(difference)
        if self.kind == "colour":
            return np.sqrt(np.square(picture).mean(axis=-1))
        return np.abs(picture)


def times(shape: Sequence[int]) -> str:
    """Return a shape in words: ``64 × 64 × 3``."""
    return " × ".join(str(a) for a in shape)  # noqa: RUF001


def view_of(shape: tuple[int, ...]) -> View:
    """Return how samples of a shape are drawn.

    A last mode of 3 or 4 entries, after two others, is colour. The last two modes but for that
    are rows and columns; of leading ones a few slices are shown.

    Examples
    --------
    >>> from corrtensor.report.pictures import view_of
    >>> view_of((64, 64, 3)).kind
    'colour'
    >>> view_of((16, 20, 30)).words
    'slices 1, 6, 11 and 16 of 16, each 20 × 30'
    """
    if len(shape) == 1:
        return View(shape, "line", (), f"lines of {shape[0]} values")
    colour = len(shape) > 2 and shape[-1] in CHANNELS
    kind, tail = ("colour", 3) if colour else ("grey", 2)
    rows, columns = shape[len(shape) - tail : len(shape) - tail + 2]
    leading = math.prod(shape[: len(shape) - tail])
    note = "; the fourth channel is not drawn" if colour and shape[-1] == 4 else ""
    if leading == 1:
        return View(shape, kind, (), f"{kind} pictures of {times((rows, columns))}{note}")
    slices = np.linspace(0, leading - 1, min(MOST_SLICES, leading)).round().astype(int)
    numbers = [str(i + 1) for i in slices]
    listed = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    words = f"slices {listed} of {leading}, each {times((rows, columns))}{note}"
    return View(shape, kind, tuple(int(i) for i in slices), words)


def value_limits(values: np.ndarray, dtype: np.dtype | None = None) -> tuple[float, float]:
    """Return the values drawn darkest and brightest: of bytes 0 and 255, else nearly all."""
    if dtype is not None and dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.quantile(values, [CLIPPED, 1 - CLIPPED])
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return float(low), float(high)


def unit_range(picture: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Map values to 0 (darkest) to 1 (brightest); what was not there is bright."""
    low, high = limits
    scaled = np.clip((picture - low) / (high - low), 0.0, 1.0)
    scaled[np.isnan(scaled)] = 1.0
    return scaled


def as_bytes(picture: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Return a picture in 256 steps of brightness."""
    return (unit_range(picture, limits) * 255).round().astype(np.uint8)


def coloured(values: np.ndarray, anchors: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """Return values in [0, 1] as colours between the anchors."""
    at = np.linspace(0, 1, len(anchors))
    channels = [np.interp(values, at, [anchor[c] for anchor in anchors]) for c in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def sequential(magnitude: np.ndarray) -> np.ndarray:
    """Return sizes as colours, from dark blue at zero to yellow at the largest."""
    largest = float(np.nanmax(magnitude, initial=0.0))
    colours = coloured(unit_range(magnitude, (0.0, largest or 1.0)), CIVIDIS)
    colours[np.isnan(magnitude)] = 255
    return colours


def diverging(values: np.ndarray) -> np.ndarray:
    """Return signed values as colours: blue below zero, white at it, vermilion above."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    centred = np.nan_to_num(values / (largest or 1.0), nan=0.0)
    return coloured((centred + 1) / 2, BLUE_TO_VERMILION)
