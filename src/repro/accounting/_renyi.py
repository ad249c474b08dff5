"""Renyi curves: weighted sums of moments in the log domain, and the conversion to (epsilon, delta)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from repro._validate import nonnegative, positive, probability_open
from repro.accounting._gaussian import log_sum

__all__ = [
    "ORDERS",
    "convert_delta",
    "convert_epsilon",
    "log_binomial",
    "log_convert_delta",
    "log_mean_exp",
    "orders",
]

ORDERS = np.arange(2, 257)
"""The orders at which the papers' numbers come out: every whole order from 2 to 256."""
ORDERS.setflags(write=False)


def orders(alpha: ArrayLike) -> np.ndarray:
    """Renyi orders as an array.

    Raises:
        ValueError: an order is not above 1.
    """
    array = positive("alpha", alpha)
    if np.any(array <= 1):
        raise ValueError(f"alpha must be above 1, got {alpha!r}")
    return array


def log_mean_exp(log_weight: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """log sum_j exp(log_weight_j + exponent_j) along the last axis, for weights that sum to one.

    Where all exponents are small the logarithm of a sum near one would lose its digits, so there the
    excess over one is summed instead.

    Args:
        log_weight: logarithms of weights, shape (..., n); -inf leaves a term out.
        exponent: broadcast with them; finite.
    """
    log_weight, exponent = np.broadcast_arrays(log_weight, exponent)
    result = np.array(log_sum(log_weight + exponent, axis=-1))
    near = np.abs(result) < 0.1
    weight, gain = log_weight[near], exponent[near]
    large = np.exp(weight + gain) - np.exp(weight)
    excess = np.where(gain > 1, large, np.exp(weight) * np.expm1(np.minimum(gain, 1.0)))
    result[near] = np.log1p(np.sum(excess, axis=-1))
    return result


def log_binomial(count: np.ndarray, number: np.ndarray, rate: float) -> np.ndarray:
    """log of the binomial probability of `number` among `count` (whole); -inf beyond it."""
    rest = count - number
    factorial = gammaln(np.arange(int(max(np.max(count), np.max(number))) + 1) + 1)
    log_choose = factorial[count] - factorial[number] - factorial[np.maximum(rest, 0)]
    with np.errstate(divide="ignore", invalid="ignore"):
        hit = np.where(number == 0, 0.0, number * np.log(rate))
        missed = np.where(rest == 0, 0.0, rest * np.log1p(-rate))
    return np.where(rest >= 0, log_choose + hit + missed, -np.inf)


def convert_epsilon(rdp: ArrayLike, alpha: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Smallest rdp + log(1 / delta) / (alpha - 1) over the orders (Mironov 2017, Proposition 3).

    This is Proposition 2.3 of the partitioning paper.

    Args:
        rdp: Renyi curve, shape (..., n), >= 0; after T rounds T times that of one.
        alpha: its orders, shape (n,), > 1.
        delta: in (0, 1), broadcast against the leading axes of `rdp`.

    Returns:
        epsilon, of the broadcast shape.

    Raises:
        ValueError: an argument out of range, or the curve does not match the orders.
    """
    rdp, excess = _curve(rdp, alpha)
    cost = -np.log(probability_open("delta", delta))
    return np.min(rdp + cost[..., None] / excess, axis=-1)


def convert_delta(rdp: ArrayLike, alpha: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """The same solved for delta: the smallest exp((alpha - 1)(rdp - epsilon)), at most 1.

    Arguments as in `convert_epsilon`, with epsilon >= 0 in place of delta.
    """
    return np.exp(log_convert_delta(rdp, alpha, epsilon))


def log_convert_delta(rdp: ArrayLike, alpha: ArrayLike, epsilon: ArrayLike) -> np.ndarray:
    """Logarithm of `convert_delta`."""
    rdp, excess = _curve(rdp, alpha)
    epsilon = nonnegative("epsilon", epsilon)
    return np.minimum(np.min(excess * (rdp - epsilon[..., None]), axis=-1), 0.0)


def _curve(rdp, alpha) -> tuple[np.ndarray, np.ndarray]:
    """The curve and alpha - 1, checked."""
    alpha = orders(alpha)
    rdp = nonnegative("rdp", rdp)
    if alpha.ndim != 1 or rdp.ndim == 0 or rdp.shape[-1] != alpha.size:
        raise ValueError(f"rdp must end in {alpha.size} orders, got shape {rdp.shape}")
    return rdp, alpha - 1
