"""The pictures of the training figures (3 and 7 to 10), of the guarantees and of the survey.

Each function draws the data that it is given and returns the figure; it computes nothing but means
and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.report import style
from reproduce.papers.ddpsa import compare, stated
from reproduce.papers.ddpsa.compare import Runs
from reproduce.papers.ddpsa.survey import FAMILIES
from reproduce.papers.statistics import interval

Rounds = Mapping[str, Mapping[str, Sequence[float]]]
"""By variant and criterion of convergence: lower quartile, median and upper quartile."""

ByVariant = Mapping[str, ArrayLike]
"""Test losses by the name of a variant, shape (runs,)."""

READINGS = ("all records", "batches", "descent")
"""What the paper leaves open: Adam with all records, Adam with batches, gradient descent."""

_SQUARE = {"marker": "s", "linestyle": "none", "mfc": "none", "mew": 1.6, "ms": 8}


def rounds_until_convergence(counted: Rounds, *, clients: int, rounds: int) -> Figure:
    """Figure 3: rounds to the loss of Figure 7 beside the paper's, and rounds to fixed losses.

    Args:
        counted: quartiles of the rounds; infinity where a run does not converge.
        clients: n, by which our rounds are multiplied.
        rounds: T of the runs.
    """
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(1.6 * style.WIDTH, 1.05 * style.HEIGHT), width_ratios=[1, 1.5]
    )
    places, width = np.arange(len(MECHANISMS)), 0.38
    quartiles = [counted[name][stated.REACHED[name]] for name in MECHANISMS]
    quartiles = clients * np.minimum(quartiles, rounds)
    heights = quartiles[:, 1]
    paper = list(stated.ROUNDS_OF_FIGURE_3.values())
    left.bar(places, paper, width=width, color=style.PALETTE[5], label="paper, Figure 3")
    left.bar(places + 0.4, heights, width=width, color=style.PALETTE[0], label="ours, times n")
    spread = np.abs(quartiles[:, [0, 2]].T - heights)
    left.errorbar(places + 0.4, heights, yerr=spread, fmt="none", color="black")
    left.plot(
        places,
        [clients * t for t in stated.ROUNDS.values()],
        "D",
        color=style.PALETTE[1],
        label="n times section VI-F3",
    )
    left.set_xticks(places + 0.2, MECHANISMS)
    left.set_ylabel("communication rounds to the loss of Figure 7")
    left.set_ylim(0, 5200)
    left.legend(loc="upper left")
    shown = ["No-Private", "MPC", compare.LDP_SGD, compare.DDPSA_SGD, "LDP", "DDP-SA"]
    shown += [compare.OWN_NOISE, compare.NO_NOISE, compare.PLAIN_ADAM]
    for k, rule in enumerate(stated.LEVELS):
        _reached(right, [counted[name][rule] for name in shown], k, rule, rounds)
    right.set_yticks(range(len(shown)), shown)
    right.set_ylim(len(shown) - 0.4, -0.6)
    right.set_xlim(0, rounds)
    right.set_xlabel("rounds (steps of the server)")
    right.legend(title="until the training", title_fontsize=8.5, loc="lower left")
    return fig


def _reached(
    ax: Axes, quartiles: Sequence[Sequence[float]], k: int, label: str, rounds: int
) -> None:
    """Median and quartiles of one criterion, one row a variant; those that converge only."""
    rows = [row for row, three in enumerate(quartiles) if three[1] < math.inf]
    kept = np.minimum([quartiles[row] for row in rows], rounds).reshape(-1, 3)
    look = style.line(k)
    ax.errorbar(
        kept[:, 1],
        [row + 0.15 * (k - 1.5) for row in rows],
        xerr=np.abs(kept[:, [0, 2]] - kept[:, [1]]).T,
        linestyle="none",
        color=look["color"],
        marker=look["marker"],
        label=label,
    )


def accuracy(runs: Runs, *, points: Sequence[int], early: int, late: int, trivial: float) -> Figure:
    """Figure 7: test losses, test R2, and the loss relative to LDP.

    Args:
        runs: of `compare.four_and_controls`.
        points: rounds at which the losses are kept, `early` and `late` among them.
        early: the round at which No-Private and MPC are read.
        late: the round at which the others are read.
        trivial: loss of the mean of the targets.
    """
    fig, axes = plt.subplots(
        1, 3, figsize=(1.9 * style.WIDTH, 1.1 * style.HEIGHT), width_ratios=[1.35, 0.8, 1]
    )
    order = [*MECHANISMS, compare.OWN_NOISE, compare.NO_NOISE, compare.PLAIN_ADAM]
    order += [compare.LDP_SGD, compare.DDPSA_SGD]
    at = {name: points.index(early if name in ("No-Private", "MPC") else late) for name in order}
    _losses_by_run(axes[0], {name: runs[name]["test"][:, at[name]] for name in order}, trivial)
    four = [runs[name]["r2"][:, at[name]] for name in MECHANISMS]
    axes[1].bar(range(4), [x.mean() for x in four], width=0.6, color=style.PALETTE[0])
    axes[1].plot(range(4), list(stated.R2.values()), color=style.PALETTE[1], **_SQUARE)
    _intervals(axes[1], range(4), four, fmt="none", color="black")
    axes[1].set_xticks(range(4), MECHANISMS, rotation=30)
    axes[1].set_ylim(0.85, 1.01)
    axes[1].set_ylabel("test R2")
    gaps = {
        "DDP-SA, same noise": "DDP-SA",
        "DDP-SA, own noise": compare.OWN_NOISE,
        "no noise at all": compare.NO_NOISE,
    }
    for k, (label, name) in enumerate(gaps.items()):
        ratio = runs[name]["test"] / runs["LDP"]["test"]
        style.mean_and_spread(axes[2], points, ratio, k, label=label)
    axes[2].set_ylim(0.85, 1.15)
    axes[2].set_xlim(0, late)
    axes[2].set_xlabel("round")
    axes[2].set_ylabel("test loss over that of LDP")
    axes[2].legend(title="mean and one deviation", title_fontsize=8.5, loc="upper left")
    return fig


def _losses_by_run(ax: Axes, losses: ByVariant, trivial: float) -> None:
    """One row a variant: every run's loss, the geometric mean, and the paper's loss."""
    for row, (name, values) in enumerate(losses.items()):
        ax.plot(values, np.full(len(values), row), "o", color=style.MUTED, ms=3.5, alpha=0.6)
        mean = np.exp(np.log(values).mean())
        ax.plot([mean], [row], "D", color=style.PALETTE[0], label=None if row else "ours")
        if name in stated.LOSS:
            label = None if row else "paper"
            ax.plot([stated.LOSS[name]], [row], color=style.PALETTE[1], label=label, **_SQUARE)
    ax.axvline(trivial, color=style.MUTED, linestyle=(0, (1, 2)), label="mean of the targets")
    ax.set_xscale("log")
    ax.set_yticks(range(len(losses)), list(losses))
    ax.set_ylim(len(losses) - 0.5, -1.9)
    count = len(next(iter(losses.values())))
    ax.set_xlabel(f"test loss, {count} runs and geometric mean")
    ax.legend(loc="upper center", ncols=3, fontsize=8)


def _intervals(ax: Axes, places: ArrayLike, values: Sequence[ArrayLike], **look: object) -> None:
    """Means over runs with their 95 % intervals."""
    ranges = [interval(runs) for runs in values]
    means = [x.mean for x in ranges]
    ax.errorbar(places, means, yerr=[x.high - x.mean for x in ranges], **look)


def against_epsilon(
    loss: Mapping[str, ByVariant],
    r2: Mapping[str, ByVariant],
    spent: pd.DataFrame,
    labels: Mapping[str, str],
    *,
    rounds: int,
    delta: float,
) -> Figure:
    """Figure 8: test loss, R2 and the total epsilon of a run, against epsilon of a round.

    Args:
        loss: by reading and variant.
        r2: likewise.
        spent: total epsilon, one row for each epsilon of a round, one column an account.
        labels: what each of `READINGS` is called.
        rounds: T.
        delta: of the whole run.
    """
    fig, axes = plt.subplots(1, 3, figsize=(1.9 * style.WIDTH, 1.1 * style.HEIGHT))
    epsilons = spent.index.to_numpy()
    for k, (reading, name) in enumerate((r, n) for r in READINGS for n in ("LDP", "DDP-SA")):
        places = epsilons + 0.008 * (1 if name == "LDP" else -1)
        for ax, values, label in (
            (axes[0], loss, {"label": f"{name}: {labels[reading]}"}),
            (axes[1], r2, {}),
        ):
            chosen = [values[reading][f"{name}, ε = {e:g}"] for e in epsilons]
            _intervals(ax, places, chosen, **style.line(k), **label)
    runs = len(next(iter(loss["all records"].values())))
    quiet = np.mean(loss["all records"]["no noise"])
    mute = {"color": style.MUTED, "linestyle": (0, (1, 2)), "linewidth": 1.0}
    axes[0].axhline(quiet, **mute, label="Adam without noise")
    axes[0].axhline(1e-4, color="black", linewidth=0.8, label="paper at ε = 0.6")
    axes[0].set_yscale("log")
    axes[0].set_ylim(1e-8, 0.05)
    axes[0].set_ylabel(f"test loss, mean of {runs} runs, 95 % interval")
    axes[1].set_ylabel("test R2")
    axes[1].set_ylim(0.92, 1.003)
    fig.legend(loc="outside upper center", ncols=4, fontsize=8)
    accounts = {"basic": "basic (δ = 0)", "advanced": "advanced (11)"}
    for k, column in enumerate(spent):
        style.curve(axes[2], epsilons, spent[column], k, label=accounts.get(column, column))
    axes[2].set_yscale("log")
    axes[2].set_ylabel(f"total ε of {rounds:,} rounds, δ = {delta:g}")
    axes[2].legend(fontsize=7.5, loc="upper left")
    axes[2].set_ylim(8, 2e5)
    for ax in axes:
        ax.set_xlabel("ε of a round")
    return fig


def against_clients(
    loss: Mapping[str, ByVariant],
    r2: Mapping[str, ByVariant],
    labels: Mapping[str, str],
    *,
    clients: Sequence[int],
    descent_rounds: int,
) -> Figure:
    """Figure 9: test loss and R2 with Adam, and the loss of gradient descent, against n.

    Args:
        loss: by reading and variant.
        r2: likewise.
        labels: what each of `READINGS` is called.
        clients: the numbers of clients, n.
        descent_rounds: rounds of gradient descent.
    """
    fig, axes = plt.subplots(1, 3, figsize=(1.9 * style.WIDTH, 1.15 * style.HEIGHT))
    adam = [(r, name) for r in ("all records", "batches") for name in ("LDP", "DDP-SA")]
    for k, (reading, name) in enumerate(adam):
        places = np.array(clients) + 0.04 * (1 if name == "LDP" else -1)
        for ax, values in zip(axes, (loss, r2), strict=False):
            chosen = [values[reading][f"{name}, n = {n}"] for n in clients]
            _intervals(ax, places, chosen, label=f"{name}: {labels[reading]}", **style.line(k))
    runs = len(next(iter(loss["all records"].values())))
    axes[0].set_ylim(0, 0.014)
    axes[0].set_ylabel(f"test loss, mean of {runs} runs, 95 % interval")
    axes[0].legend(fontsize=7.5, loc="upper right")
    axes[1].set_ylim(0.92, 1.0)
    axes[1].set_ylabel("test R2")
    curves = {
        "LDP": "LDP: every client's own noise",
        "DDP-SA": "DDP-SA: every client's own noise",
        "shares, equal round": "noise in shares, equal ε of a round",
        "shares, equal total": "noise in shares, equal total (ε, δ)",
        "alone": "one client alone, N / n records",
    }
    descent = loss["descent"]
    for k, (name, label) in enumerate(curves.items()):
        kept = [n for n in clients if f"{name}, n = {n}" in descent]
        chosen = [descent[f"{name}, n = {n}"] for n in kept]
        _intervals(axes[2], np.array(kept) + 0.03 * (k - 2), chosen, label=label, **style.line(k))
    axes[2].set_yscale("log")
    axes[2].set_ylim(3e-7, 2e-4)
    axes[2].set_ylabel(f"test loss of gradient descent, {descent_rounds:,} rounds")
    axes[2].legend(fontsize=7.5, loc="upper left")
    for ax in axes:
        ax.set_xlabel("clients n")
        ax.set_xticks(clients)
    return fig


def training_loss(
    runs: Runs,
    points: Sequence[int],
    grid: Sequence[int],
    spent: Mapping[str, Sequence[float]],
    *,
    rounds: int,
    delta: float,
) -> Figure:
    """Figure 10: training loss against the round, and the total epsilon of so many rounds.

    Args:
        runs: of `compare.four_and_controls`.
        points: rounds at which the losses are kept.
        grid: rounds at which the total is computed.
        spent: total epsilon by its name in the legend, one for each round of the grid.
        rounds: T of the runs.
        delta: of all rounds together.
    """
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(1.6 * style.WIDTH, 1.15 * style.HEIGHT), width_ratios=[1.3, 1]
    )
    shown = [*MECHANISMS, compare.NO_NOISE, compare.PLAIN_ADAM, compare.LDP_SGD]
    for k, name in enumerate(shown):
        logs = np.log10(np.maximum(runs[name]["train"], 1e-22))
        style.mean_and_spread(left, points, logs, k, label=name)
    left.plot(
        list(stated.ROUNDS.values()),
        np.log10(list(stated.LOSS.values())),
        "s",
        mfc="none",
        mec="black",
        ms=8,
        label="paper: rounds, with Figure 7's loss",
    )
    left.set_ylim(-16, 1.5)
    left.set_xlim(0, rounds)
    left.set_xlabel("round")
    left.set_ylabel("log10 of the training loss, mean and one deviation")
    left.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1.0, 0.18))
    for k, (label, totals) in enumerate(spent.items()):
        style.curve(right, grid, totals, k, label=label)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("rounds")
    right.set_ylabel(f"total ε at δ = {delta:g}")
    right.legend(fontsize=8, loc="upper left")
    return fig


def guarantees(
    grid: ArrayLike,
    profiles: Mapping[int, ArrayLike],
    counts: ArrayLike,
    totals: Mapping[str, ArrayLike],
    *,
    epsilon: float,
    delta: float,
) -> Figure:
    """Derivations: privacy profiles of one round, and the total epsilon of many.

    Args:
        grid: epsilon of one round.
        profiles: n -> delta at each epsilon of the grid, for the sum over n clients.
        counts: numbers of rounds.
        totals: total epsilon by its name in the legend, one for each number of rounds.
        epsilon: of a client's vector in one round.
        delta: of the whole run.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.2))
    for k, (n, curve) in enumerate(profiles.items()):
        style.curve(left, grid, curve, k, label=f"sum of {n}" if n > 1 else "one client (local)")
    left.set(xlabel="epsilon", ylabel="delta", title=f"One round, local epsilon {epsilon:g}")
    left.legend()
    for k, (name, curve) in enumerate(totals.items()):
        style.curve(right, counts, curve, k, label=name)
    label = f"total epsilon at delta = {delta:g}"
    right.set(xlabel="rounds", ylabel=label, xscale="log", yscale="log", title="Many rounds")
    right.legend(fontsize=7.5)
    return fig


