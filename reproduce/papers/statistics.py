"""When a difference counts: intervals over seeds, and the one rule for comparisons of runs.

`interval` is a Student-t interval over seeds. `Comparisons` decides all orders and likenesses of a figure
together, by paired differences with Holm's correction; nothing else in the workbook compares runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t

from repro._validate import positive, probability_open

WIDER = "The verdicts use the wider intervals of Holm's rule."
"""For captions of pictures whose intervals are those of single differences."""


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


# The rule ------------------------------------------------------------------------------------------

ENOUGH = 5
"""Seeds without which no comparison of runs is decided."""


@dataclass(frozen=True)
class Answer:
    """What the runs say about one claim.

    Attributes:
        holds: True or False where an interval decides; None where it contains both answers.
        text: every difference with its interval.
        reason: which differences speak against the claim or decide nothing; "" when it holds.
    """

    holds: bool | None
    text: str
    reason: str


@dataclass(frozen=True)
class _Gap:
    """One comparison: paired differences over seeds, and what is claimed about them."""

    claim: str
    name: str
    values: NDArray
    alike: bool

    def errors(self) -> tuple[float, float]:
        """The mean difference and its standard error."""
        return float(self.values.mean()), float(self.values.std(ddof=1)) / math.sqrt(
            len(self.values)
        )

    def level(self, margin: float) -> float:
        """The largest error probability whose interval decides: that is, a p-value."""
        mean, error = self.errors()
        away = abs(mean) - margin
        # outside the margin or inside it; an order is also decided by a gap on one side of zero
        reaches = [abs(away)] if self.alike else [abs(mean), max(-away, 0.0)]
        if error == 0:
            return 0.0 if max(reaches) > 0 else 1.0
        return float(2 * t.sf(max(reaches) / error, len(self.values) - 1))

    def holds(self, found: Interval, margin: float) -> bool | None:
        """What an interval says about the claim."""
        inside = -margin < found.low and found.high < margin
        if self.alike:
            return True if inside else False if found.low > margin or found.high < -margin else None
        return True if found.low > 0 else False if found.high < 0 or inside else None


class Comparisons:
    """The comparisons of one figure, decided together.

        found = Comparisons(margin=0.02)
        found.ahead("best", {"PM-SFL - SplitFed": (pmsfl, splitfed)})
        found.alike("near", {"SplitFed - Standalone": (splitfed, standalone)})
        for claim, answer in found.answers().items():
            book.order(claim, answer)

    Runs of one seed share data, start, participants and batches, so that the differences within a
    seed are what the methods make. A Student-t interval of their mean decides when it lies on one
    side of the threshold: an order holds above 0, and fails below 0 or wholly within the margin; two
    results are alike within the margin, and not alike outside. Holm's procedure over all differences
    of the figure sets the intervals' level, so that with probability 95 % none of the decisions is
    wrong: no order held of a gap that is not positive or denied of one above the margin, no
    likeness held beyond the margin or denied within it. With fewer than 5 seeds nothing is decided.

    Args:
        margin: the largest difference that counts as none, > 0, fixed before the runs; of accuracies
            as a fraction, of losses as a ratio minus 1.
        ratios: compare positive losses by the logarithm of their ratio instead of by differences.
        confidence: of all decisions of the figure together.
    """

    def __init__(self, margin: float, *, ratios: bool = False, confidence: float = 0.95) -> None:
        self._margin = float(positive("margin", margin))
        self._confidence = float(probability_open("confidence", confidence))
        self._ratios = ratios
        self._gaps: list[_Gap] = []

    def ahead(self, claim: str, pairs: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> None:
        """Claim that in each of `pairs` the first is larger than the second.

        Args:
            claim: an id; a second call adds to the claim, which holds when all its parts do.
            pairs: name of the difference -> values of both sides, shape (seeds,), paired; one side
                may be a number.

        Raises:
            ValueError: fewer than 2 seeds, shapes that do not fit, values that are not finite, or,
                for ratios, not positive.
        """
        self._add(claim, pairs, alike=False)

    def alike(self, claim: str, pairs: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> None:
        """Claim that in each of `pairs` the two sides differ by less than the margin."""
        self._add(claim, pairs, alike=True)

    def answers(self) -> dict[str, Answer]:
        """Every claim's answer, in the order in which the claims were made."""
        margin = math.log1p(self._margin) if self._ratios else self._margin
        outcomes: dict[int, tuple[bool | None, Interval]] = {}
        order = sorted(range(len(self._gaps)), key=lambda k: (self._gaps[k].level(margin), k))
        left = len(order)
        for k in order:
            gap = self._gaps[k]
            found = interval(gap.values, 1 - (1 - self._confidence) / left)
            holds = gap.holds(found, margin) if len(gap.values) >= ENOUGH else None
            if holds is not None:
                left -= 1  # Holm: the next one is held against one rival less
            outcomes[k] = holds, found
        return {
            claim: self._answer(
                [k for k, gap in enumerate(self._gaps) if gap.claim == claim], outcomes
            )
            for claim in dict.fromkeys(gap.claim for gap in self._gaps)
        }

    def _add(
        self, claim: str, pairs: Mapping[str, tuple[ArrayLike, ArrayLike]], *, alike: bool
    ) -> None:
        if not pairs:
            raise ValueError(f"pairs of {claim!r} must hold at least one comparison, got none")
        for name, sides in pairs.items():
            first, second = np.broadcast_arrays(*(np.asarray(side, dtype=float) for side in sides))
            if first.ndim != 1 or len(first) < 2:
                raise ValueError(
                    f"{name}: both sides must have one value for each of 2 or more seeds, got shape "
                    f"{first.shape}"
                )
            if self._ratios:
                first, second = (np.log(positive(name, side)) for side in (first, second))
            if not np.isfinite(first - second).all():
                raise ValueError(f"{name}: values must be finite, got {first} and {second}")
            self._gaps.append(_Gap(claim, name, first - second, alike))

    def _answer(
        self, places: Sequence[int], outcomes: Mapping[int, tuple[bool | None, Interval]]
    ) -> Answer:
        parts = [outcomes[k][0] for k in places]
        told = {k: f"{self._gaps[k].name} {self._text(outcomes[k][1])}" for k in places}
        text = "; ".join(told.values())
        if all(parts):
            return Answer(True, text, "")
        if any(part is False for part in parts):
            against = "; ".join(told[k] for k in places if outcomes[k][0] is False)
            return Answer(False, text, f"against it: {against}")
        open_ones = "; ".join(told[k] for k in places if outcomes[k][0] is None)
        few = min(len(self._gaps[k].values) for k in places)
        why = f"{few} seeds, {ENOUGH} are needed: " if few < ENOUGH else "not decided: "
        return Answer(None, text, why + open_ones)

    def _text(self, found: Interval) -> str:
        if not self._ratios:
            return f"{found.text()} points"
        mean, low, high = (f"{math.exp(x):#.3g}" for x in (found.mean, found.low, found.high))
        return f"{mean} [{low}, {high}]"


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
