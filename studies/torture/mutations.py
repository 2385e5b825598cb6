"""Files that are nearly right: bytes changed, cut out, doubled, put in."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["mutate"]

# What lengths, counts and offsets look like when they lie.
SMALL_EDGES = (0, 1, 2, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 2**31 - 1, 2**31)
EDGES = (*SMALL_EDGES, 2**32 - 1, 2**32, 2**33, 10**10, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
WORDS = (b"0", b"-1", b"1e400", b"NaN", b"null", b"[]", b"{}", b'""', b"true", b"(", b"O", b"\xff")
NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")
# A file never grows by more than this.
LONGEST = 512


def flip(content: bytearray, random: Random) -> None:
    """Turn over one bit."""
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def overwrite(content: bytearray, random: Random) -> None:
    """Put random bytes over a few."""
    place = random.randrange(len(content))
    content[place : place + random.randint(1, 8)] = random.randbytes(random.randint(1, 8))


def lie(content: bytearray, random: Random) -> None:
    """Put a number of 1 to 8 bytes, one that lengths should not be, over what is there."""
    size, order = random.choice((1, 2, 4, 8)), random.choice(("little", "big"))
    value = random.choice(EDGES) % (1 << 8 * size)
    place = random.randrange(len(content))
    content[place : place + size] = value.to_bytes(size, order)  # type: ignore[arg-type]


def cut(content: bytearray, random: Random) -> None:
    """Lose the end, or a piece."""
    place = random.randrange(len(content))
    length = len(content) if random.random() < 0.5 else random.randint(1, LONGEST)
    del content[place : place + length]


def double(content: bytearray, random: Random) -> None:
    """Repeat a piece somewhere."""
    place, to = random.randrange(len(content)), random.randrange(len(content))
    content[to:to] = content[place : place + random.randint(1, LONGEST)]


def reword(content: bytearray, random: Random) -> None:
    """Put another number or word for a number written in digits."""
    numbers = list(NUMBER.finditer(content))
    if not numbers:
        return flip(content, random)
    found = random.choice(numbers)
    edge = random.choice(EDGES) * random.choice((1, 1, -1))
    word = random.choice(WORDS) if random.random() < 0.3 else b"%d" % edge
    content[found.start() : found.end()] = word
    return None


KINDS: Sequence[Callable[[bytearray, Random], None]] = (flip, overwrite, lie, cut, double, reword)


def mutate(content: bytes, random: Random) -> bytes:
    """Return a file's bytes with one to four changes.

    Parameters
    ----------
    content : bytes
        A file that can be read.
    random : random.Random
        Where the changes are drawn from.

    Returns
    -------
    changed : bytes
        Hardly ever the same.

    Examples
    --------
    >>> from random import Random
    >>> from studies.torture.mutations import mutate
    >>> len(mutate(b"0123456789", Random(0))) <= 10 + 4 * 512
    True
    """
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        random.choice(KINDS)(changed, random)
    return bytes(changed)
