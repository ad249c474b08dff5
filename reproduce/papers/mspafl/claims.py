"""How claims of Figures 3 to 6 of MS-PAFL are decided, and those of Figure 3, on whatever numbers are at hand.

The functions build their texts from the numbers, so that the texts stay true where a reader has
changed a parameter. A claim that the numbers cannot decide (an order of one curve) stays open; a claim
that a bracket leaves open is undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.accounting.mspafl.printed import total_delta
from reproduce.notebook import Workbook
from reproduce.papers.mspafl.curves import Bracket, Panels, Setting, round_views

Curves = Mapping[str, NDArray]
"""Label -> values of one curve, all of one shape."""

SUBSTANTIAL = 1.25
"""The factor from one curve to the next that we call "substantially lower"."""


class Finding(NamedTuple):
    """Whether a statement holds on our numbers, the numbers, and why not.

    None: the numbers contain both answers, where there is a reason; without a reason they say nothing.
    """

    holds: bool | None
    ours: str
    reason: str = ""


def record(book: Workbook, findings: Mapping[str, Finding]) -> None:
    """Hand findings by claim to the workbook."""
    for claim, finding in findings.items():
        if finding.holds is None and not finding.reason:
            book.pending(claim, finding.ours)
        else:
            book.statement(claim, *finding)


def listed(values: Sequence[float] | NDArray, form: str = ".3g") -> str:
    """Numbers in a row."""
    return ", ".join(f"{value:{form}}" for value in values)


def by_label(values: Mapping[str, float], form: str = ".2f") -> str:
    """Numbers in a row, each with its label."""
    return ", ".join(f"{value:{form}} ({label})" for label, value in values.items())


def ascending(row: Mapping[str, Setting], curves: Curves, letter: str) -> tuple[list, NDArray]:
    """The values of one parameter in ascending order, and the curves in this order, (n, points)."""
    ordered = sorted(row, key=lambda label: getattr(row[label], letter))
    return [getattr(row[k], letter) for k in ordered], np.array([curves[k] for k in ordered])


def _flat(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Label -> value, for parts whose labels differ."""
    return {label: value for row in parts.values() for label, value in row.items()}


def undecided(letter: str) -> Finding:
    """The finding where an order has one curve only."""
    return Finding(None, f"an order needs two values of {letter}")


def increases(
    row: Mapping[str, Setting], curves: Curves, letter: str, where: str, least: float = 1.0
) -> Finding:
    """Whether curves grow with a parameter at every point.

    Args:
        row: label -> setting.
        curves: label -> values; positive.
        letter: "p" or "q", the parameter.
        where: the place of the last point, in words.
        least: factor by which each curve must exceed the one below it; 1: it lies above.
    """
    rates, values = ascending(row, curves, letter)
    if len(rates) < 2:
        return undecided(letter)
    factor = values[1:] / values[:-1]
    at_end = f"{listed(values[:, -1])} for {letter} = " + ", ".join(map(str, rates))
    if least == 1.0:
        return Finding(
            bool(np.all(factor > 1)), f"{where}: {at_end}", "the curves cross or coincide"
        )
    return Finding(
        bool(np.all(factor >= least)),
        f"from one curve to the next at least {factor.min():.2g} times, {where}: {at_end}",
        "the curves are ordered as stated, but close to each other"
        if np.all(factor > 1)
        else "the curves cross or coincide",
    )


# Figure 3: one round ------------------------------------------------------------------------------


def baseline(row: Mapping[str, Setting], curves: Curves, largest_epsilon: float) -> Finding:
    """Whether p = 1 is the curve with the largest loss; `curves` end at `largest_epsilon`."""
    rates, values = ascending(row, curves, "p")
    if rates[-1] < 1 or len(rates) < 2:
        return Finding(None, "it takes a curve for p = 1 and another one")
    return Finding(
        bool(np.all(values[-1] >= values)),
        f"p = 1 is {values[-1, -1] / values[0, -1]:.2g} times p = {rates[0]:g} at local epsilon "
        f"{largest_epsilon:g}",
        "another curve lies above the curve for p = 1",
    )


def joint_tighter(panels: Panels, local: NDArray) -> Finding:
    """Whether both samplings together bound the loss below either alone, wherever p < 1.

    Args:
        panels: of Figure 3.
        local: local epsilons > 0, shape (n,).
    """
    gain = {}
    for s in _flat(panels).values():
        if s.p < 1:
            no_factor_from_q = Setting(
                s.p, 0.5, s.clients, s.beta, s.local_epsilon, s.local_delta, s.slack
            )
            alone = np.minimum(no_factor_from_q.round_epsilon(local), 2 * s.q * local)
            gain[f"p = {s.p:g}, q = {s.q:g}"] = float(np.max(s.round_epsilon(local) / alone))
    if not gain:
        return Finding(None, "no curve has p < 1")
    worst = max(gain, key=gain.__getitem__)
    others = ", ".join(f"{value:.2f} at {k}" for k, value in gain.items() if k != worst)
    return Finding(
        gain[worst] < 1,
        f"joint over the better of the two, worst case {gain[worst]:.3f} at {worst}"
        + (f"; {others}" if others else ""),
        "from q = 0.5 on, the factor 2 of Theorem 1 is as large as the whole gain by data sampling",
    )


def round_within_target(deltas: Mapping[str, Mapping[str, float]], target: float) -> Finding:
    """Whether the delta of one round, (20b), stays within the target."""
    largest = max(_flat(deltas).values())
    return Finding(
        largest <= target,
        f"at most {largest:.2g} a round, {float(total_delta(largest, 1000, slack=target)):.2g} after "
        f"1,000 rounds; above the target from T = {int(target // largest) + 1} on, whatever delta~ is",
        "delta' = 2 exp(-2 beta^2 N) alone, or p q delta_l, exceeds the target",
    )


def printed_round_pairs(
    panels: Panels,
    views: Mapping[str, Mapping[str, Mapping[str, Bracket]]],
    local: NDArray,
    small: Setting,
) -> dict[str, Finding]:
    """Whether the pair of Corollary 1 holds against each adversary.

    Args:
        panels: of Figure 3.
        views: part -> label -> what `round_views` returns at `local`.
        local: local epsilons > 0, shape (n,).
        small: a further setting, of which the text tells.

    Returns:
        "pair-average" and "pair-server".
    """
    average, server = {}, {}
    for part, row in panels.items():
        for label, s in row.items():
            formula = s.round_epsilon(local)
            average[label] = float(np.max(views[part][label]["average"]["upper"] / formula))
            server[label] = float(np.max(views[part][label]["server"]["lower"] / formula))
    at_small = round_views(small, local[-1:])["average"]["lower"] / small.round_epsilon(local[-1:])
    worst = max(average.values())
    return {
        "pair-average": Finding(
            worst <= 1,
            f"true epsilon at most {worst:.2f} of the printed one in this figure; at "
            f"p = {small.p:g}, q = {small.q:.2g} at least {at_small[0]:.1f} times",
            "data sampling does not amplify when a private half is carried over",
        ),
        "pair-server": Finding(
            max(server.values()) <= 1,
            "true epsilon over printed, at most: " + by_label(server, ".2g"),
            "participants are known to the server and the private half is carried over: neither p "
            "nor q amplifies",
        ),
    }
