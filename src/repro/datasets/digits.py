"""scikit-learn's handwritten digits: embedded data, no download."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from repro._validate import choice
from repro.datasets.dataset import Dataset, digest

TRAIN = 1440
_SPLIT_SEED = 0


@lru_cache(maxsize=2)
def load_digits(part: str = "train") -> Dataset:
    """Return 1,440 digits of 8x8 pixels (0 to 16) for training or the other 357 for testing.

    The split is one fixed random permutation. Callers must not change the arrays (they are
    read-only).

    Raises:
        ValueError: `part` is neither "train" nor "test".

    Source: Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits" (its test part), UCI
    Machine Learning Repository, CC BY 4.0, as shipped with scikit-learn.
    """
    from sklearn import datasets

    choice("part", part, ("train", "test"))
    bunch = datasets.load_digits()
    order = np.random.default_rng(_SPLIT_SEED).permutation(len(bunch.target))
    chosen = order[:TRAIN] if part == "train" else order[TRAIN:]
    images = bunch.images[chosen].astype(np.uint8)
    labels = bunch.target[chosen].astype(np.int64)
    images.flags.writeable = labels.flags.writeable = False
    return Dataset(
        name="digits",
        images=images,
        labels=labels,
        classes=tuple(str(name) for name in bunch.target_names),
        brightest=16,
        source="scikit-learn's digits (embedded)",
        sha256=digest(images, labels),
    )
