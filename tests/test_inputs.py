"""Samples from files: every reader gives what an independent library has written."""

import io
import re
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from corrtensor import CorrTensor
from corrtensor.io import InputError, csv_table, open_labels, open_samples
from corrtensor.io import images as images_module
from corrtensor.io import stack as stack_module


@pytest.fixture
def pixels():
    return np.random.default_rng(0).integers(0, 256, (12, 10, 8), dtype=np.uint8)


def write_folder(folder, pixels, suffix=".png", names=None):
    folder.mkdir(exist_ok=True, parents=True)
    for k, picture in enumerate(pixels):
        name = names[k] if names else f"{k:03d}{suffix}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return folder


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".pgm", ".tif", ".tiff", ".gif", ".PNG"])
def test_lossless_images_come_back(tmp_path, pixels, suffix):
    stack = open_samples(write_folder(tmp_path / "f", pixels, suffix))
    assert stack.shape == pixels.shape
    assert stack.dtype == np.uint8
    assert_array_equal(stack[:], pixels)
    assert_array_equal(stack[3:5], pixels[3:5])
    assert stack[4:4].shape == (0, 10, 8)
    assert stack.names == tuple(f"{k:03d}{suffix}" for k in range(12))
    assert stack.labels is None
    assert stack.skipped == ()


def test_jpeg_is_near(tmp_path):
    smooth = np.add.outer(np.arange(5), np.add.outer(np.arange(16), np.arange(16))).astype(np.uint8)
    stack = open_samples(write_folder(tmp_path / "f", smooth, ".jpg"))
    assert np.abs(stack[:].astype(int) - smooth).max() <= 3


def test_folders_are_labels(tmp_path, pixels):
    names = [f"{'ab'[k % 2]}/x/{k:02d}.png" for k in range(12)]
    stack = open_samples(write_folder(tmp_path / "f", pixels, names=names))
    assert stack.names == tuple(sorted(names))
    assert_array_equal(stack.labels, ["a/x"] * 6 + ["b/x"] * 6)
    assert_array_equal(stack[:6], pixels[::2])


def test_colour_and_grey(tmp_path):
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    folder = write_folder(tmp_path / "f", colour)
    assert_array_equal(open_samples(folder)[:], colour)
    grey = open_samples(folder, colour=False)[:]
    luma = colour @ np.array([0.299, 0.587, 0.114])
    assert np.abs(grey - luma).max() <= 1
    one = write_folder(tmp_path / "g", colour[..., 0])
    assert open_samples(one, colour=True).shape == (4, 6, 5, 3)
    write_folder(one, [colour[0]], names=["z.png"])
    assert open_samples(one).shape == (5, 6, 5, 3)


@pytest.mark.parametrize("mode", ["1", "LA", "RGBA", "P", "CMYK"])
def test_other_modes_are_brought_to_grey(tmp_path, pixels, mode):
    folder = tmp_path / "f"
    folder.mkdir()
    picture = Image.fromarray(pixels[0]).convert("RGB").convert(mode)
    picture.save(folder / ("a.tif" if mode == "CMYK" else "a.png"))
    stack = open_samples(folder, colour=False)
    assert stack.shape == (1, 10, 8)
    if mode in ("LA", "RGBA"):
        assert_array_equal(stack[0:1][0], pixels[0])


def test_sixteen_bits_stay(tmp_path):
    deep = np.random.default_rng(0).integers(0, 65536, (5, 6, 4), dtype=np.uint16)
    for suffix in (".tif", ".png"):
        stack = open_samples(write_folder(tmp_path / suffix, deep, suffix))
        assert stack.dtype == np.uint16
        assert_array_equal(stack[:], deep)
    resized = open_samples(tmp_path / ".tif", size=(12, 8))
    assert resized.dtype == np.uint16
    assert resized[:].max() > 30000
    Image.fromarray(np.zeros((6, 4), np.uint8)).save(tmp_path / ".tif" / "z.png")
    Image.fromarray(np.full((6, 4), 200, np.uint8)).save(tmp_path / ".tif" / "zz.png")
    mixed = open_samples(tmp_path / ".tif")
    assert (mixed.dtype, mixed.note) == (np.uint16, "")
    assert_array_equal(mixed[:5], deep)
    assert_array_equal(mixed[5:7], np.stack([np.zeros((6, 4)), np.full((6, 4), 200 * 257)]))
    Image.fromarray(np.zeros((6, 4, 3), np.uint8)).save(tmp_path / ".tif" / "zzz.png")
    coloured = open_samples(tmp_path / ".tif")
    assert coloured.dtype == np.uint8
    assert_array_equal(coloured[:5][..., 0], deep >> 8)
    assert coloured.note == (
        "of 8 pictures 7 grey ones read as colours (--grey reads all as grey), "
        "5 read with 8 of 16 bits"
    )


