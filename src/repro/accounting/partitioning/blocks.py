"""One Gaussian shift placed on one of d orthogonal blocks, uniformly at random and in secret.

Q = N(0, I), P the mixture of the d Gaussians centred at distance a from the origin on one axis each:
the likelihood ratio is the mean of d independent lognormals exp(a Z_i - a^2 / 2). This is one round
of model splitting into d submodels, and also one pass of allocation to 1 of d iterations.

``block_law(a, d, method)`` is the discretised law of that mean (see `laws`), from which
``_ratio_losses.ratio_losses(law, interval, method, rate)`` makes dp-accounting's loss distributions,
both directions; ``log_moments(a, d, top)`` gives all whole Renyi moments exactly.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from repro.accounting._renyi import log_binomial, log_mean_exp
from repro.accounting.partitioning.laws import TAIL, Law, average, lognormal, product

__all__ = ["LARGEST_SHIFT", "SMALLEST_SHIFT", "block_law", "log_moments", "spread_of_mean"]

#: Beyond this many standard deviations the masses under Q of what is typical under P underflow.
LARGEST_SHIFT = 20.0
#: Below this many the values of the grid are too close to each other for doubles.
SMALLEST_SHIFT = 1e-7


def log_moments(a: float, d: int, top: int) -> np.ndarray:
    """log E S^l for l = 0, ..., top, exactly, S the mean of d lognormals.

    E S^l is l! / d^l times the coefficient of t^l in (sum_n t^n / n! exp(n (n - 1) a^2 / 2))^d, the
    first term of (2) for k = 1 with equal terms collected. The power is taken by squaring. Written
    for means, one step is a binomial average, moment_l(m + n) = E moment_J(m) moment_{l-J}(n) with
    J ~ Binomial(l, m / (m + n)), which loses no digits when the moments are near one.

    Args:
      a: shift in standard deviations, >= 0.
      d: number of blocks, >= 1.
      top: highest moment, >= 1.
    """
    taken = np.arange(top + 1)
    order = taken[:, None]
    rest = np.maximum(order - taken, 0)
    log_choose = log_binomial(order, taken, 0.5) + order * np.log(2)

    def merged(first, second, share):
        log_weight = log_choose + (taken * np.log(share) + rest * np.log1p(-share))
        return log_mean_exp(log_weight, first + second[rest])

    single = a**2 * taken * (taken - 1) / 2
    total, size = single, 1
    for bit in bin(d)[3:]:
        total, size = merged(total, total, 0.5), 2 * size
        if bit == "1":
            total, size = merged(single, total, 1 / (size + 1)), size + 1
    return total


def spread_of_mean(a: float, d: int) -> float:
    """Standard deviation of log S for a lognormal S of the same mean and variance."""
    return float(np.sqrt(np.logaddexp(0.0, a**2 + np.log(-np.expm1(-(a**2))) - np.log(d))))


def _mean(a: float, d: int, method: str, points: int, tail: float) -> Law:
    """The mean of d lognormals by doubling, on grids that narrow with its spread."""
    tail = tail / d  # the terms' trimmed masses add up
    single = lognormal(a, spread_of_mean(a, 1) / points, method, tail)
    total, size = single, 1
    for bit in bin(d)[3:]:
        size *= 2
        total = average(total, total, 0.5, spread_of_mean(a, size) / points, method, tail)
        if bit == "1":
            size += 1
            step = spread_of_mean(a, size) / points
            total = average(single, total, 1 / size, step, method, tail)
    return total


@lru_cache(maxsize=256)
def block_law(
    a: float, d: int, method: str, *, b: float = 0.0, points: int = 40, tail: float = TAIL
) -> Law:
    """The law of the likelihood ratio, rounded upwards or downwards in the convex order.

    Args:
      a: shift on the secret block, in standard deviations, >= 0.
      d: number of blocks, >= 1.
      method: "upper" or "lower".
      b: shift on a further axis that is the same for all blocks, >= 0.
      points: grid points per standard deviation of the log ratio, at each stage.
      tail: mass that may be trimmed at the lower end.

    Raises:
      ValueError: the shifts are so large that the masses under Q underflow.
    """
    if np.hypot(a, b) > LARGEST_SHIFT:
        raise ValueError(f"a and b must have a norm of at most {LARGEST_SHIFT}, got {a!r}, {b!r}")
    a, b = (_representable(shift, method) for shift in (a, b))
    split = _mean(a, d, method, points, tail) if a else Law(np.ones(1), np.ones(1))
    if b == 0:
        return split
    step = float(np.hypot(spread_of_mean(a, d) if a else 0.0, b)) / points
    return product(split, lognormal(b, step, method, tail), step, method, tail)


def _representable(shift: float, method: str) -> float:
    """Shifts too small for the grid: larger ones leak more, none at all leaks less."""
    if shift == 0 or shift >= SMALLEST_SHIFT:
        return shift
    return SMALLEST_SHIFT if method == "upper" else 0.0
