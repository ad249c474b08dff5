"""Panels that set a paper's accounting beside the truth, one colour and marker a mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.report import style

__all__ = ["amplification", "panels"]

_MARKS = 6


def amplification(
    axis: Axes, x: np.ndarray | Mapping[str, np.ndarray], curves: Mapping[str, Mapping]
) -> None:
    """Draw every mechanism's accounting of the paper (dashed) and the bracket of the truth (solid).

    Args:
      axis: where to draw.
      x: grid of the horizontal axis, shape (n,), for all curves; where "paper", "lower" and "upper"
        have grids of their own, each curve's mapping holds them under "x paper", "x lower", ….
      curves: label -> {"paper", "lower", "upper"} -> values of shape (n,); absent ones are left out.
    """
    for k, (label, methods) in enumerate(curves.items()):
        look = style.line(k)
        step = {"color": look["color"], "marker": look["marker"]}
        every = max(1, len(next(iter(methods.values()))) // _MARKS)
        mark = {"markevery": (k % every, every), "markersize": 4}
        if "upper" in methods:
            grid = methods.get("x upper", x)
            if "lower" in methods:
                axis.fill_between(
                    grid, methods["lower"], methods["upper"], color=look["color"], alpha=0.25, lw=0
                )
            axis.plot(grid, methods["upper"], ls="-", lw=1.5, label=label, **step, **mark)
        if "paper" in methods:
            grid = methods.get("x paper", x)
            name = "_paper" if "upper" in methods else label
            axis.plot(grid, methods["paper"], ls=(0, (4, 2)), lw=1.1, label=name, **step, **mark)


def panels(
    settings: Mapping[str, tuple[np.ndarray, Mapping[str, Mapping]]],
    *,
    xlabel: str,
    ylabel: str,
    xscale: str = "linear",
    yscale: str = "log",
    columns: int = 2,
    truth: str = "true value (bracket)",
    paper: str = "the paper's accounting",
    reference: Sequence[tuple[str, float]] = (),
) -> Figure:
    """One panel a setting, a common legend above.

    Args:
      settings: panel title -> (x, curves) as for :func:`amplification`.
      xlabel, ylabel: with units; xscale, yscale: matplotlib scale names.
      columns: panels side by side.
      truth, paper: what solid and dashed lines mean, for the legend.
      reference: (label, height) of horizontal lines.
    """
    rows = -(-len(settings) // columns)
    width = 9.4 if columns > 1 else 6.4
    figure, axes = plt.subplots(
        rows, columns, figsize=(width, 3.6 * rows + 0.7), squeeze=False, sharey=False
    )
    for axis, (title, (x, curves)) in zip(axes.flat, settings.items(), strict=True):
        amplification(axis, x, curves)
        for label, height in reference:
            axis.axhline(height, color=style.MUTED, lw=0.9, ls=":", label=label)
        axis.set(title=title, xlabel=xlabel, xscale=xscale, yscale=yscale)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    found: dict[str, object] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if not label.startswith("_"):
                found.setdefault(label, handle)
    methods = [m for _, curves in settings.values() for m in curves.values()]
    if any("upper" in m for m in methods):
        found[truth] = Line2D([], [], color=style.MUTED, ls="-", lw=1.5)
    if any("paper" in m for m in methods):
        found[paper] = Line2D([], [], color=style.MUTED, ls=(0, (4, 2)), lw=1.1)
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside upper center",
        ncols=min(len(found), 5 if columns > 1 else 3),  # more do not fit the width
    )
    return figure
