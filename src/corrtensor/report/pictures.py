"""What is drawn of a sample: a line, a grey or a colour picture, or a few slices of a tensor.

Pictures on pages are small, and lie in the page as data URIs.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor._engine.arrays.origin import choose_pilots
from corrtensor._engine.arrays.source import Source

MOST_SLICES = 4
# Last modes of so many entries are the channels of a colour.
CHANNELS = (3, 4)
# The share of entries at either end that may lie outside the range of a picture.
CLIPPED = 0.005
# Anchors of two scales that all eyes can tell apart: cividis, and Okabe and Ito's blue against
# vermilion.
CIVIDIS = ((0, 32, 77), (65, 77, 107), (124, 123, 120), (188, 175, 111), (255, 234, 70))
BLUE_TO_VERMILION = ((0, 90, 160), (120, 175, 215), (247, 247, 247), (240, 160, 110), (190, 70, 0))
# Vermilion: cells that were replaced.
MARK = (213, 94, 0)
# Pictures with no longer side are kept pixel by pixel: loss would show when they are enlarged.
LOSSLESS_SIDE = 40
QUALITY, ATLAS_QUALITY = 82, 60
# A line is drawn this much larger and shrunk: its edges become smooth.
OVERSAMPLING = 3
LINE, PAPER = (0, 90, 160), (250, 250, 250)
# Beyond the usual range by more than this share of it, a picture gets a range of its own.
SLACK = 0.25


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
    if not values.size:
        return 0.0, 1.0
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


def image_module() -> Any:
    """Import Pillow, or say how to install it."""
    return need("PIL.Image", "report", "a report page")


def shrink(picture: np.ndarray, side: int) -> np.ndarray:
    """Return a picture whose longer side has at most ``side`` pixels."""
    rows, columns = picture.shape[:2]
    scale = side / max(rows, columns)
    if scale >= 1:
        return picture
    size = max(1, round(columns * scale)), max(1, round(rows * scale))
    image = image_module().fromarray(np.ascontiguousarray(picture))
    return np.asarray(image.resize(size, image_module().Resampling.BOX))


def data_uri(picture: np.ndarray, quality: int = QUALITY) -> str:
    """Return a picture of bytes, grey or RGB, as a data URI."""
    buffer = io.BytesIO()
    image = image_module().fromarray(np.ascontiguousarray(picture)).convert("RGB")
    lossless = max(picture.shape[:2]) <= LOSSLESS_SIDE
    image.save(buffer, "WEBP", lossless=lossless, quality=quality, method=4)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def atlas(tiles: Sequence[np.ndarray]) -> dict[str, Any]:
    """Lay tiles of one size side by side in one picture, which is smaller than many are."""
    rows, columns = tiles[0].shape[:2]
    across = max(1, math.ceil(math.sqrt(len(tiles) * rows / columns)))
    down = math.ceil(len(tiles) / across)
    sheet = np.full((down * rows, across * columns, 3), 255, np.uint8)
    for k, tile in enumerate(tiles):
        r, c = divmod(k, across)
        rgb = tile if tile.ndim == 3 else tile[..., None]
        sheet[r * rows : (r + 1) * rows, c * columns : (c + 1) * columns] = rgb
    uri = data_uri(sheet, ATLAS_QUALITY)
    return {"uri": uri, "width": columns, "height": rows, "across": across, "down": down}


class Painter:
    """Draws samples, reconstructions and residuals of one stack alike.

    ``limits`` are the values usually drawn darkest and brightest; if ``fixed``, no picture may have
    a range of its own.
    """

    def __init__(self, view: View, limits: tuple[float, float], *, fixed: bool) -> None:
        self.view, self.limits, self.fixed = view, limits, fixed

    @classmethod
    def of(cls, source: Source, usual: np.ndarray) -> Painter:
        """Return a painter whose range is that of usual samples, told by some of them."""
        view, dtype = view_of(source.sample_shape), np.dtype(source.X.dtype)
        some = usual[choose_pilots(len(usual), source.sample_shape)]
        values = np.stack([view.picture(x) for x in source.take(some)])
        limits = value_limits(values[np.isfinite(values)], dtype)
        return cls(view, limits, fixed=dtype == np.uint8)

    def limits_for(self, sample: np.ndarray) -> tuple[float, float]:
        """Return the usual range, wider if the sample leaves it by far."""
        low, high = self.limits
        slack = SLACK * (high - low)
        known = sample[np.isfinite(sample)]
        inside = not known.size or (known.min() >= low - slack and known.max() <= high + slack)
        if self.fixed or inside:
            return self.limits
        picture = self.view.picture(sample)
        own = value_limits(picture[np.isfinite(picture)])
        return min(low, own[0]), max(high, own[1])

    def sample(self, sample: np.ndarray, limits: tuple[float, float], side: int) -> np.ndarray:
        """Return a sample, or its reconstruction, as bytes."""
        if self.view.kind == "line":
            return line(unit_range(sample, limits), side)
        return shrink(as_bytes(self.view.picture(sample), limits), side)

    def residual(self, difference: np.ndarray, side: int) -> np.ndarray:
        """Return where a sample and its reconstruction differ: yellow is most."""
        size = self.view.magnitude(difference)
        if self.view.kind == "line":
            largest = float(np.nanmax(size, initial=0.0))
            return line(unit_range(size, (0.0, largest or 1.0)), side)
        return shrink(sequential(size), side)

    def marked(
        self, sample: np.ndarray, cells: np.ndarray, limits: tuple[float, float], side: int
    ) -> np.ndarray:
        """Return a sample with some of its cells in vermilion; of a line, which they are."""
        places = self.view.picture(cells.astype(float))
        if self.view.kind == "line":
            return line(places, side)
        picture = as_bytes(self.view.picture(sample), limits)
        if self.view.kind == "colour":
            places = places.max(axis=-1)
        else:
            picture = np.repeat(picture[..., None], 3, axis=-1)
        picture[places > 0] = MARK
        return shrink(picture, side)


def line(heights: np.ndarray, side: int) -> np.ndarray:
    """Draw values in [0, 1] as a line on a picture twice as wide as high."""
    width, height = side * OVERSAMPLING, side * OVERSAMPLING // 2
    margin = 2 * OVERSAMPLING
    x = np.linspace(margin, width - 1 - margin, len(heights))
    y = margin + (1 - heights) * (height - 1 - 2 * margin)
    image = image_module().new("RGB", (width, height), PAPER)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    draw = need("PIL.ImageDraw", "report", "a report page").Draw(image)
    if len(points) == 1:
        draw.line([(margin, y[0]), (width - margin, y[0])], fill=LINE, width=OVERSAMPLING)
    else:
        draw.line(points, fill=LINE, width=OVERSAMPLING, joint="curve")
    return np.asarray(image.resize((side, side // 2), image_module().Resampling.BOX))
