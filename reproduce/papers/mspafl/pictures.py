"""The pictures of Figures 3 to 6 of MS-PAFL: printed curves, and beside them what adversaries learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from repro.report import style

_PLACES = {"server": 1, "average": 2}
"""View -> place in the palette; ", ended" shares the place of its view and is dotted."""

_CURVES = (0, 4, 3, 5, 7)
"""Places in the palette of the printed curves, which no view has."""

RUN_VIEWS = {
    "server": "server sees uploads (bracket)",
    "server, ended": "server, if nothing were kept",
    "average": "averaged models only (bracket)",
    "average, ended": "averaged models, if nothing were kept",
}
"""View -> words of the legend, for whole runs."""

ROUND_VIEWS = {
    "server": "server sees uploads",
    "server, ended": "server, if nothing were kept",
    "average": "averaged model only (bracket)",
    "average, ended": "averaged model, if nothing were kept",
}
"""View -> words of the legend, for one round."""

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
            values); the labels of both mappings agree, rows may have different numbers of them.
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
            style.curve(axes[0], x, values, _CURVES[k % len(_CURVES)], label=label, marks=5)
        axes[0].set(title=title, ylabel=ylabel)
        axes[0].legend(loc="best", fontsize=8)
        for axis in axes[1 + len(printed) :]:
            axis.set_visible(False)
        for axis, (label, values) in zip(axes[1:], printed.items(), strict=False):
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
        style.curve(axis, x, values, _CURVES[k % len(_CURVES)], label=label, marks=5)
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


def totals_with_budget(
    rows: Sequence[tuple[str, np.ndarray, Mapping[str, np.ndarray], np.ndarray, Mapping]],
    deltas: Mapping[str, Mapping[str, np.ndarray]],
    target: float,
    floor: float,
) -> Figure:
    """Figures 4 and 6: printed totals of whole runs, the views, and the delta of Theorem 4 below.

    Args:
        rows: as for `adversary_grid`.
        deltas: part -> label -> delta of Theorem 4, at the x of the rows.
        target: the target delta.
        floor: lower end of the vertical axes.
    """
    figure, extra = adversary_grid(
        rows,
        xlabel="rounds T",
        ylabel="epsilon of the run",
        floor=floor,
        names=RUN_VIEWS,
        budgets=len(deltas),
    )
    for axis, row, (part, curves) in zip(extra, rows, deltas.items(), strict=True):
        budget(axis, row[1], curves, target, title=f"{part} delta of Theorem 4", xlabel="rounds T")
    return figure


def local_totals(found: Mapping[str, Any], x: np.ndarray, at: np.ndarray, target: float) -> Figure:
    """Figure 5: a client's own loss, one row a local epsilon: printed, true, and the printed delta.

    Args:
        found: what `curves.local_totals` returns.
        x: T of the printed curves.
        at: T of the other curves.
        target: the target delta.
    """
    places = {"WR": 0, "WOR": 1, "DP-FedAvg": 6}
    names = list(found["printed"])
    figure, axes = plt.subplots(
        len(names), 3, figsize=(10.4, 3.2 * len(names)), sharex=True, squeeze=False
    )
    for k, (row, name) in enumerate(zip(axes, names, strict=True)):
        for method, place in places.items():
            truth, delta = found["truth"][name][method], found["delta"][name][method]
            style.curve(row[0], x, found["printed"][name][method], place, label=method, marks=5)
            style.band(row[1], at, truth["lower"], truth["upper"], k=place, label=method, marks=7)
            some = delta > 0
            style.curve(row[2], at[some], delta[some], place, label=method, marks=7)
        row[1].plot(
            at,
            found["ended"][name]["WOR"],
            color=style.MUTED,
            ls=(0, (1, 1.6)),
            label="WOR, if nothing were kept",
        )
        part = f"({chr(ord('a') + k)})"
        row[0].set(
            title=f"{part} Theorem 3, local epsilon {name}",
            ylabel="epsilon of the run",
            ylim=(5e-4, 200),
        )
        row[1].set(title=f"{part} what the server learns", ylim=(5e-4, 200))
        row[2].set(
            title=f"{part} delta of the printed value, at least", ylabel="delta", ylim=(2e-5, 1.5)
        )
        row[2].axhline(target, color=style.MUTED, lw=1.2, ls="-")
        for axis in row:
            axis.set(xscale="log", yscale="log")
    for axis in axes[-1]:
        axis.set_xlabel("rounds T")
    axes[0, 0].legend(loc="upper left")
    axes[0, 1].legend(loc="upper left", fontsize=7.5)
    return figure


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
