"""How numbers are written in pictures, captions and stories of every paper."""

from __future__ import annotations

__all__ = ["power_of_ten"]

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(exponent: int) -> str:
    """A power of ten, such as "10⁻⁵"."""
    return "10" + str(exponent).translate(_RAISED)
