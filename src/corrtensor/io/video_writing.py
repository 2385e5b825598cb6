"""Samples as the frames of a video."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.extras import need

# Ending of the file, container and encoder, all of them in every build of FFmpeg that PyAV brings.
FORMATS = {".mp4": ("mp4", "libx264"), ".mkv": ("matroska", "libx264"), ".avi": ("avi", "mpeg4")}
FRAMES_PER_SECOND = 25


def even(pixels: np.ndarray) -> np.ndarray:
    """Return a picture of even height and width, its last row and column repeated if need be."""
    height, width = pixels.shape[:2]
    return np.pad(pixels, [(0, height % 2), (0, width % 2), (0, 0)], mode="edge")


@contextmanager
def video_writer(
    file: BinaryIO,
    suffix: str,
    shape: tuple[int, ...],
    values: tuple[float, float],
    rate: Fraction | None = None,
) -> Iterator[Callable[[np.ndarray], None]]:
    """Open a video for samples of a shape, ``values`` being black and white, ``rate`` a second.

    Yields a function that takes the next samples.
    """
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3)):
        raise ValueError(
            f"samples of shape {shape[1:]} are no frames of a video: "
            "needed is (height, width) or (height, width, 3)"
        )
    av = need("av", "video", "a video file")
    container, encoder = FORMATS[suffix]
    low, high = values
    with av.open(file, "w", format=container) as video:
        stream: Any = video.add_stream(encoder, rate=rate or FRAMES_PER_SECOND)
        stream.height, stream.width = (a + a % 2 for a in shape[1:3])
        stream.pix_fmt = "yuv420p"

        def write(rows: np.ndarray) -> None:
            for row in rows.reshape(len(rows), *shape[1:3], -1):
                grey = (row.astype(float) - low) / ((high - low) or 1.0) * 255
                pixels = np.clip(np.rint(grey), 0, 255).astype(np.uint8)
                pixels = even(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
                frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
                for packet in stream.encode(frame):
                    video.mux(packet)

        yield write
        for packet in stream.encode():
            video.mux(packet)
