"""UCI Adult (Census Income): 48,842 records of 14 columns, and whether the income is above 50,000.

Preprocessing, decided here once:

* a missing value ("?", in workclass, occupation and native-country) is a level of its own; nobody
  is dropped, since mspafl counts all 32,561 training records;
* a category becomes its place in the alphabetical order of its levels ("?" sorts first), or, with
  `features="one_hot"`, one column per level;
* columns are scaled with constants of the training part; test records may lie slightly outside.

There is no constant column: (25) of mspafl has no intercept.

`load_adult_stand_in` generates records in the same shape, without any download. Columns, levels, counts
and the share of either class are those of the real table; the values are invented. A linear score of a
record's scaled columns plus logistic noise decides its class, so that a linear classifier without noise
learns about as much as on the real table.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.dataset import digest
from repro.datasets.registry import DataError, entry, fetch

COUNTS = {"train": (32_561, 7_841), "test": (16_281, 3_846)}
"""Records, and how many of them are of class 1 (">50K"), in either part."""

FEATURES = ("scaled", "standardised", "one_hot")

LEVELS: dict[str, tuple[str, ...]] = {
    "age": (),
    "workclass": (
        "?", "Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc",
        "Self-emp-not-inc", "State-gov", "Without-pay",
    ),
    "fnlwgt": (),
    "education": (
        "10th", "11th", "12th", "1st-4th", "5th-6th", "7th-8th", "9th", "Assoc-acdm", "Assoc-voc",
        "Bachelors", "Doctorate", "HS-grad", "Masters", "Preschool", "Prof-school", "Some-college",
    ),
    "education-num": (),
    "marital-status": (
        "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent",
        "Never-married", "Separated", "Widowed",
    ),
    "occupation": (
        "?", "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing",
        "Handlers-cleaners", "Machine-op-inspct", "Other-service", "Priv-house-serv",
        "Prof-specialty", "Protective-serv", "Sales", "Tech-support", "Transport-moving",
    ),
    "relationship": (
        "Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife",
    ),
    "race": ("Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"),
    "sex": ("Female", "Male"),
    "capital-gain": (),
    "capital-loss": (),
    "hours-per-week": (),
    "native-country": (
        "?", "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador",
        "El-Salvador", "England", "France", "Germany", "Greece", "Guatemala", "Haiti",
        "Holand-Netherlands", "Honduras", "Hong", "Hungary", "India", "Iran", "Ireland", "Italy",
        "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua", "Outlying-US(Guam-USVI-etc)", "Peru",
        "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South", "Taiwan",
        "Thailand", "Trinadad&Tobago", "United-States", "Vietnam", "Yugoslavia",
    ),
}  # fmt: skip
"""The 14 columns in the file's order, each with its levels; none for a column of numbers."""

_LABELS = {"<=50K": 0, ">50K": 1, "<=50K.": 0, ">50K.": 1}
"""The training part writes them plainly, the test part with a full stop."""


@dataclass(frozen=True, eq=False)
class Table:
    """Records as vectors, with a class each, and where they come from.

    Attributes:
        features: float64, shape (n, m).
        labels: class of each record, int64, shape (n,): 0 ("<=50K") or 1 (">50K").
        columns: what each feature is, m names.
        source: where these bytes come from, one phrase.
        sha256: checksum of the file read, or of the arrays where there is no file.
        stand_in: empty for the real data; else the phrase a picture's footer must carry.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    columns: tuple[str, ...]
    source: str
    sha256: str
    stand_in: str = ""

    def __len__(self) -> int:
        return len(self.labels)


@lru_cache(maxsize=6)
def load_adult(part: str = "train", features: str = "scaled") -> Table:
    """The official training part (32,561 records) or test part (16,281).

    Args:
        part: "train" or "test".
        features: "scaled": the 14 columns, each scaled to [0, 1], so that a record's norm is at
            most sqrt(14). "standardised": the 14 columns with mean 0 and deviation 1. "one_hot":
            one column per level, numbers scaled to [0, 1], 108 columns and again norm <= sqrt(14).

    Raises:
        ValueError: an unknown part or kind of features.
        DataError: a file is missing, truncated, altered or not what it should be.

    Callers must not change the arrays (they are read-only).
    """
    choice("part", part, tuple(COUNTS))
    choice("features", features, FEATURES)
    wanted = entry(f"adult_{part}")
    values, labels = _read(part)
    encoded, columns = encode(values, _read("train")[0], features)
    return Table(encoded, labels, columns, f"{wanted.title}, {wanted.homepage}", wanted.sha256)


def encode(
    values: NDArray[np.float64], training: NDArray[np.float64], features: str
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Vectors from numbers and codes of levels, shape (n, 14), and the names of their columns.

    The constants of the scaling are those of the `training` part, (n', 14). `features` as in
    `load_adult`.
    """
    names = tuple(LEVELS)
    low, high = training.min(axis=0), training.max(axis=0)
    if features == "standardised":
        encoded = (values - training.mean(axis=0)) / training.std(axis=0)
    elif features == "scaled":
        encoded = (values - low) / (high - low)
    else:
        parts, titles = [], []
        for k, (name, levels) in enumerate(LEVELS.items()):
            if levels:
                parts.append(values[:, k, None] == np.arange(len(levels)))
                titles += [f"{name}={level}" for level in levels]
            else:
                parts.append((values[:, k, None] - low[k]) / (high[k] - low[k]))
                titles.append(name)
        encoded, names = np.hstack(parts).astype(float), tuple(titles)
    encoded.flags.writeable = False
    return encoded, names


