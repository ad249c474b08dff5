"""Table 1 as a table: numbers that can be read without the picture, and a picture beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.pmsfl.tables import COLUMNS, CONTROL, FITTED, SETTINGS
from reproduce.papers.statistics import Interval, interval

WIDTH, ROW, TYPE = 7.0, 0.185, 7.5
"""Inches of the picture and of a row, points of its letters."""

_COLUMNS = {"method": 0.0, "paper": 0.33, "ours": 0.365, "difference": 0.82, "verdict": 0.85}
"""Where the columns stand in the left part, 0 to 1; paper and difference end there."""

_REACH = 25.0
"""A value that lies this many points below all of the paper's is written, not drawn."""

_END = 10.0
"""An interval that ends more than so many points beyond all means is cut; an arrow says so."""

_TOP = -2.1
"""Where a block begins, in rows."""

_OURS, _PAPER = style.PALETTE[0], style.PALETTE[1]


@dataclass(frozen=True)
class Row:
    """One method in one setting.

    Attributes:
        name: of the method.
        paper: the paper's accuracy in per cent, or None.
        ours: ours in [0, 1].
        verdict: on the paper's number; "" where it gives none.
    """

    name: str
    paper: float | None
    ours: Interval
    verdict: str = ""


@dataclass(frozen=True)
class Block:
    """One setting of the table.

    Attributes:
        title: the paper's data.
        below: our data, in one line.
        rows: from the top.
    """

    title: str
    below: str
    rows: Sequence[Row]


def accuracy_table(blocks: Sequence[Block]) -> Figure:
    """Draw the settings below each other: columns of numbers, and a zoomed dot plot beside them.

    Raises:
        ValueError: no block.
    """
    if not blocks:
        raise ValueError("blocks must hold at least one setting")
    heads = 2.6  # rows' worth of title, our data, and the axis below
    lines = [len(block.rows) + heads + (k == 0) for k, block in enumerate(blocks)]
    fig, axes = plt.subplots(
        len(blocks),
        2,
        figsize=(WIDTH, ROW * sum(lines) + 0.35),
        squeeze=False,
        gridspec_kw={"height_ratios": lines, "width_ratios": [1.5, 1.0]},
    )
    for k, (block, (left, right)) in enumerate(zip(blocks, axes, strict=True)):
        top = _TOP - (k == 0)  # the first block has the head of the columns above it
        for ax in (left, right):
            ax.set_ylim(len(block.rows) - 0.5, top)
        if k == 0:
            _head(left, right, top + 0.35)
        _numbers(left, block)
        _dots(right, block)
    return fig


def _head(left: Axes, right: Axes, y: float) -> None:
    """The head of the columns of numbers, and what the two marks are."""
    look = {"fontsize": TYPE, "va": "center"}
    for name, words in (("paper", "paper"), ("difference", "difference")):
        left.text(_COLUMNS[name], y, words, ha="right", fontweight="bold", **look)
    left.text(_COLUMNS["ours"], y, "ours, interval", fontweight="bold", **look)
    left.text(_COLUMNS["verdict"], y, "verdict", fontweight="bold", **look)
    across = right.get_yaxis_transform()
    for x, face, edge, words in ((0.3, _OURS, _OURS, "ours"), (0.62, "none", _PAPER, "paper")):
        mark = {"markeredgecolor": edge, "markersize": 5, "clip_on": False}
        right.plot(x, y, "o", color=face, transform=across, **mark)
        right.text(x + 0.04, y, words, transform=across, **look)


def _numbers(ax: Axes, block: Block) -> None:
    ax.set_xlim(0, 1)
    ax.set_axis_off()
    look = {"fontsize": TYPE, "va": "center"}
    ax.text(0, -1.75, block.title, fontweight="bold", fontsize=TYPE + 1, va="center")
    ax.text(0, -0.95, block.below, color=style.MUTED, **look)
    for y, row in enumerate(block.rows):
        ax.text(_COLUMNS["method"], y, row.name, **look)
        ax.text(_COLUMNS["ours"], y, row.ours.text(), **look)
        if row.paper is None:
            continue
        ax.text(_COLUMNS["paper"], y, f"{row.paper:.1f}", ha="right", color=_PAPER, **look)
        gap = f"{100 * row.ours.mean - row.paper:+.1f}".replace("-", "−")
        ax.text(_COLUMNS["difference"], y, gap, ha="right", **look)
        ax.text(_COLUMNS["verdict"], y, row.verdict, color=style.MUTED, **look)