def deep_png(pixels):
    """Return a PNG file of 16 bits a colour, which Pillow does not write."""
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def test_of_deep_colours_eight_bits_are_read_and_it_says_so(tmp_path):
    deep = np.random.default_rng(0).integers(0, 65536, (4, 6, 5, 3), dtype=np.uint16)
    for i, pixels in enumerate(deep):
        (tmp_path / f"{i}.png").write_bytes(deep_png(pixels))
    stack = open_samples(tmp_path)
    assert_allclose(stack[:], deep / 257, atol=1)
    assert stack.note == "of 4 pictures 4 read with 8 of 16 bits"


def test_of_many_pages_the_first_is_read_and_it_says_so(tmp_path, pixels):
    pages = [Image.fromarray(page) for page in pixels]
    for i in range(3):
        pages[i].save(tmp_path / f"{i}.tif", save_all=True, append_images=pages[6:])
    pages[3].save(tmp_path / "3.tif")
    stack = open_samples(tmp_path)
    assert_array_equal(stack[:], pixels[:4])
    assert stack.note == "of 4 pictures 3 read up to their first page"


def test_a_second_page_that_cannot_be_read_takes_nothing_away(tmp_path, pixels):
    Image.fromarray(pixels[0]).save(tmp_path / "a.tif")
    data = bytearray((tmp_path / "a.tif").read_bytes())
    first = struct.unpack_from("<I", data, 4)[0]
    entries = struct.unpack_from("<H", data, first)[0]
    struct.pack_into("<I", data, first + 2 + 12 * entries, 1)
    (tmp_path / "a.tif").write_bytes(data)
    assert_array_equal(open_samples(tmp_path)[:], pixels[:1])


@pytest.mark.parametrize("width", [5, 53, 533])
def test_eight_bits_are_not_taken_for_sixteen(tmp_path, width):
    picture = Image.fromarray(np.zeros((6, width, 3), np.uint8))
    picture.save(tmp_path / "a.bmp")
    picture.save(tmp_path / "b.tif", compression="tiff_lzw")
    assert open_samples(tmp_path).note == ""


def test_one_picture_with_colours_gives_them_to_all_and_it_says_so(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels)
    assert open_samples(folder).note == ""
    Image.fromarray(pixels[0]).convert("RGB").save(folder / "z.png")
    stack = open_samples(folder)
    assert stack.shape == (13, 10, 8, 3)
    assert stack.note == "of 13 pictures 12 grey ones read as colours (--grey reads all as grey)"
    assert open_samples(folder, colour=False).note == "of 13 pictures 1 read as grey"


def test_most_pictures_decide_on_the_bits(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels)
    Image.fromarray(pixels[0].astype(np.uint16) * 257).save(folder / "z.png")
    stack = open_samples(folder)
    assert_array_equal(stack[:], pixels[[*range(12), 0]])
    assert stack.note == "of 13 pictures 1 read with 8 of 16 bits"


def test_depths_that_do_not_go_together_are_skipped(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels)
    Image.fromarray(np.full((10, 8), 0.5, np.float32)).save(folder / "float.tif")
    stack = open_samples(folder)
    assert_array_equal(stack[:], pixels)
    assert [entry.name for entry in stack.skipped] == ["float.tif"]
    assert "floating point" in stack.skipped[0].reason


def test_what_is_transparent_is_white(tmp_path):
    clear = np.zeros((6, 4, 4), np.uint8)
    clear[:3] = [10, 20, 30, 255]
    folder = write_folder(tmp_path / "f", clear[None])
    stack = open_samples(folder)
    assert stack.note == "of 1 pictures 1 read on white, for they may be transparent"
    seen = stack[:][0]
    assert_array_equal(seen[:3], np.broadcast_to([10, 20, 30], (3, 4, 3)))
    assert_array_equal(seen[3:], np.full((3, 4, 3), 255))


def test_floating_point_tiff_stays(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 6, 4)).astype(np.float32)
    stack = open_samples(write_folder(tmp_path / "f", values, ".tif"))
    assert stack.dtype == np.float32
    assert_array_equal(stack[:], values)