@lru_cache(maxsize=2)
def _read(part: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers and codes of levels, shape (n, 14), and labels of one part."""
    path = fetch(f"adult_{part}")
    try:
        with open(path, encoding="ascii", newline="") as stream:
            rows = [row for row in csv.reader(stream, skipinitialspace=True) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise DataError(f"{path} cannot be read ({problem}); get the file again") from problem
    if part == "test":
        rows = rows[1:]  # its first line is a remark of the tool that made the split
    values, labels = _parse(path, rows)
    found = len(labels), int(labels.sum())
    if found != COUNTS[part]:
        raise DataError(
            f"{path}: expected {COUNTS[part][0]:,} records, {COUNTS[part][1]:,} of them >50K; "
            f"found {found[0]:,} and {found[1]:,}; get the file again"
        )
    labels.flags.writeable = False
    return values, labels


def _parse(path: Path, rows: list[list[str]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    try:
        *columns, last = zip(*rows, strict=True)
        values = np.empty((len(rows), len(LEVELS)))
        for k, (column, levels) in enumerate(zip(columns, LEVELS.values(), strict=True)):
            codes = {level: float(code) for code, level in enumerate(levels)}
            values[:, k] = [codes[cell] for cell in column] if levels else column
        return values, np.array([_LABELS[cell] for cell in last], dtype=np.int64)
    except (ValueError, KeyError) as problem:
        raise DataError(
            f"{path}: expected rows of 14 columns and a label as the data set documents them "
            f"({type(problem).__name__}: {problem}); get the file again"
        ) from problem


# Generated records --------------------------------------------------------------------------------

STAND_IN = "generated records in the shape of Adult (14 columns, same counts) in place of Adult"

_STAND_IN_SEEDS = {"train": 14, "test": 15}
_STAND_IN_SCORE = {
    "age": 2.5, "education-num": 5.0, "marital-status": -1.4, "relationship": -0.6, "sex": 0.9,
    "capital-gain": 30.0, "capital-loss": 3.0, "hours-per-week": 3.0,
}  # fmt: skip
"""Weights of the scaled columns in the score, of the size that a fit to Adult has."""


@lru_cache(maxsize=6)
def load_adult_stand_in(part: str = "train", features: str = "scaled") -> Table:
    """32,561 generated records for training or 16,281 others for testing; as `load_adult`.

    Raises:
        ValueError: an unknown part or kind of features.

    Callers must not change the arrays (they are read-only).
    """
    choice("part", part, tuple(COUNTS))
    choice("features", features, FEATURES)
    values, labels = _generate(part)
    encoded, columns = encode(values, _generate("train")[0], features)
    return Table(
        encoded, labels, columns, "generated (Adult's shape)", digest(values, labels), STAND_IN
    )


@lru_cache(maxsize=2)
def _generate(part: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Numbers and codes of levels, shape (n, 14), and labels of one part."""
    rng = np.random.default_rng(_STAND_IN_SEEDS[part])
    count, positives = COUNTS[part]
    columns = {
        name: _levels(rng, count, len(levels)) if levels else _NUMBERS[name](rng, count)
        for name, levels in LEVELS.items()
    }
    score = rng.logistic(scale=0.5, size=count)
    for name, weight in _STAND_IN_SCORE.items():
        top = len(LEVELS[name]) - 1 if LEVELS[name] else _TOP[name]
        score += weight * columns[name] / top
    labels = np.zeros(count, dtype=np.int64)
    labels[np.argsort(score)[-positives:]] = 1
    labels.flags.writeable = False
    return np.stack(list(columns.values()), axis=1), labels


def _levels(rng: np.random.Generator, count: int, levels: int) -> NDArray[np.float64]:
    """Codes of a category: a few common levels and many rare ones, as in a census."""
    shares = 1.0 / np.arange(1, levels + 1) ** 2
    order = np.random.default_rng(levels).permutation(levels)  # which are common: same in each part
    return order[rng.choice(levels, count, p=shares / shares.sum())].astype(float)


def _mostly_zero(
    rng: np.random.Generator, count: int, share: float, top: float
) -> NDArray[np.float64]:
    return np.where(rng.random(count) < share, np.round(top * rng.beta(1.0, 12.0, count)), 0.0)


_TOP = {"age": 90.0, "education-num": 16.0, "capital-gain": 99_999.0, "capital-loss": 4_356.0,
        "hours-per-week": 99.0}  # fmt: skip
_NUMBERS = {
    "age": lambda rng, n: np.round(17 + 73 * rng.beta(1.6, 3.4, n)),
    "fnlwgt": lambda rng, n: np.round(np.clip(190_000 * rng.lognormal(-0.14, 0.55, n), 1e4, 1.5e6)),
    "education-num": lambda rng, n: np.clip(np.round(rng.normal(10.1, 2.6, n)), 1, 16),
    "capital-gain": lambda rng, n: _mostly_zero(rng, n, 0.08, _TOP["capital-gain"]),
    "capital-loss": lambda rng, n: _mostly_zero(rng, n, 0.05, _TOP["capital-loss"]),
    "hours-per-week": lambda rng, n: np.clip(np.round(rng.normal(40.4, 12.3, n)), 1, 99),
}
