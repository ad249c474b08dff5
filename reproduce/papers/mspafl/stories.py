"""Three sentences below each picture of MS-PAFL, made from its numbers: claimed, found, why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from reproduce.papers.mspafl.claims import Curves, Finding
from reproduce.papers.mspafl.curves import Bracket, Panels

Story = tuple[str, str, str]
"""Claimed, found, why."""

Truth = Mapping[str, Mapping[str, Mapping[str, Bracket]]]
"""Part -> label -> view -> ends."""


def _flat(parts: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    return [one for row in parts.values() for one in row.values()]


def _reach(values: list[float], form: str = ".2g") -> str:
    low, high = f"{min(values):{form}}", f"{max(values):{form}}"
    return low if low == high else f"{low} to {high}"


def one_round(
    panels: Panels, printed: Mapping[str, Curves], views: Truth, at: NDArray, small: Any
) -> Story:
    """Figure 3.

    Args:
        panels: of the figure. printed: part -> label -> formula, up to the last local epsilon.
        views: what the adversaries learn at the local epsilons `at`.
        small: (formula, views) of one more setting at the last local epsilon.
    """  # fmt: skip
    ends = [float(curve[-1]) for curve in _flat(printed)]
    ratio = {
        name: [
            float(views[part][label][name]["upper"][-1] / s.round_epsilon(at[-1]))
            for part, row in panels.items()
            for label, s in row.items()
        ]
        for name in ("server", "average")
    }
    formula, found = small
    further = found["average"]["lower"] / formula
    return (
        "In one round, a smaller check-in probability p or a smaller sampling ratio q gives a smaller "
        "central ε, and both together give a strictly tighter bound than either alone.",
        f"At local ε = {at[-1]:g} the formula goes from {min(ends):.2g} to {max(ends):.2g}. At the "
        f"formula's own δ, a server that sees the uploads can learn {_reach(ratio['server'])} times the "
        f"printed ε, and an observer of the averaged model alone {_reach(ratio['average'])} times; in a "
        f"setting with fewer draws (last row of (c)) that observer learns at least {further:.2g} times the "
        "printed ε.",
        "The server knows who sent an upload, so p hides nothing from it; the private half remembers "
        "every record that was drawn once, so q hides nothing from anyone. Where the pair holds for the "
        "averaged model, the noise of the other participants is the reason, and the formula does not "
        "count that noise.",
    )


def rates(
    panels: Panels, printed: Mapping[str, Curves], findings: Mapping[str, Finding], most: int
) -> Story:
    """Figure 4; `findings` has "scaling", "pair-server" and "target-server"."""
    return (
        "A smaller p or q gives a substantially lower total ε, in line with a loss of order q √(pT); "
        "the target δ is 10⁻⁴.",
        _printed_range(panels, printed, most)
        + f" Exponents: {findings['scaling'].ours.removeprefix('exponents of the printed totals: ')}. "
        + _server(findings),
        "Strong composition counts every round at its worst and ignores the noise of the other "
        "participants, which leaves room; each round adds δ' for a step that the proof does not need, "
        "which takes δ above the target; and against the server neither p nor q amplifies.",
    )


def batches(
    panels: Panels, printed: Mapping[str, Curves], findings: Mapping[str, Finding], most: int
) -> Story:
    """Figure 6; `findings` has "pair-server" and "crucial-role"."""
    return (
        "The total ε grows with the batch size b, and it is smaller with replacement (WR) than without "
        "(WOR), so local data sampling is crucial for the privacy cost of the global model.",
        _printed_range(panels, printed, most)
        + " "
        + _server(findings)
        + f" True loss at the target δ: {findings['crucial-role'].ours}.",
        "The private half remembers every record that was ever drawn. A smaller batch only delays the "
        "first draw; after it, data sampling hides nothing, and the formula for small b falls below the "
        "true loss.",
    )


def _printed_range(panels: Panels, printed: Mapping[str, Curves], most: int) -> str:
    ends = [float(curve[-1]) for curve in _flat(printed)]
    deltas = [float(s.total_delta(most)) for s in _flat(panels)]
    return (
        f"At T = {most:,} Theorem 4 gives ε from {min(ends):.3g} to {max(ends):.3g}, at δ from "
        f"{min(deltas):.2g} to {max(deltas):.2g}."
    )


def _server(findings: Mapping[str, Finding]) -> str:
    """What becomes of the printed pair, and of the printed epsilon at the target, with a server."""
    pair = findings["pair-server"]
    text = f"Against the server the pair of Theorem 4 {pair.ours.split('; ')[-1]}."
    if pair.holds is None:
        text += " The brackets leave the rest open."
    if "target-server" in findings:
        target = findings["target-server"]
        text += (
            " At the target δ the printed ε "
            + ("holds" if target.holds else "fails in some settings")
            + f" ({target.ours})."
        )
    return text


def local(found: Mapping[str, Any], most: int, at: NDArray) -> Story:
    """Figure 5.

    Args:
        found: what `curves.local_totals` returns.
        most: the last T of the printed curves.
        at: T of the true ones.
    """
    told = []
    for name, printed in found["printed"].items():
        truth, stated = found["truth"][name], found["stated"][name]
        low = {method: truth[method]["lower"][-1] for method in truth}
        told.append(
            f"At local ε = {name} Theorem 3 gives {printed['WR'][-1]:.3g} (WR), {printed['WOR'][-1]:.3g} "
            f"(WOR) and {printed['DP-FedAvg'][-1]:.3g} (DP-FedAvg) at T = {most:,}; at T = "
            f"{int(at[-1]):,} and the same δ the server can learn at least {low['WR']:.3g}, "
            f"{low['WOR']:.3g} and {low['DP-FedAvg']:.3g}, for WOR "
            f"{low['WOR'] / stated['WOR'][-1]:.2g} times the printed value"
        )
    return (
        "A client's total ε is smallest with replacement (WR), larger without (WOR) and largest with "
        "DP-FedAvg, and the advantage strengthens at the larger local ε.",
        ". ".join(told) + ".",
        "Theorem 3 is linear in the local ε, so its ratios never change. Its factor q counts on data "
        "sampling, but a record that was drawn once stays in the private half; what remains of the "
        "advantage over DP-FedAvg is that a client stays away from some rounds.",
    )


def training(
    answers: Mapping[str, Any], sigma: float, loud: Mapping[str, Mapping], p: Sequence[float]
) -> Story:
    """Figure 2.

    Args:
        answers: claim -> its answer, with `holds`.
        sigma: of the noise on an upload.
        loud: what `training_claims.loudness` returns.
        p: check-in probabilities.
    """
    words = {True: "yes", False: "no", None: "not decided"}
    asked = {
        "grows-with-p": "does accuracy grow with p",
        "wr-ends-higher": "does WR end higher",
        "wor-steadier": "is WOR steadier",
        "beats-dp-fedavg": "is MS-PAFL ahead of DP-FedAvg",
        "highly-accurate": "is it ahead of always answering the most frequent class",
        "utility-kept": "is it as accurate as training alone",
        "alone-with-both-labels": "is training alone ahead where clients hold both labels",
        "uploads-inform": "are its uploads worth more than pure noise",
    }
    ratio = [1 / power["signal to noise"] for by_p in loud.values() for power in by_p.values()]
    return (
        "Accuracy grows with the check-in probability p; drawing with replacement (WR) ends slightly "
        "higher, drawing without (WOR) is steadier; the models are highly accurate and beat DP-FedAvg.",
        "Where each client holds one of the two labels: "
        + "; ".join(f"{text}? {words[answers[key].holds]}" for key, text in asked.items())
        + ".",
        f"With σ = {sigma:.2f} on uploads of norm at most 1, the noise in the server's average has "
        f"{min(ratio):.0f} to {max(ratio):.0f} times the power of its signal (p from {max(p):g} to "
        f"{min(p):g}), so that the uploads carry next to nothing; accuracy comes from what the clients "
        "learn on their own, and more participants average the noise down.",
    )
