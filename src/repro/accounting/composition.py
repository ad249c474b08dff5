"""Composition over rounds, through privacy loss distributions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from numpy.typing import ArrayLike

from repro._validate import choice, integer, nonnegative, probability_open
from repro.accounting._losses import profile, threshold
from repro.accounting._pld import one_sided
from repro.accounting._renyi import ORDERS, convert_delta, convert_epsilon
from repro.accounting.mechanism import DIRECTIONS, Mechanism

__all__ = ["Composition", "compose"]

_FOURIER_ERROR = {"upper": 2e-15, "lower": -5e-15}
"""Added to delta for the rounding of Fourier transforms, by method; see `Composition`."""


def compose(mechanism: Mechanism, rounds: int) -> Composition:
    """The mechanism run `rounds` times, each run chosen in the light of all earlier outputs.

    Args:
        mechanism: any mechanism with scalar fields, of this package or an own subclass of `Mechanism`.
        rounds: number of runs T >= 1.

    Returns:
        an object with the same `delta`, `epsilon`, `rdp` and `pld`.

    Raises:
        ValueError: rounds is not a positive integer, or the mechanism's fields are arrays.
    """
    return Composition(mechanism, integer("rounds", rounds, 1))


@dataclass(frozen=True)
class Composition:
    """T adaptive runs of one mechanism on the same data set; made by `compose`.

    Formal guarantee: `"upper"` composes, per direction, a pair that dominates every pair of
    neighbours (Zhu, Dong and Wang 2022, Theorem 10), rounded upwards; `"lower"` composes explicit
    pairs, rounded downwards, and takes the best of them; `"paper"` does what the paper does: it
    composes the loss that the one-iteration formula implies, or, where the formula is a Renyi curve,
    adds it up and converts the sum. It is no bound where the formula is none. Fourier transforms in
    double precision leave an error in delta, and truncated tails count as certain loss, which is safe
    above but not below: about 1e-15 where the truth is known. So 2e-15 is added to "upper", and 5e-15
    taken from "lower"; of smaller deltas they say next to nothing.
    """

    mechanism: Mechanism
    rounds: int

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise ValueError(f"mechanism must be an instance of Mechanism, got {self.mechanism!r}")
        if self.mechanism.field_shape:
            raise ValueError(f"mechanism must have scalar fields, got {self.mechanism!r}")

    @cached_property
    def _composed(self) -> dict[tuple[str, str], list[pld_pmf.PLDPmf]]:
        return {}

    def _interval(self, method: str) -> float:
        """Spacing of the losses, fine enough that rounding matters little.

        Unless the mechanism knows better, it costs at most one interval per round below, and second
        order in the interval above. Where a single loss is large the grid is coarser, so that it
        keeps to a few hundred thousand points.
        """
        fine = self.mechanism.loss_step(method)
        reach, rare = (1.0, 1e-15) if fine is None else (100 * fine, 1e-18)
        while self.mechanism.delta(reach, direction="both") > rare:
            reach *= 2.0
        if fine is None:
            fine = 2e-2 / self.rounds if method == "lower" else 1e-3 / np.sqrt(self.rounds)
            fine = np.clip(fine, 1e-5, 1e-4)
        return float(max(fine, reach / 2e5))

    def _single(self, method: str) -> list[pld_lib.PrivacyLossDistribution]:
        self.mechanism.check(method, "both")
        return self.mechanism.pairs(method, self._interval(method))

    def _pmfs(self, method: str, direction: str) -> list:
        """The loss distributions of the chosen directions, dp-accounting's one-sided objects."""
        choice("direction", direction, DIRECTIONS)
        if direction == "both":
            direction = self.mechanism.worse_direction
        ways = ("remove", "add") if direction == "both" else (direction,)
        for way in ways:
            if (method, way) not in self._composed:
                single = [side for x in self._single(method) for side in one_sided(x, way)]
                self._composed[method, way] = [side.self_compose(self.rounds) for side in single]
        return [pmf for way in ways for pmf in self._composed[method, way]]

    def _error(self, pmf, method: str, delta: np.ndarray) -> np.ndarray:
        """What each delta has to be raised by for "upper"; negative for "lower".

        One round needs no Fourier transform, but the pairs of a lower bound leave out masses of up to
        1e-17 and round the others, so that the charge holds for one round as well. A sum of n masses is
        rounded by n 2^-53 of its value. That is charged where delta is above 1/2, where both bounds crowd
        together below 1; elsewhere the rounding of the losses keeps them much further apart.
        """
        if method not in _FOURIER_ERROR:
            return np.zeros_like(delta)
        alone = method == "upper" and (self.rounds == 1 or pmf.size == 1)
        charge = 0.0 if alone else _FOURIER_ERROR[method]
        side = 1.0 if method == "upper" else -1.0
        return charge + np.where(delta > 0.5, side * pmf.size * 2.0**-53, 0.0)

    def paper_curve(self, method: str, direction: str) -> np.ndarray | None:
        """The paper's Renyi curve after all rounds, where the method asks for it and there is one."""
        if method != "paper" or (curve := self.mechanism.paper_curve()) is None:
            return None
        self.mechanism.check(method, direction)
        return self.rounds * curve

    def delta(
        self, epsilon: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest delta for each epsilon >= 0 after all rounds; see `Mechanism.delta`."""
        epsilon = nonnegative("epsilon", epsilon)
        if (curve := self.paper_curve(method, direction)) is not None:
            value = convert_delta(curve, ORDERS, epsilon)
            return float(value) if value.ndim == 0 else value
        values = []
        for pmf in self._pmfs(method, direction):
            found = profile(pmf, epsilon.ravel())
            values.append(found + self._error(pmf, method, found))
        value = np.clip(np.max(values, axis=0), 0.0, 1.0).reshape(epsilon.shape)
        return float(value) if value.ndim == 0 else value

    def epsilon(
        self, delta: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest epsilon >= 0 for each delta in (0, 1) after all rounds.

        Raises:
            ValueError: delta out of range, or so small that no finite epsilon can be certified.
        """
        delta = probability_open("delta", delta)
        if (curve := self.paper_curve(method, direction)) is not None:
            value = convert_epsilon(curve, ORDERS, delta)
            return float(value) if value.ndim == 0 else value
        pmfs = self._pmfs(method, direction)
        flat = delta.ravel()
        found = [threshold(pmf, flat - self._error(pmf, method, flat)) for pmf in pmfs]
        value = np.max(found, axis=0).reshape(delta.shape)
        if not np.all(np.isfinite(value)):
            raise ValueError(
                f"delta must exceed the numerical error of {self.rounds} rounds, got {delta!r}"
            )
        return float(value) if value.ndim == 0 else value

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Renyi divergence of each order alpha > 1: it adds up over rounds.

        Arguments, result and errors are those of `Mechanism.rdp`.
        """
        return self.rounds * self.mechanism.rdp(alpha, method=method, direction=direction)

    def pld(self, *, method: str = "upper") -> pld_lib.PrivacyLossDistribution:
        """The composed loss distribution (for "lower" that of the first explicit pair)."""
        return self._single(method)[0].self_compose(self.rounds)
