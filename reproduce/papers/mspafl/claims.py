"""The claims of Figures 3, 4 and 6 of MS-PAFL, decided on whatever numbers are at hand.

The functions build their texts from the numbers, so that the texts stay true where a reader has
changed a parameter. A claim that the numbers cannot decide (an order of one curve) stays open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from repro.accounting.mspafl.printed import hoeffding_delta, total_delta
from reproduce.notebook import Workbook
from reproduce.papers.mspafl.curves import Bracket, Panels, Setting, round_views

Curves = Mapping[str, NDArray]
"""Label -> values of one curve, all of one shape."""

SUBSTANTIAL = 1.25
"""The factor from one curve to the next that we call "substantially lower"."""


class Finding(NamedTuple):
    """Whether a statement holds on our numbers (None: they cannot tell), the numbers, and why not."""

    holds: bool | None
    ours: str
    reason: str = ""


def record(book: Workbook, findings: Mapping[str, Finding]) -> None:
    """Hand findings by claim to the workbook."""
    for claim, finding in findings.items():
        if finding.holds is None:
            book.pending(claim, finding.ours)
        else:
            book.statement(claim, *finding)


def _listed(values: Sequence[float] | NDArray, form: str = ".3g") -> str:
    return ", ".join(f"{value:{form}}" for value in values)


def _by_label(values: Mapping[str, float], form: str = ".2f") -> str:
    return ", ".join(f"{value:{form}} ({label})" for label, value in values.items())


def _ascending(row: Mapping[str, Setting], curves: Curves, letter: str) -> tuple[list, NDArray]:
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
    rates, values = _ascending(row, curves, letter)
    if len(rates) < 2:
        return undecided(letter)
    factor = values[1:] / values[:-1]
    at_end = f"{_listed(values[:, -1])} for {letter} = " + ", ".join(map(str, rates))
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
    rates, values = _ascending(row, curves, "p")
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
    panels: Panels, views: Mapping[str, Mapping[str, Mapping[str, Bracket]]], local: NDArray
) -> dict[str, Finding]:
    """Whether the pair of Corollary 1 holds against each adversary.

    Args:
        panels: of Figure 3.
        views: part -> label -> what `round_views` returns at `local`.
        local: local epsilons > 0, shape (n,).

    Returns:
        "pair-average" and "pair-server".
    """
    average, server = {}, {}
    for part, row in panels.items():
        for label, s in row.items():
            formula = s.round_epsilon(local)
            average[label] = float(np.max(views[part][label]["average"]["upper"] / formula))
            server[label] = float(np.max(views[part][label]["server"]["lower"] / formula))
    s = next(iter(_flat(panels).values()))
    small = Setting(0.1, 5 / 325, s.clients, s.beta, s.local_epsilon, s.local_delta, s.slack)
    at_small = round_views(small, local[-1:])["average"]["lower"] / small.round_epsilon(local[-1:])
    worst = max(average.values())
    return {
        "pair-average": Finding(
            worst <= 1,
            f"true epsilon at most {worst:.2f} of the printed one in this figure; at p = 0.1, "
            f"q = 5/325 at least {at_small[0]:.1f} times",
            "data sampling does not amplify when a private half is carried over",
        ),
        "pair-server": Finding(
            max(server.values()) <= 1,
            "true epsilon over printed, at most: " + _by_label(server, ".2g"),
            "participants are known to the server and the private half is carried over: neither p "
            "nor q amplifies",
        ),
    }


# Figures 4 and 6: whole runs ----------------------------------------------------------------------


def scaling(panels: Panels, totals: Mapping[str, Curves], fixed: Setting, most: int) -> Finding:
    """Whether the printed totals of Figure 4 are of order q sqrt(p T).

    The exponent of T is that between T / 2 and T, those of p and q between the two lower curves.

    Args:
        panels: of Figure 4.
        totals: part -> label -> totals up to T = `most`.
        fixed: p and q of the curve that T is varied on.
        most: the last T.
    """
    (p, by_p), (q, by_q) = (
        _ascending(panels[part], totals[part], letter)
        for part, letter in (("(a)", "p"), ("(b)", "q"))
    )
    if len(p) < 2 or len(q) < 2 or most < 2:
        return Finding(None, "exponents need two values of p, of q and of T")
    half = most // 2
    growth = np.log(fixed.total_epsilon(most) / fixed.total_epsilon(half)) / np.log(most / half)
    exponents = {
        "q": np.log(by_q[1, -1] / by_q[0, -1]) / np.log(q[1] / q[0]),
        "p": np.log(by_p[1, -1] / by_p[0, -1]) / np.log(p[1] / p[0]),
        "T": growth,
    }
    expected = {"q": 1.0, "p": 0.5, "T": 0.5}
    return Finding(
        all(abs(exponents[k] - expected[k]) <= 0.25 for k in expected),
        "exponents of the printed totals: "
        + ", ".join(f"{value:.2f} of {k}" for k, value in exponents.items()),
        "Theorem 3 is about a client's own loss; the total of Theorem 4 has p and q inside epsilon_c, "
        "and its second term, T epsilon_c (exp(epsilon_c) - 1), grows linearly in T and "
        "quadratically in p q",
    )


def run_within_target(panels: Panels, rounds: NDArray, target: float) -> Finding:
    """Whether the delta of Theorem 4 after the last of `rounds` is the target at most."""
    settings = [s for row in panels.values() for s in row.values()]
    last = [float(s.total_delta(rounds[-1])) for s in settings]
    within = [float(s.total_delta(1)) <= target for s in settings]
    from_the_start = "above the target from T = 1 on" if not any(within) else "within it at T = 1"
    s = settings[0]
    spill = float(hoeffding_delta(s.clients, s.beta))
    return Finding(
        max(last) <= target,
        f"T delta_c + delta~ = {min(last):.2g} to {max(last):.2g} at T = {rounds[-1]}; "
        + from_the_start,
        (
            f"already delta~ = {s.slack:g} uses the target up, and each"
            if s.slack >= target
            else "each"
        )
        + f" round adds delta' = {spill:.1e} and p q {s.local_delta:g}",
    )


def pair_average(
    panels: Panels, truth: Mapping[str, Mapping[str, Any]], rounds: NDArray, named: bool = False
) -> Finding:
    """Whether Theorem 4 holds against one who sees averages only.

    Args:
        panels: of the figure.
        truth: part -> label -> what `at_printed_delta` returns.
        rounds: T, shape (n,).
        named: the texts name the part of the figure before the label.
    """
    margin = _over_printed(panels, rounds, named, lambda p, k: truth[p][k]["average"]["upper"])
    return Finding(
        max(margin.values()) <= 1,
        f"true epsilon at the printed delta at most {_by_label(margin)} of the printed one",
        "the bracket around the truth reaches above the printed value",
    )


def _over_printed(panels: Panels, rounds: NDArray, named: bool, epsilon: Any) -> dict[str, float]:
    """Largest ratio of `epsilon(part, label)` to (23a) over `rounds`, by label."""
    return {
        f"{part} {label}" if named else label: float(
            np.max(epsilon(part, label) / s.total_epsilon(rounds))
        )
        for part, row in panels.items()
        for label, s in row.items()
    }


MEMORY = (
    "data sampling and check-in do not amplify against one who sees the uploads of clients with a "
    "memory"
)


def target_server(
    panels: Panels, views: Mapping[str, Mapping[str, Mapping[str, Bracket]]], rounds: NDArray
) -> Finding:
    """Whether (23a) holds at the target delta against a server; `views` are those of the figure."""
    excess = _over_printed(panels, rounds, False, lambda p, k: views[p][k]["server"]["lower"])
    return Finding(
        max(excess.values()) <= 1,
        f"true epsilon over printed, at least, at the worst T: {_by_label(excess)}",
        MEMORY,
    )


def pair_server(panels: Panels, truth: Mapping[str, Mapping[str, Any]], rounds: NDArray) -> Finding:
    """Whether Theorem 4 holds against a server; arguments as for `pair_average`."""
    excess = _over_printed(panels, rounds, True, lambda p, k: truth[p][k]["server"]["lower"])
    return Finding(
        max(excess.values()) <= 1,
        "true epsilon at the printed delta over the printed one, at least, at the worst T: "
        + _by_label(excess),
        MEMORY,
    )


def holds_against_server(
    panels: Panels, truth: Mapping[str, Mapping[str, Any]], rounds: NDArray
) -> dict[str, list[str]]:
    """By label and T: whether the pair of Theorem 4 holds against a server ("yes", "no", "open")."""
    return {
        label: [
            "no" if low > formula else "yes" if high <= formula else "open"
            for formula, low, high in zip(
                s.total_epsilon(rounds), *truth[part][label]["server"].values(), strict=True
            )
        ]
        for part, row in panels.items()
        for label, s in row.items()
    }


def grows_with_batch(panels: Panels, totals: Mapping[str, Curves], most: int) -> Finding:
    """Whether the printed totals of Figure 6 grow with the batch size; they end at T = `most`."""
    (rates, wor), (_, wr) = (_ascending(panels[part], totals[part], "q") for part in panels)
    if len(rates) < 2:
        return undecided("b")
    return Finding(
        bool(np.all(np.diff(wor, axis=0) > 0) and np.all(np.diff(wr, axis=0) > 0)),
        f"WOR at T = {most}: {_listed(wor[:, -1])}; WR: {_listed(wr[:, -1])}",
        "the curves of two batch sizes cross or coincide",
    )


def replacement_lowers(panels: Panels, totals: Mapping[str, Curves], most: int) -> Finding:
    """Whether the totals of Figure 6 are lower with replacement, wherever q is."""
    (q, wor), (smaller_q, wr) = (_ascending(panels[part], totals[part], "q") for part in panels)
    differ = np.array(smaller_q) < np.array(q)  # one draw a round has the same q in both
    return Finding(
        bool(np.all(wr <= wor) and np.all(wr[differ] < wor[differ])),
        f"WR over WOR at T = {most}: {_listed(wr[:, -1] / wor[:, -1], '.3f')}",
        "the curves of the two ways of sampling cross or coincide",
    )


def crucial_role(
    panels: Panels,
    views: Mapping[str, Mapping[str, Mapping[str, Bracket]]],
    totals: Mapping[str, Curves],
    rounds: NDArray,
) -> Finding:
    """Whether the smallest batch at least halves the true loss to the server, WOR, at the last T."""
    ordered = sorted(panels["(a)"], key=lambda label: panels["(a)"][label].q)
    if len(ordered) < 2:
        return undecided("b")
    small, large = ordered[0], ordered[-1]
    low = views["(a)"][small]["server"]["lower"][-1]
    high = views["(a)"][large]["server"]["upper"][-1]
    return Finding(
        bool(low <= high / 2),
        f"server, WOR, T = {rounds[-1]}: at least {low:.1f} for {small}, at most {high:.1f} for {large}; "
        f"the formula has {totals['(a)'][small][-1]:.3g} and {totals['(a)'][large][-1]:.3g}",
        "a private half that is kept remembers every record that was ever drawn, so that sampling "
        "only delays the loss",
    )
