"""The synthetic regression task of ddpsa: two uniform features, and a target that is linear in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro._validate import integer

SHARES = (0.6, 0.2, 0.2)
"""Parts of the records for training, validation and test (ddpsa, section VI-A)."""


@dataclass(frozen=True)
class Plane:
    """Records of one part, for every run.

    Attributes:
        inputs: x1, x2 and the constant 1 that the bias multiplies, shape (runs, records, 3).
        targets: y = x1 + x2 + 1, shape (runs, records).
    """

    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]


def plane(seeds: Sequence[int], records: int = 10_000) -> tuple[Plane, Plane, Plane]:
    """Training, validation and test part, of fresh records for each seed.

    The features are independent and uniform on [0, 1): the paper says "uniform", and only this range
    has the variance of the targets (1/6) that its pairs of loss and R2 imply.

    Args:
        seeds: one run each, >= 0.
        records: of all three parts together, a multiple of 5, >= 5.

    Raises:
        ValueError: no seeds, or an argument out of range.

    Source: ddpsa, section VI-A.
    """
    if not len(seeds):
        raise ValueError(f"seeds must hold at least one seed, got {seeds!r}")
    if integer("records", records, 5) % 5:
        raise ValueError(f"records must be a multiple of 5, got {records!r}")
    keys = [np.random.SeedSequence(integer("seed", seed, 0), spawn_key=(0,)) for seed in seeds]
    drawn = np.stack([np.random.default_rng(key).random((records, 2)) for key in keys])
    inputs = np.concatenate([drawn, np.ones((*drawn.shape[:2], 1))], axis=2)
    targets = drawn.sum(axis=2) + 1.0
    ends = [round(end * records) for end in np.cumsum(SHARES[:2])]
    training, validation, test = (
        Plane(*cut)
        for cut in zip(np.split(inputs, ends, axis=1), np.split(targets, ends, axis=1), strict=True)
    )
    return training, validation, test