def test_sizes_that_differ_become_the_commonest(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels)
    Image.fromarray(np.full((5, 4), 90, np.uint8)).save(folder / "small.png")
    stack = open_samples(folder)
    assert stack.shape == (13, 10, 8)
    assert "2 sizes; all are resized to 10 x 8, the commonest" in stack.note
    assert "--size HxW" in stack.note
    assert_array_equal(stack[:12], pixels)
    assert_array_equal(stack[12:], np.full((1, 10, 8), 90))


def test_sizes_of_which_none_is_common_become_the_median(tmp_path):
    folder = tmp_path / "f"
    folder.mkdir()
    for k, (a, b) in enumerate([(40, 60), (50, 70), (90, 30), (1200, 1600), (1300, 1700)]):
        # bright in the middle, dark at the ends of the longer side
        wide = np.zeros((a, b), np.uint8)
        wide[a // 4 : -a // 4, b // 4 : -b // 4] = 200
        Image.fromarray(wide).save(folder / f"{k}.png")
    stack = open_samples(folder)
    assert stack.shape == (5, 90, 70)
    assert (stack[:][:, 45, 35] == 200).all()
    # the aspect is kept: of 1200 x 1600 the sides are cut off, not squeezed
    tall = stack[3:4][0]
    assert tall[45].astype(float).mean() > 200 * 0.5
    big = write_folder(tmp_path / "big", np.zeros((1, 400, 900), np.uint8))
    Image.fromarray(np.zeros((500, 800), np.uint8)).save(big / "other.png")
    assert max(open_samples(big).shape[1:]) == 256


def test_an_image_that_lies_on_its_side_is_turned(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels[:2])
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(pixels[2]).copy()).save(folder / "turned.png", exif=exif)
    stack = open_samples(folder)
    assert_array_equal(stack[2:3][0], pixels[2])


def png_header(width, height):
    """A PNG of a few bytes that claims a size."""

    def chunk(kind, content):
        crc = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(b"\0" * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + data + chunk(b"IEND", b"")


def test_bad_images_are_skipped_and_listed(tmp_path, pixels):
    folder = write_folder(tmp_path / "f", pixels)
    (folder / "text.png").write_text("not a picture")
    (folder / "empty.png").write_bytes(b"")
    (folder / "bomb.png").write_bytes(png_header(60000, 60000))
    whole = io.BytesIO()
    noise = np.random.default_rng(1).integers(0, 256, (10, 8), dtype=np.uint8)
    Image.fromarray(noise).save(whole, "JPEG")
    (folder / "truncated.jpg").write_bytes(whole.getvalue()[:-40])
    (folder / ".hidden.png").write_text("not looked at")
    (folder / "notes.txt").write_text("not looked at")
    seen = []
    stack = open_samples(folder, progress=lambda done, total: seen.append((done, total)))
    assert_array_equal(stack[:], pixels)
    reasons = {entry.name: entry.reason for entry in stack.skipped}
    assert list(reasons) == ["bomb.png", "empty.png", "text.png", "truncated.jpg"]
    assert reasons["bomb.png"].startswith("it claims more than 67 million pixels")
    assert reasons["text.png"] == reasons["empty.png"] == "not an image"
    assert "truncated" in reasons["truncated.jpg"]
    assert seen[-1] == (13, 13)


@pytest.mark.parametrize("side", [8300, 30000])
def test_a_bomb_is_never_decoded(tmp_path, monkeypatch, side):
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "bomb.png").write_bytes(png_header(side, side))
    monkeypatch.setattr(images_module, "read_image", pytest.fail)
    with pytest.raises(InputError, match=r"none of its 1 images .* bomb\.png: it claims"):
        open_samples(folder)


def test_an_empty_folder(tmp_path):
    with pytest.raises(InputError, match=re.escape(f"{tmp_path} holds no images (.png, ")):
        open_samples(tmp_path)


def test_without_room_pictures_are_decoded_when_read(tmp_path, pixels, monkeypatch):
    monkeypatch.setattr(stack_module, "SPOOL_SHARE", 0.0)
    stack = open_samples(write_folder(tmp_path / "f", pixels))
    assert isinstance(stack.array, images_module.Pictures)
    assert_array_equal(stack[2:7], pixels[2:7])
    assert stack[3:3].shape == (0, 10, 8)


