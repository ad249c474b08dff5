"""What the pictures of ddpsa share: rows of text beside dots, ticks, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from repro.report import style
from reproduce.papers.ticks import Alike
from reproduce.papers.words import power_of_ten

WIDTH = 7.0
"""Inches: the width of a page."""

SMALL = 7.5
"""Points: the size of the letters in tables, legends and labels."""

OURS, PAPER, SECOND = style.PALETTE[0], style.PALETTE[1], style.PALETTE[2]
HOLLOW: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "mfc": "none",
    "mec": PAPER,
    "mew": 1.4,
    "ms": 7,
    "zorder": 5,
}
"""The mark of a published number."""


def power(value: float, digits: int = 2) -> str:
    """`2.8·10⁻¹²`; numbers from 0.001 to 99,999 plainly, with `digits` significant digits."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "-"
    if 1e-3 <= abs(value) < 1e5:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{places}f}"
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    raised = power_of_ten(int(exponent))
    return raised if float(mantissa) == 1 else f"{mantissa}·{raised}"


def spread(mean: float, low: float, high: float, digits: int = 2) -> str:
    """A number and its interval, `0.043 [0.021, 0.065]`; one power of ten for small numbers."""
    if not 0 < mean < 1e-3:
        return f"{power(mean, digits)} [{power(low, digits)}, {power(high, digits)}]"
    exponent = math.floor(math.log10(mean))
    unit = 10.0**exponent
    places = digits - 1
    texts = (f"{x / unit:.{places}f}" for x in (mean, low, high))
    return "{} [{}, {}]·{}".format(*texts, power_of_ten(exponent))


def rows(
    ax: Axes, columns: Mapping[str, tuple[float, str, Sequence[str]]], *, size: float = SMALL
) -> None:
    """Print a table on `ax`: row k at height k, the heads above; the axis runs downwards.

    Args:
        ax: is left without frame; axes beside it that share its y axis have the rows' heights.
        columns: head -> place from 0 to 1, alignment, and one text a row.
        size: of the letters, in points.
    """
    count = max(len(cells) for _, _, cells in columns.values())
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(count - 0.4, -1.5)
    for head, (x, side, cells) in columns.items():
        ax.text(x, -1, head, ha=side, va="center", fontsize=size, fontweight="bold")
        for row, cell in enumerate(cells):
            grey = cell in (
                "reproduced",
                "differs",
                "undecided",
                "not attainable",
                "-",
                "not given",
            )
            color = style.MUTED if grey else "black"
            ax.text(x, row, cell, ha=side, va="center", fontsize=size, color=color)


def dots(ax: Axes, count: int) -> None:
    """Make `ax` the dot plot beside a table with so many rows."""
    ax.set_ylim(count - 0.4, -1.5)
    ax.set_yticks(range(count), [""] * count)
    ax.tick_params(axis="y", length=0)
    ax.tick_params(axis="x", labelsize=SMALL)
    ax.spines["left"].set_visible(False)


def legend_above(ax: Axes, **options: Any) -> None:
    """A legend in the free row above the first row of a table's dots."""
    ax.legend(
        **{
            "loc": "upper center",
            "fontsize": SMALL,
            "ncols": 3,
            "handlelength": 1.2,
            "columnspacing": 1.0,
            "borderpad": 0.1,
            **options,
        }
    )


def powers(axis: Any, low: int, high: int, step: int = 1) -> None:
    """Ticks at the powers of ten 10^low, 10^(low + step), …, up to 10^high."""
    axis.set_major_locator(FixedLocator([10.0**k for k in range(low, high + 1, step)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(Alike())


def decades(axis: Any, values: Sequence[float]) -> None:
    """Ticks at `values` of a logarithmic axis, such as 0.5, 1, 2, 5, printed plainly."""
    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def label(ax: Axes, x: float, y: float, text: str, **options: Any) -> None:
    """A word at a curve, on a white ground so that lines below do not cross it."""
    ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85}
    ax.text(x, y, text, **{"fontsize": SMALL, "va": "center", "bbox": ground, **options})
