"""Cut the subsets of the registry from the complete data sets: what `make data` does where it can fetch those only.

A recipe, `data/recipes/<name>.npz`, says which records of the complete set a subset holds, and in which order: their
places (EMNIST), or a digest of each labelled image with the name of its file (CIFAR, whose binary archive names no
files). The cut file is kept only when its sha256 is the one in the registry, so that nothing else can take its place.

    python -m reproduce.subsets <folder with the subsets>     writes the recipes anew
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.atomic import replacing
from repro.datasets.cifar import load_cifar10, load_cifar100
from repro.datasets.dataset import Dataset
from repro.datasets.emnist import load_emnist_byclass
from repro.datasets.registry import MIRROR, DataError, arrays, entry, verify
from reproduce import paths

LOADERS = {
    "emnist_byclass": load_emnist_byclass,
    "cifar10": load_cifar10,
    "cifar100": load_cifar100,
}
"""The loader of each complete data set that has subsets."""

NAMES = tuple(f"{whole}_{part}" for whole in LOADERS for part in ("train", "test"))
"""The subsets that can be cut."""

_DIGEST = 8
"""Bytes of a digest: two of 60,000 images share one with a chance of 1e-10, and the sha256 would tell."""


def recipe_path(name: str) -> Path:
    """The committed recipe of a subset."""
    return paths.DATA / "recipes" / f"{name}.npz"


def cut(name: str) -> Path:
    """Fetch the complete data set of a subset, cut the subset, and put it into the cache.

    Args:
        name: one of `NAMES`.

    Returns:
        The verified file.

    Raises:
        DataError: there is no recipe, the complete set cannot be had or lacks a record, or what was cut is not the
            file of the registry.
    """
    wanted = entry(name)
    if name not in NAMES or not recipe_path(name).is_file():
        raise DataError(f"{wanted.file}: nothing says how to cut it from a complete data set")
    whole, part = name.rsplit("_", 1)
    with np.load(recipe_path(name), allow_pickle=False) as stored:
        recipe = {key: stored[key] for key in stored.files}
    if whole == "emnist_byclass":  # both parts come from the official test part
        content = _emnist(LOADERS[whole]("test", "official"), recipe)
    else:
        content = _cifar(LOADERS[whole](part, "official"), recipe)
    try:
        with replacing(paths.CACHE / wanted.file) as scratch:
            scratch.write_bytes(_archive(content))
            verify(scratch, wanted, "it was cut from another complete data set; use a mirror")
    except OSError as problem:
        raise DataError(str(problem)) from problem
    return paths.CACHE / wanted.file


def _emnist(data: Dataset, recipe: dict[str, NDArray]) -> dict[str, NDArray]:
    """The records at the places that the bits of the recipe name."""
    places = np.flatnonzero(np.unpackbits(recipe["places"]))
    if len(places) and places[-1] >= len(data.labels):
        raise DataError(f"{data.name} has {len(data.labels):,} records, not {places[-1] + 1:,}")
    return {
        "images": data.images[places],
        "labels": data.labels[places].astype(np.uint8),
        "source_index": places.astype(np.int32),
        "classes": np.array(data.classes),
    }


def _cifar(data: Dataset, recipe: dict[str, NDArray]) -> dict[str, NDArray]:
    """The records with the recipe's digests, in its order."""
    labels = data.labels.astype(np.uint8)
    place = {one: k for k, one in enumerate(_digests(data.images, labels))}
    wanted = [one.tobytes() for one in recipe["digests"]]
    if lacking := sum(one not in place for one in wanted):
        raise DataError(f"{data.name} lacks {lacking:,} of the {len(wanted):,} images of a subset")
    places = np.array([place[one] for one in wanted])
    return {
        "images": data.images[places],
        "labels": labels[places],
        "filenames": recipe["filenames"],
        "classes": recipe["classes"],
    }


def _digests(images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> list[bytes]:
    """The beginning of the sha256 of each label and image."""
    rows = np.concatenate([labels[:, None], images.reshape(len(images), -1)], axis=1)
    return [hashlib.sha256(row.tobytes()).digest()[:_DIGEST] for row in rows]


def _archive(content: dict[str, NDArray]) -> bytes:
    """An npz file; its bytes are a function of the arrays."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **content)
    return stream.getvalue()


def recipe(name: str) -> bytes:
    """The recipe of a subset that is at hand, as an npz file.

    Raises:
        DataError: the subset is not at hand, or damaged.
    """
    if name.startswith("emnist"):
        bits = np.zeros(116_323, bool)
        bits[arrays(name, ("source_index",))["source_index"]] = True
        return _archive({"places": np.packbits(bits)})
    content = arrays(name, ("images", "labels", "filenames", "classes"))
    digests = b"".join(_digests(content["images"], content["labels"]))
    return _archive(
        {
            "digests": np.frombuffer(digests, np.uint8).reshape(-1, _DIGEST),
            "filenames": content["filenames"],
            "classes": content["classes"],
        }
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write every recipe from the subsets in a folder."""
    (os.environ[MIRROR],) = sys.argv[1:] if arguments is None else arguments
    for name in NAMES:
        recipe_path(name).parent.mkdir(parents=True, exist_ok=True)
        recipe_path(name).write_bytes(recipe(name))
        print(recipe_path(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
