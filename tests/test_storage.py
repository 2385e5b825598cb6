"""Model files: what comes back is what was saved, and nothing but a whole file is read."""

import errno
import hashlib
import io
import json
import os
import re
import stat
import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator

import corrtensor as ct
from corrtensor._base.files import replacing
from corrtensor.io import encoding
from corrtensor.losses import Correntropy, Power


def same(a, b):
    """Whether two values are equal, all the way down, in content and in type."""
    if isinstance(a, BaseEstimator):
        return type(a) is type(b) and same(vars(a), vars(b))
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.random.RandomState):
        return isinstance(b, np.random.RandomState) and same(a.get_state(), b.get_state())
    if hasattr(a, "__dataclass_fields__"):
        names = a.__dataclass_fields__
        return type(a) is type(b) and all(same(getattr(a, n), getattr(b, n)) for n in names)
    # What is no number must come back as such.
    return type(a) is type(b) and (a == b or (a != a and b != b))


def through_a_file(model, folder):
    ct.save(model, folder / "model.ct")
    return ct.load(folder / "model.ct")


def models(X, y):
    frozen = FrozenEstimator(ct.CorrTensor((3, 2)).fit(X))
    yield ct.CorrTensor((3, 0.9), breakdown=0.4)
    yield ct.CorrTensor((None, 2), scale=None, beta=3.0)
    yield ct.MultilinearSubspace((3, 2), loss=Power(p=1.0), center=None)
    yield ct.MultilinearSubspace((3, 2), loss=Correntropy(alpha=1.5, cap=False))
    for name in ct.METHODS:
        if name != "PCA":
            yield ct.make(name, 2)
    yield ct.TensorOutlierDetector(frozen, contamination=0.1)
    yield ct.TensorOutlierDetector(ct.make("L1-2DPCA", 2))
    yield ct.DensityPeaksKMeans(3, subspace=ct.CorrTensor((3, 2)), random_state=0)
    yield ct.DensityPeaksKMeans(3, random_state=np.random.RandomState(4))
    yield ct.CorrentropyCenterClassifier(frozen, kernel="entries", alpha=1.3)
    yield ct.SubspaceClassifier(ct.CorrTensor((3, 2)), flatten=False)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::corrtensor.RejectionWarning")
@pytest.mark.filterwarnings("ignore:all samples of class")
@pytest.mark.parametrize("fitted", [False, True])
def test_every_estimator_comes_back_as_it_was(tmp_path, images, fitted):
    y = np.where(np.arange(len(images)) % 2, "odd", "even")
    for model in models(images, y):
        if fitted:
            model.fit(images, y)
        again = through_a_file(model, tmp_path)
        assert same(model, again), model
        for ask in ("transform", "residuals", "predict", "score_samples", "predict_proba"):
            if fitted and hasattr(model, ask):
                assert_array_equal(getattr(again, ask)(images), getattr(model, ask)(images))


def test_pca_and_columns_with_names(tmp_path):
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(40, 5))
    table = pandas.DataFrame(X, columns=list("abcde"))
    model = ct.make("PCA", 2).set_output(transform="pandas").fit(table)
    again = through_a_file(model, tmp_path)
    assert list(again.feature_names_in_) == list("abcde")
    pandas.testing.assert_frame_equal(again.transform(table), model.transform(table))


