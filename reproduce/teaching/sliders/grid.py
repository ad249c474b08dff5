"""Axes of sliders, the grid of bounds over them, and the bounds that hold at any position."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from repro.atomic import write_text
from reproduce.teaching import editions

FOLDER = editions.FOLDER / "sliders"
"""The committed grids, one file a lesson."""

DIGITS = 4
"""Digits of every number that is stored or shown."""

_RELATIVE = 1e-9

Ends = Callable[..., Mapping[str, tuple[np.ndarray, np.ndarray]]]
"""Bounds from the library. It takes the first axis as an array of shape (n,) and the others as numbers, by
their names, and gives for each quantity its lower and upper bounds, both of shape (n,)."""


class GridError(ValueError):
    """A grid is missing, or it is not that of its lesson."""


def outward(
    low: np.ndarray, high: np.ndarray, least: float, most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds a little further out, so that they also hold beside those of another processor.

    Fourier transforms and sums differ between processors: in the last digits, and by 1e-14 in the deltas of
    compositions. Without the margin a bound that is rounded here may be inside of one that is computed there.

    Args:
        low, high: at least 0, of one shape.
        least: values below it are not told apart: 0 and `least` hold there. A tenth of it is the margin of all
            others, far above what processors differ by.
        most: what no value exceeds.
    """
    below = low * (1 - _RELATIVE) - least / 10
    above = np.maximum(high * (1 + _RELATIVE) + least / 10, least)
    return np.where(below < least, 0.0, below), np.minimum(above, most)


def rounded(values: np.ndarray, up: bool) -> np.ndarray:
    """Four digits, rounded to the safe side.

    Args:
        values: finite, any shape.
        up: towards +infinity, else towards -infinity.
    """
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    safe = [float(context.create_decimal_from_float(float(x))) for x in np.ravel(values)]
    return np.array(safe).reshape(np.shape(values))


@dataclass(frozen=True)
class Axis:
    """One slider.

    Attributes:
        name: by which `Ends` takes it.
        label: what a reader sees.
        values: grid points, ascending, of at most four digits.
        between: positions from one grid point to the next; 1 for a slider that stops at grid points only.
        log: whether positions between grid points, and pictures, divide ratios and not differences.
        start: the grid point at which a page opens.

    Raises:
        ValueError: values do not ascend or have more digits than are shown, or start is none of them.
    """

    name: str
    label: str
    values: tuple[float, ...]
    between: int = 1
    log: bool = False
    start: float = 1.0

    def __post_init__(self) -> None:
        if len(self.values) < 2 or np.any(np.diff(self.values) <= 0):
            raise ValueError(f"values must be two or more and ascend, got {self.values}")
        if any(x != float(f"{x:.{DIGITS}g}") for x in self.values):
            raise ValueError(f"values must have at most {DIGITS} digits, got {self.values}")
        if self.start not in self.values:
            raise ValueError(f"start must be one of {self.values}, got {self.start}")

    @property
    def opening(self) -> int:
        """The position at which a page opens."""
        return self.values.index(self.start) * self.between

    @property
    def last(self) -> int:
        """The last position; the first is 0."""
        return (len(self.values) - 1) * self.between

    def neighbours(self, position: int) -> tuple[int, ...]:
        """Indices of the grid point at a position, or of the two around it."""
        below, over = divmod(position, self.between)
        return (below, below + 1) if over else (below,)

    def value(self, position: int) -> float:
        """What the slider stands for, of four digits; rounding does not leave the cell."""
        below, over = divmod(position, self.between)
        if not over:
            return self.values[below]
        a, b, share = self.values[below], self.values[below + 1], over / self.between
        return float(f"{a * (b / a) ** share if self.log else a + (b - a) * share:.{DIGITS}g}")


def spaced(first: float, last: float, count: int, *, log: bool = True) -> tuple[float, ...]:
    """Evenly spaced grid points, rounded to three digits."""
    points = np.geomspace(first, last, count) if log else np.linspace(first, last, count)
    return tuple(float(f"{x:.3g}") for x in points)


