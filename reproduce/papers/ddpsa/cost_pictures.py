"""The pictures of what a round costs: Figures 4 to 6 and Tables II and III.

Each function draws the data that it is given and returns the figure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from repro.accounting.ddpsa.printed import MECHANISMS
from repro.report import style
from reproduce.papers.clock import Spread
from reproduce.papers.ddpsa import layouts, stated

STAGES = (
    "clients, step, rest",
    "encoding",
    "sharing",
    "opening",
    "transmission",
    "aggregation",
)
"""Parts of a round over real servers: what is left, and those of `repro.secagg.Round.seconds`."""

_HATCHES = ("", "//", "..", "xx", "", "\\\\")


def uploads(
    numbers: Mapping[str, int],
    counted: Mapping[str, float],
    upload_bytes: Mapping[str, Sequence[float]],
    tried: Sequence[int],
    *,
    dimension: int,
    servers: int,
) -> Figure:
    """Figure 4: numbers uploaded per client, and the bytes counted over real servers.

    Args:
        numbers: by mechanism, as the paper states them.
        counted: by mechanism, from rounds over real servers.
        upload_bytes: per client, one list over the numbers of servers for each "d = …, kind".
        tried: numbers of servers.
        dimension: d.
        servers: m of the paper's figure.
    """
    fig, (left, right) = plt.subplots(1, 2, figsize=(layouts.WIDTH, 3.1), width_ratios=[1.15, 1])
    places = np.arange(len(counted))
    left.bar(places, list(counted.values()), color=layouts.OURS, width=0.55, label="ours, counted")
    for x, value in enumerate(counted.values()):
        left.text(x, value / 2, f"{value:g}", ha="center", color="white", fontweight="bold")
    left.plot(places, list(numbers.values()), label="paper", **layouts.HOLLOW)
    left.set_xticks(places, list(counted), fontsize=8)
    left.set_ylim(0, 1.3 * max(*numbers.values(), *counted.values()))
    left.set_ylabel("numbers uploaded per client", fontsize=8)
    left.set_title(f"d = {dimension}, m = {servers}", fontsize=9)
    left.grid(axis="x", visible=False)
    left.legend(loc="upper left", fontsize=layouts.SMALL)
    for k, (name, values) in enumerate(upload_bytes.items()):
        d = int(name.split()[2].rstrip(","))
        heights = np.array(values) / (8 * d)
        style.curve(right, tried, heights, k, label=name.replace(", ", ": "))
    right.set_xticks(tried)
    right.set_ylim(0, 1.5 * max(tried))
    right.set_xlabel("intermediate servers m", fontsize=8)
    right.set_ylabel("bytes uploaded / bytes of the vector", fontsize=8)
    right.legend(fontsize=layouts.SMALL, loc="upper left")
    for ax in (left, right):
        ax.tick_params(labelsize=8)
    return fig


def minutes(
    rows: Mapping[str, Sequence[str]],
    arrays: Mapping[str, float],
    by_record: Mapping[str, float],
) -> Figure:
    """Figure 5: the table of minutes until convergence beside a dot plot.

    Args:
        rows: head -> one text for each mechanism: "paper", "rounds", "arrays", "record by record",
            "verdict", "complete".
        arrays: minutes until convergence by mechanism, with arrays.
        by_record: likewise, with one record after the other.
    """
    fig = plt.figure(figsize=(layouts.WIDTH, 2.3))
    table, ax = fig.subplots(1, 2, width_ratios=[2.5, 1])
    layouts.rows(
        table,
        {
            "minutes": (0.0, "left", list(MECHANISMS)),
            "paper": (0.26, "right", rows["paper"]),
            "rounds": (0.39, "right", rows["rounds"]),
            "arrays": (0.51, "right", rows["arrays"]),
            "by record": (0.66, "right", rows["record by record"]),
            "in a run": (0.80, "right", rows["complete"]),
            "verdict": (0.86, "left", rows["verdict"]),
        },
    )
    _times(ax, stated.MINUTES, arrays, by_record)
    layouts.powers(ax.xaxis, -2, 3)
    ax.set_xlim(0.008, 1000)
    ax.set_xlabel("minutes until convergence", fontsize=layouts.SMALL)
    return fig


def _times(
    ax: plt.Axes,
    paper: Mapping[str, float],
    arrays: Mapping[str, float],
    by_record: Mapping[str, float],
) -> None:
    """One row a mechanism: the paper's time, and ours in two ways."""
    layouts.dots(ax, len(MECHANISMS))
    ax.set_xscale("log")
    rows = range(len(MECHANISMS))
    ax.plot([paper[name] for name in MECHANISMS], rows, label="paper", **layouts.HOLLOW)
    found = [arrays[name] for name in MECHANISMS]
    ax.plot(found, rows, "D", color=layouts.OURS, label="arrays", ms=5)
    places = [MECHANISMS.index(name) for name in by_record]
    look = {"color": layouts.SECOND, "ms": 5, "linestyle": "none"}
    ax.plot(list(by_record.values()), places, marker="^", label="by record", **look)
    layouts.legend_above(ax, handletextpad=0.2)


