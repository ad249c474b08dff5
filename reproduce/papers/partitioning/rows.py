"""The picture of a table of trained models: curves above, one line per row with its seeds below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from repro.report import style


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
            xerr=values.std(ddof=1),
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
