"""Measured times: a picture shows the committed ones, and fresh ones are compared by ratios.

No two runs measure the same seconds, so a figure whose content is a measured time shows the
measurement in `reproduce/measured/<paper>/<id>.json` (`Workbook.measured`). The fresh measurement
of a run goes to `build/measured/`. Machines differ in speed, but operations should keep their
proportions: each entry is divided by the total of its own run, or by an entry that is named, and the
quotients are compared. `python -m reproduce.measured` prints that comparison for every fresh
measurement; it fails where a quotient departs by more than the factor that the notebook states. On
a machine that was busy with other work, proportions say little: the departure is told and does not
fail.

A file maps each name to `value` (numbers in mappings and lists), `factor`, `per`, `of`, the figure
that keeps the measurement where it is another, and in a fresh one `load`. A list of
numbers, the repeats of one measurement, counts as one entry: its median.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from repro.atomic import write_together
from repro.report.numbers import to_json
from reproduce import catalogue, paths, state
from reproduce.destination import Destination

FRESH = "REPRO_MEASURED_FRESH"
"""The variable that makes a notebook show what it has just measured; set by `make references`."""

BUSY = 2.0
"""Processes that wanted each core, above which a measurement is not judged."""


def load() -> float:
    """Processes that wanted each core in the last minute; 0.0 where the system does not say."""
    if not hasattr(os, "getloadavg"):
        return 0.0
    return round(os.getloadavg()[0] / (os.cpu_count() or 1), 1)


def committed_path(figure_id: str) -> Path:
    """The committed measurements of a figure."""
    return paths.MEASURED / f"{figure_id}.json"


def committed(figure_id: str, name: str) -> Any:
    """The committed measurement `name` of a figure; None when there is none."""
    entry = state.read_object(committed_path(figure_id)).get(name)
    return entry.get("value") if isinstance(entry, dict) else None


def keep(path: Path, entries: Mapping[str, Mapping[str, Any]]) -> None:
    """Write fresh measurements; raises `WriteError`."""
    write_together({path: to_json(dict(entries)).encode()})


def quotients(value: Any, per: str = "") -> dict[str, float]:
    """Each entry of a measurement, divided by their total or by the entry `per`.

    Args:
        value: non-negative numbers in nested mappings; a list of numbers counts by its median.
        per: the key path of the entry to divide by, such as "LDP" or "noise.numpy"; "" for the
            total.

    Raises:
        ValueError: there are no entries, there is no entry `per`, or what is divided by is not
            positive.
    """
    entries = dict(_entries(value, ""))
    if per and per not in entries:
        raise ValueError(f"no entry {per!r}; there are: {', '.join(entries) or 'none'}")
    scale = entries[per] if per else sum(entries.values())
    if not scale > 0:
        raise ValueError(f"the {f'entry {per!r}' if per else 'total'} is {scale}, must be > 0")
    return {key: number / scale for key, number in entries.items()}


def _entries(value: Any, path: str) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _entries(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and all(isinstance(x, int | float) for x in value):
        yield path, float(statistics.median(value))
    elif isinstance(value, list):
        for k, item in enumerate(value):
            yield from _entries(item, f"{path}[{k}]")
    else:
        yield path, float(value)


def departure(stored: Any, fresh: Any, per: str = "") -> tuple[float, str]:
    """The largest factor (>= 1) between the quotients of two measurements, and its entry.

    Raises:
        ValueError: the two have not the same entries, or see `quotients`.
    """
    was, now = quotients(stored, per), quotients(fresh, per)
    if was.keys() != now.keys():
        other = ", ".join(sorted(was.keys() ^ now.keys()))
        raise ValueError(f"only one of the two measurements has the entries {other}")
    worst, place = 1.0, ""
    for key in was:
        small, large = sorted((was[key], now[key]))
        factor = large / small if small > 0 else 1.0 if large == 0 else float("inf")
        if factor > worst:
            worst, place = factor, key
    return worst, place


def report(figure_id: str) -> bool:
    """Compare the fresh measurements of a figure with the committed ones; print; all is well?"""
    good = True
    for name, entry in state.read_object(Destination(figure_id).measured).items():
        where = f"{figure_id} {name}"
        owner = entry.get("of") or figure_id
        stored = committed(owner, name)
        if stored is None:
            print(f"{where}: not committed; make references IDS={owner} stores it")
            good = False
            continue
        try:
            worst, place = departure(stored, entry["value"], entry["per"])
            allowed = float(entry["factor"])
        except (ValueError, KeyError, TypeError) as problem:
            print(f"{where}: cannot be compared: {problem}")
            good = False
            continue
        within = worst <= allowed
        busy = not within and (told := entry.get("load", 0.0)) > BUSY
        at = f" at {place}" if place else ""
        end = "" if within else f"; make references IDS={owner} renews the committed ones"
        if busy:
            end = f"; not counted, {told:g} processes wanted each core: make fig/{figure_id} again"
        print(
            f"{where}: proportions {'within' if within else 'beyond'} a factor {allowed:g} of the "
            f"committed ones (at most {worst:.3g}{at}){end}"
        )
        good &= within or busy
    return good


def main() -> int:
    """Compare every fresh measurement in `build/`; 1 when a proportion departs too far."""
    ids = [entry.id for entry in catalogue.figures() if Destination(entry.id).measured.exists()]
    if not ids:
        print("no fresh measurements here")
    return 0 if all([report(figure_id) for figure_id in ids]) else 1


if __name__ == "__main__":
    sys.exit(main())
