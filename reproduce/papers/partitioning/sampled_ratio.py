"""Balanced subsampling by Monte Carlo from the exact likelihood ratio: a second route, not a bound.

The ratio L over all subsets is an elementary symmetric polynomial of the iterations' ratios, computed by its
recursion over the iterations. delta(remove) = E_Q (L - t)_+ is estimated under a proposal that is a mixture of
balanced subsamplings with shifts between none and several times the true one, so that outcomes near the strike are
common and the weights are bounded by the inverse share of the true shift. The interval is that of the normal
approximation at 99.9 %, over independent draws: it holds in the limit of many draws, and neither end is certified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtri

__all__ = ["Interval", "log_ratio", "sampled_delta"]

_CONFIDENCE = 0.999
_CHUNK = 4096  # draws at a time
_FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)  # shifts of the proposal, in units of the true one


class Interval(NamedTuple):
    """A Monte Carlo estimate and its interval at 99.9 %."""

    low: float
    estimate: float
    high: float


def log_ratio(z: np.ndarray, a: float, k: int) -> np.ndarray:
    """log L, the mean over all k-subsets of exp(sum of a z_i - a^2 / 2), by recursion.

    Args:
        z: outputs in units of the noise, shape (draws, T).
        a: shift, > 0.
        k: size of the subsets, 1 <= k <= T.

    Returns:
        shape (draws,).
    """
    draws, size = z.shape
    log_x = a * z - a**2 / 2
    # Each column is scaled, so that sums over subsets stay within doubles.
    scale = np.max(log_x, axis=1)
    x = np.exp(log_x - scale[:, None])
    sums = np.zeros((k + 1, draws))
    sums[0] = 1.0
    log_scale = np.zeros(draws)
    for t in range(size):
        sums[1:] += x[:, t] * sums[:-1]
        if t % 64 == 63:
            top = sums.max(axis=0)
            sums /= top
            log_scale += np.log(top)
    log_count = gammaln(size + 1) - gammaln(k + 1) - gammaln(size - k + 1)
    with np.errstate(divide="ignore"):
        return np.log(sums[k]) + log_scale + k * scale - log_count


def sampled_delta(
    a: float, size: int, k: int, epsilon: float, draws: int, seed: int = 0
) -> Interval:
    """delta(remove) at epsilon.

    Args:
        a: shift in standard deviations, > 0.
        size: T >= 1.
        k: participations, 1 <= k <= T.
        epsilon: >= 0.
        draws: >= 2; rounded up to whole chunks.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    shifts = a * np.array(_FACTORS)
    total = square = 0.0
    count = 0
    while count < draws:
        z = rng.standard_normal((_CHUNK, size))
        # Every subset is as good as the first one, since L is symmetric.
        z[:, :k] += rng.choice(shifts, _CHUNK)[:, None]
        log_ratios = np.stack([log_ratio(z, b, k) for b in shifts])
        log_proposal = np.logaddexp.reduce(log_ratios, axis=0) - np.log(shifts.size)
        gain = np.maximum(-np.expm1(epsilon - log_ratios[0]), 0.0)
        value = gain * np.exp(log_ratios[0] - log_proposal)
        total, square, count = total + value.sum(), square + np.sum(value**2), count + _CHUNK
    mean = total / count
    error = np.sqrt(max(square / count - mean**2, 0.0) / (count - 1))
    reach = float(ndtri((1 + _CONFIDENCE) / 2)) * error
    return Interval(max(mean - reach, 0.0), mean, mean + reach)
