"""The picture of Figure 2 of MS-PAFL: accuracy against rounds, and final accuracy of every control."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from repro.report import style
from reproduce.papers.mspafl.compare import Runs, estimate
from reproduce.papers.mspafl.runs import METHODS
from reproduce.papers.mspafl.training_claims import NAMES, SPLITS, Curves
from reproduce.papers.statistics import final

_MUTE = {"color": style.MUTED, "linewidth": 1.0, "linestyle": (0, (1, 2))}
_RANGE = 0.2, 0.85  # of accuracies
_SPREAD = 0.66  # height that the values of p share in a row of (c), (d)


def accuracy_panels(
    curves: Curves, rounds: Sequence[int], p: Sequence[float], rate: float, majority: float
) -> Figure:
    """Accuracy curves in (a), (b), final accuracies of all methods in (c), (d).

    Args:
        curves: runs by split and replacement.
        rounds: the evaluated rounds, the start included.
        p: check-in probabilities.
        rate: the learning rate.
        majority: accuracy of always answering the most frequent class.
    """
    figure, axes = plt.subplots(
        2, 2, figsize=(1.25 * style.WIDTH, 2.0 * style.HEIGHT), height_ratios=[1.0, 1.05]
    )
    titles = ("(a) without replacement", "(b) with replacement")
    for axis, replacement, title in zip(axes[0], (False, True), titles, strict=True):
        _against_rounds(axis, curves["one_label", replacement], rounds, p, rate, majority)
        axis.set_title(title)
    axes[0, 0].set_ylabel("test accuracy (one label per client)")
    for axis, (split, words), letter in zip(axes[1], SPLITS.items(), "cd", strict=True):
        _final(axis, curves[split, False], p, rate, majority)
        named = [NAMES[m] if letter == "c" else "" for m in METHODS]
        axis.set_yticks(range(len(METHODS)), named)
        axis.invert_yaxis()
        axis.set_title(f"({letter}) {words}")
    _legend(figure, axes[0, 0], len(next(iter(curves["one_label", False].values()))["accuracy"]))
    return figure


def _against_rounds(
    axis: Axes, runs: Runs, rounds: Sequence[int], p: Sequence[float], rate: float, majority: float
) -> None:
    """MS-PAFL and the same with uploads of pure noise, from the first evaluation after the start."""
    for k, x in enumerate(p):
        accuracy = runs["mspafl", x, rate]["accuracy"]
        style.mean_and_spread(axis, rounds[1:], accuracy[:, 1:], k, label=f"MS-PAFL, p = {x:g}")
        axis.plot(
            rounds[1:],
            runs["noise_only", x, rate]["accuracy"][:, 1:].mean(axis=0),
            color="black",
            linewidth=0.8,
            linestyle="-",
            label=None if k else "the same, uploads of pure noise",
        )
    axis.axhline(majority, **_MUTE, label="most frequent class")
    axis.set(xlabel="round", ylim=_RANGE, xlim=(0, rounds[-1]))
    axis.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def _final(axis: Axes, runs: Runs, p: Sequence[float], rate: float, majority: float) -> None:
    """Final accuracy of every method, one row each, with its interval where there is one."""
    for row, method in enumerate(METHODS):
        for k, x in enumerate(p):
            one = estimate(final(runs[method, x, rate]["accuracy"]))
            reach = [[one.mean - one.low], [one.high - one.mean]]
            axis.errorbar(
                one.mean,
                row + _SPREAD / len(p) * (k - (len(p) - 1) / 2),
                xerr=reach if np.all(np.isfinite(reach)) else None,
                color=style.line(k)["color"],
                marker=style.line(k)["marker"],
                linestyle="none",
                label=None if row else f"p = {x:g}",
            )
    axis.axvline(majority, **_MUTE)
    axis.set(xlabel="final test accuracy (WOR)", xlim=_RANGE)
    axis.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))


def _legend(figure: Figure, axis: Axes, seeds: int) -> None:
    """One legend above all panels, MS-PAFL first."""
    entries = zip(*axis.get_legend_handles_labels(), strict=True)
    ordered = sorted(entries, key=lambda entry: not entry[1].startswith("MS-PAFL"))
    figure.legend(
        *zip(*ordered, strict=True),
        loc="outside upper center",
        ncols=2,
        title=f"(a), (b): mean and one deviation of {seeds} seeds; (c), (d): mean and its 95 % "
        "interval, p as above",
        title_fontsize=8.5,
    )
