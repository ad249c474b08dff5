"""What one unit can change of the release without noise: sensitivity, divisor, kept state. Exact checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from repro.conformance.adapter import Array, Promise
from repro.conformance.findings import Finding, exact
from repro.conformance.scenes import Sight

TOLERANCE = 1e-4
"""Relative: above the rounding of single precision, below every fault worth the name."""


@dataclass(frozen=True)
class Table:
    """The release for each set of units that took part.

    Attributes:
        sets: the units as bits of a number, increasing, shape (sets,).
        releases: shape (sets, senders, coordinates).
        spread: the largest difference between two releases of one set.
    """

    sets: NDArray[np.int64]
    releases: Array
    spread: float

    @classmethod
    def of(cls, promise: Promise, sight: Sight) -> Table:
        """The table of a data set seen without noise."""
        bits = 1 << np.arange(promise.units)
        whole = sight.whole.reshape(-1, *sight.releases.shape[2:])
        sets, first, place = np.unique(
            sight.present(promise).reshape(-1, promise.units) @ bits,
            return_index=True,
            return_inverse=True,
        )
        spread = np.abs(whole - whole[first][place.ravel()]).max()
        return cls(sets, whole[first], float(spread))

    def difference(self, other: Table, bit: int) -> Array:
        """Releases here minus those in `other` of the sets without `bit`, for all sets that have it."""
        wanted = self.sets[(self.sets & bit) > 0]
        known = np.isin(wanted - bit, other.sets)
        here = self.releases[np.searchsorted(self.sets, wanted[known])]
        there = other.releases[np.searchsorted(other.sets, wanted[known] - bit)]
        return here - _padded(there, here.shape)

    def common(self, other: Table) -> tuple[NDArray[np.int64], Array, Array]:
        """The sets in both tables, and their releases."""
        sets, a, b = np.intersect1d(self.sets, other.sets, return_indices=True)
        here = self.releases[a]
        return sets, here, _padded(other.releases[b], here.shape)


def _padded(releases: Array, shape: tuple[int, ...]) -> Array:
    """With zeros for a sender that is not in the data."""
    missing = shape[1] - releases.shape[1]
    return np.pad(releases, ((0, 0), (0, missing), (0, 0)))


def _longest(promise: Promise, differences: Array) -> float:
    """The largest norm, in clips."""
    if not len(differences):
        return 0.0
    flat = differences.reshape(len(differences), -1)
    return float(np.linalg.norm(flat, ord=promise.order, axis=1).max()) / promise.step


def check(
    promise: Promise,
    scenes: dict[str, tuple[Sight, Sight | None]],
    flipped: tuple[Sight, Sight] | None,
) -> list[Finding]:
    """Sensitivity, divisor and state.

    Args:
        promise: of the engine.
        scenes: data sets by name, each with what was seen of it, and of it without its last unit (None where
            sampling itself leaves units out, and their number is public).
        flipped: two data sets that differ in the sign of the last unit's vectors; None where nobody is replaced.
    """
    tables = {
        name: (Table.of(promise, whole), None if less is None else Table.of(promise, less))
        for name, (whole, less) in scenes.items()
    }
    found = [
        _sensitivity(promise, tables),
        _divisor(promise, tables, scenes["long"]),
        _state(promise, tables),
    ]
    if flipped is not None:
        found.append(_replaced(promise, flipped))
    return found


def _sensitivity(promise: Promise, tables: dict[str, tuple[Table, Table | None]]) -> Finding:
    """One unit more or less, all others and their participation the same; and its own coordinate alone."""
    found = {"its own coordinate": _largest_part(promise, tables["long"][0].releases.sum(axis=1))}
    for name, (whole, less) in tables.items():
        pairs = [whole.difference(whole, 1 << unit) for unit in range(promise.units)]
        if less is not None and len(whole.sets) == 1:  # all take part, always
            pairs.append(whole.difference(less, 1 << (promise.units - 1)))
        if any(len(differences) for differences in pairs):
            found[f"{name} contributions"] = max(_longest(promise, each) for each in pairs)
    name = max(found, key=found.get)
    evidence = f"one unit changes the release by up to {found[name]:.6g} clips ({name}), promised 1"
    if len(found) == 1:
        evidence += "; other coordinates could not be compared, as no two releases differ in one participant"
    elif promise.adjacency == "zero_out" and promise.everybody:
        evidence += (
            "; what a unit adds whatever its data are, such as a bias, could not be compared"
        )
    return exact(
        "sensitivity, a unit more or less", found[name] > 1 + TOLERANCE, evidence, TOLERANCE
    )


def _largest_part(promise: Promise, total: Array) -> float:
    """The largest amplitude of one unit in its own coordinate, of releases summed over senders."""
    return float(np.abs(total[..., : promise.units]).max()) / promise.step


def uneven(promise: Promise, seen: Sight) -> Finding:
    """The part of a client that holds more records than the others, all of them long."""
    largest = _largest_part(promise, seen.total)
    evidence = (
        f"a client with {promise.records + 1} records changes the release by up to {largest:.6g} clips, "
        "promised 1"
    )
    return exact(
        "sensitivity, a client with more records", largest > 1 + TOLERANCE, evidence, TOLERANCE
    )


def _divisor(
    promise: Promise, tables: dict[str, tuple[Table, Table | None]], seen: Sequence[Sight | None]
) -> Finding:
    """The part of one unit must be the same whoever else takes part, or is in the data at all."""
    parts = (
        np.concatenate(
            [
                sight.total[..., : promise.units].reshape(-1, promise.units)
                for sight in seen
                if sight is not None
            ]
        )
        / promise.step
    )
    present = np.abs(parts) > TOLERANCE
    low = np.where(present, parts, np.inf).min(axis=0)
    high = np.where(present, parts, -np.inf).max(axis=0)
    seen_once = np.isfinite(low)
    apart = float(np.max((high - low)[seen_once] / np.abs(high[seen_once]), initial=0.0))
    moved = 0.0
    for whole, less in tables.values():
        if less is not None:
            _, here, there = whole.common(less)
            moved = max(moved, np.abs(here - there).max(initial=0.0) / promise.step)
    evidence = f"a unit's own part varies by a relative {apart:.2g}"
    if promise.adjacency == "add_remove":
        evidence += f"; with the same participants, one unit less in the data moves the release by {moved:.2g} clips"
    return exact("divisor is public", max(apart, moved) > TOLERANCE, evidence, TOLERANCE)


def _state(promise: Promise, tables: dict[str, tuple[Table, Table | None]]) -> Finding:
    """The same participants must give the same release, in every round and repetition."""
    spread = max(t.spread for pair in tables.values() for t in pair if t is not None) / promise.step
    evidence = f"releases with the same participants differ by up to {spread:.2g} clips"
    return exact("kept state carries no record", spread > TOLERANCE, evidence, TOLERANCE)


def _replaced(promise: Promise, flipped: tuple[Sight, Sight]) -> Finding:
    one, two = (Table.of(promise, sight) for sight in flipped)
    _, here, there = one.common(two)
    largest = _longest(promise, here - there)
    evidence = f"replacing one unit changes the release by up to {largest:.6g} clips, promised 2"
    return exact("sensitivity, a unit replaced", largest > 2 * (1 + TOLERANCE), evidence, TOLERANCE)
