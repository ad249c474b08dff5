"""Reading named arrays from npz files that a mirror keeps, with one clear error where they do not fit."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from repro.datasets.registry import DataError, fetch


def arrays(name: str, wanted: tuple[str, ...]) -> dict[str, NDArray]:
    """The arrays `wanted` of the registry's file `name`.

    Raises:
        DataError: the file is missing or altered, or is no npz file with these arrays.
    """
    path: Path = fetch(name)
    try:
        with np.load(path, allow_pickle=False) as content:
            return {key: content[key] for key in wanted}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as problem:
        raise DataError(
            f"{path} cannot be read ({problem}); expected arrays {', '.join(wanted)}; "
            "get the file again"
        ) from problem


def expect(name: str, good: bool, expected: str) -> None:
    """Raise a `DataError` that names the file and what was expected of it, unless `good`."""
    if not good:
        raise DataError(f"the file of {name!r} is not what it should be: expected {expected}")
