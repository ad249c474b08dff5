"""CIFAR-10 and CIFAR-100: 60,000 colour photographs of 32x32 pixels each, in 10 or 100 balanced classes.

Either is read from the official archive, or from a balanced subset that a mirror keeps.
"""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping
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

_CIFAR10_MEMBERS = {
    "train": tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    "test": ("test_batch.bin",),
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
    return _load(
        "cifar10", part, version,
        members=_CIFAR10_MEMBERS, counts=COUNTS, label_bytes=1, classes=CIFAR10_CLASSES, named=True,
    )  # fmt: skip


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
    return _load(
        "cifar100", part, version,
        members={"train": ("train.bin",), "test": ("test.bin",)}, counts=COUNTS,
        label_bytes=2,  # coarse, fine
        classes=CIFAR100_CLASSES, named=False,
    )  # fmt: skip


def _load(
    name: str,
    part: str,
    version: str,
    *,
    members: Mapping[str, tuple[str, ...]],
    counts: Mapping[str, int],
    label_bytes: int,
    classes: tuple[str, ...],
    named: bool,
) -> Dataset:
    """One part of a CIFAR data set, read-only.

    Args:
        name: "cifar10" or "cifar100", as the registry knows the archive.
        part, version: as for the loaders.
        members: of the official archive, by part.
        counts: images of the official archive, by part.
        label_bytes: in front of the pixels of each row of a member; the last one is the label.
        classes: what each label means.
        named: whether the subset's file holds the names of its classes, which have to be these.

    Raises:
        ValueError: an unknown part or version.
        DataError: a file is missing, truncated, altered or not what it should be.
    """
    if wants_subset(name, part, version):
        wanted = entry(f"{name}_{part}")
        path = fetch(wanted.name)
        content = arrays(wanted.name, ("images", "labels", *(["classes"] if named else [])))
        if named and tuple(str(c) for c in content["classes"]) != classes:
            raise DataError(f"{path}: its classes are not {', '.join(classes)}; get the file again")
        images, labels = content["images"], content["labels"].astype(np.int64)
        return _checked(name, wanted, path, images, labels, len(images), classes)
    wanted, path = entry(name), fetch(name)
    table = _rows(path, members[part], label_bytes + _PIXELS)
    images = np.ascontiguousarray(
        table[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    )
    labels = table[:, label_bytes - 1].astype(np.int64)
    return _checked(name, wanted, path, images, labels, counts[part], classes)


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
    classes: tuple[str, ...],
) -> Dataset:
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
