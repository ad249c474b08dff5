"""The pictures: the corridor of figures 1 to 5, the noise levels of section 6, training curves."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray

from repro.report import style

__all__ = ["accuracy_picture", "add_checkins", "corridor", "noise_picture"]

_REFERENCE = {"CS": 6, "WCS": 3, "OLS": 7}
"""The looks (numbers of `style.line`) of the exact baselines; the schemes take the others."""


def corridor(
    x: NDArray[np.float64],
    curves: Mapping[str, Mapping[str, NDArray[np.float64]]],
    *,
    xlabel: str,
    ylabel: str,
    floor: float,
    xscale: str = "linear",
    top: float | None = None,
) -> Figure:
    """Two panels over one axis: the bracket of the truth, and Theorem 4.1 as printed.

    Args:
        x: grid of the horizontal axis, shape (n,).
        curves: label -> method -> values of shape (n,), from `evaluate`. The labels "CS", "WCS" and
            "OLS" are exact references; all others have "upper", "lower" and "paper".
        xlabel: of both panels, with its unit.
        ylabel: of the common vertical axis, with its unit.
        floor: lower end of the logarithmic vertical axis, > 0; values below are cut off.
        xscale: "linear" or "log".
        top: upper end of the vertical axis; None puts it at three times the largest upper bound.

    Returns:
        The picture, with one legend above both panels.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.3), sharex=True, sharey=True)
    schemes = [label for label in curves if label not in _REFERENCE]
    looks = [k for k in range(8 + len(schemes)) if k not in _REFERENCE.values()]
    titles = "where the truth lies (lower to upper bound)", "Theorem 4.1 as printed"
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, xlabel=xlabel, xscale=xscale, yscale="log")
        for label in ("OLS", "WCS"):
            style.curve(axis, x, curves[label]["upper"], _REFERENCE[label], label=label)
        for label, k in zip(schemes, looks, strict=False):
            values = curves[label]
            if axis is axes[0]:
                style.band(axis, x, values["lower"], values["upper"], k=k, label=label)
            else:
                style.curve(axis, x, values["paper"], k, label=label)
        style.curve(axis, x, curves["CS"]["upper"], _REFERENCE["CS"], label="CS")
    axes[0].set_ylabel(ylabel)
    _legend(figure)
    largest = max(float(np.max(methods["upper"])) for methods in curves.values())
    axes[0].set_ylim(floor, max(3 * largest, 10 * floor) if top is None else top)
    return figure


def add_checkins(figure: Figure, delta: ArrayLike, epsilon: ArrayLike) -> None:
    """Draw the bound of random check-ins into both panels of a `corridor`.

    Args:
        figure: from `corridor`, with delta on the horizontal axis.
        delta: where the bound is finite, shape (n,); may be empty.
        epsilon: the bound there, shape (n,).
    """
    for axis in figure.axes:
        axis.plot(delta, epsilon, color=style.MUTED, lw=2.2, label="random check-ins")
    _legend(figure)


def _legend(figure: Figure) -> None:
    """One legend above both panels, without repeats, in place of an older one."""
    for old in figure.legends:
        old.remove()
    entries: dict[str, object] = {}
    for axis in reversed(figure.axes):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    columns = len(entries) if len(entries) <= 8 else (len(entries) + 1) // 2
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns)


def noise_picture(
    levels: Mapping[str, Mapping[str, float]], printed: Mapping[str, Mapping[str, float]]
) -> Figure:
    """One panel an experiment, one row a scheme: exact level or bracket, and a cross if printed.

    Args:
        levels: experiment -> level name -> sigma in units of the clip, from `noise_levels`. A level
            of 0 (no noise is needed) cannot be drawn on the logarithmic axis and is left out.
        printed: experiment -> scheme -> sigma printed in section 6.
    """
    figure, axes = plt.subplots(1, len(levels), figsize=(9.4, 2.9), sharey=True)
    rows = ["OLS", "WCS", "scheme", "CS"]
    cross = style.line(1)["color"]
    for axis, (name, level) in zip(axes, levels.items(), strict=True):
        axis.set(title=name, xlabel="sigma (units of the clip)", xscale="log", ylim=(-0.6, 3.7))
        for y, row in enumerate(rows):
            color = style.line(0 if row == "scheme" else 6)["color"]
            keys = ("scheme, lower", "scheme, upper") if row == "scheme" else (row, row)
            low, high = (level[key] for key in keys)
            if low > 0 and row == "scheme":
                axis.plot([low, high], [y, y], color=color, lw=7, solid_capstyle="butt")
            elif low > 0:
                axis.plot([high], [y], color=color, marker="|", markersize=14, ls="none")
            if low > 0:
                text = f"{low:.3f} to {high:.3f}" if row == "scheme" else f"{high:.3f}"
                axis.annotate(text, (high, y), (6, 6), textcoords="offset points", fontsize=8)
            if row in printed[name]:
                axis.plot(
                    [printed[name][row]], [y], color=cross, marker="X", markersize=7, ls="none"
                )
        axis.margins(x=0.25)
    axes[0].set_yticks(range(len(rows)), rows)
    handle = plt.Line2D([], [], color=cross, marker="X", ls="none", label="printed")
    axes[-1].legend(handles=[handle], loc="upper right")
    return figure


def accuracy_picture(
    iterations: ArrayLike,
    runs: Mapping[str, ArrayLike],
    labels: Mapping[str, str],
    *,
    trivial: float,
    against: str = "",
) -> Figure:
    """Draw each curve's accuracy with one deviation, and the trivial predictor's as a line.

    Args:
        iterations: evaluated iterations, shape (points,).
        runs: accuracies in [0, 1] per curve, shape (seeds, points), the same seeds in each.
        labels: entry of each curve in the legend.
        trivial: accuracy of always answering the most frequent class.
        against: name of a curve. The curves after it are then drawn a second time below, as
            differences from it within each seed, for differences too small to see above.

    Returns:
        The picture, of one panel, or of two where `against` names a curve.
    """
    height = style.HEIGHT * (1.75 if against else 1.25)
    fig, axes = plt.subplots(
        2 if against else 1,
        1,
        figsize=(style.WIDTH, height),
        sharex=True,
        squeeze=False,
        height_ratios=[1.5, 1] if against else None,
    )
    top = axes[0, 0]
    values = {name: np.asarray(curve, dtype=float) for name, curve in runs.items()}
    for k, (name, curve) in enumerate(values.items()):
        style.mean_and_spread(top, iterations, curve, k, label=labels[name])
    look = {"color": style.MUTED, "linewidth": 1.0, "linestyle": (0, (1, 2))}
    top.axhline(trivial, **look, label="most frequent class")
    top.set_ylabel("test accuracy")
    top.set_ylim(0, 1)
    top.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    if against:
        below = axes[1, 0]
        for k, curve in enumerate(values.values()):
            if k > list(values).index(against):
                style.mean_and_spread(below, iterations, 100 * (curve - values[against]), k)
        below.axhline(0, **look)
        below.set_ylabel(f'difference from\n"{labels[against]}"\n(percentage points)')
    axes[-1, 0].set_xlabel("iteration")
    axes[-1, 0].set_xlim(0, max(iterations))
    seeds = len(next(iter(values.values())))
    fig.legend(
        loc="outside upper center",
        ncols=2,
        title=f"mean and one standard deviation of {seeds} seeds",
        title_fontsize=8.5,
    )
    return fig
