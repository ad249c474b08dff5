"""The picture of section 6: noise needed, noise printed."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from repro.report import style

__all__ = ["noise_picture"]


def noise_picture(
    levels: Mapping[str, Mapping[str, float]], printed: Mapping[str, Mapping[str, float]]
) -> Figure:
    """One panel a setting, one row a scheme: exact level or bracket, and a cross for the printed one.

    Args:
      levels: setting -> level name -> sigma, from ``reproduce.papers.random_participation.noise_levels``.
      printed: setting -> scheme -> printed sigma.
    """
    figure, axes = plt.subplots(1, len(levels), figsize=(9.4, 2.9), sharey=True)
    rows = ["OLS", "WCS", "scheme", "CS"]
    for axis, (name, level) in zip(axes, levels.items(), strict=True):
        for y, row in enumerate(rows):
            color = style.line(0 if row == "scheme" else 6)["color"]
            if row == "scheme":
                low, high = level["scheme, lower"], level["scheme, upper"]
                axis.plot([low, high], [y, y], color=color, lw=7, solid_capstyle="butt")
                text = f"{low:.3f} to {high:.3f}"
            else:
                high = level[row]
                axis.plot([high], [y], color=color, marker="|", markersize=14, ls="none")
                text = f"{high:.3f}"
            axis.annotate(text, (high, y), (6, 6), textcoords="offset points", fontsize=8)
            if row in printed[name]:
                cross = style.line(1)["color"]
                axis.plot(
                    [printed[name][row]], [y], color=cross, marker="X", markersize=7, ls="none"
                )
        axis.set(title=name, xlabel="sigma (units of the clip)", xscale="log", ylim=(-0.6, 3.7))
        axis.margins(x=0.25)
    axes[0].set_yticks(range(len(rows)), rows)
    handle = plt.Line2D(
        [], [], color=style.line(1)["color"], marker="X", ls="none", label="printed"
    )
    axes[1].legend(handles=[handle], loc="upper right")
    return figure
