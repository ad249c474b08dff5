"""Compare numbers behind pictures with the stored ones: `python -m reproduce.compare [ids]`.

Three rules, in this order, decide how far a number may move:
1. a pattern in the figure's `tolerances` that matches its key path (without list places), such as
   `"curves.*.delta" = 1e-3`, or with both parts `{ rtol = 0.0, atol = 1e-9 }`;
2. in a figure with a `seed_band` (training): a mapping with the key `runs` (seeds x points, or
   seeds) holds runs of one configuration. Its mean over seeds must lie within `seed_band` standard
   deviations of the stored seeds of the stored mean, or within `seed_floor`; keys beside `runs`
   are derived from it, and only their shape is compared;
3. the figure's `rtol` and `atol`.
Texts, truth values, parameters and verdicts must be equal, but for one thing: a claim with `runs` in
the catalogue, an order that training runs decide, may be reproduced on one machine and differ, or be
undecided, on another where the runs nearly tie; rule 2 guards their numbers.

Within tolerance numbers may still have moved, on another kind of processor say: the report tells
how many and by how much at most. On the same kind of machine it says "identical".
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from reproduce import catalogue, paths, state
from reproduce.destination import Destination

SHOWN = 8
"""Differences printed per figure; the rest is counted."""


@dataclass(frozen=True)
class Difference:
    """One place where the numbers at hand and the stored ones disagree."""

    path: str
    stored: str
    got: str
    tolerance: str

    def relative(self) -> float | None:
        """The relative size of a change between two numbers; None for changes of another kind."""
        try:
            was, now = float(self.stored), float(self.got)
        except ValueError:
            return None
        scale = max(abs(was), abs(now))
        return abs(now - was) / scale if scale else 0.0

    def __str__(self) -> str:
        return f"{self.path}: stored {self.stored}, got {self.got} ({self.tolerance})"


@dataclass(frozen=True)
class Tolerance:
    """How far the numbers of one figure may move; see the module's rules."""

    rtol: float = 1e-6
    atol: float = 0.0
    seed_band: float | None = None
    seed_floor: float = 0.0
    patterns: Mapping[str, Any] | None = None
    near_ties: frozenset[str] = frozenset()
    """Ids of claims that training runs decide."""

    @classmethod
    def of(cls, entry: Any) -> Tolerance:
        """The tolerance that the catalogue gives a figure."""
        return cls(
            rtol=entry.rtol,
            atol=entry.atol,
            seed_band=entry.seed_band,
            seed_floor=entry.seed_floor,
            patterns=entry.tolerances,
            near_ties=frozenset(claim.id for claim in entry.claims if claim.runs),
        )

    def at(self, path: str) -> tuple[float, float]:
        """`(rtol, atol)` for the number at `path`."""
        plain = re.sub(r"\[\d+\]", "", path)
        for pattern, value in (self.patterns or {}).items():
            if fnmatchcase(plain, pattern):
                if isinstance(value, Mapping):
                    return float(value.get("rtol", 0.0)), float(value.get("atol", 0.0))
                return float(value), 0.0
        return self.rtol, self.atol


def reference_path(figure_id: str, profile: str) -> Path:
    """Where the stored numbers of a figure are."""
    return paths.REFERENCE / profile / f"{figure_id}.json"


def differences(
    stored: Mapping[str, Any], got: Mapping[str, Any], tolerance: Tolerance
) -> list[Difference]:
    """Return every disagreement between two data mappings (the `data` of a figure's json)."""
    return list(_walk(stored, got, "", tolerance))


def record_differences(
    stored: Mapping[str, Any], got: Mapping[str, Any], tolerance: Tolerance
) -> list[Difference]:
    """Compare a figure's json with its stored reference: parameters, verdicts and data."""
    found: list[Difference] = []
    if not got.get("complete", False):
        found.append(
            Difference("complete", "true", "false", "the notebook stopped before its table")
        )
    exact = Tolerance(rtol=0.0)
    verdicts = {row["id"]: row["verdict"] for row in got.get("claims", [])}
    expected = dict(stored.get("verdicts", {}))
    for key in tolerance.near_ties & expected.keys() & verdicts.keys():
        if {expected[key], verdicts[key]} <= {"reproduced", "differs", "undecided"}:
            expected[key] = verdicts[key]
    for name, was, now in (
        ("profile", stored.get("profile"), got.get("profile")),
        ("parameters", stored.get("parameters", {}), got.get("parameters", {})),
        ("verdicts", expected, verdicts),
    ):
        found += _walk(was, now, name, exact)
    return found + differences(stored.get("data", {}), got.get("data", {}), tolerance)


