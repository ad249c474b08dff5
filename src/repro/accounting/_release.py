"""What is known of a single release: its explicit pairs, its profile, and the curve of the best test from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import broadcastable, choice
from repro.accounting._losses import charge, joined, largest_shift, missed, power
from repro.accounting._pld import filled, one_sided
from repro.accounting._risk import Rates, Risks, gaussian_rates
from repro.accounting._roc import Lines, bounding_lines

__all__ = ["DIRECTIONS", "METHODS", "Release"]

METHODS = ("upper", "lower", "paper")
DIRECTIONS = ("add", "remove", "both")

_FINE = 1 / 1000  # of a typical loss: spacing of the losses of an explicit pair
_MOST_LOSSES = 2e5
_RARE = 1e-15  # delta at which a loss is too rare to matter for the spacing
_FAR = 1e24  # beyond all losses
_SMALL = 1e-9  # delta below which one that no longer falls is a constant part of the bound


class Release(Risks):
    """The part of `Mechanism` that answers from whole curves: pairs for compositions, and `Risks`."""

    field_shape: tuple[int, ...]

    @abstractmethod
    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """Hook: see `Mechanism.losses`."""

    @abstractmethod
    def lower_pairs(self, interval: float) -> Iterator[PrivacyLossDistribution]:
        """Hook: see `Mechanism.lower_pairs`."""

    @abstractmethod
    def check(self, method: str, direction: str, *, stacklevel: int = 2) -> None:
        """Refuse unknown words; see `Mechanism.check`."""

    @abstractmethod
    def _log_delta_in(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Logarithm of the privacy profile."""

    def paper_curve(self) -> np.ndarray | None:
        """Hook: Renyi curve at the orders 2 to 256 where the paper accounts by it, else None.

        Shape (*shape of the fields, 255). Such a paper adds the curve up over rounds and converts the
        sum; it states one number for both directions.
        """
        return None

    def gaussian_mu(self) -> float | np.ndarray | None:
        """Hook: mu where the release is N(0, 1) against N(mu, 1) and nothing else, of the fields' shape.

        Then the curve of the best test is known in closed form, for fields that are arrays too. None by default.
        """
        return None

    def pairs(self, method: str, interval: float) -> list[PrivacyLossDistribution]:
        """What a composition runs: explicit pairs for "lower", else the one dominating pair.

        Kept with the mechanism, because runs of several lengths mostly share one interval.

        Args:
            method: "upper", "lower" or "paper".
            interval: spacing of the discretised losses, > 0.

        Returns:
            one or more of dp-accounting's objects.

        Raises:
            ValueError: unknown method, or one without a loss distribution, as for `pld`.
        """
        choice("method", method, METHODS)
        self._has_losses(method)
        key = method, interval
        if key not in self._kept_pairs:
            lower = method == "lower"
            single = self.lower_pairs(interval) if lower else [self.losses(method, interval)]
            self._kept_pairs[key] = list(single)
        return self._kept_pairs[key]

    @cached_property
    def _kept_pairs(self) -> dict[tuple[str, float], list[PrivacyLossDistribution]]:
        return {}

    def _has_losses(self, method: str) -> None:
        if method == "paper" and self.paper_curve() is not None:
            raise ValueError(
                f"method must be 'upper' or 'lower' for the losses of {type(self).__name__}, whose "
                f"paper accounts by Renyi divergences, got {method!r}"
            )

    def need_scalars(self, what: str) -> None:
        """Refuse fields that are arrays; `what` names the answer that needs scalars."""
        if self.field_shape:
            raise ValueError(
                f"{what} needs scalar fields, got shape {self.field_shape} in {self!r}"
            )

    # The curve of the best test -------------------------------------------------------------------

    @property
    def answer_shape(self) -> tuple[int, ...]:
        """See `Risks.answer_shape`."""
        return self.field_shape

    def rates(self, fpr: np.ndarray, method: str, direction: str) -> Rates:
        """See `Risks.rates`."""
        self.check(method, direction, stacklevel=4)
        if (mu := self.gaussian_mu()) is not None:
            return gaussian_rates(fpr, np.asarray(mu))
        self.need_scalars("the curve of the best test")
        flat = fpr.ravel()
        sides = [
            self._reached(flat, way) if method == "lower" else self._lines(method).rates(flat, way)
            for way in (("remove", "add") if direction == "both" else (direction,))
        ]
        tpr, fnr = zip(*sides, strict=True)
        return (
            np.maximum.reduce(tpr).reshape(fpr.shape),
            np.minimum.reduce(fnr).reshape(fpr.shape),
        )

    def _reached(self, fpr: np.ndarray, way: str) -> Rates:
        """What the best of the explicit pairs reaches in one direction, shape (n,)."""
        tpr = [power(pmf, fpr, charged) for pmf, charged in self._attackers(way)]
        other = "add" if way == "remove" else "remove"
        found = [missed(pmf, fpr, charged) for pmf, charged in self._attackers(other)]
        return joined(np.maximum.reduce(tpr), np.maximum.reduce(found), "lower")

    def shift(self, least_error: float, method: str) -> float | np.ndarray:
        """See `Risks.shift`."""
        self.check(method, "both", stacklevel=3)
        if (mu := self.gaussian_mu()) is not None:
            return np.broadcast_to(mu, broadcastable(mu=np.empty(self.field_shape)))
        self.need_scalars("gdp_mu")
        if method != "lower":
            return self._lines(method).shift(least_error)
        return max(largest_shift(p, least_error, c) for p, c in self._attackers("both"))

    def _lines(self, method: str) -> Lines:
        if method not in self._kept_lines:
            self._kept_lines[method] = bounding_lines(
                lambda epsilon, way: self._log_delta_in(epsilon, way, method)
            )
        return self._kept_lines[method]

    @cached_property
    def _kept_lines(self) -> dict[str, Lines]:
        return {}

    def _attackers(self, direction: str) -> list[tuple[pld_pmf.PLDPmf, Callable]]:
        """Losses of the explicit pairs, and what their rates are charged."""
        sides = (
            filled(side)
            for pair in self.pairs("lower", self._lower_step)
            for side in one_sided(pair, direction)
        )
        return [(side, charge(side, "lower", 0)) for side in sides]

    @cached_property
    def _lower_step(self) -> float:
        """A spacing far below the typical loss, unless the largest losses need a coarser one."""
        step = max(_FINE * float(self.delta(0.0)), 1e-12)
        return max(step, self.loss_reach(100 * step, _RARE) / _MOST_LOSSES)

    def loss_reach(self, start: float, rare: float) -> float:
        """An epsilon at which delta is at most `rare`, or very small and no longer falling.

        Args:
            start: the first epsilon to try, > 0; it is doubled.
            rare: > 0.
        """
        reach, now = start, float(self.delta(start))
        fallen = now if now >= _SMALL else (now + float(self.delta(_FAR))) / 2
        while now > rare:
            reach, before, now = 2 * reach, now, float(self.delta(2 * reach))
            flat = before < _SMALL and now > before * (1 - 1e-6)
            if flat and (now <= fallen or reach > 1e4):  # not fallen: losses are rare, or immense
                break
        return reach
