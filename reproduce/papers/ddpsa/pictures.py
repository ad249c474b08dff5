"""The pictures of the runs with four mechanisms: Figures 3, 7 and 10.

Each function draws the data that it is given and returns the figure; it computes nothing but means
and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.report import style
from reproduce.papers.ddpsa import compare, layouts, stated
from reproduce.papers.ddpsa.compare import Runs
from reproduce.papers.statistics import interval

Rounds = Mapping[str, Mapping[str, Sequence[float]]]
"""By variant and criterion of convergence: low end, median and high end."""

READINGS = ("all records", "batches", "descent")
"""What the paper leaves open: Adam with all records, Adam with batches, gradient descent."""

CONTROLS = {
    "No-Private": "No-Private (descent)",
    "MPC": "MPC (descent)",
    compare.LDP_SGD: "LDP, with descent",
    compare.DDPSA_SGD: "DDP-SA, with descent",
    "LDP": "LDP (Adam)",
    "DDP-SA": "DDP-SA (Adam)",
    compare.OWN_NOISE: "DDP-SA, noise of its own",
    compare.NO_NOISE: "Adam and clip, no noise",
    compare.PLAIN_ADAM: "Adam alone, no noise",
}
"""What the pictures call the variants of `compare.four_and_controls`."""


def rounds_until_convergence(
    counted: Rounds, verdicts: Sequence[str], *, factor: int, rounds: int
) -> Figure:
    """Figure 3: rounds to the losses of Figure 7 beside the paper's, and rounds to fixed losses.

    Args:
        counted: medians of the rounds and their intervals; infinity where a run does not converge.
        verdicts: one for each mechanism.
        factor: by which our rounds are multiplied.
        rounds: T of the runs.
    """
    fig, (top, bottom) = plt.subplots(2, 1, figsize=(layouts.WIDTH, 5.6), height_ratios=[1, 1.15])
    rules = [sorted(stated.REACHED_BY_PAIR[n], key=stated.LEVELS.index) for n in MECHANISMS]
    bars = [
        (x + 0.32 * (k - (len(some) - 1) / 2), MECHANISMS[x], rule)
        for x, some in enumerate(rules)
        for k, rule in enumerate(some)
    ]
    centres = np.array([x for x, *_ in bars])
    low, middle, high = factor * np.minimum([counted[n][rule] for _, n, rule in bars], rounds).T
    paper = list(stated.ROUNDS_OF_FIGURE_3.values())
    top.bar(
        centres, middle, 0.28, color=layouts.OURS, label=f"ours, {factor} × the rounds to a loss"
    )
    top.errorbar(centres, middle, yerr=[middle - low, high - middle], fmt="none", color="black")
    small = {"fontsize": layouts.SMALL}
    for x, ours, upper, (*_, rule) in zip(centres, middle, high, bars, strict=True):
        level = float(rule.removeprefix("loss "))
        inside = f"{level:g}" if level >= 1e-3 else layouts.power(level)
        top.text(x, upper + 90, f"{ours:,.0f}", ha="center", **small)
        top.text(x, 120, inside, ha="center", color="white", fontsize=7)
    right = [x + 0.15 * len(some) + 0.1 for x, some in enumerate(rules)]
    top.plot(right, paper, label="paper, Figure 3", **layouts.HOLLOW)
    for x, theirs in zip(right, paper, strict=True):
        top.text(x + 0.06, theirs, f"{theirs:,}", va="center", **small)
    told = [f"{name}\n{verdict}" for name, verdict in zip(MECHANISMS, verdicts, strict=True)]
    top.set_xticks(range(len(MECHANISMS)), told, fontsize=8)
    top.set_xlim(-0.5, len(MECHANISMS) - 0.2)
    top.set_ylabel("communication rounds")
    top.set_ylim(0, 1.2 * max(*high, *paper) + 300)
    top.legend(loc="upper left", fontsize=layouts.SMALL, ncols=2)
    top.grid(axis="x", visible=False)
    for k, rule in enumerate(stated.LEVELS):
        _reached(bottom, [counted[name][rule] for name in CONTROLS], k, rule, rounds)
    never = [
        row
        for row, name in enumerate(CONTROLS)
        if all(counted[name][rule][1] == math.inf for rule in stated.LEVELS)
    ]
    for row in never:
        layouts.label(bottom, 0.02 * rounds, row, f"none of them within {rounds:,} rounds")
    bottom.set_yticks(range(len(CONTROLS)), list(CONTROLS.values()), fontsize=layouts.SMALL)
    bottom.set_ylim(len(CONTROLS) - 0.4, -1.4)
    bottom.set_xlim(0, rounds)
    bottom.set_xlabel("rounds (steps of the server) until the training loss is")
    layouts.legend_above(bottom, ncols=4)
    return fig


def _reached(ax: Axes, ends: Sequence[Sequence[float]], k: int, rule: str, rounds: int) -> None:
    """Medians and intervals of one criterion, one row a variant; those that converge only."""
    kept = [row for row, three in enumerate(ends) if three[1] < math.inf]
    low, middle, high = np.minimum([ends[row] for row in kept], rounds).reshape(-1, 3).T
    look = style.line(k)
    level = float(rule.removeprefix("loss "))
    ax.errorbar(
        middle,
        [row + 0.14 * (k - 1.5) for row in kept],
        xerr=[middle - low, high - middle],
        linestyle="none",
        color=look["color"],
        marker=look["marker"],
        label=f"{level:g}" if level >= 1e-3 else layouts.power(level),
    )


def accuracy(
    losses: Mapping[str, ArrayLike],
    r2: Mapping[str, ArrayLike],
    verdicts: Sequence[str],
    ratios: Mapping[str, ArrayLike],
    *,
    trivial: float,
    margin: float,
) -> Figure:
    """Figure 7: the table of test losses and R2 beside the losses of all runs; losses over LDP's.

    Args:
        losses: test losses by row, shape (runs,), the four mechanisms first.
        r2: of the four mechanisms.
        verdicts: on the losses of the four mechanisms.
        ratios: loss over that of LDP, by row of the lower panel, shape (runs,).
        trivial: loss of the mean of the targets.
        margin: the largest relative difference that counts as none.
    """
    fig = plt.figure(figsize=(layouts.WIDTH, 4.9))
    upper, lower = fig.subfigures(2, 1, height_ratios=[1.75, 1])  # margins of their own
    table, beside = upper.subplots(1, 2, width_ratios=[2, 1])
    below = lower.subplots()
    means = {name: interval(values) for name, values in losses.items()}
    blank = [""] * (len(losses) - len(MECHANISMS))
    papers = [f"{x:g}" if x >= 1e-3 else layouts.power(x) for x in stated.LOSS.values()] + blank
    ours = [layouts.spread(x.mean, max(x.low, 0.0), x.high) for x in means.values()]
    layouts.rows(
        table,
        {
            "": (0.0, "left", list(losses)),
            "paper": (0.48, "right", papers),
            "test loss [95 %]": (0.52, "left", ours),
            "verdict": (0.87, "left", [*verdicts, *blank]),
        },
    )
    for row, values in enumerate(losses.values()):
        light = {"color": style.MUTED, "ms": 3, "alpha": 0.5, "mew": 0}
        beside.plot(values, np.full(len(values), row), "o", **light)
    middle = [x.mean for x in means.values()]
    beside.plot(middle, range(len(middle)), "D", color=layouts.OURS, label="ours, mean", ms=5)
    beside.plot(list(stated.LOSS.values()), range(4), label="paper", **layouts.HOLLOW)
    beside.axvline(trivial, color=style.MUTED, linestyle=":")
    layouts.dots(beside, len(losses))
    beside.set_xscale("log")
    layouts.powers(beside.xaxis, -12, 0, 3)
    beside.set_xlabel("test loss (dotted: mean of the targets)", fontsize=layouts.SMALL)
    layouts.legend_above(beside, ncols=2)
    _over_ldp(below, ratios, margin)
    told = [f"{name} {np.mean(r2[name]):.4f} ({stated.R2[name]})" for name in MECHANISMS]
    fig.suptitle("test R² (paper): " + ", ".join(told), fontsize=layouts.SMALL)
    return fig


def _over_ldp(ax: Axes, ratios: Mapping[str, ArrayLike], margin: float) -> None:
    """Geometric means of loss ratios with 95 % intervals, the margin, and the paper's ratio."""
    ax.axvspan(1 / (1 + margin), 1 + margin, color=style.MUTED, alpha=0.15, linewidth=0)
    ax.axvline(1, color=style.MUTED, linewidth=0.8)
    for row, values in enumerate(ratios.values()):
        found = interval(np.log(values))
        mean, low, high = (math.exp(x) for x in (found.mean, found.low, found.high))
        ax.errorbar([mean], [row], xerr=[[mean - low], [high - mean]], fmt="o", color=layouts.OURS)
        ax.text(1.28, row, f"{mean:.3f} [{low:.3f}, {high:.3f}]", va="center", fontsize=7.5)
    theirs = stated.LOSS["DDP-SA"] / stated.LOSS["LDP"]
    ax.plot([theirs], [0], **layouts.HOLLOW)
    ax.text(theirs + 0.02, 0, f"paper {theirs:.2f}", va="center", fontsize=layouts.SMALL)
    ax.set_yticks(range(len(ratios)), list(ratios), fontsize=layouts.SMALL)
    ax.set_ylim(len(ratios) - 0.5, -0.5)
    ax.set_xlim(0.45, 1.5)
    ax.tick_params(axis="x", labelsize=layouts.SMALL)
    ax.set_xlabel(
        f"test loss over that of LDP, geometric mean [95 %]; grey: a difference below {100 * margin:g} %",
        fontsize=layouts.SMALL,
    )


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
        spent: total epsilon by its name, one for each round of the grid.
        rounds: T of the runs.
        delta: of all rounds together.
    """
    fig, (top, bottom) = plt.subplots(2, 1, figsize=(layouts.WIDTH, 6.2), height_ratios=[1.5, 1])
    floor = 1e-16
    told = {
        "No-Private": (0.33, 0.2, "No-Private and MPC"),
        compare.LDP_SGD: (0.72, 15.0, "LDP with descent"),
        "LDP": (0.84, 0.1, "LDP, DDP-SA, and Adam without noise"),
        compare.PLAIN_ADAM: (0.84, 12.0, "Adam, no clip, no noise"),
    }  # where along the curve, how far above or below it, and the label
    shown = ["No-Private", "MPC", "LDP", "DDP-SA", compare.NO_NOISE]
    for k, name in enumerate([*shown, compare.PLAIN_ADAM, compare.LDP_SGD]):
        logs = np.log10(np.maximum(runs[name]["train"], 1e-22))
        middle, deviation = logs.mean(axis=0), logs.std(axis=0, ddof=1)
        if name in told:
            low, high = 10 ** (middle - deviation), 10 ** (middle + deviation)
            top.fill_between(points, low, high, color=style.line(k)["color"], alpha=0.15, lw=0)
            place, away, text = told[name]
            at = int(np.searchsorted(points, place * points[-1]))
            options = {"color": style.line(k)["color"], "ha": "right"}
            layouts.label(top, points[at], away * 10 ** middle[at], text, **options)
        style.curve(top, points, 10**middle, k, marks=7)
    told_rounds, told_losses = list(stated.ROUNDS.values()), list(stated.LOSS.values())
    top.plot(told_rounds, told_losses, label="paper: rounds, at Figure 7's loss", **layouts.HOLLOW)
    top.set_yscale("log")
    layouts.powers(top.yaxis, -16, 0, 4)
    top.set_ylim(floor, 20)
    top.set_xlim(0, rounds)
    top.set_xlabel("round")
    top.set_ylabel("training loss")
    top.legend(fontsize=layouts.SMALL, loc="lower left")
    for k, (name, totals) in enumerate(spent.items()):
        style.curve(bottom, grid, totals, k, label=name)
    bottom.set(
        xscale="log", yscale="log", xlabel="rounds", ylabel=f"total ε, δ = {delta_text(delta)}"
    )
    layouts.decades(bottom.xaxis, [t for t in (1, 10, 100, 1000) if t <= rounds])
    layouts.powers(bottom.yaxis, -1, 3)
    bottom.legend(fontsize=layouts.SMALL, loc="upper left")
    return fig


def ends(runs: Runs, name: str) -> str:
    """The mean training loss at the end of the runs, in words."""
    return layouts.power(float(np.mean(runs[name]["train"][:, -1])), 1)


def delta_text(delta: float) -> str:
    """δ as the pictures print it, such as 10⁻⁵."""
    return layouts.power(delta, 1)
