"""How derivations turn what a test found into a verdict: nothing holds by default."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["TIGHT", "bounded", "decided", "loose", "misprint"]

TIGHT = 0.01
"""How far a bound may lie above the exact value and still count as tight."""


def decided(*, refuted: bool, confirmed: bool) -> bool | None:
    """The answer of a test that looks for a counterexample and for what the statement promises.

    Args:
        refuted: an explicit counterexample was found.
        confirmed: every check that the statement must pass was passed.

    Returns:
        False where it is refuted, whatever else was found; True where it is confirmed; None, a gap,
        where the test found neither.
    """
    if refuted:
        return False
    return True if confirmed else None


def misprint(*, printed: bool, corrected: bool) -> str:
    """The verdict on a formula with an obvious correction.

    Args:
        printed: the formula is right as it is printed.
        corrected: the corrected formula is right.

    Returns:
        "holds", "misprint", or "gap" where neither form is right.
    """
    if printed:
        return "holds"
    return "misprint" if corrected else "gap"


def loose(*, valid: bool, factor: float, least: float) -> str:
    """The verdict on a bound.

    Args:
        valid: no case exceeds it.
        factor: the bound over the exact value, > 0, in the case in which they are closest.
        least: the factor, > 1, from which a bound is called loose.

    Returns:
        "false" where it is exceeded or below the exact value; "loose"; "holds" where it is nearly
        attained.
    """
    if not valid or factor < 1:
        return "false"
    return "loose" if factor >= least else "holds"


def bounded(stated_over_exact: ArrayLike) -> str:
    """The verdict on an upper bound that must be tight: false below the exact value, loose above `TIGHT`.

    Args:
        stated_over_exact: the bound over what it bounds, > 0, any shape.
    """
    ratio = np.asarray(stated_over_exact, dtype=float)
    if not ratio.min() >= 1 - 1e-9:
        return "false"
    return "loose" if ratio.max() > 1 + TIGHT else "holds"
