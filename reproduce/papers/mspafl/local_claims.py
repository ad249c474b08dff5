"""The claims of Figure 5 of MS-PAFL: a client's own loss with replacement, without, and with DP-FedAvg.

The functions build their texts from the numbers at hand, as those of `claims`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.papers.mspafl.claims import Curves, Finding, undecided

METHODS = ("WR", "WOR", "DP-FedAvg")


def printed_order(curves: Curves, most: int) -> Finding:
    """Whether the printed totals of one panel are in the order of `METHODS`; they end at `most`."""
    wr, wor, fedavg = (curves[method] for method in METHODS)
    return Finding(
        bool(np.all(wr < wor) and np.all(wor < fedavg)),
        f"at T = {most}: {wr[-1]:.3g}, {wor[-1]:.3g}, {fedavg[-1]:.3g}; WR is "
        f"{wr[-1] / wor[-1]:.3f} of WOR",
        "Theorem 3 grows with q / sqrt(1 - q), and is above DP-FedAvg where that exceeds "
        "1 / sqrt(p)"
        if np.any(wor >= fedavg)
        else "one draw a round has the same q with and without replacement",
    )


def strengthens(found: Mapping[str, Any]) -> Finding:
    """Whether the printed lead over DP-FedAvg, as a ratio, grows with the local epsilon.

    Args:
        found: what `curves.local_totals` returns.
    """
    printed = found["printed"]
    names = sorted(printed, key=float)
    if len(names) < 2:
        return undecided("the local epsilon")
    ends = [(printed[k]["WR"][-1], printed[k]["DP-FedAvg"][-1]) for k in (names[0], names[-1])]
    gaps = [fedavg - wr for wr, fedavg in ends]
    shares = [fedavg / wr for wr, fedavg in ends]
    true = [
        found["truth"][k]["DP-FedAvg"]["upper"][-1] / found["truth"][k]["WR"]["upper"][-1]
        for k in (names[0], names[-1])
    ]
    return Finding(
        bool(shares[1] > shares[0] * (1 + 1e-9)),
        f"DP-FedAvg over WR is {shares[0]:.3g} and {shares[1]:.3g}; the difference goes from "
        f"{gaps[0]:.2g} to {gaps[1]:.2g}; true ratio at least {true[0]:.2f} and {true[1]:.2f}",
        "the formula is proportional to the local epsilon: every curve grows by the same factor, and "
        "the advantage strengthens only if it is taken as a difference",
    )


def true_local(found: Mapping[str, Any], rounds: NDArray, target: float) -> dict[str, Finding]:
    """The claims about what the server really learns.

    Args:
        found: what `local_totals` returns.
        rounds: its numbers of rounds.
        target: the target delta.

    Returns:
        "delta-target", "true-order-fedavg" and "true-order-wr".
    """
    stated, truth, delta = found["stated"], found["truth"], found["delta"]
    end = rounds[-1]

    def last(curves: Mapping[str, Any], method: str, side: str = "") -> NDArray:
        """The values at the last T, one for each local epsilon."""
        rows = [row[method][side] if side else row[method] for row in curves.values()]
        return np.array([row[-1] for row in rows])

    factor = last(truth, "WOR", "lower") / last(stated, "WOR")
    below = last(truth, "WOR", "upper") / last(truth, "DP-FedAvg", "lower")
    apart = last(truth, "WR", "lower") / last(truth, "WOR", "upper")
    formula = last(stated, "WOR") / last(stated, "DP-FedAvg")
    less = [
        np.all(row[method]["upper"] < row["DP-FedAvg"]["lower"])
        for row in truth.values()
        for method in ("WR", "WOR")
    ]
    separate = [np.all(row["WR"]["upper"] < row["WOR"]["lower"]) for row in truth.values()]
    sampled = [row[method].max() for row in delta.values() for method in ("WR", "WOR")]
    return {
        "delta-target": Finding(
            bool(max(sampled) <= target),
            f"WOR at T = {end}: delta at least {_joined(last(delta, 'WOR'), '.2g')}; epsilon at the "
            f"target at least {_joined(factor, '.2g')} times the printed one",
            "Theorem 3 counts on data sampling that the kept private half undoes, divides by a "
            "sensitivity that cancels (C.2), averages log moments over participation (C.4), and "
            "reads a lower bound, (C.8), as the loss",
        ),
        "true-order-fedavg": Finding(
            all(less),
            f"at T = {end} at most {_joined(below, '.2f')} of DP-FedAvg, which every client joins in "
            f"every round; the formula has {formula[-1]:.3f}",
            "brackets overlap",
        ),
        "true-order-wr": Finding(
            all(separate),
            f"at T = {end} WR is at least {_joined(apart, '.3f')} of WOR"
            + ("" if all(separate) else "; brackets overlap"),
            "with a kept private half the sampling ratio only delays the first draw",
        ),
    }


def _joined(values: NDArray, form: str) -> str:
    return " and ".join(f"{value:{form}}" for value in values)
