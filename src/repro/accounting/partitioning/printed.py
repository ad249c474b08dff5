"""The printed bounds of the paper on model and data partitioning, as functions of the Renyi order.

Source: "Leveraging Randomness in Model and Data Partitioning for Privacy Amplification" (2025). The
mechanisms are `repro.accounting.ModelSplitting` (Theorem 3.4) and
`repro.accounting.BalancedIterationSubsampling` (Theorem 3.8); their `method="paper"` calls
what is here. Letters of the paper: P is the uniform mixture of N(c mu, sigma^2 I) over all 0-1
vectors mu of length d with k ones, Q = N(0, sigma^2 I), c the clip. For model splitting d is the
number of submodels and k = 1; for balanced subsampling d is the number of iterations T.

All functions take and return arrays and stay in the log domain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from repro._validate import in_unit, integer, positive
from repro.accounting._renyi import (
    ORDERS,
    convert_delta,
    convert_epsilon,
    log_binomial,
    log_mean_exp,
)

__all__ = [
    "ORDERS",
    "convert_delta",
    "convert_epsilon",
    "forward_bound",
    "poisson_amplified",
    "poisson_rdp",
    "reverse_bound",
    "reverse_mean_term",
    "reverse_spread_term",
    "theorem_3_1",
    "whole_orders",
]


_LONGEST = 10**7  # places of a vector: a bound adds up over them
_LEAST_NOISE = 1e-100  # in clips: the square of its inverse, times an order, is a double


def whole_orders(alpha: ArrayLike) -> np.ndarray:
    """Orders as an integer array; the paper's moment formulas need whole orders of at least 2.

    Raises:
        ValueError: an order is not a whole number or below 2.
    """
    array = positive("alpha", alpha)
    if np.any(array < 2) or np.any(array != np.floor(array)):
        raise ValueError(f"alpha must be a whole number >= 2, got {alpha!r}")
    return array.astype(int)


def _size(d: int, k: int) -> tuple[int, int]:
    d = integer("d", d, 1, _LONGEST)
    return d, integer("k", k, 1, d)


def _squared_ratio(sigma: ArrayLike, clip: ArrayLike) -> np.ndarray:
    """(c / sigma)^2."""
    clip, sigma = positive("clip", clip), positive("sigma", sigma)
    if np.any(sigma < _LEAST_NOISE * clip):
        raise ValueError(
            f"sigma must be at least {_LEAST_NOISE:g} times clip, or the divergences are no doubles, got "
            f"sigma {sigma!r} and clip {clip!r}"
        )
    return (clip / sigma) ** 2


def forward_bound(
    alpha: ArrayLike, d: int, k: int, sigma: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """Bound on D_alpha(P || Q): Corollary 3.14, the first term of (3).

    log E exp(alpha c^2 l / (2 sigma^2)), where l is the number of ones that two independent centres
    share (hypergeometric). At alpha = 2 it is the divergence itself.

    Args:
        alpha: whole orders >= 2.
        d: length of the 0-1 vectors, 1 to 10^7.
        k: number of ones, 1 <= k <= d.
        sigma: standard deviation of the noise, > 0, broadcast with alpha.
        clip: c > 0, broadcast with alpha.

    Returns:
        the bound, of the broadcast shape.

    Raises:
        ValueError: an argument out of range.
    """
    d, k = _size(d, k)
    gain = whole_orders(alpha) * _squared_ratio(sigma, clip) / 2
    shared = np.arange(max(0, 2 * k - d), k + 1)
    log_weight = 2 * (gammaln(k + 1) + gammaln(d - k + 1)) - gammaln(d + 1)
    log_weight = log_weight - gammaln(shared + 1) - 2 * gammaln(k - shared + 1)
    log_weight = log_weight - gammaln(d - 2 * k + shared + 1)
    return log_mean_exp(log_weight, gain[..., None] * shared)


def reverse_mean_term(
    alpha: ArrayLike, d: int, k: int, sigma: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """D_alpha(Q || Q') of Corollary 3.17, Q' being Q moved to the mean of the centres."""
    d, k = _size(d, k)
    return positive("alpha", alpha) * _squared_ratio(sigma, clip) * k**2 / (2 * d)


def reverse_spread_term(
    alpha: ArrayLike, d: int, k: int, sigma: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """The expression of Corollary 3.19 for the divergence of the centred mixture.

    With r = c^2 k (d - k) / (sigma^2 d^2) it equals
    d / 2 (r - log(1 + (alpha - 1)(1 - exp(-r))) / (alpha - 1)), which cannot overflow.

    It rests on Lemma 3.18 and is no bound on that divergence by itself.
    """
    d, k = _size(d, k)
    excess = positive("alpha", alpha) - 1
    r = _squared_ratio(sigma, clip) * k * (d - k) / d**2
    return d / 2 * (r - np.log1p(-excess * np.expm1(-r)) / excess)


def reverse_bound(
    alpha: ArrayLike, d: int, k: int, sigma: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """The second term of (1) to (3), printed as a bound on D_alpha(Q || P).

    Lemma 3.15 with Corollaries 3.17 and 3.19; arguments as in `forward_bound`, except that alpha
    may be any order above 1.
    """
    setting = (d, k, sigma, clip)
    return reverse_mean_term(alpha, *setting) + reverse_spread_term(alpha, *setting)


def theorem_3_1(
    alpha: ArrayLike, d: int, k: int, sigma: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """Right-hand side (3) of Theorem 3.1: the larger of both terms; arguments as in both."""
    setting = (d, k, sigma, clip)
    return np.maximum(forward_bound(alpha, *setting), reverse_bound(alpha, *setting))


def poisson_amplified(alpha: ArrayLike, curve: ArrayLike, rate: ArrayLike) -> np.ndarray:
    """Renyi curve after Poisson sampling: the sum of Theorem 3.11 with any curve in the exponent.

    log((1 - g)^(a - 1) (1 + (a - 1) g) + sum_{l=2}^a C(a, l) (1 - g)^(a - l) g^l exp((l - 1) e(l)))
    / (a - 1). With (l - 1) e(l) = log E_Q (dP/dQ)^l it is exactly
    D_a((1 - g) Q + g P || Q), whatever P and Q are.

    Args:
        alpha: whole orders >= 2, any shape; L is the largest.
        curve: e(l) for l = 2, ..., L (at least), shape (..., L - 1 or more).
        rate: sampling rates g in [0, 1], broadcast against the leading axes of `curve`.

    Returns:
        shape (..., *alpha.shape) with the broadcast leading axes.

    Raises:
        ValueError: an argument out of range, or the curve is too short.
    """
    alpha = whole_orders(alpha)
    rate = in_unit("rate", rate)
    top = int(np.max(alpha))
    curve = np.asarray(curve, dtype=float)
    if curve.ndim == 0 or curve.shape[-1] < top - 1:
        raise ValueError(f"curve must hold orders 2 to {top}, got shape {curve.shape}")
    # The exponent vanishes at l = 0 and 1: these two terms are the first product of the formula.
    exponent = np.zeros((*curve.shape[:-1], top + 1))
    exponent[..., 2:] = np.arange(1, top) * curve[..., : top - 1]
    order = alpha.ravel()
    log_weight = log_binomial(order[:, None], np.arange(top + 1), rate[..., None, None])
    value = log_mean_exp(log_weight, exponent[..., None, :]) / (order - 1)
    return value.reshape((*value.shape[:-1], *alpha.shape))


def poisson_rdp(
    alpha: ArrayLike, sigma: ArrayLike, rate: ArrayLike, clip: ArrayLike = 1.0
) -> np.ndarray:
    """Theorem 3.11 (Zhu and Wang 2019): the Poisson-subsampled Gaussian mechanism.

    Args:
        alpha: whole orders >= 2.
        sigma: standard deviation of the noise, > 0.
        rate: sampling rate, in [0, 1].
        clip: sensitivity, > 0. All three broadcast against each other.

    Returns:
        shape (*broadcast of sigma, rate and clip, *alpha.shape).

    Raises:
        ValueError: an argument out of range.
    """
    top = int(np.max(whole_orders(alpha)))
    curve = _squared_ratio(sigma, clip)[..., None] * np.arange(2, top + 1) / 2
    return poisson_amplified(alpha, curve, rate)
