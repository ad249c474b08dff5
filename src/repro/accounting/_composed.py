"""What every composition answers, from the losses that it hands out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import ArrayLike

from repro._validate import broadcastable, choice, nonnegative, positive, probability_open
from repro.accounting._losses import (
    Charge,
    charge,
    joined,
    largest_shift,
    missed,
    power,
    profile,
    threshold,
)
from repro.accounting._pld import losses, on_grid, one_sided
from repro.accounting._renyi import ORDERS, convert_delta, convert_epsilon
from repro.accounting._risk import Rates, Risks, plain
from repro.accounting.mechanism import DIRECTIONS, METHODS

__all__ = ["Composed", "with_interval"]

_MOST_POINTS = 10_000_000
"""Losses on a grid that a caller chooses, for memory."""

Answer = Callable[[pld_pmf.PLDPmf, np.ndarray, Charge], np.ndarray]


class Composed(Risks):
    """What every composition answers, whatever it is made of; made by `compose`.

    Formal guarantee: `"upper"` composes, per direction, a pair that dominates every pair of
    neighbours (Zhu, Dong and Wang 2022, Theorem 10), rounded upwards; `"lower"` composes explicit
    pairs, rounded downwards, and takes the best of them; `"paper"` does what the paper does: it
    composes the loss that the one-iteration formula implies, or, where the formula is a Renyi curve,
    adds it up and converts the sum. It is no bound where the formula is none. Fourier transforms in
    double precision leave an error in delta, and truncated tails count as certain loss, which is safe
    above but not below: about 1e-15 where the truth is known, and more where many runs are composed. So 2e-15
    per transform and 9e-16 per run are added to "upper", 5e-15 and 9e-16 taken from "lower"; of smaller deltas
    they say next to nothing.
    """

    counts: ClassVar[int | np.ndarray] = 1
    """How often the whole is run; an array only for a curve over the rounds."""

    @abstractmethod
    def runs(self, method: str, way: str, counts: Sequence[int]) -> Iterator[list[pld_pmf.PLDPmf]]:
        """Hook: the losses of one direction after this composition ran each number of times.

        Args:
            method: "upper", "lower" or "paper".
            way: "add" or "remove".
            counts: numbers of runs, >= 1, ascending.

        Yields:
            for each count the pairs: one for "upper" and "paper", one or more for "lower".
        """

    @abstractmethod
    def transforms(self, count: int) -> tuple[int, int]:
        """Hook: how many Fourier transforms are behind `count` runs, and how many releases they compose.

        Each has an error in delta, see `charge`.
        """

    @abstractmethod
    def paper_curve(self, method: str, direction: str) -> np.ndarray | None:
        """Hook: the papers' Renyi curve at the orders 2 to 256, if `method` asks for it and there is one."""

    @abstractmethod
    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Renyi divergence of each order alpha > 1: it adds up over rounds.

        Arguments, result and errors are those of `Mechanism.rdp`.
        """

    def rough(self) -> Composed:
        """The same on coarser losses: bounds as valid, a trace looser, in a fraction of the time."""
        return self

    def ways(self, direction: str) -> tuple[str, ...]:
        """The directions to look at for "add", "remove" or "both"."""
        return _directions(direction)

    @cached_property
    def _composed(self) -> dict[tuple[str, str], list[pld_pmf.PLDPmf]]:
        return {}

    def _once(self, method: str, way: str) -> list[pld_pmf.PLDPmf]:
        if (method, way) not in self._composed:
            (self._composed[method, way],) = self.runs(method, way, (1,))
        return self._composed[method, way]

    def _solve(
        self, answer: Answer, given: np.ndarray, method: str, ways: Sequence[str]
    ) -> np.ndarray:
        """The largest answer over pairs and directions, of the shape of `given` and the counts together.

        `answer` takes losses, values of shape (n,) and the function that says what a delta is charged.
        """
        choice("method", method, METHODS)
        shape = np.broadcast_shapes(given.shape, np.shape(self.counts))
        flat = np.broadcast_to(given, shape).ravel()
        each, row = np.unique(np.broadcast_to(self.counts, shape), return_inverse=True)
        each, row = each.tolist(), row.ravel()
        value = np.full(flat.size, -np.inf)
        for way in ways:
            found = [self._once(method, way)] if each == [1] else self.runs(method, way, each)
            for index, (count, pairs) in enumerate(zip(each, found, strict=True)):
                rows = np.flatnonzero(row == index)
                for pmf in pairs:
                    charged = charge(pmf, method, *self.transforms(count))
                    value[rows] = np.maximum(value[rows], answer(pmf, flat[rows], charged))
        return value.reshape(shape)

    def delta(
        self, epsilon: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest delta for each epsilon >= 0 after all rounds; see `Mechanism.delta`."""
        epsilon = nonnegative("epsilon", epsilon)
        broadcastable(epsilon=epsilon, rounds=self.counts)
        if (curve := self.paper_curve(method, direction)) is not None:
            return plain(convert_delta(np.multiply.outer(self.counts, curve), ORDERS, epsilon))

        def answer(pmf, at, charged):
            found = profile(pmf, at)
            return found + charged(found)

        value = self._solve(answer, epsilon, method, self.ways(direction))
        return plain(np.clip(value, 0.0, 1.0))

    def epsilon(
        self, delta: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest epsilon >= 0 for each delta in (0, 1) after all rounds.

        Raises:
            ValueError: delta out of range, or so small that no finite epsilon can be certified.
        """
        delta = probability_open("delta", delta)
        broadcastable(delta=delta, rounds=self.counts)
        if (curve := self.paper_curve(method, direction)) is not None:
            return plain(convert_epsilon(np.multiply.outer(self.counts, curve), ORDERS, delta))

        def answer(pmf, target, charged):
            return threshold(pmf, target - charged(target))

        value = self._solve(answer, delta, method, self.ways(direction))
        if not np.all(np.isfinite(value)):
            raise ValueError(f"delta must exceed the numerical error of {self!r}, got {delta!r}")
        return plain(value)

    def rates(self, fpr: np.ndarray, method: str, direction: str) -> Rates:
        """See `Risks.rates`.

        Both directions count for "both": where delta is larger in one of them at every epsilon, the curve of
        the other is still the lower one at large false-positive rates.
        """
        sides = []
        for way in _directions(direction):
            tpr = self._solve(power, fpr, method, (way,))
            found = self._solve(missed, fpr, method, ("add" if way == "remove" else "remove",))
            sides.append(joined(tpr, found, method))
        tpr, fnr = zip(*sides, strict=True)
        return np.maximum.reduce(tpr), np.minimum.reduce(fnr)

    def shift(self, least_error: float, method: str) -> np.ndarray:
        """See `Risks.shift`."""

        def answer(pmf, at, charged):
            return np.full(at.shape, largest_shift(pmf, least_error, charged))

        return self._solve(answer, np.zeros(()), method, ("remove", "add"))

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """See `Risks.answer_shape`."""
        return np.shape(self.counts)

    def pld(
        self, *, method: str = "upper", interval: float | None = None
    ) -> PrivacyLossDistribution:
        """The composed losses as dp-accounting's object (for "lower" those of the first explicit pair).

        Args:
            method: "upper", "lower" or "paper".
            interval: spacing of the losses, > 0; by default the one on which they were composed.

        Returns:
            both directions. The rounding of Fourier transforms, which `delta` charges, is not in it.
        """
        choice("method", method, METHODS)
        if np.ndim(self.counts):
            raise ValueError(f"rounds must be one integer for pld, got {self.counts!r}")
        sides = [self._once(method, way)[0] for way in ("remove", "add")]
        composed = PrivacyLossDistribution(*sides)
        return composed if interval is None else with_interval(composed, interval)


def with_interval(
    distribution: PrivacyLossDistribution, interval: float
) -> PrivacyLossDistribution:
    """A loss distribution of any origin on the grid of another one, so that the two compose.

    Args:
        distribution: dp-accounting's object.
        interval: spacing of the new grid of losses, > 0.

    Returns:
        both directions, rounded to the side to which the given ones are rounded; epsilon moves by at most
        one interval.

    Raises:
        ValueError: the interval is not positive, or the grid would have more than ten million losses.
    """
    interval = float(positive("interval", interval))
    sides = [losses(side) for side in one_sided(distribution)]
    least = max(side.interval * side.mass.size for side in sides) / _MOST_POINTS
    if interval < least:
        raise ValueError(
            f"interval must be at least {least:.3g} for these losses, got {interval!r}"
        )
    return PrivacyLossDistribution(*(on_grid(side, interval) for side in one_sided(distribution)))


def _directions(direction: str) -> tuple[str, ...]:
    choice("direction", direction, DIRECTIONS)
    return ("remove", "add") if direction == "both" else (direction,)
