"""Mutated files: every reader gives an answer or a documented error, in bounded time and memory.

The long form is ``make torture``; ``docs/reliability.md`` has its figures.
"""

import io
import json
import struct
import subprocess
import sys
import textwrap
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.io import loadmat, savemat

import corrtensor as ct
from corrtensor.io import InputError, matlab, open_labels, open_samples, opening
from corrtensor.storage import ModelFileError
from studies.torture.isolated import try_files_apart
from studies.torture.mutations import KINDS, mutate
from studies.torture.reading import (
    READERS,
    lay_out,
    make_seeds,
    no_longer_than,
    try_files,
)
from studies.torture.seeds import sealed

QUICK = {"zarr": 15, "checkpoint": 40, "folder of images": 60}


@pytest.mark.filterwarnings("ignore:CorrTensor did not converge")
@pytest.mark.parametrize("reader", READERS)
def test_what_the_mutations_begin_with_can_be_read(reader, tmp_path):
    """Else every file would be refused, and nothing tested."""
    seeds = list(make_seeds(reader))
    assert seeds
    for files in seeds:
        READERS[reader](lay_out(tmp_path, files))


@pytest.mark.parametrize("reader", READERS)
def test_mutated_files(reader):
    tally = try_files(reader, 0, QUICK.get(reader, 120), seed=2)
    assert not tally.failures
    # Of a folder the pictures that cannot be read are left out and listed.
    assert tally.refused > 0 or reader == "folder of images"
    assert tally.tried == tally.read + tally.refused


def tables(folder):
    """Tables in several dialects, with names and without."""
    X = np.random.default_rng(0).normal(size=(6, 4)).round(3)
    lines = [",".join(map(str, row)) for row in X.tolist()]
    named = ["id;a;b;c;d", *(f"s{k};{line.replace(',', ';')}" for k, line in enumerate(lines))]
    quoted = ['"a\n""x""",b,c,d', *lines[:3], "1,,NA,nan"]
    for content in (lines, named, quoted):
        yield {"x.csv": "\n".join(content).encode("utf-8-sig")}
    yield {"x.tsv": "\r\n".join(lines).replace(",", "\t").encode()}


def test_mutated_tables(monkeypatch):
    """Until the next long run they are no reader of its record."""
    from studies.torture import reading

    monkeypatch.setattr(reading, "SEEDS", {**reading.SEEDS, "table": tables})
    monkeypatch.setattr(reading, "READERS", {**READERS, "table": reading.read_samples})
    tally = try_files("table", 0, 600, seed=2)
    assert not tally.failures
    assert min(tally.read, tally.refused) > 60


def test_a_reader_that_fails_is_found(monkeypatch):
    """The tests above can fail: by an error, by taking too long."""
    from studies.torture import reading

    def broken(path):
        raise ZeroDivisionError

    monkeypatch.setattr(reading, "READERS", {**READERS, "npy": broken})
    assert len(try_files("npy", 0, 3).failures) == 3

    def slow(path):
        while True:
            pass

    monkeypatch.setattr(reading, "READERS", {**READERS, "npy": slow})
    monkeypatch.setattr(reading, "PATIENCE", 0.05)
    assert "TooSlow" in try_files("npy", 0, 1).failures[0]["error"]


def test_files_in_a_process_with_little_memory():
    figures = try_files_apart("npy", 40, seed=3)
    assert figures["tried"] == 40
    assert figures["failures"] == []
    assert figures["growth"] < 1 << 28


def test_mutations_change_files():
    from random import Random

    content = json.dumps({"shape": [3, 4], "a": list(range(20))}).encode()
    changed = [mutate(content, Random(k)) for k in range(300)]
    assert sum(one != content for one in changed) > 280
    assert mutate(b"", Random(0)) == b""
    for kind in KINDS:
        for seed in range(20):
            piece = bytearray(content)
            kind(piece, Random(seed))
            assert len(piece) <= len(content) + 512


def test_a_sealed_file_has_a_right_checksum(tmp_path):
    """Or the mutations would never get past it."""
    from random import Random

    (files, *_) = make_seeds("model file")
    messages = []
    for k in range(60):
        (tmp_path / "m.ct").write_bytes(sealed(next(iter(files.values())), Random(k)))
        try:
            ct.load(tmp_path / "m.ct")
        except ModelFileError as error:
            messages.append(str(error))
    assert sum("checksum" in message for message in messages) < 20
    assert sum("holds no" in message for message in messages) > 5


