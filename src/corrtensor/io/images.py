"""A folder of images as a stack of samples.

Two passes: the headers tell sizes and modes, so that a picture which claims to be huge is never
decoded; then every picture is decoded once, into a temporary file if there is room.

Regular files are opened, by a few decoders that are named here. A link to a file is followed if
it stays in the folder, a link to a folder never: so there are no loops.
"""

import os
import re
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from corrtensor._base.extras import need
from corrtensor._base.files import open_regular
from corrtensor.io.looks import DEEP, Header, Look, common_look, one_depth
from corrtensor.io.stack import InputError, Progress, Skipped, Spool, Stack

IMAGE_SUFFIXES = (
    ".png .jpg .jpeg .gif .bmp .pgm .ppm .pbm .pnm .tif .tiff .webp".split()  # noqa: SIM905
)
# What those endings promise. Others could start a program (EPS) or are seldom looked after.
DECODERS = ("PNG", "JPEG", "GIF", "BMP", "PPM", "TIFF", "WEBP")
# Pixels; what claims more is not decoded.
LARGEST_IMAGE = 1 << 26
# Bytes in memory that any picture may claim, and how often its own size a larger one may.
BELIEVED, MOST_COMPRESSED = 1 << 26, 200
BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
# Pixels that go through the decoders in Python, and times a progressive JPEG may go over one.
SLOW_PIXELS, MOST_PASSES = 1 << 20, 1 << 30
# Pictures decoded at a time, and begun before the first of them is asked for.
THREADS, AHEAD = 4, 32
# How Pillow calls rows of 16 bits a colour.
COLOURS_OF_16 = re.compile(r"(RGB|RGBA|RGBX|RGBa|LA|CMYK)(;.*)?;16[BLN]")
# Exif orientations that swap the sides.
SIDEWAYS = (5, 6, 7, 8)
ORIENTATION = 0x0112


def list_images(folder: Path) -> tuple[list[str], list[Skipped]]:
    """Return the images in a folder and below, by relative name, in order, and linked folders."""
    found, linked = [], []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in folders:
            if os.path.islink(os.path.join(where, name)):
                place = (Path(where) / name).relative_to(folder).as_posix()
                linked.append(Skipped(place, "it is a link to a folder"))
        for name in names:
            if Path(name).suffix.lower() in IMAGE_SUFFIXES and not name.startswith("."):
                found.append((Path(where) / name).relative_to(folder).as_posix())
    return sorted(found), linked


def open_folder(
    folder: Path,
    *,
    size: tuple[int, int] | None,
    colour: bool | None,
    progress: Progress | None,
) -> Stack:
    """Open all images of a folder and of those inside it, which give their names as labels.

    All are resized to ``size`` and cropped about their middle; by default to the commonest size, or
    the median where most differ. By default they have three channels if any picture has them. What
    cannot be read is left out, and listed in ``skipped``. ``progress`` is told (done, total).
    """
    names, skipped = list_images(folder)
    if not names:
        raise InputError(f"{folder} holds no images ({', '.join(IMAGE_SUFFIXES)})")
    headers: dict[str, Header] = {}
    for name in names:
        try:
            headers[name] = read_header(folder / name, folder)
        except ImportError:
            raise
        except Exception as error:
            skipped.append(Skipped(name, reason(error, folder / name)))
    refuse_none(folder, headers, skipped)
    headers, others = one_depth(headers)
    look, said = common_look(folder, headers, size, colour)
    array, kept, unreadable = decode_all(folder, list(headers), look, progress)
    skipped = sorted([*skipped, *others, *unreadable], key=lambda entry: entry.name)
    refuse_none(folder, kept, skipped)
    return Stack(array, tuple(kept), labels_of(kept), tuple(skipped), said)


def refuse_none(folder: Path, left: Any, skipped: list[Skipped]) -> None:
    """Raise an :class:`InputError` if no picture is left."""
    if not left:
        first = skipped[0]
        raise InputError(
            f"{folder}: none of its {len(skipped)} images can be read; "
            f"the first, {first.name}: {first.reason}"
        )


