"""Mean over all k-subsets of T of the product of independent lognormals: its moments, exactly.

Let X_1, ..., X_T be independent copies of X = exp(a Z - a^2 / 2), Z standard normal, and let
L = e_k(X_1, ..., X_T) / C(T, k), the average over the k-subsets of the product of their members. This
is the likelihood ratio of balanced subsampling (Theorem 3.8), and E L^n is the first term of (2) of
Theorem 3.1 with equal terms collected, n the Renyi order.

L^n is a polynomial of degree n in each X_i, so E L^n does not change when X is replaced by any
variable with the same moments up to n: by the m nodes of its Gauss rule, n <= 2m - 1. What remains is a
sum over the multisets of T nodes, all terms positive. It is polynomial in T for every fixed order, for any
k. Rules with fewer nodes bound higher moments from below: all even derivatives of x^n are positive.

The Fourier sums that give L for one multiset lose digits where a large share of the wanted chance cancels
(little noise, many iterations). What rounding may do to each sum is bounded and carried through to
the moments, whose errors are returned beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import mpmath as mp
import numpy as np
from scipy.special import expit, gammaln
from scipy.stats import binom

from repro.accounting._gaussian import log_sum

__all__ = ["Nodes", "enumerate_ratios", "gauss_nodes", "log_moments", "work"]

_DIGITS = 50
_DROPPED = 1e-25  # chance of node counts left out, under each tilted law
_CHUNK = 1 << 16  # multisets held at a time
_FAR = 4.0  # standard deviations of the number of hits
_LARGEST_NODE = 300.0  # in log ratio
_OVERFLOW = 680.0  # largest log modulus of a factor of a Fourier term
_NEGLIGIBLE = -45.0  # log modulus of Fourier terms left out
_ROUNDING = np.finfo(float).eps
_LARGEST_ERROR = 50.0  # logarithm, for moments that are nothing but rounding
_TINY = 1e-300  # stands for a chance that rounding made negative


class Nodes(NamedTuple):
    """A discrete positive variable: log values and log probabilities, both of shape (m,)."""

    log_value: np.ndarray
    log_weight: np.ndarray


@lru_cache(maxsize=256)
def gauss_nodes(a: float, m: int) -> Nodes:
    """The m-point Gauss rule of X: it has the moments exp(a^2 n (n - 1) / 2), n < 2m.

    The orthogonal polynomials are those of Stieltjes and Wigert; with q = exp(-a^2) their recurrence
    has the coefficients q^(-2n) (1 + q - q^(n + 1)) and q^(3 - 4n) (1 - q^n). Weights are reciprocals
    of sums of squares of the normalised polynomials, which keeps tiny ones precise. The entries spread
    over exp(2 m a^2), and the digits with them.
    """
    with mp.workdps(_DIGITS + int(2 * m * a**2 / np.log(10))):
        q = mp.exp(-(mp.mpf(a) ** 2))
        diagonal = [q ** (-2 * n) * (1 + q - q ** (n + 1)) for n in range(m)]
        beside = [mp.mpf(0), *(mp.sqrt(q ** (3 - 4 * n) * (1 - q**n)) for n in range(1, m))]
        matrix = mp.diag(diagonal)
        for n in range(1, m):
            matrix[n, n - 1] = matrix[n - 1, n] = beside[n]
        log_value, log_weight = [], []
        for x in mp.eigsy(matrix, eigvals_only=True):
            before, now, total = mp.mpf(0), mp.mpf(1), mp.mpf(1)
            for n in range(m - 1):
                after = ((x - diagonal[n]) * now - beside[n] * before) / beside[n + 1]
                before, now, total = now, after, total + after**2
            log_value.append(float(mp.log(x)))
            log_weight.append(float(-mp.log(total)))
    return Nodes(np.array(log_value), np.array(log_weight))


class _Plan(NamedTuple):
    """Which node counts are summed over: windows of all nodes but the last, which takes the rest."""

    nodes: Nodes  # sorted by weight, the heaviest last
    low: np.ndarray
    high: np.ndarray
    rates: list[float]  # of the Poisson samplings that the Fourier sums start from
    angles: np.ndarray


def _plan(nodes: Nodes, size: int, k: int, top: int) -> _Plan:
    """Windows of counts outside of which no moment up to `top` has weight, and the Fourier sums.

    L is at most a constant times the ratio prod (1 - g + g X_i) of Poisson sampling at rate g = k / T,
    under whose powers the counts are multinomial with tilted weights.
    """
    order = np.argsort(nodes.log_weight)
    nodes = Nodes(nodes.log_value[order], nodes.log_weight[order])
    power = np.arange(top + 1)[:, None]
    tilted = nodes.log_weight + power * np.log1p(k / size * np.expm1(nodes.log_value))
    tilted = np.exp(tilted - log_sum(tilted, axis=1)[:, None])
    low = np.min(binom.ppf(_DROPPED, size, tilted), axis=0).astype(int)
    high = np.max(binom.isf(_DROPPED, size, tilted), axis=0).astype(int)
    low, high = np.maximum(low, 0), np.minimum(high, size)
    low[-1] = max(0, size - high[:-1].sum())
    rates: list[float] = []
    for mass in tilted:
        if not rates or _misses(nodes, mass, size, k, rates[-1]):
            rates.append(_central_rate(nodes, mass, k / size))
    points = size + 1 + size % 2  # odd, so that pi is no angle
    angles = 2 * np.pi * np.arange(points // 2 + 1) / points
    largest = np.max(
        [_largest(_wave(nodes, r, angles).real, low, high, size) for r in rates], axis=0
    )
    return _Plan(nodes, low, high, rates, angles[largest > _NEGLIGIBLE])


def _largest(log_modulus: np.ndarray, low: np.ndarray, high: np.ndarray, size: int) -> np.ndarray:
    """Largest sum of counts times log moduli, shape (angles,), counts in the windows and of sum T."""
    order = np.argsort(-log_modulus, axis=0)
    ordered = np.take_along_axis(log_modulus, order, axis=0)
    room = np.cumsum((high - low)[order], axis=0)
    filled = np.minimum(room, size - low.sum())
    extra = np.diff(filled, axis=0, prepend=0)
    return low @ log_modulus + np.sum(extra * ordered, axis=0)


def _hit(nodes: Nodes, rate: float) -> np.ndarray:
    """g x / (1 - g + g x): the chance that a column with ratio x was drawn, seen afterwards."""
    return expit(nodes.log_value + np.log(rate) - np.log1p(-rate))


def _wave(nodes: Nodes, rate: float, angles: np.ndarray) -> np.ndarray:
    """Log of the characteristic function of one hit, shape (nodes, angles)."""
    return np.log(1 + _hit(nodes, rate)[:, None] * np.expm1(1j * angles))


def _misses(nodes: Nodes, mass: np.ndarray, size: int, k: int, rate: float) -> bool:
    """Whether k lies so far out among the number of hits that a Fourier sum would lose its digits."""
    hit = _hit(nodes, rate)
    mean, variance = size * mass @ hit, size * mass @ (hit * (1 - hit))
    return bool(abs(mean - k) > _FAR * np.sqrt(variance))


def _central_rate(nodes: Nodes, mass: np.ndarray, share: float) -> float:
    """The rate at which a column of the given law was drawn with probability `share`."""
    low, high = -300.0, 300.0
    for _ in range(60):
        middle = (low + high) / 2
        drawn = mass @ expit(nodes.log_value + middle)
        low, high = (middle, high) if drawn < share else (low, middle)
    return float(expit(low))


def _halves(plan: _Plan) -> tuple[slice, slice]:
    """The nodes but the last in two groups with about as many combinations of counts."""
    width = np.log(plan.high - plan.low + 1.0)[:-1]
    cut = int(np.argmin(np.abs(np.cumsum(width) - width.sum() / 2))) + 1 if width.size else 0
    return slice(0, cut), slice(cut, plan.low.size - 1)


def _counts(low: np.ndarray, high: np.ndarray, size: int) -> np.ndarray:
    """Vectors of counts within the windows, of sum at most `size` and sorted by it, (n, nodes)."""
    found = np.zeros((1, 0), dtype=int)
    for first, last in zip(low, high, strict=True):
        column = np.arange(first, last + 1)
        rows = np.repeat(found, column.size, axis=0)
        found = np.column_stack([rows, np.tile(column, len(found))])
        found = found[found.sum(axis=1) <= size]
    return found[np.argsort(found.sum(axis=1), kind="stable")]


def work(a: float, size: int, k: int, m: int) -> float:
    """Number of multiplications that `log_moments` needs, about; inf where it cannot."""
    if 2 * (m - 1) * a**2 > _LARGEST_NODE:  # the log of the largest node, nearly
        return np.inf
    plan = _plan(gauss_nodes(a, m), size, k, 2 * m - 1)
    half = (plan.high - plan.low)[:-1] / 2
    for rate in plan.rates:
        wave = _wave(plan.nodes, rate, plan.angles).real
        wave[:-1] -= wave[-1]
        base = size * wave[-1] + (plan.low + plan.high)[:-1] // 2 @ wave[:-1]
        first, second = (half[g] @ np.abs(wave[:-1][g]) for g in _halves(plan))
        if np.max(first + np.maximum(base, 0.0)) > _OVERFLOW or np.max(second) > _OVERFLOW:
            return np.inf
    windows = np.sum(np.log(plan.high - plan.low + 1.0)[:-1])
    parts = plan.low.size
    simplex = gammaln(size + parts) - gammaln(size + 1) - gammaln(parts)
    return float(np.exp(min(windows, simplex)) * plan.angles.size * len(plan.rates))


def enumerate_ratios(
    nodes: Nodes, size: int, k: int, top: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Log probability, log L and a safe upper end of log L for the multisets of nodes, in chunks.

    For any rate g, with hits of probability g X_i / (1 - g + g X_i),
    e_k g^k (1 - g)^(T - k) = prod (1 - g + g X_i) Pr(exactly k hits), and that chance is a Fourier sum
    over T + 1 angles: a product of powers, one per node. It keeps its digits where k is a typical
    number of hits; of several rates the one with the smallest relative error is taken.

    Args:
        nodes: the discrete variable in the place of X.
        size: T; k: 0 < k < T.
        top: the windows of counts are wide enough for all moments up to this one.

    Yields:
        triples of equal shape; the probabilities sum to 1 up to 1e-20.
    """
    plan = _plan(nodes, size, k, top)
    first, second = _halves(plan)
    one, two = (_counts(plan.low[g], plan.high[g], size) for g in (first, second))
    sum1, sum2 = one.sum(axis=1), two.sum(axis=1)
    log_factorial = gammaln(np.arange(size + 1) + 1)
    log_weight = plan.nodes.log_weight - plan.nodes.log_weight[-1]
    mass1, mass2 = (
        count @ log_weight[g] - log_factorial[count].sum(axis=1)
        for count, g in ((one, first), (two, second))
    )
    log_all = log_factorial[-1] + size * plan.nodes.log_weight[-1]
    sums = [_FourierSum(plan, rate, size, k, two) for rate in plan.rates]
    for total in np.unique(sum1):
        until = np.searchsorted(sum2, size - total, side="right")
        if until == 0:
            continue
        begin, end = np.searchsorted(sum1, [total, total + 1])
        rows = max(1, _CHUNK // until)
        rest = log_factorial[size - total - sum2[:until]]
        for start in range(begin, end, rows):
            chunk = slice(start, min(start + rows, end))
            log_mass = mass1[chunk, None] + (mass2[:until] - rest + log_all)
            log_ratio, log_high = sums[0](one[chunk], until)
            for other in sums[1:]:
                value, high = other(one[chunk], until)
                better = high - value < log_high - log_ratio
                log_ratio = np.where(better, value, log_ratio)
                log_high = np.where(better, high, log_high)
            yield log_mass.ravel(), log_ratio.ravel(), log_high.ravel()


class _FourierSum:
    """The chance of exactly k hits at one rate, for counts of the first group against all of the second."""

    def __init__(self, plan: _Plan, rate: float, size: int, k: int, two: np.ndarray) -> None:
        self.first, second = _halves(plan)
        gain = np.log1p(rate * np.expm1(plan.nodes.log_value))
        self.log_scale = size * gain[-1] - binom.logpmf(k, size, rate)
        self.gain = gain[:-1] - gain[-1]
        wave = _wave(plan.nodes, rate, plan.angles)
        self.wave = wave[:-1] - wave[-1]
        # Rounding of the exponents, relative to their size, and of the sum over the angles.
        exponent = 4 * size * np.abs(wave).max(axis=0) + k * plan.angles
        self.doubt = _ROUNDING * (exponent + plan.angles.size + 10)
        # Powers are taken relative to the middle of the windows, or they would overflow.
        self.middle = (plan.low + plan.high)[:-1] // 2
        base = size * wave[-1] + self.middle @ self.wave - 1j * k * plan.angles
        points = size + 1 + size % 2
        self.base = np.exp(base) * np.where(plan.angles > 0, 2.0, 1.0) / points
        power = np.exp((two - self.middle[second]) @ self.wave[second])
        self.back = np.concatenate([power.real, -power.imag], axis=1).T
        self.back_size = np.abs(power).T
        self.gain_back = two @ self.gain[second]

    def __call__(self, one: np.ndarray, until: int) -> tuple[np.ndarray, np.ndarray]:
        """log L and its upper end, shape (rows of one, until): against the first vectors of the second."""
        front = np.exp((one - self.middle[self.first]) @ self.wave[self.first]) * self.base
        chance = np.concatenate([front.real, front.imag], axis=1) @ self.back[:, :until]
        error = (np.abs(front) * self.doubt) @ self.back_size[:, :until] + np.exp(_NEGLIGIBLE)
        chance = np.maximum(chance, _TINY)
        gain = (one @ self.gain[self.first])[:, None] + self.gain_back[:until] + self.log_scale
        return np.log(chance) + gain, np.log(chance + error) + gain


def log_moments(a: float, size: int, k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """log E L^n for n = 0, ..., 2m - 1, from the m-point rule.

    Args:
        a: shift in standard deviations, > 0.
        size: T; k: 0 < k < T.
        m: nodes of the rule, >= 1.

    Returns:
        the logarithms, and a bound on the relative error of each moment, both of shape (2m,).
    """
    top = 2 * m - 1
    order = np.arange(top + 1)[:, None]
    total, doubtful = np.full(top + 1, -np.inf), np.full(top + 1, -np.inf)
    for log_mass, log_ratio, log_high in enumerate_ratios(gauss_nodes(a, m), size, k, top):
        total = np.logaddexp(total, log_sum(log_mass + order * log_ratio, axis=1))
        doubtful = np.logaddexp(doubtful, log_sum(log_mass + order * log_high, axis=1))
    error = np.expm1(np.minimum(doubtful - total, _LARGEST_ERROR))
    # The moments of orders 0 and 1 are 1: what rounding did to them it did to all, linearly.
    return total - total[0] - order[:, 0] * (total[1] - total[0]), error