def survey(articles: pd.DataFrame, ours: Mapping[str, float], clients: Sequence[int]) -> Figure:
    """Table I: epsilon against clients in the articles that state both.

    Args:
        articles: rows of `load_survey` with their `family`, numbers complete.
        ours: epsilon of ddpsa's experiments by its label.
        clients: least and largest number of clients in ddpsa's experiments.
    """
    fig, ax = plt.subplots(figsize=(8.6, 5.2))
    for k, name in enumerate(FAMILIES):
        part = articles[articles["family"] == name]
        look = style.line(k)
        low, high = part["epsilon_low"].clip(lower=1e-3), part["epsilon_high"]
        middle = (part["clients_low"] * part["clients_high"]) ** 0.5
        centre = (low * high) ** 0.5
        ax.errorbar(
            middle,
            centre,
            xerr=[middle - part["clients_low"], part["clients_high"] - middle],
            yerr=[centre - low, high - centre],
            color=look["color"],
            marker=look["marker"],
            linestyle="",
            alpha=0.75,
            elinewidth=0.9,
            capsize=0,
            label=f"{name} ({len(part)})",
        )
    place = {"xytext": (-6, 0), "textcoords": "offset points", "ha": "right", "va": "center"}
    for label, value in ours.items():
        ax.plot(clients, [value] * len(clients), color="black", lw=3, ls="-", zorder=4)
        ax.annotate(label, (clients[0], value), fontsize=9, **place)
    ax.set_xlim(left=0.01)
    ax.set(xscale="log", yscale="log", xlabel="clients", ylabel="epsilon")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    return fig
