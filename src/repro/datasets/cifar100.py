"""CIFAR-100: 60,000 colour photographs of 32x32 pixels in 100 balanced classes (fine labels)."""

from __future__ import annotations

import tarfile
import zlib
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.dataset import Dataset
from repro.datasets.npz import arrays, expect
from repro.datasets.registry import DataError, Entry, entry, fetch, find

CLASSES = 100
COUNTS = {"train": 50_000, "test": 10_000}
_ROW = 2 + 3 * 32 * 32  # coarse label, fine label, pixels


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
    choice("part", part, ("train", "test"))
    choice("version", version, ("auto", "official", "subset"))
    subset = f"cifar100_{part}"
    if version == "subset" or (
        version == "auto" and find("cifar100") is None and find(subset) is not None
    ):
        content = arrays(subset, ("images", "labels"))
        return _dataset(entry(subset), content["images"], content["labels"], None)
    table = _member(entry("cifar100"), f"{part}.bin")
    images = np.ascontiguousarray(table[:, 2:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return _dataset(entry("cifar100"), images, table[:, 1], COUNTS[part])


def _member(wanted: Entry, name: str) -> NDArray[np.uint8]:
    """The rows of one member of the official archive, shape (n, 3074)."""
    path = fetch(wanted.name)
    try:
        with tarfile.open(path, "r:gz") as archive:
            found = [m for m in archive.getmembers() if m.name.rsplit("/", 1)[-1] == name]
            stream = archive.extractfile(found[0]) if found else None
            content = b"" if stream is None else stream.read()
    except (OSError, tarfile.TarError, zlib.error, EOFError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); delete it and run again") from problem
    if not content or len(content) % _ROW:
        raise DataError(
            f"{name} in {path}: {len(content):,} bytes are no multiple of {_ROW:,}; get it again"
        )
    return np.frombuffer(content, np.uint8).reshape(-1, _ROW)


def _dataset(wanted: Entry, images: NDArray, labels: NDArray, count: int | None) -> Dataset:
    labels = labels.astype(np.int64)
    shape = (len(labels), 32, 32, 3)
    each = np.bincount(labels, minlength=CLASSES)
    expect(
        wanted.name,
        images.shape == shape and images.dtype == np.uint8 and count in (None, len(labels)),
        f"{count or len(labels):,} colour images of 32x32 bytes",
    )
    expect(
        wanted.name,
        len(each) == CLASSES and each.min() == each.max(),
        "labels balanced over the classes 0 to 99",
    )
    images.flags.writeable = labels.flags.writeable = False
    return Dataset(
        name="cifar100",
        images=images,
        labels=labels,
        classes=tuple(str(label) for label in range(CLASSES)),
        brightest=255,
        source=f"{wanted.title}, {wanted.homepage}",
        sha256=wanted.sha256,
        subset=wanted.subset,
    )
