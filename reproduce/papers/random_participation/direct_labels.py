"""Names written on the curves themselves, each where its curve is farthest from the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from repro.report import style
from reproduce.papers.random_participation.words import decimal

__all__ = ["Line", "joined", "write_labels"]

_LETTER, _HEIGHT = 0.0083, 0.0085
"""Width of a letter and half the height of a row of text, in inches per point of their size."""

_TOUCH = 0.05
"""Curves that are nowhere farther apart than this many inches share one name."""

_CLEAR, _ENOUGH = 0.14, 0.07
"""Distances in inches from the next curve: beyond the first more is no gain; below the second a name
goes beside its curve, with a thin line to it."""

_LONG = 1.0
"""A name of more than so many inches lies on its curve only where that is flat: it would hide much."""

_Box = tuple[float, float, float, float]
"""Centre and half sizes of a name, in inches from the lower left corner."""

_Spot = tuple[float, float]
"""A place in inches from the lower left corner."""


@dataclass(frozen=True)
class Line:
    """A drawn curve: its values and its colour."""

    values: NDArray[np.float64]
    color: str


def write_labels(
    axis: Axes, x: ArrayLike, lines: Mapping[str, Line], size: float = 7.5
) -> list[str]:
    """Write the name of each curve on it, and return the names of those that cannot be seen.

    Curves that coincide share one name. The limits of the axes must be set, and nothing may change
    them afterwards.

    Args:
        axis: with linear or logarithmic scales.
        x: common grid, shape (n,).
        lines: name -> curve over the grid.
        size: of the letters, in points.
    """
    width, height = _inches(axis)
    across = _share(axis, np.asarray(x, dtype=float), "x") * width
    heights = {}
    for name, line in lines.items():
        up = _share(axis, line.values, "y") * height
        heights[name] = np.where((up >= 0) & (up <= height), up, np.nan)
    hidden = [name for name, up in heights.items() if np.isnan(up).all()]
    grid = _grid((width, height))
    drawn = [
        np.interp(grid, across, up, left=np.nan, right=np.nan)
        for name, up in heights.items()
        if name not in hidden
    ]
    placed: list[_Box] = []
    if hidden:
        placed.append(_tell_hidden(axis, hidden, size, drawn, (width, height)))
    groups = _groups({name: up for name, up in heights.items() if name not in hidden})
    spots: dict[str, tuple[_Spot, _Spot]] = {}
    for beside in (False, True):  # names on curves first: thin lines then keep off them
        for group in groups:
            name, text = group[0], joined(group)
            half = (len(text) + 1) * _LETTER * size / 2, _HEIGHT * size
            if name in spots:
                continue
            if beside:
                lines_so_far = [pair for pair in spots.values() if pair[0] != pair[1]]
                spot, point = _beside(
                    across, heights[name], drawn, half, placed, (width, height), lines_so_far
                )
            else:
                others = [up for other, up in heights.items() if other not in group]
                clear, spot = _on_curve(
                    across, heights[name], others, half, placed, (width, height)
                )
                point = spot if clear >= _ENOUGH else None
            if spot is not None and point is not None:
                spots[name] = spot, point
                placed.append((*spot, *half))
    for group in groups:
        name, text = group[0], joined(group)
        if name not in spots:
            continue
        spot, point = spots[name]
        axis.annotate(
            text,
            (point[0] / width, point[1] / height),
            (spot[0] / width, spot[1] / height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=lines[name].color,
            fontsize=size,
            ha="center",
            va="center",
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.9},
            arrowprops=None
            if spot == point
            else {
                "arrowstyle": "-",
                "color": lines[name].color,
                "lw": 0.6,
                "shrinkA": 0,
                "shrinkB": 0,
            },
        )
    return hidden


def joined(names: Sequence[str]) -> str:
    """Names of coinciding curves as one: "WCS, d = 50, 100"."""
    plain = [name for name in names if not name.startswith("d = ")]
    counts = sorted(int(name.removeprefix("d = ")) for name in names if name not in plain)
    numbers = [f"d = {', '.join(map(str, counts))}"] if counts else []
    return ", ".join([*plain, *numbers])


def _inches(axis: Axes) -> tuple[float, float]:
    """Width and height of the axes' inner rectangle once the layout is settled."""
    figure = axis.get_figure()
    figure.draw_without_rendering()
    box = axis.get_window_extent()
    return box.width / figure.dpi, box.height / figure.dpi


def _share(axis: Axes, values: NDArray[np.float64], which: str) -> NDArray[np.float64]:
    """Places of values along an axis, 0 at its lower end and 1 at its upper end."""
    low, high = getattr(axis, f"get_{which}lim")()
    with np.errstate(divide="ignore", invalid="ignore"):
        if getattr(axis, f"get_{which}scale")() == "log":
            share = np.log(values / low) / np.log(high / low)
        else:
            share = (values - low) / (high - low)
    return np.where(np.isfinite(share), share, np.nan)


