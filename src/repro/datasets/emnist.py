"""EMNIST ByClass: 814,255 handwritten characters of 28x28 pixels in 62 unbalanced classes."""

from __future__ import annotations

import gzip
import string
import struct
import zipfile
import zlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro._validate import choice
from repro.datasets.dataset import Dataset
from repro.datasets.registry import DataError, Entry, arrays, entry, fetch, wants_subset

CLASSES = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
COUNTS = {"train": 697_932, "test": 116_323}
PIXEL_MEAN, PIXEL_DEVIATION = 0.1736, 0.3317
"""Mean and standard deviation of the pixels in units of full ink; public constants of the data set.
"""


@lru_cache(maxsize=2)
def load_emnist_byclass(part: str = "train", version: str = "auto") -> Dataset:
    """EMNIST ByClass with upright images; labels 0-9 digits, 10-35 capitals, 36-61 small letters.

    Args:
        part: "train" or "test".
        version: "official", the archive of NIST (562 MB, downloaded if need be); "subset", 70,000 +
            12,000 images that only a mirror can have; "embedded", 18,000 + 3,000 images of this
            subset that come with the project; "auto", the official one or the subset, whichever is
            already on this machine, the official one first, and the download if neither is.

    Raises:
        ValueError: an unknown part or version.
        DataError: a file is missing, truncated, altered or not what it should be.

    Callers must not change the arrays (they are read-only).
    """
    if version == "embedded":
        return _subset(entry(f"emnist_embedded_{choice('part', part, tuple(COUNTS))}"))
    if wants_subset("emnist_byclass", part, version, ("embedded",)):
        return _subset(entry(f"emnist_byclass_{part}"))
    return _official(fetch("emnist_byclass"), entry("emnist_byclass"), part)


def characters(data: Dataset, kind: str) -> Dataset:
    """The digits (10 classes) or the letters (52) of an EMNIST data set, their labels from 0.

    Args:
        data: as `load_emnist_byclass` returns it.
        kind: "digits" or "letters".

    Raises:
        ValueError: an unknown kind.

    Callers must not change the arrays (they are read-only).
    """
    digits = choice("kind", kind, ("digits", "letters")) == "digits"
    first, last = (0, 10) if digits else (10, len(CLASSES))
    kept = (data.labels >= first) & (data.labels < last)
    images, labels = data.images[kept], data.labels[kept] - first
    images.flags.writeable = labels.flags.writeable = False
    return replace(data, images=images, labels=labels, classes=CLASSES[first:last])


def _subset(wanted: Entry) -> Dataset:
    """One npz file with `images`, `labels` and `classes`, upright already."""
    path = fetch(wanted.name)
    content = arrays(wanted.name, ("images", "labels", "classes"))
    images, labels = content["images"], content["labels"].astype(np.int64)
    classes = tuple(str(c) for c in content["classes"])
    _check(path, images, labels, len(images))
    if classes != CLASSES:
        raise DataError(
            f"{path}: its classes are not 0-9, A-Z, a-z in this order; get the file again"
        )
    return _dataset(wanted, images, labels)


def _official(path: Path, wanted: Entry, part: str) -> Dataset:
    """The members of the official archive; its images are stored transposed."""
    try:
        with zipfile.ZipFile(path) as archive:
            images = _member(archive, path, f"emnist-byclass-{part}-images-idx3-ubyte.gz")
            labels = _member(archive, path, f"emnist-byclass-{part}-labels-idx1-ubyte.gz").astype(
                np.int64
            )
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError) as problem:
        raise DataError(f"{path} cannot be read ({problem}); delete it and run again") from problem
    _check(path, images, labels, COUNTS[part])
    return _dataset(wanted, np.ascontiguousarray(images.transpose(0, 2, 1)), labels)


def _member(archive: zipfile.ZipFile, path: Path, name: str) -> NDArray[np.uint8]:
    """One gzipped idx file, in whatever folder of the archive it lies."""
    found = [member for member in archive.namelist() if member.rsplit("/", 1)[-1] == name]
    if not found:
        raise DataError(f"{path} has no member {name}; delete it and run again")
    return parse_idx(gzip.decompress(archive.read(found[0])), f"{name} in {path}")


def parse_idx(content: bytes, where: str) -> NDArray[np.uint8]:
    """Read an idx file of unsigned bytes.

    LeCun's format: magic number, sizes, data; big-endian.

    Raises:
        DataError: not such a file, or its length does not fit its header; the message begins with
            `where`.
    """
    if len(content) < 4 or content[:3] != b"\x00\x00\x08" or len(content) < 4 + 4 * content[3]:
        raise DataError(
            f"{where}: not an idx file of unsigned bytes "
            f"(it begins with {content[:4].hex() or 'nothing'})"
        )
    start = 4 + 4 * content[3]
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    expected = start + int(np.prod(shape, dtype=np.int64))
    if len(content) != expected:
        raise DataError(
            f"{where}: {len(content):,} bytes, but its header announces {expected:,}; "
            "get the file again"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _check(path: Path, images: NDArray, labels: NDArray, count: int) -> None:
    if images.shape != (count, 28, 28) or images.dtype != np.uint8 or labels.shape != (count,):
        raise DataError(
            f"{path}: expected {count:,} images of 28x28 bytes with as many labels, "
            f"found {images.shape} {images.dtype} and {labels.shape}; get the file again"
        )
    if set(np.unique(labels)) != set(range(len(CLASSES))):
        raise DataError(
            f"{path}: its labels do not cover exactly the {len(CLASSES)} classes 0 to 61; "
            "get the file again"
        )


def _dataset(wanted: Entry, images: NDArray, labels: NDArray) -> Dataset:
    images.flags.writeable = labels.flags.writeable = False
    return Dataset(
        name="emnist_byclass",
        images=images,
        labels=labels,
        classes=CLASSES,
        brightest=255,
        source=f"{wanted.title}, {wanted.homepage}",
        sha256=wanted.sha256,
        subset=wanted.subset,
    )
