"""Numbers and lists in the words of captions and stories, in one notation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from reproduce.papers.words import power_of_ten

__all__ = ["decimal", "listed", "power", "times"]


def power(value: float, digits: int = 2) -> str:
    """A positive number as "10⁻⁶", "2.7·10⁻⁶" or, between 0.001 and 1000, as "0.015".

    Args:
        value: >= 0 and finite.
        digits: significant digits.
    """
    if value == 0 or 1e-3 <= value < 1e3:
        return f"{float(f'{value:.{digits}g}'):g}"
    exponent = math.floor(math.log10(value) + 1e-12)
    front = f"{value / 10.0**exponent:.{digits}g}"
    if front == "10":
        front, exponent = "1", exponent + 1
    return power_of_ten(exponent) if front == "1" else f"{front}·{power_of_ten(exponent)}"


def decimal(value: float) -> str:
    """A number as it is given, at most 6 digits: "0.5", "10⁻⁵"."""
    return power(value, 6) if 0 < value < 1e-3 else f"{value:g}"


def times(factor: float) -> str:
    """A factor >= 1 in words: "3.4 times", "2·10¹⁹ times"; infinity is "without limit"."""
    return f"{power(factor)} times" if math.isfinite(factor) else "without limit"


def listed(items: Sequence[str]) -> str:
    """Items as a list in words: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
