"""The data that come with the project: found first, whole, within 8 MB, with terms, and made again alike."""

import hashlib
import importlib.util
import lzma
import os

import numpy as np
import pytest

from repro import paths
from repro.datasets import (
    DataError,
    characters,
    entry,
    fetch,
    find,
    load_emnist_byclass,
    names,
    registry,
)
from repro.datasets.activity import load_femnist, load_radhar

FILES = sorted(p.name for p in paths.EMBEDDED.iterdir() if p.suffix in (".npz", ".xz"))


@pytest.fixture
def make():
    """The script that makes the files."""
    spec = importlib.util.spec_from_file_location("make", paths.EMBEDDED / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_in_the_registry_has_its_terms_and_all_are_small():
    described = {entry(name).file for name in names()}
    terms = (paths.EMBEDDED / "README.md").read_text()
    for name in FILES:
        assert name.removesuffix(registry.COMPRESSED) in described and f"`{name}`" in terms
    assert sum(p.stat().st_size for p in paths.EMBEDDED.iterdir()) < 8_000_000
    for phrase in ("CC BY 4.0", "BSD 2-Clause License", "BSD 3-Clause License", "irrevocable"):
        assert phrase in terms
    assert not any("ucihar" in name for name in FILES)  # its texts contradict each other


@pytest.mark.parametrize("name", ["adult_train", "femnist_by_writer", "radhar_maps"])
def test_embedded_comes_before_cache_and_mirror(name, tmp_path, monkeypatch):
    wanted = entry(name)
    monkeypatch.setattr(paths, "CACHE", tmp_path)
    monkeypatch.setenv(registry.MIRROR, str(tmp_path))
    (tmp_path / wanted.file).write_bytes(b"never looked at")
    found = fetch(name)
    assert found.parent == paths.EMBEDDED
    content = registry.content(name)
    assert len(content) == wanted.bytes
    assert hashlib.sha256(content).hexdigest() == wanted.sha256
    with pytest.raises(DataError, match="truncated"):
        find(name, embedded=False)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda b: b[: len(b) // 2], "truncated or altered"),
        (lambda b: b"no archive", "truncated or altered"),
        (lambda b: lzma.compress(lzma.decompress(b)[:-9]), "is truncated"),
        (lambda b: lzma.compress(lzma.decompress(b)[:-1] + b"x"), "is altered"),
    ],
)
def test_a_damaged_embedded_file_is_named_with_what_to_do(spoil, told, tmp_path, monkeypatch):
    whole = (paths.EMBEDDED / "adult.test.xz").read_bytes()
    monkeypatch.setattr(paths, "EMBEDDED", tmp_path)
    (tmp_path / "adult.test.xz").write_bytes(spoil(whole))
    with pytest.raises(DataError, match=told) as error:
        fetch("adult_test")
    message = str(error.value)
    assert "adult.test.xz" in message and "git checkout" in message and "\n" not in message


def test_the_embedded_emnist_says_that_it_is_a_subset(monkeypatch):
    monkeypatch.delenv(registry.MIRROR, raising=False)
    train, test = (load_emnist_byclass(part, "embedded") for part in ("train", "test"))
    assert (len(train), len(test)) == (18_000, 3_000)
    assert "embedded subset: 18,000" in train.subset == test.subset
    assert np.bincount(train.labels).min() == 80 and np.bincount(test.labels).min() == 12
    assert 0.04 < test.majority_share < 0.06
    with pytest.raises(ValueError, match="'embedded'"):
        load_emnist_byclass("train", "all")
    with pytest.raises(ValueError, match="part must be"):
        load_emnist_byclass("all", "embedded")


def test_digits_and_letters_share_no_image_and_count_from_zero():
    data = load_emnist_byclass("test", "embedded")
    digits, letters = characters(data, "digits"), characters(data, "letters")
    assert len(digits) + len(letters) == len(data)
    assert set(digits.labels) == set(range(10)) and set(letters.labels) == set(range(52))
    assert digits.classes == tuple("0123456789") and letters.classes[0] == "A"
    first = np.flatnonzero(data.labels >= 10)[0]
    assert np.array_equal(letters.images[0], data.images[first])
    assert letters.classes[letters.labels[0]] == data.classes[data.labels[first]]
    assert letters.subset == data.subset
    with pytest.raises(ValueError, match="kind must be"):
        characters(data, "capitals")


def test_radhar_and_femnist_need_no_mirror(monkeypatch):
    monkeypatch.delenv(registry.MIRROR, raising=False)
    maps, images = load_radhar(), load_femnist()
    assert maps.values.shape == (1116, 30, 16) and "186 of 200" in maps.subset
    assert images.values.shape == (18_690, 28, 28) and len(np.unique(images.group)) == 184


def test_radhar_sums_are_those_of_the_points(make, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    points = rng.integers(1, 4, 8 * 200)
    made = {
        "doppler_bin": rng.integers(0, 16, points.sum()).astype(np.uint8),
        "peak": rng.integers(1, 2000, points.sum()).astype(np.uint16),
        "frame_npoints": points.astype(np.uint8),
        "frame_recording": np.repeat(np.arange(8), 200).astype(np.uint8),
        "recording_label": np.zeros(8, np.uint8),
        "recording_start_unix": np.zeros(8),
        "classes": np.array(["walk"]),
    }
    np.savez(tmp_path / "points.npz", **made)
    monkeypatch.setattr(make, "source", lambda name: tmp_path / "points.npz")
    (tmp_path / "maps.npz").write_bytes(make.radhar())
    with np.load(tmp_path / "maps.npz") as got:
        assert got["intensity"].shape == (16, 30, 16)  # two segments of 90 frames each
        first = slice(0, int(points[:3].sum()))  # three frames, one tenth of a second
        energy = np.bincount(made["doppler_bin"][first], made["peak"][first], minlength=16)
        assert np.array_equal(got["intensity"][0, 0], energy)
        assert got["recording"].tolist() == np.repeat(np.arange(8), 2).tolist()


@pytest.mark.skipif(
    not os.path.exists(os.path.join(os.environ.get(registry.MIRROR, ""), "radhar_points.npz")),
    reason="no mirror with the sources",
)
def test_the_files_are_made_again_alike(make):
    for name, content in make.made().items():
        present = (paths.EMBEDDED / name).read_bytes()
        if name.endswith(registry.COMPRESSED):
            present, content = lzma.decompress(present), lzma.decompress(content)
        assert present == content, name
