"""Adult: reading the official files, encoding them, and the generated records of the same shape."""

import hashlib

import numpy as np
import pytest

from repro import paths
from repro.datasets import DataError, adult, registry
from repro.datasets.adult import LEVELS, encode, load_adult

ROW = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, "
    "2174, 0, 40, United-States, <=50K"
)
RICH = "52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, Black, Female, 0, 5, 45, ?, >50K"
CODES = [39, 7, 77516, 9, 13, 4, 1, 1, 4, 1, 2174, 0, 40, 39]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty cache and a mirror for small files that the registry is made to describe."""
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "EMBEDDED", tmp_path / "embedded")
    monkeypatch.setenv(registry.MIRROR, str(tmp_path))
    load_adult.cache_clear()
    adult._read.cache_clear()
    yield tmp_path
    load_adult.cache_clear()
    adult._read.cache_clear()


def files(place, monkeypatch, train=(ROW, RICH), test=(RICH + ".", ROW + "."), counts=None):
    known = registry.entries()
    contents = {
        "adult_train": "\n".join(train) + "\n\n",
        "adult_test": "|1x3 Cross validator\n" + "\n".join(test) + "\n\n",
    }
    for name, content in contents.items():
        written = content.encode()
        (place / known[name].file).write_bytes(written)
        digest = hashlib.sha256(written).hexdigest()
        changed = {**vars(known[name]), "sha256": digest, "bytes": len(written)}
        known[name] = registry.Entry(**changed)
    monkeypatch.setattr(registry, "entries", lambda path=None: known)
    monkeypatch.setattr(adult, "COUNTS", counts or {"train": (2, 1), "test": (2, 1)})
    return known


def test_both_parts_are_read_with_the_training_part_s_scaling(place, monkeypatch):
    known = files(place, monkeypatch)
    train, test = load_adult("train"), load_adult("test")
    assert train.labels.tolist() == [0, 1] and test.labels.tolist() == [1, 0]
    np.testing.assert_array_equal(test.features, train.features[::-1])
    # every column of these two differs, so that one has 0 and the other 1
    expected = (np.array(CODES) > [52, 0, 209642, 11, 9, 2, 0, 0, 2, 0, 0, 5, 45, 0]).astype(float)
    assert train.features[0].tolist() == expected.tolist()
    assert train.columns == tuple(LEVELS) and "uci.edu" in train.source
    assert train.sha256 == known["adult_train"].sha256
    with pytest.raises(ValueError, match="read-only"):
        train.features[0] = 0


def test_codes_are_places_in_the_alphabetical_order_with_missing_first(place, monkeypatch):
    files(place, monkeypatch)
    values, _ = adult._read("train")
    assert values[0].tolist() == CODES and values[1, [1, 6, 13]].tolist() == [0, 0, 0]
    for levels in LEVELS.values():
        assert list(levels) == sorted(levels) and len(set(levels)) == len(levels)


def test_encodings_of_a_known_table():
    training = np.zeros((4, 14))
    training[:, 0] = [20, 30, 40, 50]
    training[:, 1:] = np.arange(4)[:, None] % 2
    scaled, names = encode(training, training, "scaled")
    assert names == tuple(LEVELS) and np.allclose(scaled[:, 0], [0, 1 / 3, 2 / 3, 1])
    standard, _ = encode(training, training, "standardised")
    assert np.allclose(standard.mean(axis=0), 0) and np.allclose(standard.std(axis=0), 1)
    beyond = training[:1] + [[40, *[0] * 13]]
    assert encode(beyond, training, "scaled")[0][0, 0] == pytest.approx(4 / 3)
    hot, titles = encode(training, training, "one_hot")
    assert hot.shape == (4, 108) == (4, len(titles)) and "workclass=Federal-gov" in titles
    start = titles.index("sex=Female")
    assert hot[:, start : start + 2].tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert np.allclose(hot[:, [titles.index(n) for n in ("age", "fnlwgt")]], scaled[:, [0, 2]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": (ROW,)}, "expected 2 records, 1 of them >50K; found 1 and 0"),
        ({"train": (ROW, ROW)}, "found 2 and 0"),
        ({"train": (ROW, RICH.replace("HS-grad", "HS"))}, "KeyError: 'HS'"),
        ({"train": (ROW, RICH.replace("52", "old"))}, "could not convert"),
        ({"train": (ROW, RICH.replace(">50K", "rich"))}, "KeyError: 'rich'"),
        ({"train": (ROW, RICH + ", 1")}, "rows of 14 columns"),
        ({"train": ("1, 2", "3, 4")}, "rows of 14 columns"),
        ({"train": (ROW, RICH.replace("Black", "Bläck"))}, "cannot be read"),
    ],
)
def test_a_file_with_other_content_is_named(place, monkeypatch, change, message):
    files(place, monkeypatch, **change)
    with pytest.raises(DataError, match="adult.data") as error:
        load_adult("train")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_unknown_parts_and_features():
    with pytest.raises(ValueError, match="part must be one of 'train', 'test', got 'all'"):
        load_adult("all")
    with pytest.raises(ValueError, match="features must be one of 'scaled'"):
        load_adult("train", "raw")


def test_the_embedded_files_are_the_complete_data(monkeypatch):
    monkeypatch.delenv(registry.MIRROR, raising=False)
    train, test = load_adult("train"), load_adult("test")
    assert len(train) == 32_561 and len(test) == 16_281
    assert 1 - test.labels.mean() == pytest.approx(0.7638, abs=1e-4)
    assert train.features.min() == 0 and train.features.max() == 1
    assert 1 < test.features.max() < 1.01  # one weight above the largest of the training part
    assert load_adult("train", "one_hot").features.shape == (32_561, 108)