@dataclass(frozen=True)
class Comparison:
    """What became of the numbers of one figure.

    Attributes:
        figure_id: the figure.
        differences: disagreements beyond the tolerance.
        moved: how many values are not exactly the stored ones, those within tolerance included.
        most: the largest relative change of a number among them.
        place: where that is.
    """

    figure_id: str
    differences: Sequence[Difference]
    moved: int = 0
    most: float = 0.0
    place: str = ""

    def __str__(self) -> str:
        extent = f"{self.moved} value{'s' * (self.moved > 1)} moved"
        if self.place:
            extent += f", by at most {self.most:.1e} (relative, {self.place})"
        if self.differences:
            count = len(self.differences)
            return f"{self.figure_id}: {count} difference{'s' * (count > 1)}" + (
                f"; {extent}" if self.moved else ""
            )
        return f"{self.figure_id}: {f'within tolerance; {extent}' if self.moved else 'identical'}"


def compare(figure_id: str, profile: str, figures: Path | None = None) -> Comparison:
    """Compare what a run wrote for one figure with the stored numbers.

    Args:
        figure_id: the figure.
        profile: the parameter set of the run.
        figures: the folder of the run's json files; default: where runs of the profile write.
    """
    made = Destination(figure_id, profile).file("json")
    if figures is not None:
        made = figures / f"{figure_id}.json"
    kept = reference_path(figure_id, profile)
    if not made.exists():
        lack = Difference("(file)", "-", "missing", f"no {made}; run the notebook first")
        return Comparison(figure_id, [lack])
    if not kept.exists():
        hint = f"no {kept}; `make references` stores the numbers on purpose"
        return Comparison(figure_id, [Difference("(file)", "missing", "-", hint)])
    records = []
    for path in (kept, made):
        if not (record := state.read_object(path)):
            hint = f"{path} is no JSON object, or cannot be read"
            return Comparison(figure_id, [Difference("(file)", "-", "-", hint)])
        records.append(record)
    found = record_differences(*records, Tolerance.of(catalogue.figure(figure_id)))
    return Comparison(figure_id, found, *extent(*records))


def extent(stored: Mapping[str, Any], got: Mapping[str, Any]) -> tuple[int, float, str]:
    """How many values moved at all, the largest relative change of a number, and its place."""
    most, place, found = 0.0, "", record_differences(stored, got, Tolerance(rtol=0.0))
    for difference in found:
        size = difference.relative()
        if size is not None and size > most:
            most, place = size, difference.path
    return len(found), most, place


def orphans(profile: str) -> list[Path]:
    """Stored numbers whose figure the catalogue does not know."""
    known = {reference_path(entry.id, profile) for entry in catalogue.figures()}
    return sorted(set((paths.REFERENCE / profile).rglob("*.json")) - known)


def report(ids: Sequence[str], profile: str, figures: Path | None = None) -> bool:
    """Compare and print; return whether everything agrees."""
    good = True
    for figure_id in ids:
        comparison = compare(figure_id, profile, figures)
        found = comparison.differences
        print(comparison)
        for difference in found[:SHOWN]:
            print(f"  {difference}")
        if len(found) > SHOWN:
            print(f"  … and {len(found) - SHOWN} more")
        good &= not found
    return good


