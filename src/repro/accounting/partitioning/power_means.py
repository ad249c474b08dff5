"""Bounds on the mean of a power of a positive variable from its first moments.

M >= 0 has mean one, support [m, inf) and known moments up to N. For a smooth h and any nodes z_1, ..., z_n >= m,
with H the polynomial that interpolates h there (a repeated node: with its derivative) and w(x) = prod (x - z_i),
which is >= 0 on the support,

    h(x) = H(x) + h[z_1, ..., z_n, x] w(x),

and the divided difference has the sign of the n-th derivative of h. For a power that sign is one and the same on the
support, so E H(M) lies on a known side of E h(M). With n <= N it is an exact combination of moments. The nodes are
those of the Gauss rule of M, each twice, or of the Gauss-Radau rule with a single node at m, which make E w as small
as it can be. Every n gives a valid bound; the best one is kept.
"""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp
import numpy as np

from repro.accounting._gaussian import log_diff, log_sum

__all__ = ["RatioRules", "Rule", "log_power_means", "ratio_rules"]

_DIGITS = 60


class Rule(NamedTuple):
    """Nodes with repetitions, shape (n,), and the means of prod_{i<j} (x + z_i), (n + 1,)."""

    nodes: np.ndarray
    size: np.ndarray


class RatioRules(NamedTuple):
    """What is known of M: log of a lower end of its support, its rules, and the noise of its moments."""

    log_min: float
    rules: tuple[Rule, ...]
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
    """Matrix whose eigenvalues are the nodes: `size` of the Gauss rule, one more with `radau`."""
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


def ratio_rules(log_moments: np.ndarray, log_min: float, noise: float) -> RatioRules:
    """The rules of M.

    Args:
        log_moments: log E M^n, n = 0, ..., N, the first two 0.
        log_min: log of a lower end of the support, below 0.
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
            rules.append(Rule(nodes, np.array([float(x) for x in _means(nodes, moment)])))
    return RatioRules(log_min, tuple(rules), noise)


def _means(nodes: np.ndarray, moment: list) -> list:
    """E prod_{i<j} (x + z_i) for j = 0, ..., n."""
    polynomial, result = [mp.mpf(1)], [moment[0]]
    for z in map(mp.mpf, nodes):
        shifted = [mp.mpf(0), *polynomial]
        scaled = [*(z * c for c in polynomial), mp.mpf(0)]
        polynomial = [p + q for p, q in zip(shifted, scaled, strict=True)]
        result.append(mp.fsum(c * m for c, m in zip(polynomial, moment, strict=False)))
    return result


def log_power_means(
    log_moments: np.ndarray, known: RatioRules, power: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds on log E M^p for any real powers, from the quadrature rules.

    The n-th rule leaves an error of the sign of the n-th derivative of x^p, p (p - 1) ... (p - n + 1).

    Args:
        log_moments: those from which `known` was made.
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
