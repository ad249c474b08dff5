"""Pretraining: halves, the classes that are seen, the kept file."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from repro.models.residual import build_residual
from reproduce import paths
from reproduce.papers.partitioning import pretraining
from reproduce.papers.partitioning.pretraining import Data, Pretraining, halves, pretrained

QUICK = Pretraining(
    classes=2, target=1.0, epochs=2, batch=16, learning_rate=0.1, drop=0.5, augment=True
)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    return tmp_path


def data(count=48, seed=0):
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(np.arange(count) % 3)
    images = torch.from_numpy(rng.integers(0, 17, (count, 1, 8, 8), dtype=np.uint8))
    return Data(images, labels, images, labels, 3, "none")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 5))
def test_halves_are_disjoint_and_have_half_of_every_class(labels, seed):
    labels = np.array(labels)
    first, second = halves(labels, np.random.default_rng(seed))
    assert sorted([*first, *second]) == list(range(len(labels)))
    one, two = (np.bincount(labels[half], minlength=5) for half in (first, second))
    assert np.all((two - one >= 0) & (two - one <= 1))


def test_halves_are_random():
    labels = np.arange(40) % 2
    drawn = {tuple(halves(labels, np.random.default_rng(seed))[0]) for seed in range(20)}
    assert len(drawn) == 20


def test_a_kept_model_is_the_one_that_was_made(runs, monkeypatch):
    made, found = pretrained("small_digits", data(), QUICK, 1)
    assert found["epochs"] == 2 and 0 <= found["accuracy"] <= 2 / 3
    monkeypatch.setattr(pretraining, "_pretrain", lambda *args: pytest.fail("made again"))
    kept, again = pretrained("small_digits", data(), QUICK, 1)
    assert again == found
    pairs = zip(made.parameters(), kept.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_same_seed_gives_the_same_model_and_another_seed_another(runs, tmp_path, monkeypatch):
    made, _ = pretrained("small_digits", data(), QUICK, 1)
    other, _ = pretrained("small_digits", data(), QUICK, 2)
    monkeypatch.setattr(paths, "RUNS", tmp_path / "elsewhere")
    again, _ = pretrained("small_digits", data(), QUICK, 1)
    for a, b in zip(made.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(made.head[-1].weight, other.head[-1].weight)


def test_unseen_classes_keep_their_outputs_and_their_images_are_not_used(runs, tmp_path):
    """Weight decay alone moves the row of the unseen class: it shrinks."""
    model, _ = pretrained("small_digits", data(), QUICK, 3)
    start = build_residual("small_digits", classes=3, seed=3)
    row, before = (net.head[-1].weight[2].detach() for net in (model, start))
    shrunk = float((row / before).mean())
    assert 0.99 < shrunk < 1 and torch.allclose(row, before * shrunk, atol=1e-6)
    assert not torch.allclose(model.head[-1].weight[0], start.head[-1].weight[0], atol=1e-3)
    changed = data()
    changed.images[changed.labels == 2] = 0
    judged = data()
    changed = Data(
        changed.images, changed.labels, judged.images, judged.labels, 3, "others of class 2"
    )
    other, _ = pretrained("small_digits", changed, QUICK, 3)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_training_ends_at_the_target(runs):
    easy = Pretraining(2, 0.0, 50, 16, 0.1, 0.0, False)
    _, found = pretrained("small_digits", data(), easy, 0)
    assert found["epochs"] == 1


def test_it_learns_what_can_be_learnt(runs):
    """Class k has a bright band at row 2k: both seen classes are told apart, the third never."""
    labels = torch.arange(60) % 3
    images = torch.randint(0, 6, (60, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    images[torch.arange(60), 0, 2 * labels] += 10
    images = images.to(torch.uint8)
    settings = Pretraining(2, 2 / 3, 40, 10, 0.05, 0.5, False)
    split = Data(images, labels, images, labels, 3, "bands")
    _, found = pretrained("small_digits", split, settings, 0)
    assert found["accuracy"] == pytest.approx(2 / 3) and found["epochs"] < 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 1}, "classes must be an integer >= 2"),
        ({"target": 1.5}, r"target must be in \[0, 1\]"),
        ({"epochs": 0}, "epochs must be an integer >= 1"),
        ({"batch": 0}, "batch must be an integer >= 1"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"drop": -0.1}, r"drop must be in \[0, 1\]"),
    ],
)
def test_bad_input(change, message):
    with pytest.raises(ValueError, match=message):
        Pretraining(**{**vars(QUICK), **change})
