"""The picture of an audit: bounds on epsilon, setting by setting, and the attacker's ROC curves."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from repro.report import style
from reproduce.papers.audit_cases import Outcome
from reproduce.papers.auditing import missed

__all__ = ["audit_picture"]

_MARKS = {
    "(a) free": ("s", 2, 30),
    "(b) implied": ("o", 1, 30),
    "attacked": ("x", 3, 40),
    "upper": ("|", 6, 160),
}
"""Marker, number of the style and size of each kind of number on the left."""

_FEW = 20
"""False alarms from which on a rate is drawn; the rate of fewer is mostly chance."""

_PAGE = 7.0
"""Width of the picture in inches."""


def audit_picture(found: Mapping[str, Outcome]) -> Figure:
    """Bounds on epsilon of every case; beside them ROC curves, and the largest TPR allowed (dotted).

    A ROC curve begins at the FPR of `_FEW` false alarms: what it says of smaller ones is chance.

    Args:
        found: the outcomes, by case, from top to bottom.
    """
    size = (_PAGE, max(3.3, 1.5 + 0.27 * len(found)))
    figure, (left, right) = plt.subplots(1, 2, figsize=size, width_ratios=(3, 2.4))
    _bounds(left, found)
    _curves(right, found)
    for axis in (left, right):
        axis.tick_params(labelsize=7.5)
        axis.xaxis.label.set_size(8.5)
        axis.yaxis.label.set_size(8.5)
    return figure


def _bounds(axis: Axes, found: Mapping[str, Outcome]) -> None:
    """One row a case; its name has the colour of its ROC curve."""
    places = np.arange(len(found))[::-1]
    for kind, (marker, number, size) in _MARKS.items():
        points = [
            (x, y) for y, one in zip(places, found.values(), strict=True) for x in _at(one, kind)
        ]
        if points:
            x, y = np.array(points).T
            colour = style.line(number)["color"]
            axis.scatter(x, y, marker=marker, color=colour, label=kind, s=size, zorder=3)
    axis.set_yticks(places, list(found))
    for number, tick in enumerate(axis.get_yticklabels()):
        tick.set_color(style.line(number)["color"])
    axis.set(xlabel=r"$\varepsilon$ of the whole training", xlim=(-0.2, None))
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=7, handlelength=1.5
    )


def _curves(axis: Axes, found: Mapping[str, Outcome]) -> None:
    """TPR against FPR of every case, in per cent."""
    starts = {name: _FEW / one.roc.trainings[0] for name, one in found.items()}
    least = 10 ** np.floor(np.log10(min(starts.values())))
    fpr = np.geomspace(least, 1, 120)
    for number, (name, one) in enumerate(found.items()):
        shown = style.line(number)
        axis.plot(
            *_certain(one, starts[name]), color=shown["color"], linestyle=shown["linestyle"],
            linewidth=1.2,
        )  # fmt: skip
        if one.case.family is not None:
            most = 1 - missed(one.case.family(one.case.sigma), fpr)
            axis.plot(
                100 * fpr, 100 * most, color=shown["color"], linestyle=(0, (1, 1.5)), linewidth=1.0
            )
    axis.plot(100 * fpr, 100 * fpr, color=style.MUTED, linewidth=0.8)
    ends = {"xlim": (100 * least, 100), "ylim": (100 * least, 110)}
    axis.set(xscale="log", yscale="log", xlabel="FPR in %", ylabel="TPR in %", **ends)
    for line in (axis.xaxis, axis.yaxis):
        line.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _certain(one: Outcome, start: float) -> NDArray[np.float64]:
    """FPR and TPR in per cent from the FPR `start` on, shape (2, points)."""
    seen, reached = one.roc.rates()
    later = seen > start
    before = reached[~later].max()  # the threshold with the most right alarms up to there
    first = [[start], [before]] if before > 0 else [[], []]
    return 100 * np.hstack([first, [seen[later], reached[later]]])


def _at(one: Outcome, kind: str) -> list[float]:
    """The numbers of a case that a marker shows."""
    if kind == "attacked":
        return [guarantee.epsilon for guarantee in one.case.printed]
    if kind == "(a) free":
        return [one.free]
    if one.audit is None:
        return []
    return [one.audit.upper if kind == "upper" else one.audit.implied]
