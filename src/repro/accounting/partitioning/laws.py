"""Discrete laws of likelihood ratios, rounded to a known side in the convex order.

Let L = dP/dQ. Under Q both directions of the hockey-stick divergence are means of convex functions of
L: E (L - t)_+ for "remove" and E (1 - t L)_+ for "add"; so is E L^(1 - alpha). Hence

* `method="upper"`: replacing L by a mean-preserving spread of it can only raise all of them. Each
  cell of a geometric grid hands its mass to its two ends so that mass and mean are kept.
* `method="lower"`: replacing L by its mean on each cell can only lower them, and is what an
  adversary sees who only learns the cell.

Sums with positive weights and products of independent non-negative ratios are convex in each factor,
so rounding may be repeated after every operation. The loss is of second order in the step.

Values x carry mass m under Q and x m under P. What is trimmed off the tails becomes, for "upper", mass
at ratio zero (seen under Q only) and at infinity (under P only), a spread to the extremes; for "lower"
it is dropped. Everything holds up to the rounding of doubles.

The second half of the file makes such a law from bounds on a privacy profile. Let U(t) = E (L -
t)_+ under Q, a convex function of t. A law whose own U lies above (below) that of L everywhere is
larger (smaller) in the convex order, as both directions and compositions need it. Here U is known
at the points exp(j step) only, and only by bounds. With V(t) = E (t - L)_+ = U(t) + t - 1 for t <
1:

* above: a convex function below given values lies below the lower hull of these points;
* below: U falls and V rises, so values taken from the next point further out hold on a whole cell, and
  so does the lower hull of points moved like that. It costs one step.

Working with V below one and U above keeps the relative precision of both tails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

__all__ = [
    "TAIL",
    "Law",
    "average",
    "law_from_potential",
    "log_ratio",
    "lognormal",
    "normal_masses",
    "product",
    "ratio_excess",
    "ratio_shortfall",
    "spread",
]

#: Mass that may be trimmed off either end at each operation.
TAIL = 1e-20
_REACH = 9.5  # standard deviations of a normal beyond which less than TAIL lies
_UNDERFLOW = 1e-300  # more than all pairs together can lose to products below the smallest double
_PAIRS = 1 << 18  # pairs of values held in memory at a time


class Law(NamedTuple):
    """A likelihood ratio under Q: ascending positive values and masses, both of shape (n,).

    `zero` is the mass at ratio 0, `infinite` the mass that P has where Q has none. For "upper" the
    masses and `zero` sum to one, and so do the values' P-masses and `infinite`; for "lower" the
    sums may fall short by what was trimmed.
    """

    value: np.ndarray
    mass: np.ndarray
    zero: float = 0.0
    infinite: float = 0.0


def lognormal(a: float, step: float, method: str, tail: float = TAIL) -> Law:
    """exp(a Z - a^2 / 2) with Z standard normal under Q: one Gaussian moved by `a` deviations.

    Args:
        a: distance of the Gaussians in standard deviations, > 0.
        step: spacing of the grid in log ratio, > 0.
        method: "upper" or "lower".
        tail: mass that may be trimmed at the lower end.
    """
    reach = max(_REACH, np.sqrt(-2 * np.log(tail)))
    first = int(np.floor((-(a**2) / 2 - a * reach) / step))
    last = int(np.ceil((a**2 / 2 + a * _REACH) / step))
    edge = np.arange(first, last + 1) * step / a
    mass, moment = normal_masses(edge + a / 2), normal_masses(edge - a / 2)
    if method == "lower":
        return _rounded(first, mass, moment, step, method, tail, 0.0, 0.0)
    below, above = edge[0], edge[-1]
    outside = ndtr(below + a / 2), ndtr(below - a / 2)
    law = _rounded(first, mass, moment, step, method, tail, *outside)
    left_over = ndtr(-above - a / 2)
    law.mass[-1] += left_over
    excess = max(ndtr(a / 2 - above) - left_over * law.value[-1], 0.0)
    return law._replace(infinite=law.infinite + float(excess))


def normal_masses(z: np.ndarray) -> np.ndarray:
    """Normal mass between consecutive ascending points, precise in both tails."""
    low, high = z[:-1], z[1:]
    return np.where(high <= 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high))


def average(
    first: Law, second: Law, share: float, step: float, method: str, tail: float = TAIL
) -> Law:
    """share X + (1 - share) Y for independent X and Y."""

    def combine(x, y):
        return share * x + (1 - share) * y

    zero = first.zero + second.zero
    infinite = share * (first.infinite + second.zero) + (1 - share) * (second.infinite + first.zero)
    twins = first is second and share == 0.5
    return _pairs(first, second, combine, twins, step, method, tail, zero, infinite)


def product(first: Law, second: Law, step: float, method: str, tail: float = TAIL) -> Law:
    """X Y for independent X and Y: two releases, or two orthogonal parts of one."""
    zero = first.zero + second.zero
    infinite = first.infinite + second.infinite + zero
    twins = first is second
    return _pairs(first, second, np.multiply, twins, step, method, tail, zero, infinite)


def _pairs(first, second, combine, twins, step, method, tail, zero, infinite) -> Law:
    """Mass and moment per cell over all pairs of values, rounded.

    `twins`: both laws are one, and `combine` is symmetric.
    """
    ends = combine(first.value[[0, -1]], second.value[[0, -1]])
    low, high = np.floor(np.log(ends) / step).astype(int) + (-1, 2)
    mass, moment = np.zeros(high - low), np.zeros(high - low)
    rows = max(1, _PAIRS // second.value.size)
    for k in range(0, first.value.size, rows):
        value, weight = second.value, second.mass
        if twins:
            # Every pair with a later chunk stands for two.
            value, weight = value[k:], np.append(weight[k : k + rows], 2 * weight[k + rows :])
        value = combine(first.value[k : k + rows, None], value).ravel()
        weight = (first.mass[k : k + rows, None] * weight).ravel()
        cell = np.floor(np.log(value) / step).astype(int) - low
        mass += np.bincount(cell, weight, mass.size)
        moment += np.bincount(cell, weight * value, mass.size)
    # Rounding errors of the total would double with every doubling of the number of terms.
    scale = (1 - zero) / mass.sum()
    mass, moment = scale * mass, scale * moment
    return _rounded(low, mass, moment, step, method, tail, zero + _UNDERFLOW, infinite)


def _rounded(first: int, mass, moment, step, method, tail, zero, infinite) -> Law:
    """A law from masses and first moments on cells [exp(k step), exp((k + 1) step)), k >= first."""
    keep = np.flatnonzero((np.cumsum(mass) > tail) & (np.cumsum(moment[::-1])[::-1] > TAIL))
    low, high = keep[0], keep[-1] + 1
    if method == "lower":
        mass, moment = mass[low:high], moment[low:high]
        some = (mass > _UNDERFLOW) & (moment > _UNDERFLOW)
        return Law(moment[some] / mass[some], mass[some])
    value = np.exp(step * (first + np.arange(low, high + 1)))
    down, up = spread(value[:-1], mass[low:high], moment[low:high], step)
    ends = np.append(down, 0.0) + np.append(0.0, up)
    # Above, the mass under Q stays at the highest value and only the excess goes to infinity.
    ends[-1] += mass[high:].sum()
    infinite += moment[:low].sum() + max(moment[high:].sum() - value[-1] * mass[high:].sum(), 0.0)
    some = ends > 0
    return Law(value[some], ends[some], float(zero + mass[:low].sum()), float(infinite))


def spread(start: np.ndarray, mass: np.ndarray, moment: np.ndarray, step: float):
    """Masses for both ends of cells [start, start exp(step)) that keep their mass and first moment."""
    up = np.clip((moment - mass * start) / (start * np.expm1(step)), 0.0, mass)
    return mass - up, up


def log_ratio(law: Law, rate: float) -> np.ndarray:
    """log(1 - rate + rate L) at the law's values: Q keeps its place with probability 1 - rate."""
    return np.log1p(rate * (law.value - 1)) if rate < 1 else np.log(law.value)


