"""Bounds on means of functions of a positive variable from its first moments.

M >= 0 has mean one, support [m, inf) and known moments up to N. For a function h and any nodes
z_1, ..., z_n >= m, with H the polynomial that interpolates h there (a repeated node: with its
derivative) and w(x) = prod (x - z_i) >= 0 on the support,

    h(x) = H(x) + h[z_1, ..., z_n, x] w(x),

so that E h(M) lies between E H(M) + K E w(M) with K the infimum and the supremum of the divided
difference over the support. With n <= N both means are exact combinations of moments. The nodes are those
of the Gauss rule of M, each twice, or of the Gauss-Radau rule with a single node at m: they make E w as
small as it can be. Every n gives a valid bound; the best one is kept.

Here h is the price of a call or put: h(x) = E (x G - t)_+ or E (t - x G)_+ with G an independent
lognormal of mean one, which is smooth. Its divided difference is evaluated on a grid that is fine
compared with the width of log G, and K is enlarged by one per cent. That enlargement is measured, not
proven: over a grid 16 times as fine the extreme that bounds from above grows by less than 1e-4, the
one that bounds from below by less than 2e-3 of itself (``test_balanced_attack``), so that the margin
is at least five times what was needed there. Whatever is called upper or lower and rests on these
prices is therefore a bound up to this measured step; a proof would have to bound the variation of
the divided difference between grid points for every strike, width and rule.
"""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import ndtr

from repro.accounting._gaussian import log_diff, log_shift_divergence, log_sum

__all__ = ["Mixture", "Rule", "log_power_means", "log_price", "mixture"]

_DIGITS = 60
_MARGIN = 1e-2  # enlarges K for what the grid may miss; see the docstring
_PER_WIDTH = 12  # grid points per standard deviation of log G
_SPACING = 0.02  # largest spacing of the grid in log x
_MOST_POINTS = 6000  # beyond that nothing is claimed
_SAMPLE = 12  # strikes on which rules are tried out
_APART = 0.01  # share of the smallest scale that is left out of the grid around a node
_CHUNK = 1 << 19


class Rule(NamedTuple):
    """Nodes with repetitions, shape (n,); means of prod_{i<j} (x - z_i) and (x + z_i), (n + 1,)."""

    nodes: np.ndarray
    mean: np.ndarray
    size: np.ndarray


class Mixture(NamedTuple):
    """What is known of L = M G: log of the smallest M, its rules, standard deviations, noise."""

    log_min: float
    rules: tuple[Rule, ...]
    spread: float  # standard deviation of M
    width: float  # standard deviation of log G
    noise: float  # relative error of the moments


