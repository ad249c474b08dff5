"""Delta and epsilon of a discretised loss distribution, for whole arrays at once.

dp-accounting walks over the losses in a Python loop; a composition has about a million of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from dp_accounting.pld import pld_pmf

from repro.accounting._pld import losses, rounded_up
from repro.accounting._roc import QUANTILE_ERROR, shift_of_points

__all__ = [
    "RUN_ERROR",
    "Charge",
    "charge",
    "joined",
    "largest_shift",
    "missed",
    "power",
    "profile",
    "threshold",
]

Charge = Callable[[np.ndarray], np.ndarray]

_FOURIER_ERROR = {"upper": 2e-15, "lower": -5e-15}
"""Added to delta for the rounding of one Fourier transform, by method; see `charge`."""

RUN_ERROR = 8 * 2.0**-53
"""Rounding of delta per run that a Fourier transform composes; see `charge`."""

_DIFFERENCE_ERROR = 2.0**-52  # of one minus a rate, which may be such a difference itself
_OVERFLOW = 700.0  # losses whose exponential is no double, or whose inverse has no digits


def _tails(
    pmf: pld_pmf.PLDPmf, positive: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses, ascending, and the masses of both distributions at or above each of them.

    The second masses come as logarithms where losses are so large that they underflow. `positive`: of the
    losses below 0 only the last is wanted.
    """
    interval, first, mass, infinite = losses(pmf)
    if positive and first < -1:
        skipped = min(-first - 1, mass.size - 1)
        first, mass = first + skipped, mass[skipped:]
    # As doubles: on a very fine grid the places are beyond the whole numbers of an array.
    loss = interval * (float(first) + np.arange(mass.size))
    upper = np.append(np.cumsum(mass[::-1])[::-1] + infinite, infinite)
    if loss[-1] > _OVERFLOW:
        with np.errstate(divide="ignore"):
            terms = np.log(np.maximum(mass, 0.0)) - loss
        return loss, upper, np.append(np.logaddexp.accumulate(terms[::-1])[::-1], -np.inf)
    # Epsilon is never negative, so what lies far below loss 0 only has to stay finite.
    terms = mass * np.exp(-np.maximum(loss, -_OVERFLOW))
    return loss, upper, np.append(np.cumsum(terms[::-1])[::-1], 0.0)


def _gap(loss, upper, lower, epsilon):
    """upper - exp(epsilon) lower, at least 0, `lower` as from `_tails`."""
    with np.errstate(over="ignore", invalid="ignore"):
        if loss[-1] > _OVERFLOW:
            return np.maximum(upper - np.exp(epsilon + lower), 0.0)
        value = upper - np.exp(epsilon) * lower
    return np.where(lower > 0, np.maximum(value, 0.0), upper)


def profile(pmf: pld_pmf.PLDPmf, epsilon: np.ndarray) -> np.ndarray:
    """Hockey-stick divergence at each epsilon >= 0, shape (n,).

    Fourier transforms leave masses a little below 0. What they take off at an epsilon is made good by the values at
    larger losses, which bound the divergence there from either side; so the profile falls.
    """
    loss, upper, lower = _tails(pmf, positive=True)
    at = np.searchsorted(loss, epsilon, side="right")
    later = np.maximum.accumulate(
        np.append(_gap(loss, upper[1:], lower[1:], loss), upper[-1])[::-1]
    )
    return np.maximum(_gap(loss, upper[at], lower[at], epsilon), later[::-1][at])


def threshold(pmf: pld_pmf.PLDPmf, delta: np.ndarray) -> np.ndarray:
    """Smallest epsilon >= 0 at which the divergence is at most each delta; inf where none is.

    Between two losses the divergence is upper - exp(epsilon) lower, so the piece is found by bisection
    on its values at the losses and solved exactly.
    """
    loss, upper, lower = _tails(pmf, positive=True)
    at_loss = np.minimum.accumulate(_gap(loss, upper[1:], lower[1:], loss))
    piece = loss.size - np.searchsorted(at_loss[::-1], delta, side="right")
    with np.errstate(divide="ignore", invalid="ignore"):
        log_lower = lower[piece] if loss[-1] > _OVERFLOW else np.log(lower[piece])
        value = np.log(upper[piece] - delta) - log_lower
    # Without mass of the second distribution the next loss is as close as doubles come.
    value = np.where(np.isfinite(log_lower), value, loss[np.minimum(piece, loss.size - 1)])
    value = np.where(piece == loss.size, np.inf, value)
    value = np.where((piece == 0) & ~(upper[0] > delta), 0.0, value)
    return np.where(np.isnan(value), 0.0, np.maximum(value, 0.0))


