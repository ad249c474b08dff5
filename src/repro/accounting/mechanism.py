"""What every mechanism of the package offers, and how to write an own one.

A mechanism is a frozen dataclass below `Mechanism`. It answers `delta`, `epsilon`, `rdp` and `pld`, and says
what an attacker can do: `tradeoff`, `tpr_at_fpr`, `advantage`, `bayes_risk` and `gdp_mu` (see `_risk`).
`compose` and `calibrate_sigma` take it as it is. The base class checks arguments, searches for epsilon and
discretises losses. A subclass says only what is released, in hooks that callers never call themselves:

===================  =========================================================================
`log_delta`          required: logarithm of the privacy profile of one direction
`renyi`              Renyi divergences, for `rdp`; without it `rdp` raises NotImplementedError
`losses`             one loss distribution, where it can be had otherwise than from the profile
`lower_pairs`        explicit pairs of data sets that lower bounds of compositions and attackers try
`gaussian_mu`        mu where the release is N(0, 1) against N(mu, 1), for closed forms
`loss_step`          spacing of the losses in compositions, where the size of a loss is known
`paper_curve`        Renyi curve, where a paper accounts by it
`worse_direction`    "remove", "add" or "both": where delta is largest at every epsilon
`paper_invalid`      why the printed formula is no bound, shown in a warning
`printed_in`         the module with the printed bounds, where no method "paper" exists
===================  =========================================================================

Own mechanism. The Laplace mechanism by its privacy profile, which is the same in both directions:

    @dataclass(frozen=True, eq=False)
    class Laplace(Mechanism):
        scale: float

        def __post_init__(self) -> None:
            frozen_fields(self, scale=positive)

        def log_delta(self, epsilon, direction, method):
            gap = np.minimum(epsilon - 1 / np.asarray(self.scale), 0.0) / 2
            with np.errstate(divide="ignore"):
                return np.log(-np.expm1(gap))

    Laplace(2.0).epsilon(1e-3)
    Laplace(2.0).tpr_at_fpr(0.01)
    compose(Laplace(20.0), 100).epsilon(1e-6)
    calibrate_sigma(lambda scale: compose(Laplace(scale), 100), epsilon=1.0, delta=1e-6)

`eq=False` keeps the comparison by value of the base class: the one that dataclasses generate fails on
fields that are arrays. Fields are numbers or arrays that broadcast; every field is an argument of the
constructor. `positive` stands for any check that raises ValueError.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import ClassVar

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from numpy.typing import ArrayLike
from scipy.optimize import elementwise

from repro._validate import broadcastable, choice, nonnegative, positive, probability_open
from repro.accounting._discretise import optimistic_profile, pessimistic
from repro.accounting._gaussian import compress
from repro.accounting._release import DIRECTIONS, METHODS, Release
from repro.accounting._renyi import ORDERS, log_convert_delta, orders

__all__ = [
    "DIRECTIONS",
    "METHODS",
    "SMALLEST_STEP",
    "InvalidBoundWarning",
    "Mechanism",
    "frozen_fields",
]

_LARGEST_EPSILON = 1e24  # beyond that of the least noise that is allowed

SMALLEST_STEP = 1e-12
"""Smallest spacing of losses in a composition: finer grids would need steps below rounding."""


class InvalidBoundWarning(UserWarning):
    """A formula was evaluated that is printed as a privacy bound but is not one."""


class Mechanism(Release):
    """One release; subclasses are frozen dataclasses and say what is released (see the module).

    Neighbouring data sets differ by one record. `direction="remove"` compares the data set with
    the record (numerator) to the one without, `"add"` the other way round, and `"both"`, the
    default, takes the larger: that is what (epsilon, delta)-DP means.

    Methods: `"upper"` is the best value known to hold for every pair of neighbours, `"lower"`
    is attained by an explicit pair (so the truth lies between), `"paper"` is the formula of the
    paper as printed. Where the paper's formula is not an upper bound, asking for it warns with
    `InvalidBoundWarning`.

    Two mechanisms are equal when they are of one class and their fields are equal.
    """

    paper_invalid: ClassVar[str] = ""
    """Hook: the reason why the printed formula is no bound; empty where it is one."""

    printed_in: ClassVar[str] = ""
    """Hook: the module whose functions are the printed bounds; there "paper" raises ValueError."""

    worse_direction: ClassVar[str] = "both"
    """Hook: the direction whose delta is the larger one at every epsilon, "both" where none is known."""

    @abstractmethod
    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Hook: logarithm of the privacy profile.

        Args:
            epsilon: >= 0, shape (n,) or broadcast with the fields.
            direction: "add" or "remove".
            method: "upper", "lower" or "paper".

        Returns:
            log delta, of the broadcast shape; -inf where delta is 0. Above 0 counts as 0.

        Raises:
            ValueError: there is no such method; the message says which ones there are.
        """

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Hook: Renyi divergences.

        Args:
            alpha: orders > 1, any shape.
            direction: "add", "remove" or "both", for the larger one.
            method: "upper", "lower" or "paper".

        Returns:
            divergences >= 0, of the shape of alpha (or broadcast with the fields).

        Raises:
            ValueError: there is no such method or direction, or fields must be scalars.
            NotImplementedError: the mechanism is given without Renyi divergences.
        """
        raise NotImplementedError(f"{type(self).__name__} has no Renyi divergences: define `renyi`")

    def losses(self, method: str, interval: float) -> pld_lib.PrivacyLossDistribution:
        """Hook: the loss distribution of one release, with scalar fields.

        By default it comes from `log_delta`, rounded upwards; for "lower" rounded downwards, which is right
        where one pair of data sets for each direction attains "lower" at every epsilon.

        Args:
            method: "upper", "lower" or "paper".
            interval: spacing of the losses, > 0.

        Returns:
            dp-accounting's object. It must dominate every pair of neighbours for "upper", and be
            dominated by a pair for "lower".
        """
        rounded = optimistic_profile if method == "lower" else pessimistic
        return rounded(
            lambda e: self.log_delta(e, "remove", method),
            lambda e: self.log_delta(e, "add", method),
            interval,
        )

    def lower_pairs(self, interval: float) -> Iterator[pld_lib.PrivacyLossDistribution]:
        """Hook: explicit pairs that lower bounds on compositions and curves try, each rounded downwards.

        Args:
            interval: spacing of the losses, > 0.
        """
        yield self.losses("lower", interval)

    def loss_step(self, method: str) -> float | None:
        """Hook: spacing of losses at which rounding hardly matters however often losses add up.

        Args:
            method: "upper", "lower" or "paper".

        Returns:
            the spacing, > 0, or None where it depends on the number of rounds.
        """
        return None

    @property
    def field_shape(self) -> tuple[int, ...]:
        """The shape to which the fields broadcast; () where all are scalars."""
        return np.broadcast_shapes(*(np.shape(getattr(self, f.name)) for f in fields(self)))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)
        )

    def __hash__(self) -> int:
        values = (np.asarray(getattr(self, f.name)) for f in fields(self))
        return hash((type(self), *((x.shape, *x.ravel().tolist()) for x in values)))

    def check(self, method: str, direction: str, *, stacklevel: int = 2) -> None:
        """Refuse unknown words and "paper" where `printed_in` is set; warn where the formula is no bound.

        Args:
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both".
            stacklevel: of the warning, as for `warnings.warn`, counted from the caller.

        Raises:
            ValueError: unknown method or direction, or "paper" of a mechanism without it.
        """
        choice("method", method, METHODS)
        choice("direction", direction, DIRECTIONS)
        if method == "paper" and self.printed_in:
            raise ValueError(
                f"method must be 'upper' or 'lower' for {type(self).__name__}, got 'paper': the printed "
                f"bounds are the functions of {self.printed_in}"
            )
        if method == "paper" and self.paper_invalid:
            warnings.warn(self.paper_invalid, InvalidBoundWarning, stacklevel=stacklevel + 1)

    def _log_delta_in(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        if method == "paper" and (curve := self.paper_curve()) is not None:
            return log_convert_delta(curve, ORDERS, epsilon)
        if direction == "both" and method != "paper":
            direction = self.worse_direction
        ways = ("remove", "add") if direction == "both" else (direction,)
        return np.maximum.reduce([self.log_delta(epsilon, way, method) for way in ways])

    def delta(
        self, epsilon: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
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
        self.check(method, direction)
        shape = broadcastable(epsilon=epsilon, **{type(self).__name__: np.empty(self.field_shape)})
        log_delta = self._log_delta_in(np.broadcast_to(epsilon, shape), direction, method)
        value = np.exp(np.minimum(log_delta, 0.0))  # rounding may lift a log of 1 above 0
        return float(value) if value.ndim == 0 else value

    def epsilon(
        self, delta: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Smallest epsilon >= 0 for each delta.

        "upper" returns the end of the final bracket at which delta is met, "lower" the other end.

        Args:
            delta: in (0, 1), scalar or array, broadcast with the mechanism's own fields.
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both".

        Returns:
            epsilon, float or array of the broadcast shape; 0 where already delta(0) suffices.

        Raises:
            ValueError: delta outside (0, 1), unknown method or direction.
        """
        delta = probability_open("delta", delta)
        self.check(method, direction)
        shape = broadcastable(delta=delta, **{type(self).__name__: np.empty(self.field_shape)})
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
                if np.any(high[short] > _LARGEST_EPSILON):  # delta no longer falls
                    raise ValueError(
                        f"delta must exceed the numerical error of {self!r}, got {delta!r}"
                    )
                high[short] *= 2.0
            found = elementwise.find_root(excess, (0.0 * high, high), args=(open_rows,))
            if not np.all(np.isfinite(found.x)):
                raise ValueError(
                    f"delta must exceed the numerical error of {self!r}, got {delta!r}"
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

    def rdp(
        self, alpha: ArrayLike, *, method: str = "upper", direction: str = "both"
    ) -> float | np.ndarray:
        """Renyi divergence of each order.

        Args:
            alpha: orders > 1, scalar or array; "paper" may ask for whole orders.
            method: "upper", "lower" or "paper".
            direction: "add", "remove" or "both", the larger one.

        Returns:
            divergences >= 0, float or array of alpha's shape.

        Raises:
            ValueError: an order not above 1, unknown method or direction, a method or direction in which
                this mechanism has no Renyi divergence, or fields that are arrays where it needs scalars.
            NotImplementedError: the class is given without Renyi divergences.
        """
        alpha = orders(alpha)
        self.check(method, direction)
        curve = np.asarray(self.renyi(alpha, direction, method))
        return float(curve) if curve.ndim == 0 else curve

    def pld(
        self, *, method: str = "upper", interval: float = 1e-4
    ) -> pld_lib.PrivacyLossDistribution:
        """The privacy loss distribution as dp-accounting's object, to go on with its own tools.

        Args:
            method: "upper" (rounded upwards), "lower" (an explicit pair, rounded downwards) or
                "paper" (the loss that the paper's formula implies).
            interval: spacing of the discretised losses, > 0.

        Returns:
            dp-accounting's object, both directions.

        Raises:
            ValueError: fields are arrays, the interval is out of range, or "paper" is asked for where
                the paper accounts by Renyi divergences, which imply no loss distribution.
        """
        self.check(method, "both")
        self._has_losses(method)
        interval = float(positive("interval", interval))
        self.need_scalars("pld")
        return self.losses(method, interval)


def frozen_fields(instance: object, **checks: Callable[[str, object], np.ndarray]) -> None:
    """Check the fields of a frozen dataclass and store them as floats or read-only arrays."""
    for name, check in checks.items():
        stored = np.array(check(name, getattr(instance, name)), dtype=float)
        stored.setflags(write=False)
        object.__setattr__(instance, name, stored if stored.ndim else float(stored))
    broadcastable(**{name: getattr(instance, name) for name in checks})
