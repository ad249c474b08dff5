"""The pictures of the sweeps: Figure 8 (over epsilon) and Figure 9 (over the number of clients)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.report import style
from reproduce.papers.ddpsa import layouts, stated
from reproduce.papers.ddpsa.pictures import READINGS, delta_text
from reproduce.papers.statistics import interval

ByVariant = Mapping[str, ArrayLike]
"""Test losses, or R2, by the name of a variant, shape (runs,)."""

_SHORT = {"all records": "Adam (the box)", "batches": "Adam, batches", "descent": "descent"}


def _curve(
    ax: Axes, places: ArrayLike, values: Sequence[ArrayLike], k: int, *, hollow: bool, label: str
) -> None:
    """Means over runs with their 95 % intervals, which do not go below zero."""
    found = [interval(runs) for runs in values]
    look = style.line(k)
    means = np.array([x.mean for x in found])
    low = np.array([x.low for x in found])
    low = np.where(means > 0, np.maximum(low, 0.05 * means), low)
    ax.errorbar(
        places,
        means,
        yerr=[means - low, [x.high - x.mean for x in found]],
        color=look["color"],
        marker=look["marker"],
        mfc="white" if hollow else look["color"],
        linestyle=(0, (4, 2)) if hollow else "-",
        linewidth=1.2,
        elinewidth=0.8,
        capsize=1.5,
        label=label or None,
    )


def _readings(
    axes: Sequence[Axes],
    tables: Sequence[Mapping[str, ByVariant]],
    values: Sequence[float],
    name_of: str,
    shift: float,
) -> None:
    """LDP and DDP-SA in every reading, in the panels of the loss and of R2."""
    for ax, table in zip(axes, tables, strict=True):
        for k, reading in enumerate(READINGS):
            for name in ("LDP", "DDP-SA"):
                hollow = name == "DDP-SA"
                places = np.array(values) + shift * (1 if hollow else -1)
                chosen = [table[reading][f"{name}, {name_of} = {x:g}"] for x in values]
                label = f"{name}, {_SHORT[reading]}" if ax is axes[0] else ""
                _curve(ax, places, chosen, k, hollow=hollow, label=label)


def _quiet(ax: Axes, places: Sequence[float], table: ByVariant, names: Sequence[str]) -> None:
    """No-Private and MPC, whose losses lie on each other."""
    for k, name in enumerate(("No-Private", "MPC")):
        means = [np.mean(table[key.format(name=name)]) for key in names]
        style.curve(ax, places, means, 6 + k, label=name, marks=6, linewidth=1.2)


def against_epsilon(
    loss: Mapping[str, ByVariant],
    r2: Mapping[str, ByVariant],
    quiet: ByVariant,
    spent: pd.DataFrame,
    *,
    rounds: int,
    delta: float,
) -> Figure:
    """Figure 8: test loss, R2 and the total epsilon of a run, against epsilon of a round.

    Args:
        loss: by reading and variant.
        r2: likewise.
        quiet: losses of No-Private and MPC.
        spent: total epsilon, one row for each epsilon of a round, one column an account.
        rounds: T.
        delta: of the whole run.
    """
    fig, top, left, right = _panels()
    epsilons = spent.index.to_numpy()
    _readings((top, left), (loss, r2), epsilons, "ε", 0.006)
    _quiet(top, epsilons, quiet, ["{name}"] * len(epsilons))
    theirs = {0.1: (stated.LOSS["LDP"], stated.LOSS["DDP-SA"]), 0.6: (1e-4,)}
    marks = [(e, x) for e, row in theirs.items() if e in epsilons for x in row]
    marks += [(e, stated.LOSS["MPC"]) for e in epsilons]
    top.plot(*zip(*marks, strict=True), label="paper", **layouts.HOLLOW)
    _finish(top, left, [(0.1, stated.R2["LDP"]), (0.1, stated.R2["DDP-SA"]), (0.6, 0.9999)])
    accounts = {"basic": "basic (δ = 0)", "advanced": "advanced (11)"}
    for k, column in enumerate(spent):
        style.curve(right, epsilons, spent[column], k, label=accounts.get(column, column))
    right.set_yscale("log")
    layouts.decades(right.yaxis, [10, 20, 50, 100, 200, 500, 1000, 2000])
    right.set_ylim(8, 2e5)
    right.set_ylabel(f"total ε of {rounds:,} rounds, δ = {delta_text(delta)}", fontsize=8)
    right.legend(fontsize=7, loc="upper left")
    for ax in (top, left, right):
        ax.set_xlabel("ε of a round")
    return fig


def against_clients(
    loss: Mapping[str, ByVariant],
    r2: Mapping[str, ByVariant],
    quiet: ByVariant,
    *,
    clients: Sequence[int],
) -> Figure:
    """Figure 9: test loss and R2, and what descent makes of three ways to add noise, against n.

    Args:
        loss: by reading and variant.
        r2: likewise.
        quiet: losses of No-Private and MPC for every n.
        clients: the numbers of clients, n.
    """
    fig, top, left, right = _panels()
    _readings((top, left), (loss, r2), clients, "n", 0.03)
    names = [f"{{name}}, n = {n}" for n in clients]
    _quiet(top, clients, quiet, names)
    marks = [(n, stated.LOSS["MPC"]) for n in clients]
    marks += [(2, stated.LOSS["LDP"]), (2, stated.LOSS["DDP-SA"])] if 2 in clients else []
    marks += [(6, 1e-6)] if 6 in clients else []
    top.plot(*zip(*marks, strict=True), label="paper", **layouts.HOLLOW)
    _finish(top, left, [(2, stated.R2["LDP"]), (2, stated.R2["DDP-SA"])] if 2 in clients else [])
    curves = {
        "LDP": "own noise (LDP, DDP-SA)",
        "shares, equal round": "shares, equal ε of a round",
        "shares, equal total": "shares, equal total (ε, δ)",
        "alone": "one client alone",
    }
    descent = loss["descent"]
    for k, (name, label) in enumerate(curves.items()):
        kept = [n for n in clients if f"{name}, n = {n}" in descent]
        chosen = [descent[f"{name}, n = {n}"] for n in kept]
        if kept:
            _curve(right, kept, chosen, k, hollow=False, label=label)
    right.set_yscale("log")
    layouts.powers(right.yaxis, -7, -3)
    right.set_ylim(3e-7, 1e-3)
    right.set_ylabel("test loss of descent", fontsize=8)
    right.legend(fontsize=7, loc="upper left")
    for ax in (top, left, right):
        ax.set_xlabel("clients n")
        ax.set_xticks(clients)
    return fig


def _panels() -> tuple[Figure, Axes, Axes, Axes]:
    """The paper's panel (a) at full width, panel (b) and ours below."""
    fig = plt.figure(figsize=(layouts.WIDTH, 6.2))
    grid = fig.add_gridspec(2, 2, height_ratios=[1.35, 1])
    places = (grid[0, :], grid[1, 0], grid[1, 1])
    top, left, right = (fig.add_subplot(place) for place in places)
    for ax in (top, left, right):
        ax.tick_params(labelsize=8)
    return fig, top, left, right


def _finish(top: Axes, left: Axes, marks: Sequence[tuple[float, float]]) -> None:
    """Scales and legend of the panels (a) and (b), and the paper's R2."""
    top.set_yscale("log")
    layouts.powers(top.yaxis, -12, 0, 2)
    top.set_ylim(1e-13, 1)
    top.set_ylabel("(a) test loss, mean [95 %]")
    handles, labels = top.get_legend_handles_labels()
    order = [labels.index(x) for x in ("paper", "No-Private", "MPC")]
    order += [k for k in range(len(labels)) if k not in order]
    top.legend(
        [handles[k] for k in order],
        [labels[k] for k in order],
        fontsize=layouts.SMALL,
        ncols=3,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
    )
    left.set_ylabel("(b) test R²", fontsize=8)
    if marks:
        left.plot(*zip(*marks, strict=True), **layouts.HOLLOW)
    left.set_ylim(0.92, 1.005)
