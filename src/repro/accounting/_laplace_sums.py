"""The law of a sum of n independent Laplace variables of scale 1, exactly and in the log domain.

The sum is the difference of two Gamma(n, 1) variables. Its density is exp(-|x|) times a polynomial in
|x| with positive coefficients (Kotz, Kozubowski and Podgorski 2001, section 2.3),

    f(x) = sum_{k < n} w_k |x|^(n-1-k) exp(-|x|) / (n-1-k)!,   w_k = C(n-1+k, k) 2^-(n+k),

a mixture of Gamma laws of whole shape, so that its tail has the same form. Only positive terms are
added up: every value is precise to rounding, however far out. There is no quadrature. A divergence is the
difference of two such tails; its rounding is not charged, so that "upper" and "lower" are the same number
for one round, exact to a few units of rounding of the larger tail.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import gammaln

from repro.accounting._gaussian import log_sum

_FAR = 1e6
"""Outputs beyond this have a probability that no double can hold."""

__all__ = ["log_density", "log_tail", "loss", "loss_point"]


@cache
def _coefficients(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Logs of the coefficients of x^j exp(-x), j < count, in the density and in the tail."""
    k = np.arange(count)
    log_w = gammaln(count + k) - gammaln(k + 1) - gammaln(count) - (count + k) * np.log(2.0)
    log_factorial = gammaln(k + 1)  # of j, for k read as j
    # x^j in the density comes from k = count - 1 - j, in the tail from all k with count - k > j.
    density = log_w[::-1] - log_factorial
    tail = np.logaddexp.accumulate(log_w)[::-1] - log_factorial
    return density, tail


def _polynomial(x: np.ndarray, log_coefficients: np.ndarray) -> np.ndarray:
    """log of sum_j c_j x^j exp(-x) for x >= 0."""
    powers = np.arange(log_coefficients.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(powers == 0, 0.0, powers * np.log(x)[..., None])
    return log_sum(terms + log_coefficients, axis=-1) - x


def log_density(x: np.ndarray, count: int) -> np.ndarray:
    """log f(x) of the sum of `count` Laplace variables, any shape."""
    return _polynomial(np.abs(np.asarray(x, float)), _coefficients(count)[0])


def log_tail(x: np.ndarray, count: int) -> np.ndarray:
    """log P(sum > x), any shape; precise on both sides of zero."""
    x = np.asarray(x, float)
    outer = _polynomial(np.abs(x), _coefficients(count)[1])
    return np.where(x >= 0, outer, np.log1p(-np.exp(outer)))


def loss(x: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """log f(x - shift) - log f(x), the privacy loss at output x; it increases with x."""
    return log_density(x - shift, count) - log_density(x, count)


def loss_point(epsilon: np.ndarray, shift: np.ndarray, count: int) -> np.ndarray:
    """Where the loss reaches epsilon, for 0 <= epsilon < shift; bisection to full precision.

    The loss is 0 at shift / 2, by symmetry. Beyond, f(x - shift) / f(x) >= e^shift (1 - shift/x)^(n-1),
    which gives the other end of the bracket.
    """
    low, high = shift / 2, np.array(shift, float)
    if count > 1:
        room = np.maximum(shift - epsilon, np.finfo(float).tiny) / (count - 1)
        high = np.minimum(shift / -np.expm1(-room), _FAR)
    for _ in range(200):
        middle = (low + high) / 2
        if np.all((middle <= low) | (middle >= high)):
            break
        below = loss(middle, shift, count) < epsilon
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
