"""One notation for what readers see: Greek letters and powers of ten, as in the pictures.

Notebooks write their evidence in plain letters ("epsilon 0.1 at delta = 1e-05"); ledger and reports show
it as "ε 0.1 at δ = 10⁻⁵". Quotations are never changed.
"""

from __future__ import annotations

import re

__all__ = ["power_of_ten", "symbols"]

_GREEK = {
    **{"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε"},
    **{"theta": "θ", "lambda": "λ", "sigma": "σ", "Gamma": "Γ", "Delta": "Δ"},
}
_LETTER = re.compile(rf"(?<![A-Za-z])({'|'.join(_GREEK)})(?![A-Za-z])")
_POWER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)e([+-]?\d+)(?![\w^]|\.\d)")
_SMALL = re.compile(r"(?<![\w.,])0\.(0{3,})1(?![\w]|\.\d)")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(exponent: int) -> str:
    """A power of ten, such as "10⁻⁵"."""
    return "10" + str(exponent).translate(_RAISED)


def symbols(text: str) -> str:
    """`text` with names of Greek letters as letters, and numbers such as 2.5e-05 as 2.5·10⁻⁵.

    So are powers of ten below a thousandth: 0.0001 is 10⁻⁴. Longer words ("epsilons") and what only
    looks like a number ("1e5f") stay as they are.
    """
    text = _POWER.sub(_power, _LETTER.sub(lambda found: _GREEK[found[0]], text))
    return _SMALL.sub(lambda found: power_of_ten(-len(found[1]) - 1), text)


def _power(found: re.Match[str]) -> str:
    raised = power_of_ten(int(found[2]))
    return raised if float(found[1]) == 1 else f"{found[1]}·{raised}"