def _recurrence(moment: list) -> tuple[list, list]:
    """Coefficients of the monic orthogonal polynomials (Chebyshev's algorithm), as far as positive."""
    top = len(moment) - 1
    alpha, beta = [moment[1] / moment[0]], [moment[0]]
    before, now = [mp.mpf(0)] * (top + 1), list(moment)
    for k in range(1, top // 2 + 1):
        after = [mp.mpf(0)] * (top + 1)
        for j in range(k, top + 1 - k):
            after[j] = now[j + 1] - alpha[-1] * now[j] - beta[-1] * before[j]
        if after[k] <= 0 or now[k - 1] <= 0:
            break
        beta.append(after[k] / now[k - 1])
        if 2 * k < top:
            alpha.append(after[k + 1] / after[k] - now[k] / now[k - 1])
        before, now = now, after
    return alpha, beta


def _jacobi(alpha: list, beta: list, size: int, radau: object = None):
    """Matrix whose eigenvalues are the nodes: ``size`` of the Gauss rule, one more with ``radau``."""
    diagonal = list(alpha[:size])
    if radau is not None:
        ratio = mp.mpf(0)
        for j in range(size):
            ratio = beta[j + 1] / (radau - alpha[j] - ratio)
        diagonal.append(radau - ratio)
    matrix = mp.zeros(len(diagonal))
    for j, entry in enumerate(diagonal):
        matrix[j, j] = entry
        if j:
            matrix[j, j - 1] = matrix[j - 1, j] = mp.sqrt(beta[j])
    return matrix


def _matrices(moment: list, lowest):
    """Pairs (n, Jacobi matrix): Gauss for even n, Radau at the lowest point for odd n."""
    alpha, beta = _recurrence(moment)
    for n in range(1, len(moment)):
        size = n // 2
        if n % 2 == 0 and size <= len(alpha) and size < len(beta):
            yield n, _jacobi(alpha, beta, size)
        elif n % 2 and size < len(beta) and size <= len(alpha):
            yield n, _jacobi(alpha, beta, size, lowest)


def mixture(log_moments: np.ndarray, log_min: float, width: float, noise: float) -> Mixture:
    """The rules of M.

    Args:
      log_moments: log E M^n, n = 0, ..., N, the first two 0.
      log_min: log of a lower end of the support, below 0.
      width: standard deviation of log G, > 0.
      noise: relative error that the moments may have.
    """
    rules = []
    with mp.workdps(_DIGITS):
        moment = [mp.exp(mp.mpf(float(x))) for x in log_moments]
        lowest = mp.exp(mp.mpf(log_min))
        for n, matrix in _matrices(moment, lowest):
            # Any nodes will do, so ordinary precision is enough for them, but not for the means.
            value = np.linalg.eigvalsh(np.array(matrix.tolist(), dtype=float))
            value = np.maximum(value, np.exp(log_min))
            nodes = np.repeat(value, 2)
            if n % 2:
                nodes = nodes[1:]
                nodes[0] = np.exp(log_min)
            rules.append(
                Rule(
                    nodes,
                    np.array([float(x) for x in _means(nodes, moment, -1)]),
                    np.array([float(x) for x in _means(nodes, moment, 1)]),
                )
            )
        spread = float(mp.sqrt(max(moment[2] - 1, mp.mpf(0))))
    return Mixture(log_min, tuple(rules), spread, width, noise)


def _means(nodes: np.ndarray, moment: list, sign: int) -> list:
    """E prod_{i<j} (x + sign z_i) for j = 0, ..., n."""
    polynomial, result = [mp.mpf(1)], [moment[0]]
    for z in map(mp.mpf, nodes):
        shifted = [mp.mpf(0), *polynomial]
        scaled = [*(sign * z * c for c in polynomial), mp.mpf(0)]
        polynomial = [p + q for p, q in zip(shifted, scaled, strict=True)]
        result.append(mp.fsum(c * m for c, m in zip(polynomial, moment, strict=False)))
    return result


def log_power_means(
    log_moments: np.ndarray, known: Mixture, power: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on log E M^p for any real powers, from the quadrature rules.

    The n-th rule leaves an error of the sign of the n-th derivative of x^p, p (p - 1) ... (p - n + 1).

    Args:
      log_moments: those from which ``known`` was made.
      known: the rules of M.
      power: shape (m,).

    Returns:
      two arrays of shape (m,); 0 (by Jensen) and inf where the rules say nothing.
    """
    low, high = np.full(power.shape, -np.inf), np.full(power.shape, np.inf)
    with mp.workdps(_DIGITS):
        moment = [mp.exp(mp.mpf(float(x))) for x in log_moments]
        lowest = mp.exp(mp.mpf(known.log_min))
        systems = [mp.eigsy(matrix) for _, matrix in _matrices(moment, lowest)]
    for rule, (value, vector) in zip(known.rules, systems, strict=True):
        # Noise of the moments may throw nodes out of the support, where nothing is known of errors.
        if min(value) < lowest * (1 - mp.mpf(10) ** -9):
            continue
        log_node = np.array([float(mp.log(x)) for x in value])
        log_weight = np.array([float(2 * mp.log(abs(x))) for x in vector[0, :]])
        mean = log_sum(log_weight + power[:, None] * log_node, axis=1)
        slack = np.log(known.noise) + _log_size(rule, power)
        factors = power[:, None] - np.arange(rule.nodes.size)
        negative = np.sum(factors < 0, axis=1) % 2 == 1
        exact = np.any(factors == 0, axis=1)
        low = np.where(exact | ~negative, np.maximum(low, log_diff(mean, slack)), low)
        high = np.where(exact | negative, np.minimum(high, np.logaddexp(mean, slack)), high)
    outside = (power <= 0) | (power >= 1)
    return np.where(outside, np.maximum(low, 0.0), low), high


def _log_size(rule: Rule, power: np.ndarray) -> np.ndarray:
    """log of what moments of relative error one could change the mean of x^p by the rule, (m,)."""
    z, exponent = rule.nodes, power[:, None]
    scale = np.max(exponent * np.log(z), axis=1, keepdims=True)
    column = np.exp(exponent * np.log(z) - scale)
    size = np.abs(column[:, 0]) * rule.size[0]
    slope = np.abs(exponent) * column / z
    for j in range(1, z.size):
        gap = z[j:] - z[:-j]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (column[:, 1:] - column[:, :-1]) / gap
        column = np.where(gap > 0, ratio, slope[:, : gap.size] * np.sign(exponent))
        size = size + np.abs(column[:, 0]) * rule.size[j]
    return np.log(size) + scale[:, 0]


def log_price(known: Mixture, log_strike: np.ndarray, *, put: bool, upper: bool) -> np.ndarray:
    """Bound on log E (M G - t)_+, or for a put on log E (t - M G)_+.

    Args:
      known: the rules of M.
      log_strike: log t, shape (n,).
      put: which of the two.
      upper: an upper bound, else a lower one.

    Returns:
      shape (n,); +inf or -inf where the moments say nothing.
    """
    log_strike = np.asarray(log_strike, dtype=float)
    sample = np.unique(np.linspace(0, log_strike.size - 1, _SAMPLE).astype(int))
    rules = known.rules
    if log_strike.size > 2 * sample.size:
        # Any rule is valid; on long arrays only those that are best somewhere are tried everywhere.
        tried = _prices(known, rules, log_strike[sample], put, upper)
        rules = [rules[j] for j in np.unique(np.argmin(tried if upper else -tried, axis=0))]
    price = _prices(known, rules, log_strike, put, upper)
    return np.min(price, axis=0) if upper else np.max(price, axis=0)


def _prices(known, rules, log_strike, put, upper) -> np.ndarray:
    """Log bounds by each rule, shape (rules, n)."""
    width = known.width
    end = np.maximum(log_strike + 5 * width, 0.0) + 10 * max(known.spread, width)
    spacing = min(width / _PER_WIDTH, _SPACING)
    points = int(np.ceil((np.max(end) - known.log_min) / spacing)) + 1
    result = np.full((len(rules), log_strike.size), np.inf if upper else -np.inf)
    if points > _MOST_POINTS:
        return result
    rows = max(1, _CHUNK // points)
    for start in range(0, log_strike.size, rows):
        chunk = slice(start, start + rows)
        result[:, chunk] = _bounds(known, rules, log_strike[chunk], end[chunk], points, put, upper)
    return result


def _log_payoff(log_x, log_strike, width, put):
    """log of h: the price of the call or put for one value of M."""
    if put:
        return log_strike + log_shift_divergence(width, log_x - log_strike)
    return log_x + log_shift_divergence(width, log_strike - log_x)


def _bounds(known, rules, log_strike, end, points, put, upper):
    width, strike = known.width, log_strike[:, None]
    scale = _log_payoff(0.0, strike, width, put)
    # Beyond the strike the price is linear and the divided difference decays: few points will do.
    apart = _APART * min(known.spread, width, _SPACING)
    log_x = known.log_min + (end[:, None] - known.log_min) * np.linspace(0, 1, points)
    first = np.broadcast_to(known.log_min + apart * np.array([1.01, 4.0]), (end.size, 2))
    log_x = np.concatenate([first, log_x, end[:, None] + np.linspace(0.1, 30, 60)], axis=1)
    nothing = np.inf if upper else 0.0
    result = np.empty((len(rules), log_strike.size))
    reach = np.isfinite(scale[:, 0])  # elsewhere the price is too small for the log domain
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        x = np.exp(log_x)
        h = np.exp(_log_payoff(log_x, strike, width, put) - scale)
        for j, rule in enumerate(rules):
            newton = _newton(rule.nodes, width, strike, scale, put)
            near = _near(log_x, np.log(np.unique(rule.nodes)), apart)
            result[j] = _one_rule(rule, newton, known.noise, x, h, near, upper)
        result = np.where(np.isnan(result), nothing, result)
        value = np.log(np.maximum(result, 0.0)) + scale[:, 0]
    return np.where(reach, value, np.inf if upper else -np.inf)


def _near(log_x, log_node, distance):
    """Where a divided difference would lose its digits to cancellation."""
    near = np.zeros(log_x.shape, dtype=bool)
    for node in log_node:
        near |= np.abs(log_x - node) < distance
    return near


def _one_rule(rule: Rule, newton, noise, x, h, near, upper):
    """Bound on the price relative to that at M = 1, shape (n,)."""
    interpolated, product = np.zeros_like(x), np.ones_like(x)
    for node, coefficient in zip(rule.nodes, newton.T, strict=True):
        interpolated += coefficient[:, None] * product
        product *= x - node
    difference = (h - interpolated) / product
    worst = -np.inf if upper else np.inf
    difference = np.where(near, worst, difference)
    factor = np.max(difference, axis=1) if upper else np.min(difference, axis=1)
    factor = factor + (_MARGIN if upper else -_MARGIN) * np.abs(factor)
    slack = noise * (np.abs(newton) @ rule.size[:-1] + np.abs(factor) * rule.size[-1])
    value = newton @ rule.mean[:-1] + factor * rule.mean[-1]
    return value + slack if upper else value - slack


def _newton(z: np.ndarray, width: float, strike, scale, put: bool) -> np.ndarray:
    """Newton coefficients of the interpolating polynomial, shape (n, nodes)."""
    log_z = np.log(z)
    column = np.exp(_log_payoff(log_z, strike, width, put) - scale)
    hedge = (strike - log_z) / width
    slope = -ndtr(hedge - width / 2) if put else ndtr(width / 2 - hedge)
    slope = slope * np.exp(-scale)
    result = [column[:, 0]]
    for j in range(1, z.size):
        gap = z[j:] - z[:-j]
        column = np.where(gap > 0, (column[:, 1:] - column[:, :-1]) / gap, slope[:, : gap.size])
        result.append(column[:, 0])
    return np.stack(result, axis=1)
