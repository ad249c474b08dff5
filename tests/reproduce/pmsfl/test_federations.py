"""CIFAR-100, FEMNIST, RadHAR and UCI HAR from a mirror: what is read, who holds it, what is refused."""

import hashlib
import io
import tarfile

import numpy as np
import pytest

from repro import paths
from repro.datasets import DataError, activity, cifar, registry
from reproduce.papers.pmsfl.federations import load_clients

LOADERS = (
    cifar.load_cifar100,
    activity.load_femnist,
    activity.load_radhar,
    activity.load_ucihar,
)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file into an otherwise empty mirror and let the registry describe it."""
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "EMBEDDED", tmp_path / "embedded")
    monkeypatch.setenv(registry.MIRROR, str(tmp_path))
    known = registry.entries()
    monkeypatch.setattr(registry, "entries", lambda path=None: known)
    for load in LOADERS:
        load.cache_clear()

    def write(name, content):
        if isinstance(content, dict):
            stream = io.BytesIO()
            np.savez(stream, **content)
            content = stream.getvalue()
        (tmp_path / known[name].file).write_bytes(content)
        changed = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        known[name] = registry.Entry(**{**vars(known[name]), **changed})

    yield write
    for load in LOADERS:
        load.cache_clear()


def photographs(each, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(100), each)
    return {
        "images": rng.integers(0, 256, (len(labels), 32, 32, 3), dtype=np.uint8),
        "labels": labels.astype(np.uint8),
    }


def femnist(writers=4):
    rng = np.random.default_rng(0)
    writer = np.repeat(np.arange(writers), 10)
    duplicate = np.zeros(len(writer), dtype=bool)
    duplicate[3] = True
    return {
        "images": rng.integers(0, 256, (len(writer), 28, 28), dtype=np.uint8),
        "labels": rng.integers(0, 62, len(writer)).astype(np.uint8),
        "writer": writer.astype(np.uint8),
        "is_test": np.arange(len(writer)) % 10 == 9,
        "duplicate": duplicate,
        "classes": np.array([str(k) for k in range(62)]),
    }


def radhar(recordings=8):
    rng = np.random.default_rng(0)
    return {
        "intensity": rng.integers(0, 5000, (2 * recordings, 30, 16)).astype(np.uint32),
        "recording": np.repeat(np.arange(recordings), 2).astype(np.uint8),
        "recording_label": (np.arange(recordings) % 2).astype(np.uint8),
        "recording_start_unix": np.arange(recordings)[::-1].astype(float),
        "classes": np.array(["boxing", "walk"]),
    }


def ucihar():
    rng = np.random.default_rng(0)
    return {
        "signals": rng.integers(-900, 900, (24, 9, 128)).astype(np.int16),
        "labels": (np.arange(24) % 6).astype(np.uint8),
        "subject": np.repeat([1, 2, 5], 8).astype(np.uint8),
        "classes": np.array(list("abcdef")),
    }


def test_cifar100_subset_and_archive(put):
    train, test = photographs(3), photographs(1, 1)
    put("cifar100_train", train)
    put("cifar100_test", test)
    got = cifar.load_cifar100("train")
    assert np.array_equal(got.images, train["images"]) and "subset" in got.subset
    federation = load_clients("cifar100_subset", clients=4, seed=0)
    assert federation.inputs.shape == (400, 3, 32, 32) and federation.classes == 100
    assert sum(map(len, federation.train + federation.test)) == 400


def test_cifar100_official(put, monkeypatch):
    monkeypatch.setattr(cifar, "COUNTS", {"train": 300, "test": 100})
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for part, each in (("train", 3), ("test", 1)):
            made = photographs(each)
            fine = made["labels"][:, None]
            planes = made["images"].transpose(0, 3, 1, 2).reshape(len(fine), -1)
            content = np.concatenate([fine // 5, fine, planes], axis=1).astype(np.uint8).tobytes()
            member = tarfile.TarInfo(f"cifar-100-binary/{part}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    put("cifar100", stream.getvalue())
    got = cifar.load_cifar100("train")
    assert np.array_equal(got.images, photographs(3)["images"]) and not got.subset
    assert np.array_equal(got.labels, photographs(3)["labels"])
    put("cifar100", stream.getvalue()[:-200])
    cifar.load_cifar100.cache_clear()
    with pytest.raises(DataError, match="cannot be read|no multiple"):
        cifar.load_cifar100("test")


def test_femnist_by_writer(put):
    put("femnist_by_writer", femnist())
    got = load_clients("femnist", clients=3, seed=0)
    assert [len(p) for p in got.train] == [8, 9, 9]  # an image that the first has twice counts once
    assert [len(p) for p in got.test] == [1, 1, 1]
    assert got.inputs.shape == (29, 1, 28, 28)
    with pytest.raises(ValueError, match="clients must be at most 4, the writers, got 5"):
        load_clients("femnist", clients=5, seed=0)


def test_writers_with_two_images(put):
    made = {key: values[:24] for key, values in femnist().items() if key != "classes"}
    made["classes"] = femnist()["classes"]
    made["writer"] = np.array([0] * 10 + [1] * 10 + [2] * 2 + [3] * 2, dtype=np.uint8)
    made["is_test"][20:] = [False, True, False, False]
    put("femnist_by_writer", made)
    got = load_clients("femnist", clients=3, seed=0)
    assert (len(got.train[2]), len(got.test[2])) == (1, 1)  # one to train on, one to test: enough
    with pytest.raises(ValueError, match="clients must be at most 3, the writers, got 4"):
        load_clients("femnist", clients=4, seed=0)  # the last one has nothing to be tested on


def test_radhar_maps_and_runs_of_recordings(put):
    made = radhar()
    put("radhar_maps", made)
    got = activity.load_radhar()
    assert got.values.shape == (16, 30, 16)  # two segments in each of 8 recordings
    assert np.allclose(got.values[0, 0], np.log1p(made["intensity"][0, 0]), rtol=1e-5)
    federation = load_clients("radhar", clients=2, seed=0)
    late = np.concatenate([federation.train[0], federation.test[0]])
    assert set(got.group[late]) == {4, 5, 6, 7}  # the earliest recordings: the times run backwards
    assert "in place of mmHAR" in federation.stand_in


def test_ucihar_sequences(put):
    made = ucihar()
    put("ucihar_windows", made)
    got = activity.load_ucihar()
    assert got.values.shape == (24, 32, 36)
    scaled = made["signals"][0, 4] / made["signals"][:, 4].astype(float).std()
    assert np.allclose(got.values[0, :, 16:20].ravel(), scaled, rtol=1e-4)
    federation = load_clients("ucihar", clients=2, seed=0)
    assert len(federation.inputs) == 16 and [len(p) for p in federation.test] == [2, 2]
    with pytest.raises(ValueError, match="clients must be at most 3, the subjects, got 4"):
        load_clients("ucihar", clients=4, seed=0)


@pytest.mark.parametrize(
    ("name", "federation", "make", "key", "value", "told"),
    [
        (
            "femnist_by_writer",
            "femnist",
            femnist,
            "images",
            np.zeros((40, 8, 8), np.uint8),
            "28x28",
        ),
        ("femnist_by_writer", "femnist", femnist, "classes", np.array(["0"]), "62 classes"),
        ("radhar_maps", "radhar", radhar, "recording", np.zeros(5, np.uint8), "for each map"),
        ("radhar_maps", "radhar", radhar, "recording_label", np.zeros(3, np.uint8), "a label"),
        (
            "ucihar_windows",
            "ucihar",
            ucihar,
            "labels",
            np.full(24, 9, np.uint8),
            "a label for each",
        ),
        (
            "ucihar_windows",
            "ucihar",
            ucihar,
            "signals",
            np.zeros((24, 9, 64), np.int16),
            "128 samples",
        ),
    ],
)
def test_what_does_not_fit_is_one_clear_error(put, name, federation, make, key, value, told):
    put(name, {**make(), key: value})
    with pytest.raises(DataError, match=told):
        load_clients(federation, clients=2, seed=0)


def test_a_file_without_its_arrays_or_no_file(put):
    put("femnist_by_writer", {"images": np.zeros((1, 28, 28), np.uint8)})
    with pytest.raises(DataError, match="expected arrays images, labels, writer"):
        load_clients("femnist", clients=1, seed=0)
    put("radhar_maps", b"not an npz file")
    with pytest.raises(DataError, match="cannot be read"):
        load_clients("radhar", clients=1, seed=0)
    with pytest.raises(DataError, match="neither in"):
        load_clients("ucihar", clients=1, seed=0)
    unbalanced = photographs(2)
    unbalanced["labels"][0] = 5
    put("cifar100_train", unbalanced)
    with pytest.raises(DataError, match="balanced over the classes 0 to 99"):
        cifar.load_cifar100("train", "subset")


def test_unknown_names():
    with pytest.raises(ValueError, match="name must be one of"):
        load_clients("mmhar", clients=10, seed=0)
    with pytest.raises(ValueError, match="version must be one of"):
        cifar.load_cifar100("train", "newest")


def test_embedded_federations():
    for name, clients in (
        ("digits_dirichlet", 10),
        ("digits_personal", 10),
        ("generated_radar", 4),
    ):
        one, two = (load_clients(name, clients=clients, seed=1) for _ in range(2))
        assert np.array_equal(one.inputs, two.inputs) and one.clients == clients and one.stand_in
        together = np.concatenate([*one.train, *one.test])
        assert len(np.unique(together)) == len(together)
        assert abs(float(one.inputs.mean())) < 1e-3
    writers = load_clients("digits_personal", clients=10, seed=1)
    assert all(len(np.unique(writers.labels[p])) <= 5 for p in writers.train)
    radar = load_clients("generated_radar", clients=4, seed=1)
    assert {(len(a), len(b)) for a, b in zip(radar.train, radar.test, strict=True)} == {(153, 51)}


def test_federations_have_as_many_clients_as_asked():
    with pytest.raises(ValueError, match="clients must be an integer >= 1, got 0"):
        load_clients("digits_dirichlet", clients=0, seed=0)
    with pytest.raises(ValueError, match="seed must be an integer >= 0, got -1"):
        load_clients("digits_dirichlet", clients=5, seed=-1)
