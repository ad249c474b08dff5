"""CIFAR-10: 60,000 colour photographs of 32x32 pixels in 10 balanced classes."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.dataset import Dataset
from repro.datasets.registry import DataError, Entry, entry, fetch, find

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
COUNTS = {"train": 50_000, "test": 10_000}
_MEMBERS = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
}
_ROW = 1 + 3 * 32 * 32


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
    choice("part", part, ("train", "test"))
    choice("version", version, ("auto", "official", "subset"))
    subset_name = f"cifar10_{part}"
    if version == "subset" or (
        version == "auto" and find("cifar10") is None and find(subset_name) is not None
    ):
        return _subset(fetch(subset_name), entry(subset_name))
    return _official(fetch("cifar10"), entry("cifar10"), part)


def _subset(path: Path, wanted: Entry) -> Dataset:
    """One npz file with `images`, `labels` and `classes`."""
    try:
        with np.load(path, allow_pickle=False) as content:
            images, labels = content["images"], content["labels"].astype(np.int64)
            classes = tuple(str(c) for c in content["classes"])
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as problem:
        raise DataError(
            f"{path} cannot be read ({problem}); expected arrays images, labels, classes"
        ) from problem
    if classes != CLASSES:
        raise DataError(f"{path}: its classes are not {', '.join(CLASSES)}; get the file again")
    return _dataset(path, wanted, images, labels, len(images))


def _official(path: Path, wanted: Entry, part: str) -> Dataset:
    """The binary archive: rows of one label and 3072 pixels, colour after colour."""
    rows = []
    try:
        with tarfile.open(path, "r:gz") as archive:
            members = {member.name.rsplit("/", 1)[-1]: member for member in archive.getmembers()}
            for name in _MEMBERS[part]:
                if name not in members:
                    raise DataError(f"{path} has no member {name}; delete it and run again")
                stream = archive.extractfile(members[name])
                content = stream.read() if stream is not None else b""
                if not content or len(content) % _ROW:
                    raise DataError(
                        f"{name} in {path}: {len(content):,} bytes are no multiple of {_ROW:,}; "
                        "get the file again"
                    )
                rows.append(np.frombuffer(content, np.uint8).reshape(-1, _ROW))
    except (OSError, tarfile.TarError, zlib.error, EOFError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); delete it and run again") from problem
    table = np.concatenate(rows)
    images = np.ascontiguousarray(table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return _dataset(path, wanted, images, table[:, 0].astype(np.int64), COUNTS[part])


def _dataset(
    path: Path, wanted: Entry, images: NDArray, labels: NDArray[np.int64], count: int
) -> Dataset:
    if images.shape != (count, 32, 32, 3) or images.dtype != np.uint8 or labels.shape != (count,):
        raise DataError(
            f"{path}: expected {count:,} colour images of 32x32 bytes with as many labels, "
            f"found {images.shape} {images.dtype} and {labels.shape}; get the file again"
        )
    each = np.bincount(labels, minlength=len(CLASSES))
    if len(each) != len(CLASSES) or each.min() != each.max():
        raise DataError(
            f"{path}: its labels are not balanced over the classes 0 to 9 ({each.tolist()}); "
            "get the file again"
        )
    images.flags.writeable = labels.flags.writeable = False
    return Dataset(
        name="cifar10",
        images=images,
        labels=labels,
        classes=CLASSES,
        brightest=255,
        source=f"{wanted.title}, {wanted.homepage}",
        sha256=wanted.sha256,
        subset=wanted.subset,
    )