def ratio_excess(law: Law, threshold: np.ndarray) -> np.ndarray:
    """E (L - t)_+ for each threshold t >= 0, any shape."""
    at = np.searchsorted(law.value, threshold, side="right")
    mass = np.append(np.cumsum(law.mass[::-1])[::-1], 0.0)
    moment = np.append(np.cumsum((law.mass * law.value)[::-1])[::-1], 0.0)
    return np.maximum(moment[at] - threshold * mass[at], 0.0) + law.infinite


def ratio_shortfall(law: Law, threshold: np.ndarray) -> np.ndarray:
    """E (t - L)_+ for each threshold t >= 0, any shape."""
    at = np.searchsorted(law.value, threshold, side="left")
    mass = np.append(0.0, np.cumsum(law.mass))
    moment = np.append(0.0, np.cumsum(law.mass * law.value))
    return np.maximum(threshold * mass[at] - moment[at], 0.0) + threshold * law.zero


# From bounds on a privacy profile to a law ---------------------------------------------------------


def law_from_potential(log_call: np.ndarray, log_put: np.ndarray, step: float, method: str) -> Law:
    """The law with the hull of the given values as its potential.

    Args:
        log_call: bounds on log U(exp(j step)), j = 0, ..., n.
        log_put: bounds on log V(exp(-j step)), j = 0, ..., n; only j >= 1 is used when rounding up.
        step: spacing in log ratio, > 0.
        method: "upper" if the values are upper bounds, "lower" if they are lower ones.
    """
    call, put = np.exp(log_call), np.exp(log_put)
    if method == "lower":
        call, put = np.append(call[1:], 0.0), np.append(put[1:], 0.0)
        call[0] = min(call[0], put[0])
        call[-2:] = put[-2:] = 0.0
    put[0] = call[0]
    n = call.size - 1
    # Below one, from the mirrored points: V at exp(-n step), ..., exp(-step), 1, and 0 at 0.
    below = np.append(0.0, np.exp(-step * np.arange(n, -1, -1)))
    above = np.exp(step * np.arange(n + 1))
    value_below, value_above = np.append(0.0, put[::-1]), call
    for _ in range(_ROUNDS):
        first, second = _hull(below, value_below), _hull(above, value_above)
        left = _slopes(below[first], value_below[first])
        right = _slopes(above[second], value_above[second])
        if left[-1] - 1 <= right[0]:
            break
        # The point at one lies above the chord of its neighbours: put it there.
        t0, t1 = below[first][-2], above[second][1]
        u0, u1 = value_below[first][-2] + 1 - t0, value_above[second][1]
        value_below[-1] = value_above[0] = u0 + (1 - t0) / (t1 - t0) * (u1 - u0)
    value = np.concatenate([below[first][1:-1], above[second]])
    mass = np.concatenate([np.diff(left), [right[0] - left[-1] + 1], np.diff(right), [-right[-1]]])
    mass = np.maximum(mass, 0.0)
    some = mass > 0
    infinite = float(value_above[-1]) if method == "upper" else 0.0
    return Law(value[some], mass[some], zero=float(left[0]), infinite=infinite)


#: Rounds after which the point at one must lie on the hull; two are enough unless bounds contradict.
_ROUNDS = 50


def _slopes(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.diff(y) / np.diff(x)


def _hull(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Indices of the vertices of the lower convex hull; both ends stay."""
    index = np.arange(x.size)
    while True:
        slope = _slopes(x[index], y[index])
        bad = np.flatnonzero(slope[1:] < slope[:-1]) + 1
        if bad.size == 0:
            return index
        # Each of two neighbours can be the reason to drop the other, so each pass drops only every
        # second point of a run.
        run = np.concatenate([[True], np.diff(bad) > 1])
        position = np.arange(bad.size) - np.maximum.accumulate(
            np.where(run, np.arange(bad.size), 0)
        )
        index = np.delete(index, bad[position % 2 == 0])