def _groups(heights: Mapping[str, NDArray[np.float64]]) -> list[list[str]]:
    """Names of curves that coincide together, in the order in which they come."""
    groups: list[list[str]] = []
    for name, up in heights.items():
        for group in groups:
            apart = np.abs(up - heights[group[0]])
            seen = np.isnan(up) != np.isnan(heights[group[0]])
            if not seen.any() and np.nanmax(apart) < _TOUCH:
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def _tell_hidden(
    axis: Axes,
    hidden: Sequence[str],
    size: float,
    rows: Sequence[NDArray[np.float64]],
    room: tuple[float, float],
) -> _Box:
    """Say low in the picture, off all curves, which of them lie below it; return the place taken."""
    text = f"below {decimal(axis.get_ylim()[0])}: {joined(hidden)}"
    half = (len(text) + 1) * _LETTER * size / 2, _HEIGHT * size
    corner = np.array([half[0], half[0] + 0.02]), np.array([half[1], half[1]])
    spot, _ = _beside(*corner, rows, half, [], room, [])
    left, up = spot or (half[0], half[1])
    place = left / room[0], up / room[1]
    look = {"fontsize": size, "color": style.MUTED, "ha": "center", "va": "center"}
    axis.text(*place, text, transform=axis.transAxes, **look)
    return left, up, *half


def _grid(room: tuple[float, float]) -> NDArray[np.float64]:
    """Places across the panel at which curves are looked at, in inches."""
    return np.linspace(0, room[0], 161)


def _overlap(left: float, up: float, half: tuple[float, float], placed: Sequence[_Box]) -> bool:
    """Whether a box of these half sizes around a place overlaps one that is taken."""
    return any(
        abs(x - left) < wide + half[0] and abs(y - up) < high + half[1]
        for x, y, wide, high in placed
    )


def _on_curve(
    across: NDArray[np.float64],
    up: NDArray[np.float64],
    others: Sequence[NDArray[np.float64]],
    half: tuple[float, float],
    placed: Sequence[_Box],
    room: tuple[float, float],
) -> tuple[float, tuple[float, float] | None]:
    """The place on the curve that is farthest from the others, and how far; -inf where none is."""
    grid = np.linspace(half[0], room[0] - half[0], 121)
    best, spot = -np.inf, None
    own = np.interp(grid, across, up, left=np.nan, right=np.nan)
    full = _grid(room)
    whole, *rows = (
        np.interp(full, across, curve, left=np.nan, right=np.nan) for curve in (up, *others)
    )
    for k, (left, height) in enumerate(zip(grid, own, strict=True)):
        inside = half[1] <= height <= room[1] - half[1]
        if not inside or _overlap(left, height, half, placed):
            continue
        near = np.abs(full - left) <= half[0]
        if half[0] > _LONG / 2 and np.ptp(whole[near]) > 2 * half[1]:
            continue
        gaps = [np.nanmin(np.abs(row[near] - height), initial=_CLEAR) for row in rows]
        clear = min([*gaps, _CLEAR]) - 1e-3 * abs(k - 60) / 60  # of equals the one in the middle
        if clear > best:
            best, spot = clear, (float(left), float(height))
    return best, spot


def _beside(
    across: NDArray[np.float64],
    up: NDArray[np.float64],
    rows: Sequence[NDArray[np.float64]],
    half: tuple[float, float],
    placed: Sequence[_Box],
    room: tuple[float, float],
    leaders: Sequence[tuple[_Spot, _Spot]],
) -> tuple[_Spot | None, _Spot | None]:
    """A free place near the curve, off all curves, and the point of the curve next to it.

    The `rows` are the heights of all curves on `_grid`. The thin line between the two crosses no
    name, and the place lies on none of the `leaders`, the thin lines that are there already.
    """
    grid = _grid(room)
    own = np.interp(grid, across, up, left=np.nan, right=np.nan)
    best, spot, point = np.inf, None, None
    for left in np.linspace(half[0], room[0] - half[0], 41):
        near = np.abs(grid - left) <= half[0] + 0.03
        for height in np.linspace(half[1], room[1] - half[1], 41):
            gaps = [np.nanmin(np.abs(row[near] - height), initial=1.0) for row in rows]
            if min([*gaps, 1.0]) < half[1] + 0.03 or _overlap(left, height, half, placed):
                continue
            away = np.hypot(grid - left, own - height)
            k = int(np.nanargmin(away))
            cost = away[k] + 0.05 * abs(left / room[0] - 0.5)
            here, there = (float(left), float(height)), (float(grid[k]), float(own[k]))
            if (
                cost < best
                and not any(_crosses(here, there, box) for box in placed)
                and not any(_crosses(*leader, (*here, *half)) for leader in leaders)
            ):
                best, spot, point = cost, here, there
    return spot, point


def _crosses(start: _Spot, end: _Spot, box: _Box) -> bool:
    """Whether the straight line between two places passes through a box."""
    along = np.linspace(0, 1, 33)
    x, y = (a + along * (b - a) for a, b in zip(start, end, strict=True))
    return bool(np.any((np.abs(x - box[0]) < box[2]) & (np.abs(y - box[1]) < box[3])))
