"""Letters that look like digits: public data of another distribution, for the quick tables.

The paper pretrains on eight of ten classes, without privacy, and fine-tunes on all ten with privacy.
Here the public images are handwritten letters, each labelled with the digit that it looks like, and
the private images are handwritten digits: no digit is seen before the private training. Eight digits
have a letter that looks like them; 3 and 7 have none and come last in the order of classes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from repro.datasets import Dataset

LOOK_ALIKES = {
    "0": "Oo", "1": "Il", "2": "Zz", "4": "Hvy", "5": "Ss", "6": "Gb", "8": "B", "9": "gq",
    "3": "", "7": "",
}  # fmt: skip
"""Digit -> the letters that stand for it in the public data, in the order of the classes."""

MOST = 200
"""At most so many letters stand for one digit: letters are as frequent as in the source."""


def as_public(characters: Dataset) -> Dataset:
    """The letters among `characters` that look like a digit, labelled with that digit."""
    return _relabelled(characters, {digit: letters for digit, letters in LOOK_ALIKES.items()}, MOST)


def as_private(characters: Dataset) -> Dataset:
    """The digits among `characters`."""
    return _relabelled(characters, {digit: digit for digit in LOOK_ALIKES})


def _relabelled(characters: Dataset, members: dict[str, str], most: int = 0) -> Dataset:
    """The images of some classes under new labels, at half of their width and height."""
    new = np.full(len(characters.classes), -1)
    for label, names in enumerate(members.values()):
        new[[characters.classes.index(name) for name in names]] = label
    labels = new[characters.labels]
    chosen = np.flatnonzero(labels >= 0)
    if most:
        chosen = np.sort(
            np.concatenate([chosen[labels[chosen] == k][:most] for k in range(len(members))])
        )
    return replace(
        characters,
        images=halved(characters.images[chosen]),
        labels=labels[chosen],
        classes=tuple(members),
    )


def halved(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Images (n, h, w) of even h and w, every 2 x 2 pixels replaced by their mean."""
    count, height, width = images.shape
    blocks = images.reshape(count, height // 2, 2, width // 2, 2).astype(np.float32)
    return np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)
