"""Pages of a TIFF file and frames of a video as samples."""

from __future__ import annotations

import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor.inputs.images import LARGEST_IMAGE
from corrtensor.inputs.stack import InputError, need

__all__ = ["VIDEO_SUFFIXES", "open_tiff", "open_video"]

VIDEO_SUFFIXES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".m4v")


class Pages:
    """The pages of a TIFF file, one sample each."""

    def __init__(self, file: Any, pages: Any) -> None:
        self.file, self.pages = file, pages
        self.shape, self.dtype = (len(pages), *pages[0].shape), np.dtype(pages[0].dtype)
        self.lock = threading.Lock()
        weakref.finalize(self, file.close)

    def __getitem__(self, rows: slice) -> np.ndarray:
        lo, hi, _ = rows.indices(len(self.pages))
        with self.lock:
            for k in range(lo, hi):
                # What a page says of its length is asked for at once.
                if sum(self.pages[k].databytecounts) > self.file.filehandle.size:
                    raise InputError(f"page {k} claims more bytes than its file has")
            return np.stack([self.pages[k].asarray() for k in range(lo, hi)])


def open_tiff(path: Path) -> Any:
    """Open a TIFF file of several pages."""
    tifffile = need("tifffile", "io", "a multi-page TIFF file")
    try:
        file = tifffile.TiffFile(path)
    except Exception as error:
        raise InputError(f"{path} is no TIFF file that can be read: {error}") from error
    pages = None
    try:
        # Pages that follow each other in a circle are noticed when they are counted.
        len(file.pages)
        pages = pages_of(file, path)
        return pages
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{path} is no TIFF file that can be read: {error}") from error
    finally:
        if not isinstance(pages, Pages):
            file.close()


def pages_of(file: Any, path: Path) -> Any:
    """Return the pages of an open TIFF file: mapped where they lie one after the other."""
    series = file.series[0]
    shape, page = tuple(series.shape), tuple(series.keyframe.shape)
    if np.prod(page[:2], dtype=float) > LARGEST_IMAGE:
        raise InputError(f"{path} claims pages of {page[0]} x {page[1]} pixels")
    if len(file.series) > 1:
        kinds = {(tuple(one.shape), str(one.dtype)) for one in file.series}
        if len(kinds) > 1 or shape != page:
            shapes = ", ".join(str(kind[0]) for kind in sorted(kinds)[:3])
            raise InputError(f"{path}: its pages differ: {shapes}, ...")
        return Pages(file, file.pages)
    if len(shape) < 3 or shape == page:
        raise InputError(f"{path} holds one picture; give a folder of pictures, or several pages")
    if series.dataoffset is not None:
        dtype = series.dtype.newbyteorder(file.byteorder)
        return np.memmap(path, dtype, "r", series.dataoffset, shape).reshape(-1, *page)
    return Pages(file, series.pages)


class Frames:
    """The frames of a video, decoded from the key frame before the ones that are asked for.

    Every thread has its own decoder, which goes on where it stopped.
    """

    def __init__(self, path: Path, size: tuple[int, int] | None, colour: bool) -> None:
        self.av = need("av", "video", "a video file")
        self.path, self.format = path, "rgb24" if colour else "gray"
        self.size = size
        with self.av.open(str(path)) as container:
            video = container.streams.video[0]
            # Packets are counted, not decoded; frames come in the order of their times.
            self.times = sorted(p.pts for p in container.demux(video) if p.pts is not None)
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
        if getattr(self.local, "container", None) is not None:
            self.local.container.close()
        container = self.local.container = self.av.open(str(self.path))
        video = container.streams.video[0]
        if k:
            container.seek(self.times[k], stream=video, backward=True)
        self.local.frames = container.decode(video)


def open_video(path: Path, size: tuple[int, int] | None, colour: bool | None) -> Frames:
    """Open the frames of a video file, in colour unless grey is asked for."""
    try:
        frames = Frames(path, size, colour is not False)
        if frames.shape[0] == 0:
            raise InputError(f"{path} holds no frames")
        return frames
    except (InputError, ImportError):
        raise
    except Exception as error:
        raise InputError(f"{path} is no video that can be read: {error}") from error