@pytest.mark.parametrize("labels", [np.arange(60) % 3, np.array(list("abc") * 20, dtype=object)])
def test_classes_keep_their_type(tmp_path, images, labels):
    model = ct.SubspaceClassifier().fit(images, labels)
    again = through_a_file(model, tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    assert_array_equal(again.predict(images), model.predict(images))


def test_a_stream_goes_on_after_loading(tmp_path, images):
    model = ct.CorrTensor((3, 2)).partial_fit(images[:40])
    again = through_a_file(model, tmp_path)
    model.partial_fit(images[40:])
    again.partial_fit(images[40:])
    assert again.n_samples_seen_ == 60
    assert_array_equal(again.mean_, model.mean_)
    assert_array_equal(again.factors_[0], model.factors_[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, ">f8"])
def test_types_and_orders_of_memory_stay(tmp_path, images, dtype):
    model = ct.CorrTensor((3, 2)).fit((40 * abs(images)).astype(dtype))
    model.mean_ = np.asfortranarray(model.mean_)
    again = through_a_file(model, tmp_path)
    assert again.mean_.dtype == model.mean_.dtype
    assert again.mean_.flags.f_contiguous
    again.mean_[0] = 0


def test_numbers_that_json_lacks(tmp_path):
    model = ct.CorrTensor(
        np.array([3, 2]), alpha=np.float32(4), beta=float("nan"), tol=float("inf"), max_iter=10**30
    )
    again = through_a_file(model, tmp_path)
    assert np.isnan(again.beta)
    assert (again.tol, again.max_iter) == (float("inf"), 10**30)
    assert type(again.alpha) is np.float32


def test_tuples_may_be_keys():
    value = {(1, "a"): (2, (3,)), (): []}
    assert same(encoding.decode(*encoding.encode(value)), value)


def test_the_same_model_gives_the_same_bytes(tmp_path, images):
    model = ct.CorrTensor((3, 2)).fit(images)
    ct.save(model, tmp_path / "a.ct")
    ct.save(ct.load(tmp_path / "a.ct"), tmp_path / "b.ct")
    assert (tmp_path / "a.ct").read_bytes() == (tmp_path / "b.ct").read_bytes()


def test_numpy_alone_opens_the_arrays(tmp_path, images):
    """The page on the format says so: no need for this package to get at the numbers."""
    model = ct.CorrTensor((3, 2)).fit(images)
    ct.save(model, tmp_path / "model.ct")
    header = json.loads(zipfile.ZipFile(tmp_path / "model.ct").read("model.json"))
    place = header["model"]["state"]["mean_"]["array"]
    with np.load(tmp_path / "model.ct", allow_pickle=False) as arrays:
        assert_array_equal(arrays[str(place)], model.mean_)


@dataclass(frozen=True)
class Huber:
    """A loss of the user's own."""

    def value(self, s):
        return s

    def log_weight(self, s):
        return 0 * s

    def calibrate(self, s):
        return self


def test_what_cannot_be_saved_is_named(tmp_path, images):
    path = tmp_path / "model.ct"
    path.write_bytes(b"was here")
    custom = ct.MultilinearSubspace((3, 2), loss=Huber()).fit(images)
    with pytest.raises(TypeError, match=r"MultilinearSubspace\.loss is a .*Huber"):
        ct.save(custom, path)
    with pytest.raises(TypeError, match="a PCA cannot be saved; these can: CorrTensor, "):
        ct.save(PCA(), path)
    nested = ct.TensorOutlierDetector(FrozenEstimator(PCA(2).fit(images.reshape(60, -1))))
    with pytest.raises(TypeError, match=r"TensorOutlierDetector\.subspace\.estimator is a .*PCA"):
        ct.save(nested, path)

    class CorrTensor(ct.CorrTensor):
        """An impostor: its name is in the table, its class is not."""

    with pytest.raises(TypeError, match="cannot hold"):
        ct.save(CorrTensor(), path)
    assert path.read_bytes() == b"was here"
    assert os.listdir(tmp_path) == ["model.ct"]


def test_every_altered_byte_is_noticed(tmp_path):
    path = tmp_path / "model.ct"
    ct.save(ct.CorrTensor((3, 2)), path)
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(ct.ModelFileError, match=re.escape(str(path))):
            ct.load(path)


def test_every_truncated_file_is_noticed(tmp_path):
    path = tmp_path / "model.ct"
    ct.save(ct.CorrTensor((3, 2)), path)
    good = path.read_bytes()
    for end in range(len(good)):
        path.write_bytes(good[:end])
        with pytest.raises(ct.ModelFileError, match=re.escape(str(path))):
            ct.load(path)
    path.write_bytes(good + b"\0")
    with pytest.raises(ct.ModelFileError, match="altered"):
        ct.load(path)


def forge(path, header, members=(), compression=zipfile.ZIP_STORED):
    """Write a file with a right checksum, as an attacker would."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("model.json", header if isinstance(header, str) else json.dumps(header))
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = b"sha256:" + b"0" * 64
    content = buffer.getvalue()[:-64]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())
    return path


def header(model, arrays=0, version=1):
    return {"format": "corrtensor model", "version": version, "arrays": arrays, "model": model}


def test_a_later_version_is_named(tmp_path):
    path = forge(tmp_path / "m.ct", {**header(None, version=2), "corrtensor": "7.0"})
    with pytest.raises(ct.ModelFileError, match=r"version 2, written by corrtensor '7\.0'; this"):
        ct.load(path)


@pytest.mark.parametrize(
    "tree",
    [
        {"estimator": "Popen", "params": {"args": "ls"}, "state": {}},
        {"estimator": "os.system", "params": {}, "state": {}},
        {"estimator": "CorrTensor", "params": {"rank": 2}, "state": {}},
        {"estimator": "CorrTensor", "params": {}, "state": {"__class__": 1}},
        {"estimator": "CorrTensor", "params": {}, "state": {"fit": 1}},
        {"estimator": "CorrTensor", "params": {}},
        {"estimator": ["CorrTensor"], "params": {}, "state": {}},
        {"record": "Power", "fields": {"p": 9.0}},
        {"array": 0},
        {"array": -1},
        {"dict": [[{"list": []}, 1]]},
        {"objects": [1], "shape": [1 << 40]},
        {"unknown": 1},
        [1],
        {},
    ],
    ids=repr,
)
def test_wrong_content_is_no_model(tmp_path, tree):
    with pytest.raises(ct.ModelFileError, match="holds no corrtensor model"):
        ct.load(forge(tmp_path / "m.ct", header(tree)))


def test_content_that_is_no_estimator_is_no_model(tmp_path):
    with pytest.raises(ct.ModelFileError, match="holds no model"):
        ct.load(forge(tmp_path / "m.ct", header({"tuple": [1, 2]})))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"format": 1}', "[" * 10**5, "\udcff"])
def test_headers_that_are_none(tmp_path, text):
    path = tmp_path / "m.ct"
    if text == "\udcff":
        forge(path, header(None), [("extra", b"\xff")])
    else:
        forge(path, text)
    with pytest.raises(ct.ModelFileError):
        ct.load(path)


def npy(shape, dtype="<f8", content=b""):
    text = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + content


@pytest.mark.parametrize(
    "member",
    [
        npy((10**10,)),
        npy((-1, -8), content=b"\0" * 64),
        npy((-1,), content=b"\0" * 64),
        npy((4, -1), content=b"\0" * 64),
        npy((1,), content=b"\0" * 16),
        npy((2,), "|O", b"\0" * 16),
        npy((10**12,), "<U0"),
        npy((1,), "<f8", b"\0" * 7),
        npy((10**30, 10**30)),
        b"\x93NUMPY\x03\x00",
        b"",
    ],
)
def test_arrays_that_claim_more_than_they_hold(tmp_path, member):
    tree = {"estimator": "CorrTensor", "params": {}, "state": {"mean_": {"array": 0}}}
    path = forge(tmp_path / "m.ct", header(tree, arrays=1), [("0.npy", member)])
    with pytest.raises(ct.ModelFileError, match="holds no corrtensor model"):
        ct.load(path)


def test_a_compressed_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = npy((1 << 21,), content=b"\0" * (1 << 24))
    path = forge(
        tmp_path / "m.ct", header({"array": 0}, arrays=1), [("0.npy", bomb)], zipfile.ZIP_DEFLATED
    )
    assert path.stat().st_size < 1 << 16
    with pytest.raises(ct.ModelFileError, match="claims to hold more than its"):
        ct.load(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"hello, world", b"PK\x03\x04" + b"x" * 200])
def test_other_files_are_no_model_files(tmp_path, content):
    path = tmp_path / "m.ct"
    path.write_bytes(content)
    with pytest.raises(ct.ModelFileError, match=r"m\.ct is no corrtensor model file"):
        ct.load(path)


def test_a_missing_file_stays_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        ct.load(tmp_path / "none.ct")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file(tmp_path, images, monkeypatch, error):
    path = tmp_path / "model.ct"
    ct.save(ct.CorrTensor((3, 2)).fit(images), path)
    before = path.read_bytes()

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(type(error)) as caught:
        ct.save(ct.CorrTensor((2, 2)).fit(images), path)
    if isinstance(error, OSError):
        assert caught.value.filename == str(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.ct"]


def test_a_file_in_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        ct.save(ct.CorrTensor(), tmp_path / "none" / "model.ct")
    assert caught.value.filename == str(tmp_path / "none" / "model.ct")


def test_replacing_keeps_mode(tmp_path):
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o640)
    with replacing(target) as file:
        file.write(b"new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_folders_and_devices_are_not_replaced(tmp_path):
    with pytest.raises(IsADirectoryError), replacing(tmp_path):
        pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"), replacing(tmp_path / "pipe"):
        pass
    assert os.listdir(tmp_path) == ["pipe"]


def test_the_tables_name_classes_that_exist():
    for table in (encoding.ESTIMATORS, encoding.RECORDS):
        for name in table:
            assert encoding._class_of(table, name).__name__ == name


def test_files_of_version_1_stay_readable():
    """A file written once by version 1 of the format; later versions must read it."""
    path = os.path.join(os.path.dirname(__file__), "model-v1.ct")
    model = ct.load(path)
    assert isinstance(model, ct.TensorOutlierDetector)
    assert model.subspace_.core_shape_ == (2, 2)
    (group,) = model.subspace_.diagnostics_["groups"]
    assert_array_equal(group.samples, [0, 1, 2])
    X = np.arange(60.0).reshape(5, 4, 3)
    assert_array_equal(
        model.subspace_.inverse_transform(model.subspace_.transform(X)).shape, X.shape
    )
