"""The pictures of Figures 3 to 6 of MS-PAFL: the paper's panels first, the truth below at equal δ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, NullFormatter

from repro.report import style
from reproduce.papers.ticks import Alike
from reproduce.papers.words import number

Curves = Mapping[str, np.ndarray]
"""Label -> values of one curve, shape (n,)."""

Views = Mapping[str, Mapping[str, Mapping[str, np.ndarray]]]
"""Label -> view -> "lower", "upper" -> values, shape (n,)."""

WIDTH = 7.0
"""Inches, of all pictures here."""

_SMALL = 7.2  # points, of labels at curves
_LINE = 0.085  # of a panel's height, between two labels
_SERVER, _AVERAGE = 1, 2  # places in the palette, where a colour stands for an adversary
_NOT_KEPT = (0, (1, 1.6))  # dashes of what holds if nothing were kept


# Axes ---------------------------------------------------------------------------------------------


def log_axis(axis: Axes, way: str, low: float, high: float) -> None:
    """A logarithmic axis from `low` to `high` with plain ticks: decades, or 1, 2, 5 over two decades.

    Args:
        axis: of the picture. way: "x" or "y".
        low, high: its ends, > 0.
    """  # fmt: skip
    decades = np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    steps = (1,) if np.log10(high / low) > 2.2 else (1, 2, 5)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    getattr(axis, f"set_{way}scale")("log")
    getattr(axis, f"set_{way}lim")(low, high)
    one = getattr(axis, f"{way}axis")
    one.set_major_locator(FixedLocator([x for x in ticks if low * 0.999 <= x <= high * 1.001]))
    one.set_major_formatter(Alike())
    one.set_minor_formatter(NullFormatter())


def spread(wanted: Sequence[float], gap: float) -> np.ndarray:
    """Places near the wanted ones, in their order, at least `gap` apart; shape (n,)."""
    order = np.argsort(wanted, kind="stable")
    placed = np.asarray(wanted, dtype=float)[order]
    for _ in range(200):
        short = gap - np.diff(placed)
        if not np.any(short > 1e-9):
            break
        push = np.maximum(short, 0) / 2
        placed[:-1] -= push
        placed[1:] += push
    found = np.empty(len(placed))
    found[order] = placed
    return found


def end_labels(axis: Axes, ends: Mapping[str, tuple[float, str]]) -> None:
    """Words to the right of a panel at the height of the curves' ends, none over another.

    Args:
        axis: with its limits set.
        ends: words -> (height of the curve's end, colour).
    """
    heights = axis.transLimits.transform(
        axis.transScale.transform([(axis.get_xlim()[0], height) for height, _ in ends.values()])
    )[:, 1]
    for place, (words, (_, colour)) in zip(spread(heights, _LINE), ends.items(), strict=True):
        axis.text(1.03, place, words, transform=axis.transAxes, color=colour, fontsize=_SMALL,
                  va="center")  # fmt: skip


def _grid(rows: int, height: float, *, ratios: Sequence[float] = ()) -> tuple[Figure, Any]:
    figure = plt.figure(figsize=(WIDTH, height))
    return figure, figure.add_gridspec(rows, 2, height_ratios=ratios or None, wspace=0.06)


def printed_panel(
    axis: Axes, x: np.ndarray, curves: Curves, *, title: str, xlabel: str, ylabel: str, form: str
) -> None:
    """One panel of the paper: its formula, each curve with its label and last value at its end.

    The axes keep the limits and scales that they have. `form` formats the last values.
    """
    ends = {}
    for k, (label, values) in enumerate(curves.items()):
        style.curve(axis, x, values, k, marks=5)
        ends[f"{label}: {values[-1]:{form}}"] = float(values[-1]), style.line(k)["color"]
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    end_labels(axis, ends)


# Figure 3 -----------------------------------------------------------------------------------------


def one_round(
    local: np.ndarray, printed: Mapping[str, Curves], titles: Mapping[str, str],
    rows: Mapping[str, tuple[float, Mapping[str, Mapping[str, np.ndarray]]]],
) -> Figure:  # fmt: skip
    """Figure 3: Corollary 1 in (a) and (b), and in (c) what two adversaries can learn, at equal δ.

    Args:
        local: local epsilons, shape (n,).
        printed: part -> label -> formula, shape (n,).
        titles: part -> its title.
        rows: setting in words -> (formula, view -> "lower", "upper" -> one value), for (c).
    """
    ratios = 2.5, 0.8 + 0.33 * len(rows)
    figure = plt.figure(figsize=(WIDTH, 1.1 * sum(ratios)))
    above, below = figure.subfigures(2, 1, height_ratios=ratios)
    grid = above.add_gridspec(1, 2, wspace=0.06)
    top = 1.06 * max(float(np.max(v)) for row in printed.values() for v in row.values())
    for k, (part, curves) in enumerate(printed.items()):
        axis = above.add_subplot(grid[0, k])
        axis.set(xlim=(0, local[-1]), ylim=(0, top))
        words = {"xlabel": "local ε of an upload", "ylabel": "" if k else "central ε of one round"}
        printed_panel(axis, local, curves, title=titles[part], **words, form=".2g")
    _dots(below.add_subplot(), rows)
    return figure


def _dots(axis: Axes, rows: Mapping[str, tuple[float, Any]]) -> None:
    """One row a setting: the printed epsilon, and what the two adversaries can learn.

    A lower end of 0 is drawn to the left edge.
    """
    values = [e for _, views in rows.values() for view in views.values() for e in view.values()]
    values += [formula for formula, _ in rows.values()]
    low, high = 0.6 * min(float(v) for v in values if v > 0), 1.6 * float(np.max(values))
    for place, (formula, views) in enumerate(rows.values()):
        for name, k, up in (("server", _SERVER, -0.16), ("average", _AVERAGE, 0.16)):
            look = style.line(k)
            for view, face in ((name, look["color"]), (f"{name}, ended", "white")):
                ends = [max(float(views[view][end]), low) for end in ("lower", "upper")]
                axis.plot(ends, [place + up] * 2, color=look["color"], ls="-", lw=3, alpha=0.5,
                          solid_capstyle="butt")  # fmt: skip
                axis.plot(ends[1], place + up, marker=look["marker"], mfc=face, ls="none",
                          mec=look["color"], ms=5)  # fmt: skip
        axis.plot(formula, place, marker="o", mfc="none", mec="black", mew=1.3, ms=9, ls="none")
        times = [float(views[name]["upper"]) / formula for name in ("server", "average")]
        for column, (value, k) in enumerate(zip(times, (_SERVER, _AVERAGE), strict=True)):
            axis.text(1.03 + 0.1 * column, place, f"{number(float(f'{value:.2g}'))}×", color=style.line(k)["color"],
                      transform=axis.get_yaxis_transform(), va="center", fontsize=8)  # fmt: skip
    log_axis(axis, "x", low, high)
    axis.set_yticks(range(len(rows)), list(rows))
    axis.set(ylim=(len(rows) - 0.4, -0.6), xlabel="ε of one round at the formula's own δ")
    axis.set_title("(c) the formula, and what the worst client can lose", loc="left")
    for column, (words, k) in enumerate((("server", _SERVER), ("average", _AVERAGE))):
        axis.text(1.015 + 0.11 * column, 1.035, words, color=style.line(k)["color"], fontsize=7.5,
                  transform=axis.transAxes)  # fmt: skip
    handles = [_hollow("Corollary 1", "o", "black", 8)]
    for words, k in (("server that sees the uploads", _SERVER), ("averaged model only", _AVERAGE)):
        look = style.line(k)
        handles.append(Line2D([], [], color=look["color"], marker=look["marker"], ms=5, lw=3,
                              alpha=0.8, label=words))  # fmt: skip
    handles.append(_hollow("the same, if nothing were kept", "s", style.MUTED, 5))
    axis.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=4,
                fontsize=_SMALL, columnspacing=1.2, handlelength=1.6)  # fmt: skip


def _hollow(words: str, marker: str, colour: str, size: float) -> Line2D:
    return Line2D([], [], marker=marker, mfc="none", mec=colour, ms=size, ls="none", label=words)


# Figures 4 and 6 ----------------------------------------------------------------------------------


def totals(
    x: np.ndarray, printed: Mapping[str, Curves], at: np.ndarray,
    pair: Mapping[str, Views], target: Mapping[str, Views], words: Mapping[str, Any],
) -> Figure:  # fmt: skip
    """Figures 4 and 6: Theorem 4, the truth at the δ of Theorem 4 over it, the truth at the target δ.

    Args:
        x: T of the printed curves. printed: part -> label -> Theorem 4.
        at: T of the others, shape (n,).
        pair: part -> label -> view -> true over printed epsilon at the δ of Theorem 4.
        target: likewise at the target, as ratios or as epsilons.
        words: "titles" (part -> title), "pair" and "target" (their titles), "target y" (axis).
    """  # fmt: skip
    figure, grid = _grid(3, 8.6, ratios=[1.25, 1.0, 1.0])
    limits = _ends([v for row in printed.values() for v in row.values()])
    for k, part in enumerate(printed):
        axis = figure.add_subplot(grid[0, k])
        log_axis(axis, "x", float(x[0]), float(x[-1]))
        log_axis(axis, "y", *limits)
        labels = {"xlabel": "", "ylabel": "" if k else "central ε of T rounds"}
        printed_panel(axis, x, printed[part], title=words["titles"][part], **labels, form=".3g")
    for row, (views, title, label) in enumerate(
        (
            (pair, words["pair"], "true ε / printed ε"),
            (target, words["target"], words["target y"]),
        ),
        start=1,
    ):
        ends = _ends([v for row in views.values() for one in row.values() for v in _drawn(one)])
        for k, part in enumerate(printed):
            axis = figure.add_subplot(grid[row, k])
            log_axis(axis, "x", float(x[0]), float(x[-1]))
            log_axis(axis, "y", *ends)
            letter = "abcdef"[2 * row + k]
            adversaries(axis, at, views[part], ratio="/" in label)
            axis.set(title=f"({letter}) {title}", ylabel="" if k else label)
            axis.set_xlabel("rounds T" if row == 2 else "")
    figure.legend(
        handles=[
            Patch(color=style.MUTED, alpha=0.4, label="server that sees the uploads (bracket)"),
            Line2D([], [], color=style.MUTED, lw=1.3, ls=_NOT_KEPT,
                   label="averaged models only (upper bound)"),
        ],
        loc="outside upper center", ncols=3, fontsize=8, handlelength=2.2,
    )  # fmt: skip
    return figure


def _drawn(found: Mapping[str, Mapping[str, np.ndarray]]) -> list[np.ndarray]:
    """What `adversaries` draws of a setting."""
    return [found["server"]["lower"], found["server"]["upper"], found["average"]["upper"]]


def not_drawn(*views: Mapping[str, Views]) -> str:
    """The sentences that a caption of Figures 4 and 6 needs: what a logarithmic axis cannot show."""
    settings = [one for parts in views for row in parts.values() for one in row.values()]
    told = ""
    if any(np.any(one["server"]["lower"] <= 0) for one in settings):
        told += " A band that reaches the lower edge has the lower end 0."
    if any(np.any(one["average"]["upper"] <= 0) for one in settings):
        told += " An upper bound of 0 is not drawn: such a dotted curve begins later."
    return told


def _ends(values: Sequence[np.ndarray]) -> tuple[float, float]:
    """Ends of a logarithmic axis for all values that are not 0: 1, 2 or 5 times a power of ten."""
    values = np.concatenate([one[one > 0] for one in values])
    ticks = np.array([step * 10.0**k for k in range(-6, 5) for step in (1, 2, 5)])
    return (
        float(ticks[ticks <= 0.8 * values.min()].max()),
        float(ticks[ticks >= 1.2 * values.max()].min()),
    )


def adversaries(
    axis: Axes, at: np.ndarray, views: Views, *, ratio: bool, names: Mapping[str, str] | None = None
) -> None:
    """What the two adversaries can learn, in the colours of the printed curves.

    A lower end of 0 is drawn to the lower edge. `ratio` draws the line at 1.
    """
    floor = axis.get_ylim()[0]
    ends = {}
    for k, (label, found) in enumerate(views.items()):
        look = style.line(k)
        server = found["server"]
        low = np.maximum(server["lower"], floor)
        high = np.where(server["upper"] > 0, server["upper"], np.nan)
        axis.fill_between(at, low, high, color=look["color"], alpha=0.25, lw=0)
        axis.plot(at, high, color=look["color"], ls="-", lw=1.2, marker=look["marker"], ms=3.5)
        axis.plot(at, low, color=look["color"], ls="-", lw=0.7)
        average = np.where(found["average"]["upper"] > 0, found["average"]["upper"], np.nan)
        axis.plot(at, average, color=look["color"], ls=_NOT_KEPT, lw=1.4)
        said = (names or {}).get(label, label)
        ends[f"{said}: {_between(server)}"] = float(high[-1]), look["color"]
    if ratio:
        axis.axhline(1, color="black", lw=0.9, ls="-")
    end_labels(axis, ends)


def _between(bracket: Mapping[str, np.ndarray]) -> str:
    """The last value of a bracket: one number where both ends agree to two digits."""
    low, high = (f"{float(bracket[end][-1]):.2g}" for end in ("lower", "upper"))
    return high if low == high else f"{low}–{high}"


# Figure 5 -----------------------------------------------------------------------------------------

_METHODS = {"WR": 0, "WOR": 1, "DP-FedAvg": 6}
"""Method -> place in the palette."""


def local_totals(found: Mapping[str, Any], x: np.ndarray, at: np.ndarray) -> Figure:
    """Figure 5: a client's own loss: Theorem 3 above, and below what the server can learn, at equal δ.

    Args:
        found: what `curves.local_totals` returns.
        x: T of the printed curves.
        at: T of the other curves.
    """
    names = list(found["printed"])
    figure = plt.figure(figsize=(WIDTH, 5.9))
    grid = figure.add_gridspec(2, len(names), wspace=0.06)
    for k, name in enumerate(names):
        curves, truth = found["printed"][name], found["truth"][name]
        shown = [*curves.values(), *(v for row in truth.values() for v in row.values())]
        low = min(float(v[v > 0].min()) for v in shown if np.any(v > 0))
        limits = (
            10.0 ** np.floor(np.log10(low)),
            10.0 ** np.ceil(np.log10(1.2 * max(v.max() for v in shown))),
        )
        axes = [figure.add_subplot(grid[row, k]) for row in (0, 1)]
        for axis in axes:
            log_axis(axis, "x", float(x[0]), float(x[-1]))
            log_axis(axis, "y", *limits)
        ends = {}
        for method, place in _METHODS.items():
            style.curve(axes[0], x, curves[method], place, marks=5)
            last = float(curves[method][-1])
            ends[f"{method}: {last:.3g}"] = last, style.line(place)["color"]
        end_labels(axes[0], ends)
        _server(axes[1], found, name, at)
        axes[0].set_title(f"({'ab'[k] if k < 2 else k}) Theorem 3, local ε = {name}")
        axes[1].set_title(f"({'cd'[k] if k < 2 else k}) what the worst client can lose")
        axes[1].set_xlabel("rounds T")
        if not k:
            for axis in axes:
                axis.set_ylabel("client's ε of T rounds")
    return figure


def _server(axis: Axes, found: Mapping[str, Any], name: str, at: np.ndarray) -> None:
    """What the server can learn of each method, and the printed curve without replacement."""
    floor, ends = axis.get_ylim()[0], {}
    for method, place in _METHODS.items():
        look, bracket = style.line(place), found["truth"][name][method]
        low = np.maximum(bracket["lower"], floor)
        axis.fill_between(at, low, bracket["upper"], color=look["color"], alpha=0.25, lw=0)
        axis.plot(at, bracket["upper"], color=look["color"], ls=look["linestyle"], lw=1.2,
                  marker=look["marker"], ms=3.5)  # fmt: skip
        ends[f"{method}: {_between(bracket)}"] = float(bracket["upper"][-1]), look["color"]
    ended, stated = found["ended"][name]["WOR"], found["stated"][name]["WOR"]
    colour = style.line(_METHODS["WOR"])["color"]
    axis.plot(at, ended, color=colour, ls=_NOT_KEPT, lw=1.3)
    ends["WOR, nothing kept"] = float(ended[-1]), colour
    axis.plot(at, stated, color=colour, ls="none", marker="s", mfc="white", ms=5)
    ends["WOR, Theorem 3"] = float(stated[-1]), colour
    end_labels(axis, ends)
