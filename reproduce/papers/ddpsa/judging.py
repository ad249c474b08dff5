"""How the derivations turn what a test found into a verdict: nothing holds by default."""

from __future__ import annotations

__all__ = ["decided", "loose", "misprint"]


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
