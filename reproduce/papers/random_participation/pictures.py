"""The corridor of figures 1 to 5: the printed theorem, and beside it where the truth lies."""

from __future__ import annotations

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike, NDArray

from repro.report import style
from reproduce.papers.random_participation.direct_labels import Line, write_labels
from reproduce.papers.random_participation.words import decimal
from reproduce.papers.words import power_of_ten

__all__ = ["corridor", "plain_ticks"]

WIDTH = 7.0
"""Inches, the width of every picture of this paper."""

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
    height: float = 3.6,
    swapped: bool = False,
    earlier: tuple[ArrayLike, ArrayLike] | None = None,
    xlim: tuple[float, float] | None = None,
) -> Figure:
    """Two panels with common axes: Theorem 4.1 as printed, and the bracket of the truth.

    Args:
        x: grid of the horizontal axis, shape (n,).
        curves: label -> method -> values of shape (n,), from `evaluate`. The labels "CS", "WCS" and
            "OLS" are exact references; all others have "upper", "lower" and "paper".
        xlabel: of both panels, with its unit.
        ylabel: of the common vertical axis, with its unit.
        floor: lower end of the logarithmic vertical axis, > 0; values below are cut off.
        xscale: "linear" or "log".
        top: upper end of the vertical axis; None puts it at three times the largest upper bound.
        height: of the picture, in inches.
        swapped: the values are those of the horizontal axis, and `x` of the vertical one.
        earlier: horizontal and vertical values of the earlier bound of figure 4, drawn in grey.
        xlim: ends of the horizontal axis; default: those of the grid.

    Returns:
        The picture, every curve with its name on it.
    """
    figure, axes = plt.subplots(1, 2, figsize=(WIDTH, height), sharex=True, sharey=True)
    largest = max(float(np.max(methods["upper"])) for methods in curves.values())
    ceiling = max(3 * largest, 10 * floor) if top is None else top
    titles = "Theorem 4.1 as printed (its guarantee)", "The truth: between lower and upper bound"
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, fontsize=8.5)
        axis.set(xlabel=xlabel, xscale=xscale, yscale="log")
        axis.set_xlim(*(xlim or (float(x.min()), float(x.max()))))
        axis.set_ylim(floor, ceiling)
        axis.xaxis.label.set_size(8.5)
        axis.tick_params(labelsize=7.5)
        plain_ticks(axis)
    axes[0].set_ylabel(ylabel, fontsize=8.5)
    for axis, printed in zip(axes, (True, False), strict=True):
        lines = _draw(axis, x, curves, printed, swapped)
        if earlier is not None:
            axis.plot(*earlier, color=style.MUTED, lw=2.2)
        grid, lines = _upright(x, lines, axis) if swapped else (x, lines)
        write_labels(axis, grid, lines)
        if earlier is not None:
            _name_earlier(axis, *earlier)
    return figure


def plain_ticks(axis: Axes) -> None:
    """Ticks at 0.5, 1, 2, 5, … on a logarithmic axis of up to three decades, else at powers of ten."""
    for which in ("x", "y"):
        if getattr(axis, f"get_{which}scale")() != "log":
            continue
        low, high = getattr(axis, f"get_{which}lim")()
        line, decades = getattr(axis, f"{which}axis"), np.log10(high / low)
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        steps = (1, 2, 5) if decades <= 2.5 else (1,)
        stride = 1 if decades <= 8 else 2
        ticks = [s * b for b in powers[powers.size % stride :: stride] for s in steps]
        kept = [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        line.set_major_locator(FixedLocator(kept))
        small = min(kept, default=1.0) < 1e-3
        line.set_major_formatter(FuncFormatter(lambda value, _, raised=small: _tick(value, raised)))
        line.set_minor_locator(LogLocator(subs=range(2, 10)) if decades <= 6 else FixedLocator([]))
        line.set_minor_formatter(NullFormatter())


def _tick(value: float, raised: bool) -> str:
    """A tick in plain digits, or as a power of ten like its neighbours."""
    exponent = round(math.log10(value))
    whole = raised and abs(value / 10.0**exponent - 1) < 1e-6 and value != 1
    return power_of_ten(exponent) if whole else decimal(float(f"{value:.6g}"))


# Inner parts --------------------------------------------------------------------------------------


def _draw(
    axis: Axes,
    x: NDArray[np.float64],
    curves: Mapping[str, Mapping[str, NDArray[np.float64]]],
    printed: bool,
    swapped: bool,
) -> dict[str, Line]:
    """Draw one panel; return what its names are to be written on."""
    schemes = [label for label in curves if label not in _REFERENCE]
    looks = [k for k in range(8 + len(schemes)) if k not in _REFERENCE.values()]
    drawn = {label: (_REFERENCE[label], "upper") for label in ("OLS", "WCS")}
    drawn |= {
        label: (k, "paper" if printed else "upper")
        for label, k in zip(schemes, looks, strict=False)
    }
    drawn["CS"] = _REFERENCE["CS"], "upper"
    lines = {}
    for label, (k, method) in drawn.items():
        look, values = style.line(k), curves[label][method]
        look.pop("marker")
        if method == "upper" and label in schemes:
            fill = axis.fill_betweenx if swapped else axis.fill_between
            low = curves[label]["lower"]
            fill(x, low, values, color=look["color"], alpha=0.22, linewidth=0)
            axis.plot(*((low, x) if swapped else (x, low)), **look, linewidth=0.7)
        axis.plot(*((values, x) if swapped else (x, values)), **look, linewidth=1.3)
        lines[label] = Line(values, look["color"])
    return lines


def _upright(
    x: NDArray[np.float64], lines: Mapping[str, Line], axis: Axes
) -> tuple[NDArray[np.float64], dict[str, Line]]:
    """Curves whose grid is vertical, as functions of the horizontal axis (they fall or grow)."""
    grid = np.geomspace(*axis.get_xlim(), 400)
    turned = {}
    for name, line in lines.items():
        order = np.argsort(line.values)
        log_x = np.interp(
            np.log(grid), np.log(line.values[order]), np.log(x[order]), left=np.nan, right=np.nan
        )
        turned[name] = Line(np.exp(log_x), line.color)
    return grid, turned


def _name_earlier(axis: Axes, across: ArrayLike, up: ArrayLike) -> None:
    """The name of the earlier bound, beside the middle of its curve."""
    across, up = np.atleast_1d(across), np.atleast_1d(up)
    if across.size:
        axis.annotate(
            "random check-ins",
            (across[across.size // 2], up[up.size // 2]),
            (-4, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=7.5,
            color=style.MUTED,
        )
