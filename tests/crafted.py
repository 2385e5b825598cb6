"""Files made on purpose: each asks for what a file may not have.

A case makes its files in an empty folder ``in``, beside a folder ``secret`` that nobody gave us,
and returns what shall be done with them. That ends with a documented error whose words are given
here, or with a right answer. ``test_crafted.py`` and the long run use the same cases; nothing
dangerous is stored.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pickle
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# What one case may take: seconds of the processor, as the machine may be busy with other things,
# and resident memory of its process in bytes.
SECONDS, BYTES = 5.0, 500 << 20
# A case that has not ended by the clock after so many seconds waits for something.
PATIENCE = 300.0
SMALL = np.arange(4 * 6 * 5, dtype=np.uint8).reshape(4, 6, 5)
SECRET = np.full((4, 6, 5), 77, np.uint8)

Action = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Makes files in a folder and returns what to do; ``says`` is in the error, if there is one."""

    name: str
    kind: str
    make: Callable[[Path], Action]
    says: str | None


CASES: dict[str, Case] = {}


def case(kind: str, says: str | None = None) -> Callable[[Any], Any]:
    """Add a function to the cases under its name."""

    def add(make: Callable[[Path], Action]) -> Callable[[Path], Action]:
        name = make.__name__.replace("_", " ")
        CASES[name] = Case(name, kind, make, says)
        return make

    return add


# ---- what the cases are made of


def read(where: Any, **options: Any) -> Action:
    """Open samples and read them all."""

    def act() -> Any:
        from corrtensor.io import open_samples

        stack = open_samples(where, **options)
        return stack, stack[0 : len(stack)]

    return act


def expect(action: Action, holds: Callable[[Any], bool]) -> Action:
    """Do it and see whether the answer is right."""

    def act() -> Any:
        answer = action()
        if not holds(answer):
            raise AssertionError(f"a wrong answer: {answer!r:.300}")
        return answer

    return act


def command(*arguments: Any, code: int | None = 0) -> Action:
    """Run a command; return its exit code and all that it printed."""

    def act() -> tuple[int, str]:
        from typer.testing import CliRunner

        from corrtensor.cli import build_app

        result = CliRunner().invoke(build_app(), [str(a) for a in arguments])
        if code is not None and result.exit_code != code:
            raise AssertionError(f"exit code {result.exit_code}: {result.output:.300}")
        if result.exit_code:
            raise ValueError(" ".join(result.output.replace("\u2502", " ").split()))
        return result.exit_code, result.output

    return act


def secret(folder: Path, name: str) -> Path:
    """Return a place beside the folder that was given."""
    place = folder.parent / "secret" / name
    place.parent.mkdir(exist_ok=True)
    return place


def pictures(folder: Path, names: list[str] | None = None) -> Path:
    """Put good pictures into a folder."""
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    for k, name in enumerate(names or [f"{k}.png" for k in range(4)]):
        Image.fromarray(SMALL[k % 4]).save(folder / name, "PNG")
    return folder


def skipped(name: str, words: str) -> Callable[[Any], bool]:
    """Tell whether the four good pictures were read and one other was left out for a reason."""

    def holds(answer: Any) -> bool:
        stack, values = answer
        why = {entry.name: entry.reason for entry in stack.skipped}
        return np.array_equal(values, SMALL) and list(why) == [name] and words in why[name]

    return holds


def is_small(answer: Any) -> bool:
    """Tell whether the samples are the right ones."""
    return np.array_equal(answer[1], SMALL)


def chunk(kind: bytes, content: bytes) -> bytes:
    """Return a chunk of a PNG file."""
    crc = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + crc


