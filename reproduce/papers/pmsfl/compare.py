"""How runs of pmsfl's methods compare: paired differences over seeds with their intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reproduce.papers.statistics import interval


@dataclass(frozen=True)
class Lead:
    """Whether one side is ahead in every one of several comparisons.

    Attributes:
        holds: in each the whole 95 % interval of the paired differences lies above 0.
        text: the differences in percentage points with their intervals.
        unclear: those whose interval does not; empty when `holds`.
        reversed: those whose interval lies below 0.
    """

    holds: bool
    text: str
    unclear: str
    reversed: str


def lead(pairs: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Lead:
    """Compare accuracies (seeds,), first minus second, the same seed on both sides.

    Runs of one seed share data, start, participants and batches, so that differences within a seed
    are what the methods make.

    Raises:
        ValueError: fewer than 2 seeds, or different numbers of them.
    """
    found = {
        name: interval(np.asarray(first, float) - np.asarray(second, float))
        for name, (first, second) in pairs.items()
    }
    told = {name: f"{name} {one.text()}" for name, one in found.items()}
    return Lead(
        all(one.sign > 0 for one in found.values()),
        "; ".join(told.values()),
        "; ".join(told[name] for name, one in found.items() if one.sign <= 0),
        "; ".join(told[name] for name, one in found.items() if one.sign < 0),
    )


def why(found: Lead, hint: str) -> str:
    """The reason for a statement that does not hold: what is reversed, what is only unclear."""
    if found.reversed:
        return f"reversed: {found.reversed}; {hint}"
    return f"no clear difference: {found.unclear}; {hint}"
