"""Renyi divergences of balanced iteration subsampling, bounded from both sides.

Everything is about log E_Q L^p with L = G M as in `ratio`: p = alpha for the forward divergence
D_alpha(P || Q), p = 1 - alpha for the reverse one. log E G^p = p (p - 1) c^2 / 2.

Whole orders up to the number of known moments are exact. Gauss and Gauss-Radau rules of M leave an error of
the sign of a derivative of x^p, so they bound every other mean from a known side. Beyond the known
moments the forward divergence is bounded by independent columns (`column_tilt`), and

* above by Corollary 3.14; by Poisson sampling at rate k / T (given the other rows, the expectation is that
  of a product of increasing functions of the indicators of one row, which are negatively associated);
  by the disclosed subset;
* below by D_alpha / alpha being non-decreasing (Ehrhard, see `ratio`), and by those tuples of
  subsets most of which agree.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from repro.accounting._gaussian import log_sum
from repro.accounting.partitioning.column_tilt import log_moment_bounds
from repro.accounting.partitioning.prices import log_power_means
from repro.accounting.partitioning.printed import forward_bound, poisson_rdp
from repro.accounting.partitioning.ratio import BalancedRatio

__all__ = ["log_forward", "log_reverse"]

_ROUNDING = 4e-15  # relative to the largest terms of a sum
_TABLES = 512  # largest order for the Poisson bound, which takes a table of its square


def log_forward(ratio: BalancedRatio, alpha: np.ndarray, method: str) -> np.ndarray:
    """Bound on (alpha - 1) D_alpha(P || Q), alpha > 1 of shape (n,)."""
    exact, noise = _exact(ratio, float(np.max(alpha)))
    exact = exact + (-noise if method == "lower" else noise)
    low, high = (x + _gaussian_part(ratio, alpha) for x in _log_means(ratio, alpha))
    beyond = alpha > exact.size + 1
    some = np.flatnonzero(beyond & (alpha >= 2))
    tilted = log_moment_bounds(ratio.a, ratio.size, ratio.k, alpha[some])
    whole = (alpha == np.floor(alpha)) & ~beyond
    if method == "lower":
        low[some] = np.maximum(low[some], tilted[0])
        low = np.maximum(low, _agreeing(ratio, alpha))
        known = np.arange(2, exact.size + 2)
        per_order = np.append(ratio.width**2 / 2, exact / (known * (known - 1)))
        below = np.searchsorted(known, alpha, side="right")
        low = np.maximum(low, alpha * (alpha - 1) * per_order[below])
        low[whole] = exact[alpha[whole].astype(int) - 2]
        return np.maximum(low, 0.0)
    high[some] = np.minimum(high[some], tilted[1])
    # The logarithm of the moment is convex in the order, and 0 at order 1.
    floor, ceil = np.floor(alpha), np.ceil(alpha)
    ends = [_upper(ratio, exact, np.maximum(x, 2)) * (x > 1) for x in (floor, ceil)]
    return np.minimum(high, ends[0] + (alpha - floor) * (ends[1] - ends[0]))


def log_reverse(ratio: BalancedRatio, alpha: np.ndarray, method: str) -> np.ndarray:
    """Bound on (alpha - 1) D_alpha(Q || P), alpha > 1 of shape (n,)."""
    low, high = (x + _gaussian_part(ratio, alpha) for x in _log_means(ratio, 1 - alpha))
    if method == "lower":
        return low
    # D_alpha(Q || P) / alpha is at most D_b(P || Q) / b for every b > 1; and D(P || Q) dominates.
    second = ratio.log_second + ratio.width**2
    high = np.minimum(high, alpha * (alpha - 1) * second / 2)
    return np.minimum(high, log_forward(ratio, alpha, "upper"))


def _gaussian_part(ratio: BalancedRatio, power: np.ndarray) -> np.ndarray:
    return power * (power - 1) * ratio.width**2 / 2


def _exact(ratio: BalancedRatio, top: float) -> tuple[np.ndarray, np.ndarray]:
    """log E L^n for n = 2, 3, ..., as far as it is known or wanted, and its error."""
    moments, error = ratio.log_moments
    if moments.size - 1 < top:
        moments, error = ratio.more_log_moments
    exact = moments[2:] + _gaussian_part(ratio, np.arange(2, moments.size))
    noise = np.full(exact.size, error)
    noise[0] = 0.0  # known to full relative precision
    return exact, noise


def _log_means(ratio: BalancedRatio, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on log E M^p by quadrature rules, shape (n,)."""
    if ratio.mixture is None:
        return np.zeros(power.shape), np.full(power.shape, np.inf)
    return log_power_means(ratio.usable_moments, ratio.mixture, power)


def _upper(ratio: BalancedRatio, exact: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Upper bound on log E L^n for whole n >= 2."""
    position = order.astype(int) - 2
    some = position < exact.size
    result = np.empty(order.shape)
    result[some] = exact[position[some]]
    beyond = order[~some].astype(int)
    if beyond.size:
        bound = forward_bound(beyond, ratio.size, ratio.k, 1 / ratio.a)
        bound = np.minimum(bound, beyond * ratio.k * ratio.a**2 / 2)
        near = beyond <= _TABLES
        if np.any(near):
            poisson = ratio.size * poisson_rdp(beyond[near], 1 / ratio.a, ratio.k / ratio.size)
            bound[near] = np.minimum(bound[near], poisson)
        result[~some] = bound * (beyond - 1)
    return result


def _agreeing(ratio: BalancedRatio, alpha: np.ndarray) -> np.ndarray:
    """Lower bound from the tuples of n subsets, n = floor(alpha), of which most are one subset B.

    The j < n / 2 others differ from B in one element: k (T - k) choices each. All pairs share k elements,
    less one for each pair of B and another, less at most two for each pair of others.
    """
    order = np.floor(alpha)
    n, k, square = ratio.size, ratio.k, ratio.a**2
    log_count = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    j = np.arange(int(np.max(order)) // 2 + 1)
    log_other = np.log(k * (n - k)) - square * (order - 1)
    left = np.maximum(order[:, None] - j, 0)
    log_choose = gammaln(order + 1)[:, None] - gammaln(j + 1) - gammaln(left + 1)
    terms = np.where(2 * j < order[:, None], log_choose + j * log_other[:, None], -np.inf)
    value = square * k * order * (order - 1) / 2 - (order - 1) * log_count + log_sum(terms, axis=1)
    value = value - _ROUNDING * order * (square * k * order + log_count)
    # D is non-decreasing in the order.
    return np.where(order >= 2, value / np.maximum(order - 1, 1) * (alpha - 1), 0.0)