def reason(error: Exception, path: Path) -> str:
    """Return why a picture cannot be read, in one line and without its path."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image"
    if type(error).__name__ == "DecompressionBombError":
        return f"it claims more than {LARGEST_IMAGE / 1e6:.0f} million pixels, which is not decoded"
    text = (getattr(error, "strerror", None) or str(error)).replace(str(path), "the file")
    return " ".join(text.split()) or type(error).__name__


def read_header(path: Path, folder: Path) -> Header:
    """Return what a file says about its picture; raise if that is too much."""
    Image = need("PIL.Image", "io", "a folder of images")
    with warnings.catch_warnings():
        # Its own bound of the size is not ours, and its other doubts do not concern the pixels.
        warnings.simplefilter("ignore")
        with open_regular(path, within=folder) as file, Image.open(file, formats=DECODERS) as image:
            width, height = image.size
            refuse_costly(file, image)
            rows = image.tile
            if image.getexif().get(ORIENTATION) in SIDEWAYS:
                width, height = height, width
            mode = image.mode
            if mode == "P":
                mode = "L" if grey_palette(image) else "RGB"
            deep, clear = mode not in DEEP and has_deep_colours(rows), image.has_transparency_data
            pages = image.format == "TIFF" and has_more(image)
            return Header((height, width), mode, deep, pages, clear)


def count_frames(path: Path) -> int:
    """Return how many pictures an image file holds; raise if it cannot be read."""
    Image = need("PIL.Image", "io", "an image")
    with open_regular(path) as file, Image.open(file, formats=DECODERS) as image:
        return int(getattr(image, "n_frames", 1))


def has_more(image: Any) -> bool:
    """Tell whether a file has a second page."""
    try:
        image.seek(1)
    except Exception:
        # A page that cannot be read is none.
        return False
    return True


def has_deep_colours(tiles: Any) -> bool:
    """Tell by how its rows are stored whether a picture has 16 bits of every colour."""
    for codec, _, _, how in tiles:
        raw, *more = (how,) if isinstance(how, str) else tuple(how)
        top = more[0] if more and codec.startswith("ppm") else 0
        if COLOURS_OF_16.fullmatch(str(raw)) or int(top) > 255:
            return True
    return False


def refuse_costly(file: BinaryIO, image: Any) -> None:
    """Raise an :class:`InputError` if a picture would cost far more than its file is worth."""
    pixels = image.width * image.height
    if pixels > LARGEST_IMAGE:
        raise InputError(
            f"it claims {image.width} x {image.height} pixels; more than "
            f"{LARGEST_IMAGE / 1e6:.0f} million are not decoded"
        )
    claimed = pixels * BYTES.get(image.mode, 4)
    if claimed > BELIEVED and claimed > MOST_COMPRESSED * (size := os.fstat(file.fileno()).st_size):
        raise InputError(f"it claims {claimed / 1e6:.0f} million bytes in {size} bytes")
    run_lengths = image.format == "BMP" and image.info.get("compression") in (1, 2)
    if run_lengths and pixels > SLOW_PIXELS:
        raise InputError(f"it claims {pixels} pixels in run lengths; save it uncompressed")
    if image.info.get("progressive") and pixels * count_scans(file) > MOST_PASSES:
        raise InputError("its pixels are told in too many scans")


def count_scans(file: BinaryIO) -> int:
    """Return how many scans a JPEG file has at most: each goes over all of its pixels."""
    place, scans = file.tell(), 0
    file.seek(0)
    last = b""
    while block := file.read(1 << 20):
        scans += (last + block).count(b"\xff\xda")
        last = block[-1:]
    file.seek(place)
    return scans


def grey_palette(image: Any) -> bool:
    """Tell whether all colours of a palette are grey."""
    palette = np.frombuffer(image.palette.tobytes(), np.uint8)
    channels = len(image.palette.mode)
    table = palette[: len(palette) // channels * channels].reshape(-1, channels)[:, :3]
    return bool((table == table[:, :1]).all())


def as_seen(image: Any, look: Look) -> Any:
    """Return a picture upright, in the channels that are wanted, on white where it is clear."""
    from PIL import Image, ImageOps

    upright: Any = ImageOps.exif_transpose(image) or image
    if look.dtype == np.uint16 and upright.mode not in DEEP:
        # White is white.
        grey = as_seen(image, Look(look.size, False))
        return Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
    if look.dtype != np.uint8:
        return upright
    if upright.mode in DEEP:
        upright = Image.fromarray((np.asarray(upright) >> 8).astype(np.uint8))
    if upright.has_transparency_data:
        clear = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear)
    return upright.convert("RGB" if look.colour else "L")


def read_image(path: Path, folder: Path, look: Look) -> np.ndarray:
    """Decode one picture the way all are wanted."""
    from PIL import Image, ImageOps

    with open_regular(path, within=folder) as file, Image.open(file, formats=DECODERS) as image:
        # A large JPEG need not be decoded at its full size to become small.
        image.draft(None, (2 * max(look.size), 2 * max(look.size)))
        image.load()
        upright = as_seen(image, look)
        if (upright.height, upright.width) != look.size:
            if upright.mode.startswith("I;16"):
                # Pillow resizes 32 bits, not 16.
                upright = upright.convert("I")
            upright = ImageOps.fit(upright, look.size[::-1], Image.Resampling.LANCZOS)
        pixels = np.asarray(upright)
    if look.dtype == np.uint16:
        pixels = np.clip(pixels, 0, 65535)
    return pixels.astype(look.dtype, copy=False).reshape(look.shape)


class Pictures:
    """Pictures that are decoded whenever they are read, where there is no room to keep them."""

    def __init__(self, folder: Path, names: list[str], look: Look) -> None:
        self.folder, self.names, self.look = folder, names, look
        self.shape, self.dtype = (len(names), *look.shape), look.dtype

    def __getitem__(self, rows: slice) -> np.ndarray:
        paths = [self.folder / name for name in self.names[rows]]
        if not paths:
            return np.empty((0, *self.look.shape), self.dtype)
        return np.stack([read_image(path, self.folder, self.look) for path in paths])


def decode_all(
    folder: Path, names: list[str], look: Look, progress: Progress | None
) -> tuple[Any, list[str], list[Skipped]]:
    """Decode every picture once; return the array, the names in it, and what was left out."""
    shape = (len(names), *look.shape)
    spool = Spool(look.shape, look.dtype) if Spool.fits(shape, look.dtype) else None
    kept: list[str] = []
    skipped = []
    for done, (name, pixels) in enumerate(decoded(folder, names, look), start=1):
        if isinstance(pixels, Skipped):
            skipped.append(pixels)
        else:
            if spool is not None:
                spool.add(pixels[None])
            kept.append(name)
        if progress is not None:
            progress(done, len(names))
    return Pictures(folder, kept, look) if spool is None else spool, kept, skipped


def decoded(
    folder: Path, names: list[str], look: Look
) -> Iterator[tuple[str, np.ndarray | Skipped]]:
    """Yield every name with its pixels, or with why there are none; a few are read at a time."""

    def read(name: str) -> np.ndarray | Skipped:
        try:
            return read_image(folder / name, folder, look)
        except Exception as error:
            return Skipped(name, reason(error, folder / name))

    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as pool:
        warnings.simplefilter("ignore")
        for lo in range(0, len(names), AHEAD):
            some = names[lo : lo + AHEAD]
            yield from zip(some, pool.map(read, some), strict=True)


def labels_of(names: list[str]) -> np.ndarray | None:
    """Return the folder of every picture, or ``None`` if there is only one."""
    folders = [name.rpartition("/")[0] for name in names]
    return np.array(folders) if len(set(folders)) > 1 else None
