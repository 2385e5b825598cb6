"""Small pictures inside a page: arrays to data URIs, with Pillow."""

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from corrtensor.report.pictures import View, as_bytes, sequential, unit_range, value_limits

# Pictures with no longer side are kept pixel by pixel: loss would show when they are enlarged.
LOSSLESS_SIDE = 40
QUALITY, ATLAS_QUALITY = 82, 60
# A line is drawn this much larger and shrunk: its edges become smooth.
OVERSAMPLING = 3
LINE, PAPER = (0, 90, 160), (250, 250, 250)
# Beyond the usual range by more than this share of it, a picture gets a range of its own.
SLACK = 0.25


def pillow() -> Any:
    """Import Pillow, or say how to install it."""
    try:
        import PIL.Image
        import PIL.ImageDraw
    except ImportError as error:
        raise ImportError(
            f"report pages need Pillow: pip install 'corrtensor[report]' ({error})"
        ) from error
    return PIL


def shrink(picture: np.ndarray, side: int) -> np.ndarray:
    """Return a picture whose longer side has at most ``side`` pixels."""
    rows, columns = picture.shape[:2]
    scale = side / max(rows, columns)
    if scale >= 1:
        return picture
    size = max(1, round(columns * scale)), max(1, round(rows * scale))
    image = pillow().Image.fromarray(np.ascontiguousarray(picture))
    return np.asarray(image.resize(size, pillow().Image.Resampling.BOX))


def data_uri(picture: np.ndarray, quality: int = QUALITY) -> str:
    """Return a picture of bytes, grey or RGB, as a data URI."""
    buffer = io.BytesIO()
    image = pillow().Image.fromarray(np.ascontiguousarray(picture)).convert("RGB")
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

    def __init__(self, view: View, limits: tuple[float, float], *, fixed: bool = False) -> None:
        self.view, self.limits, self.fixed = view, limits, fixed

    def limits_for(self, sample: np.ndarray) -> tuple[float, float]:
        """Return the usual range, wider if the sample leaves it by far."""
        low, high = self.limits
        slack = SLACK * (high - low)
        inside = sample.min() >= low - slack and sample.max() <= high + slack
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
            return line(unit_range(size, (0.0, float(size.max()) or 1.0)), side)
        return shrink(sequential(size), side)


def line(heights: np.ndarray, side: int) -> np.ndarray:
    """Draw values in [0, 1] as a line on a picture twice as wide as high."""
    width, height = side * OVERSAMPLING, side * OVERSAMPLING // 2
    margin = 2 * OVERSAMPLING
    x = np.linspace(margin, width - 1 - margin, len(heights))
    y = margin + (1 - heights) * (height - 1 - 2 * margin)
    image = pillow().Image.new("RGB", (width, height), PAPER)
    points = list(zip(x.tolist(), y.tolist(), strict=True))
    draw = pillow().ImageDraw.Draw(image)
    if len(points) == 1:
        draw.line([(margin, y[0]), (width - margin, y[0])], fill=LINE, width=OVERSAMPLING)
    else:
        draw.line(points, fill=LINE, width=OVERSAMPLING, joint="curve")
    return np.asarray(image.resize((side, side // 2), pillow().Image.Resampling.BOX))
