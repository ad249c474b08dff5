"""The public start: the split, both data sets in turn, the kept file, an interruption."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from repro.datasets import load_digits
from repro.models.residual import build_residual
from reproduce import paths
from reproduce.papers.partitioning import public_start
from reproduce.papers.partitioning.pretraining import Data, Pretraining

SETTINGS = Pretraining(
    classes=2, target=1.0, epochs=3, batch=16, learning_rate=0.05, drop=0.5, augment=True
)


@pytest.fixture
def small(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    monkeypatch.setattr(public_start, "FIRST", 2)
    rng = np.random.default_rng(0)
    labels = torch.arange(48) % 3
    images = torch.from_numpy(rng.integers(0, 17, (48, 1, 8, 8), dtype=np.uint8))
    wide = torch.from_numpy(rng.integers(0, 17, (32, 1, 8, 8), dtype=np.uint8))
    return Data(images, labels, images, labels, 3, "none"), (wide, torch.arange(32) % 100)


def start(small, settings=SETTINGS):
    return public_start.public_start("small_digits", *small, settings)


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_private_images_are_balanced_and_the_others_are_public(monkeypatch):
    monkeypatch.setattr(public_start, "PRIVATE", 100)
    digits = load_digits("train")
    public, private = public_start.split(digits)
    assert len(public) + len(private) == len(digits) and len(private) == 100
    assert set(np.bincount(private.labels)) == {10}
    together = np.concatenate([public.images, private.images]).reshape(len(digits), -1)
    whole = digits.images.reshape(len(digits), -1)
    assert np.array_equal(np.sort(together, axis=0), np.sort(whole, axis=0))
    monkeypatch.setattr(public_start, "PRIVATE", 101)
    with pytest.raises(ValueError, match="images must hold"):
        public_start.split(digits)


def test_the_start_is_kept_and_no_unseen_class_is_answered(small, monkeypatch):
    net, found = start(small)
    assert found["epochs"] == 3 and 0 <= found["accuracy"] <= 2 / 3
    assert not same(net, build_residual("small_digits", classes=3, seed=public_start.SEED))
    monkeypatch.setattr(public_start, "_train_both", lambda *args: pytest.fail("made again"))
    again, kept = start(small)
    assert kept == found and same(net, again)


@pytest.mark.parametrize("passes", [1, 3, 4])
def test_an_interrupted_start_becomes_the_one_without_interruption(
    small, tmp_path, monkeypatch, passes
):
    whole, _ = start(small)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "again")
    kept, saves = torch.save, []

    def save(content, path):
        if len(saves) == passes:
            raise KeyboardInterrupt
        saves.append(path)
        kept(content, path)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(KeyboardInterrupt):
        start(small)
    monkeypatch.setattr(torch, "save", kept)
    resumed, _ = start(small)
    assert same(whole, resumed)
    assert not list((tmp_path / "again").rglob("*.begun"))


def test_another_setting_or_other_first_images_are_another_start(small):
    data, (wide, labels) = small
    net, _ = start(small)
    assert not same(net, start(small, replace(SETTINGS, learning_rate=0.02))[0])
    assert not same(net, start((data, (wide.flip(0), labels)))[0])


def test_images_are_moved_one_by_one(monkeypatch):
    monkeypatch.setattr(public_start, "_ERASED", 100)  # squares without a pixel
    images = torch.arange(36.0).reshape(1, 1, 6, 6).repeat(200, 1, 1, 1)
    generator = torch.Generator()
    generator.manual_seed(0)
    moved = public_start._moved(images, generator)
    assert moved.shape == images.shape and set(moved.unique().tolist()) <= set(range(36))
    different = {tuple(one.flatten().tolist()) for one in moved}
    assert 60 < len(different) <= 98  # 49 places, mirrored or not


def test_a_square_of_each_image_takes_the_mean():
    generator = torch.Generator()
    generator.manual_seed(0)
    images = torch.arange(64.0).reshape(1, 1, 8, 8).repeat(50, 2, 1, 1)
    moved = public_start._moved(images, generator)
    corners = set()
    for one in moved:
        erased = one != one.round()  # pixels are whole, their mean hardly ever
        assert torch.equal(erased[0], erased[1]) and int(erased[0].sum()) in (0, 4)
        rows, columns = (places.unique() for places in erased[0].nonzero(as_tuple=True))
        assert len(rows) == len(columns) == 2 or not len(rows)
        corners.update([(int(rows[0]), int(columns[0]))] if len(rows) else [])
    assert len(corners) > 15
