"""CIFAR-10 and CIFAR-100: 60,000 colour photographs of 32x32 pixels each, in 10 or 100 balanced classes.

Either is read from the official archive, or from a balanced subset that a mirror keeps.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.datasets.dataset import Dataset
from repro.datasets.registry import DataError, Entry, arrays, entry, fetch, wants_subset

SHAPE = (32, 32, 3)
_PIXELS = 3 * 32 * 32
COUNTS = {"train": 50_000, "test": 10_000}
"""Images of either official archive, by part."""

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
CIFAR100_CLASSES = tuple(str(label) for label in range(100))


@dataclass(frozen=True)
class _Archive:
    """How an official archive is laid out.

    Attributes:
        members: its files, by part.
        label_bytes: in front of the pixels of each row of a member; the last one is the label.
        classes: what each label means.
        named: whether the subset's file holds the names of its classes, which have to be these.
    """

    members: Mapping[str, tuple[str, ...]]
    label_bytes: int
    classes: tuple[str, ...]
    named: bool


_ARCHIVES = {
    "cifar10": _Archive(
        {"train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)), "test": ("test_batch.bin",)},
        1,
        CIFAR10_CLASSES,
        named=True,
    ),
    "cifar100": _Archive(  # the coarse label comes before the fine one
        {"train": ("train.bin",), "test": ("test.bin",)}, 2, CIFAR100_CLASSES, named=False
    ),
}


@lru_cache(maxsize=2)
def load_cifar10(part: str = "train", version: str = "auto") -> Dataset:
    """CIFAR-10, images of shape (n, 32, 32, 3), labels in the official order (see `CIFAR10_CLASSES`).

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
    return _load("cifar10", part, version)


@lru_cache(maxsize=4)
def load_cifar100(part: str = "train", version: str = "auto") -> Dataset:
    """CIFAR-100, images of shape (n, 32, 32, 3), fine labels in the official (alphabetical) order.

    Arguments, errors and source as for `load_cifar10`; the subset has 10,000 + 2,000 images.
    """
    return _load("cifar100", part, version)


def _load(name: str, part: str, version: str) -> Dataset:
    """One part of a CIFAR data set; arguments and errors as for the loaders."""
    archive = _ARCHIVES[name]
    if wants_subset(name, part, version):
        wanted = entry(f"{name}_{part}")
        path = fetch(wanted.name)
        content = arrays(wanted.name, ("images", "labels", *(["classes"] if archive.named else [])))
        if archive.named and tuple(str(c) for c in content["classes"]) != archive.classes:
            raise DataError(
                f"{path}: its classes are not {', '.join(archive.classes)}; get the file again"
            )
        images, labels = content["images"], content["labels"].astype(np.int64)
        return _checked(name, wanted, path, images, labels, len(images))
    wanted, path = entry(name), fetch(name)
    table = _rows(path, archive.members[part], archive.label_bytes + _PIXELS)
    images = np.ascontiguousarray(
        table[:, archive.label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    )
    labels = table[:, archive.label_bytes - 1].astype(np.int64)
    return _checked(name, wanted, path, images, labels, COUNTS[part])


def _rows(path: Path, members: tuple[str, ...], length: int) -> NDArray[np.uint8]:
    """The rows of some members of a binary archive: labels, then pixels, colour after colour."""
    rows = []
    try:
        with tarfile.open(path, "r:gz") as archive:
            found = {member.name.rsplit("/", 1)[-1]: member for member in archive.getmembers()}
            for name in members:
                if name not in found:
                    raise DataError(f"{path} has no member {name}; delete it and run again")
                stream = archive.extractfile(found[name])
                content = stream.read() if stream is not None else b""
                if not content or len(content) % length:
                    raise DataError(
                        f"{name} in {path}: {len(content):,} bytes are no multiple of {length:,}; "
                        "get the file again"
                    )
                rows.append(np.frombuffer(content, np.uint8).reshape(-1, length))
    except (OSError, tarfile.TarError, zlib.error, EOFError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); delete it and run again") from problem
    return np.concatenate(rows)


def _checked(
    name: str,
    wanted: Entry,
    path: Path,
    images: NDArray,
    labels: NDArray[np.int64],
    count: int,
) -> Dataset:
    classes = _ARCHIVES[name].classes
    if images.shape != (count, *SHAPE) or images.dtype != np.uint8 or labels.shape != (count,):
        raise DataError(
            f"{path}: expected {count:,} colour images of 32x32 bytes with as many labels, "
            f"found {images.shape} {images.dtype} and {labels.shape}; get the file again"
        )
    each = np.bincount(labels, minlength=len(classes))
    if len(each) != len(classes) or each.min() != each.max():
        raise DataError(
            f"{path}: its labels are not balanced over the classes 0 to {len(classes) - 1} "
            f"({each.min()} to {each.max()} of each, {len(each)} classes); get the file again"
        )
    images.flags.writeable = labels.flags.writeable = False
    return Dataset(
        name=name,
        images=images,
        labels=labels,
        classes=classes,
        brightest=255,
        source=f"{wanted.title}, {wanted.homepage}",
        sha256=wanted.sha256,
        subset=wanted.subset,
    )
