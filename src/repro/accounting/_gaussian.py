"""Hockey-stick divergence of two shifted Gaussians, in the log domain.

Everything in this package reduces to one integral: for unit-variance Gaussians a distance `mu`
apart and a weight `w = exp(log_weight)`,

    D(mu, w) = Int [N(z; mu, 1) - w N(z; 0, 1)]_+ dz
             = Phi(mu/2 - log(w)/mu) - w Phi(-mu/2 - log(w)/mu).

With w = exp(epsilon) this is the privacy profile of the Gaussian mechanism (Balle and Wang 2018,
Theorem 8); subsampling only changes the weight and the factor in front.

Mechanisms whose "upper" and "lower" are both this closed form give one number for both. It involves no
quadrature; its rounding, a few units of that of the first term, is not charged here. Bounds that differ
charge it themselves (`random_participation.upper`, `random_participation.lower`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx, log_ndtr

__all__ = ["compress", "log_diff", "log_expm1", "log_mills", "log_shift_divergence", "log_sum"]

_FAR = 100.0  # log weights beyond which they would swallow the digits of what they are added to


def log_expm1(x: np.ndarray) -> np.ndarray:
    """log(exp(x) - 1) for x >= 0, without overflow; -inf at 0."""
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.where(
            x > 1.0,
            x + np.log1p(-np.exp(-np.maximum(x, 1.0))),
            np.log(np.expm1(np.minimum(x, 1.0))),
        )


def log_diff(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log(exp(a) - exp(b)), -inf wherever a <= b (a difference of rounding size counts as none)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(a > b, b - a, 0.0)
        return np.where(a > b, a + np.log(-np.expm1(gap)), -np.inf)


def compress(x: np.ndarray) -> np.ndarray:
    """A monotone function with the sign of x, below 1000, which spares root finders infinities."""
    return np.clip(np.arcsinh(x), -1e3, 1e3)


def log_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """log of the sum of exp(x) along an axis; -inf where all terms are.

    Plain shift by the maximum: SciPy's logsumexp separates the largest term, which overflows when the
    terms spread over many orders of ten thousand.
    """
    top = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x - shift), axis=axis)) + np.squeeze(shift, axis=axis)


def log_mills(x: np.ndarray) -> np.ndarray:
    """log of (1 - Phi(x)) sqrt(2 pi) exp(x^2 / 2), accurate at both ends."""
    with np.errstate(over="ignore"):
        far = np.log(erfcx(np.maximum(x, 0.0) / np.sqrt(2))) + 0.5 * np.log(np.pi / 2)
        return np.where(x > 0, far, log_ndtr(-x) + x**2 / 2 + 0.5 * np.log(2 * np.pi))


def log_shift_divergence(mu: np.ndarray, log_weight: np.ndarray) -> np.ndarray:
    """log of D(mu, exp(log_weight)), broadcast over both arguments.

    Args:
        mu: distance between the means in units of the standard deviation, >= 0.
        log_weight: log of the weight of the subtracted Gaussian, may be -inf or +inf.

    Returns:
        log D in [-inf, 0]; at mu = 0 it is log([1 - w]_+).
    """
    mu, log_weight = np.broadcast_arrays(np.asarray(mu, float), np.asarray(log_weight, float))
    # A quotient that overflows has the limit's value: all of a Gaussian, or nothing.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        centre = np.where(mu > 0, log_weight / mu, np.where(log_weight < 0, -np.inf, np.inf))
        first, second = mu / 2 - centre, mu / 2 + centre
        subtracted = log_weight + log_ndtr(-second)
        far = (log_weight > _FAR) & (second > 0) & np.isfinite(second)
        if np.any(far):
            # w exp(-second^2 / 2) = exp(-first^2 / 2), where the large terms cancel exactly.
            with np.errstate(over="ignore"):
                mills = log_mills(second) - first**2 / 2 - 0.5 * np.log(2 * np.pi)
            subtracted = np.where(far, mills, subtracted)
        value = log_diff(log_ndtr(first), subtracted)
        value = np.where(mu > 0, value, log_diff(np.zeros_like(mu), log_weight))
        value = np.where(log_weight == -np.inf, 0.0, value)
        return np.where(log_weight == np.inf, -np.inf, value)
