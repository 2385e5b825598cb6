"""Frames of a video as samples.

FFmpeg gets an open file and nothing else: no name that it could take for an address, no other
file, no network. A few containers and decoders are allowed.
"""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.extras import need
from corrtensor._base.files import open_regular
from corrtensor.io.images import LARGEST_IMAGE
from corrtensor.io.stack import InputError, reading

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v")
# Containers that hold their own pictures; playlists and lists of files are none.
CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,h264,hevc"
DECODERS = (
    "h264 hevc av1 libdav1d libaom-av1 vp8 vp9 libvpx libvpx-vp9 mpeg1video mpeg2video mpeg4 h263 "
    "msmpeg4v1 msmpeg4v2 msmpeg4 msmpeg4v3 wmv1 wmv2 wmv3 vc1 mjpeg png rawvideo v210 ffv1 huffyuv "
    "ffvhuff utvideo prores dnxhd theora flv dvvideo cinepak qtrle svq1 svq3"
)
# Frames: nearly six hours of 25 a second. They are counted before any is decoded.
MOST_FRAMES = 1 << 19
BUFFER = 1 << 16
# Robust standard deviation of what codecs make of a still scene, in grey levels: most frames may be
# equal there, and the others, coded anew, are not; colours are rounded, too. Cameras
# have as much noise.
STRAYS = 2.0
# Samples that an MP4 file claims without listing them: their one size, or a run, and how many.
CLAIM = re.compile(rb"(stsz.{4}|trun)(.{4})(.{4})", re.DOTALL)
WINDOW = 1 << 24


def refuse_hollow_index(file: BinaryIO, path: Path) -> None:
    """Raise an :class:`InputError` if an MP4 file claims more samples than it has bytes.

    FFmpeg makes an entry for each at once. All but the pictures themselves is looked through.
    """
    size = os.fstat(file.fileno()).st_size
    for kind, place, end in boxes(file, size):
        while kind != b"mdat" and place < end:
            file.seek(place)
            window = file.read(min(WINDOW, end - place))
            for mark, one, count in CLAIM.findall(window):
                # In a run the one is flags. Text may say anything, as in "truncated".
                each = 1 if mark == b"trun" else int.from_bytes(one, "big")
                text = (one + count).isascii() and (one + count).decode().isprintable()
                if each * int.from_bytes(count, "big") > size and not (text and kind != b"moof"):
                    raise InputError(f"{path} claims more samples than it has bytes")
            if kind == b"moov" and b"cmov" in window:
                raise InputError(f"{path} has a compressed header, which is not read")
            # What lies across the edge is seen in the next window.
            place += len(window) - (16 if place + len(window) < end else 0)
    file.seek(0)


def boxes(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield kind, beginning and end of the boxes that a file is made of, if it is."""
    place = 0
    while place + 8 <= size:
        file.seek(place)
        head = file.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:], "big")
        # One of length 0 goes to the end.
        end = place + length if length >= 8 else size
        if kind.isalnum():
            yield kind, place, min(end, size)
        place = end


def refuse_others(url: str, *_: Any) -> Any:
    """Open no other file, whatever a video asks for."""
    raise InputError(f"it asks for {url}, which is not read")


@contextmanager
def opened(path: Path) -> Iterator[tuple[Any, Any]]:
    """Open a video file; yield its container and its first stream of pictures."""
    av = need("av", "video", "a video file")
    with open_regular(path) as file:
        refuse_hollow_index(file, path)
        options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "none"}
        with av.open(file, options=options, buffer_size=BUFFER, io_open=refuse_others) as container:
            if not container.streams.video:
                raise InputError(f"{path} holds no pictures")
            video = container.streams.video[0]
            if video.codec_context.name not in DECODERS.split():
                raise InputError(f"{path} is coded as {video.codec_context.name}: not decoded")
            video.codec_context.options = {"max_pixels": str(LARGEST_IMAGE)}
            yield container, video


class Frames:
    """The frames of a video, decoded from the key frame before the ones that are asked for.

    Every thread has its own decoder, which goes on where it stopped. ``strays`` is how far cells
    stray at least, in grey levels.
    """

    strays = STRAYS

    def __init__(self, path: Path, size: tuple[int, int] | None, colour: bool) -> None:
        self.path, self.format = path, "rgb24" if colour else "gray"
        with opened(path) as (container, video):
            self.times = times_of(container, video, path)
            # Frames a second, as a fraction.
            self.rate = video.average_rate
            height, width = size or (video.height, video.width)
            if video.height * video.width > LARGEST_IMAGE:
                raise InputError(f"{path} claims frames of {video.width} x {video.height} pixels")
        self.shape = (len(self.times), height, width, *([3] if colour else []))
        self.dtype = np.dtype(np.uint8)
        self.local = threading.local()

    def __getitem__(self, rows: slice) -> np.ndarray:
        lo, hi, _ = rows.indices(self.shape[0])
        frames = np.empty((max(0, hi - lo), *self.shape[1:]), self.dtype)
        for k in range(lo, hi):
            frames[k - lo] = self._frame(k)
        return frames

    def _frame(self, k: int) -> np.ndarray:
        if getattr(self.local, "next", None) != k:
            self._seek(k)
        for frame in self.local.frames:
            if frame.pts is not None and frame.pts >= self.times[k]:
                self.local.next = k + 1
                height, width = self.shape[1:3]
                turned = frame.reformat(width=width, height=height, format=self.format)
                return np.asarray(turned.to_ndarray())
        raise InputError(f"{self.path}: frame {k} of {len(self.times)} cannot be decoded")

    def _seek(self, k: int) -> None:
        if getattr(self.local, "opened", None) is not None:
            self.local.opened.__exit__(None, None, None)
        self.local.opened = opened(self.path)
        container, video = self.local.opened.__enter__()
        if k:
            container.seek(int(self.times[k]), stream=video, backward=True)
        self.local.frames = container.decode(video)


def times_of(container: Any, video: Any, path: Path) -> np.ndarray:
    """Return the times of all frames in order: packets are counted, not decoded."""
    times = []
    for packet in container.demux(video):
        if packet.pts is not None:
            times.append(packet.pts)
        if len(times) > MOST_FRAMES:
            raise InputError(f"{path} has more than {MOST_FRAMES} frames; cut it into parts")
    return np.sort(np.array(times, np.int64))


def open_video(path: Path, size: tuple[int, int] | None, colour: bool | None) -> Frames:
    """Open the frames of a video file, in colour unless grey is asked for."""
    with reading(path, "video that can be read"):
        frames = Frames(path, size, colour is not False)
        if frames.shape[0] == 0:
            raise InputError(f"{path} holds no frames")
        return frames