def test_a_file_name_may_hold_anything(tmp_path, pixels):
    names = ["<img src=x onerror=alert(1)>.png", "a b;c'\".png", "ünï.png", "new\nline.png"]
    stack = open_samples(write_folder(tmp_path / "f", pixels[:4], names=names))
    assert set(stack.names) == set(names)


ARRAY = np.arange(5 * 4 * 3, dtype=np.float32).reshape(5, 4, 3)


def write_array(path, array=ARRAY, name="images"):
    """Write an array by its ending, with the library whose format it is."""
    suffix = path.suffix
    if suffix == ".npy":
        np.save(path, array)
    elif suffix == ".npz":
        np.savez(path, **{name: array, "labels": np.arange(len(array))})
    elif suffix == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            file.create_dataset(f"group/{name}", data=array)
            file.create_dataset("labels", data=np.arange(len(array)))
    elif suffix == ".zarr":
        import zarr

        zarr.save_array(path, array)
    elif suffix == ".mat":
        from scipy.io import savemat

        savemat(path, {name: array}, do_compression=True)
    elif suffix == ".tif":
        import tifffile

        tifffile.imwrite(path, array, photometric="minisblack")
    return path


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".zarr", ".mat", ".tif"])
def test_arrays_come_back(tmp_path, suffix):
    stack = open_samples(write_array(tmp_path / f"x{suffix}"))
    assert stack.shape == (5, 4, 3)
    assert stack.dtype == np.float32
    assert_array_equal(stack[1:4], ARRAY[1:4])
    assert stack.names is None


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".zarr", ".mat"])
def test_the_axis_of_the_samples_can_be_chosen(tmp_path, suffix):
    path = write_array(tmp_path / f"x{suffix}", np.moveaxis(ARRAY, 0, -1))
    stack = open_samples(path, axis=-1)
    assert_array_equal(stack[1:4], ARRAY[1:4])


def test_a_matlab_file_of_version_7_3_is_what_version_5_is(tmp_path):
    """MATLAB stores an a x b x N array in HDF5 with its axes reversed."""
    import h5py

    matlab = np.moveaxis(ARRAY, 0, -1)
    write_array(tmp_path / "v5.mat", matlab)
    with h5py.File(tmp_path / "v73.mat", "w", userblock_size=512) as file:
        file.create_dataset("images", data=matlab.T)
    with open(tmp_path / "v73.mat", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\x02IM")
    for axis in (0, 1, -1):
        one = open_samples(tmp_path / "v5.mat", axis=axis)
        other = open_samples(tmp_path / "v73.mat", axis=axis)
        assert one.shape == other.shape
        assert_array_equal(one[:], other[:])
        assert_array_equal(one[1:2], other[1:2])
    for name in ("v5.mat", "v73.mat"):
        with pytest.raises(InputError, match=r"of shape \(4, 3, 5\) has no axis 3"):
            open_samples(tmp_path / name, axis=3)


@pytest.mark.parametrize("fortran", [False, True])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_stored_or_compressed(tmp_path, save, fortran):
    array = np.asfortranarray(ARRAY) if fortran else ARRAY
    save(tmp_path / "x.npz", one=array, two=2 * array)
    with pytest.raises(InputError, match=r"one \(5, 4, 3\), two .*choose one, as in x\.npz::one"):
        open_samples(tmp_path / "x.npz")
    stack = open_samples(f"{tmp_path / 'x.npz'}::two")
    assert_array_equal(stack[2:4], 2 * ARRAY[2:4])
    with pytest.raises(InputError, match="no array three; its arrays: one"):
        open_samples(f"{tmp_path / 'x.npz'}::three")


def test_hdf5_and_zarr_by_name(tmp_path):
    import zarr

    path = write_array(tmp_path / "x.h5")
    assert_array_equal(open_samples(f"{path}::group/images")[:], ARRAY)
    assert_array_equal(open_samples(f"{path}::/group/images")[:], ARRAY)
    with pytest.raises(InputError, match="no array images; its arrays: group/images"):
        open_samples(f"{path}::images")
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=ARRAY)
    group.create_array("b", data=2 * ARRAY)
    assert_array_equal(open_samples(f"{tmp_path / 'g.zarr'}::b")[:], 2 * ARRAY)
    with pytest.raises(InputError, match="choose one"):
        open_samples(tmp_path / "g.zarr")