def seconds(
    rows: Mapping[str, Sequence[str]],
    rounds: Mapping[str, Spread],
    by_record: Mapping[str, float],
    stages: Mapping[str, Mapping[str, float]],
) -> Figure:
    """Figure 6: the table of seconds a round, a dot plot, and where a round with arrays spends them.

    Args:
        rows: head -> one text for each mechanism: "paper", "arrays", "record by record", "verdict".
        rounds: seconds of a round by mechanism.
        by_record: median seconds of a round with one record after the other.
        stages: milliseconds of each part of a round, by mechanism and part.
    """
    fig = plt.figure(figsize=(layouts.WIDTH, 4.7))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 1.15], width_ratios=[2.3, 1])
    table, ax, below = (fig.add_subplot(place) for place in (grid[0, 0], grid[0, 1], grid[1, :]))
    layouts.rows(
        table,
        {
            "seconds a round": (0.0, "left", list(MECHANISMS)),
            "paper": (0.37, "right", rows["paper"]),
            "arrays [95 %]": (0.41, "left", rows["arrays"]),
            "by record": (0.83, "right", rows["record by record"]),
            "verdict": (0.88, "left", rows["verdict"]),
        },
    )
    _times(ax, stated.SECONDS, {n: rounds[n].median for n in MECHANISMS}, by_record)
    layouts.powers(ax.xaxis, -3, 1)
    ax.set_xlim(4e-4, 40)  # a marker at a millisecond is drawn in full
    ax.set_xlabel("seconds a round", fontsize=layouts.SMALL)
    left = np.zeros(len(MECHANISMS))
    for k, part in enumerate(STAGES):
        width = np.array([stages[name][part] for name in MECHANISMS])
        look = {"color": style.PALETTE[k], "hatch": _HATCHES[k], "edgecolor": "white"}
        below.barh(range(len(MECHANISMS)), width, 0.6, left=left, label=part, **look)
        left += width
    for row, total in enumerate(left):
        below.text(total + 0.1, row, f"{total:.1f} ms", va="center", fontsize=layouts.SMALL)
    below.set_yticks(range(len(MECHANISMS)), MECHANISMS, fontsize=8)
    below.set_ylim(len(MECHANISMS) - 0.5, -1.2)
    below.set_xlim(0, 1.12 * left.max())
    below.tick_params(axis="x", labelsize=8)
    below.set_xlabel("ms a round with arrays (sums of the parts' medians)", fontsize=8)
    below.grid(axis="y", visible=False)
    below.legend(ncols=6, loc="upper center", fontsize=7, handlelength=1.2, columnspacing=0.9)
    return fig


