"""The picture of a training comparison: accuracy against iterations, mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike

from repro.report import style


def accuracy_figure(
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
        labels: what the legend says about each curve.
        trivial: accuracy of always answering the most frequent class.
        against: name of a curve. The curves after it are then drawn a second time below, as
            differences from it within each seed, for differences too small to see above.
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