@pytest.mark.parametrize("compression", [None, "zlib"])
def test_pages_of_a_tiff_file(tmp_path, compression):
    import tifffile

    pages = np.random.default_rng(0).integers(0, 65536, (7, 9, 5), dtype=np.uint16)
    with tifffile.TiffWriter(tmp_path / "x.tif", byteorder=">") as file:
        for page in pages:
            file.write(page, compression=compression, contiguous=False)
    stack = open_samples(tmp_path / "x.tif")
    assert stack.dtype == np.uint16
    assert_array_equal(stack[:], pages)
    assert_array_equal(stack[3:6], pages[3:6])
    tifffile.imwrite(tmp_path / "one.tif", pages[0])
    with pytest.raises(InputError, match="holds one picture"):
        open_samples(tmp_path / "one.tif")


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("inside", [(2,), (3, 2)])
def test_channels_and_planes_of_a_tiff_file_belong_to_a_sample(tmp_path, compression, inside):
    import tifffile

    stack = np.random.default_rng(0).integers(0, 65536, (6, *inside, 9, 7), dtype=np.uint16)
    axes = {"axes": "TCYX" if len(inside) == 1 else "TZCYX"}
    path = tmp_path / "x.tif"
    tifffile.imwrite(
        path, stack, imagej=compression is None, compression=compression, metadata=axes
    )
    found = open_samples(path)
    assert found.shape == stack.shape
    assert_array_equal(found[:], stack)
    assert_array_equal(found[2:5], stack[2:5])


def test_frames_of_a_video(tmp_path):
    av = pytest.importorskip("av")
    frames = np.zeros((40, 32, 48, 3), np.uint8)
    for k in range(40):
        frames[k, :, k : k + 8] = 200
    with av.open(str(tmp_path / "x.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        stream.bit_rate = 10**7
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    stack = open_samples(tmp_path / "x.mp4", colour=False)
    assert stack.shape == (40, 32, 48)
    everything = stack[:].astype(int)
    assert np.abs(everything - frames[..., 0]).mean() < 5
    for lo, hi in ((30, 40), (5, 9), (9, 12), (0, 3)):
        assert_array_equal(stack[lo:hi], everything[lo:hi])
    assert open_samples(tmp_path / "x.mp4", size=(16, 24)).shape == (40, 16, 24, 3)
    (tmp_path / "y.mp4").write_text("no video")
    with pytest.raises(InputError, match=r"y\.mp4 is no video that can be read"):
        open_samples(tmp_path / "y.mp4")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".h5", ".zarr", ".mat", ".tif"])
def test_damaged_files_are_named(tmp_path, suffix):
    path = tmp_path / f"bad{suffix}"
    path.write_bytes(b"this is no such file" * 100)
    with pytest.raises(InputError, match=f"bad{suffix}"):
        open_samples(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=f"bad{suffix}"):
        open_samples(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_truncated_arrays_are_named(tmp_path, suffix):
    path = write_array(tmp_path / f"x{suffix}")
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match=f"x{suffix}"):
        open_samples(path)


def test_an_array_of_objects_is_not_unpickled(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[1, "a"], [None, 2]], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy"):
        open_samples(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", a=np.array([["a", "b"]]))
    with pytest.raises(InputError, match="real numbers"):
        open_samples(tmp_path / "x.npz")


def test_an_npz_that_claims_more_than_it_holds(tmp_path):
    text = repr({"descr": "<f8", "fortran_order": False, "shape": (10**9, 2)}).ljust(117) + "\n"
    npy = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "x.npz", "w", compression) as archive:
            archive.writestr("a.npy", npy + b"\0" * 64)
        with pytest.raises(InputError, match=r"x\.npz::a cannot be used"):
            open_samples(tmp_path / "x.npz")


def test_what_is_no_input(tmp_path, pixels):
    with pytest.raises(FileNotFoundError):
        open_samples(tmp_path / "none.npy")
    for name, message in (
        ("x.docx", "end in .docx are not known"),
        ("x.png", "is one image"),
        ("plain", "end in nothing"),
    ):
        Image.fromarray(pixels[0]).save(tmp_path / name, "PNG")
        with pytest.raises(InputError, match=message):
            open_samples(tmp_path / name)
    np.save(tmp_path / "v.npy", np.arange(5))
    with pytest.raises(InputError, match=r"shape \(5,\)"):
        open_samples(tmp_path / "v.npy")
    np.save(tmp_path / "w.npy", np.zeros((0, 4)))
    with pytest.raises(InputError, match=r"shape \(0, 4\)"):
        open_samples(tmp_path / "w.npy")
    path = write_array(tmp_path / "x.npy")
    with pytest.raises(InputError, match="has no axis 3"):
        open_samples(path, axis=3)
    with pytest.raises(InputError, match="only a folder of images or a video"):
        open_samples(path, size=(4, 4))
    with pytest.raises(InputError, match="leave out ::a"):
        open_samples(f"{path}::a")


