"""What the audits of all papers found, on one page, `docs/audits.md`: `make ledger` writes it.

Everything is read from the results of the notebooks called "audit", of the profile that is shown first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduce import paths
from reproduce.notation import symbols
from reproduce.quantities import percent
from reproduce.results import Result

NAME = "audit"
"""The name of an audit among the figures of its paper."""


_INTRODUCTION = """\
# Audits of the five systems

Written by `make ledger` from the results of the audit notebooks. Every system is trained many times as its code stands,
with and without a worst-case record, and an attacker tells the two apart. Three lower bounds follow, at 95 %
confidence and δ = 10⁻⁵: (a) ε without any assumption, (b) ε by our own trade-off curve with the noise unknown,
(c) the attacker's true-positive rate. Each stands here as a share of what our upper bound allows. A share above 1 would
refute the bound; a share near 1 says that bound and code agree."""

_ATTACKED = """\
## Guarantees that were attacked

Such a guarantee counts as beaten where p < 10⁻⁶. p is the chance of such counts if the guarantee were true, by Clopper
and Pearson, times the number of guarantees of the paper."""

_ATTACKER = """\
## What an attacker finds at the papers' own parameters

The share of the members that is found, at one false alarm in a hundred; who guesses finds 1 %. The third column is
reached with an explicit pair of data sets, no attacker exceeds the fourth."""


def place() -> Path:
    """Where the page stands; asked anew each time, since tests move the workbook."""
    return paths.ROOT / "docs/audits.md"


def page(found: Sequence[Result]) -> str:
    """The page, from the results of all figures."""
    audits = [item for item in found if item.entry.name == NAME and item.headline]
    parts = [_INTRODUCTION, "", "| system | setting | trainings | upper ε | (a) | (b) | (c) |"]
    parts += ["|---|---|---|---|---|---|---|"]
    for item in audits:
        parts += [
            f"| {_link(item)} | {name} | {bounds['trainings']:,} | {bounds['upper']:.3f} | "
            f"{bounds['free'] / bounds['upper']:.2f} | {bounds['implied'] / bounds['upper']:.2f} | "
            f"{bounds['tpr'][0] / bounds['tpr_limit']:.2f} |"
            for name, case in _cases(item)
            if (bounds := case["bounds"])
        ]
    reasons = sorted({case["weaker"] for item in audits for _, case in _cases(item)} - {""})
    if reasons:
        parts += ["", f"Where the canary is weaker than the bound allows: {'; '.join(reasons)}."]
    parts += [
        "",
        _ATTACKED,
        "",
        "| system | claim | guarantee | p | ε at least |",
        "|---|---|---|---|---|",
    ]
    for item in audits:
        number = sum(len(case["printed"]) for _, case in _cases(item))
        parts += [
            f"| {_link(item)} | {claim} | "
            + symbols(f"({told['epsilon']:.4g}, {told['delta']:.2g}) | {_chance(p[claim], number)}")
            + f" | {case['free']:.2f} |"
            for _, case in _cases(item)
            for p in [case["log10 p"]]
            for claim, told in case["printed"].items()
        ]
    parts += [
        "",
        _ATTACKER,
        "",
        "| system | release | finds | at most | promised |",
        "|---|---|---|---|---|",
    ]
    for item in audits:
        parts += [
            f"| {_link(item)} | {name} | {percent(risk['reached'])} | {percent(risk['most'])} | "
            f"{percent(risk['promised']) if 'promised' in risk else '-'} |"
            for name, risk in _data(item).get("attacker", {}).items()
        ]
    return "\n".join(parts) + "\n"


def _data(item: Result) -> Mapping[str, Any]:
    return item.records[item.headline]["data"]


def _cases(item: Result) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The settings of an audit by name; its other data have no bounds."""
    yield from ((name, case) for name, case in _data(item).items() if "bounds" in case)


def _link(item: Result) -> str:
    return f"[{item.entry.paper}](../{item.entry.notebook.relative_to(paths.ROOT).as_posix()})"


def _chance(log_p: float, number: int) -> str:
    """10^log_p times the number of guarantees; records keep no logarithm below -80."""
    return "< 1e-79" if log_p <= -80 else f"{min(1.0, number * 10.0**log_p):.1e}"
