"""The pictures of what a round costs: numbers, bytes and times (Figures 4 to 6, Tables II and III).

Each function draws the data that it is given and returns the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.report import style
from reproduce.papers.clock import Spread
from reproduce.papers.ddpsa import stated

STAGES = (
    "clients, step, rest",
    "encoding",
    "sharing",
    "opening",
    "transmission",
    "aggregation",
)
"""Parts of a round over real servers: what is left, and those of `repro.secagg.Round.seconds`."""

_HATCHED = {"color": style.PALETTE[1], "hatch": "//", "edgecolor": "white"}
_DOTTED = {"color": style.PALETTE[2], "hatch": "..", "edgecolor": "white"}


def uploads(
    numbers: Mapping[str, int],
    counted: Mapping[int, float],
    upload_bytes: Mapping[str, Sequence[float]],
    *,
    dimension: int,
    servers: int,
) -> Figure:
    """Figure 4: numbers uploaded per client, and the bytes counted over real servers.

    Args:
        numbers: by mechanism, from the rule.
        counted: by the number of servers.
        upload_bytes: per client, one list over the numbers of servers for each "d = …, kind".
        dimension: d.
        servers: m of the paper's figure.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.9))
    left.bar(list(numbers), list(numbers.values()), color=style.PALETTE[0], width=0.6)
    if servers in counted:
        points = [counted[servers]] * 2
        left.plot([2, 3], points, "o", color=style.PALETTE[1], ls="", label="counted")
        left.legend(loc="upper left")
    left.set(ylabel="numbers uploaded per client", title=f"d = {dimension}, m = {servers}")
    tried = list(counted)
    for k, (name, values) in enumerate(upload_bytes.items()):
        d = int(name.split()[2].rstrip(","))
        style.curve(right, tried, np.array(values) / (8 * d), k, label=name)
    right.set(
        xlabel="intermediate servers m",
        ylabel="upload over one vector's bytes",
        title="counted bytes",
        xticks=tried,
    )
    right.legend()
    return fig


def _three_ways(
    ax: Axes,
    paper: Mapping[str, float],
    arrays: Mapping[str, float],
    by_record: Mapping[str, float],
) -> None:
    """The paper's times, and ours with arrays and record by record, for each mechanism."""
    place = np.arange(len(MECHANISMS))
    ax.bar(place - 0.27, list(paper.values()), 0.25, label="paper", color=style.PALETTE[0])
    ax.bar(place, list(arrays.values()), 0.25, label="here, arrays", **_HATCHED)
    ax.bar(
        [MECHANISMS.index(name) + 0.27 for name in by_record],
        list(by_record.values()),
        0.25,
        label="here, record by record",
        **_DOTTED,
    )
    ax.set_xticks(place, MECHANISMS)
    ax.legend(ncols=3, loc="upper center", fontsize=7.5)


def minutes(
    arrays: Mapping[str, float],
    by_record: Mapping[str, float],
    rounds: ArrayLike,
    complete: Mapping[str, ArrayLike],
    median: Mapping[str, float],
) -> Figure:
    """Figure 5: minutes until convergence, and complete runs beside rounds times seconds.

    Args:
        arrays: minutes until convergence by mechanism, with arrays.
        by_record: likewise, with one record after the other.
        rounds: rounds of a complete run after which its seconds are known.
        complete: seconds since the start of a complete run, after each of these rounds.
        median: seconds of a round that was timed in turn.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(11.6, 4.2))
    left.set(yscale="log", ylabel="minutes until convergence", ylim=(0.01, 3000))
    _three_ways(left, stated.MINUTES, arrays, by_record)
    for k, name in enumerate(MECHANISMS):
        style.curve(right, rounds, complete[name], k, label=name)
        right.plot(rounds, np.asarray(rounds) * median[name], "-", color=style.MUTED, linewidth=0.9)
    label = "rounds times median seconds"
    right.plot([], [], "-", color=style.MUTED, linewidth=0.9, label=label)
    right.set(xlabel="round of a complete run", ylabel="seconds since its start")
    right.legend(loc="upper left", fontsize=7.5)
    return fig


def seconds(
    rounds: Mapping[str, Spread],
    by_record: Mapping[str, float],
    stages: Mapping[str, Mapping[str, float]],
) -> Figure:
    """Figure 6: seconds a round, and where a round with arrays spends them.

    Args:
        rounds: seconds of a round by mechanism.
        by_record: median seconds of a round with one record after the other.
        stages: milliseconds of each part of a round, by mechanism and part.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(11.6, 4.2))
    left.set(yscale="log", ylabel="seconds a round", ylim=(5e-4, 100))
    medians = {name: rounds[name].median for name in MECHANISMS}
    _three_ways(left, stated.SECONDS, medians, by_record)
    for x, name in enumerate(MECHANISMS):
        left.plot([x, x], [rounds[name].low, rounds[name].high], "k-", linewidth=1.5)
    place, below = np.arange(len(MECHANISMS)), np.zeros(len(MECHANISMS))
    hatches = ["", "//", "..", "xx", "", "\\\\"]
    for k, part in enumerate(STAGES):
        height = np.array([stages[name][part] for name in MECHANISMS])
        look = {"color": style.PALETTE[k], "hatch": hatches[k], "edgecolor": "white"}
        right.bar(place, height, 0.6, bottom=below, label=part, **look)
        below += height
    right.set(ylabel="ms a round (arrays)", ylim=(0, 1.35 * below.max()))
    right.set_xticks(place, MECHANISMS)
    right.legend(ncols=2, loc="upper left", fontsize=7.5)
    return fig


