"""Pages of a TIFF file as samples."""

import math
import threading
import weakref
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor._base.files import check_regular
from corrtensor.io.images import BELIEVED, LARGEST_IMAGE, MOST_COMPRESSED
from corrtensor.io.stack import InputError, reading

# Descriptions of a file that would have others opened; without them its pages are what they are.
NOT_BELIEVED = ("is_ome", "is_mmstack", "is_ndtiff")
# How pages may be stored: plain, LZW, JPEG, deflate in its two numbers, runs.
DEFLATE = (8, 32946)
STORED = (1, 5, 7, *DEFLATE, 32773)
# A page that can be read needs at least so many bytes for its description.
SHORTEST_PAGE = 50


class Pages:
    """The pages of a TIFF file: one sample each, or several, as channels or planes ``inside``."""

    def __init__(self, file: Any, pages: Any, inside: tuple[int, ...] = ()) -> None:
        self.file, self.pages, self.each = file, pages, math.prod(inside)
        self.shape = (len(pages) // self.each, *inside, *pages[0].shape)
        self.dtype = np.dtype(pages[0].dtype)
        self.lock = threading.Lock()
        self.trusted: set[int] = set()
        weakref.finalize(self, file.close)

    def __getitem__(self, rows: slice) -> np.ndarray:
        lo, hi, _ = rows.indices(self.shape[0])
        lo, hi = lo * self.each, hi * self.each
        with self.lock:
            for k in range(lo, hi):
                if k not in self.trusted:
                    refuse_costly(self.file.filehandle, self.pages[k], k)
                    self.trusted.add(k)
            pages = np.stack([self.pages[k].asarray() for k in range(lo, hi)])
        return pages.reshape(-1, *self.shape[1:])


def refuse_costly(handle: Any, page: Any, k: int) -> None:
    """Raise an :class:`InputError` if a page would cost more than it says, or more than it may."""
    if int(page.compression) not in STORED:
        raise InputError(f"page {k} is compressed by a method that is not read")
    # What a page says of its length is asked for at once.
    stored = sum(page.databytecounts)
    if stored > handle.size:
        raise InputError(f"page {k} claims more bytes than its file has")
    claimed = math.prod(page.shape) * np.dtype(page.dtype).itemsize
    if claimed > max(BELIEVED, MOST_COMPRESSED * stored):
        raise InputError(f"page {k} claims {claimed:.1e} bytes in {stored}")
    if page.compression in DEFLATE:
        # What is unpacked is not compared with what the page says.
        most = math.prod(page.chunks) * np.dtype(page.dtype).itemsize
        for place, count in zip(page.dataoffsets, page.databytecounts, strict=True):
            handle.seek(place)
            if len(zlib.decompressobj().decompress(handle.read(count), most + 1)) > most:
                raise InputError(f"page {k} holds more than it says")


def open_tiff(path: Path) -> Any:
    """Open a TIFF file of several pages."""
    tifffile = need("tifffile", "io", "a multi-page TIFF file")
    check_regular(path)
    known = {f"is_{flag}" for flag in tifffile.TIFF.FILE_FLAGS}
    with reading(path, "TIFF file that can be read", MemoryError), ExitStack() as closing:
        file = tifffile.TiffFile(path, **dict.fromkeys(known.intersection(NOT_BELIEVED), False))
        closing.callback(file.close)
        # Pages that follow each other in a circle are noticed when they are counted.
        if len(file.pages) * SHORTEST_PAGE > file.filehandle.size:
            raise InputError(f"{path} claims {len(file.pages)} pages, more than it has room for")
        pages = pages_of(file, path)
        if isinstance(pages, Pages):
            closing.pop_all()
        return pages


def pages_of(file: Any, path: Path) -> Any:
    """Return the pages of an open TIFF file: mapped where they lie one after the other."""
    series = file.series[0]
    shape, page = tuple(series.shape), tuple(series.keyframe.shape)
    if math.prod(page) > 4 * LARGEST_IMAGE:
        raise InputError(f"{path} claims pages of {' x '.join(map(str, page))} numbers")
    if len(file.series) > 1:
        kinds = {(tuple(one.shape), str(one.dtype)) for one in file.series}
        if len(kinds) > 1 or shape != page:
            shapes = ", ".join(str(kind[0]) for kind in sorted(kinds)[:3])
            raise InputError(f"{path}: its pages differ: {shapes}, ...")
        return Pages(file, file.pages)
    if len(shape) < 3 or shape == page:
        raise InputError(f"{path} holds one picture; give a folder of pictures, or several pages")
    # Samples are along the first axis; between it and a page's own may be channels or planes.
    inside = shape[1 : len(shape) - len(page)]
    if series.dataoffset is not None:
        dtype = series.dtype.newbyteorder(file.byteorder)
        mapped = np.memmap(path, dtype, "r", series.dataoffset, shape)
        return mapped.reshape(shape[0], *inside, *page)
    if len(series.pages) != shape[0] * math.prod(inside):
        raise InputError(f"{path}: {len(series.pages)} pages do not make up {shape}")
    return Pages(file, series.pages, inside)
