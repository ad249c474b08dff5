"""Mean over all k-subsets of T of the product of independent lognormals: its moments, exactly.

Let X_1, ..., X_T be independent copies of X = exp(a Z - a^2 / 2), Z standard normal, and let
L = e_k(X_1, ..., X_T) / C(T, k), the average over the k-subsets of the product of their members. This
is the likelihood ratio of balanced subsampling (Theorem 3.8), and E L^n is the first term of (2) of
Theorem 3.1 with equal terms collected, n the Renyi order.

L^n is a polynomial of degree n in each X_i, so E L^n does not change when X is replaced by any
variable with the same moments up to n: by the m nodes of its Gauss rule, n <= 2m - 1. What remains is a
sum over the multisets of T nodes, all terms positive. It is polynomial in T for every fixed order, for any
k. Rules with fewer nodes bound higher moments from below: all even derivatives of x^n are positive.

"""

from __future__ import annotations

from collections.abc import Iterator
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


class Nodes(NamedTuple):
    """A discrete positive variable: log values and log probabilities, both of shape (m,)."""

    log_value: np.ndarray
    log_weight: np.ndarray


def gauss_nodes(a: float, m: int) -> Nodes:
    """The m-point Gauss rule of X: it has the moments exp(a^2 n (n - 1) / 2), n < 2m.

    The orthogonal polynomials are those of Stieltjes and Wigert; with q = exp(-a^2) their recurrence
    has the coefficients q^(-2n) (1 + q - q^(n + 1)) and q^(3 - 4n) (1 - q^n). Weights are reciprocals
    of sums of squares of the normalised polynomials, which keeps tiny ones precise.
    """
    with mp.workdps(_DIGITS):
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
    """Windows of counts outside of which no moment up to ``top`` has weight, and the Fourier sums.

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
    """The rate at which a column of the given law was drawn with probability ``share``."""
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
    """Vectors of counts within the windows, of sum at most ``size`` and sorted by it, (n, nodes)."""
    found = np.zeros((1, 0), dtype=int)
    for first, last in zip(low, high, strict=True):
        column = np.arange(first, last + 1)
        rows = np.repeat(found, column.size, axis=0)
        found = np.column_stack([rows, np.tile(column, len(found))])
        found = found[found.sum(axis=1) <= size]
    return found[np.argsort(found.sum(axis=1), kind="stable")]


def work(nodes: Nodes, size: int, k: int, top: int) -> float:
    """Number of multiplications that :func:`enumerate_ratios` needs, about; inf where it cannot."""
    if np.max(nodes.log_value) > _LARGEST_NODE:
        return np.inf
    plan = _plan(nodes, size, k, top)
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
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log probability and log L of the multisets of nodes, in chunks.

    For any rate g, with hits of probability g X_i / (1 - g + g X_i),
    e_k g^k (1 - g)^(T - k) = prod (1 - g + g X_i) Pr(exactly k hits), and that chance is a Fourier sum
    over T + 1 angles: a product of powers, one per node. It keeps its digits where k is a typical
    number of hits; of several rates the one that makes it most likely is taken.

    Args:
      nodes: the discrete variable in the place of X.
      size: T; k: 0 < k < T.
      top: the windows of counts are wide enough for all moments up to this one.

    Yields:
      pairs of equal shape; the probabilities sum to 1 up to 1e-20.
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
            chance, log_ratio = sums[0](one[chunk], until)
            for other in sums[1:]:
                more, value = other(one[chunk], until)
                log_ratio = np.where(more > chance, value, log_ratio)
                chance = np.maximum(chance, more)
            yield log_mass.ravel(), log_ratio.ravel()


class _FourierSum:
    """The chance of exactly k hits at one rate, for counts of the first group against all of the second."""

    def __init__(self, plan: _Plan, rate: float, size: int, k: int, two: np.ndarray) -> None:
        self.first, second = _halves(plan)
        gain = np.log1p(rate * np.expm1(plan.nodes.log_value))
        self.log_scale = size * gain[-1] - binom.logpmf(k, size, rate)
        self.gain = gain[:-1] - gain[-1]
        wave = _wave(plan.nodes, rate, plan.angles)
        self.wave = wave[:-1] - wave[-1]
        # Powers are taken relative to the middle of the windows, or they would overflow.
        self.middle = (plan.low + plan.high)[:-1] // 2
        base = size * wave[-1] + self.middle @ self.wave - 1j * k * plan.angles
        points = size + 1 + size % 2
        self.base = np.exp(base) * np.where(plan.angles > 0, 2.0, 1.0) / points
        power = np.exp((two - self.middle[second]) @ self.wave[second])
        self.back = np.concatenate([power.real, -power.imag], axis=1).T
        self.gain_back = two @ self.gain[second]

    def __call__(self, one: np.ndarray, until: int) -> tuple[np.ndarray, np.ndarray]:
        """Chance and log L, shape (rows of one, until): against the first vectors of the second group."""
        front = np.exp((one - self.middle[self.first]) @ self.wave[self.first]) * self.base
        chance = np.concatenate([front.real, front.imag], axis=1) @ self.back[:, :until]
        with np.errstate(divide="ignore"):
            log_chance = np.log(np.maximum(chance, 0.0))
        gain = (one @ self.gain[self.first])[:, None] + self.gain_back[:until]
        return chance, log_chance + gain + self.log_scale


def log_moments(a: float, size: int, k: int, m: int, top: int | None = None) -> np.ndarray:
    """log E L^n for n = 0, ..., top, from the m-point rule.

    Args:
      a: shift in standard deviations, > 0.
      size: T; k: 0 < k < T.
      m: nodes of the rule, >= 1.
      top: highest moment; beyond the default 2m - 1 the result is a lower bound.

    Returns:
      shape (top + 1,).
    """
    exact = 2 * m - 1
    top = exact if top is None else top
    order = np.arange(top + 1)[:, None]
    total = np.full(top + 1, -np.inf)
    for log_mass, log_ratio in enumerate_ratios(gauss_nodes(a, m), size, k, top):
        log_ratio = np.maximum(log_ratio, -1e300)
        total = np.logaddexp(total, log_sum(log_mass + order * log_ratio, axis=1))
    # The moments of orders 0 and 1 are 1: what rounding did to them it did to all, linearly.
    return total - total[0] - order[:, 0] * (total[1] - total[0])