def table(folder, text, suffix=".csv"):
    """Write a table, text or bytes."""
    path = folder / f"x{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def numbers():
    X = np.random.default_rng(0).normal(size=(6, 4)) * 10.0 ** np.arange(-3, 5, 2)
    X[1, 2] = X[4, 0] = np.nan
    return X


@pytest.mark.parametrize("sep", [",", ";", "\t"])
@pytest.mark.parametrize(
    ("columns", "index"), [("abcd", None), ("abcd", range(6)), (range(4), range(6)),
                           (range(4), "uvwxyz"), ((400, 402, 404, 406), range(1, 7))],
)  # fmt: skip
@pytest.mark.parametrize(
    "options",
    [{}, {"quoting": 1}, {"na_rep": "NaN"}, {"na_rep": "NA"}, {"lineterminator": "\r\n"},
     {"lineterminator": "\r"}, {"encoding": "utf-8-sig"}, {"float_format": "%+.9E"}],
    ids=str,
)  # fmt: skip
def test_a_table_of_pandas_comes_back(tmp_path, sep, columns, index, options):
    import pandas as pd

    labelled = index is not None
    frame = pd.DataFrame(numbers(), columns=list(columns), index=list(index) if labelled else None)
    path = tmp_path / ("x.tsv" if sep == "\t" else "x.csv")
    frame.to_csv(path, sep=sep, index=labelled, **options)
    stack = open_samples(path)
    assert_allclose(stack[:], numbers(), rtol=1e-9 if "float_format" in options else 0)
    assert_array_equal(stack[2:4], stack[:][2:4])
    assert stack.dtype == float
    assert stack.names == (tuple(map(str, index)) if labelled else None)
    assert stack.note == (
        "column 1 ('') read as names of samples, not as numbers" if labelled else ""
    )


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", ["", "abcd"])
def test_a_table_of_numpy_comes_back(tmp_path, delimiter, names):
    header = delimiter.join(names)
    np.savetxt(tmp_path / "x.csv", numbers(), delimiter=delimiter, header=header)
    assert_array_equal(open_samples(tmp_path / "x.csv")[:], numbers())


@pytest.mark.parametrize(
    ("text", "rows", "names"),
    [
        # names of samples: called so, or text alone
        ("id,a\n7,1\n9,2\n", [[1], [2]], ("7", "9")),
        (" ID ,a\n7,1\n9,2\n", [[1], [2]], ("7", "9")),
        ("Unnamed: 0,a\n0,1\n1,2\n", [[1], [2]], ("0", "1")),
        ("sample,name,x0\n0,b.png,1\n1,c.png,2\n", [[1], [2]], ("b.png", "c.png")),
        ("u,1,2\nv,3,4\n", [[1, 2], [3, 4]], ("u", "v")),
        ("when,a\n2026-01-01,1\n2026-01-02,2\n", [[1], [2]], ("2026-01-01", "2026-01-02")),
        ("001_1,1\n001_2,2\n", [[1], [2]], ("001_1", "001_2")),
        ("name,400,402\nu,1,2\nv,3,4\n", [[1, 2], [3, 4]], ("u", "v")),
        ("id,400,402\n5,1,2\n6,3,4\n", [[1, 2], [3, 4]], ("5", "6")),
        # the same twice, or missing: they tell no samples apart
        ("kind,a\nu,1\nu,2\n", [[1], [2]], None),
        ("name,a\nu,1\n,2\n", [[1], [2]], None),
        # what may be numbers is numbers
        ("time,a\n0,5\n1,6\n", [[0, 5], [1, 6]], None),
        ("0,1,2\n5,6,7\n", [[0, 1, 2], [5, 6, 7]], None),
        (",0,1\n0,5,6\n2,7,8\n", [[np.nan, 0, 1], [0, 5, 6], [2, 7, 8]], None),
        (",5\n0,6\n", [[np.nan, 5], [0, 6]], None),
        ("NA\n0\n1\n2\n", [[np.nan], [0], [1], [2]], None),
        ("u,,5\nv,0,6\nw,1,7\n", [[np.nan, 5], [0, 6], [1, 7]], ("u", "v", "w")),
        ("1,2\n", [[1, 2]], None),
        ("id\n1\n2\n", [[1], [2]], None),
        # lines, spaces, missing cells
        ('a, "b"\n1, 2 \n\n 3,\t4\n', [[1, 2], [3, 4]], None),
        ('u , "1"\nv , "2"\n', [[1], [2]], ("u", "v")),
        ("a;1\tb\n1\t2\n", [[1, 2]], None),
        ("a,b\n,1\n n/a ,#N/A\n", [[np.nan, 1], [np.nan, np.nan]], None),
        ('"a;b\nc","d""e"\n"1","2"\n', [[1, 2]], None),
        ("\n\n1;2\n", [[1, 2]], None),
        ("\ufeff1,2\n3,4", [[1, 2], [3, 4]], None),
        ("1e3,-inf\n.5,+2\n", [[1000, -np.inf], [0.5, 2]], None),
        ("m\xb2,b\n1,2\n".encode("latin-1"), [[1, 2]], None),
    ],
)
def test_what_is_a_number_in_a_table(tmp_path, text, rows, names):
    stack = open_samples(table(tmp_path, text))
    assert_array_equal(stack[:], np.array(rows, float))
    assert stack.names == names


