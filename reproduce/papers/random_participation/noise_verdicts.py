"""The verdicts on the noise levels of section 6, from `reproduce.papers.…noise_levels`.

The first argument of every function is the notebook's `Workbook`; `levels`, `printed`, `given` and
`tried` have an experiment's name as first key and come from `needed_noise`, `Experiment.printed`,
`guarantees` and `readings`.
"""

from __future__ import annotations

from collections.abc import Mapping

from reproduce.notebook import Workbook
from reproduce.papers.random_participation.noise_levels import PRINTED

__all__ = ["baseline_guarantees", "baseline_levels", "scheme_guarantees", "scheme_levels"]

_PREFIXES = {"many small clients": "small", "few large clients": "large"}
"""How the claims on an experiment begin."""

_CLOSE = 0.005
"""Relative difference within which a reading gives a printed level (the claims' own tolerance)."""

Numbers = Mapping[str, Mapping[str, float]]


def baseline_levels(book: Workbook, levels: Numbers) -> dict[str, dict[str, str]]:
    """Decide the printed sigmas of the baselines: "small-wcs", "small-ols", "large-wcs" and "large-ols".

    Returns:
        Experiment -> baseline -> verdict.
    """
    reason = "ours is the level of the theorem's exact formula"
    return {
        name: {
            baseline: book.number(f"{prefix}-{baseline.lower()}", levels[name][baseline], reason)
            for baseline in ("WCS", "OLS")
        }
        for name, prefix in _PREFIXES.items()
    }


def scheme_levels(
    book: Workbook, levels: Numbers, printed: Numbers, tried: Numbers
) -> dict[str, dict[str, str]]:
    """Decide the printed sigmas of the scheme: "small-scheme" and "large-scheme".

    Returns:
        Experiment -> "scheme" -> verdict.
    """
    verdicts = {}
    for name, prefix in _PREFIXES.items():
        level, stated = levels[name], printed[name]["scheme"]
        reason = _why_not(level, stated, tried[name])
        verdicts[name] = {"scheme": book.number(f"{prefix}-scheme", level[PRINTED], reason)}
    return verdicts


def _why_not(level: Mapping[str, float], stated: float, tried: Mapping[str, float]) -> str:
    """Why Theorem 4.1 does not give the stated sigma: which reading does, and what is needed."""
    fitting = [name for name, sigma in tried.items() if abs(sigma / stated - 1) <= _CLOSE]
    parts = []
    if level[PRINTED] == 0:
        parts.append("the formula as printed is met at every sigma, so it asks for no noise at all")
    parts.append(
        f"the printed value is that of the reading {', '.join(map(repr, fitting))}"
        if fitting
        else f"no reading of the theorem tried above gives {stated:g}"
    )
    if stated < level["scheme, lower"]:
        parts.append(f"{stated:g} is below the certified lower bound {level['scheme, lower']:.4g}")
    return "; ".join(parts)


def scheme_guarantees(
    book: Workbook, levels: Numbers, given: Mapping[str, Numbers], delta: float, rounding: float
) -> None:
    """Decide "small-guarantee" and "large-guarantee": the scheme's printed sigma meets the target.

    Args:
        book: the notebook's workbook.
        levels: from `needed_noise`.
        given: from `guarantees`.
        delta: target, in (0, 1).
        rounding: relative slack for the printed digits, >= 0.
    """
    for name, prefix in _PREFIXES.items():
        row, needed = given[name]["scheme"], levels[name]
        attained = row["delta, lower"]
        book.statement(
            f"{prefix}-guarantee",
            attained <= delta * (1 + rounding),
            f"delta is at least {attained:.2e} ({attained / delta:.3g} times the target)",
            "an explicit pair of data sets leaks more; the level needed lies in "
            f"[{needed['scheme, lower']:.4f}, {needed['scheme, upper']:.4f}]",
        )


def baseline_guarantees(
    book: Workbook, levels: Numbers, given: Mapping[str, Numbers], delta: float, rounding: float
) -> None:
    """Decide "baseline-guarantees": the printed sigmas of WCS and OLS meet the target.

    The arguments are those of `scheme_guarantees`.
    """
    rows = {
        (name, baseline): given[name][baseline] for name in _PREFIXES for baseline in ("WCS", "OLS")
    }
    worst = max(rows, key=lambda key: rows[key]["delta, upper"])
    ratio = rows[worst]["delta, upper"] / delta
    name, baseline = worst
    stated, needed = rows[worst]["sigma, printed"], levels[name][baseline]
    book.statement(
        "baseline-guarantees",
        ratio <= 1 + rounding,
        f"delta is at most {ratio:.3f} times the target; the printed levels are {_below(rows, levels)} "
        "below the exact ones",
        f"the printed {stated:g} for {baseline} is {100 * (1 - stated / needed):.1f} % below {needed:.5g}, and "
        "delta falls steeply with sigma",
    )


def _below(rows: Mapping[tuple[str, str], Mapping[str, float]], levels: Numbers) -> str:
    """How far the printed levels lie below the exact ones, from the least to the most."""
    short = [
        1 - row["sigma, printed"] / levels[name][baseline] for (name, baseline), row in rows.items()
    ]
    return f"{100 * min(short):.2f} % to {100 * max(short):.2f} %"
