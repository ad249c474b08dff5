"""Pictures of partitioning: the paper's accounting beside the truth, and tables of trained models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from repro.report import style
from reproduce.papers.partitioning.compare import table_rows

__all__ = ["amplification", "panels", "rows_figure", "sampling_picture", "table_picture"]

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
        settings: panel title -> (x, curves) as for `amplification`.
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
    for axis, (title, (x, curves)) in zip(axes.flat, settings.items(), strict=False):
        amplification(axis, x, curves)
        for label, height in reference:
            axis.axhline(height, color=style.MUTED, lw=0.9, ls=":", label=label)
        axis.set(title=title, xlabel=xlabel, xscale=xscale, yscale=yscale)
    for axis in axes[:, 0]:
        axis.set_ylabel(ylabel)
    for axis in axes.flat[len(settings) :]:
        axis.set_visible(False)
    entries: dict[str, object] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            if not label.startswith("_"):
                entries.setdefault(label, handle)
    methods = [m for _, curves in settings.values() for m in curves.values()]
    if any("upper" in m for m in methods):
        entries[truth] = Line2D([], [], color=style.MUTED, ls="-", lw=1.5)
    if any("paper" in m for m in methods):
        entries[paper] = Line2D([], [], color=style.MUTED, ls=(0, (4, 2)), lw=1.1)
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper center",
        ncols=min(len(entries), 5 if columns > 1 else 3),  # more do not fit the width
    )
    return figure


def rows_figure(
    panels: Sequence[tuple[str, ArrayLike, Mapping[str, ArrayLike]]],
    finals: Mapping[str, ArrayLike],
    labels: Mapping[str, str],
    marks: Mapping[str, float],
) -> Figure:
    """Draw accuracy against iterations for some rows, and the final accuracy of all of them.

    Args:
        panels: (title, iterations (points,), accuracies (seeds, points) of the rows shown), side by
            side; each row is drawn with one deviation.
        finals: final accuracies in [0, 1] of every row, shape (seeds,), from top to bottom.
        labels: what is said about each row.
        marks: accuracies that are drawn as lines over all rows, by name.
    """
    named = max(len(runs) for _, _, runs in panels)
    height = style.HEIGHT * 1.05 + 0.24 * len(finals) + 0.15 * named
    fig = plt.figure(figsize=(style.WIDTH, height))
    grid = fig.add_gridspec(
        2, len(panels), height_ratios=[style.HEIGHT * 0.7 + 0.15 * named, 0.3 * len(finals)]
    )
    for column, (title, iterations, runs) in enumerate(panels):
        top = fig.add_subplot(grid[0, column])
        for k, (name, curve) in enumerate(runs.items()):
            style.mean_and_spread(top, iterations, np.asarray(curve), k, label=labels[name])
        top.set_title(title)
        top.set_xlabel("iteration")
        top.set_xlim(0, max(iterations))
        top.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
        if column == 0:
            top.set_ylabel("test accuracy")
        # Under the axes: nowhere inside would it leave every curve free.
        top.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.22))

    below = fig.add_subplot(grid[1, :])
    places = np.arange(len(finals))[::-1]
    for place, values in zip(places, finals.values(), strict=True):
        values = np.asarray(values, dtype=float)
        below.plot(values, np.full(len(values), place), "o", color=style.MUTED, markersize=3.5)
        below.errorbar(
            values.mean(),
            place,
            xerr=values.std(ddof=1) if len(values) > 1 else None,
            fmt="D",
            markersize=5,
            capsize=3,
            color=style.PALETTE[0],
        )
    for k, (name, value) in enumerate(marks.items()):
        look = {"color": style.PALETTE[1 + k], "linestyle": style.DASHES[1 + k], "linewidth": 1.2}
        below.axvline(value, **look, label=name)
    below.set_yticks(places, [labels[name] for name in finals], fontsize=8)
    below.set_ylim(-0.7, len(finals) - 0.3)
    below.set_xlabel("final test accuracy: seeds, their mean and one standard deviation")
    below.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
    below.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=len(marks))
    return fig


def table_picture(
    accuracy: Mapping[str, ArrayLike],
    finals: Mapping[str, ArrayLike],
    iterations: ArrayLike,
    submodels: Sequence[int],
    majority: float,
) -> Figure:
    """Draw table 1 or 2: the rows of the table, and the controls that the paper leaves out.

    Args:
        accuracy: test accuracies of every row, shape (seeds, points).
        finals: final accuracies in [0, 1] of every row, shape (seeds,).
        iterations: evaluated iterations, shape (points,); the first one is the pretrained model.
        submodels: numbers of submodels d > 1.
        majority: accuracy of always predicting the most frequent class.
    """
    labels = {"not_private": "not private", "relaxation": "relaxation (full model)"}
    labels |= {f"clipped_{d}": f"no noise, clipped, d = {d}" for d in [1, *submodels]}
    for d in submodels:
        labels[f"amplification_{d}"] = f"amplification, d = {d}"
        labels[f"baseline_{d}"] = f"baseline, d = {d}"
    rows = table_rows(submodels)
    controls = ["not_private", *(f"clipped_{d}" for d in [1, *submodels])]
    return rows_figure(
        [
            ("rows of the table", iterations, {name: accuracy[name] for name in rows}),
            ("controls", iterations, {name: accuracy[name] for name in controls}),
        ],
        {name: finals[name] for name in controls + rows},
        labels,
        {
            "pretrained only": float(np.asarray(accuracy["relaxation"])[:, 0].mean()),
            "most frequent class": majority,
        },
    )


def sampling_picture(
    accuracy: Mapping[str, ArrayLike],
    finals: Mapping[str, ArrayLike],
    iterations: Mapping[str, ArrayLike],
    majority: float,
) -> Figure:
    """Draw section 4.2: training from scratch and fine-tuning, with Poisson and balanced sampling.

    Args:
        accuracy: test accuracies of "scratch_…" and "tuned_…", shape (seeds, points).
        finals: final accuracies in [0, 1] of the same runs, shape (seeds,).
        iterations: evaluated iterations of "scratch" and "tuned", shape (points,).
        majority: accuracy of always predicting the most frequent class.
    """
    starts = {"scratch": "from scratch", "tuned": "fine-tuned"}
    kinds = {"clipped": "no noise", "poisson": "Poisson", "balanced": "balanced"}
    labels = {
        f"{start}_{kind}": f"{how}, {what}"
        for start, how in starts.items()
        for kind, what in kinds.items()
    }
    own = {start: [name for name in accuracy if name.startswith(start)] for start in starts}
    return rows_figure(
        [
            (title, iterations[start], {name: accuracy[name] for name in own[start]})
            for start, title in (("scratch", "from scratch"), ("tuned", "fine-tuning"))
        ],
        finals,
        labels,
        {
            "pretrained only": float(np.asarray(accuracy["tuned_poisson"])[:, 0].mean()),
            "most frequent class": majority,
        },
    )