def write_hollow(path, shape):
    """Write about 1 kB that claims to be an array of this shape."""
    if path.suffix == ".h5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file.create_dataset("X", shape=shape, dtype="f8", chunks=(1, 10**6))
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zarr.create_array(path, shape=shape, chunks=(1, 10**9), dtype="f8")
    elif path.suffix == ".mat":
        savemat(path, {"X": np.zeros((2, 3))})
        content = path.read_bytes()
        path.write_bytes(content.replace(struct.pack("<2i", 2, 3), struct.pack("<2i", *shape)))
    else:
        header = io.BytesIO()
        described = {"descr": "<f8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        if path.suffix == ".npy":
            path.write_bytes(header.getvalue() + bytes(800))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("X.npy", header.getvalue() + bytes(800))
    return path


def test_a_small_file_cannot_ask_for_much(tmp_path):
    """About 1 kB that claims 80 GB, opened and read in a process that may have 1 GB more."""
    suffixes = (".npy", ".h5", ".zarr", ".mat", ".npz")
    paths = [write_hollow(tmp_path / f"x{suffix}", (10, 10**9)) for suffix in suffixes]
    script = textwrap.dedent(
        """
        import resource, sys
        from corrtensor.io import InputError, open_samples
        now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + 2**30, now + 2**30))
        for path in sys.argv[1:]:
            try:
                open_samples(path)[0:1]
            except InputError:
                print("refused")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *paths], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "refused\n" * len(paths), done.stderr


def test_large_and_well_compressed_is_believed(tmp_path, monkeypatch):
    """The bound is on what is absurd, not on what is large."""
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr(opening, "BELIEVED", 1 << 20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        options = {"chunks": (10, 500, 500), "compression": "gzip"}
        file.create_dataset("X", data=np.zeros((40, 500, 500), np.uint8), **options)
        file.create_dataset("Y", shape=(4000, 10**6), dtype="f8", chunks=(1, 1000))
    assert open_samples(f"{tmp_path / 'x.h5'}::X").shape == (40, 500, 500)
    with pytest.raises(InputError, match="claims the shape"):
        open_samples(f"{tmp_path / 'x.h5'}::Y")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24.0).reshape(2, 3, 4),
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.ones((1, 1), np.uint8),
        np.linspace(0, 1, 1000, dtype=np.float32).reshape(10, 100),
        np.array([[True, False]]),
        np.array([[2**40, -1]]),
    ],
    ids=lambda a: f"{a.dtype}{a.shape}",
)
def test_matlab_files_are_read_as_scipy_reads_them(tmp_path, array, compressed):
    path = tmp_path / "x.mat"
    content = {"name": "text", "cells": np.array([1, "b"], object), "z": array + 1j, "X": array}
    savemat(path, content, do_compression=compressed)
    ours = matlab.read_variable(path, matlab.list_variables(path)[-1])
    theirs = loadmat(path)["X"]
    assert_array_equal(ours, theirs)
    assert ours.dtype == theirs.dtype
    assert [variable.name for variable in matlab.list_variables(path)] == ["X"]


def test_a_damaged_compressed_matlab_file_is_noticed(tmp_path):
    """The checksum comes after the numbers; it must be looked at all the same."""
    path = tmp_path / "x.mat"
    savemat(path, {"X": np.random.default_rng(0).normal(size=(20, 30))}, do_compression=True)
    good = path.read_bytes()
    for place in range(300, len(good), 97):
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        with pytest.raises(InputError, match=r"x\.mat"):
            open_samples(path)


def test_pages_in_a_circle(tmp_path):
    """A TIFF file whose last page names the first as the next."""
    tifffile = pytest.importorskip("tifffile")
    path = tmp_path / "x.tif"
    tifffile.imwrite(path, np.zeros((3, 5, 4), np.uint8), photometric="minisblack", metadata=None)
    with tifffile.TiffFile(path) as file:
        first, last = file.pages[0].offset, file.pages[2].offset
    content = bytearray(path.read_bytes())
    end = last + 2 + 12 * int.from_bytes(content[last : last + 2], "little")
    content[end : end + 4] = first.to_bytes(4, "little")
    path.write_bytes(content)
    with no_longer_than(5):
        try:
            assert open_samples(path).shape == (3, 5, 4)
        except InputError:
            return


def test_a_store_that_claims_many_chunks_and_has_none(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.create_array(tmp_path / "x.zarr", shape=(6, 4, 32767), chunks=(3, 4, 3), dtype="f8")
    with no_longer_than(5), pytest.raises(InputError, match="21846 chunks; it has 1 files"):
        open_samples(tmp_path / "x.zarr")


def test_labels_of_any_bytes(tmp_path):
    (tmp_path / "y.txt").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="no text file"):
        open_labels(tmp_path / "y.txt", 3)