def operations(
    sizes: Sequence[int],
    ours: Mapping[str, Spread],
    loop: float,
    growth: Mapping[str, Sequence[float]],
    exponents: Mapping[str, float],
    *,
    title: str,
) -> Figure:
    """Table II: a client's milliseconds by operation, and their growth with the vector's length.

    Args:
        sizes: d, of which the growth has one value each.
        ours: milliseconds by operation, at the paper's size.
        loop: milliseconds of clipping one record after the other.
        growth: milliseconds by operation, one for each size.
        exponents: of the growth with the size, by operation.
        title: of the left panel.
    """
    fig, axes = plt.subplots(1, 3, figsize=(13.6, 4.4))
    names = list(stated.OPERATIONS)
    bars = {
        "paper": list(stated.OPERATIONS.values()),
        "here, arrays": [ours[name].median for name in names],
    }
    for k, (label, values) in enumerate(bars.items()):
        look = {"color": style.PALETTE[k], "hatch": ("", "//")[k], "edgecolor": "white"}
        axes[0].barh(np.arange(6) - 0.2 + 0.4 * k, values, 0.38, label=label, **look)
    axes[0].plot(loop, 0.2, "D", color=style.PALETTE[2], label="here, record by record")
    for row, name in enumerate(names):
        axes[0].plot([ours[name].low, ours[name].high], [row + 0.2] * 2, "k-", linewidth=1.2)
    axes[0].set(xscale="log", xlabel="ms per client and round", xlim=(3e-4, 3e3))
    axes[0].set_yticks(range(6), names)
    axes[0].invert_yaxis()
    axes[0].legend(loc="center right", fontsize=7.5)
    panels = (
        ["clipping", "encoding", "sharing", "transmission", "transmission, keys"],
        ["noise", "exact noise", "addition"],
    )
    for ax, chosen in zip(axes[1:], panels, strict=True):
        for k, name in enumerate(chosen):
            label = f"{name}, exponent {exponents[name]:.1f}"
            style.curve(ax, sizes, growth[name], k, label=label)
        ax.set(xscale="log", yscale="log", xlabel="numbers in the vector, d", ylabel="ms")
        ax.legend(fontsize=7.5, loc="upper left")
    axes[0].set_title(title)
    axes[1].set_title("clip one gradient, encode, share, send")
    axes[2].set_title("noise")
    return fig


def link_bytes(table: pd.DataFrame) -> Figure:
    """Table III: bytes of one round, one group of bars a link, one bar a column."""
    fig, ax = plt.subplots(figsize=(8.2, 4.2))
    hatches = ("", "", "//", "..", "//", "..")
    width = 0.8 / len(table.columns)
    for k, name in enumerate(table.columns):
        place = np.arange(len(table)) + (k - (len(table.columns) - 1) / 2) * width
        look = {"color": style.PALETTE[k], "hatch": hatches[k], "edgecolor": "white"}
        ax.bar(place, table[name], width, label=name, **look)
        for x, value in zip(place, table[name], strict=True):
            ax.annotate(f"{value}", (x, value), ha="center", va="bottom", fontsize=7)
    ax.set_xticks(range(len(table)), table.index)
    ax.set(yscale="log", ylabel="bytes of one round", ylim=(5, 5e3))
    ax.legend(ncols=2, loc="upper left")
    return fig
