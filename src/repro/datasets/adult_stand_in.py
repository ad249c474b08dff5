"""Generated records in Adult's shape: what the quick profile trains on, no download.

Same columns, levels, counts and share of either class as the real table; the values are invented.
A record's class is decided by a linear score of its scaled columns plus logistic noise, so that a
linear classifier without noise has something to learn, about as much as on the real table.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.adult import COUNTS, FEATURES, LEVELS, Table, encode
from repro.datasets.dataset import digest

STAND_IN = "generated records in the shape of Adult (14 columns, same counts) in place of Adult"

_SEEDS = {"train": 14, "test": 15}
_SCORE = {
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
    rng = np.random.default_rng(_SEEDS[part])
    count, positives = COUNTS[part]
    columns = {
        name: _levels(rng, count, len(levels)) if levels else _NUMBERS[name](rng, count)
        for name, levels in LEVELS.items()
    }
    score = rng.logistic(scale=0.5, size=count)
    for name, weight in _SCORE.items():
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
