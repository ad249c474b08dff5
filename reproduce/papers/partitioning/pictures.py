"""Pictures of partitioning, Figures 1 to 8: the paper's own panel, and the truth beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.ticks import Alike, percent
from reproduce.papers.words import power_of_ten

__all__ = [
    "LEAST_DELTA", "beside_truth", "end_labels", "log_ticks", "noise_saved", "power", "renyi_picture", "run_lengths",
]  # fmt: skip

WIDTH = 7.0  # inches
_SMALL = 8.0  # points: labels of curves and titles
_GAP = 0.075  # least distance of two labels, of an axes of 2 inches
_MARKS = 5
LEAST_DELTA = 1e-10
"""Where the axis of Figure 4 begins."""

Curves = Mapping[str, Mapping[str, NDArray]]


def power(value: float) -> str:
    """`10⁻⁵` for a power of ten, else the number."""
    exponent = round(float(np.log10(value))) if value > 0 else 0
    if value > 0 and abs(value / 10.0**exponent - 1) < 1e-9 and not 0 <= exponent <= 3:
        return power_of_ten(exponent)
    return f"{value:g}"


def log_ticks(axis: Axes, which: str) -> None:
    """Make an axis ("x" or "y") logarithmic, with ticks at 0.5, 1, 2, 5 and plain numbers."""
    getattr(axis, f"set_{which}scale")("log")
    side = getattr(axis, f"{which}axis")
    side.set_major_locator(LogLocator(subs=(1, 2, 5)))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_locator(NullLocator())
    side.set_minor_formatter(NullFormatter())


def _span(axis: Axes, x: NDArray) -> None:
    """Let the x axis begin and end with the curve; a single point keeps the room around it."""
    if np.min(x) < np.max(x):
        axis.set_xlim(np.min(x), np.max(x))


def end_labels(axis: Axes, ends: Mapping[str, tuple[float, str]]) -> None:
    """Write each curve's name (label -> height and colour) at the right of the axes, apart.

    The limits of the axes must be final.
    """
    heights = axis.get_ylim()
    scale = np.log if axis.get_yscale() == "log" else np.asarray
    low, high = (float(scale(edge)) for edge in heights)
    inches = axis.figure.get_size_inches()[1] * axis.get_position().height
    gap = _GAP * 2.0 / max(inches, 0.5)
    ranked = sorted(ends.items(), key=lambda item: item[1][0])
    # A curve may end far off the axes, at 0 even, where a logarithmic scale has no place for it.
    ending = [float(np.clip(height, *sorted(heights))) for _, (height, _) in ranked]
    wanted = [(float(scale(height)) - low) / (high - low) for height in ending]
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + gap) if places else place)
    shift = float(np.mean(np.subtract(places, wanted))) if places else 0.0
    shift = min(shift, places[0]) if places else 0.0  # the lowest one stays beside the axes
    for (label, (_, color)), place in zip(ranked, places, strict=True):
        axis.annotate(
            label,
            (1.0, place - shift),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=_SMALL,
            color=color,
            annotation_clip=False,
        )


def _draw(axis: Axes, x: NDArray, methods: Mapping[str, NDArray], k: int, how: str) -> float:
    """Draw the paper's curve or the bracket of the truth; return its height at the right end."""
    look = style.line(k)
    every = max(1, len(x) // _MARKS)
    if how == "truth":
        axis.fill_between(
            x, methods["lower"], methods["upper"], color=look["color"], alpha=0.3, lw=0
        )
    values = methods["paper" if how == "paper" else "upper"]
    axis.plot(x, values, **look, lw=1.4, markersize=4, markevery=(k % every, every))
    return float(values[int(np.argmax(x))])


def beside_truth(
    settings: Mapping[str, tuple[NDArray, Curves]],
    *,
    xlabel: str,
    ylabel: str,
    log: Sequence[str] = ("x", "y"),
) -> Figure:
    """One row a setting: the paper's panel at the left, the truth on the same scale at the right.

    Args:
        settings: title -> (x, curves by label and method "paper", "lower", "upper").
        xlabel, ylabel: with units.
        log: the logarithmic axes.
    """
    height = 3.5 if len(settings) == 1 else 2.05 * len(settings)
    fig, axes = plt.subplots(
        len(settings), 2, figsize=(WIDTH, height), squeeze=False, sharey="row", sharex=True,
        width_ratios=(1.2, 1.0),
    )  # fmt: skip
    for row, (title, (x, curves)) in zip(axes, settings.items(), strict=True):
        ends = {}
        for axis, how in zip(row, ("paper", "truth"), strict=True):
            ends[how] = {
                label: (_draw(axis, x, methods, k, how), style.line(k)["color"])
                for k, (label, methods) in enumerate(curves.items())
            }
            for which in log:
                log_ticks(axis, which)
            _span(axis, x)
        row[0].set_ylabel(ylabel, fontsize=9)
        row[0].set_title(f"{title}: the paper's accounting", fontsize=_SMALL + 0.5, loc="left")
        row[1].set_title("the truth, same δ", fontsize=_SMALL + 0.5, loc="left")
        for axis, how in zip(row, ("paper", "truth"), strict=True):
            end_labels(axis, ends[how])
    for axis in axes[-1]:
        axis.set_xlabel(xlabel, fontsize=9)
    return fig


def renyi_picture(settings: Mapping[str, tuple[NDArray, Curves]]) -> Figure:
    """Figures 2, 3 and 7: the paper's two curves, and balanced over Poisson, order by order.

    Args:
        settings: title -> (orders, curves), "balanced" with "paper", "lower" and "upper", "Poisson"
            with "upper".
    """
    rows = len(settings)
    fig, axes = plt.subplots(
        rows, 2, figsize=(WIDTH, 3.4 if rows == 1 else 2.9 * rows), squeeze=False,
        width_ratios=(1.2, 1.0),
    )  # fmt: skip
    blue, red, black = style.PALETTE[0], style.PALETTE[1], style.PALETTE[6]
    for (left, right), (title, (alpha, curves)) in zip(axes, settings.items(), strict=True):
        balanced, poisson = curves["balanced"], curves["Poisson"]["upper"]
        every = max(1, len(alpha) // _MARKS)
        look = {"markersize": 4, "lw": 1.4}
        left.plot(alpha, poisson, "s-", color=red, markevery=(0, every), **look)
        left.plot(
            alpha, balanced["paper"], "o", ls=(0, (5, 1.5)), color=blue,
            markevery=(every // 2, every), **look,
        )  # fmt: skip
        log_ticks(left, "y")
        _span(left, alpha)
        left.set_title(f"{title}: the paper's curves", fontsize=_SMALL + 0.5, loc="left")
        left.set_ylabel("Rényi divergence ε(α)", fontsize=9)
        ends = {
            "Poisson": (float(poisson[-1]), red),
            "balanced, (3)": (float(balanced["paper"][-1]), blue),
        }
        end_labels(left, ends)

        right.axhline(1.0, color=red, lw=1.2)
        right.fill_between(
            alpha,
            balanced["lower"] / poisson,
            balanced["upper"] / poisson,
            color=black,
            alpha=0.25,
            lw=0,
        )
        right.plot(
            alpha, balanced["upper"] / poisson, "^-", color=black, markevery=(0, every), **look
        )
        right.plot(
            alpha, balanced["paper"] / poisson, "o", ls=(0, (5, 1.5)), color=blue,
            markevery=(every // 2, every), **look,
        )  # fmt: skip
        _span(right, alpha)
        right.set_ylim(0, 1.2)
        for axis in (left, right):
            axis.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        right.set_title("balanced over Poisson", fontsize=_SMALL + 0.5, loc="left")
        end_labels(
            right,
            {
                "Poisson": (1.0, red),
                "bound (3)": (float(balanced["paper"][-1] / poisson[-1]), blue),
                "truth": (float(balanced["upper"][-1] / poisson[-1]), black),
            },
        )
    for axis in axes[-1]:
        axis.set_xlabel("order α", fontsize=9)
    return fig


def run_lengths(
    iterations: Sequence[int], curves: Curves, delta: float, published: Sequence[float]
) -> Figure:
    """Figure 4: delta against the length of the run; the paper's four curves, and the truth.

    Args:
        iterations: T.
        curves: balanced, epochs and Poisson with "paper", "lower" and "upper"; the paper draws
            "upper" of Poisson sampling as well (accounting by loss distributions).
        delta: the dotted line.
        published: the run lengths that the paper prints, marked on that line.
    """
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(WIDTH, 3.8), sharey=True, width_ratios=(1.25, 1.0)
    )
    x = np.asarray(iterations)
    names = list(curves)
    short = {names[0]: "balanced", names[1]: "epochs", names[2]: "Poisson"}
    ends: dict[str, tuple[float, str]] = {}
    for k, name in enumerate(names):
        height = _draw(left, x, curves[name], k, "paper")
        ends[f"{short[name]}, RDP"] = (height, style.line(k)["color"])
    pld = style.PALETTE[6]
    left.plot(x, curves[names[2]]["upper"], "D-", color=pld, lw=1.4, markersize=4)
    ends["Poisson, PLD"] = (float(curves[names[2]]["upper"][-1]), pld)
    truth = {}
    for k, name in enumerate(names):
        color = pld if name == names[2] else style.line(k)["color"]
        if name == names[2]:
            right.plot(x, curves[name]["upper"], "D-", color=color, lw=1.4, markersize=4)
            truth[short[name]] = (float(curves[name]["upper"][-1]), color)
        else:
            truth[short[name]] = (_draw(right, x, curves[name], k, "truth"), color)
    for axis in (left, right):
        axis.axhline(delta, color=style.MUTED, lw=0.9, ls=":")
        axis.set(yscale="log", ylim=(LEAST_DELTA, 1e-2))
        axis.yaxis.set_major_formatter(Alike())
        _span(axis, x)
        axis.set_xlabel("T (iterations)", fontsize=9)
    marked = sorted(set(published))
    for length in marked:
        left.plot(length, delta, "o", markersize=10, mfc="none", mec=style.PALETTE[3], mew=1.6)
    left.annotate(
        "paper: " + " and ".join(f"{length:g}" for length in marked), (marked[0], delta),
        xytext=(-8, 6), textcoords="offset points", ha="right", fontsize=_SMALL,
        color=style.PALETTE[3],
    )  # fmt: skip
    left.set_ylabel("δ", fontsize=9)
    left.set_title("the paper's curves", fontsize=_SMALL + 0.5, loc="left")
    right.set_title("the truth, all by loss distributions", fontsize=_SMALL + 0.5, loc="left")
    end_labels(left, ends)
    end_labels(right, truth)
    return fig


def noise_saved(
    settings: Mapping[str, tuple[NDArray, Curves]],
    gains: Mapping[str, Mapping[str, tuple[NDArray, NDArray]]],
) -> Figure:
    """Figure 8: the paper's two curves, and beside them the difference that they hide.

    Args:
        settings: title -> (noise levels, curves "balanced" and "Poisson").
        gains: title -> "paper", "lower", "upper" -> (Poisson's epsilon, by which share that of
            balanced subsampling is smaller).
    """
    fig, axes = plt.subplots(
        len(settings), 2, figsize=(WIDTH, 2.9 * len(settings)), squeeze=False,
        width_ratios=(1.2, 1.0),
    )  # fmt: skip
    looks = {
        "Poisson": (style.PALETTE[1], "s", "-"),
        "balanced": (style.PALETTE[0], "o", (0, (5, 1.5))),
    }
    for (left, right), (title, (sigma, curves)) in zip(axes, settings.items(), strict=True):
        ends = {}
        for label, (color, marker, dash) in looks.items():
            values = curves[label]["paper"]
            left.plot(sigma, values, marker=marker, ls=dash, color=color, lw=1.4, markersize=4)
            ends[label] = (float(values[-1]), color)
        log_ticks(left, "x")
        log_ticks(left, "y")
        _span(left, sigma)
        left.set_ylabel("ε of the whole run", fontsize=9)
        left.set_title(f"{title}: the paper's curves", fontsize=_SMALL + 0.5, loc="left")
        end_labels(left, ends)

        gain = gains[title]
        black = style.PALETTE[6]
        right.axhline(0, color=style.PALETTE[1], lw=1.2)
        right.plot(
            *gain["paper"], "o", ls=(0, (5, 1.5)), color=style.PALETTE[0], lw=1.4, markersize=4,
            label="as the paper accounts",
        )  # fmt: skip
        right.fill_between(
            gain["lower"][0], gain["lower"][1], gain["upper"][1], color=black, alpha=0.25, lw=0
        )
        right.plot(*gain["lower"], "^-", color=black, lw=1.2, markersize=4, label="truth, bracket")
        log_ticks(right, "x")
        right.yaxis.set_major_formatter(percent())
        right.set_title("ε saved by balanced subsampling", fontsize=_SMALL + 0.5, loc="left")
        right.legend(fontsize=7.5, loc="best")
    axes[-1][0].set_xlabel("σ (units of the clip)", fontsize=9)
    axes[-1][1].set_xlabel("ε of Poisson subsampling", fontsize=9)
    return fig
