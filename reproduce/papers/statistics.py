"""When a difference counts: intervals over seeds, orders of curves, ratios of losses.

Four rules, one for each kind of question that the papers' figures ask:

* `order`: every neighbour is ahead by more than two standard errors of the paired differences;
* `lead`: the 95 % interval of each paired difference lies above zero;
* `compare_losses`: the 95 % interval of a ratio of losses and a sign-flip test agree;
* `alike`: a difference is no larger than twice its standard error, or than a floor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import permutation_test, t

from repro._validate import positive, probability_open


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


# Curves of several seeds --------------------------------------------------------------------------


def by_curve(
    results: Sequence[Mapping[str, Any]], names: Sequence[str], key: str
) -> dict[str, NDArray]:
    """One array (seeds, points) per curve, from results ordered curve after curve.

    Raises:
        ValueError: the number of results is no multiple of the number of names.
    """
    if not names or len(results) % len(names):
        raise ValueError(
            f"results must hold equally many seeds of {len(names)} curves, got {len(results)}"
        )
    seeds = len(results) // len(names)
    return {
        name: np.array([results[k * seeds + s][key] for s in range(seeds)], dtype=float)
        for k, name in enumerate(names)
    }


def final(runs: ArrayLike) -> NDArray:
    """Mean over the last quarter of each run's points, (seeds, points) -> (seeds,)."""
    runs = np.asarray(runs, dtype=float)
    return runs[:, -max(1, runs.shape[1] // 4) :].mean(axis=1)


@dataclass(frozen=True)
class Order:
    """Whether curves come in an expected order, and how clearly.

    Attributes:
        holds: every neighbour is ahead by more than `clear` standard errors.
        text: the final accuracies in the expected order, in per cent, with one standard deviation.
        unclear: the gaps that are too small or negative, in percentage points; empty when `holds`.
    """

    holds: bool
    text: str
    unclear: str


def order(finals: Mapping[str, ArrayLike], clear: float = 2.0) -> Order:
    """Check that the curves, given best first, are in that order.

    The seeds are paired (the same seed is the same start and the same batches in every curve), so
    the standard error is that of the mean difference over seeds. It takes at least 2 seeds.

    Raises:
        ValueError: fewer than 2 curves or 2 seeds, or curves with different numbers of seeds.
    """
    values = {name: np.asarray(v, dtype=float) for name, v in finals.items()}
    counts = {v.shape for v in values.values()}
    if len(values) < 2 or len(counts) != 1 or min(counts)[0] < 2:
        raise ValueError(
            f"finals must hold at least 2 curves with the same 2 or more seeds, got shapes {counts}"
        )
    unclear = []
    for (first, ahead), (second, behind) in zip(
        list(values.items())[:-1], list(values.items())[1:], strict=True
    ):
        gap = 100 * (ahead - behind)
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        if not gap.mean() > clear * error:
            unclear.append(f"{first} - {second} = {gap.mean():.2f} ± {error:.2f} points")
    text = ", ".join(
        f"{name} {100 * v.mean():.1f} ± {100 * v.std(ddof=1):.1f}" for name, v in values.items()
    )
    return Order(not unclear, text + " %", "; ".join(unclear))


@dataclass(frozen=True)
class Lead:
    """Whether one side is ahead in every one of several comparisons.

    Attributes:
        holds: in each the whole 95 % interval of the paired differences lies above 0.
        text: the differences in percentage points with their intervals.
        unclear: those whose interval does not; empty when `holds`.
        reversed: those whose interval lies below 0.
    """

    holds: bool
    text: str
    unclear: str
    reversed: str


def lead(pairs: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Lead:
    """Compare accuracies (seeds,), first minus second, the same seed on both sides.

    Runs of one seed share data, start, participants and batches, so that differences within a seed
    are what the methods make.

    Raises:
        ValueError: fewer than 2 seeds, or different numbers of them.
    """
    found = {
        name: interval(np.asarray(first, float) - np.asarray(second, float))
        for name, (first, second) in pairs.items()
    }
    told = {name: f"{name} {one.text()}" for name, one in found.items()}
    return Lead(
        all(one.sign > 0 for one in found.values()),
        "; ".join(told.values()),
        "; ".join(told[name] for name, one in found.items() if one.sign <= 0),
        "; ".join(told[name] for name, one in found.items() if one.sign < 0),
    )


def why(found: Lead, hint: str) -> str:
    """The reason for a statement that does not hold: what is reversed, what is only unclear."""
    if found.reversed:
        return f"reversed: {found.reversed}; {hint}"
    return f"no clear difference: {found.unclear}; {hint}"


# Losses -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Whether one of two settings has the lower loss, run by run.

    Attributes:
        ratio: geometric mean of first over second, and its 95 % interval.
        lower: runs in which the first is the lower one.
        runs: all runs.
        p_value: of a two-sided sign-flip permutation test of the mean log ratio; 1 where all ratios
            are 1.
    """

    ratio: Interval
    lower: int
    runs: int
    p_value: float

    @property
    def text(self) -> str:
        """`0.9800 [0.9100, 1.050], lower in 11 of 20 runs, p = 0.53`."""
        return (
            f"{self.ratio.mean:#.4g} [{self.ratio.low:#.4g}, {self.ratio.high:#.4g}], lower in "
            f"{self.lower} of {self.runs} runs, p = {self.p_value:.2g}"
        )

    @property
    def sign(self) -> int:
        """-1 where the first is lower and it counts (interval and test at 5 %), 1 higher, else 0."""
        counts = self.p_value < 0.05
        return counts * (int(self.ratio.low > 1) - int(self.ratio.high < 1))


def compare_losses(first: ArrayLike, second: ArrayLike, seed: int = 0) -> Comparison:
    """Compare positive losses of two settings in the same runs, shape (runs,), at least 2.

    Raises:
        ValueError: losses that are not positive, or shapes that do not fit.
    """
    first, second = positive("first", first), positive("second", second)
    if first.shape != second.shape or first.ndim != 1 or len(first) < 2:
        raise ValueError(
            f"first and second must have one loss for each of the same 2 or more runs, got shapes "
            f"{first.shape} and {second.shape}"
        )
    logs = np.log(first) - np.log(second)
    p_value = 1.0
    if logs.any():
        p_value = permutation_test(
            (logs,),
            lambda values, axis: values.mean(axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=9999,
            rng=np.random.default_rng(seed),
        ).pvalue
    logarithmic = interval(logs)
    ratio = Interval(*(math.exp(x) for x in (logarithmic.mean, logarithmic.low, logarithmic.high)))
    return Comparison(ratio, int((logs < 0).sum()), len(logs), float(p_value))


# Rows ---------------------------------------------------------------------------------------------


def alike(one: NDArray, other: NDArray, floor: float = 0.01) -> tuple[bool, str]:
    """Whether two rows with paired seeds differ by no more than their seeds explain.

    That is by at most twice the standard error of the mean difference, or by `floor`.

    Returns: the decision, and the difference in percentage points with its standard error.
    """
    gap = np.asarray(one, dtype=float) - np.asarray(other, dtype=float)
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    text = f"{100 * gap.mean():+.1f} ± {100 * error:.1f} points"
    return bool(abs(gap.mean()) <= max(2 * error, floor)), text
