"""Sums over the iterations of balanced subsampling: lattices, windows, Fourier transforms and their errors.

Notation of `conditional`: X = exp(a Z - a^2 / 2) is the likelihood ratio of one iteration (a column), s = log(1 +
r X), S the sum of s over T columns. Errors of Fourier transforms are charged: rounding of the transforms and of
their powers, Fourier terms that are left out, and outcomes outside the window, which are folded into it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammaln, i0e, ndtr
from scipy.stats import binom

from repro.accounting.partitioning.laws import normal_masses

__all__ = [
    "NEGLIGIBLE",
    "Column",
    "Design",
    "Window",
    "column",
    "design",
    "log_choose",
    "log_outside",
]

_POINTS = 2000  # of the lattice per standard deviation of S, at least
_POINTS_OF_COLUMN = 64  # the same per standard deviation of one column's s
_MOST_ANGLES = 400  # iterations beyond which the limit of many is close enough
_MOST_POINTS = 1 << 17  # of one column
_REACH = 10.5  # standard deviations of a column beyond which its tails are charged
_WINDOW = 10.0  # standard deviations of the sum that the window holds
_ROUNDING = np.finfo(float).eps
_STEEPEST = 60.0  # tilt

NEGLIGIBLE = -46.0
"""Log modulus, relative to that at zero, of Fourier terms that may be left out."""


def log_choose(n: int, k: np.ndarray | int) -> np.ndarray:
    """log of the binomial coefficient."""
    return gammaln(n + 1) - gammaln(np.asarray(k) + 1) - gammaln(n - np.asarray(k) + 1)


def log_largest_chance(variance: np.ndarray | float, size: int) -> np.ndarray:
    """log of a bound on the chance of any number of hits in T independent columns, falling in their variance.

    With v = q (1 - q) of one column, |1 - q + q exp(i x)|^2 = 1 - 2 v (1 - cos x). Its log is concave in v, so given
    the sum V of v, the product over the columns is largest where all v are V / T, and the chance, a mean over x, is at
    most the mean of (1 - 2 V (1 - cos x) / T)^(T / 2). For even T that is a polynomial in cos x, whose mean over
    T / 2 + 1 angles is exact. More columns make it larger; infinitely many give exp(-V) I_0(V).

    Args:
        variance: V in [0, T / 4], any shape.
        size: T.
    """
    if size > _MOST_ANGLES:
        return np.log(i0e(variance))
    half = (size + 1) // 2
    turn = 1 - np.cos(2 * np.pi * np.arange(half + 1) / (half + 1))
    factor = np.maximum(1 - np.asarray(variance)[..., None] / half * turn, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.mean(factor**half, axis=-1))


class Design(NamedTuple):
    """What belongs to one strike.

    Attributes:
        log_strike: log t.
        log_r: log of r, for which k hits are expected where L = t.
        tau: tilt exp(tau S) that puts the mean of S there.
        step: of the lattice of s.
        log_chance: log of the typical chance of k hits there.
    """

    log_strike: float
    log_r: float
    tau: float
    step: float
    log_chance: float


def design(a: float, size: int, k: int, log_strike: float) -> Design:
    """r, tilt and lattice for one strike. Any others are valid too; these make the bounds tight."""
    z = np.linspace(-9.0, 9.0 + 4 * a, 600)
    log_x, log_normal = a * z - a**2 / 2, -(z**2) / 2
    # The bound on the chance of k hits, corrected by what it is for equal columns.
    skew = binom.logpmf(k, size, k / size) - log_largest_chance(k * (1 - k / size), size)

    def tilted(log_r: float):
        s, hit = np.logaddexp(0.0, log_r + log_x), expit(log_r + log_x)
        level = log_strike + log_choose(size, k) + k * log_r

        def at(tau: float) -> tuple[np.ndarray, float]:
            log_weight = log_normal + tau * s
            weight = np.exp(log_weight - log_weight.max())
            weight /= weight.sum()
            variance = size * (weight @ (hit * (1 - hit)))
            return weight, float(log_largest_chance(variance, size) + skew)

        def gap(tau: float) -> float:
            weight, log_chance = at(tau)
            return size * (weight @ s) + log_chance - level

        tau = _root(gap, -_STEEPEST, _STEEPEST)
        return s, hit, tau, *at(tau)

    def surplus(log_r: float) -> float:
        _, hit, _, weight, _ = tilted(log_r)
        return size * (weight @ hit) - k

    centre = np.log(k) - np.log(size - k)
    log_r = _root(surplus, centre - 12.0, centre + 12.0)
    s, _, tau, weight, log_chance = tilted(log_r)
    deviation = float(np.sqrt(weight @ (s - weight @ s) ** 2))
    step = deviation / max(_POINTS / np.sqrt(size), _POINTS_OF_COLUMN)
    return Design(log_strike, log_r, tau, step, log_chance)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """A zero of a rising function, or the end that is closer to one."""
    if function(low) >= 0:
        return low
    return high if function(high) <= 0 else float(brentq(function, low, high, xtol=1e-3))


class Column(NamedTuple):
    """One column on its lattice.

    Attributes:
        index: multiples of the step, ascending, shape (n,).
        step: spacing of s.
        value: X at the points, (n,).
        without, having: normal masses of the cells between them without and with the record, (n - 1,).
        tail_without, tail_having: masses beyond both ends.
    """

    index: np.ndarray
    step: float
    value: np.ndarray
    without: np.ndarray
    having: np.ndarray
    tail_without: float
    tail_having: float

    def spread(self) -> np.ndarray:
        """Masses without the record at the points: each cell's go to its ends and keep their mean of X."""
        up = self.having - self.value[:-1] * self.without
        up = np.clip(up / np.diff(self.value), 0.0, self.without)
        return np.append(self.without - up, 0.0) + np.append(0.0, up)


