"""The picture of an audit: bounds on epsilon, setting by setting, and the attacker's ROC curves."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from repro.report import style
from reproduce.papers.audit_cases import Outcome
from reproduce.papers.auditing import tradeoff

_LEFT = (("upper", "|", 0), ("(b) implied", "o", 1), ("(a) free", "s", 2), ("printed", "x", 6))


def audit_picture(found: Mapping[str, Outcome]) -> Figure:
    """Bounds on epsilon of every case; beside them ROC curves, and the largest TPR allowed (dotted).

    Args:
        found: the outcomes, by case, from top to bottom.
    """
    height = 1.5 + 0.27 * len(found)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.4, max(3.3, height)), width_ratios=(3, 2.4)
    )
    places = np.arange(len(found))[::-1]
    for label, marker, k in _LEFT:
        points = [
            (x, y) for y, one in zip(places, found.values(), strict=True) for x in _at(one, label)
        ]
        if points:
            x, y = np.array(points).T
            left.scatter(
                x, y, marker=marker, color=style.line(k)["color"], label=label, s=34, zorder=3
            )
    left.set_yticks(places, list(found))
    left.set(xscale="symlog", xlabel=r"$\varepsilon$ of the whole training", xlim=(0, None))
    left.set_xscale("symlog", linthresh=0.1)
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4, fontsize=7)
    allowed = np.geomspace(1e-5, 1, 120)
    for k, one in enumerate(found.values()):
        fpr, tpr = one.roc.rates()
        shown = style.line(k)
        keep = np.unique(np.round(np.linspace(0, len(fpr) - 1, 400)).astype(int))
        right.plot(
            np.maximum(fpr[keep], 1e-6), tpr[keep], color=shown["color"], linestyle=shown["linestyle"],
            linewidth=1.2,
        )  # fmt: skip
        if one.audit is not None and one.case.family is not None:
            most = 1 - tradeoff(one.case.family(one.case.sigma), allowed)
            right.plot(allowed, most, color=shown["color"], linestyle=(0, (1, 1.5)), linewidth=1.0)
        left.scatter([], [])
    for tick, k in zip(left.get_yticklabels(), range(len(found)), strict=True):
        tick.set_color(style.line(k)["color"])
    right.plot(allowed, allowed, color=style.MUTED, linewidth=0.8)
    right.set(
        xscale="log", yscale="log", xlim=(1e-5, 1), ylim=(1e-5, 1.1), xlabel="FPR", ylabel="TPR"
    )
    for axis in (left, right):
        axis.tick_params(labelsize=7.5)
        axis.xaxis.label.set_size(8.5)
        axis.yaxis.label.set_size(8.5)
    return figure


def _at(one: Outcome, label: str) -> list[float]:
    """The numbers of a case that a marker shows."""
    if label == "printed":
        return [guarantee.epsilon for guarantee in one.case.printed]
    if label == "(a) free":
        return [one.free]
    if one.audit is None:
        return []
    return [one.audit.upper if label == "upper" else one.audit.implied]
