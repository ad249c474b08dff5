"""The pictures that explain the derivations of random participation; 7 inches wide, type of 7.5 points or more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import binom, norm

from repro.report import style
from reproduce.papers.random_participation.quadrature import weights
from reproduce.papers.ticks import Alike

__all__ = ["angles", "crossing", "crowd", "integrand", "limits", "right_region"]

WIDTH, TYPE = 7.0, 7.5

_LOWEST = 1e-9
"""The smallest participation rate drawn."""


def _panels(count: int, height: float, **options: bool) -> tuple[Figure, NDArray]:
    figure, axes = plt.subplots(1, count, figsize=(WIDTH, height), squeeze=False, **options)
    for axis in axes[0]:
        axis.tick_params(labelsize=TYPE)
    return figure, axes[0]


def _names(axis: Axes, title: str, xlabel: str = "", ylabel: str = "") -> None:
    axis.set_title(title, fontsize=8.5)
    axis.set_xlabel(xlabel, fontsize=8)
    axis.set_ylabel(ylabel, fontsize=8)


def _curve(axis: Axes, x: NDArray, y: NDArray, k: int, label: str, width: float = 1.4) -> None:
    look = style.line(k)
    axis.plot(
        x, y, color=look["color"], linestyle=look["linestyle"], linewidth=width, label=label or None
    )


def crowd(others: Mapping[str, NDArray], chances: Mapping[str, tuple[NDArray, NDArray]]) -> Figure:
    """Where the outcomes of the blackboard example lie, and with which chance in P and in Q.

    Args:
        others: title -> the outcomes as points of the plane, shape (n, 2).
        chances: title -> their chances in P and Q, two arrays of shape (n,).
    """
    figure, axes = _panels(len(others), 2.3, sharex=True, sharey=True)
    for axis, (title, points) in zip(axes, others.items(), strict=True):
        first, second = chances[title]
        for (x, y), a, b in zip(points, first, second, strict=True):
            look = style.PALETTE[1] if b == 0 else style.PALETTE[0]
            axis.plot(x, y, "o", ms=14 * np.sqrt(a), color=look, alpha=0.85)
            axis.annotate(
                f"P {a:g}, Q {b:g}" + ("\n(only with x′)" if b == 0 else ""),
                *((x, y), (0, 11)),
                textcoords="offset points",
                ha="center",
                fontsize=TYPE,
            )
        _names(axis, title, "along v (units of C)", "across v")
        axis.set(xlim=(-0.5, 2.75), ylim=(-0.4, 1.5), xticks=(0, 1, 2), yticks=(0, 1))
    return figure


def angles(
    degrees: NDArray, leaks: Mapping[str, NDArray], levels: Mapping[str, tuple[float, float]]
) -> Figure:
    """The leak against the angle between the others and x', with the printed and the repaired bound.

    Args:
        degrees: the angles, shape (n,).
        leaks: title of a panel -> delta at each angle, shape (n,).
        levels: title of a panel -> the printed and the repaired bound.
    """
    figure, axes = _panels(len(leaks), 2.5, sharex=True)
    for axis, (title, leak) in zip(axes, leaks.items(), strict=True):
        printed, repaired = levels[title]
        _curve(axis, degrees, leak, 0, "")
        for k, level in ((1, printed), (2, repaired)):
            _curve(axis, degrees[[0, -1]], np.array([level, level]), k, "")
        axis.plot(degrees[np.argmax(leak)], leak.max(), "o", ms=4, color=style.PALETTE[0])
        _names(axis, title, "angle to x′ (degrees)", "δ" if axis is axes[0] else "")
        axis.set_xticks((0, 45, 90, 135, 180))
        axis.set_ylim(0, 1.18 * repaired)
    printed, repaired = next(iter(levels.values()))
    for level, name, k in ((printed, "printed bound", 1), (repaired, "repaired bound", 2)):
        axes[0].annotate(name, (90, level), (0, 3), textcoords="offset points", ha="center",
                         fontsize=TYPE, color=style.PALETTE[k])  # fmt: skip
    return figure


def integrand(
    d: int, sigma: float, p: float, q: float, epsilon: float
) -> tuple[NDArray, list[NDArray], NDArray, float, float]:
    """What `crossing` draws: line, terms of single counts, silence, and both zero crossings.

    Args:
        d: number of other records. sigma: noise. p, q: rates in (0, 1]. epsilon: >= 0 ("remove").
    """
    _, w1, w0 = weights(epsilon, p, q, "remove")
    z = np.linspace(-1.5, d + 3.5, 2001)
    chances = binom.pmf(np.arange(d + 1), d, q)
    pieces = [
        b * (norm.pdf(z, i + 1, sigma) - w1 * norm.pdf(z, i, sigma)) for i, b in enumerate(chances)
    ]
    silence = w0 * norm.pdf(z, 0, sigma)
    sums = sum(pieces) - silence, sum(np.maximum(piece, 0) for piece in pieces) - silence
    starts = [float(z[np.flatnonzero(total <= 0)[-1] + 1]) for total in sums]
    return z, pieces, silence, starts[0], starts[1]


def crossing(
    z: NDArray, pieces: Sequence[NDArray], silence: NDArray, zero: float, shared: float
) -> Figure:
    """The integrand of equation (28), and that of the repaired theorem, in the same pieces.

    Args:
        z: the line, shape (n,).
        pieces: for each count the term b_i [N(z; i + 1) - w1 N(z; i)], arrays of shape (n,).
        silence: w0 N(z; 0), shape (n,).
        zero, shared: where the printed and the repaired integrand turn positive.
    """
    figure, axes = _panels(2, 2.6, sharex=True, sharey=True)
    sums = sum(pieces) - silence, sum(np.maximum(piece, 0) for piece in pieces) - silence
    titles = (
        "(28): one positive part around the sum",
        "repaired: a positive part around each count",
    )
    for axis, total, start, title in zip(axes, sums, (zero, shared), titles, strict=True):
        for i, piece in enumerate(pieces):
            shown = piece if title.startswith("(28)") else np.maximum(piece, 0)
            axis.plot(
                z, shown, color=style.MUTED, ls="-", lw=0.8, label=None if i else "single counts"
            )
        _curve(axis, z, total, 0 if title.startswith("(28)") else 2, "whole integrand", 1.7)
        axis.fill_between(z, 0, np.maximum(total, 0), color=style.PALETTE[4], alpha=0.35, lw=0)
        axis.axvline(start, color=style.PALETTE[1], ls=":", lw=1.2)
        axis.annotate(f"z* = {start:.2f}", (start, 0), (4, -14), textcoords="offset points",
                      fontsize=TYPE, color=style.PALETTE[1])  # fmt: skip
        _names(axis, title, "z (units of C)", "integrand")
    top = 1.3 * max(float(total.max()) for total in sums)
    axes[0].set_ylim(-1.2 * top, top)
    axes[1].legend(fontsize=TYPE, loc="lower right")
    return figure


def right_region(
    epsilon: NDArray,
    rates: Mapping[str, tuple[NDArray, NDArray]],
    mark: tuple[tuple[float, float], float],
) -> Figure:
    """For which participation rates the printed Theorem 4.1 is right, and for which it is not.

    Args:
        epsilon: the horizontal axis, shape (n,).
        rates: title of a panel -> the rate up to which it is right and the rate from which it is
            wrong, two arrays of shape (n,).
        mark: the range of epsilon and the rate p of Figure 1, drawn as a line.
    """
    figure, axes = _panels(len(rates), 2.5, sharex=True, sharey=True)
    for axis, (title, (right, wrong)) in zip(axes, rates.items(), strict=True):
        bottom = np.full_like(right, 1e-12)
        axis.fill_between(epsilon, bottom, right, color=style.PALETTE[2], alpha=0.45, lw=0)
        axis.fill_between(epsilon, right, wrong, color="#d9d9d9", lw=0)
        axis.fill_between(epsilon, wrong, 1.0, color=style.PALETTE[1], alpha=0.45, lw=0)
        axis.plot(mark[0], (mark[1], mark[1]), color="black", lw=1.6)
        axis.set(yscale="log", ylim=(_LOWEST, 1), xlim=(epsilon[0], epsilon[-1]))
        axis.yaxis.set_major_formatter(Alike())
        _names(axis, title, "ε of one iteration", "participation rate p" if axis is axes[0] else "")
        for name, low, high in (
            ("right", bottom, right),
            ("open", right, wrong),
            ("wrong", wrong, 1),
        ):
            room = np.log(np.minimum(high, 1) / np.maximum(low, _LOWEST))
            k = int(np.argmax(np.where(np.abs(epsilon - np.mean(epsilon)) < 0.8, room, -1)))
            if room[k] > 2.5:
                middle = np.sqrt(np.broadcast_to(high, right.shape)[k] * max(low[k], _LOWEST))
                axis.text(epsilon[k], middle, name, fontsize=8, ha="center", va="center")
    axes[0].annotate("Figure 1", (mark[0][1], mark[1]), (-3, -9), textcoords="offset points",
                     fontsize=TYPE, ha="right")  # fmt: skip
    return figure


def limits(
    records: NDArray, ends: Mapping[str, NDArray], levels: Mapping[str, float], floor: float
) -> Figure:
    """δ against the number of other records, between CS and WCS, with the printed formula.

    Args:
        records: the numbers d >= 1, shape (n,).
        ends: "lower", "upper" and "paper" -> δ, shape (n,).
        levels: name of an exact scheme -> its δ.
        floor: lower end of the vertical axis.
    """
    figure, (axis,) = _panels(1, 2.7)
    axis.fill_between(
        records, ends["lower"], ends["upper"], color=style.PALETTE[0], alpha=0.3, lw=0
    )
    _curve(axis, records, ends["upper"], 0, "repaired bound and best data set")
    _curve(axis, records, ends["lower"], 0, "", 0.8)
    _curve(
        axis,
        records,
        np.where(ends["paper"] < floor**2, np.nan, ends["paper"]),
        1,
        "Theorem 4.1 as printed",
    )
    for k, (name, level) in enumerate(levels.items()):
        axis.axhline(level, color=style.MUTED, lw=0.9, ls=style.DASHES[k + 1])
        axis.annotate(name, (records[-1], level), (-2, 2), textcoords="offset points",
                      fontsize=TYPE, ha="right")  # fmt: skip
    axis.set(xscale="log", yscale="log", ylim=(floor, 3 * max(levels.values())))
    axis.set_xlim(records[0], records[-1])
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(Alike())
    _names(axis, "", "d, other records of the client", "δ at ε = 0.5")
    axis.legend(fontsize=TYPE, loc="center right", bbox_to_anchor=(1, 0.28))
    return figure
