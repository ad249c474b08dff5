"""Subsets cut from complete data sets: the very bytes of the registry, or nothing; and `make data`."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from repro.datasets import registry
from repro.datasets.cifar import CIFAR10_CLASSES, CIFAR100_CLASSES
from repro.datasets.dataset import Dataset
from repro.datasets.emnist import CLASSES
from repro.datasets.registry import MIRROR, DataError
from reproduce import __main__, catalogue, paths, subsets

FOLDER = Path(os.environ.get(MIRROR) or paths.ROOT.parent / "shared/data")
SMALL = ("emnist_byclass_test", "cifar100_test")
KNOWN = {"emnist_byclass": CLASSES, "cifar10": CIFAR10_CLASSES, "cifar100": CIFAR100_CLASSES}


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A machine with neither cache nor mirror, and with no way out."""
    monkeypatch.delenv(MIRROR, raising=False)
    for where in (paths, registry.paths):
        monkeypatch.setattr(where, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(registry, "_download", _nowhere)
    return tmp_path


def _nowhere(wanted, looked):
    raise DataError(f"{looked}, and the download of {wanted.url} failed")


def whole(name, path, seed=0):
    """A stand-in for the complete data set: the records of the subset among others, in another order."""
    with np.load(path, allow_pickle=False) as stored:
        content = {key: stored[key] for key in stored.files}
    rng = np.random.default_rng(seed)
    labels, images = content["labels"].astype(np.int64), content["images"]
    if "source_index" in content:
        size, places = 116_323, content["source_index"]
    else:
        size = len(labels) + 500
        places = rng.permutation(size)[: len(labels)]
    every = rng.integers(0, 256, (size, *images.shape[1:]), np.uint8)
    every[places] = images
    classes = rng.integers(0, 10, size)
    classes[places] = labels
    return Dataset(name, every, classes, KNOWN[name], 255, "", "")


def put(monkeypatch, name, data):
    monkeypatch.setitem(subsets.LOADERS, name, lambda part, version: data)


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SMALL else pytest.mark.slow) for n in subsets.NAMES],
)
def test_the_bytes_are_those_of_the_registry(empty, monkeypatch, name):
    wanted = registry.entry(name)
    if not (FOLDER / wanted.file).exists():
        pytest.skip(f"{FOLDER} has no {wanted.file}")
    data = whole(wanted.whole, FOLDER / wanted.file)
    put(monkeypatch, wanted.whole, data)
    made = subsets.cut(name)
    assert hashlib.sha256(made.read_bytes()).hexdigest() == wanted.sha256
    assert registry.find(name) == made
    made.unlink()
    images = data.images.copy()
    images[..., 0, 0] ^= 1  # another edition of the same data set
    put(monkeypatch, wanted.whole, replace(data, images=images))
    with pytest.raises(DataError, match="altered|lacks"):
        subsets.cut(name)
    assert list((empty / "cache").iterdir()) == []


@pytest.mark.parametrize("name", SMALL)
def test_the_committed_recipe_is_that_of_the_subset(monkeypatch, name):
    if not (FOLDER / registry.entry(name).file).exists():
        pytest.skip(f"{FOLDER} has no {registry.entry(name).file}")
    monkeypatch.setenv(MIRROR, str(FOLDER))
    assert subsets.recipe(name) == subsets.recipe_path(name).read_bytes()


def test_every_recipe_belongs_to_a_subset_of_the_registry():
    found = {path.stem for path in subsets.recipe_path("x").parent.glob("*.npz")}
    assert found == set(subsets.NAMES)
    for name in subsets.NAMES:
        assert registry.entry(name).whole in subsets.LOADERS and not registry.entry(name).url


def test_an_unknown_record_is_told(empty, monkeypatch):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 32, 32, 3), np.uint8)
    data = Dataset("cifar100", images, np.zeros(50, np.int64), CIFAR100_CLASSES, 255, "", "")
    put(monkeypatch, "cifar100", data)
    with pytest.raises(DataError, match="cifar100 lacks 2,000 of the 2,000 images of a subset"):
        subsets.cut("cifar100_test")
    with pytest.raises(DataError, match="nothing says how to cut it"):
        subsets.cut("femnist_by_writer")


def needs(monkeypatch, *names):
    figure = next(one for one in catalogue.figures() if one.id == "pmsfl/fig2")
    given = replace(figure, needs={"desk": names})
    monkeypatch.setattr(catalogue, "select", lambda ids: [given])


def test_make_data_lists_what_cannot_be_had_and_is_no_failure(empty, monkeypatch, capsys):
    needs(monkeypatch, "adult_train", "cifar100_test", "ucihar_windows")
    assert __main__.main(["data", "--profile", "desk"]) == 0
    out = capsys.readouterr().out
    assert "adult_train: " in out and "2 of 3 cannot be had here" in out
    assert "cifar-100-binary.tar.gz" in out and "cifar100_test" in out
    assert f"set {MIRROR} to a folder that has it" in out


def test_make_data_fails_for_a_damaged_file(empty, monkeypatch, capsys):
    needs(monkeypatch, "ucihar_windows")
    (empty / "cache").mkdir()
    (empty / "cache/ucihar_windows.npz").write_bytes(b"cut")
    assert __main__.main(["data", "--profile", "desk"]) == 1
    assert "is truncated: 3 bytes, expected 7,552,284" in capsys.readouterr().err