def _dots(ax: Axes, block: Block) -> None:
    low, high = limits(block.rows)
    for y, row in enumerate(block.rows):
        mean, ends = 100 * row.ours.mean, (100 * row.ours.low, 100 * row.ours.high)
        if row.paper is not None:
            ring = {"markerfacecolor": "none", "markeredgecolor": _PAPER, "markersize": 5.5}
            ax.plot(row.paper, y, "o", zorder=3, **ring)
        if low <= mean <= high:
            ax.hlines(y, max(ends[0], low), min(ends[1], high), color=_OURS, linewidth=1.3)
            ax.plot(mean, y, "o", color=_OURS, markersize=4)
            for cut, edge, mark in ((ends[0] < low, low, "<"), (ends[1] > high, high, ">")):
                if cut:
                    ax.plot(edge, y, mark, color=_OURS, markersize=4.5)
        else:
            words = f"← {mean:.0f}" if mean < low else f"{mean:.0f} →"
            place = (low, "left") if mean < low else (high, "right")
            ax.text(place[0], y, words, ha=place[1], va="center", fontsize=TYPE, color=_OURS)
    ax.set(xlim=(low, high), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.grid(visible=True, axis="x")
    ax.tick_params(labelsize=TYPE)


def limits(rows: Sequence[Row]) -> tuple[float, float]:
    """The ends of a block's axis in per cent: all of the paper's values, and ours that are near.

    Multiples of 5. Ours count down to `_REACH` points below the least of the paper's, and all of
    them where that is near 0. Intervals count that end at most `_END` points beyond the means.
    """
    papers = [row.paper for row in rows if row.paper is not None]
    least = min(papers, default=0.0) - _REACH
    least = least if least > 20 else 0.0
    shown = [row.ours for row in rows if 100 * row.ours.mean >= least]
    values = [*papers, *(100 * one.mean for one in shown)]
    ends = [100 * end for one in shown for end in (one.low, one.high)]
    values += [end for end in ends if min(values) - _END <= end <= max(values) + _END]
    low, high = 5 * math.floor((min(values) - 1) / 5), 5 * math.ceil((max(values) + 1) / 5)
    return float(max(0, low)), float(min(100, high))


def blocks(
    finals: Mapping[str, Mapping[str, NDArray]],
    paper: Mapping[tuple[str, str], float],
    verdicts: Mapping[tuple[str, str], str],
    names: Mapping[str, str],
    trivial: Mapping[str, float],
) -> list[Block]:
    """The settings that were run, as `accuracy_table` draws them.

    Args:
        finals: setting -> method -> final accuracies, shape (seeds,), in [0, 1].
        paper: (setting, method) -> the paper's accuracy in [0, 1].
        verdicts: the same keys -> verdict on it.
        names: setting -> our data.
        trivial: setting -> accuracy of each client's most frequent label.
    """
    titles = {**COLUMNS, FITTED: "SplitFed-DP, less noise", CONTROL: "local only"}
    made = []
    for key, ends in finals.items():
        rows = []
        for method in sorted(ends, key=lambda m: -paper.get((key, m), 0.0)):
            stated = paper.get((key, method))
            percent = None if stated is None else 100 * stated
            verdict = verdicts.get((key, method), "")
            rows.append(Row(titles[method], percent, _accuracy(ends[method]), verdict))
        below = f"ours: {names[key]}; own majority {100 * trivial[key]:.1f} %"
        made.append(Block(SETTINGS[key].title, below, rows))
    return made


def _accuracy(runs: NDArray) -> Interval:
    """The mean over seeds with its interval, which ends at 0 and at 100 %: no accuracy lies beyond."""
    found = interval(runs)
    return replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))
