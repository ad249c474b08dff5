"""What every loader returns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled images and where they come from.

    Attributes:
        name: the registry's or the package's name of the data.
        images: upright images, uint8, grey (n, height, width) or in colour (n, height, width, 3).
        labels: class of each image, int64, shape (n,), in [0, len(classes)).
        classes: what each label means.
        brightest: pixel value of full ink or light (255, or 16 for scikit-learn's digits).
        source: where these bytes come from, one phrase.
        sha256: checksum of the file read, or of the arrays where there is no file.
        subset: empty for the whole data set; else the phrase a picture's footer must carry.
    """

    name: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    brightest: int
    source: str
    sha256: str
    subset: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def majority_share(self) -> float:
        """The share of the most frequent class: the accuracy of always answering it, in (0, 1]."""
        return float(np.bincount(self.labels).max() / len(self.labels))


def digest(*arrays: NDArray) -> str:
    """sha256 over the bytes of the arrays, for data that does not come from a file."""
    running = hashlib.sha256()
    for array in arrays:
        running.update(np.ascontiguousarray(array).tobytes())
    return running.hexdigest()
