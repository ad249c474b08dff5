"""CIFAR-10: 60,000 colour photographs of 32x32 pixels in 10 balanced classes."""

from __future__ import annotations

from functools import lru_cache

from repro.datasets.cifar import load_cifar
from repro.datasets.dataset import Dataset

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
COUNTS = {"train": 50_000, "test": 10_000}
_MEMBERS = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
}


@lru_cache(maxsize=2)
def load_cifar10(part: str = "train", version: str = "auto") -> Dataset:
    """CIFAR-10, images of shape (n, 32, 32, 3), labels in the official order (see `CLASSES`).

    Args:
        part: "train" or "test".
        version: "official", the archive of its authors (170 MB, downloaded if need be); "subset",
            18,000 + 4,000 images, balanced, that only a mirror can have; "auto", whichever is
            already on this machine, the official one first, and the download if neither is.

    Raises:
        ValueError: an unknown part or version.
        DataError: a file is missing, truncated, altered or not what it should be.

    Callers must not change the arrays (they are read-only).

    Source: Krizhevsky, "Learning multiple layers of features from tiny images", 2009.
    """
    return load_cifar(
        "cifar10", part, version,
        members=_MEMBERS, counts=COUNTS, label_bytes=1, classes=CLASSES, named=True,
    )  # fmt: skip
