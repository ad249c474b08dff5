"""Delta and epsilon of a discretised loss distribution, for whole arrays at once.

dp-accounting walks over the losses in a Python loop; a composition has about a million of them.
"""

from __future__ import annotations

import numpy as np
from dp_accounting.pld import pld_pmf

from repro.accounting._pld import losses

__all__ = ["profile", "threshold"]


def _tails(pmf: pld_pmf.PLDPmf) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Losses, ascending, and the masses of both distributions at or above each of them."""
    interval, first, mass, infinite = losses(pmf)
    loss = interval * (first + np.arange(mass.size))
    upper = np.cumsum(mass[::-1])[::-1] + infinite
    with np.errstate(over="ignore", invalid="ignore"):
        # No mass at a loss so low that exp(-loss) overflows counts as none.
        lower = np.cumsum(np.where(mass > 0, mass * np.exp(-loss), 0.0)[::-1])[::-1]
    return loss, np.append(upper, infinite), np.append(lower, 0.0)


def profile(pmf: pld_pmf.PLDPmf, epsilon: np.ndarray) -> np.ndarray:
    """Hockey-stick divergence at each epsilon, shape (n,)."""
    loss, upper, lower = _tails(pmf)
    at = np.searchsorted(loss, epsilon, side="right")
    with np.errstate(over="ignore", invalid="ignore"):
        value = upper[at] - np.exp(epsilon) * lower[at]
    return np.where(lower[at] > 0, np.maximum(value, 0.0), upper[at])


def threshold(pmf: pld_pmf.PLDPmf, delta: np.ndarray) -> np.ndarray:
    """Smallest epsilon >= 0 at which the divergence is at most each delta; inf where none is.

    Between two losses the divergence is upper - exp(epsilon) lower, so the piece is found by bisection
    on its values at the losses and solved exactly.
    """
    loss, upper, lower = _tails(pmf)
    with np.errstate(over="ignore", invalid="ignore"):
        at_loss = np.maximum(upper[1:] - np.exp(loss) * lower[1:], 0.0)
    at_loss = np.minimum.accumulate(np.where(np.isfinite(at_loss), at_loss, upper[1:]))
    piece = loss.size - np.searchsorted(at_loss[::-1], delta, side="right")
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(upper[piece] - delta) - np.log(lower[piece])
    # Losses so large that exp(-loss) underflows: the next loss is as close as doubles come.
    value = np.where(lower[piece] > 0, value, loss[np.minimum(piece, loss.size - 1)])
    value = np.where(piece == loss.size, np.inf, value)
    value = np.where((piece == 0) & ~(upper[0] > delta), 0.0, value)
    return np.where(np.isnan(value), 0.0, np.maximum(value, 0.0))
