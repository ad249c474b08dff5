"""How numbers are written in pictures, captions and stories of every paper."""

from __future__ import annotations

import math

from reproduce.notation import power_of_ten

__all__ = ["number", "power_of_ten"]


def number(value: float) -> str:
    """`value` as an axis says it: 0.05, 20, 1,000, and 10⁻⁵ below a thousandth."""
    if value > 0 and value < 0.999e-3:
        power = math.floor(math.log10(value) + 1e-9)
        factor = value / 10.0**power
        lifted = power_of_ten(power)
        return lifted if abs(factor - 1) < 1e-6 else f"{factor:.2g}·{lifted}"
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
