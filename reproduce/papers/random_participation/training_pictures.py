"""Figures 6 and 7: accuracy against iterations, and beside it the differences that decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from repro.report import style
from reproduce.papers.random_participation.direct_labels import Line, write_labels
from reproduce.papers.random_participation.pictures import WIDTH
from reproduce.papers.random_participation.training_verdicts import Pairs
from reproduce.papers.statistics import Interval, interval
from reproduce.papers.ticks import percent

__all__ = ["SHORT", "accuracy_picture"]

SHORT = {
    "non_private": "not private",
    "clipped": "clipped",
    "clipped_slow": "clipped, slow",
    "scheme_paper": "scheme",
    "scheme": "scheme*",
    "wcs": "WCS",
    "ols": "OLS",
}
"""The names on the curves."""

_HEADINGS = {
    "order": "order",
    "justified": "order, scheme*",
    "clip": "cost of",
    "noise": "cost of noise",
}
"""The headings of the rows on the right."""


def accuracy_picture(
    iterations: ArrayLike,
    runs: Mapping[str, NDArray[np.float64]],
    gaps: Mapping[str, Pairs],
    *,
    trivial: float,
    margin: float,
) -> Figure:
    """Each curve's mean accuracy and deviation; beside it the paired differences with intervals.

    Args:
        iterations: evaluated iterations, shape (points,).
        runs: accuracies in [0, 1] per curve, shape (seeds, points), the same 2 or more seeds in each.
        gaps: differences of final accuracies by subject, as `training_verdicts.gaps` returns them.
        trivial: accuracy of always answering the most frequent class.
        margin: the largest difference that counts as none, as a fraction.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.5), width_ratios=(4.6, 2.4))
    x = np.asarray(iterations, dtype=float)
    lines = {}
    for k, (name, curve) in enumerate(runs.items()):
        style.mean_and_spread(left, x, curve, k, marks=0)
        lines[SHORT[name]] = Line(curve.mean(axis=0), style.line(k)["color"])
    left.axhline(trivial, color=style.MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
    highest = max(trivial, *(float(np.max(curve)) for curve in runs.values()))
    top = min(1.0, 0.1 * math.ceil(10 * highest + 0.5))
    left.set(xlim=(0, x.max()), ylim=(0, top), xlabel="iteration", ylabel="test accuracy")
    left.yaxis.set_major_formatter(percent())
    seeds = len(next(iter(runs.values())))
    left.set_title(f"mean and one deviation of {seeds} seeds", fontsize=8.5)
    _differences(right, gaps, 100 * margin)
    for axis in (left, right):
        axis.tick_params(labelsize=7.5)
        axis.xaxis.label.set_size(8.5)
        axis.yaxis.label.set_size(8.5)
    lines["most frequent class"] = Line(np.full(x.shape, trivial), style.MUTED)
    write_labels(left, x, lines)
    return figure


def _reach(found: Sequence[Interval], margin: float) -> float:
    """Half the width of the axis in points: three margins, up to six where intervals ask for it."""
    ends = [
        100 * abs(end)
        for one in found
        if abs(100 * one.mean) <= 3 * margin
        for end in (one.low, one.high)
    ]
    return max([3 * margin, *(1.05 * end for end in ends if end <= 6 * margin)])


def _row(axis: Axes, one: Interval, row: float, reach: float) -> None:
    """A difference and its interval; an arrow at the edge stands for what lies beyond it."""
    look = {"color": style.PALETTE[0], "linestyle": "none"}
    mean, low, high = (100 * value for value in (one.mean, one.low, one.high))
    if low <= reach and high >= -reach:
        ends = np.clip([low, high], -reach, reach)
        axis.plot(ends, [row, row], "-", color=look["color"], linewidth=1.4)
    if abs(mean) <= reach:
        axis.plot([mean], [row], marker="o", markersize=4, **look)
    if high > reach:
        axis.plot([0.94 * reach], [row], marker=">", markersize=5, **look)
    if low < -reach:
        axis.plot([-0.94 * reach], [row], marker="<", markersize=5, **look)


def _differences(axis: Axes, gaps: Mapping[str, Pairs], margin: float) -> None:
    """One row a difference: mean and 95 % interval in points, and both as numbers."""
    found = {
        subject: {
            name: interval(np.asarray(first) - np.asarray(second))
            for name, (first, second) in gaps[subject].items()
        }
        for subject in _HEADINGS
    }
    reach = _reach([one for rows in found.values() for one in rows.values()], margin)
    row, ticks = 0.0, {}
    axis.axvspan(-margin, margin, color=style.MUTED, alpha=0.15, linewidth=0)
    axis.axvline(0, color=style.MUTED, linewidth=0.8)
    beside = axis.get_yaxis_transform()
    for subject, heading in _HEADINGS.items():
        look = {"fontsize": 7, "style": "italic", "ha": "right", "va": "center"}
        axis.text(-0.03, row, heading, transform=beside, **look)
        for name, one in found[subject].items():
            row -= 1
            short = name.removeprefix("noise of ").replace("justified scheme", "scheme*")
            ticks[row] = short.removeprefix("the ").replace(" - ", " − ")
            _row(axis, one, row, reach)
            axis.text(1.04, row, one.text(), transform=beside, ha="left", va="center", fontsize=7)
        row -= 1.2
    axis.set(xlim=(-reach, reach), ylim=(row + 0.6, 0.7))
    axis.set_yticks(list(ticks), list(ticks.values()))
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.grid(False, axis="y")
    axis.set_xlabel("points")
    axis.set_title("final differences", fontsize=8.5)
