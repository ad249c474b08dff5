"""What every composition answers, from the losses that it hands out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import ArrayLike

from repro._validate import broadcastable, choice, in_unit, nonnegative, positive, probability_open
from repro.accounting._losses import power, profile, threshold
from repro.accounting._pld import losses, on_grid, one_sided
from repro.accounting._renyi import ORDERS, convert_delta, convert_epsilon
from repro.accounting.mechanism import DIRECTIONS, METHODS

__all__ = ["Composed", "with_interval"]

_FOURIER_ERROR = {"upper": 2e-15, "lower": -5e-15}
"""Added to delta for the rounding of one Fourier transform, by method; see `Composed`."""

_MOST_POINTS = 10_000_000
"""Losses on a grid that a caller chooses, for memory."""

Charge = Callable[[np.ndarray], np.ndarray]
Answer = Callable[[pld_pmf.PLDPmf, np.ndarray, Charge], np.ndarray]


class Composed(ABC):
    """What every composition answers, whatever it is made of; made by `compose`.

    Formal guarantee: `"upper"` composes, per direction, a pair that dominates every pair of
    neighbours (Zhu, Dong and Wang 2022, Theorem 10), rounded upwards; `"lower"` composes explicit
    pairs, rounded downwards, and takes the best of them; `"paper"` does what the paper does: it
    composes the loss that the one-iteration formula implies, or, where the formula is a Renyi curve,
    adds it up and converts the sum. It is no bound where the formula is none. Fourier transforms in
    double precision leave an error in delta, and truncated tails count as certain loss, which is safe
    above but not below: about 1e-15 where the truth is known. So 2e-15 per transform is added to "upper",
    and 5e-15 taken from "lower"; of smaller deltas they say next to nothing.
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
    def transforms(self, count: int) -> int:
        """Hook: how many Fourier transforms are behind `count` runs, each with an error in delta."""

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
        choice("direction", direction, DIRECTIONS)
        return ("remove", "add") if direction == "both" else (direction,)

    @cached_property
    def _composed(self) -> dict[tuple[str, str], list[pld_pmf.PLDPmf]]:
        return {}

    def _once(self, method: str, way: str) -> list[pld_pmf.PLDPmf]:
        if (method, way) not in self._composed:
            (self._composed[method, way],) = self.runs(method, way, (1,))
        return self._composed[method, way]

    def _solve(
        self, answer: Answer, given: np.ndarray, method: str, direction: str
    ) -> float | np.ndarray:
        """The largest answer over pairs and directions, of the shape of `given` and the counts together.

        `answer` takes losses, values of shape (n,) and the function that says what a delta is charged.
        """
        choice("method", method, METHODS)
        shape = np.broadcast_shapes(given.shape, np.shape(self.counts))
        flat = np.broadcast_to(given, shape).ravel()
        each, row = np.unique(np.broadcast_to(self.counts, shape), return_inverse=True)
        each, row = each.tolist(), row.ravel()
        value = np.zeros(flat.size)
        for way in self.ways(direction):
            found = [self._once(method, way)] if each == [1] else self.runs(method, way, each)
            for index, (count, pairs) in enumerate(zip(each, found, strict=True)):
                rows = np.flatnonzero(row == index)
                for pmf in pairs:
                    charge = self._charge(pmf, method, count)
                    value[rows] = np.maximum(value[rows], answer(pmf, flat[rows], charge))
        return value.reshape(shape)

    def _charge(self, pmf: pld_pmf.PLDPmf, method: str, count: int) -> Charge:
        """What each delta has to be raised by for "upper"; negative for "lower".

        Without Fourier transforms nothing is charged above, but the pairs of a lower bound leave out masses of
        up to 1e-17 and round the others, so that they are charged all the same. A sum of n masses is
        rounded by n 2^-53 of its value. That is charged where delta is above 1/2, where both bounds crowd
        together below 1; elsewhere the rounding of the losses keeps them much further apart.
        """
        if method not in _FOURIER_ERROR:
            return np.zeros_like
        number = 0 if pmf.size == 1 else self.transforms(count)
        charge = _FOURIER_ERROR[method] * (number if method == "upper" else max(number, 1))
        side = 1.0 if method == "upper" else -1.0
        return lambda delta: charge + np.where(delta > 0.5, side * pmf.size * 2.0**-53, 0.0)

    def delta(
        self, epsilon: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest delta for each epsilon >= 0 after all rounds; see `Mechanism.delta`."""
        epsilon = nonnegative("epsilon", epsilon)
        broadcastable(epsilon=epsilon, rounds=self.counts)
        if (curve := self.paper_curve(method, direction)) is not None:
            return _plain(convert_delta(np.multiply.outer(self.counts, curve), ORDERS, epsilon))

        def answer(pmf, at, charge):
            found = profile(pmf, at)
            return found + charge(found)

        return _plain(np.clip(self._solve(answer, epsilon, method, direction), 0.0, 1.0))

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
            return _plain(convert_epsilon(np.multiply.outer(self.counts, curve), ORDERS, delta))

        def answer(pmf, target, charge):
            return threshold(pmf, target - charge(target))

        value = self._solve(answer, delta, method, direction)
        if not np.all(np.isfinite(value)):
            raise ValueError(f"delta must exceed the numerical error of {self!r}, got {delta!r}")
        return _plain(value)

    def advantage(self, *, method: str = "upper", direction: str = "both") -> float | np.ndarray:
        """Largest true-positive minus false-positive rate of a membership test: delta at epsilon 0.

        "upper": no attacker has more. "lower": a certain attacker reaches it.
        """
        return self.delta(0.0, method=method, direction=direction)

    def tpr_at_fpr(
        self, fpr: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Largest true-positive rate of a membership test at each false-positive rate.

        Args:
            fpr: false-positive rates in [0, 1], scalar or array.
            method: "upper": no attacker has more; "lower": a certain attacker reaches it.
            direction: "add", "remove" or "both"; in "remove" a positive says that the record was there.

        Returns:
            rates in [fpr, 1]: guessing reaches fpr.

        Raises:
            ValueError: fpr outside [0, 1], unknown method or direction, or a method without losses.
        """
        fpr = in_unit("fpr", fpr)
        broadcastable(fpr=fpr, rounds=self.counts)

        def answer(pmf, at, charge):
            found = power(pmf, at)
            return found + charge(found)

        value = self._solve(answer, fpr, method, direction)
        return _plain(np.maximum(np.clip(value, 0.0, 1.0), fpr))

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


def _plain(value: np.ndarray) -> float | np.ndarray:
    """A float in place of an array without axes."""
    return float(value) if np.ndim(value) == 0 else value
