"""Delta and epsilon of a discretised loss distribution, for whole arrays at once.

dp-accounting walks over the losses in a Python loop; a composition has about a million of them.
"""

from __future__ import annotations

import numpy as np
from dp_accounting.pld import pld_pmf

from repro.accounting._pld import losses

__all__ = ["power", "profile", "threshold"]


_OVERFLOW = 700.0  # losses whose exponential is no double, or whose inverse has no digits


def _tails(pmf: pld_pmf.PLDPmf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses, ascending, and the masses of both distributions at or above each of them.

    The second masses come as logarithms where losses are so large that they underflow.
    """
    interval, first, mass, infinite = losses(pmf)
    loss = interval * (first + np.arange(mass.size))
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
    """Hockey-stick divergence at each epsilon >= 0, shape (n,)."""
    loss, upper, lower = _tails(pmf)
    at = np.searchsorted(loss, epsilon, side="right")
    return _gap(loss, upper[at], lower[at], epsilon)


def threshold(pmf: pld_pmf.PLDPmf, delta: np.ndarray) -> np.ndarray:
    """Smallest epsilon >= 0 at which the divergence is at most each delta; inf where none is.

    Between two losses the divergence is upper - exp(epsilon) lower, so the piece is found by bisection
    on its values at the losses and solved exactly.
    """
    loss, upper, lower = _tails(pmf)
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


def power(pmf: pld_pmf.PLDPmf, fpr: np.ndarray) -> np.ndarray:
    """Largest true-positive rate of a test between the two distributions, shape (n,).

    The best tests reject above a threshold on the loss (Neyman and Pearson) and toss a coin on it, so their
    curve is linear between the points of the thresholds.

    Args:
        pmf: losses of one direction; the first distribution is the one with the higher losses.
        fpr: false-positive rates, in [0, 1], shape (n,).
    """
    loss, upper, lower = _tails(pmf)
    rates = np.exp(lower) if loss[-1] > _OVERFLOW else lower
    rates = np.maximum.accumulate(rates[::-1])  # Fourier transforms leave masses a little below 0
    return np.interp(fpr, rates, np.maximum.accumulate(upper[::-1]))
