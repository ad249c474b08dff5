"""Random check-ins with approximate local randomizers, the earlier bound of figure 4.

Source: Balle, Kairouz, McMahan, Thakkar and Thakurta, "Privacy Amplification via Random Check-Ins"
(2020), Theorem 3.2 for a fixed window of m slots and check-in probability p0, in its version for
(eps0, delta0) local randomizers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, elementwise

from repro._validate import in_unit, integer, probability_open
from repro.accounting import GaussianMechanism, PoissonGaussian
from repro.accounting.mechanism import Mechanism

__all__ = ["checkin_readings", "confirm_readings", "random_checkins_epsilon"]

_LOCAL_EPSILON = np.geomspace(1e-3, 4.0, 400)
"""The points of the local randomizer's trade-off curve that are tried."""


def _allowed_local_delta(eps0: np.ndarray, log_delta1: np.ndarray) -> np.ndarray:
    """Largest local delta0 that the theorem admits for the auxiliary delta1."""
    rounds = (np.log(2) - log_delta1) / -np.log1p(-np.exp(-5 * eps0))
    return -np.expm1(-eps0) * np.exp(log_delta1) / (4 * np.exp(eps0) * (2 + rounds))


def _central_epsilon(eps0, p0, m, log_inverse_delta):
    """epsilon' of the theorem: every eps0 of its pure version is replaced by 8 eps0."""
    wide = 8 * eps0
    growth = p0 * np.expm1(wide)
    return growth**2 * np.exp(wide) / (2 * m) + growth * np.sqrt(
        2 * np.exp(wide) * log_inverse_delta / m
    )


def random_checkins_epsilon(
    delta: ArrayLike, *, local: Mechanism, check_in: float, slots: int = 1
) -> NDArray[np.float64]:
    """Central epsilon that random check-ins certify, the best over the local (eps0, delta0).

    Args:
        delta: total central delta, in (0, 1), scalar or array of shape (n,). Half of it pays for the
            concentration argument, half for local randomizers that are only approximately private.
        local: the local randomizer, a mechanism with scalar fields.
        check_in: [p0] probability with which a client checks in, in [0, 1].
        slots: [m] number of time slots of the window, >= 1.

    Returns:
        Epsilon, shape (n,); inf where no local (eps0, delta0) certifies anything.

    Raises:
        ValueError: an argument out of range.

    Source: Balle et al. (2020), Theorem 3.2.
    """
    delta = np.atleast_1d(probability_open("delta", delta))
    p0 = float(in_unit("check_in", check_in))
    m = integer("slots", slots, 1)
    needed = _required_delta1(_LOCAL_EPSILON, local.delta(_LOCAL_EPSILON))
    central = _central_epsilon(_LOCAL_EPSILON, p0, m, np.log(2 / delta)[:, None])
    with np.errstate(over="ignore"):
        price = m * (np.exp(central) + 1) * needed
    return np.min(np.where(price <= delta[:, None] / 2, central, np.inf), axis=1)


def _required_delta1(eps0: np.ndarray, delta0: np.ndarray) -> np.ndarray:
    """Smallest delta1 that admits the local delta0, 1 where none below 1 does."""

    def excess(log_delta1, eps, target):
        return np.log(_allowed_local_delta(eps, log_delta1)) - target

    with np.errstate(divide="ignore"):
        target = np.maximum(np.log(delta0), -600.0)
    reachable = excess(np.full_like(eps0, -1e-12), eps0, target) > 0
    result = np.ones_like(eps0)
    rows = np.flatnonzero(reachable)
    if rows.size:
        search = elementwise.find_root(
            excess,
            (np.full(rows.size, -660.0), np.full(rows.size, -1e-12)),
            args=(eps0[rows], target[rows]),
        )
        result[rows] = np.exp(search.bracket[1])
    return result


def checkin_readings(
    delta: NDArray[np.float64], *, sigma: float, p: float, q: float, clip: float
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The earlier bound in three readings of one iteration; the paper does not say which is its own.

    Args:
        delta: where the bound is looked at, in (0, 1), increasing.
        sigma: noise of one message, > 0.
        p: participation rate, in [0, 1].
        q: local sampling rate, in [0, 1].
        clip: largest norm of one record's gradient, > 0.

    Returns:
        Reading -> delta and epsilon where the bound says anything; both may be empty.
    """
    found = {}
    for name, (local, slots) in _tried(sigma, q, clip).items():
        epsilon = random_checkins_epsilon(delta, local=local, check_in=p, slots=slots)
        says = np.isfinite(epsilon)
        found[name] = delta[says], epsilon[says]
    return found


def confirm_readings(
    readings: Mapping[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    *,
    sigma: float,
    p: float,
    q: float,
    clip: float,
) -> None:
    """Refuse readings that contradict the theorem, read from its end; arguments as for `checkin_readings`.

    Raises:
        ArithmeticError: the theorem written out certifies less than an epsilon says, or more.
    """
    for name, (local, slots) in _tried(sigma, q, clip).items():
        for delta, epsilon in zip(*readings[name], strict=True):
            if epsilon > 0:
                _confirm(float(delta), float(epsilon), local, p, slots)


def _tried(sigma: float, q: float, clip: float) -> dict[str, tuple[Mechanism, int]]:
    """Reading -> local randomizer and number of slots."""
    sampled = PoissonGaussian(sigma, rate=q, sensitivity=clip)
    return {
        "one slot, local sampling": (sampled, 1),
        "one slot, no local sampling": (GaussianMechanism(sigma, sensitivity=clip), 1),
        "ten slots, local sampling": (sampled, 10),
    }


def _confirm(delta: float, epsilon: float, local: Mechanism, p0: float, m: int) -> None:
    """Refuse an epsilon above 0 that is not the best: from it follows eps0, then delta1, then the delta0 allowed.

    The local randomizer must be good enough for the eps0 of this epsilon, and not for one a step smaller.
    """

    def central(eps0: float) -> float:
        wide = math.exp(8 * eps0)
        drift = p0**2 * wide * (wide - 1) ** 2 / (2 * m)
        return drift + p0 * (wide - 1) * math.sqrt(2 * wide * math.log(2 / delta) / m)

    def certified(eps0: float) -> bool:
        delta1 = delta / (2 * m * (math.exp(central(eps0)) + 1))
        rounds = math.log(2 / delta1) / -math.log(1 - math.exp(-5 * eps0))
        allowed = (1 - math.exp(-eps0)) * delta1 / (4 * math.exp(eps0) * (2 + rounds))
        return float(local.delta(eps0)) <= allowed

    first, second, last = _LOCAL_EPSILON[[0, 1, -1]]
    eps0 = brentq(lambda x: central(x) - epsilon, 0.0, 1.01 * last)
    better = eps0 * first / second
    if not certified(eps0 * (1 + 1e-9)) or (better > 0.99 * first and certified(better)):
        raise ArithmeticError(f"epsilon = {epsilon:.4g} is not the best at delta = {delta:.4g}")
