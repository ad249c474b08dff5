"""The three sentences below the pictures of the runs, and reasons, made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from repro.accounting.ddpsa.printed import MECHANISMS
from reproduce.papers.ddpsa import compare, stated
from reproduce.papers.ddpsa.compare import Losses, Runs
from reproduce.papers.ddpsa.layouts import power, spread
from reproduce.papers.statistics import interval

Story = tuple[str, str, str]
"""What the paper claims, what we found, and why."""

Counted = Mapping[str, Mapping[str, Sequence[float]]]
"""Rounds until convergence, see `compare.counted`."""


def why_rounds(name: str, trained: Runs, rounds: int) -> str:
    """What the spread of a mechanism's rounds until convergence comes from."""
    rules = stated.REACHED_BY_PAIR[name]
    found = np.array([trained[name][f"converged: {rule}"] for rule in rules])
    least = np.nanmin(found) if np.isfinite(found).any() else math.inf
    first = f"{least:,.0f}" if least < math.inf else "none"
    last = f"{found.max():,.0f}" if np.isfinite(found).all() else f"more than {rounds:,}"
    text = f"single runs from {first} to {last} rounds: the start decides, and the paper leaves it open"
    return text if len(rules) == 1 else f"{text}, as it does the criterion of convergence"


def rounds_until_convergence(
    trained: Runs, counted: Counted, verdicts: Sequence[str], *, rounds: int
) -> Story:
    """Figure 3."""
    told = ", ".join(f"{n} {x:,}" for n, x in stated.ROUNDS_OF_FIGURE_3.items())
    found = ", ".join(
        f"{n} {compare.reached(counted[n], n, stated.MESSAGES).text} ({verdict})"
        for n, verdict in zip(MECHANISMS, verdicts, strict=True)
    )
    return (
        f"rounds until convergence: {told}; MPC behaves like No-Private, DDP-SA like LDP.",
        f"counted as {stated.MESSAGES} for each step of the server, until a loss of Figure 7, median [95 %]: "
        f"{found}.",
        f"the optimisers compare as follows: {_to_ldp(counted, rounds)}. How many rounds a run of "
        f"Adam takes depends on its start ({_range(trained['LDP'], rounds)} steps for LDP).",
    )


def training_loss(
    trained: Runs, counted: Counted, verdicts: Sequence[str], *, rounds: int
) -> Story:
    """Figure 10."""
    told = ", ".join(f"{n} {x:,}" for n, x in stated.ROUNDS.items())
    found = ", ".join(
        f"{n} {compare.reached(counted[n], n).text} ({verdict})"
        for n, verdict in zip(MECHANISMS, verdicts, strict=True)
    )
    last = {n: trained[n]["train"][:, -1] for n in ("LDP", compare.OWN_NOISE)}
    over = compare.ratio_text(compare.ratio(last[compare.OWN_NOISE], last["LDP"]))
    return (
        f"rounds until convergence: {told}; the noise makes LDP and DDP-SA slower, and DDP-SA ends with a lower loss.",
        f"rounds until a loss of Figure 7, median [95 %]: {found}; after {rounds:,} rounds the loss of DDP-SA with "
        f"noise of its own is {over} times that of LDP.",
        f"LDP and DDP-SA add the same noise. The optimisers compare as follows: {_to_ldp(counted, rounds)}.",
    )


def accuracy(
    final: Mapping[str, NDArray],
    verdicts: Mapping[str, str],
    ratios: Mapping[str, ArrayLike],
    until: Mapping[str, int],
) -> Story:
    """Figure 7.

    Args:
        final: test losses by variant, shape (runs,).
        verdicts: on the losses, by mechanism.
        ratios: losses over that of LDP: with noise of its own, with the same noise, without noise.
        until: rounds by mechanism.
    """
    found = ", ".join(f"{n} {_mean(final[n])} ({verdicts[n]})" for n in MECHANISMS)
    own, _, quiet = (
        compare.ratio_text(compare.ratio(np.asarray(x), np.ones(len(x)))) for x in ratios.values()
    )
    return (
        "test loss about 10⁻¹² for No-Private and MPC, 0.0106 for LDP and 0.0055 for DDP-SA: noise costs a little, and "
        "DDP-SA is more accurate than LDP.",
        f"after {until['MPC']:,} rounds without noise and {until['LDP']:,} with it: {found}; with noise of its own "
        f"DDP-SA has {own} times the loss of LDP.",
        "both add the same noise, and sharing only rounds. The loss is the optimiser's: Adam without noise has "
        f"{quiet} times the loss of LDP, and LDP with gradient descent {power(float(final[compare.LDP_SGD].mean()))}.",
    )


