"""The picture shared by the random-participation figures: brackets on the left, printed formula right."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from repro.report import style

__all__ = ["corridor", "legend"]

_REFERENCE = {"CS": 6, "WCS": 3, "OLS": 7}


def corridor(
    x: np.ndarray,
    curves: Mapping[str, Mapping[str, np.ndarray]],
    *,
    xlabel: str,
    ylabel: str,
    xscale: str = "linear",
    yscale: str = "log",
    floor: float | None = None,
) -> Figure:
    """Two panels over one axis: where the truth lies, and what the printed theorem says.

    Args:
      x: grid of the horizontal axis, shape (n,).
      curves: label -> method -> values of shape (n,); labels "CS", "WCS", "OLS" are exact references,
        all others have "upper", "lower" and "paper".
      xlabel, ylabel: with units.
      xscale, yscale: matplotlib scale names.
      floor: lower end of the vertical axis; values below are cut off.
    """
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 4.3), sharex=True, sharey=True)
    studied = [label for label in curves if label not in _REFERENCE]
    places = dict(zip(studied, (k for k in range(8) if k not in _REFERENCE.values()), strict=False))
    for axis, title in zip(
        axes, ("where the truth lies (lower to upper bound)", "Theorem 4.1 as printed"), strict=True
    ):
        axis.set(title=title, xlabel=xlabel, xscale=xscale, yscale=yscale)
        for label in ("OLS", "WCS"):
            if label in curves:
                style.curve(axis, x, curves[label]["upper"], _REFERENCE[label], label=label)
        for label, k in places.items():
            if axis is axes[0]:
                style.band(
                    axis, x, curves[label]["lower"], curves[label]["upper"], k=k, label=label
                )
            else:
                style.curve(axis, x, curves[label]["paper"], k, label=label)
        style.curve(axis, x, curves["CS"]["upper"], _REFERENCE["CS"], label="CS")
    axes[0].set_ylabel(ylabel)
    legend(figure)
    if floor is not None:
        top = max(float(np.max(methods["upper"])) for methods in curves.values())
        axes[0].set_ylim(floor, 3 * top)
    return figure


def legend(figure: Figure) -> None:
    """One legend above both panels, without repeats; call again after adding curves."""
    for old in figure.legends:
        old.remove()
    found: dict[str, object] = {}
    for axis in reversed(figure.axes):
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    columns = len(found) if len(found) <= 8 else (len(found) + 1) // 2
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=columns)