def column(a: float, chosen: Design) -> Column:
    """The lattice of s for one column with a shift of `a` standard deviations."""
    ends = np.logaddexp(0.0, chosen.log_r + a * np.array([-_REACH, a + _REACH]) - a**2 / 2)
    step = max(chosen.step, float(ends[1] - ends[0]) / _MOST_POINTS)
    index = np.arange(int(np.floor(ends[0] / step)), int(np.ceil(ends[1] / step)) + 1)
    with np.errstate(divide="ignore"):
        log_value = np.log(np.expm1(step * index)) - chosen.log_r
    z = (log_value + a**2 / 2) / a
    outside = [float(ndtr(z[0] - shift) + ndtr(shift - z[-1])) for shift in (0.0, a)]
    return Column(index, step, np.exp(log_value), normal_masses(z), normal_masses(z - a), *outside)


class Window:
    """Sums of T columns of several kinds on one window of lattice points, by Fourier transforms.

    Args:
        index: values of one column, consecutive integers, shape (n,).
        weight: of the kind that sets the window, normalised, (n,).
        size: T.
    """

    def __init__(self, index: np.ndarray, weight: np.ndarray, size: int) -> None:
        mean = weight @ index
        deviation = np.sqrt(size * (weight @ (index - mean) ** 2))
        self.points = 1 << int(np.ceil(np.log2(2 * _WINDOW * deviation + 128)))
        self.first, self.size = int(index[0]), size
        self.outcomes = int(size * mean) - self.points // 2 + np.arange(self.points)

    def transform(self, weight: np.ndarray) -> np.ndarray:
        """Fourier transform of one column, with the origin at its lowest point."""
        folded = np.bincount(np.arange(weight.size) % self.points, weight, self.points)
        return np.fft.rfft(folded)

    def sums(self, product: np.ndarray) -> tuple[np.ndarray, float]:
        """Masses of the outcomes, folded ones included, and a bound on the error of each."""
        place = (self.outcomes - self.size * self.first) % self.points
        modulus = np.abs(product)
        noise = 16 * _ROUNDING * self.size * modulus.sum() / self.points
        noise += (
            4 * _ROUNDING * np.log2(self.points) * np.sqrt(2 * np.sum(modulus**2) / self.points)
        )
        noise += np.exp(NEGLIGIBLE) * modulus[0]
        return np.fft.irfft(product, self.points)[place], float(noise)


def log_outside(
    index: np.ndarray, kinds: list[tuple[np.ndarray, int]], low: float, high: float
) -> float:
    """log of a bound on the chance that a sum leaves [low, high]: Chernoff's inequality on both sides.

    Args:
        index: values of one column, shape (n,).
        kinds: pairs of normalised weights and the number of columns that have them.
        low, high: ends, in the same unit.
    """
    kinds = [(weight, count) for weight, count in kinds if count]
    mean = [weight @ index for weight, _ in kinds]
    centre = sum(count * m for (_, count), m in zip(kinds, mean, strict=True))
    stray = [index - m for m in mean]
    variance = sum(c * (w @ x**2) for (w, c), x in zip(kinds, stray, strict=True))
    rates = np.geomspace(0.2, 30.0, 30) / np.sqrt(max(variance, 1.0))
    with np.errstate(divide="ignore"):
        log_weight = [np.log(weight) for weight, _ in kinds]

    def log_bound(distance: float, sign: float, rate: float) -> float:
        total = -rate * distance
        for x, log_mass, (_, count) in zip(stray, log_weight, kinds, strict=True):
            # With the weight in the exponent: it may be 0 where the exponential is largest.
            exponent = sign * rate * x
            exponent += log_mass
            top = exponent.max()
            total += count * (np.log(np.exp(exponent - top).sum()) + top)
        return float(total)

    above = _least(partial(log_bound, high - centre, 1.0), rates)
    return float(np.logaddexp(above, _least(partial(log_bound, centre - low, -1.0), rates)))


def _least(function: Callable[[float], float], points: np.ndarray) -> float:
    """The least value of a convex function at ascending points."""
    low, high = 0, points.size - 1
    value = cache(lambda j: function(float(points[j])))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if value(middle) <= value(middle + 1) else (middle + 1, high)
    return value(low)
