"""Means over seeds with confidence intervals, and whether a difference counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t

from repro._validate import probability_open


@dataclass(frozen=True)
class Interval:
    """A mean and its two-sided Student-t confidence interval, low <= mean <= high."""

    mean: float
    low: float
    high: float

    @property
    def sign(self) -> int:
        """1 or -1 where the whole interval lies on that side of zero, else 0."""
        return int(self.low > 0) - int(self.high < 0)

    def text(self, digits: int = 1) -> str:
        """`56.5 [54.1, 58.9]`, the mean and the interval in per cent (times 100)."""
        mean, low, high = (
            f"{round(100 * value, digits) + 0.0:.{digits}f}"  # + 0.0: no minus before a zero
            for value in (self.mean, self.low, self.high)
        )
        return f"{mean} [{low}, {high}]"


def interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """The mean of independent `values`, one per seed, shape (seeds,) with at least 2.

    Values that are all equal give an interval of no width; it covers what the seeds vary, nothing
    else. For a difference between two curves, pass the differences within each seed.

    Raises:
        ValueError: fewer than 2 values, or a confidence outside (0, 1).
    """
    values = np.asarray(values, dtype=float)
    probability_open("confidence", confidence)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"values must hold one number for each of 2 or more seeds, got {values}")
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    reach = float(t.ppf(0.5 + confidence / 2, len(values) - 1)) * error
    return Interval(mean, mean - reach, mean + reach)
