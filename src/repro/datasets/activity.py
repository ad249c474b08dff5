"""Handwriting by writer and human activity: records that belong to a person or a recording.

`load_femnist` and `load_radhar` read embedded parts of FEMNIST (LEAF) and RadHAR; `load_ucihar` reads
what a mirror keeps of UCI HAR, whose terms forbid to pass it on freely.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from repro.datasets.registry import arrays, entry, expect

STEPS, BINS = 30, 16
"""RadHAR: tenths of a second in a segment of three seconds, Doppler bins."""


@dataclass(frozen=True, eq=False)
class Grouped:
    """Labelled records with an owner.

    Attributes:
        values: float32, shape (n, ...).
        labels: int64, shape (n,).
        classes: what each label means.
        group: who or what a record belongs to, int64, shape (n,).
        tested: bool, shape (n,): set aside by the data set itself; None where it does not say.
        start: when each group (a recording) began, seconds, shape (groups,); None where unknown.
        source, sha256, subset: as in `Dataset`.
    """

    values: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    group: NDArray[np.int64]
    tested: NDArray[np.bool_] | None
    source: str
    sha256: str
    subset: str
    start: NDArray[np.float64] | None = None


@lru_cache(maxsize=1)
def load_femnist() -> Grouped:
    """FEMNIST images (n, 28, 28), ink 0 to 1, by writer; images that a writer has twice only once.

    Raises:
        DataError: the file is missing, altered or not what it should be.

    Source: Caldas et al., LEAF, arXiv:1812.01097, 2018.
    """
    name = "femnist_by_writer"
    got = arrays(name, ("images", "labels", "writer", "is_test", "duplicate", "classes"))
    images = got["images"]
    expect(name, images.shape[1:] == (28, 28) and images.dtype == np.uint8, "images of 28x28 bytes")
    expect(name, len(got["classes"]) == 62, "62 classes")
    once = ~got["duplicate"]
    ink = 1.0 - images[once].astype(np.float32) / 255  # LEAF keeps black on white
    return _grouped(name, ink, got["labels"][once], got, got["writer"][once], got["is_test"][once])


@lru_cache(maxsize=1)
def load_radhar() -> Grouped:
    """RadHAR as time-Doppler maps (n, 30, 16) of three seconds, by recording.

    A map counts, on a logarithmic scale, the reflected intensity of each Doppler bin in each tenth
    of a second; a recording of 20 seconds gives six maps. `data/embedded/make.py` has summed them.

    Raises:
        DataError: the file is missing, altered or not what it should be.

    Source: Singh et al., RadHAR, mmNets 2019.
    """
    name = "radhar_maps"
    keys = ("intensity", "recording", "recording_label", "recording_start_unix", "classes")
    got = arrays(name, keys)
    intensity, recording = got["intensity"], got["recording"].astype(np.int64)
    expect(name, intensity.shape[1:] == (STEPS, BINS), f"maps of {STEPS} steps and {BINS} bins")
    expect(name, len(recording) == len(intensity), "a recording for each map")
    expect(name, int(recording.max()) < len(got["recording_label"]), "a label for each recording")
    maps = np.log1p(intensity.astype(float)).astype(np.float32)
    made = _grouped(name, maps, got["recording_label"][recording], got, recording, None)
    return replace(made, start=got["recording_start_unix"])


@lru_cache(maxsize=1)
def load_ucihar() -> Grouped:
    """UCI HAR windows as sequences (n, 32, 36) by subject: four samples of nine channels each step.

    Raises:
        DataError: the file is missing, altered or not what it should be.

    Source: Anguita et al., ESANN 2013.
    """
    name = "ucihar_windows"
    got = arrays(name, ("signals", "labels", "subject", "classes"))
    signals = got["signals"]
    expect(name, signals.shape[1:] == (9, 128), "windows of 9 channels and 128 samples")
    values = signals.astype(np.float32)
    values /= values.std(axis=(0, 2), keepdims=True)
    values = values.reshape(-1, 9, 32, 4).transpose(0, 2, 1, 3).reshape(-1, 32, 36)
    return _grouped(name, values, got["labels"], got, got["subject"].astype(np.int64), None)


def _grouped(
    name: str,
    values: NDArray,
    labels: NDArray,
    got: dict[str, NDArray],
    group: NDArray,
    tested: NDArray | None,
) -> Grouped:
    wanted, classes = entry(name), tuple(str(c) for c in got["classes"])
    labels = labels.astype(np.int64)
    expect(name, len(labels) > 0 and int(labels.max()) < len(classes), "a label for each record")
    return Grouped(
        values=np.ascontiguousarray(values, dtype=np.float32),
        labels=labels,
        classes=classes,
        group=group.astype(np.int64),
        tested=tested,
        source=f"{wanted.title}, {wanted.homepage}",
        sha256=wanted.sha256,
        subset=wanted.subset,
    )
