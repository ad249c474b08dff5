"""Numbers on their way into a file: plain values, no NaN, and JSON that reads well in a diff."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np


class DataError(ValueError):
    """The data behind a picture cannot be stored; the message names the place inside the data."""


def plain(value: Any, where: str = "data") -> Any:
    """Return `value` made of dict, list, str, bool, int, finite float and None only.

    Arrays (numpy, or anything with `tolist`) become nested lists, tuples and ranges lists, numpy
    scalars numbers, paths strings. Keys of mappings must be strings.

    Raises:
        DataError: a NaN or an infinity, a key that is no string, or a type with no JSON form; the
            message gives the path, such as `data.curves.scheme[3]`.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise DataError(f"{where}: the key {key!r} must be a string")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, PurePath):
        return value.as_posix()
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        number = float(value)
        if not math.isfinite(number):
            raise DataError(f"{where} is {number}; every number behind a picture must be finite")
        return number
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    raise DataError(f"{where} has type {type(value).__name__}, which has no JSON form")


def to_json(value: Any) -> str:
    """Return `value` (made by `plain`) as JSON: keys sorted, one a line, rows of numbers in one."""
    return _form(value, "") + "\n"


def _form(value: Any, margin: str) -> str:
    """The JSON text of `value`, whose lines after the first begin with `margin`."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        rows = (f"{inner}{json.dumps(key)}: {_form(value[key], inner)}" for key in sorted(value))
        return "{\n" + ",\n".join(rows) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _form(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
