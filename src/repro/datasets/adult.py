"""UCI Adult (Census Income): 48,842 records of 14 columns, and whether the income is above 50,000.

Preprocessing, decided here once:

* a missing value ("?", in workclass, occupation and native-country) is a level of its own; nobody
  is dropped, since mspafl counts all 32,561 training records;
* a category becomes its place in the alphabetical order of its levels ("?" sorts first), or, with
  `features="one_hot"`, one column per level;
* columns are scaled with constants of the training part; test records may lie slightly outside.

There is no constant column: (25) of mspafl has no intercept.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.registry import DataError, content, entry

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
        sha256: checksum of the file read.
    """

    features: NDArray[np.float64]
    labels: NDArray[np.int64]
    columns: tuple[str, ...]
    source: str
    sha256: str

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
    path = entry(f"adult_{part}").file
    try:
        lines = io.StringIO(content(f"adult_{part}").decode("ascii"), newline="")
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if row]
    except (UnicodeDecodeError, csv.Error) as problem:
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


def _parse(path: str, rows: list[list[str]]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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