def png(width: int, height: int, *more: bytes, channels: int = 4, rows: bytes = b"") -> bytes:
    """Return a black PNG file of any size, or with other content."""
    kind = {1: 0, 4: 6}[channels]
    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    pack = zlib.compressobj(9)
    line = bytes(1 + channels * width)
    data = b"".join(pack.compress(line) for _ in range(height)) + pack.flush()
    parts = (chunk(b"IHDR", head), *more, chunk(b"IDAT", rows or data), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def packed(size: int) -> bytes:
    """Return zeros as zlib packs them."""
    pack, zeros = zlib.compressobj(1), bytes(1 << 22)
    return b"".join(pack.compress(zeros) for _ in range(size >> 22)) + pack.flush()


class Harm:
    """What a pickle would run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def harmless(folder: Path, action: Action) -> Action:
    """Do it and see that nothing was run."""

    def act() -> Any:
        try:
            return action()
        finally:
            if (folder / "harm").exists():
                raise AssertionError("code of a file was run")

    return act


# ---- pipes, sockets, devices, links


@case("folder")
def a_pipe_among_pictures(folder: Path) -> Action:
    os.mkfifo(pictures(folder) / "pipe.png")
    return expect(read(folder), skipped("pipe.png", "a pipe"))


@case("folder")
def a_socket_among_pictures(folder: Path) -> Action:
    here = os.getcwd()
    os.chdir(pictures(folder))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.png")
    os.chdir(here)
    return expect(read(folder), skipped("socket.png", "a socket"))


@case("folder")
def a_link_to_a_device_among_pictures(folder: Path) -> Action:
    (pictures(folder) / "zero.png").symlink_to("/dev/zero")
    return expect(read(folder), skipped("zero.png", "a link out of the folder"))


@case("folder", "none of its 2 images can be read; the first, a.png: it is a pipe")
def nothing_but_pipes(folder: Path) -> Action:
    for name in ("a.png", "b.png"):
        os.mkfifo(folder / name)
    return read(folder)


@case("folder")
def a_link_to_a_picture_elsewhere(folder: Path) -> Action:
    pictures(secret(folder, "pictures"))
    (pictures(folder) / "z.png").symlink_to(secret(folder, "pictures") / "0.png")
    return expect(read(folder), skipped("z.png", "a link out of the folder"))


@case("folder")
def a_link_to_a_picture_in_the_folder(folder: Path) -> Action:
    (pictures(folder) / "z.png").symlink_to("1.png")
    return expect(read(folder), lambda a: np.array_equal(a[1], [*SMALL, SMALL[1]]))


@case("folder")
def a_link_to_a_folder_elsewhere(folder: Path) -> Action:
    pictures(secret(folder, "pictures"))
    (pictures(folder) / "more").symlink_to(secret(folder, "pictures"))
    return expect(read(folder), skipped("more", "a link to a folder"))


@case("folder")
def a_link_that_makes_a_loop(folder: Path) -> Action:
    (pictures(folder) / "loop").symlink_to(folder)
    return expect(read(folder), skipped("loop", "a link to a folder"))


@case("folder")
def links_in_a_circle(folder: Path) -> Action:
    pictures(folder)
    (folder / "x.png").symlink_to("y.png")
    (folder / "y.png").symlink_to("x.png")
    return expect(read(folder), lambda a: np.array_equal(a[1], SMALL) and len(a[0].skipped) == 2)


@case("npy", "it is a device")
def a_link_to_a_device_that_the_user_named(folder: Path) -> Action:
    (folder / "x.npy").symlink_to("/dev/zero")
    return read(folder / "x.npy")


def pipe_called(name: str, act: Callable[[Path], Action]) -> None:
    """Add the case of a pipe with the name of a file."""

    def make(folder: Path) -> Action:
        os.mkfifo(folder / name)
        return act(folder / name)

    make.__name__ = f"a_pipe_called_{name}"
    case(name.rpartition(".")[2], "(a pipe|no zarr store)")(make)


for _suffix in ("npy", "npz", "mat", "h5", "zarr", "tif", "csv", "mp4"):
    pipe_called(f"x.{_suffix}", read)


def read_labels(path: Path, count: int = 4) -> Action:
    """Read labels."""

    def act() -> Any:
        from corrtensor.io import open_labels

        return open_labels(path, count)

    return act


def read_model(path: Path) -> Action:
    """Load a model."""

    def act() -> Any:
        from corrtensor import load

        return load(path)

    return act


def go_on(path: Path) -> Action:
    """Fit with a checkpoint."""

    def act() -> Any:
        from corrtensor import CorrTensor

        X = np.random.default_rng(0).normal(size=(12, 6, 5))
        return CorrTensor((2, 2), checkpoint=path, n_jobs=1).fit(X)

    return act


pipe_called("labels.txt", read_labels)
pipe_called("model.ct", read_model)
pipe_called("fit.ckpt", go_on)


@case("labels", "too long for 4 labels")
def labels_of_ten_gigabytes(folder: Path) -> Action:
    with open(folder / "y.txt", "wb") as file:
        file.truncate(10 << 30)
    return read_labels(folder / "y.txt")


# ---- tables


@case("csv", "line 20001 is longer than")
def a_table_whose_last_line_has_ten_gigabytes(folder: Path) -> Action:
    with open(folder / "x.csv", "wb") as file:
        file.write(b"1,2\n" * 20000)
        file.truncate(10 << 30)
    return read(folder / "x.csv")


@case("csv", "line 1 .* has more than")
def a_table_of_eight_million_columns(folder: Path) -> Action:
    (folder / "x.csv").write_bytes(b"," * ((8 << 20) - 1) + b"\n")
    return read(folder / "x.csv")


@case("csv", "line 2 is longer than")
def a_line_of_a_table_that_goes_on_in_quotation_marks(folder: Path) -> Action:
    (folder / "x.csv").write_bytes(b"1,2\n" + b'"\n",' * (8 << 20))
    return read(folder / "x.csv")


@case("csv", "line 1, column 9: .* is no number")
def a_table_of_wide_characters_as_long_as_it_may_be(folder: Path) -> Action:
    line = "\U0001f600" * 7 + ","
    for _ in range(2):
        with open(folder / "x.csv", "a", encoding="utf-8") as file:
            file.write(line * ((1 << 20) - 1) + "1\n")
    return read(folder / "x.csv")


# ---- pictures


@case("picture")
def a_program_called_a_picture(folder: Path) -> Action:
    """EPS is drawn by Ghostscript, a program of its own."""
    text = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 6\n%%EndComments\nshowpage\n"
    (pictures(folder) / "z.png").write_bytes(text)
    return expect(read(folder), skipped("z.png", "not an image"))


@case("picture")
def a_format_nobody_asked_for(folder: Path) -> Action:
    from PIL import Image

    Image.fromarray(SMALL[0]).save(pictures(folder) / "z.png", "PCX")
    return expect(read(folder), skipped("z.png", "not an image"))


@case("picture")
def a_picture_of_much_in_little(folder: Path) -> Action:
    """64 million pixels of four channels in 260 kB: a gigabyte on its way to an array."""
    (pictures(folder) / "z.png").write_bytes(png(8192, 8192))
    return expect(read(folder, size=(6, 5)), skipped("z.png", "million bytes in"))


@case("picture")
def the_largest_picture_that_is_believed(folder: Path) -> Action:
    (folder / "z.png").write_bytes(png(4096, 4096))
    return expect(read(folder), lambda a: a[1].shape == (1, 4096, 4096, 3))


@case("picture")
def a_long_text_in_a_picture(folder: Path) -> Action:
    """Each text unpacks to a megabyte; together they are a gigabyte."""
    text = zlib.compress(bytes(1 << 20), 9)
    many = b"".join(chunk(b"zTXt", b"key%d\0\0" % k + text) for k in range(1000))
    (pictures(folder) / "z.png").write_bytes(png(5, 6, many))
    return expect(read(folder, size=(6, 5)), skipped("z.png", ""))


@case("picture")
def a_colour_profile_that_unpacks_to_600_megabytes(folder: Path) -> Action:
    data = packed(600 << 20)
    content = png(5, 6, chunk(b"iCCP", b"x\0\0" + data), channels=1)
    (pictures(folder) / "z.png").write_bytes(content)
    return expect(read(folder), skipped("z.png", "too large"))


@case("picture")
def run_lengths_that_are_told_line_by_line(folder: Path) -> Action:
    """16 million pixels in 16 kB; the decoder is written in Python."""
    data, side = b"\x01\x05\x00\x00" * 4096, 4096
    start = 14 + 40 + 1024
    head = b"BM" + struct.pack("<IHHI", start + len(data), 0, 0, start)
    head += struct.pack("<IiiHHIIiiII", 40, side, side, 1, 8, 1, len(data), 0, 0, 256, 0)
    (pictures(folder) / "z.bmp").write_bytes(head + bytes(1024) + data)
    return expect(read(folder, size=(6, 5)), skipped("z.bmp", "in run lengths"))


@case("picture")
def a_picture_told_in_a_thousand_scans(folder: Path) -> Action:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(np.zeros((2048, 2048), np.uint8)).save(out, "JPEG", progressive=True)
    content = out.getvalue()
    last = content[content.rfind(b"\xff\xda") : -2]
    (pictures(folder) / "z.jpg").write_bytes(content[:-2] + 1000 * last + content[-2:])
    return expect(read(folder, size=(6, 5)), skipped("z.jpg", "too many scans"))


@case("picture")
def a_hundred_thousand_frames(folder: Path) -> Action:
    """One picture is one sample: the first frame."""
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(SMALL[0]).save(out, "GIF")
    content = out.getvalue()
    start = content.index(b"\x2c")
    (folder / "z.gif").write_bytes(content[:start] + content[start:-1] * 100_000 + b"\x3b")
    return expect(read(folder), lambda a: np.array_equal(a[1], SMALL[:1]))


@case("picture")
def a_hundred_thousand_comments(folder: Path) -> Action:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(SMALL[0]).save(out, "GIF")
    content = out.getvalue()
    start = content.index(b"\x2c")
    comments = b"\x21\xfe\x01x\x00" * 100_000
    (folder / "z.gif").write_bytes(content[:start] + comments + content[start:])
    return expect(read(folder), lambda a: np.array_equal(a[1], SMALL[:1]))


# ---- NumPy and MATLAB


def long_header() -> bytes:
    """Return the beginning of a header that says it is 600 MB long."""
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", 600 << 20)


@case("npy", "no .npy file that can be used")
def a_header_of_600_megabytes(folder: Path) -> Action:
    with open(folder / "x.npy", "wb") as file:
        file.write(long_header())
        file.truncate(601 << 20)
    return read(folder / "x.npy")


@case("npz", "no .npz file that can be used")
def a_packed_header_of_600_megabytes(folder: Path) -> Action:
    with (
        zipfile.ZipFile(folder / "x.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w") as member,
    ):
        member.write(long_header())
        for _ in range(601):
            member.write(b" " * (1 << 20))
    return read(folder / "x.npz")


@case("npz", "holds no array of at least 2 axes")
def members_with_paths(folder: Path) -> Action:
    content = io.BytesIO()
    np.save(content, SMALL)
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        for name in ("../../X.npy", "/X.npy", "a/X.npy", "a\\X.npy"):
            archive.writestr(name, content.getvalue())
    return read(folder / "x.npz")


@case("npy", "cannot be used")
def a_pickle_in_an_array(folder: Path) -> Action:
    array = np.array([[Harm(folder / "harm")] * 2] * 2, object)
    np.save(folder / "x.npy", array, allow_pickle=True)
    return harmless(folder, read(folder / "x.npy"))


@case("npz", "cannot be used")
def a_pickle_in_an_archive(folder: Path) -> Action:
    array = np.array([[Harm(folder / "harm")] * 2] * 2, object)
    np.savez(folder / "x.npz", X=array)
    return harmless(folder, read(folder / "x.npz"))


@case("mat", "are said to be packed into")
def a_packed_variable_of_400_megabytes(folder: Path) -> Action:
    shape = (400, 1 << 20)
    body = struct.pack("<II", 6, 8) + struct.pack("<II", 9, 0)
    body += struct.pack("<IIii", 5, 8, *shape)
    body += struct.pack("<HH4s", 1, 1, b"X")
    body += struct.pack("<II", 2, shape[0] * shape[1])
    pack = zlib.compressobj(9)
    packed = pack.compress(struct.pack("<II", 14, len(body) + shape[0] * shape[1]) + body)
    packed += b"".join(pack.compress(bytes(1 << 20)) for _ in range(shape[0])) + pack.flush()
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\x01IM"
    (folder / "x.mat").write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    return read(folder / "x.mat")


# ---- HDF5


def hdf5(path: Path, write: Callable[[Any], Any], **options: Any) -> Path:
    """Write an HDF5 file."""
    import h5py

    with h5py.File(path, "w", **options) as file:
        write(file)
    return path


def plain(path: Path) -> Path:
    """Write an HDF5 file with nothing wrong."""
    return hdf5(path, lambda file: file.create_dataset("X", data=SECRET))


def external(file: Any, target: Path) -> None:
    """Make a dataset whose numbers lie in another file."""
    target.write_bytes(SECRET.tobytes())
    storage = [(str(target), 0, SECRET.nbytes)]
    file.create_dataset("X", SECRET.shape, "u1", external=storage)


def virtual(*sources: tuple[Any, str]) -> Callable[[Any], None]:
    """Make a dataset of those in other files."""

    def write(file: Any) -> None:
        import h5py

        layout = h5py.VirtualLayout((len(sources) * 4, 6, 5), "u1")
        for k, (path, name) in enumerate(sources):
            layout[4 * k : 4 * k + 4] = h5py.VirtualSource(str(path), name, (4, 6, 5))
        file.create_virtual_dataset("X", layout)

    return write


@case("hdf5", "lies in another file, which is not read")
def external_storage(folder: Path) -> Action:
    target = secret(folder, "raw")
    return read(hdf5(folder / "x.h5", lambda file: external(file, target)))


@case("hdf5", "lies in another file, which is not read")
def external_storage_in_a_matlab_file(folder: Path) -> Action:
    target = secret(folder, "raw")
    path = hdf5(folder / "x.mat", lambda file: external(file, target), userblock_size=512)
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\x02IM")
    return read(path)


@case("hdf5", "is no file in the folder of the first")
def a_virtual_dataset_of_a_file_elsewhere(folder: Path) -> Action:
    plain(secret(folder, "y.h5"))
    return read(hdf5(folder / "x.h5", virtual(("../secret/y.h5", "X"))))


@case("hdf5", "is no file in the folder of the first")
def a_virtual_dataset_of_an_absolute_path(folder: Path) -> Action:
    return read(hdf5(folder / "x.h5", virtual((plain(secret(folder, "y.h5")), "X"))))


@case("hdf5", "is no file in the folder of the first")
def a_virtual_dataset_through_a_link(folder: Path) -> Action:
    (folder / "y.h5").symlink_to(plain(secret(folder, "y.h5")))
    return read(hdf5(folder / "x.h5", virtual(("y.h5", "X"))))


@case("hdf5", "is no file in the folder of the first")
def a_virtual_dataset_of_a_pipe(folder: Path) -> Action:
    os.mkfifo(folder / "y.h5")
    return read(hdf5(folder / "x.h5", virtual(("y.h5", "X"))))


@case("hdf5", "is no file in the folder of the first")
def a_virtual_dataset_of_many_files(folder: Path) -> Action:
    import h5py

    plain(folder / "y0.h5")
    layout = h5py.VirtualLayout((4, 6, 5), "u1", maxshape=(None, 6, 5))
    layout[0 : h5py.h5s.UNLIMITED] = h5py.VirtualSource("y%b.h5", "X", (1, 6, 5))
    return read(hdf5(folder / "x.h5", lambda file: file.create_virtual_dataset("X", layout)))


@case("hdf5", "no plain dataset")
def a_virtual_dataset_of_external_storage(folder: Path) -> Action:
    target = secret(folder, "raw")
    hdf5(folder / "y.h5", lambda file: external(file, target))
    return read(hdf5(folder / "x.h5", virtual(("y.h5", "X"))))


@case("hdf5", "no plain dataset")
def a_virtual_dataset_through_an_external_link(folder: Path) -> Action:
    import h5py

    target = plain(secret(folder, "y.h5"))
    link = h5py.ExternalLink(str(target), "/")
    hdf5(folder / "y.h5", lambda file: file.__setitem__("away", link))
    return read(hdf5(folder / "x.h5", virtual(("y.h5", "away/X"))))


@case("hdf5", "no plain dataset")
def a_virtual_dataset_of_itself(folder: Path) -> Action:
    return read(hdf5(folder / "x.h5", virtual((".", "X"))))


@case("hdf5")
def a_virtual_dataset_of_files_beside_it(folder: Path) -> Action:
    for name in ("y.h5", "z.h5"):
        hdf5(folder / name, lambda file: file.create_dataset("X", data=SMALL))
    path = hdf5(folder / "x.h5", virtual(("y.h5", "X"), ("z.h5", "X")))
    return expect(read(path), lambda a: np.array_equal(a[1], [*SMALL, *SMALL]))


@case("hdf5", "has no array away")
def an_external_link(folder: Path) -> Action:
    import h5py

    link = h5py.ExternalLink(str(plain(secret(folder, "y.h5"))), "/X")
    path = hdf5(folder / "x.h5", lambda file: file.__setitem__("away", link))
    return read(f"{path}::away")


@case("hdf5", "more than 64 deep")
def groups_in_groups(folder: Path) -> Action:
    """HDF5's own walk takes a minute over these, and twice as many end the process."""
    import h5py

    def write(file: Any) -> None:
        place = file.id
        for _ in range(5000):
            place = h5py.h5g.create(place, b"g")
        h5py.Group(place).create_dataset("X", data=SMALL)

    return read(hdf5(folder / "x.h5", write, libver="latest"))


@case("hdf5")
def a_group_that_holds_itself(folder: Path) -> Action:
    def write(file: Any) -> None:
        group = file.create_group("g")
        group["again"] = group
        group["root"] = file["/"]
        group.create_dataset("X", data=SMALL)

    return expect(read(hdf5(folder / "x.h5", write)), is_small)


# ---- zarr


def zarr_store(path: Path, values: np.ndarray = SMALL) -> Path:
    """Write a store of one array in one plain chunk."""
    import zarr

    array = zarr.create_array(
        path, shape=values.shape, chunks=values.shape, dtype="u1", compressors=None
    )
    array[:] = values
    return path


def codec(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Change the description of a store."""
    described = json.loads((path / "zarr.json").read_text())
    change(described)
    (path / "zarr.json").write_text(json.dumps(described))
    return path


@case("zarr", "(not read|no zarr store)")
def a_pickle_in_a_store(folder: Path) -> Action:
    path = folder / "x.zarr"
    path.mkdir()
    described = {"zarr_format": 2, "shape": [4, 4], "chunks": [4, 4], "dtype": "<f8", "order": "C"}
    described |= {"compressor": {"id": "pickle"}, "fill_value": 0, "filters": None}
    (path / ".zarray").write_text(json.dumps(described))
    (path / "0.0").write_bytes(pickle.dumps(Harm(folder / "harm")))
    return harmless(folder, read(path))


@case("zarr", "the codec base64, which is not read")
def a_codec_nobody_asked_for(folder: Path) -> Action:
    path = folder / "x.zarr"
    path.mkdir()
    described = {"zarr_format": 2, "shape": [4, 4], "chunks": [4, 4], "dtype": "<f8", "order": "C"}
    described |= {"compressor": {"id": "base64"}, "fill_value": 0, "filters": None}
    (path / ".zarray").write_text(json.dumps(described))
    return read(path)


@case("zarr", "leads out of the store")
def a_chunk_that_is_a_link(folder: Path) -> Action:
    path = zarr_store(folder / "x.zarr")
    secret(folder, "raw").write_bytes(SECRET.tobytes())
    found = next(p for p in sorted(path.rglob("*")) if p.is_file() and p.name != "zarr.json")
    found.unlink()
    found.symlink_to(secret(folder, "raw"))
    return read(path)


@case("zarr", "(a pipe|could not be read)")
def a_chunk_that_is_a_pipe(folder: Path) -> Action:
    path = zarr_store(folder / "x.zarr")
    found = next(p for p in sorted(path.rglob("*")) if p.is_file() and p.name != "zarr.json")
    found.unlink()
    os.mkfifo(found)
    return read(path)


@case("zarr", "no zarr store that can be read")
def a_description_that_is_a_pipe(folder: Path) -> Action:
    path = zarr_store(folder / "x.zarr")
    (path / "zarr.json").unlink()
    os.mkfifo(path / "zarr.json")
    return read(path)


@case("zarr", "leads out of the store")
def a_description_that_is_a_link(folder: Path) -> Action:
    path = zarr_store(folder / "x.zarr")
    (path / "zarr.json").rename(secret(folder, "zarr.json"))
    (path / "zarr.json").symlink_to(secret(folder, "zarr.json"))
    return read(path)


@case("zarr", "(leads out of the store|no zarr store that can be read)")
def an_array_named_by_a_path(folder: Path) -> Action:
    """Consolidated metadata say what is in a store, by names that nobody has looked at."""
    import zarr

    zarr_store(secret(folder, "y.zarr"), SECRET)
    path = folder / "x.zarr"
    described = json.loads((secret(folder, "y.zarr") / "zarr.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        zarr.open_group(path, mode="w").create_array("X", data=SMALL)
        zarr.consolidate_metadata(path)

    def change(root: dict[str, Any]) -> None:
        group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
        inside = {"..": group, "../..": group, "../../secret": group}
        root["consolidated_metadata"]["metadata"] = {**inside, "../../secret/y.zarr": described}

    return read(codec(path, change))


@case("zarr", "no zarr store that can be read")
def a_store_of_references(folder: Path) -> Action:
    plain_bytes = {".zgroup": json.dumps({"zarr_format": 2}), "X/0": ["/etc/passwd", 0, 100]}
    (folder / "x.zarr").write_text(json.dumps({"version": 1, "refs": plain_bytes}))
    return read(folder / "x.zarr")


@case("zarr", "no such file or folder")
def a_store_on_the_network(folder: Path) -> Action:
    return read("http://127.0.0.1:9/x.zarr")


# ---- TIFF


def tiff(path: Path, values: np.ndarray, **options: Any) -> Path:
    """Write a TIFF file."""
    import tifffile

    tifffile.imwrite(path, values, photometric="minisblack", **options)
    return path


@case("tiff", "holds one picture")
def a_description_that_names_another_file(folder: Path) -> Action:
    tiff(secret(folder, "y.tif"), SECRET[0])
    place = 'xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06"'
    text = (
        f'<?xml version="1.0"?><OME {place} UUID="urn:uuid:1"><Image ID="Image:0"><Pixels '
        'ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="5" SizeY="6" SizeZ="2" '
        'SizeC="1" SizeT="1"><Channel ID="c:0" SamplesPerPixel="1"/><TiffData IFD="0" FirstZ="0" '
        'PlaneCount="1"><UUID FileName="x.ome.tif">urn:uuid:1</UUID></TiffData><TiffData IFD="0" '
        'FirstZ="1" PlaneCount="1"><UUID FileName="../secret/y.tif">urn:uuid:2</UUID></TiffData>'
        "</Pixels></Image></OME>"
    )
    return read(tiff(folder / "x.ome.tif", SMALL[0], description=text, metadata=None))


@case("tiff", "holds more than it says")
def a_page_that_unpacks_to_600_megabytes(folder: Path) -> Action:
    import tifffile

    path = tiff(folder / "x.tif", SMALL, compression="zlib", metadata=None, rowsperstrip=6)
    data = packed(600 << 20)
    with tifffile.TiffFile(path) as file:
        tags = [file.pages[0].tags[number] for number in (273, 279)]
    content = bytearray(path.read_bytes())
    for tag, value in zip(tags, (len(content), len(data)), strict=True):
        place, size = tag.valueoffset, {3: 2, 4: 4}[int(tag.dtype)]
        if size == 2:
            content[tag.offset + 2 : tag.offset + 4] = struct.pack("<H", 4)
        content[place : place + 4] = struct.pack("<I", value)
    path.write_bytes(bytes(content) + data)
    return read(path)


@case("tiff", "more than it has room for")
def pages_over_each_other(folder: Path) -> Action:
    """Each page begins a byte after the one before: half a million in as many bytes."""
    count = 200_000
    content = bytearray(b"II*\0" + struct.pack("<I", 8) + bytes(8 * count))
    for k in range(count - 1):
        # No entries, then the place of the next.
        struct.pack_into("<HI", content, 8 + 6 * k, 0, 8 + 6 * (k + 1))
    (folder / "x.tif").write_bytes(content)
    return read(folder / "x.tif")


@case("tiff", "compressed by a method that is not read")
def a_compression_nobody_asked_for(folder: Path) -> Action:
    import tifffile

    path = tiff(folder / "x.tif", SMALL, compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as file:
        places = [page.tags[259].valueoffset for page in file.pages]
    content = bytearray(path.read_bytes())
    for place in places:
        content[place : place + 2] = struct.pack("<H", 34925)
    path.write_bytes(content)
    return read(path)


# ---- video


def video(path: Path) -> Path:
    """Write a short video."""
    import av

    with av.open(f"file:{path}", "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
        for k in range(4):
            frame = av.VideoFrame.from_ndarray(np.full((16, 16, 3), 40 * k, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@case("video", "no video that can be read")
def a_list_of_other_videos(folder: Path) -> Action:
    target = video(secret(folder, "y.mp4"))
    (folder / "x.mp4").write_text(f"ffconcat version 1.0\nfile {target}\n")
    return read(folder / "x.mp4")


@case("video", "no video that can be read")
def a_list_of_a_video_beside_it(folder: Path) -> Action:
    video(folder / "y.mp4")
    (folder / "x.mp4").write_text("ffconcat version 1.0\nfile y.mp4\n")
    return read(folder / "x.mp4")


@case("video", "no video that can be read")
def a_playlist_of_the_network(folder: Path) -> Action:
    lines = ["#EXTM3U", "#EXT-X-TARGETDURATION:1", "#EXTINF:1,", "http://127.0.0.1:9/x.ts"]
    (folder / "x.mp4").write_text("\n".join([*lines, "#EXT-X-ENDLIST", ""]))
    return read(folder / "x.mp4")


def named_like_an_address(name: str) -> None:
    """Add the case of a video whose name FFmpeg would take for an address."""

    def make(folder: Path) -> Action:
        video(folder / name)

        def act() -> Any:
            here = os.getcwd()
            os.chdir(folder)
            try:
                return read(name)()
            finally:
                os.chdir(here)

        return expect(act, lambda a: a[1].shape == (4, 16, 16, 3))

    make.__name__ = f"a_file_called_{name}"
    case("video")(make)


named_like_an_address("concat:x.mp4")
named_like_an_address("subfile,,start,0,end,9,,:x.mp4")
named_like_an_address("http:x.mp4")


@case("video", "claims more samples than it has bytes")
def thirty_million_samples_in_a_kilobyte(folder: Path) -> Action:
    content = bytearray(video(folder / "x.mp4").read_bytes())
    for mark, place, values in (
        (b"stsz", 8, (1, 30_000_000)),
        (b"stsc", 16, (30_000_000,)),
        (b"stts", 12, (30_000_000,)),
    ):
        start = content.index(mark) + place
        content[start : start + 4 * len(values)] = struct.pack(f">{len(values)}I", *values)
    (folder / "x.mp4").write_bytes(content)
    return read(folder / "x.mp4")


@case("video", "claims more samples than it has bytes")
def a_run_of_thirty_million_samples(folder: Path) -> Action:
    run = struct.pack(">I4sII", 16, b"trun", 0, 30_000_000)
    header = struct.pack(">I4sIII", 20, b"tfhd", 0x10, 1, 1)
    track = struct.pack(">I4s", 8 + len(header) + len(run), b"traf") + header + run
    part = struct.pack(">I4s", 8 + len(track), b"moof") + track
    with open(video(folder / "x.mp4"), "ab") as file:
        file.write(part)
    return read(folder / "x.mp4")


@case("video", "more than 524288 frames")
def more_frames_than_anybody_has(folder: Path) -> Action:
    """Frames of four pixels, 14 bytes each."""
    import av

    path = folder / "x.avi"
    with av.open(str(path), "w", format="avi") as container:
        stream = container.add_stream("rawvideo", rate=5)
        stream.width, stream.height, stream.pix_fmt = 2, 2, "yuv420p"
        frame = av.VideoFrame.from_ndarray(np.zeros((2, 2, 3), np.uint8), "rgb24")
        container.mux(stream.encode(frame.reformat(format="yuv420p")))
        container.mux(stream.encode())
    content = path.read_bytes()
    start = content.index(b"movi")
    first = content.index(b"00d", start)
    frames = 600_000 * content[first : first + 14]
    head = bytearray(content[: start + 4])
    head[4:8] = struct.pack("<I", len(head) - 8 + len(frames))
    head[start - 4 : start] = struct.pack("<I", 4 + len(frames))
    path.write_bytes(bytes(head) + frames)
    return read(path)


# ---- model files, a cluster, arrays in memory


@case("model", "is none of")
def a_model_of_a_class_that_runs_commands(folder: Path) -> Action:
    tree = {"estimator": "os.system", "params": {}, "state": {}}
    return read_model(forged(folder / "m.ct", tree))


@case("model", "claims to hold more than its")
def a_packed_model(folder: Path) -> Action:
    return read_model(forged(folder / "m.ct", None, zipfile.ZIP_DEFLATED, bytes(300 << 20)))


def forged(path: Path, tree: Any, packed: int = zipfile.ZIP_STORED, more: bytes = b"") -> Path:
    """Write a model file with a right checksum."""
    import hashlib

    header = {"format": "corrtensor model", "version": 1, "corrtensor": "1", "arrays": 0}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", packed) as archive:
        archive.writestr("model.json", json.dumps({**header, "model": tree}))
        archive.writestr("0.npy", more)
        archive.comment = b"sha256:" + b"0" * 64
    body = content.getvalue()[:-64]
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    return path


@case("cluster", "use 'local:4'")
def a_cluster_that_is_no_scheduler(folder: Path) -> Action:
    np.save(folder / "x.npy", SMALL)
    arguments = ("fit", folder / "x.npy", "-o", folder / "m.ct", "--cluster", "file:///etc/passwd")
    return command(*arguments, code=1)


# ---- names


def faces(folder: Path, name: str) -> Path:
    """Put twelve pictures into a folder, the first of them by a name."""
    pictures(folder, [name, *(f"{k:02d}.png" for k in range(11))])
    return folder


EVIL = '=HYPERLINK("http:\\\\x","y").png'
BROKEN = "two\nlines\x1b[2J\u202e\udcff.png"


@case("names")
def a_formula_in_a_table(folder: Path) -> Action:
    table = folder.parent / "o.csv"
    act = command("outliers", faces(folder, EVIL), "--csv", table)

    def holds(_: Any) -> bool:
        import csv

        from corrtensor._base.names import from_cell

        with table.open(newline="", encoding="utf-8") as file:
            names = [row["name"] for row in csv.DictReader(file)]
        harmless = not any(name.startswith(("=", "+", "-", "@", "\t", "\r")) for name in names)
        return harmless and EVIL in map(from_cell, names)

    return expect(act, holds)


@case("names")
def a_name_of_two_lines_and_escape_codes(folder: Path) -> Action:
    table = folder.parent / "o.csv"
    act = command("outliers", faces(folder, BROKEN), "--csv", table)

    def holds(answer: Any) -> bool:
        text, told = table.read_bytes().decode("utf-8"), answer[1]
        shown = "two\\nlines\\x1b[2J\\u202e\\udcff.png"
        # Twelve samples, a line before and one after; four groups of copies with a line before
        # them, and a note that four different samples are few.
        lines = (told.count("\n") - 6, text.count("\n"))
        clean = (told + text).replace("\n", "").isprintable()
        return clean and shown in told and shown in text and lines == (14, 13)

    return expect(act, holds)


@case("names")
def such_a_name_in_json(folder: Path) -> Action:
    act = command("outliers", faces(folder, BROKEN), "--json")

    def holds(answer: Any) -> bool:
        told = answer[1]
        names = [entry["name"] for entry in json.loads(told)["samples"]]
        return BROKEN in names and told.isascii() and told.replace("\n", "").isprintable()

    return expect(act, holds)


@case("names")
def such_a_name_on_a_page(folder: Path) -> Action:
    page = folder.parent / "p.html"
    where = faces(folder, BROKEN)
    act = command("fit", where, "-o", folder.parent / "m.ct", "--ranks", "2,2", "--report", page)

    def holds(_: Any) -> bool:
        text = page.read_text(encoding="utf-8")
        return "\\x1b[2J" in text and "\x1b" not in text and "\u202e" not in text

    return expect(act, holds)


@case("names", "^[^\n\x1b]*two.nlines[^\n\x1b]*$")
def such_a_name_in_an_error(folder: Path) -> Action:
    (folder / f"{BROKEN}.npy").write_bytes(b"nothing")
    return read(folder / f"{BROKEN}.npy")


# ---- outputs


def trained(folder: Path) -> tuple[Path, Path]:
    """Write samples and a model of them."""
    from corrtensor import make, save

    X = np.random.default_rng(0).normal(size=(12, 6, 5))
    np.save(folder / "x.npy", X)
    save(make("2DSVD", (2, 2)).fit(X), folder / "m.ct")
    return folder / "m.ct", folder / "x.npy"


def untouched(folder: Path, action: Action, path: Path) -> Action:
    """Do it and see that a file is as it was, without opening it."""

    def state() -> tuple[int, ...]:
        told = os.stat(path)
        return told.st_ino, told.st_size, told.st_mtime_ns

    before = state()

    def act() -> Any:
        try:
            return action()
        finally:
            if state() != before:
                raise AssertionError(f"{path.name} was changed")

    return act


@case("output", "would be written over")
def an_output_onto_its_input(folder: Path) -> Action:
    model, x = trained(folder)
    return untouched(folder, command("transform", model, x, "-o", x, code=2), x)


@case("output", "would be written over")
def an_output_onto_the_model(folder: Path) -> Action:
    model, x = trained(folder)
    os.rename(model, folder / "m.npy")
    model = folder / "m.npy"
    return untouched(folder, command("transform", model, x, "-o", model, code=2), model)


@case("output", "would be written over")
def an_output_onto_another_name_of_its_input(folder: Path) -> Action:
    model, x = trained(folder)
    os.link(x, folder / "y.npy")
    return untouched(folder, command("transform", model, x, "-o", folder / "y.npy", code=2), x)


@case("output", "would be written over")
def an_output_around_its_input(folder: Path) -> Action:
    import zarr

    model, _ = trained(folder)
    zarr.open_group(folder / "x.zarr", mode="w").create_array("X", data=np.zeros((4, 6, 5)))
    there = folder / "x.zarr"
    act = command("transform", model, there / "X", "-o", there, code=2)
    return untouched(folder, act, there / "X" / "zarr.json")


@case("output", "would be written over")
def two_outputs_of_one_name(folder: Path) -> Action:
    _, x = trained(folder)
    both = folder / "both.ct"
    return command("cluster", x, "-k", 2, "-o", both, "--csv", both, code=2)


def linked(folder: Path, name: str) -> tuple[Path, Path]:
    """Put a link to a secret file where an output shall be."""
    target = secret(folder, name)
    target.write_bytes(b"precious")
    (folder / name).symlink_to(target)
    return folder / name, target


def through_a_link(name: str, *task: str) -> None:
    """Add the case of an output whose name is a link."""

    def make(folder: Path) -> Action:
        model, x = trained(folder)
        out, target = linked(folder, name)
        arguments = {"transform": (model, x, "-o", out), "fit": (x, "-o", out)}
        arguments["outliers"] = (x, "--csv", out)
        return untouched(folder, command(*task, *arguments[task[0]], code=1), target)

    make.__name__ = f"a_link_called_{name}"
    case("output", "it is a link to")(make)


through_a_link("c.npy", "transform")
through_a_link("c.npz", "transform")
through_a_link("c.h5", "transform")
through_a_link("c.zarr", "transform")
through_a_link("model.ct", "fit")
through_a_link("o.csv", "outliers")


@case("output", "it is a link to")
def a_link_that_leads_nowhere(folder: Path) -> Action:
    model, x = trained(folder)
    (folder / "c.npy").symlink_to(secret(folder, "new"))
    return command("transform", model, x, "-o", folder / "c.npy", code=1)


@case("output", "it is a link to")
def a_checkpoint_that_is_a_link(folder: Path) -> Action:
    _, x = trained(folder)
    out, target = linked(folder, "fit.ckpt")
    act = command("fit", x, "-o", folder / "n.ct", "--checkpoint", out, code=1)
    return untouched(folder, act, target)


@case("output", "leads through a link to another file")
def an_output_into_another_hdf5_file(folder: Path) -> Action:
    import h5py

    model, x = trained(folder)
    target = plain(secret(folder, "y.h5"))
    link = h5py.ExternalLink(str(target), "/")
    hdf5(folder / "c.h5", lambda file: file.__setitem__("away", link))
    out = f"{folder / 'c.h5'}::away/X"
    act = command("transform", model, x, "-o", out, "--force", code=1)
    return untouched(folder, act, target)


@case("output", "it leads elsewhere")
def a_picture_named_by_a_path(folder: Path) -> Action:
    def act() -> Any:
        from corrtensor.io.writing import open_output

        names = ["../../secret/x"]
        with open_output(str(folder / "out"), (1, 6, 5), np.dtype("u1"), names=names) as write:
            write(SMALL[:1])

    return act


@case("output", "another run is writing it")
def an_output_that_another_run_writes(folder: Path) -> Action:
    model, x = trained(folder)

    def act() -> Any:
        from corrtensor._base.files import held

        with held(folder / "c.npy"):
            return command("transform", model, x, "-o", folder / "c.npy", code=1)()

    return act


@case("output", "another run is writing it")
def a_checkpoint_that_another_run_writes(folder: Path) -> Action:
    def act() -> Any:
        from corrtensor._base.files import held

        with held(folder / "fit.ckpt"):
            return go_on(folder / "fit.ckpt")()

    return act


@case("output", "not a regular file")
def a_lock_that_is_a_pipe(folder: Path) -> Action:
    os.mkfifo(folder / ".fit.ckpt.lock")
    return go_on(folder / "fit.ckpt")


# ---- trying them


def try_case(one: Case, folder: Path, guard: Callable[[], None] | None = None) -> str | None:
    """Let a case happen in this process; return what is wrong with how it ended."""
    import re

    inside = folder / "in"
    inside.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        action = one.make(inside)
        if guard is not None:
            guard()
        try:
            action()
        except (ValueError, OSError) as error:
            if one.says is None or not re.search(one.says, str(error)):
                return f"{type(error).__name__}: {error}"
        except BaseException as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error} ({Path(at.filename).name}:{at.lineno})"
        else:
            return None if one.says is None else "it was not refused"
    return None


def try_apart(name: str, folder: Path, guard: Callable[[], None] | None = None) -> dict[str, Any]:
    """Let a case happen in a forked process with its limits.

    Parameters
    ----------
    name : str
        In ``CASES``.
    folder : Path
        A new folder for its files.
    guard : callable, default=None
        Called in that process between the making of the files and their reading.

    Returns
    -------
    figures : dict
        ``wrong``, a text or ``None``; ``seconds``; ``peak``, the most resident memory in bytes.
    """
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        began = time.process_time()

        had = 0

        def ready() -> None:
            nonlocal began, had
            # The making may take its time and memory; what it took is not counted, nor what the
            # process had that this one was forked from.
            forget_peak()
            had = peak()
            began = time.process_time()
            if guard is not None:
                guard()

        try:
            wrong = try_case(CASES[name], folder, ready)
            told = {"wrong": wrong, "seconds": time.process_time() - began, "peak": peak() - had}
            os.write(outlet, json.dumps(told).encode()[:60000])
        except BaseException:
            os.write(outlet, json.dumps({"wrong": traceback.format_exc()[-2000:]}).encode())
        finally:
            os._exit(0)
    os.close(outlet)
    deadline = time.monotonic() + PATIENCE
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.005)
    with os.fdopen(inlet, "rb") as pipe:
        told = pipe.read()
    figures = {"wrong": "its process ended or hung", "seconds": 0.0, "peak": 0}
    figures |= json.loads(told) if told else {}
    if figures["wrong"] is None and figures["seconds"] > SECONDS:
        figures["wrong"] = f"it took {figures['seconds']:.1f} s"
    if figures["wrong"] is None and figures["peak"] > BYTES:
        figures["wrong"] = f"it took {figures['peak'] / 2**20:.0f} MB"
    return figures


def forget_peak() -> None:
    """Let the most resident memory be counted from now on (Linux)."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def peak() -> int:
    """Return the most resident memory of this process in bytes (Linux)."""
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def warm_up() -> None:
    """Import what is slow to import before processes are forked or watched."""
    for module in (
        *("av", "h5py", "jinja2", "sklearn.frozen", "ssl", "tifffile", "typer.testing", "zarr"),
        *("corrtensor.cli", "corrtensor.io", "corrtensor.io.writing", "corrtensor.report.page"),
        *("corrtensor.tasks", "PIL.ImageOps", "corrtensor.io.zarr_store"),
    ):
        importlib.import_module(module)
    tempfile.gettempdir()


def try_all() -> dict[str, Any]:
    """Try every case, each in its own process; return the figures for the long run."""
    warm_up()
    failures, seconds, most = [], 0.0, 0
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            figures = try_apart(name, Path(folder) / "case")
        seconds, most = max(seconds, figures["seconds"]), max(most, figures["peak"])
        if figures["wrong"] is not None:
            failures.append({"case": name, "error": figures["wrong"]})
    return {"tried": len(CASES), "failures": failures, "seconds": seconds, "peak": most}


# ---- what is opened on the way, as the system sees it


@case("planted")
def planted_reading_of_another_file(folder: Path) -> Action:
    """In C, where Python does not see it."""
    path = hdf5(folder / "x.h5", lambda file: external(file, secret(folder, "raw")))

    def act() -> Any:
        import h5py

        with h5py.File(path, "r") as file:
            return file["X"][:]

    return act


@case("planted")
def planted_start_of_a_program(folder: Path) -> Action:
    return lambda: os.system("true")  # noqa: S605


@case("planted")
def planted_connection(folder: Path) -> Action:
    def act() -> Any:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", 9))

    return act


PLANTED = [name for name in CASES if name.startswith("planted")]
ALL = {name: CASES.pop(name) if name in PLANTED else one for name, one in list(CASES.items())}


def mark(words: str) -> None:
    """Leave a mark in the record of system calls: a file that is not there."""
    try:
        os.close(os.open(f"/crafted mark/{words}", os.O_RDONLY))
    except FileNotFoundError:
        return


def run_traced(folder: Path) -> None:
    """Let all cases happen in this process, marked; those that are planted at the end."""
    warm_up()
    for name, one in ALL.items():
        wrong = try_case(one, folder / name, partial(mark, f"begin {name}"))
        mark("end")
        if wrong is not None:
            print(f"{name}: {wrong}", flush=True)


if __name__ == "__main__":
    run_traced(Path(sys.argv[1]))
