"""CIFAR-10: official archive and subset are read alike; the subset says so; damage is one clear line."""

import hashlib
import io
import os
import tarfile

import numpy as np
import pytest

from repro import paths
from repro.datasets import DataError, cifar, entry, load_cifar10, registry

FILES = {"cifar10": "cifar-10-binary.tar.gz"} | {
    f"cifar10_{part}": f"cifar10_{part}.npz" for part in ("train", "test")
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty cache and an empty mirror."""
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    (tmp_path / "mirror").mkdir()
    monkeypatch.setenv(registry.MIRROR, str(tmp_path / "mirror"))
    monkeypatch.setattr(cifar, "COUNTS", {"train": 50, "test": 10})
    load_cifar10.cache_clear()
    yield tmp_path
    load_cifar10.cache_clear()


def describe(place, monkeypatch):
    """Let the project's registry describe the files that lie in the mirror."""
    known = registry.entries()
    for name, file in FILES.items():
        path = place / "mirror" / file
        if path.exists():
            content = path.read_bytes()
            changed = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            known[name] = registry.Entry(**{**vars(known[name]), **changed})
    monkeypatch.setattr(registry, "entries", lambda path=None: known)


def photographs(count, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return images, (np.arange(count) % 10).astype(np.uint8)


def rows(images, labels):
    """The official binary format: the label, then red, green and blue, each row by row."""
    planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([labels[:, None], planes], axis=1).tobytes()


def archive(place, monkeypatch, change=None):
    images, labels = photographs(60)
    files = {
        f"data_batch_{k + 1}.bin": rows(images[10 * k : 10 * k + 10], labels[10 * k : 10 * k + 10])
        for k in range(5)
    }
    files["test_batch.bin"] = rows(images[50:], labels[50:])
    if change is not None:
        change(files)
    with tarfile.open(place / "mirror" / FILES["cifar10"], "w:gz") as target:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    describe(place, monkeypatch)
    return images, labels


def subset(place, monkeypatch, **change):
    images, labels = photographs(20, seed=1)
    content = {
        "images": images,
        "labels": labels,
        "classes": np.array(cifar.CIFAR10_CLASSES),
        **change,
    }
    for part in ("train", "test"):
        np.savez(place / "mirror" / FILES[f"cifar10_{part}"], **content)
    describe(place, monkeypatch)
    return images, labels


def test_the_official_archive_is_read(place, monkeypatch):
    images, labels = archive(place, monkeypatch)
    train, test = load_cifar10("train"), load_cifar10("test", "official")
    assert np.array_equal(train.images, images[:50]) and np.array_equal(train.labels, labels[:50])
    assert np.array_equal(test.images, images[50:]) and np.array_equal(test.labels, labels[50:])
    assert train.subset == "" and train.labels.dtype == np.int64
    assert train.classes[0] == "airplane" and train.classes[9] == "truck"
    assert not train.images.flags.writeable and train.images.flags.c_contiguous


def test_the_subset_is_recognised_and_says_so(place, monkeypatch):
    images, labels = subset(place, monkeypatch)
    data = load_cifar10("train")  # "auto": only the subset is there
    assert np.array_equal(data.images, images) and np.array_equal(data.labels, labels)
    assert "subset" in data.subset and "18,000 of the 50,000" in data.subset
    assert data.majority_share == pytest.approx(0.1)


def test_the_official_archive_goes_before_the_subset(place, monkeypatch):
    subset(place, monkeypatch)
    archive(place, monkeypatch)
    assert load_cifar10("train").subset == ""
    assert load_cifar10("train", "subset").subset
    for arguments in (("validation",), ("train", "all")):
        with pytest.raises(ValueError, match="must be one of"):
            load_cifar10(*arguments)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files.pop("data_batch_3.bin"), "has no member data_batch_3.bin"),
        (lambda files: files.update({"data_batch_2.bin": b"12345"}), "5 bytes are no multiple"),
        (lambda files: files.update({"data_batch_1.bin": b""}), "0 bytes are no multiple"),
        (
            lambda files: files.update({"data_batch_1.bin": rows(*photographs(20))}),
            "expected 50 colour images",
        ),
        (
            lambda files: files.update(
                {"data_batch_1.bin": rows(photographs(10)[0], np.full(10, 3, np.uint8))}
            ),
            "not balanced over the classes",
        ),
        (
            lambda files: files.update(
                {"data_batch_1.bin": rows(photographs(10)[0], np.arange(1, 11, dtype=np.uint8))}
            ),
            "not balanced over the classes",
        ),
    ],
)
def test_an_archive_with_other_content_is_refused(place, monkeypatch, change, message):
    archive(place, monkeypatch, change)
    with pytest.raises(DataError, match=message) as error:
        load_cifar10("train", "official")
    assert "\n" not in str(error.value) and FILES["cifar10"] in str(error.value)


@pytest.mark.parametrize("version", ["official", "subset"])
def test_a_file_that_is_no_archive(place, monkeypatch, version):
    for file in FILES.values():
        (place / "mirror" / file).write_bytes(b"\x1f\x8bPK, but not really")
    describe(place, monkeypatch)
    with pytest.raises(DataError, match="cannot be read") as error:
        load_cifar10("test", version)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((20, 32, 32), np.uint8)}, "expected 20 colour images"),
        ({"images": np.zeros((20, 32, 32, 3), np.float32)}, "expected 20 colour images"),
        ({"labels": np.zeros(20, np.uint8)}, "not balanced"),
        ({"classes": np.array(cifar.CIFAR10_CLASSES[::-1])}, "classes are not airplane"),
    ],
)
def test_a_subset_of_another_shape_is_refused(place, monkeypatch, change, message):
    subset(place, monkeypatch, **change)
    with pytest.raises(DataError, match=message):
        load_cifar10("train", "subset")


def test_the_registry_knows_the_official_archive_and_the_subset():
    assert cifar.COUNTS == {"train": 50_000, "test": 10_000}
    whole = entry("cifar10")
    assert whole.url.endswith(whole.file) and whole.bytes == 170_052_171
    # 60,000 rows of 3,073 bytes compress to a little less than they are
    assert 0.9 < whole.bytes / (60_000 * 3073) < 1
    for part in ("train", "test"):
        assert entry(f"cifar10_{part}").whole == "cifar10"


@pytest.mark.skipif(
    not all(
        os.path.exists(os.path.join(os.environ.get(registry.MIRROR, ""), FILES[f"cifar10_{p}"]))
        for p in ("train", "test")
    ),
    reason="no mirror with the CIFAR-10 subset",
)
def test_the_real_subset():
    from repro.models.residual import CIFAR_PIXELS

    load_cifar10.cache_clear()
    train, test = (load_cifar10(part, "subset") for part in ("train", "test"))
    assert (len(train), len(test)) == (18_000, 4_000) and train.subset
    assert np.array_equal(np.bincount(train.labels), np.full(10, 1800))
    assert train.images.mean() / 255 == pytest.approx(CIFAR_PIXELS[0], abs=0.003)
    assert train.images.std() / 255 == pytest.approx(CIFAR_PIXELS[1], abs=0.003)
