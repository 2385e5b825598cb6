"""Small files that every reader can read: what the mutations begin with."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from corrtensor._base.extras import need
from corrtensor.baselines import L1TwoDPCA
from corrtensor.corr_tensor import CorrTensor
from corrtensor.io.model_file import COMMENT, DIGITS
from corrtensor.storage import save
from corrtensor.tasks import DensityPeaksKMeans, TensorOutlierDetector
from studies.torture.mutations import mutate

__all__ = ["SEEDS", "SETTINGS", "Files", "samples", "spoil"]

# A file, or a folder of files by their names.
Files = dict[str, bytes]
SETTINGS: Mapping[str, Any] = {"scale": "median", "tol": 0.0, "max_iter": 4}


def samples(shape: tuple[int, ...] = (12, 6, 5), seed: int = 0) -> np.ndarray:
    """Return samples with nothing special about them."""
    return np.random.default_rng(seed).normal(size=shape)


def written(path: Path, write: Callable[[Path], Any]) -> Files:
    """Return what a function writes to a file or folder."""
    write(path)
    if path.is_file():
        return {path.name: path.read_bytes()}
    files = sorted(p for p in path.rglob("*") if p.is_file())
    return {p.relative_to(path.parent).as_posix(): p.read_bytes() for p in files}


def models(folder: Path) -> Iterator[Files]:
    """Yield model files: small, nested, of strings and tables."""
    X = samples()
    clusters = DensityPeaksKMeans(2, random_state=np.random.RandomState(0))
    fitted = (
        CorrTensor((2, 2)),
        CorrTensor((2, 2)).fit(X),
        L1TwoDPCA(2).fit(X),
        TensorOutlierDetector(CorrTensor((2, 2))).fit(X),
        clusters.fit(X),
    )
    for model in fitted:
        yield written(folder / "model.ct", partial(save, model))


class Stop(BaseException):
    """Ends a fit the way a signal does."""


def checkpoints(folder: Path) -> Iterator[Files]:
    """Yield checkpoints of a fit of ``samples()`` that was stopped after its second sweep."""
    from corrtensor._engine import checkpoint

    def stop(sweep: int, *_: Any) -> None:
        if sweep == 2:
            raise Stop

    def write(path: Path) -> None:
        every, checkpoint.EVERY = checkpoint.EVERY, 0.0
        try:
            CorrTensor((2, 2), **SETTINGS, checkpoint=path, callback=stop).fit(samples())
        except Stop:
            return
        finally:
            checkpoint.EVERY = every

    yield written(folder / "fit.ckpt", write)


def npy(folder: Path) -> Iterator[Files]:
    """Yield ``.npy`` files of several types and both orders."""
    for X in (samples(), np.asfortranarray(samples((5, 4, 3))), samples((4, 6)).astype(np.int16)):
        yield written(folder / "x.npy", partial(np.save, arr=X))


def npz(folder: Path) -> Iterator[Files]:
    """Yield ``.npz`` files, stored and compressed."""
    X, y = samples((6, 4, 3)), np.arange(6)
    yield written(folder / "x.npz", lambda path: np.savez(path, X=X, y=y))
    yield written(folder / "x.npz", lambda path: np.savez_compressed(path, X=np.asfortranarray(X)))


def mat(folder: Path) -> Iterator[Files]:
    """Yield MATLAB files of version 5, plain and compressed."""
    from scipy.io import savemat

    X = samples((5, 4, 3))
    for packed in (False, True):
        yield written(folder / "x.mat", partial(savemat, mdict={"X": X}, do_compression=packed))


def hdf5(folder: Path) -> Iterator[Files]:
    """Yield HDF5 files: contiguous, and compressed in chunks."""
    h5py = need("h5py", "io", "the torture of HDF5 files")

    def write(path: Path, **options: Any) -> None:
        with h5py.File(path, "w") as file:
            file.create_dataset("X", data=samples((6, 4, 3)), **options)
            file.attrs["about"] = "seed"

    yield written(folder / "x.h5", write)
    chunked = {"chunks": (2, 4, 3), "compression": "gzip", "shuffle": True}
    yield written(folder / "x.h5", lambda path: write(path, **chunked))


def zarr(folder: Path) -> Iterator[Files]:
    """Yield zarr stores, one array and a group."""
    library = need("zarr", "io", "the torture of zarr stores")

    def one(path: Path) -> None:
        array = library.create_array(path, shape=(6, 4, 3), chunks=(3, 4, 3), dtype="f8")
        array[:] = samples((6, 4, 3))

    def group(path: Path) -> None:
        root = library.open_group(path, mode="w")
        root.create_array("X", shape=(4, 3), chunks=(2, 3), dtype="i2")[:] = 7

    yield written(folder / "one.zarr", one)
    yield written(folder / "two.zarr", group)


def tiff(folder: Path) -> Iterator[Files]:
    """Yield TIFF files of several pages: plain, deflated, of other page order."""
    tifffile = need("tifffile", "io", "the torture of TIFF files")
    pages = (samples((4, 6, 5)) * 40 + 128).astype(np.uint8)
    for options in ({}, {"compression": "zlib"}, {"bigtiff": True}, {"metadata": None}):
        yield written(
            folder / "x.tif",
            partial(tifffile.imwrite, data=pages, photometric="minisblack", **options),
        )


def pictures(folder: Path) -> Iterator[Files]:
    """Yield folders of two images, one of which stays whole."""
    Image = need("PIL.Image", "io", "the torture of images")
    grey = (np.add.outer(np.arange(9), np.arange(8)) * 9).astype(np.uint8)
    for suffix in ("png", "jpg", "gif", "bmp", "pgm", "tif", "webp"):
        content = io.BytesIO()
        image = Image.fromarray(grey if suffix != "webp" else np.stack([grey] * 3, axis=-1))
        image.save(content, {"jpg": "jpeg", "pgm": "ppm", "tif": "tiff"}.get(suffix, suffix))
        whole = io.BytesIO()
        image.save(whole, "png")
        yield {f"f/a.{suffix}": content.getvalue(), "f/b.png": whole.getvalue()}


def video(folder: Path) -> Iterator[Files]:
    """Yield short videos in two containers."""
    av = need("av", "video", "the torture of videos")

    def write(path: Path, codec: str) -> None:
        with av.open(str(path), "w") as container:
            stream = container.add_stream(codec, rate=5)
            stream.width, stream.height, stream.pix_fmt = 16, 16, "yuv420p"
            for k in range(4):
                picture = np.full((16, 16, 3), 40 * k, np.uint8)
                for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                    container.mux(packet)
            for packet in stream.encode():
                container.mux(packet)

    yield written(folder / "x.mp4", lambda path: write(path, "mpeg4"))
    yield written(folder / "x.mkv", lambda path: write(path, "mpeg4"))


def labels(folder: Path) -> Iterator[Files]:
    """Yield files of twelve labels."""
    yield {"y.txt": "\n".join(f"class {k % 3}" for k in range(12)).encode()}
    yield written(folder / "y.npy", lambda path: np.save(path, np.arange(12) % 3))


SEEDS: Mapping[str, Callable[[Path], Iterator[Files]]] = {
    "model file": models,
    "checkpoint": checkpoints,
    "npy": npy,
    "npz": npz,
    "mat": mat,
    "hdf5": hdf5,
    "zarr": zarr,
    "tiff": tiff,
    "folder of images": pictures,
    "video": video,
    "labels": labels,
}


def rezipped(content: bytes, random: Random, comment: bytes = b"") -> bytes:
    """Change one member of an archive and pack it again, with sums that are right."""
    rebuilt = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as archive,
        zipfile.ZipFile(rebuilt, "w") as changed,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        infos = archive.infolist()
        victim = random.choice([infos[0], *infos]).filename
        for info in infos:
            member = archive.read(info)
            if info.filename == victim:
                member = retold(member, random) if random.random() < 0.5 else mutate(member, random)
            changed.writestr(zipfile.ZipInfo(info.filename), member, info.compress_type)
        changed.comment = comment
    return rebuilt.getvalue()


def sealed(content: bytes, random: Random) -> bytes:
    """Change a model file inside and make its checksum right again, as an attacker would."""
    body = rezipped(content, random, COMMENT + b"0" * DIGITS)[:-DIGITS]
    if random.random() < 0.3:
        body = mutate(body, random)
    return body + hashlib.sha256(body).hexdigest().encode()


def retold(member: bytes, random: Random) -> bytes:
    """Put one value of a JSON text in the place of another; bytes that are none are mutated."""
    try:
        tree = json.loads(member)
    except ValueError:
        return mutate(member, random)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in pairs:
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(tree)
    node, key = random.choice(places)
    other, from_ = random.choice(places)
    odd: tuple[Any, ...] = (
        None,
        -1,
        2**70,
        1e308,
        "",
        [],
        {},
        {"array": 0},
        {"tuple": []},
        {"float": "nan"},
    )
    node[key] = (
        random.choice(odd) if random.random() < 0.5 else json.loads(json.dumps(other[from_]))
    )
    return json.dumps(tree).encode()


def spoil(reader: str, seeds: list[Files], random: Random) -> Files:
    """Return one of a reader's files with one part of it changed."""
    files = dict(random.choice(seeds))
    # A folder's second picture stays, or there would be nothing to read.
    names = [name for name in files if name != "f/b.png"]
    victim = random.choice(names)
    if reader in ("model file", "checkpoint") and random.random() < 0.8:
        files[victim] = sealed(files[victim], random)
    elif reader == "npz" and random.random() < 0.7:
        files[victim] = rezipped(files[victim], random)
    elif victim.endswith(".json") and random.random() < 0.5:
        files[victim] = retold(files[victim], random)
    else:
        files[victim] = mutate(files[victim], random)
    return files