def _walk(stored: Any, got: Any, path: str, tolerance: Tolerance) -> Iterator[Difference]:
    if isinstance(stored, Mapping) and isinstance(got, Mapping):
        seeds = tolerance.seed_band is not None and "runs" in stored and "runs" in got
        for key in sorted({*stored, *got}):
            place = f"{path}.{key}" if path else str(key)
            if key not in got:
                yield Difference(place, _short(stored[key]), "missing", "the same keys")
            elif key not in stored:
                yield Difference(place, "missing", _short(got[key]), "the same keys")
            elif seeds and key == "runs":
                yield from _band(stored[key], got[key], place, tolerance)
            elif seeds:
                yield from _shapes(stored[key], got[key], place)
            else:
                yield from _walk(stored[key], got[key], place, tolerance)
    elif isinstance(stored, list) and isinstance(got, list):
        if len(stored) != len(got):
            yield Difference(path, f"{len(stored)} items", f"{len(got)} items", "the same shape")
            return
        for k, (was, now) in enumerate(zip(stored, got, strict=True)):
            yield from _walk(was, now, f"{path}[{k}]", tolerance)
    elif _is_number(stored) and _is_number(got):
        rtol, atol = tolerance.at(path)
        if not abs(got - stored) <= atol + rtol * abs(stored):
            yield Difference(path, repr(stored), repr(got), _limits(rtol, atol))
    elif type(stored) is not type(got) or stored != got:
        yield Difference(path, _short(stored), _short(got), "equal")


def _band(stored: Any, got: Any, path: str, tolerance: Tolerance) -> Iterator[Difference]:
    """Compare the mean over seeds, point by point, with the band of the stored seeds.

    Three seeds may agree by chance at one point, so the deviation is at least that of the whole
    curve (root mean square over its points).
    """
    try:
        was, now = np.array(stored, dtype=float), np.array(got, dtype=float)
    except (TypeError, ValueError):
        yield Difference(path, _short(stored), _short(got), "seeds x points of numbers")
        return
    if was.shape != now.shape or was.ndim not in (1, 2):
        yield Difference(path, f"shape {was.shape}", f"shape {now.shape}", "the same shape")
        return
    was, now = was.reshape(len(was), -1), now.reshape(len(now), -1)
    spread = was.std(axis=0, ddof=1) if len(was) > 1 else np.zeros(was.shape[1])
    pooled = math.sqrt(float(np.mean(spread**2))) if spread.size else 0.0
    limit = np.maximum(tolerance.seed_band * np.maximum(spread, pooled), tolerance.seed_floor)
    means = was.mean(axis=0), now.mean(axis=0)
    limit += 1e-12 * np.abs(means[0])  # rounding of the mean itself
    for k in np.flatnonzero(~(np.abs(means[1] - means[0]) <= limit)):
        rule = f"mean over seeds within {limit[k]:.3g}"
        yield Difference(f"{path}[:][{k}]", f"{means[0][k]:.6g}", f"{means[1][k]:.6g}", rule)


def _shapes(stored: Any, got: Any, path: str) -> Iterator[Difference]:
    """Compare the shape of two values, numbers apart."""
    was, now = _shape(stored), _shape(got)
    if was != now:
        yield Difference(path, was, now, "the same shape")


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)} x {_shape(value[0]) if value else '-'}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_shape(value[key])}" for key in sorted(value)) + "}"
    return "number" if _is_number(value) else type(value).__name__


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _limits(rtol: float, atol: float) -> str:
    parts = [f"rtol {rtol:g}"] if rtol else []
    parts += [f"atol {atol:g}"] if atol else []
    return "tolerance " + (" + ".join(parts) or "0")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: exit 0 when everything agrees, 1 when something differs, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.compare", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "ids", nargs="*", help="figures such as random_participation/fig1 (default: all)"
    )
    parser.add_argument("--profile", default="quick", choices=catalogue.PROFILES)
    parser.add_argument(
        "--figures", type=Path, help="folder with the json files (default: of the profile)"
    )
    options = parser.parse_args(arguments)
    try:
        ids = [catalogue.figure(name).id for name in options.ids]
        ids = ids or [entry.id for entry in catalogue.figures()]
        good = report(ids, options.profile, options.figures)
    except catalogue.CatalogueError as problem:
        print(problem, file=sys.stderr)
        return 2
    for path in [] if options.ids else orphans(options.profile):
        print(f"{path}: stored numbers of a figure that the catalogue does not know")
        good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
