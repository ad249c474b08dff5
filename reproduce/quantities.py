"""Numbers with their unit, and with the interval that was found for them, as text."""

from __future__ import annotations

import math


def text(value: float | list[float] | tuple[float, ...], unit: str, digits: int = 10) -> str:
    """Numbers at `digits` significant digits and their unit."""
    items = value if isinstance(value, list | tuple) else [value]
    return f"{', '.join(_number(item, digits) for item in items)} {unit}".strip()


def with_interval(value: float, ends: tuple[float, float], unit: str, digits: int) -> str:
    """A number at `digits` significant digits, and its interval to the same decimal place.

    Numbers that need an exponent keep the digits of each in place of the decimal place.
    """
    if 1e-3 <= abs(value) < 1e6:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        number, low, high = (f"{item:,.{places}f}" for item in (value, *ends))
    else:
        number, low, high = (_number(item, digits) for item in (value, *ends))
    return f"{number} [{low}, {high}] {unit}".strip()


def percent(share: float) -> str:
    """A share in [0, 1] as three digits in per cent, and never 100 % for one below 1."""
    written = f"{100 * share:.3g} %"
    return "more than 99.9 %" if share < 1 and written == "100 %" else written


def _number(value: float, digits: int) -> str:
    """A number at `digits` significant digits; below ten million without an exponent."""
    short = f"{value:.{digits}g}"
    return f"{float(short):,.0f}" if "e+" in short and abs(value) < 1e7 else short
