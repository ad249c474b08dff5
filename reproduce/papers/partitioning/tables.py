"""Tables 1 and 2 and section 4.2 as pictures: numbers, and a zoomed dot plot beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.statistics import interval

_SIZE = 7.5  # points
_ROW = 0.215  # inches


class Row(NamedTuple):
    """One line of a table of accuracies.

    Attributes:
        label: what was trained.
        runs: final accuracies in [0, 1], one per seed.
        paper: the printed accuracy in per cent; None where the paper has none.
        verdict: on the printed accuracy; "" where there is none.
    """

    label: str
    runs: NDArray
    paper: float | None = None
    verdict: str = ""


class Noise(NamedTuple):
    """One line of a noise column: as printed, as computed, the verdict, and what it really costs."""

    label: str
    printed: str
    computed: str
    verdict: str
    epsilon: str


def table_picture(
    rows: Sequence[Row], noise: Sequence[Noise], marks: Mapping[str, float] | None = None
) -> Figure:
    """Draw a table of accuracies with a dot plot, and the table of its noise below.

    Args:
        rows: from top to bottom.
        noise: from top to bottom.
        marks: name -> accuracy in [0, 1] that is named below the plot (as a line where it is on the
            scale).
    """
    high, low = (count + 1.6 for count in (len(rows), len(noise)))
    fig = plt.figure(figsize=(7.0, _ROW * (high + low) + 0.75))
    grid = fig.add_gridspec(
        2, 2, height_ratios=[high, low], width_ratios=[4.25, 2.75], hspace=0.12, wspace=0.02
    )
    words, dots = fig.add_subplot(grid[0, 0]), fig.add_subplot(grid[0, 1])
    heights = np.arange(len(rows))[::-1]
    head = ("row", "paper", "ours, 95 % interval", "verdict")
    places, sides = (0.0, 0.47, 0.52, 0.82), ("left", "right", "left", "left")
    _line(words, len(rows), head, places, sides, bold=True)
    for height, row in zip(heights, rows, strict=True):
        printed = "" if row.paper is None else f"{row.paper:.2f} %"
        _line(words, height, (row.label, printed, _ours(row.runs), row.verdict), places, sides)
    words.set(xlim=(0, 1), ylim=(-0.7, len(rows) + 0.5))
    words.axis("off")
    _dots(dots, rows, heights, marks or {})

    below = fig.add_subplot(grid[1, :])
    head = ("noise", "printed", "computed", "verdict", "true ε of the printed noise, δ = 10⁻⁵")
    places = (0.0, 0.29, 0.42, 0.46, 0.64)
    sides = ("left", "right", "right", "left", "left")
    _line(below, len(noise), head, places, sides, bold=True)
    for height, one in zip(np.arange(len(noise))[::-1], noise, strict=True):
        _line(below, height, one, places, sides)
    below.set(xlim=(0, 1), ylim=(-0.7, len(noise) + 0.5))
    below.axis("off")
    return fig


def _ours(runs: NDArray) -> str:
    """`81.2 [79.9, 82.5] %`, or the mean alone with a single seed."""
    return f"{interval(runs).text()} %" if len(runs) > 1 else f"{100 * float(np.mean(runs)):.1f} %"


def _line(
    axis: Axes,
    height: float,
    cells: Sequence[str],
    places: Sequence[float],
    sides: Sequence[str],
    bold: bool = False,
) -> None:
    weight = "bold" if bold else "normal"
    for text, place, side in zip(cells, places, sides, strict=True):
        axis.text(place, height, text, ha=side, va="center", fontsize=_SIZE, fontweight=weight)


def _dots(axis: Axes, rows: Sequence[Row], heights: NDArray, marks: Mapping[str, float]) -> None:
    """Our means with their intervals, and the paper's values as hollow marks."""
    blue, red = style.PALETTE[0], style.PALETTE[1]
    values = [100 * float(np.mean(row.runs)) for row in rows]
    values += [row.paper for row in rows if row.paper is not None]
    for height, row in zip(heights, rows, strict=True):
        mean = 100 * float(np.mean(row.runs))
        if len(row.runs) > 1:
            found = interval(row.runs)
            ends = [100 * found.low, 100 * found.high]
            axis.plot(ends, [height, height], "-", color=blue, lw=1.4, marker="|", markersize=5)
            values += ends
        axis.plot(mean, height, "o", color=blue, markersize=4.5)
        if row.paper is not None:
            axis.plot(row.paper, height, "D", mfc="none", mec=red, mew=1.3, markersize=5.5)
    low, high = max(0.0, min(values)), min(100.0, max(values))
    room = 0.05 * (high - low) + 0.5
    axis.set(xlim=(low - room, high + room), ylim=(-0.7, len(rows) + 0.5))
    axis.set_yticks(heights, [""] * len(rows))
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=_SIZE)
    axis.spines["left"].set_visible(False)
    told = []
    for name, share in marks.items():
        told.append(f"{name} {100 * share:.1f} %")
        if low - room < 100 * share < high + room:
            axis.axvline(100 * share, color=style.MUTED, lw=0.9, ls=":")
    axis.set_xlabel(
        "\n".join(
            [
                "accuracy in %" + (" (zoomed)" if high - low < 60 else ""),
                *([f"({'; '.join(told)})"] if told else []),
            ]
        ),
        fontsize=_SIZE,
    )
    axis.legend(
        handles=[
            Line2D([], [], marker="o", ls="-", color=blue, markersize=4.5, label="ours"),
            Line2D([], [], marker="D", ls="", mfc="none", mec=red, markersize=5.5, label="paper"),
        ],
        loc="upper center", ncols=2, fontsize=_SIZE, bbox_to_anchor=(0.5, 1.04), handlelength=1.6,
    )  # fmt: skip