@dataclass(frozen=True)
class Page:
    """What a page of sliders shows.

    Attributes:
        name: of the lesson.
        title: of the page.
        lead: one paragraph: the setting, and what to try.
        axes: the sliders; `ends` takes the first as an array.
        quantities: name -> what a reader sees.
        ends: bounds from the library.
        along: the axis that runs to the right in the picture.
        vertical: label of the other axis of the picture.
        span: smallest and largest value of that axis; what is beyond is drawn at the edge.
        log: whether that axis is logarithmic.
        verdicts: (first, second, where first is surely smaller, surely larger, undecided): sentences.
        curve: for a picture of attackers: the rates of false alarms, and hits that an attacker reaches there,
            a function of the values of the first axis, shape (n, rates).
        promise: the quantity whose upper bound is the delta of the promise in that picture, epsilon being
            the second axis.
        least: nothing smaller is told apart, see `outward`.
        most: what no quantity exceeds.
        settled: quantities whose ends hold on every processor as they are.
    """

    name: str
    title: str
    lead: str
    axes: tuple[Axis, ...]
    quantities: Mapping[str, str]
    ends: Ends
    along: str
    vertical: str
    span: tuple[float, float]
    log: bool = False
    verdicts: tuple[tuple[str, str, str, str, str], ...] = ()
    curve: tuple[tuple[float, ...], Callable[[np.ndarray], np.ndarray]] | None = None
    promise: str = ""
    least: float = 0.0
    most: float = np.inf
    settled: frozenset[str] = frozenset()

    @property
    def path(self) -> Path:
        """Where the grid is kept."""
        return FOLDER / f"{self.name}.json"

    def at(self, values: Sequence[float]) -> dict[str, tuple[float, float]]:
        """Bounds from the library at any place: quantity -> lower and upper."""
        first, *others = values
        names = [axis.name for axis in self.axes]
        found = self.ends(np.array([first]), **dict(zip(names[1:], others, strict=True)))
        return {key: (float(low[0]), float(high[0])) for key, (low, high) in found.items()}

    def computed(self) -> Grid:
        """The grid, from the library; minutes."""
        names = [axis.name for axis in self.axes]
        sizes = [len(axis.values) for axis in self.axes]
        low, high = ({key: np.empty(sizes) for key in self.quantities} for _ in range(2))
        first = np.array(self.axes[0].values)
        for place in product(*(range(size) for size in sizes[1:])):
            others = [axis.values[k] for axis, k in zip(self.axes[1:], place, strict=True)]
            found = self.ends(first, **dict(zip(names[1:], others, strict=True)))
            for key, ends in found.items():
                if key not in self.settled:
                    ends = outward(*ends, self.least, self.most)
                low[key][:, *place], high[key][:, *place] = ends
        return Grid(
            self,
            {key: rounded(values, up=False) for key, values in low.items()},
            {key: rounded(values, up=True) for key, values in high.items()},
            None if self.curve is None else rounded(self.curve[1](first), up=False),
        )

    @cached_property
    def grid(self) -> Grid:
        """The committed grid.

        Raises:
            GridError: it is missing or of other axes.
        """
        if not self.path.exists():
            raise GridError(
                f"{self.path.name} is missing: run python -m reproduce.teaching.sliders"
            )
        stored = json.loads(self.path.read_text(encoding="utf-8"))
        points = {axis.name: list(axis.values) for axis in self.axes}
        if stored["axes"] != points or set(stored["low"]) != set(self.quantities):
            raise GridError(f"{self.path.name} is of other axes: renew it")
        sizes = [len(axis.values) for axis in self.axes]
        low, high = (
            {key: np.reshape(values, sizes) for key, values in stored[end].items()}
            for end in ("low", "high")
        )
        reached = stored.get("reached")
        return Grid(self, low, high, None if reached is None else np.array(reached))


@dataclass(frozen=True)
class Grid:
    """Bounds at the grid points of a page.

    Attributes:
        page: whose grid it is.
        low, high: quantity -> bounds, an array with one dimension for each axis.
        reached: hits that an attacker reaches, shape (points of the first axis, rates), or None.
    """

    page: Page
    low: Mapping[str, np.ndarray]
    high: Mapping[str, np.ndarray]
    reached: np.ndarray | None

    def bounds(self, positions: Sequence[int]) -> dict[str, tuple[float, float]]:
        """Lower and upper bounds that hold at a position: of the corners around it the worst.

        Args:
            positions: one for each axis, from 0 to its `last`.
        """
        around = [a.neighbours(s) for a, s in zip(self.page.axes, positions, strict=True)]
        corners = np.ix_(*around)
        return {
            key: (float(self.low[key][corners].min()), float(self.high[key][corners].max()))
            for key in self.page.quantities
        }

    def stored(self) -> dict[str, Any]:
        """The grid as it is kept and as the script reads it: flat lists, the last axis fastest."""
        made: dict[str, Any] = {
            "axes": {axis.name: list(axis.values) for axis in self.page.axes},
            "low": {key: _plain(values) for key, values in self.low.items()},
            "high": {key: _plain(values) for key, values in self.high.items()},
        }
        return made if self.reached is None else made | {"reached": self.reached.tolist()}

    def keep(self) -> None:
        """Write the grid to its file, whole or not at all."""
        write_text(self.page.path, compact(self.stored()) + "\n")


def _plain(values: np.ndarray) -> list[float]:
    """Flat, whole numbers without a point."""
    return [int(x) if x == int(x) else x for x in values.ravel().tolist()]


def compact(value: Any) -> str:
    """JSON without blanks, a line for each list that is kept.

    Raises:
        ValueError: a number is not finite.
    """
    text = json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.replace(',"', ',\n"')
