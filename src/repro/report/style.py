"""How every picture looks: colours that colour-blind readers can tell apart, and print-ready sizes.

The palette is that of Okabe and Ito ("Color Universal Design", 2008), reordered so that neighbours
differ in lightness as well. A curve is never told by colour alone: `line(k)` pairs each colour
with a line style and a marker, so that a grey print reads as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

PALETTE = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # bluish green
    "#CC79A7",  # reddish purple
    "#E69F00",  # orange
    "#56B4E9",  # sky blue
    "#000000",  # black
    "#8B6F00",  # dark yellow: the palette's yellow is too light for a line on white
)
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (5, 1.5, 1.2, 1.5)),
    (0, (8, 2)),
    (0, (3, 1.5, 1.2, 1.5, 1.2, 1.5)),
    (0, (2.5, 2.5)),
    (0, (9, 1.5, 3, 1.5)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MUTED = "#767676"
"""The grey of captions, footers and reference lines (contrast 4.5 : 1 on white)."""

WIDTH, HEIGHT = 6.4, 4.0
"""The default size of a picture with one axes, in inches."""

_RC: dict[str, Any] = {
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.dpi": 100,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.constrained_layout.h_pad": 0.08,
    "savefig.dpi": 160,
    "savefig.facecolor": "white",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "mathtext.fontset": "dejavusans",
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.labelsize": 10.5,
    "axes.linewidth": 0.7,
    "axes.edgecolor": "#333333",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.formatter.useoffset": False,
    "axes.formatter.min_exponent": 3,
    "grid.color": "#d9d9d9",
    "grid.linewidth": 0.5,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "legend.fontsize": 8.5,
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "none",
    "legend.handlelength": 3.0,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "errorbar.capsize": 2.5,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "repro",
}


def use() -> None:
    """Make this style matplotlib's default in this process (idempotent, from its own defaults).

    A user's own `matplotlibrc` is left out, since pictures must come out the same everywhere; the
    backend and the other settings that are no matter of style stay (`rcdefaults` spares them).
    """
    mpl.rcdefaults()
    mpl.rcParams.update(_RC)
    mpl.rcParams["axes.prop_cycle"] = mpl.cycler(color=PALETTE, linestyle=DASHES)


def line(k: int) -> dict[str, Any]:
    """Return `color`, `linestyle` and `marker` of the k-th curve (k >= 0).

    The first 8 differ in all three; later ones repeat the colours with other line styles and
    markers, so that 64 curves stay distinct.

    Raises:
        ValueError: k is negative or no integer.
    """
    if isinstance(k, bool) or int(k) != k or k < 0:
        raise ValueError(f"k must be an integer >= 0, got {k!r}")
    turn, place = divmod(int(k), len(PALETTE))
    shifted = (place + turn) % len(DASHES)
    return {"color": PALETTE[place], "linestyle": DASHES[shifted], "marker": MARKERS[shifted]}


def curve(
    ax: Axes, x: Any, y: Any, k: int, *, label: str = "", marks: int = 8, **options: Any
) -> None:
    """Draw the k-th curve with about `marks` markers, staggered against its neighbours'.

    `x` and `y` have equal length; `options` go to `Axes.plot`. `marks=0` draws no marker.
    """
    look = line(k)
    step = max(1, len(x) // marks) if marks else 1
    if marks:
        look["markevery"] = ((k * max(1, step // 4)) % step, step)
    else:
        look.pop("marker")
    ax.plot(x, y, **{**look, "label": label or None, **options})


def band(
    ax: Axes,
    x: Any,
    lower: Any,
    upper: Any,
    *,
    k: int | None = None,
    color: str = MUTED,
    label: str = "",
    alpha: float = 0.22,
    edges: bool = True,
    marks: int = 8,
) -> None:
    """Shade what lies between a certified `lower` and `upper` curve: where the truth must be.

    All three arrays have one length. With `k` the upper edge is drawn as the k-th curve, dashes and
    markers included, and the lower edge thinner in the same dashes: several brackets in one picture
    stay apart in a grey print, and one too narrow to shade stays visible. Without `k` the edges are
    thin lines of `color`, or absent (`edges=False`).
    """
    if k is not None:
        look = line(k)
        ax.fill_between(x, lower, upper, color=look["color"], alpha=alpha, linewidth=0)
        ax.plot(x, lower, color=look["color"], linestyle=look["linestyle"], linewidth=0.8)
        curve(ax, x, upper, k, label=label, marks=marks, linewidth=1.2)
        return
    ax.fill_between(x, lower, upper, color=color, alpha=alpha, linewidth=0, label=label or None)
    if edges:
        for bound in (lower, upper):
            ax.plot(
                x, bound, color=color, linewidth=0.7, linestyle="-", marker="", label="_bracket"
            )


def mean_and_spread(
    ax: Axes, x: Any, runs: Any, k: int, *, label: str = "", **options: Any
) -> None:
    """Draw the mean of `runs` (seeds x points) as the k-th curve, one deviation around it.

    The deviation is that of the sample (n - 1); one seed alone is drawn without a band.
    """
    values = np.asarray(runs, dtype=float)
    if values.ndim != 2 or values.shape[1] != len(x):
        raise ValueError(f"runs must have shape (seeds, {len(x)}), got {values.shape}")
    mean = values.mean(axis=0)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        color = line(k)["color"]
        ax.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.18, linewidth=0)
    curve(ax, x, mean, k, label=label, **options)


@contextmanager
def whole_marks(fig: Figure) -> Iterator[None]:
    """Let marks at the edge of their axes be drawn whole instead of cut by it; undone at the end.

    A mark whose point lies within the limits is drawn over the edge. One whose point lies outside
    is left out, where half of it would reach in. The limits must be final.
    """
    before = [(line, line.get_markevery()) for ax in fig.axes for line in ax.lines]
    added = []
    try:
        for line, _ in before:
            added += _free_edge(line)
        yield
    finally:
        for extra in added:
            extra.remove()
        for line, every in before:
            line.set_markevery(every)


def _free_edge(line: Line2D) -> list[Line2D]:
    """Take the marks at the edge of the axes off a line; return them as an artist of their own."""
    every, ax = line.get_markevery(), line.axes
    if line.get_marker() in ("", " ", "None", "none", None) or not line.get_clip_on():
        return []
    data = line.get_xydata()
    start, step = every if isinstance(every, tuple) else (0, every)
    chosen = np.arange(len(data))
    chosen = chosen[start::step] if step is None or isinstance(step, int) else chosen[step]
    place = line.get_transform().transform(data[chosen])
    low, high = ax.bbox.min, ax.bbox.max
    slack = 1e-6 * (high - low)
    with np.errstate(invalid="ignore"):
        inside = np.all((place >= low - slack) & (place <= high + slack), axis=1)
        reach = 0.75 * (line.get_markersize() + line.get_markeredgewidth()) * ax.figure.dpi / 72
        near = np.any((place < low + reach) | (place > high - reach), axis=1)
    if not near.any():
        return []
    line.set_markevery([int(k) for k in chosen[inside & ~near]])
    if not (inside & near).any():
        return []
    extra = Line2D(*data[chosen[inside & near]].T)
    extra.update_from(line)
    extra.set(linestyle="none", markevery=None, label="_edge", in_layout=False)
    extra.set_transform(line.get_transform())
    ax.add_artist(extra)
    extra.set(clip_on=False, zorder=max(line.get_zorder(), 2.6))  # 2.5: the edge itself
    return [extra]
