"""The claims of Figures 4 and 6 of MS-PAFL: whole runs, printed and true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from repro.accounting.mspafl.printed import hoeffding_delta
from reproduce.papers.mspafl.claims import (
    Curves,
    Finding,
    ascending,
    by_label,
    listed,
    undecided,
)
from reproduce.papers.mspafl.curves import Bracket, Panels, Setting


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
        ascending(panels[part], totals[part], letter)
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
        f"true epsilon at the printed delta at most {by_label(margin)} of the printed one",
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
        f"true epsilon over printed, at least, at the worst T: {by_label(excess)}",
        MEMORY,
    )


def pair_server(
    panels: Panels,
    truth: Mapping[str, Mapping[str, Any]],
    rounds: NDArray,
    named: bool = False,
) -> Finding:
    """Whether Theorem 4 holds against a server; arguments as for `pair_average`."""
    least, most = (
        _over_printed(panels, rounds, named, lambda p, k, e=end: truth[p][k]["server"][e])
        for end in ("lower", "upper")
    )
    told = ", ".join(f"{least[k]:.2f} to {most[k]:.2f} ({k})" for k in least)
    broken = [k for k in least if least[k] > 1]
    safe = [k for k in least if most[k] <= 1]
    unclear = [k for k in least if k not in broken and k not in safe]
    answers = holds_against_server(panels, truth, rounds, named)
    at = {
        k: [int(t) for t, a in zip(rounds, answers[k], strict=True) if a == "open"] for k in unclear
    }
    told_open = "; ".join(f"{k} at T = {', '.join(map(str, at[k]))}" for k in unclear)
    return Finding(
        False if broken else None if unclear else True,
        f"true epsilon at the printed delta over the printed one, at the worst T: {told}; holds in "
        f"{len(safe)} of {len(least)} settings, fails in {len(broken)}",
        f"fails for {', '.join(broken)}: {MEMORY}"
        if broken
        else f"the bracket contains the printed value for {told_open}",
    )


def holds_against_server(
    panels: Panels, truth: Mapping[str, Mapping[str, Any]], rounds: NDArray, named: bool = False
) -> dict[str, list[str]]:
    """By label and T: whether the pair of Theorem 4 holds against a server ("yes", "no", "open")."""
    return {
        f"{part} {label}" if named else label: [
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
    (rates, wor), (_, wr) = (ascending(panels[part], totals[part], "q") for part in panels)
    if len(rates) < 2:
        return undecided("b")
    return Finding(
        bool(np.all(np.diff(wor, axis=0) > 0) and np.all(np.diff(wr, axis=0) > 0)),
        f"WOR at T = {most}: {listed(wor[:, -1])}; WR: {listed(wr[:, -1])}",
        "the curves of two batch sizes cross or coincide",
    )


def replacement_lowers(panels: Panels, totals: Mapping[str, Curves], most: int) -> Finding:
    """Whether the totals of Figure 6 are lower with replacement, wherever q is."""
    (q, wor), (smaller_q, wr) = (ascending(panels[part], totals[part], "q") for part in panels)
    differ = np.array(smaller_q) < np.array(q)  # one draw a round has the same q in both
    return Finding(
        bool(np.all(wr <= wor) and np.all(wr[differ] < wor[differ])),
        f"WR over WOR at T = {most}: {listed(wr[:, -1] / wor[:, -1], '.3f')}",
        "the curves of the two ways of sampling cross or coincide",
    )


def crucial_role(
    panels: Panels,
    views: Mapping[str, Mapping[str, Mapping[str, Bracket]]],
    totals: Mapping[str, Curves],
    rounds: NDArray,
) -> Finding:
    """Whether the smallest batch at least halves the true loss, WOR, at the last T.

    The paper says so of the global model, which the averages show; the text tells of the server too.
    """
    ordered = sorted(panels["(a)"], key=lambda label: panels["(a)"][label].q)
    if len(ordered) < 2:
        return undecided("b")
    small, large = ordered[0], ordered[-1]
    ends = {
        (name, label): [views["(a)"][label][name][end][-1] for end in ("lower", "upper")]
        for name in ("average", "server")
        for label in (small, large)
    }
    (low, high), (least, most) = ends["average", small], ends["average", large]
    told = "; ".join(
        f"{words}: {ends[name, small][0]:.2g} to {ends[name, small][1]:.2g} for {small}, "
        f"{ends[name, large][0]:.2g} to {ends[name, large][1]:.2g} for {large}"
        for name, words in (("average", "averaged models"), ("server", "server"))
    )
    return Finding(
        True if high <= least / 2 else False if low > most / 2 else None,
        f"WOR, T = {rounds[-1]}: {told}; the formula has {totals['(a)'][small][-1]:.3g} and "
        f"{totals['(a)'][large][-1]:.3g}",
        "a private half that is kept remembers every record that was ever drawn, so that sampling "
        "only delays the loss"
        if low > most / 2
        else "the bracket of the averaged models is too wide to tell; against the server the batch size "
        "hardly matters",
    )
