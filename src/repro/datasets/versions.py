"""The official files of a data set, or a subset that a mirror holds."""

from __future__ import annotations

from repro._validate import choice
from repro.datasets.registry import find


def wants_subset(name: str, part: str, version: str) -> bool:
    """Whether to read the subset of one part instead of the official files.

    Args:
        name: of the official files in the registry; its subsets are `name`_train and `name`_test.
        part: "train" or "test".
        version: "official"; "subset"; or "auto": whichever is already on this machine, the official
            one first, and the official one (to be downloaded) if neither is.

    Raises:
        ValueError: an unknown part or version.
    """
    choice("part", part, ("train", "test"))
    choice("version", version, ("auto", "official", "subset"))
    if version != "auto":
        return version == "subset"
    return find(name) is None and find(f"{name}_{part}") is not None