def charge(pmf: pld_pmf.PLDPmf, method: str, transforms: int, runs: int = 0) -> Charge:
    """What each delta has to be raised by for "upper"; negative for "lower".

    A transform of masses is rounded, and its power for n runs multiplies this by n. Against transforms in
    extended precision, sums of the composed masses were off by up to 2.8 n 2^-53, for Gaussian, Laplace and
    sampled losses and n up to 4e5. Delta is made of two such sums; 8 n 2^-53 is charged.

    Without Fourier transforms nothing is charged above, but the pairs of a lower bound leave out masses of
    up to 1e-17 and round the others, so that they are charged all the same. A sum of n masses is
    rounded by n 2^-53 of its value. That is charged where delta is above 1/2, where both bounds crowd
    together below 1; elsewhere the rounding of the losses keeps them much further apart.

    Args:
        pmf: losses of one direction.
        method: "upper", "lower" or "paper".
        transforms: how many Fourier transforms are behind the losses.
        runs: how many runs they compose.
    """
    if method not in _FOURIER_ERROR:
        return np.zeros_like
    number = 0 if pmf.size == 1 else transforms
    side = 1.0 if method == "upper" else -1.0
    error = _FOURIER_ERROR[method] * (number if method == "upper" else max(number, 1))
    error += side * RUN_ERROR * runs if number else 0.0
    return lambda delta: error + np.where(delta > 0.5, side * pmf.size * 2.0**-53, 0.0)


def _curve(pmf: pld_pmf.PLDPmf) -> tuple[np.ndarray, np.ndarray]:
    """False- and true-positive rates of the thresholds on the loss, from the highest threshold down."""
    loss, upper, lower = _tails(pmf)
    rates = np.exp(np.minimum(lower, _OVERFLOW)) if loss[-1] > _OVERFLOW else lower
    rates = np.maximum.accumulate(rates[::-1])  # Fourier transforms leave masses a little below 0
    tpr = np.maximum.accumulate(upper[::-1])
    if rounded_up(pmf):
        return rates, tpr
    rates[1:] = np.maximum(rates[1:], np.finfo(float).tiny)  # a rate that underflows is not 0
    # Masses of low losses may have been left out: from some threshold on the attacker tosses a coin between it
    # and calling everything positive.
    last = np.argmin((1 - tpr[rates < 1]) / (1 - rates[rates < 1]))
    return np.append(rates[: last + 1], 1.0), np.append(tpr[: last + 1], 1.0)


def power(pmf: pld_pmf.PLDPmf, fpr: np.ndarray, charged: Charge) -> np.ndarray:
    """Largest true-positive rate of a test between the two distributions, shape (n,).

    The best tests reject above a threshold on the loss (Neyman and Pearson) and toss a coin on it, so their
    curve is linear between the points of the thresholds.

    Args:
        pmf: losses of one direction; the first distribution is the one with the higher losses.
        fpr: false-positive rates, in [0, 1], shape (n,).
        charged: see `charge`.
    """
    found = np.interp(fpr, *_curve(pmf))
    return np.clip(found + charged(found), fpr, 1.0)


def missed(pmf: pld_pmf.PLDPmf, fpr: np.ndarray, charged: Charge) -> np.ndarray:
    """Minus the least false-negative rate, from the losses of the other direction, shape (n,).

    There a positive says the opposite, so that the two error rates change places: the false-negative rate is the
    one at which the true-positive rate comes to 1 - fpr. Where it is small it is precise in relation to itself.

    Args:
        pmf: losses of one direction.
        fpr: false-positive rates of the other direction, in [0, 1], shape (n,).
        charged: see `charge`.
    """
    rates, tpr = _curve(pmf)
    target, beyond = 1 - fpr, 1.0
    if rounded_up(pmf):
        # On a level piece the lower end counts; beyond the curve nothing is known.
        target, beyond = np.nextafter(target, 0.0), 0.0
    found = np.interp(target, tpr + charged(tpr), rates, right=beyond)
    return -np.clip(found, 0.0, 1 - fpr)


def largest_shift(pmf: pld_pmf.PLDPmf, least: float, charged: Charge) -> float:
    """The largest Phi^-1(tpr) - Phi^-1(fpr) on the half of a curve whose losses are not negative.

    The curve is a polygon, and that of a Gaussian mechanism is concave; so the largest value is at a corner or where
    the polygon enters the region in which both error rates are at least `least`. The other half, and where the
    polygon leaves the region, belong to the losses of the other direction.

    Args:
        pmf: losses of one direction.
        least: in (0, 1/2).
        charged: see `charge`.
    """
    fpr, tpr = _curve(pmf)
    # No less than `charge` takes, and affine, so that the polygon stays one.
    side = 1.0 if rounded_up(pmf) else -1.0
    tpr = tpr * (1 + side * 2 * pmf.size * 2.0**-53) + charged(np.zeros(1))
    _, first, mass, _ = losses(pmf)
    half = slice(max(1, mass.size + min(first, 0)) + 1)
    x, y = [fpr[half], least], [tpr[half], np.interp(least, fpr, tpr)]
    return max(shift_of_points(np.hstack(x), np.hstack(y), least) + side * QUANTILE_ERROR, 0.0)


def joined(tpr: np.ndarray, minus_fnr: np.ndarray, method: str) -> tuple[np.ndarray, np.ndarray]:
    """True-positive and false-negative rates from `power` and from `missed`, which are two bounds on one curve.

    Both bounds hold: from above the smaller true-positive rate counts, from below the larger one. A difference
    from 1 is rounded, which matters where it is small; so it is moved to the safe side.
    """
    fnr = -minus_fnr
    if method == "lower":
        return (
            np.maximum(tpr, 1 - fnr - _DIFFERENCE_ERROR),
            np.minimum(fnr, 1 - tpr + _DIFFERENCE_ERROR),
        )
    return (
        np.minimum(tpr, 1 - fnr + _DIFFERENCE_ERROR),
        np.maximum(fnr, 1 - tpr - _DIFFERENCE_ERROR),
    )
