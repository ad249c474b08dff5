"""The picture of Figure 2 of MS-PAFL: accuracy against rounds, all controls, and the differences."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.mspafl import compare
from reproduce.papers.mspafl.compare import Runs
from reproduce.papers.mspafl.pictures import WIDTH, end_labels
from reproduce.papers.mspafl.runs import METHODS
from reproduce.papers.mspafl.training_claims import NAMES, SPLITS, Curves
from reproduce.papers.statistics import Interval, final
from reproduce.papers.ticks import percent

_MUTE = {"color": style.MUTED, "linewidth": 1.0, "linestyle": (0, (1, 2)), "zorder": 1}
_SPREAD = 0.66  # height that the values of p share in a row of (c), (d)
_SHORT = {"one_label": "one label", "shuffled": "both labels"}


def accuracy_panels(
    curves: Curves, rounds: Sequence[int], p: Sequence[float], rate: float, majority: float
) -> Figure:
    """Accuracy against rounds in (a), what replacement changes in (b), final accuracy in (c), (d), differences in (e).

    The paper's two panels, without and with replacement, are one here: their curves cover each other.

    Args:
        curves: runs by split and replacement.
        rounds: the evaluated rounds, the start included.
        p: check-in probabilities.
        rate: the learning rate.
        majority: accuracy of always answering the most frequent class.
    """
    figure = plt.figure(figsize=(WIDTH, 7.9))
    above, middle, below = figure.subfigures(3, 1, height_ratios=[1.0, 1.0, 0.85])
    top = above.subplots(1, 2)
    limits = _limits([*_bands(curves), majority])
    one, other = (curves["one_label", again] for again in (False, True))
    top[0].set(title="(a) lines: WOR; hollow: WR", ylim=limits, ylabel="test accuracy, one label")
    _against_rounds(top[0], one, rounds, p, rate, majority)
    _hollow(top[0], other, rounds, p, rate)
    top[1].set(title="(b) WR minus WOR, each seed", ylabel="points")
    _changes(top[1], one, other, rounds, p, rate)
    for axis in top:
        axis.set(xlabel="round", xlim=(0, rounds[-1]))
    pair = middle.subplots(1, 2)
    wide = _limits(_reaches(curves))
    for k, split in enumerate(SPLITS):
        axis = pair[k]
        _final(axis, curves[split, False], p, rate, majority)
        axis.set_yticks(range(len(METHODS)), ["" if k else NAMES[m] for m in METHODS], fontsize=8)
        axis.set(title=f"({'cd'[k]}) {_SHORT[split]}, WOR", ylim=(len(METHODS) - 0.5, -0.5))
        axis.set(xlim=wide, xlabel="final test accuracy")
        axis.xaxis.set_major_formatter(percent())
    _differences(below.add_subplot(), curves)
    handles = [
        Line2D([], [], **style.line(k), lw=1.6, ms=4.5, label=f"p = {x:g}") for k, x in enumerate(p)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(p), fontsize=8.5)
    return figure


def _bands(curves: Curves) -> list[NDArray]:
    """The means of (a), and the edges of the bands around those without replacement; one seed has no band."""
    found = []
    for again in (False, True):
        for (method, *_), one in curves["one_label", again].items():
            if method == "mspafl":
                accuracy = one["accuracy"][:, 1:]
                mean = accuracy.mean(axis=0)
                found.append(mean)
                if not again and len(accuracy) > 1:
                    spread = accuracy.std(axis=0, ddof=1)
                    found += [mean - spread, mean + spread]
    return found


def _reaches(curves: Curves) -> list[float]:
    """The means of (c) and (d), and the ends of their intervals where there are some."""
    found = [
        compare.estimate(final(one["accuracy"]))
        for split in SPLITS
        for one in curves[split, False].values()
    ]
    ends = [end for one in found for end in (one.low, one.mean, one.high)]
    return [end for end in ends if np.isfinite(end)]


def _limits(values: Sequence[NDArray | float]) -> tuple[float, float]:
    """Whole multiples of 5 % around all values."""
    both = np.concatenate([np.ravel(value) for value in values])
    return float(np.floor(20 * both.min() - 0.3) / 20), float(np.ceil(20 * both.max() + 0.3) / 20)


def _against_rounds(
    axis: Axes, runs: Runs, rounds: Sequence[int], p: Sequence[float], rate: float, majority: float
) -> None:
    """MS-PAFL from the first evaluation after the start, with its final accuracy beside it."""
    ends = {}
    axis.axhline(majority, **_MUTE)
    for k, x in enumerate(p):
        accuracy = runs["mspafl", x, rate]["accuracy"][:, 1:]
        style.mean_and_spread(axis, rounds[1:], accuracy, k, marks=5)
        last = float(final(accuracy).mean())
        ends[f"p = {x:g}: {100 * last:.1f}"] = last, style.line(k)["color"]
    ends[f"majority: {100 * majority:.1f}"] = majority, style.MUTED
    axis.yaxis.set_major_formatter(percent())
    end_labels(axis, ends)


def _hollow(axis: Axes, runs: Runs, rounds: Sequence[int], p: Sequence[float], rate: float) -> None:
    """The means of MS-PAFL as hollow marks, at the places that lines leave free."""
    for k, x in enumerate(p):
        mean = runs["mspafl", x, rate]["accuracy"][:, 1:].mean(axis=0)
        look = style.line(k)
        axis.plot(
            rounds[1:], mean, look["marker"], color=look["color"], mfc="none", ms=5.5, mew=0.9
        )


def _changes(
    axis: Axes, one: Runs, other: Runs, rounds: Sequence[int], p: Sequence[float], rate: float
) -> None:
    """What drawing with replacement adds, in points: the mean over seeds, and every seed."""
    ends = {}
    axis.axhline(0, color="black", lw=0.8)
    for k, x in enumerate(p):
        both = [runs["mspafl", x, rate]["accuracy"][:, 1:] for runs in (other, one)]
        change, look = 100 * (both[0] - both[1]), style.line(k)
        axis.plot(rounds[1:], change.T, color=look["color"], ls="-", lw=0.5, alpha=0.5)
        style.curve(axis, rounds[1:], change.mean(axis=0), k, marks=5)
        last = round(100 * float((final(both[0]) - final(both[1])).mean()), 2)
        ends[f"p = {x:g}: {last + 0.0:+.2f}"] = float(change[:, -1].mean()), look["color"]
    end_labels(axis, ends)


def _final(axis: Axes, runs: Runs, p: Sequence[float], rate: float, majority: float) -> None:
    """Final accuracy of every method, one row each, with its interval where there is one."""
    axis.axvline(majority, **_MUTE)
    for row, method in enumerate(METHODS):
        for k, x in enumerate(p):
            one = compare.estimate(final(runs[method, x, rate]["accuracy"]))
            place = row + _SPREAD / len(p) * (k - (len(p) - 1) / 2)
            _interval(axis, one, place, style.line(k), scale=1.0)


def _interval(axis: Axes, one: Interval, place: float, look: Mapping, scale: float) -> None:
    reach = [[scale * (one.mean - one.low)], [scale * (one.high - one.mean)]]
    axis.errorbar(
        scale * one.mean, place, xerr=reach if np.all(np.isfinite(reach)) else None,
        color=look["color"], marker=look["marker"], ls="none", ms=4, capsize=2,
    )  # fmt: skip


def differences(curves: Curves) -> dict[str, dict[str, NDArray]]:
    """Differences that the claims are about: name -> split -> one value for each seed."""
    found: dict[str, dict[str, NDArray]] = {}
    for split in SPLITS:
        wor, wr = curves[split, False], curves[split, True]
        for (low, less), (high, more) in itertools.pairwise(compare.by_p(wor, "mspafl").items()):
            found.setdefault(f"p = {high:g} minus p = {low:g}, all rounds", {})[split] = more - less
        ends = {name: compare.averages(runs, "mspafl") for name, runs in (("o", wor), ("r", wr))}
        hollow = compare.averages(wor, "noise_only")
        for name, first, second in (
            ("WR minus WOR, final", ends["r"], ends["o"]),
            ("MS-PAFL minus pure noise, final", ends["o"], hollow),
        ):
            found.setdefault(name, {})[split] = first["final"] - second["final"]
    return found


def _differences(axis: Axes, curves: Curves) -> None:
    """The differences in percentage points, one row each, with their numbers on the right."""
    rows = differences(curves)
    axis.axvline(0, color="black", lw=0.8)
    for place, row in enumerate(rows.values()):
        for k, values in enumerate(row.values()):
            one, look = compare.estimate(values), style.line(3 + k)
            _interval(axis, one, place + 0.3 * k - 0.15, look, scale=100.0)
            axis.text(1.02 + 0.24 * k, place, one.text(), transform=axis.get_yaxis_transform(),
                      color=look["color"], fontsize=7.2, va="center")  # fmt: skip
    for k, split in enumerate(SPLITS):
        axis.text(1.02 + 0.24 * k, 1.03, _SHORT[split], transform=axis.transAxes, fontsize=8,
                  color=style.line(3 + k)["color"])  # fmt: skip
    axis.set_yticks(range(len(rows)), list(rows), fontsize=8)
    axis.set(ylim=(len(rows) - 0.5, -0.5), xlabel="difference in points [95 % interval]")
    axis.set_title("(e) differences that the claims are about", loc="left")
