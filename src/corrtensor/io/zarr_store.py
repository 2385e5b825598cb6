"""A zarr store in a local folder, of which nothing but its own files is read."""

import os
import stat
from collections.abc import Iterator
from typing import Any

from zarr.storage import LocalStore

from corrtensor._base.files import check_kind, is_inside
from corrtensor.io.stack import InputError

# Codecs that turn bytes into numbers and run nothing, by their names in both versions.
CODECS = (
    "bytes endian transpose sharding_indexed crc32c gzip zstd blosc zlib bz2 lzma lz4 shuffle "
    "delta fixedscaleoffset quantize bitround packbits astype crc32 adler32 fletcher32 "
    "jenkins_lookup3"
)


class Folder(LocalStore):
    """The files of a folder; a link that leads out of it, or a pipe, is refused.

    Its metadata may name arrays by paths, and a chunk may be anything that has a name.
    """

    def _check(self, key: str) -> None:
        path = self.root / key
        if not path.exists():
            return
        if not is_inside(path, self.root):
            raise InputError(f"{self.root}: {key} leads out of the store")
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            check_kind(mode, os.fspath(path))

    def get_sync(self, key: str, **options: Any) -> Any:
        """Return the content of a file."""
        self._check(key)
        return super().get_sync(key, **options)

    async def get(self, key: str, *args: Any, **options: Any) -> Any:
        """Return the content of a file, or ``None`` if it is missing."""
        self._check(key)
        return await super().get(key, *args, **options)

    async def get_partial_values(self, prototype: Any, key_ranges: Any) -> Any:
        """Return parts of files."""
        wanted = list(key_ranges)
        for key, _ in wanted:
            self._check(key)
        return await super().get_partial_values(prototype, wanted)


def check_codecs(array: Any, where: object) -> None:
    """Raise an :class:`InputError` if an array is stored by a codec that is not in the list."""
    described = array.metadata.to_dict()
    parts = [described.get(key) for key in ("codecs", "filters", "compressor")]
    unknown = sorted({name for name in names_in(parts) if name not in CODECS.split()})
    if unknown:
        raise InputError(f"{where} is stored by the codec {', '.join(unknown)}, which is not read")


def names_in(described: Any) -> Iterator[str]:
    """Yield the names of all codecs in a description, also of those inside others."""
    if isinstance(described, dict):
        name = described.get("id") or described.get("name")
        if name is not None:
            yield str(name).removeprefix("numcodecs.")
        inner = described.get("configuration") or {}
        described = [inner.get("codecs"), inner.get("index_codecs")]
    if isinstance(described, list | tuple):
        for entry in described:
            yield from names_in(entry)
