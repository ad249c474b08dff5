"""A paper's curves in one panel a row, and beside it, setting by setting, what each adversary learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.report import style

__all__ = ["adversary_grid", "budget"]

#: View -> place in the palette; ", ended" shares the place of its view and is dotted.
_PLACES = {"server": 1, "average": 2}
_PRINTED = style.line(6)["color"]
_ENDED = ", ended"


def adversary_grid(
    rows: Sequence[tuple[str, np.ndarray, Mapping[str, np.ndarray], np.ndarray, Mapping]],
    *,
    xlabel: str,
    ylabel: str,
    xscale: str = "log",
    floor: float | None = None,
    names: Mapping[str, str],
    budgets: int = 0,
) -> tuple[Figure, list[Axes]]:
    """One row a part of the figure: the paper's curves, then one panel a setting with the truth.

    Args:
        rows: (title, x, label -> printed curve, x of the views, label -> view -> "lower"/"upper" ->
            values); the labels of both mappings agree.
        xlabel, ylabel: with units.
        xscale: matplotlib's name; the vertical axes are logarithmic.
        floor: lower end of the vertical axes.
        names: view -> words for the legend; views without words are not drawn.
        budgets: number of extra panels in a last row, left empty for `budget`.

    Returns:
        the figure, and the extra panels.
    """
    columns = 1 + max(len(printed) for _, _, printed, _, _ in rows)
    height = 2.75 * len(rows) + (1.9 if budgets else 0) + 0.4
    figure = plt.figure(figsize=(2.75 * columns, height))
    ratios = [1.0] * len(rows) + ([0.62] if budgets else [])
    outer = figure.add_gridspec(len(ratios), 1, height_ratios=ratios)
    for r, (title, x, printed, at, views) in enumerate(rows):
        axes = outer[r].subgridspec(1, columns).subplots(sharex=True, sharey=True)
        for k, (label, values) in enumerate(printed.items()):
            style.curve(axes[0], x, values, (0, 4, 3)[k % 3], label=label, marks=5)
        axes[0].set(title=title, ylabel=ylabel)
        axes[0].legend(loc="best", fontsize=8)
        for axis, (label, values) in zip(axes[1:], printed.items(), strict=True):
            axis.set_title(label)
            axis.plot(x, values, color=_PRINTED, ls=(0, (5, 1.5)), lw=1.3)
            for view in (v for v in names if v in views[label]):
                _view(axis, at, view, views[label][view])
        for axis in axes:
            axis.set(xscale=xscale, yscale="log", xlabel=xlabel)
        if floor is not None:
            axes[0].set_ylim(bottom=floor)
    figure.legend(handles=_handles(names), loc="outside upper center", ncols=3)
    if not budgets:
        return figure, []
    return figure, list(outer[len(rows)].subgridspec(1, budgets).subplots(squeeze=False)[0])


def budget(
    axis: Axes,
    x: np.ndarray,
    curves: Mapping[str, np.ndarray],
    target: float,
    *,
    title: str,
    xlabel: str,
) -> None:
    """The delta that goes with printed epsilons, against its target, both axes logarithmic.

    Args:
        axis: where to draw. x: shape (n,). curves: label -> delta, shape (n,).
        target: drawn as a horizontal line.
        title, xlabel: words.
    """  # fmt: skip
    for k, (label, values) in enumerate(curves.items()):
        style.curve(axis, x, values, (0, 4, 3)[k % 3], label=label, marks=5)
    axis.axhline(target, color=style.MUTED, lw=1.2, ls="-")
    axis.annotate(
        f"target {target:g}",
        (x[-1], target),
        (0, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        fontsize=8,
        color=style.MUTED,
    )
    axis.set(title=title, xlabel=xlabel, ylabel="delta", xscale="log", yscale="log")
    axis.set_ylim(bottom=target / 6)
    axis.legend(loc="upper left", fontsize=8)


def _view(axis: Axes, x: np.ndarray, view: str, values: Mapping[str, np.ndarray]) -> None:
    look = style.line(_PLACES[view.removesuffix(_ENDED)])
    if view.endswith(_ENDED):
        axis.plot(x, values["upper"], color=look["color"], ls=(0, (1, 1.6)), lw=1.4)
        return
    axis.fill_between(x, values["lower"], values["upper"], color=look["color"], alpha=0.25, lw=0)
    axis.plot(x, values["upper"], color=look["color"], ls="-", lw=1.3, marker=look["marker"], ms=3)
    axis.plot(x, values["lower"], color=look["color"], ls="-", lw=0.8)


def _handles(names: Mapping[str, str]) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=_PRINTED, ls=(0, (5, 1.5)), lw=1.3, label="the paper's formula")
    ]
    for view, words in names.items():
        look = style.line(_PLACES[view.removesuffix(_ENDED)])
        if view.endswith(_ENDED):
            line = Line2D([], [], color=look["color"], ls=(0, (1, 1.6)), lw=1.4, label=words)
            handles.append(line)
        else:
            handles.append(
                Line2D([], [], color=look["color"], marker=look["marker"], ms=4, lw=5, alpha=0.5,
                       label=words)
            )  # fmt: skip
    return handles
