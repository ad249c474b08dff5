"""What the figures of times and of clients say about the paper's statements, with the numbers that say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from repro.accounting.ddpsa.printed import MECHANISMS
from reproduce.papers.ddpsa import compare, stated
from reproduce.papers.statistics import Answer, Comparisons

__all__ = ["Finding", "against_clients", "times"]

SLIGHTLY = 1.5
"""The factor below which one time is slightly longer than another."""

TOGETHER = 0.1
"""How far from 1 a sum of times over a time may be where costs add up."""


class Finding(NamedTuple):
    """What `Verdicts.statement` takes: whether it holds, the numbers, and why it does not."""

    holds: bool | None
    ours: str
    reason: str


def times(arrays: Mapping[str, float], loops: Mapping[str, float]) -> dict[str, Finding]:
    """Figure 6: the order of the four times of a round, "slightly", and whether costs add up.

    Args:
        arrays: seconds by mechanism, each client's records as one array.
        loops: likewise, one record after the other, for the mechanisms that clip.

    Returns:
        By claim. A statement holds where it holds in both ways of clipping; "additive" in the
        paper's numbers as well.
    """
    ways = {"arrays": arrays, "record by record": {**arrays, **loops}}
    told = [
        f"{way}: " + ", ".join(f"{name} {t[name]:.2g} s" for name in MECHANISMS)
        for way, t in ways.items()
    ]
    over = {
        f"{way}, over {name}": t["DDP-SA"] / t[name]
        for way, t in ways.items()
        for name in ("LDP", "MPC")
    }
    sums = {
        way: (t["LDP"] + t["MPC"] - t["No-Private"]) / t["DDP-SA"]
        for way, t in {"paper": stated.SECONDS, **ways}.items()
    }
    return {
        "order": Finding(
            all(t["No-Private"] < t["MPC"] < t["LDP"] < t["DDP-SA"] for t in ways.values()),
            "; ".join(told),
            "clipping and noise take longer than sharing only where clipping is a loop over records",
        ),
        "slightly": Finding(
            all(ratio < SLIGHTLY for ratio in over.values()),
            "DDP-SA, "
            + "; ".join(f"{what}: {float(f'{ratio:.2g}'):g} times" for what, ratio in over.items()),
            f"slightly is read as less than {SLIGHTLY:g} times; sharing more than doubles the short round of arrays, "
            "and record by record clipping takes hundreds of times as long as sharing",
        ),
        "additive": Finding(
            all(abs(ratio - 1) <= TOGETHER for ratio in sums.values()),
            "LDP + MPC - No-Private over DDP-SA: "
            + ", ".join(f"{way} {ratio:.3f}" for way, ratio in sums.items()),
            f"the costs do not add up within {100 * TOGETHER:g} %",
        ),
    }


def against_clients(
    loss: compare.Losses, clients: Sequence[int], equal: Sequence[int], margin: float
) -> dict[str, tuple[Answer, str]]:
    """Figure 9: the orders of losses, each with a hint at what explains it.

    Args:
        loss: by reading ("all records", the box; "batches"; "descent") and variant.
        clients: n, ascending.
        equal: those of them with noise in shares at equal total guarantee.
        margin: within which losses count as equal, as a ratio.

    Returns:
        By claim, the answer of all comparisons together (Holm), and the hint.
    """
    places = [f"n = {n}" for n in clients]
    few, many = places[0], places[-1]
    box, descent = loss["all records"], loss["descent"]
    found = Comparisons(margin, ratios=True)
    found.ahead("better-than-ldp", compare.sides(box, "LDP", "DDP-SA", places))
    for claim, runs in (("falls", box), ("averaging", descent)):
        wanted = {
            f"{x}, {few} over {many}": (runs[f"{x}, {few}"], runs[f"{x}, {many}"])
            for x in ("LDP", "DDP-SA")
        }
        found.ahead(claim, wanted)
    for kind, some in (("round", clients), ("total", equal)):
        if some:
            shared = compare.sides(
                descent, "LDP", f"shares, equal {kind}", [f"n = {n}" for n in some]
            )
            found.ahead(f"shares-equal-{kind}", shared)
    apart = compare.versus_ldp(loss, places)
    fall = {
        reading: compare.ratio(runs[f"LDP, {many}"], runs[f"LDP, {few}"]).mean
        for reading, runs in loss.items()
    }
    hints = {
        "better-than-ldp": "they add the same noise; DDP-SA over LDP, all n together: batches "
        f"{apart['batches']['all together']}, gradient descent {apart['descent']['all together']}",
        "falls": "in the box it does not depend on n; the last loss over the first is "
        f"{fall['batches']:.2f} with batches of one size and {fall['descent']:.2f} with gradient descent",
        "averaging": "gradient descent; with the records dealt evenly the noise of the average has variance "
        "2 n (Δ/ε)^2 / N^2, which grows with n",
        "shares-equal-round": "",
        "shares-equal-total": "one Laplace variable needs up to twice the variance of the sum of the clients' own for "
        "the same total guarantee: its Fisher information about a shift is higher",
    }
    return {claim: (answer, hints[claim]) for claim, answer in found.answers().items()}