def test_a_note_says_which_columns_are_names(tmp_path):
    """And nothing is said where all are numbers."""
    said = "read as names of samples, not as numbers"
    both = open_samples(table(tmp_path, "sample,kind,x0\n0,a,1\n1,b,2\n"))
    assert both.note == f"columns 1 ('sample'), 2 ('kind') {said}"
    assert open_samples(table(tmp_path, "u,1,2\nv,3,4\n")).note == f"column 1 {said}"
    assert open_samples(table(tmp_path, "a,b,c\n1,2,3\n")).note == ""


def test_samples_in_the_columns_of_a_table(tmp_path):
    stack = open_samples(table(tmp_path, "id,a,b,c\nu,1,2,3\nv,4,5,6\n"), axis=-1)
    assert_array_equal(stack[:], [[1, 4], [2, 5], [3, 6]])
    assert stack.names is None
    assert open_samples(tmp_path / "x.csv", axis=-2).names == ("u", "v")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("\ufeff", "is empty"),
        ("a,b\n", "names of columns alone, and no samples"),
        ("id\n", "names of columns alone, and no samples"),
        ("a,b\n1,2\n\n3,x\n", "line 4, column 2: 'x' is no number; an empty field is a missing"),
        ("1,2,u\n3,4,v\n", "line 1, column 3: 'u' is no number; .* names stand in first columns"),
        ("1.0,u,3\n4,5,6\n", "line 1, column 2: 'u' is no number"),
        ("n.d.,2,3\n1,2,3\n", "line 1, column 1: 'n.d.' is no number"),
        ("a,b\nn.d.,2\n1,3\n", "line 3, column 1: '1' is a number, but 'n.d.' above it is none"),
        ("a,b\nm,s\n1,3\n", "line 2, column 2: 's' is no number"),
        ("a\n1_0\n", "line 2, column 1: '1_0' is no number"),
        ("1 2\n3 4\n", "'3 4' is no number; numbers stand between commas, semicolons or tabs"),
        ('"a\nb",c\n1,2\n3,x\n', "line 4, column 2: 'x' is no number"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has another number of fields, 3, than the first line, 2"),
        ("1,2\n3\n", "line 2 has another number of fields, 1, than the first line, 2"),
        ("1,5;2,3\n", "line 1, column 1: '1,5' has a comma; write decimals with a point"),
        ("1,5;2,3\n1;2\n", "line 1, column 1: '1,5' has a comma"),
        ("a;b\n1,5;2\n", "line 2, column 1: '1,5' has a comma"),
        ("a;b\n1;2,3e-4\n", "line 2, column 2: '2,3e-4' has a comma"),
        ("a;b;c\nu;1;2\n-1,5;1;2\n", "line 3, column 1: '-1,5' has a comma"),
        ('"1,234.5",2\n', "line 1, column 1: '1,234.5' has a comma; .* nothing between thousands"),
        ("a;b\n1.234.567,5;2\n", "line 2, column 1: '1.234.567,5' has a comma"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3 cannot be read: unexpected end of data"),
        ('a,b\n1,"2"3\n', "line 2 cannot be read: ',' expected after"),
        ('"' + "a" * 200_000 + '",b\n1,2\n', "line 1 cannot be read: field larger than"),
        ("1," + "a" * 1000 + "\n", "column 2: 'a{40}' is no number"),
        (b"\x89PNG\r\n\x1a\n\0\0", "is no text in UTF-8; save it"),
        ("1,2\n3,4\n".encode("utf-16"), "is no text in UTF-8; save it"),
        (b"1,2\n3,\xe9\n", r"line 2, column 2: '\\udce9' is no number"),
        (b"1,2\n" * 20_000 + b"3,\0\n", r"line 20001, column 2: '\\x00' is no number"),
    ],
)
def test_what_is_wrong_with_a_table(tmp_path, text, said):
    with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path))}/x.csv:? .*{said}"):
        open_samples(table(tmp_path, text))


