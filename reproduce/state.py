"""What is known of the last good run of a figure: its note, its files, its cost.

A figure is up to date when everything it depends on is as it was (`fingerprint`) and its files are
those that were written then. The pdf does not count: git ignores it, so it may be missing.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.atomic import write_json
from reproduce import fingerprint, paths
from reproduce.destination import Destination


class ResultError(Exception):
    """A run left no complete result; the message is one line for the user."""


def read(where: Destination) -> dict[str, Any]:
    """The note on the last good run; empty when there is none, or none of the right shape."""
    note = read_object(where.state)
    parts, outputs, verdicts = (note.get(key) for key in ("parts", "outputs", "verdicts"))
    shapes = all(isinstance(value, dict) for value in (parts, outputs, verdicts))
    return note if shapes and "json" in outputs else {}


def write(
    where: Destination,
    parts: Mapping[str, str],
    outputs: Mapping[str, str],
    verdicts: Mapping[str, int],
    cost: Mapping[str, float | None],
) -> None:
    """Write the note that makes a run count, its executed copy included; raises `WriteError`."""
    note = {"parts": dict(parts), "outputs": dict(outputs), "verdicts": dict(verdicts), **cost}
    note["executed"] = sha256(where.executed)
    write_json(where.state, note)


def reasons(where: Destination, parts: Mapping[str, str]) -> list[str]:
    """Why a figure must be run: what changed of its `parts` or its files; [] if it need not."""
    note = read(where)
    if not note:
        return ["no finished run"]
    found = [f"{name} changed" for name in fingerprint.changed(note["parts"], parts)]
    for ending, digest in note["outputs"].items():
        path = where.file(ending)
        if not path.is_file():
            found.append(f"{where.name}.{ending} is missing")
        elif sha256(path) != digest:
            found.append(f"{where.name}.{ending} is not the file that was written")
    return found


def result(where: Destination) -> tuple[dict[str, str], Counter[str]]:
    """The files of a finished run (ending -> sha256) and the count of its verdicts.

    Raises:
        ResultError: the run left no complete result of that profile.
    """
    record = read_object(where.file("json"))
    if not record:
        raise ResultError("the notebook left no json: does it call book.save?")
    told = read_object(where.provenance)  # the json may be the one of an earlier run
    if not record.get("complete") or told.get("complete") is False:
        raise ResultError("the notebook ended before its table: does it call book.table?")
    if (made := record.get("profile")) != where.profile:
        raise ResultError(f"the json is of profile {made!r}, not {where.profile!r}")
    found = {}
    for ending in ("json", *record.get("files", {})):
        file = where.file(ending)
        if not file.is_file():
            raise ResultError(f"{file} is missing after the run")
        found[ending] = sha256(file)
    return found, Counter(row["verdict"] for row in record.get("claims", []))


def seconds(where: Destination) -> float:
    """How long a figure took last time, here or for the stored numbers; unknown ones longest."""
    own = read(where).get("seconds")
    if isinstance(own, int | float):
        return float(own)
    return cost(where.figure_id, where.profile).get("seconds", float("inf"))


def cost(figure_id: str, profile: str) -> dict[str, float]:
    """`seconds` and `peak_mib` of the run that the stored numbers come from; {} without one."""
    table = read_object(paths.COSTS).get(profile)
    found = table.get(figure_id) if isinstance(table, dict) else None
    keys = ("seconds", "peak_mib")
    good = isinstance(found, dict) and all(isinstance(found.get(k), int | float) for k in keys)
    return {key: float(found[key]) for key in keys} if good else {}


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file; {} when there is no such file, or something else in it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def sha256(path: Path) -> str:
    """The hash of a file's content."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
