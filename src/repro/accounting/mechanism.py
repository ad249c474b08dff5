"""What every mechanism of the package offers: delta, epsilon, rdp and its loss distribution."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import fields
from functools import cached_property

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from scipy.optimize import elementwise

from repro._validate import broadcastable, choice, nonnegative, positive, probability_open
from repro.accounting._discretise import pessimistic
from repro.accounting._gaussian import compress
from repro.accounting._renyi import ORDERS, log_convert_delta

__all__ = ["DIRECTIONS", "METHODS", "SMALLEST_STEP", "InvalidBoundWarning", "Mechanism"]

METHODS = ("upper", "lower", "paper")
DIRECTIONS = ("add", "remove", "both")
SMALLEST_STEP = 1e-12  # of losses in a composition


class InvalidBoundWarning(UserWarning):
    """A formula was evaluated that is printed as a privacy bound but is not one."""


class Mechanism(ABC):
    """One release; subclasses are frozen dataclasses and say what is released.

    Neighbouring data sets differ by one record. ``direction="remove"`` compares the data set with
    the record (numerator) to the one without, ``"add"`` the other way round, and ``"both"``, the
    default, takes the larger: that is what (epsilon, delta)-DP means.

    Methods: ``"upper"`` is the best value known to hold for every pair of neighbours, ``"lower"``
    is attained by an explicit pair (so the truth lies between), ``"paper"`` is the formula of the
    paper as printed. Where the paper's formula is not an upper bound, asking for it warns with
    :class:`InvalidBoundWarning`.
    """

    #: Set by subclasses whose printed formula fails: the reason, shown in the warning.
    _paper_invalid: str = ""

    @abstractmethod
    def _log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """log delta for epsilon >= 0 (broadcast with the fields), one direction, one method."""

    def _shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(getattr(self, f.name)) for f in fields(self)))

    def _checked(self, method: str, direction: str) -> None:
        choice("method", method, METHODS)
        choice("direction", direction, DIRECTIONS)
        if method == "paper" and self._paper_invalid:
            warnings.warn(self._paper_invalid, InvalidBoundWarning, stacklevel=3)

    def _paper_rdp(self) -> np.ndarray | None:
        """Renyi curve at ``ORDERS`` where the paper accounts by it, else None.

        Shape (*shape of the fields, number of orders). Such a paper adds the curve up over rounds and
        converts the sum; it states one number for both directions.
        """
        return None

    def _log_delta_in(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        if method == "paper" and (curve := self._paper_rdp()) is not None:
            return log_convert_delta(curve, ORDERS, epsilon)
        ways = ("remove", "add") if direction == "both" else (direction,)
        return np.maximum.reduce([self._log_delta(epsilon, way, method) for way in ways])

    def delta(self, epsilon, *, method: str = "upper", direction: str = "both"):
        """Smallest delta for each epsilon.

        Args:
          epsilon: >= 0, scalar or array, broadcast with the mechanism's own fields.
          method: "upper", "lower" or "paper".
          direction: "add", "remove" or "both".

        Returns:
          delta in [0, 1], float or array of the broadcast shape.

        Raises:
          ValueError: epsilon negative or not finite, unknown method or direction.
        """
        epsilon = nonnegative("epsilon", epsilon)
        self._checked(method, direction)
        shape = broadcastable(epsilon=epsilon, **{type(self).__name__: np.empty(self._shape())})
        log_delta = self._log_delta_in(np.broadcast_to(epsilon, shape), direction, method)
        value = np.exp(np.minimum(log_delta, 0.0))  # rounding may lift a log of 1 above 0
        return float(value) if value.ndim == 0 else value

    def epsilon(self, delta, *, method: str = "upper", direction: str = "both"):
        """Smallest epsilon >= 0 for each delta.

        "upper" returns the end of the final bracket at which delta is met, "lower" the other end.

        Args:
          delta: in (0, 1), scalar or array, broadcast with the mechanism's own fields.
          method, direction: as for :meth:`delta`.

        Returns:
          epsilon, float or array of the broadcast shape; 0 where already delta(0) suffices.

        Raises:
          ValueError: delta outside (0, 1), unknown method or direction.
        """
        delta = probability_open("delta", delta)
        self._checked(method, direction)
        shape = broadcastable(delta=delta, **{type(self).__name__: np.empty(self._shape())})
        target = np.log(np.broadcast_to(delta, shape)).ravel()
        at = self._flat(shape)

        def excess(epsilon, row):
            value = at(row.astype(int))._log_delta_in(epsilon, direction, method)
            return compress(value - target[row.astype(int)])

        rows = np.arange(target.size, dtype=float)
        result = np.zeros(target.size)
        open_rows = rows[excess(np.zeros(target.size), rows) > 0]
        if open_rows.size:
            high = np.ones(open_rows.size)
            while np.any(short := excess(high, open_rows) > 0):
                high[short] *= 2.0
            found = elementwise.find_root(excess, (0.0 * high, high), args=(open_rows,))
            if not np.all(np.isfinite(found.x)):
                raise ArithmeticError(
                    f"the search for epsilon failed at delta={delta!r} for {self!r}"
                )
            # The search may stop at an exact root with a wide bracket, so its own point comes first.
            low, high = found.bracket
            safe = found.f_x >= 0 if method == "lower" else found.f_x <= 0
            end = low if method == "lower" else high
            result[open_rows.astype(int)] = np.where(safe, found.x, end)
        result = result.reshape(shape)
        return float(result) if result.ndim == 0 else result

    def _flat(self, shape: tuple[int, ...]):
        """A function row indices -> this mechanism with its array fields restricted to these rows."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        arrays = {k: np.broadcast_to(v, shape).ravel() for k, v in values.items() if np.ndim(v)}
        if not arrays:
            return lambda rows: self
        return lambda rows: type(self)(
            **{k: arrays[k][rows] if k in arrays else v for k, v in values.items()}
        )

    @abstractmethod
    def rdp(self, alpha):
        """Renyi divergence of each order alpha > 1, the larger of both directions (or a bound)."""

    def pld(
        self, *, method: str = "upper", interval: float = 1e-4
    ) -> pld_lib.PrivacyLossDistribution:
        """The privacy loss distribution as dp-accounting's object, to go on with its own tools.

        Args:
          method: "upper" (rounded upwards), "lower" (an explicit pair, rounded downwards) or
            "paper" (the loss that the paper's formula implies).
          interval: spacing of the discretised losses, > 0.

        Raises:
          ValueError: fields are arrays, the interval is out of range, or "paper" is asked for where
            the paper accounts by Renyi divergences, which imply no loss distribution.
        """
        self._checked(method, "both")
        self._has_losses(method)
        interval = float(positive("interval", interval))
        if self._shape():
            raise ValueError(f"pld needs scalar fields, got shape {self._shape()} in {self!r}")
        return self._pld(method, interval)

    def _has_losses(self, method: str) -> None:
        if method == "paper" and self._paper_rdp() is not None:
            raise ValueError(
                f"method must be 'upper' or 'lower' for the losses of {type(self).__name__}, whose "
                f"paper accounts by Renyi divergences, got {method!r}"
            )

    def _loss_step(self, method: str) -> float | None:
        """Spacing of losses at which rounding one of them hardly matters however often it adds up.

        None where that depends on the number of rounds.
        """
        return None

    def _lower_plds(self, interval: float):
        """Explicit pairs to try for a lower bound on a composition, each rounded downwards."""
        yield self._pld("lower", interval)

    @cached_property
    def _kept_plds(self) -> dict[tuple[str, float], list[pld_lib.PrivacyLossDistribution]]:
        return {}

    def _single_plds(self, method: str, interval: float) -> list:
        """What a composition runs: explicit pairs for "lower", else the one dominating pair.

        Kept with the mechanism, because runs of several lengths mostly share one interval.
        """
        key = method, interval
        if key not in self._kept_plds:
            lower = method == "lower"
            found = self._lower_plds(interval) if lower else [self._pld(method, interval)]
            self._kept_plds[key] = list(found)
        return self._kept_plds[key]

    def _pld(self, method: str, interval: float) -> pld_lib.PrivacyLossDistribution:
        return pessimistic(
            lambda e: self._log_delta(e, "remove", method),
            lambda e: self._log_delta(e, "add", method),
            interval,
        )


def frozen_field(instance: object, name: str, value: np.ndarray) -> None:
    """Store a checked field of a frozen dataclass: a float, or a read-only array."""
    stored = float(value) if np.ndim(value) == 0 else np.array(value, dtype=float)
    if isinstance(stored, np.ndarray):
        stored.setflags(write=False)
    object.__setattr__(instance, name, stored)