def test_lines_have_a_bound_and_files_have_none(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_table, "LONGEST_LINE", 12)
    monkeypatch.setattr(csv_table, "MOST_FIELDS", 3)
    rows = ["100,200,300"] * 50
    assert open_samples(table(tmp_path, "\n".join(rows))).shape == (50, 3)
    for long in ("100,200,3000", "1,2,3,4", '"1\n",2,"\n\n\n\n"'):
        with pytest.raises(InputError, match="line 51 is longer than 12 characters"):
            open_samples(table(tmp_path, "\n".join([*rows, long, ""])))


def test_what_is_no_way_to_open_a_table(tmp_path):
    path = table(tmp_path, "1,2\n3,4\n", ".TSV")
    with pytest.raises(InputError, match="line 1, column 1: '1,2' has a comma"):
        open_samples(path)
    with pytest.raises(InputError, match="leave out ::a"):
        open_samples(f"{path}::a")
    with pytest.raises(InputError, match="only a folder of images or a video can be resized"):
        open_samples(path, size=(2, 2))
    with pytest.raises(InputError, match="no axis 2"):
        open_samples(table(tmp_path, "1,2\n"), axis=2)


def test_labels_from_text_and_arrays(tmp_path):
    (tmp_path / "y.txt").write_text("a\nb\nb\n")
    assert_array_equal(open_labels(tmp_path / "y.txt", 3), ["a", "b", "b"])
    path = write_array(tmp_path / "x.npz")
    assert_array_equal(open_labels(f"{path}::labels", 5), np.arange(5))
    with pytest.raises(InputError, match="5 labels are needed"):
        open_labels(tmp_path / "y.txt", 5)


@pytest.mark.parametrize("kind", ["folder", "compressed", "stored", "turned"])
def test_estimators_fit_a_stack_as_they_fit_its_array(tmp_path, kind):
    X = np.random.default_rng(0).integers(0, 256, (60, 8, 7), dtype=np.uint8)
    if kind == "folder":
        where = write_folder(tmp_path / "f", X)
    elif kind == "turned":
        np.save(tmp_path / "x.npy", np.moveaxis(X, 0, -1))
        where = tmp_path / "x.npy"
    else:
        where = tmp_path / "x.npz"
        {"compressed": np.savez_compressed, "stored": np.savez}[kind](where, X=X)
    stack = open_samples(where, axis=-1 if kind == "turned" else 0)
    model, again = CorrTensor((3, 2)).fit(X), CorrTensor((3, 2)).fit(stack)
    assert_array_equal(again.residuals_, model.residuals_)
    assert_array_equal(again.transform(stack), model.transform(X))


def test_a_large_array_is_not_read_at_once(tmp_path):
    """Opening 2 GB (a file with a hole) and reading one block must not cost 2 GB."""
    resource = pytest.importorskip("resource")
    path = Path(tmp_path / "x.npy")
    with open(path, "wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (500_000, 64, 64)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 500_000 * 64 * 64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stack = open_samples(path)
    assert stack[499_000:499_100].sum() == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
def test_an_animation_is_no_single_image(tmp_path, pixels, suffix):
    frames = [Image.fromarray(page) for page in pixels[:5]]
    frames[0].save(tmp_path / f"x{suffix}", save_all=True, append_images=frames[1:])
    with pytest.raises(InputError, match=r"an image of 5 frames.*a video.*or a folder"):
        open_samples(tmp_path / f"x{suffix}")
