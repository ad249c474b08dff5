"""Make the embedded data files from their sources: `python data/embedded/make.py [folder of the sources]`.

The sources are entries of `data/registry.toml` (Adult, FEMNIST, the EMNIST subset, the RadHAR points); the
folder is a mirror with these files, and without it the cache, the mirror and the downloads of
`repro.datasets` are tried. The content of every file is a function of the sources alone. README.md beside
this script says what each file holds and quotes the terms of its source.
"""

from __future__ import annotations

import io
import lzma
import os
import sys
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent

EMNIST = {"train": (18_000, 80), "test": (3_000, 12)}
"""Images of each part, and the fewest of any class."""

SEGMENT, FRAMES_PER_STEP, BINS = 90, 3, 16
"""RadHAR: frames of a 3-second segment, frames summed to one time step, Doppler bins."""


def main(arguments: list[str]) -> None:
    """Write all files beside this script."""
    if arguments:
        os.environ["REPRO_DATA_MIRROR"] = arguments[0]
    for name, content in made().items():
        (HERE / name).write_bytes(content)
        print(f"{name}: {len(content):,} bytes")


def made() -> dict[str, bytes]:
    """The content of every embedded file by name."""
    return {
        **{f"adult.{end}.xz": adult(part) for part, end in (("train", "data"), ("test", "test"))},
        "femnist_by_writer.npz": source("femnist_by_writer").read_bytes(),
        **{f"emnist_embedded_{part}.npz": emnist(part) for part in EMNIST},
        "radhar_maps.npz": radhar(),
    }


def source(name: str) -> Path:
    """The verified source file from the cache, the mirror or the download."""
    from repro.datasets.registry import fetch

    return fetch(name, embedded=False)


def adult(part: str) -> bytes:
    """The file of UCI, byte for byte, compressed."""
    return lzma.compress(source(f"adult_{part}").read_bytes(), preset=9 | lzma.PRESET_EXTREME)


def emnist(part: str) -> bytes:
    """The first images of each class in the subset's own (random) order, and where they come from.

    A class keeps its share of the subset, but has no fewer images than `EMNIST` says.
    """
    total, fewest = EMNIST[part]
    with np.load(source(f"emnist_byclass_{part}")) as content:
        got = {key: content[key] for key in ("images", "labels", "source_index", "classes")}
    present = np.bincount(got["labels"], minlength=len(got["classes"]))
    wanted = np.minimum(np.maximum(fewest, np.rint(total * present / present.sum())), present)
    surplus = int(wanted.sum()) - total  # taken from the largest classes, in turn
    for _ in range(surplus):
        wanted[np.argmax(wanted)] -= 1
    for _ in range(-surplus):
        wanted[np.argmax(present - wanted)] += 1
    kept = np.sort(
        np.concatenate([np.flatnonzero(got["labels"] == c)[: int(n)] for c, n in enumerate(wanted)])
    )
    return archive(
        images=got["images"][kept],
        labels=got["labels"][kept],
        source_index=got["source_index"][kept],
        classes=got["classes"],
    )


def radhar() -> bytes:
    """Reflected intensity by tenth of a second and Doppler bin, whole segments of three seconds."""
    with np.load(source("radhar_points")) as content:
        got = {key: content[key] for key in content.files}
    frame = np.repeat(np.arange(len(got["frame_npoints"])), got["frame_npoints"])
    energy = np.zeros((len(got["frame_npoints"]), BINS), dtype=np.uint32)
    np.add.at(energy, (frame, got["doppler_bin"]), got["peak"].astype(np.uint32))
    maps, owners = [], []
    for recording in range(len(got["recording_label"])):
        own = energy[got["frame_recording"] == recording]
        count = len(own) // SEGMENT
        steps = own[: count * SEGMENT].reshape(count, SEGMENT // FRAMES_PER_STEP, -1, BINS)
        maps.append(steps.sum(axis=2, dtype=np.uint32))
        owners += [recording] * count
    return archive(
        intensity=np.concatenate(maps),
        recording=np.array(owners, dtype=np.uint8),
        recording_label=got["recording_label"],
        recording_start_unix=got["recording_start_unix"],
        classes=got["classes"],
    )


def archive(**arrays: NDArray) -> bytes:
    """An npz file with bzip2 members of a fixed date: the same arrays give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_BZIP2, compresslevel=9) as target:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_BZIP2
            target.writestr(info, member.getvalue())
    return buffer.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