def against_epsilon(
    loss: Losses, spent: pd.DataFrame, epsilons: Sequence[float], *, rounds: int, delta: float
) -> Story:
    """Figure 8."""
    low, high = epsilons[0], epsilons[-1]
    ends = {
        reading: [float(runs[f"LDP, ε = {e:g}"].mean()) for e in (low, high)]
        for reading, runs in loss.items()
    }
    fall = {reading: f"{power(a)} to {power(b)}" for reading, (a, b) in ends.items()}
    total = spent.loc[:, "exact"]
    return (
        "the test loss of LDP and DDP-SA falls to about 10⁻⁴ at ε = 0.6, and DDP-SA is better than LDP at every ε.",
        f"from ε = {low:g} to {high:g} the loss of LDP goes from {fall['all records']} in the box as printed, from "
        f"{fall['batches']} with batches and from {fall['descent']} with gradient descent; DDP-SA over LDP in the "
        f"box, all ε together: {_over(loss['all records'], [f'ε = {e:g}' for e in epsilons])}.",
        f"one noise variable on a sum of thousands of gradients is small beside the way that Adam has still to go. The "
        f"axis is ε of one round: {rounds:,} rounds spend a total ε of {total.iloc[0]:.0f} to {total.iloc[-1]:,.0f} "
        f"at δ = {power(delta, 1)}.",
    )


def against_clients(
    loss: Losses, clients: Sequence[int], guarantees: Mapping[str, Mapping[str, float]], rounds: int
) -> Story:
    """Figure 9; `guarantees` as from `guarantees.aggregate_guarantees` by "n = …"."""
    few, many = clients[0], clients[-1]
    fall = {
        reading: " to ".join(power(float(runs[f"LDP, n = {n}"].mean())) for n in (few, many))
        for reading, runs in loss.items()
    }
    total = guarantees[f"n = {many}"]
    own, shares = (total[f"{rounds:,} rounds, {kind}"] for kind in ("own noise", "shares"))
    return (
        "more clients average the noise away: the loss of LDP and DDP-SA falls with n, that of DDP-SA to about 10⁻⁶ at "
        "n = 6, and DDP-SA is always better than LDP.",
        f"from n = {few} to {many} the loss of LDP goes from {fall['all records']} in the box as printed, from "
        f"{fall['batches']} with batches of one size and from {fall['descent']} with gradient descent; DDP-SA over "
        f"LDP in the box, all n together: {_over(loss['all records'], [f'n = {n}' for n in clients])}.",
        "the records are shared out, so that every client adds the same noise to fewer of them: the noise of the "
        f"average grows with n. Noise in shares avoids that, at a price: a total ε of {shares:.1f} instead of "
        f"{own:.1f} for {many} clients after {rounds:,} rounds.",
    )


def _over(runs: Mapping[str, NDArray], places: Sequence[str]) -> str:
    pair = (compare.pooled(runs, name, places) for name in ("DDP-SA", "LDP"))
    return compare.ratio_text(compare.ratio(*pair))


def _mean(values: NDArray) -> str:
    found = interval(values)
    return spread(found.mean, max(found.low, 0.0), found.high)


def _to_ldp(counted: Counted, rounds: int) -> str:
    """How long three optimisers take to the loss of LDP."""
    names = {
        "LDP": "with Adam and noise",
        compare.NO_NOISE: "with Adam and no noise",
        compare.LDP_SGD: "with gradient descent and noise",
    }
    told = [
        f"{counted[name]['loss 0.0106'][1]:,.0f} rounds {text}"
        if counted[name]["loss 0.0106"][1] < math.inf
        else f"more than {rounds:,} rounds {text}"
        for name, text in names.items()
    ]
    return f"to a loss of 0.0106 it takes {', '.join(told)}"


def _range(run: Mapping[str, NDArray], rounds: int) -> str:
    found = run[f"converged: {stated.REACHED['LDP']}"]
    if not np.isfinite(found).any():
        return f"more than {rounds:,}"
    last = f"{found.max():,.0f}" if np.isfinite(found).all() else f"more than {rounds:,}"
    return f"{np.nanmin(found):,.0f} to {last}"
