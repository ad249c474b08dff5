"""Ticks: those of one logarithmic axis in one notation, and per cent as in the texts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.ticker import Formatter, PercentFormatter

from reproduce.papers.words import number, power_of_ten

__all__ = ["Alike", "percent"]

_LEAST, _LARGEST = 1e-3, 1e4
"""Between them plain numbers can be read at a glance."""


class Alike(Formatter):
    """All ticks as plain numbers, or all powers of ten as such where one tick asks for it.

    One tick in view below 0.001 or above 10,000 is enough. 1 and 10 are plain in both cases.
    """

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The words of the ticks in view, and of those outside."""
        low, high = sorted(self.axis.get_view_interval())
        shown = [v for v in values if 0.999 * low <= v <= 1.001 * high]
        raised = any(v < 0.999 * _LEAST or v > 1.001 * _LARGEST for v in shown)
        return [_raised(value) if raised else number(value) for value in values]

    def __call__(self, value: float, pos: int | None = None) -> str:
        """The words of one tick alone, such as that at the pointer."""
        return number(value)


def percent() -> Formatter:
    """Shares in [0, 1] as whole per cent, with a space."""
    return PercentFormatter(xmax=1, decimals=0, symbol=" %")


def _raised(value: float) -> str:
    exponent = round(math.log10(value))
    whole = abs(value / 10.0**exponent - 1) < 1e-6
    return power_of_ten(exponent) if whole and exponent not in (0, 1) else number(value)
