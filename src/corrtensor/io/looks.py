"""What pictures of several kinds are brought to: one size, the same channels, one type."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from corrtensor.io.stack import InputError, Skipped

# Modes of pictures, as Pillow calls them: without colours, and of more than 8 bits.
GREY = ("1", "L", "LA", "La")
DEEP = {"I;16": np.uint16, "I;16B": np.uint16, "I;16L": np.uint16, "I": np.int32, "F": np.float32}
# Longer side of pictures of all sizes, unless another is asked for.
LONGEST_SIDE = 256


@dataclass(frozen=True)
class Look:
    """How pictures become samples: their size (height, width), channels and type."""

    size: tuple[int, int]
    colour: bool
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.uint8))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return (*self.size, 3) if self.colour else self.size


@dataclass(frozen=True)
class Header:
    """What a file says about its picture."""

    size: tuple[int, int]
    mode: str
    # More in the file than is read: 16 bits of every colour, further pages, what is transparent.
    deep_colours: bool = False
    pages: bool = False
    transparent: bool = False

    @property
    def depth(self) -> str:
        """Its kind of numbers, in words."""
        return {"I": "32 bit", "F": "floating point"}.get(
            self.mode, "16 bit" if self.mode in DEEP else "8 bit"
        )


def one_depth(headers: dict[str, Header]) -> tuple[dict[str, Header], list[Skipped]]:
    """Return the pictures whose numbers go together, 8 and 16 bit do, and those left out."""
    kinds = {name: header.depth.replace("16", "8") for name, header in headers.items()}
    counts = Counter(kinds.values())
    commonest = max(counts, key=counts.__getitem__, default="")
    others = [
        Skipped(name, f"it is of {headers[name].depth}, most others are not")
        for name, kind in kinds.items()
        if kind != commonest
    ]
    return {name: h for name, h in headers.items() if kinds[name] == commonest}, others


def common_size(headers: dict[str, Header]) -> tuple[tuple[int, int], str]:
    """Return a size for all pictures, and a sentence if it is not that of each."""
    counts = Counter(header.size for header in headers.values()).most_common()
    size, count = counts[0]
    if len(counts) == 1:
        return size, ""
    if count <= len(headers) / 2:
        sides = np.median([header.size for header in headers.values()], axis=0)
        sides *= min(1.0, LONGEST_SIDE / sides.max())
        size = max(1, round(sides[0])), max(1, round(sides[1]))
    how = "the commonest" if size == counts[0][0] else "about the median"
    return size, (
        f"the pictures have {len(counts)} sizes; all are resized to {'{} x {}'.format(*size)}, "
        f"{how}, and cropped about their middle; --size HxW chooses another"
    )


def common_look(
    folder: Path,
    headers: dict[str, Header],
    size: tuple[int, int] | None,
    colour: bool | None,
) -> tuple[Look, str]:
    """Return what all the pictures are brought to, and sentences on what that changes."""
    every, modes = list(headers.values()), {header.mode for header in headers.values()}
    said, given = "", size is not None
    if size is None:
        size, said = common_size(headers)
    coloured = modes - {*GREY, *DEEP}
    if colour and modes <= set(DEEP):
        raise InputError(f"{folder}: images of {every[0].depth} have no colours")
    look = Look(size, bool(coloured) if colour is None else colour)
    deep = [h.mode for h in every if h.mode in DEEP]
    if not look.colour and not coloured and 2 * len(deep) > len(every):
        # What most of them are: of 8 bits 16 are made, or of 16 bits 8.
        look = Look(size, False, np.dtype(DEEP[deep[0]]))
    size_in_words = "{} x {}".format(*size)
    unasked = " (--grey reads all as grey)" if colour is None else ""
    counted = {
        f"resized to {size_in_words}": given and [h.size != size for h in every],
        "read as grey": not look.colour and [h.mode in coloured for h in every],
        f"grey ones read as colours{unasked}": look.colour
        and [h.mode not in coloured for h in every],
        "read with 8 of 16 bits": look.dtype == np.uint8
        and [h.deep_colours or h.mode in DEEP for h in every],
        "read up to their first page": [h.pages for h in every],
        "read on white, for they may be transparent": [h.transparent for h in every],
    }
    told = [f"{sum(some)} {what}" for what, some in counted.items() if some and any(some)]
    if told:
        said = "; ".join([*([said] if said else []), f"of {len(every)} pictures {', '.join(told)}"])
    return look, said
