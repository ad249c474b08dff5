"""CIFAR-100: 60,000 colour photographs of 32x32 pixels in 100 balanced classes (fine labels)."""

from __future__ import annotations

from functools import lru_cache

from repro.datasets.cifar import load_cifar
from repro.datasets.dataset import Dataset

CLASSES = tuple(str(label) for label in range(100))
COUNTS = {"train": 50_000, "test": 10_000}


@lru_cache(maxsize=4)
def load_cifar100(part: str = "train", version: str = "auto") -> Dataset:
    """CIFAR-100, images of shape (n, 32, 32, 3), fine labels in the official (alphabetical) order.

    Args:
        part: "train" or "test".
        version: "official", the archive of its authors (169 MB, downloaded if need be); "subset",
            10,000 + 2,000 images, balanced, that only a mirror can have; "auto", whichever is
            already on this machine, the official one first, and the download if neither is.

    Raises:
        ValueError: an unknown part or version.
        DataError: a file is missing, truncated, altered or not what it should be.

    Callers must not change the arrays (they are read-only).

    Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    return load_cifar(
        "cifar100", part, version,
        members={"train": ("train.bin",), "test": ("test.bin",)}, counts=COUNTS,
        label_bytes=2,  # coarse, fine
        classes=CLASSES, named=False,
    )  # fmt: skip
