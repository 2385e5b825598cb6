"""Image files in the formats the data sets are handed out in; each error names the file."""

import gzip
import math
import re
import zlib
from pathlib import Path

import numpy as np

from corrtensor._base.extras import need

GAP = rb"(?:\s|#.*\n)+"
PNM_HEADER = re.compile(rb"P([56])" + GAP + rb"(\d+)" + GAP + rb"(\d+)" + GAP + rb"(\d+)\s")
GZIP_MAGIC = b"\x1f\x8b"
IDX_OF_BYTES = b"\0\0\x08"


def read_pnm(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Read a binary PGM or PPM image of 8 bits that must have this shape."""
    content = path.read_bytes()
    header = PNM_HEADER.match(content)
    if header is None:
        raise ValueError(f"{path} is corrupt, or not a binary PGM or PPM image")
    kind, width, height, largest = (int(number) for number in header.groups())
    if largest != 255:
        raise ValueError(f"{path} has grey levels up to {largest}; 255 expected")
    found = (height, width) if kind == 5 else (height, width, 3)
    check_shape(path, found, shape)
    pixels = content[header.end() :]
    if len(pixels) != math.prod(found):
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {math.prod(found)} bytes of pixels expected, "
            f"{len(pixels)} found"
        )
    return np.frombuffer(pixels, np.uint8).reshape(found)


def read_picture(path: Path, shape: tuple[int, int]) -> np.ndarray:
    """Read a GIF or PNG image as grey levels; it must have this shape."""
    image = need("PIL.Image", "data", f"reading {path.name}")
    try:
        with image.open(path, formats=("GIF", "PNG")) as picture:
            pixels = np.asarray(picture.convert("L"))
    # Pillow raises any of these on files that are cut off or garbled.
    except (OSError, EOFError, SyntaxError, ValueError, IndexError) as error:
        raise ValueError(f"{path} is corrupt, or not an image: {error}") from error
    check_shape(path, pixels.shape, shape)
    return pixels


def check_shape(path: Path, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Raise when an image has not the shape of its data set."""
    if found != expected:
        raise ValueError(f"{path} holds an image of shape {found}; {expected} expected")


def read_idx(path: Path) -> np.ndarray:
    """Read an IDX file of bytes, packed with gzip or not (told by its content, not its name)."""
    content = path.read_bytes()
    if content[:2] == GZIP_MAGIC:
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is corrupt or half-downloaded: {error}") from error
    order = content[3] if len(content) > 3 else 0
    start = 4 + 4 * order
    if content[:3] != IDX_OF_BYTES or order == 0 or len(content) < start:
        raise ValueError(f"{path} is corrupt, or not an IDX file of bytes")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", order, 4))
    if len(content) - start != math.prod(shape):
        raise ValueError(
            f"{path} is corrupt or half-downloaded: {math.prod(shape)} bytes for shape {shape} "
            f"expected, {len(content) - start} found"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def resize(images: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize grey images to ``(rows, columns)``; each new pixel averages the area it covers."""
    image = need("PIL.Image", "data", f"size={size}")
    rows, columns = size
    box = image.Resampling.BOX
    return np.stack([image.fromarray(one).resize((columns, rows), box) for one in images])