def operations(
    rows: Mapping[str, Sequence[str]],
    ours: Mapping[str, Spread],
    loop: float,
    sizes: Sequence[int],
    growth: Mapping[str, Sequence[float]],
    exponents: Mapping[str, float],
) -> Figure:
    """Table II: a client's milliseconds by operation, and their growth with the vector's length.

    Args:
        rows: head -> one text for each operation and one for the loop over records.
        ours: milliseconds by operation, at the paper's size.
        loop: milliseconds of clipping one record after the other.
        sizes: d, of which the growth has one value each.
        growth: milliseconds by operation, one for each size.
        exponents: of the growth with the size, by operation.
    """
    fig = plt.figure(figsize=(layouts.WIDTH, 6.0))
    grid = fig.add_gridspec(2, 2, height_ratios=[1, 1.05])
    upper = grid[0, :].subgridspec(1, 2, width_ratios=[2.6, 1])
    table, ax = (fig.add_subplot(upper[0, k]) for k in range(2))
    layouts.rows(
        table,
        {
            "operation": (0.0, "left", rows["operation"]),
            "paper, ms": (0.36, "right", rows["paper"]),
            "%": (0.44, "right", rows["paper %"]),
            "ours, ms [95 %]": (0.47, "left", rows["ours"]),
            "%  ": (0.86, "right", rows["ours %"]),
            "verdict": (0.89, "left", rows["verdict"]),
        },
        size=7,
    )
    count = len(rows["operation"])
    layouts.dots(ax, count)
    theirs = [*stated.OPERATIONS.values(), stated.OPERATIONS["clipping"]]
    ax.plot(theirs, range(count), **layouts.HOLLOW)
    middle = [ours[name].median for name in stated.OPERATIONS]
    ax.plot(middle, range(len(middle)), "D", color=layouts.OURS, ms=5, label="arrays")
    ax.plot([], [], label="paper", **layouts.HOLLOW)
    ax.plot([loop], [count - 1], "^", color=layouts.SECOND, ms=5, label="by record")
    ax.set_xscale("log")
    layouts.powers(ax.xaxis, -3, 3, 2)
    ax.set_xlim(1e-4, 5e3)
    ax.set_xlabel("ms per client and round", fontsize=layouts.SMALL)
    layouts.legend_above(ax, handletextpad=0.2)
    panels = (
        ["clipping", "encoding", "sharing", "transmission", "transmission, keys"],
        ["noise", "exact noise", "addition"],
    )
    for place, chosen in zip((grid[1, 0], grid[1, 1]), panels, strict=True):
        panel = fig.add_subplot(place)
        for k, name in enumerate(chosen):
            style.curve(panel, sizes, growth[name], k, label=f"{name}: d^{exponents[name]:.2f}")
        panel.set(xscale="log", yscale="log", ylabel="ms")
        panel.set_xlabel("numbers in the vector, d", fontsize=8)
        layouts.powers(panel.yaxis, -3, 3)
        layouts.powers(panel.xaxis, 1, 6)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=layouts.SMALL, loc="upper left")
    return fig


def link_bytes(
    rows: Mapping[str, Sequence[str]],
    paper: Sequence[float],
    ours: Sequence[float],
    *,
    clients: int,
) -> Figure:
    """Table III: one row a link, beside it the shares of what passes the parameter server.

    Args:
        rows: head -> one text a link: "component", "link", "formula", "paper", "paper %",
            "payload", "wire", "ours %", "verdict".
        paper: shares in per cent, nan where the table has none.
        ours: likewise, counted.
        clients: n of the counted rounds.
    """
    count = len(rows["link"])
    fig = plt.figure(figsize=(layouts.WIDTH, 0.55 + 0.27 * (count + 2)))
    table, ax = fig.subplots(1, 2, width_ratios=[3.6, 1])
    layouts.rows(
        table,
        {
            "": (0.0, "left", rows["component"]),
            "link": (0.12, "left", rows["link"]),
            "formula": (0.42, "right", rows["formula"]),
            "bytes": (0.51, "right", rows["paper"]),
            "%": (0.58, "right", rows["paper %"]),
            "counted": (0.68, "right", rows["payload"]),
            "wire": (0.765, "right", rows["wire"]),
            f"%, n={clients}": (0.87, "right", rows["ours %"]),
            "verdict": (0.89, "left", rows["verdict"]),
        },
        size=7,
    )
    layouts.dots(ax, count)
    ax.plot(ours, range(count), "D", color=layouts.OURS, ms=5, label=f"counted, n={clients}")
    ax.plot(paper, range(count), label="paper", **layouts.HOLLOW)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.set_xlabel("% of the parameter server's bytes", fontsize=7)
    layouts.legend_above(ax, ncols=2)
    return fig
