"""The sentences below the pictures of costs, and the texts of their tables, made from the numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from repro.accounting.ddpsa.printed import MECHANISMS
from reproduce.papers.clock import Spread
from reproduce.papers.ddpsa import stated
from reproduce.papers.ddpsa.layouts import power, spread
from reproduce.papers.ddpsa.stories import Story

Rows = dict[str, list[str]]
"""Head -> one text a row of a table in a picture."""


def survey(rows: int, articles: int, drawn: int, total: float, slips: Mapping[str, int]) -> Story:
    """Table I; `slips`: how often the table departs from its own notes and references, by kind."""
    found = ", ".join(f"{count} {kind}" for kind, count in slips.items() if count)
    return (
        "Table I summarizes over 70 recent articles on differentially private federated learning.",
        f"it has {rows} rows with {articles} different references, of which {drawn} state both ε and a number of "
        f"clients; it contains {found or 'no slip that we found'}.",
        "the paper's own ε is that of one round: the black lines set it among the others, at face value and as the "
        f"total of a run, {total:.0f}.",
    )


def operation_rows(
    ours: Mapping[str, Spread], loop: str, percent: Mapping[str, float], verdicts: Sequence[str]
) -> Rows:
    """Table II: the six operations, then clipping record by record.

    Args:
        ours: milliseconds by operation.
        loop: the key of clipping record by record.
        percent: of a client's time, by operation; that of the loop with the loop.
        verdicts: on the six times, and on clipping record by record.
    """
    names = [*stated.OPERATIONS, loop]
    total = sum(stated.OPERATIONS.values())
    paper = [*stated.OPERATIONS.values(), stated.OPERATIONS["clipping"]]
    return {
        "operation": [
            "clipping, as one array",
            *list(stated.OPERATIONS)[1:],
            "clipping, by record",
        ],
        "paper": [f"{x:.2f}" for x in paper],
        "paper %": [f"{100 * x / total:.2f}" for x in paper],
        "ours": [spread(ours[n].median, ours[n].low, ours[n].high) for n in names],
        "ours %": [f"{percent[n]:.1f}" for n in names],
        "verdict": [*[verdicts[0]] * len(stated.OPERATIONS), verdicts[1]],
    }


def operations(
    ours: Mapping[str, Spread], loop: str, percent: Sequence[float], records: int
) -> Story:
    """Table II; `percent`: of clipping with noise, record by record and as one array."""
    return (
        "of a client's 595.12 ms a round, gradient clipping takes 547.95 ms (92.07 %): clipping is the bottleneck, not "
        "cryptography.",
        f"clipping {records:,} gradients takes {ours[loop].median:,.0f} ms record by record and "
        f"{power(ours['clipping'].median)} ms as one array; clipping with noise is {percent[0]:.1f} % of a client's "
        f"time in the first case and {percent[1]:.1f} % in the second.",
        "the time is that of one call of automatic differentiation a record, not of the arithmetic: clipping is the "
        "bottleneck as the box is written, and is none as one array. The milliseconds are those of our machine; "
        "the paper's cannot be had on another.",
    )


def link_rows(
    formula: Mapping[str, Mapping[str, int]],
    counted: Mapping[str, Mapping[str, tuple[int, int]]],
    percent: Mapping[str, Mapping[str, float]],
    ours: Mapping[str, Mapping[str, float]],
    verdict: str,
) -> tuple[Rows, list[float], list[float]]:
    """Table III: one row a mechanism and link, and both columns of percentages as numbers.

    Args:
        formula: bytes by mechanism and link, as the table has them.
        counted: payload and bytes on the wire, likewise.
        percent: of what passes the parameter server, by the formula.
        ours: likewise, counted.
        verdict: on the percentages of the formula.
    """
    rows: Rows = {
        head: []
        for head in (
            *("component", "link", "formula", "paper", "paper %", "payload", "wire", "ours %"),
            "verdict",
        )
    }
    shares: tuple[list[float], list[float]] = ([], [])
    for name, links in formula.items():
        for k, (link, count) in enumerate(links.items()):
            theirs, found = percent[name].get(link), ours[name].get(link)
            rows["component"].append(name if k == 0 else "")
            rows["link"].append(link)
            rows["formula"].append("4 d m" if "servers" in link else "4 d")
            rows["paper"].append(f"{count:,}")
            rows["payload"].append(f"{counted[name][link][0]:,}")
            rows["wire"].append(f"{counted[name][link][1]:,}")
            rows["paper %"].append("-" if theirs is None else f"{theirs:.0f}")
            rows["ours %"].append("-" if found is None else f"{found:.0f}")
            rows["verdict"].append("-" if theirs is None else verdict)
            shares[0].append(np.nan if theirs is None else theirs)
            shares[1].append(np.nan if found is None else found)
    return rows, *shares


def links(
    ours: Mapping[str, Mapping[str, float]],
    clients: int,
    need: int,
    ratio: Mapping[int, float],
    verdicts: Sequence[str],
) -> Story:
    """Table III.

    Args:
        ours: counted shares by mechanism and link.
        clients: of the rounds that are counted.
        need: bytes of a share.
        ratio: ingress with the servers over that without them, by number of clients.
        verdicts: on the percentages and on the ingress.
    """
    part = ours["DDP-SA"]["servers to PS"]
    few = [f"n = {n}" for n, value in ratio.items() if value >= 1]
    many = max(ratio)
    return (
        "per client and round the parameter server receives 75 % of its bytes from m = 3 servers, with 4 bytes a "
        "number; for many more clients than servers these reduce its ingress from 4 n d to 4 m d.",
        f"for one client the percentages are those of the formulas ({verdicts[0]}); counted over real servers with "
        f"{clients} clients {part:.0f} % come from the servers; a share needs {need} bytes; the ingress falls to "
        f"{100 * ratio[many]:.0f} % for n = {many} ({verdicts[1]})"
        + (f", and does not fall for {', '.join(few)}." if few else "."),
        "the servers send m sums whatever n, and every client is sent the model. Ten decimals of a gradient of 4 do "
        "not fit into 32 bits.",
    )


def uploads(counted: Mapping[str, float], servers: int, keys: float, most: int) -> Story:
    """Figure 4; `keys`: vectors uploaded for a long vector with keys and `most` servers."""
    return (
        "No-Private and LDP upload 3 numbers, MPC and DDP-SA 9, for d = m = 3; the cost grows linearly with m.",
        f"counted over real servers with m = {servers}: "
        + ", ".join(f"{name} {value:g}" for name, value in counted.items())
        + f"; with keys in place of all shares but one, a long vector costs {keys:.2f} uploads for m = {most}.",
        "a share in full is as long as the vector. A key of 16 bytes expands to a whole share, so that the growth "
        "with m is a choice of the paper's protocol.",
    )


def minutes(
    found: Mapping[str, float],
    slow: Mapping[str, float],
    until: Mapping[str, float],
    verdicts: Sequence[str],
) -> Story:
    """Figure 5; minutes with arrays and record by record, rounds until convergence.

    `verdicts` on the minutes and on their order.
    """
    told = ", ".join(f"{name} {value:g}" for name, value in stated.MINUTES.items())
    ours = ", ".join(f"{name} {power(value)}" for name, value in found.items())
    loops = ", ".join(f"{name} {value:.0f}" for name, value in slow.items())
    rounds = ", ".join(f"{name} {value:,.0f}" for name, value in until.items())
    return (
        f"minutes until convergence: {told}.",
        f"with arrays {ours} (the minutes {verdicts[0]}); record by record {loops} (the order {verdicts[1]}).",
        f"minutes are rounds ({rounds}) times seconds, and what a round takes is a matter of the machine and of the "
        "software: see Figure 6.",
    )


def seconds(
    ours: Mapping[str, Spread], loop: Mapping[str, float], verdicts: Sequence[str]
) -> Story:
    """Figure 6; `verdicts` on the seconds, on their order, and on "slightly"."""
    told = ", ".join(f"{name} {value:g}" for name, value in stated.SECONDS.items())
    found = ", ".join(f"{name} {1000 * ours[name].median:.1f}" for name in MECHANISMS)
    slow = ", ".join(f"{name} {value:.1f} s" for name, value in sorted(loop.items()))
    return (
        f"seconds a round: {told}; DDP-SA takes slightly longer than LDP or MPC.",
        f"milliseconds with arrays: {found} (the seconds {verdicts[0]}); record by record: {slow} (the order "
        f"{verdicts[1]}; slightly {verdicts[2]}).",
        "noise is dearer than sharing where clipping is a loop over records, as in the box; with arrays a round is the "
        "journey of a few frames, and sharing sends more of them. What the paper's 6.4553 s without either consist "
        "of is not stated.",
    )


def guarantees(local: float, two: float, six: float, delta: float) -> Story:
    """Derivations: total epsilon of 1,218 rounds for one client's vector, and sums of two and six."""
    return (
        "DDP-SA and local noise give the same formal (ε, δ) guarantee, and the privacy budget of the runs is 0.1.",
        f"1,218 rounds spend a total ε of {local:.1f} (δ = {power(delta, 1)}) for one who sees a client's vectors, "
        f"{two:.1f} for one who sees the sums of two clients and {six:.1f} for those of six.",
        "That ε is the price of one round. The noise of all clients adds up in the sum: that helps at every δ > 0 and "
        "does not change the pure ε.",
    )
