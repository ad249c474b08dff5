"""Measuring time by interleaved repeats, so that load on the machine affects every method equally."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom

from repro._validate import integer, nonnegative, positive
from reproduce.papers.statistics import Interval, interval

Name = TypeVar("Name")
Step = Callable[[], object]

Clock = Callable[[], float]
"""Seconds since some moment: `time.perf_counter` (wall clock, what somebody waits) or
`time.thread_time` (processor time of this thread, which other programs hardly change)."""


def interleaved(
    steps: Mapping[Name, Step],
    repeats: int,
    *,
    shortest: float = 2e-4,
    clock: Clock = time.perf_counter,
) -> dict[Name, NDArray[np.float64]]:
    """Seconds per call of each step, shape (repeats,).

    In every repeat each step has its turn, so that load on the machine affects every step equally.
    A first call of each, which fills caches and opens connections, is not counted. A step shorter
    than `shortest` seconds is called several times in a row and the mean of these calls is kept.

    Args:
        steps: what to call, by name.
        repeats: at least 1.
        shortest: seconds that a measurement lasts at least, > 0 (up to the clock's own jitter).
        clock: what is read before and after.

    Raises:
        ValueError: an argument out of range.
    """
    integer("repeats", repeats, 1)
    positive("shortest", shortest)
    calls = {}
    for name, step in steps.items():
        step()
        calls[name] = max(1, round(float(shortest) / max(_seconds(step, 1, clock), 1e-7)))
    rows = [
        [_seconds(step, calls[name], clock) for name, step in steps.items()] for _ in range(repeats)
    ]
    return dict(zip(steps, np.array(rows).T, strict=True))


def _seconds(step: Step, calls: int, clock: Clock) -> float:
    begin = clock()
    for _ in range(calls):
        step()
    return (clock() - begin) / calls


@dataclass(frozen=True)
class Spread:
    """Repeated measurements: least <= low <= median <= high.

    Attributes:
        median: of the measurements.
        low, high: interval for the median of their distribution, whatever that is.
        least: the smallest measurement, the closest to an undisturbed machine; comparisons use it.
    """

    median: float
    low: float
    high: float
    least: float

    @classmethod
    def of(cls, seconds: ArrayLike, confidence: float = 0.95) -> Spread:
        """From independent measurements, shape (repeats,), at least 6 for 95 %.

        The interval's ends are order statistics: their ranks are quantiles of Binomial(n, 1/2).

        Raises:
            ValueError: a value is negative or not finite, or there are too few for the confidence.
        """
        values = np.sort(nonnegative("seconds", seconds), axis=None)
        rank = int(binom.ppf((1 - confidence) / 2, values.size, 0.5)) if values.size else 0
        if rank < 1:
            raise ValueError(
                f"seconds must hold enough values for an interval at {confidence:g}, "
                f"got {values.size}"
            )
        low, high = values[rank - 1], values[-rank]
        return cls(float(np.median(values)), float(low), float(high), float(values[0]))


def growth(sizes: ArrayLike, seconds: ArrayLike, confidence: float = 0.95) -> Interval:
    """The exponent a of time ~ size^a, with its interval over repeats.

    In each repeat a line is fitted to log time against log size; its slopes are what varies.

    Args:
        sizes: shape (sizes,), > 0, at least two different ones.
        seconds: shape (sizes, repeats), > 0, with at least two repeats.

    Raises:
        ValueError: an argument out of range, or shapes that do not fit.
    """
    sizes, seconds = positive("sizes", sizes), positive("seconds", seconds)
    if sizes.ndim != 1 or len(np.unique(sizes)) < 2 or seconds.shape[:1] != sizes.shape:
        raise ValueError(
            "seconds must have a row for each of two or more different sizes, "
            f"got shapes {seconds.shape} and {sizes.shape}"
        )
    return interval(np.polyfit(np.log(sizes), np.log(seconds), 1)[0], confidence)
