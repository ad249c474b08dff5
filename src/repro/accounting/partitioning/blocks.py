"""One Gaussian shift placed on one of d orthogonal blocks, uniformly at random and in secret.

Q = N(0, I), P the mixture of the d Gaussians centred at distance a from the origin on one axis each:
the likelihood ratio is the mean of d independent lognormals exp(a Z_i - a^2 / 2). This is one round
of model splitting into d submodels, and also one pass of allocation to 1 of d iterations.

`block_law(a, d, method)` is the discretised law of that mean (see `laws`), from which
`ratio_losses(law, interval, method, rate)` makes dp-accounting's loss distributions,
both directions; `log_moments(a, d, top)` gives all whole Renyi moments exactly.

The second half of the file makes loss distributions from any law of a likelihood ratio. A ratio at
exp(k interval) is a loss of k intervals. Upwards, the law is spread onto these points, as in
`laws`; both directions then hold at once, in compositions too. Downwards, it is contracted onto
them: cells of several points are merged, and neighbouring cells trade mass until the mean of each
lies on a point. Plain rounding down would cost up to one interval per round; this costs second
order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro.accounting._renyi import log_binomial, log_mean_exp
from repro.accounting.partitioning.laws import (
    TAIL,
    Law,
    average,
    log_ratio,
    lognormal,
    product,
    spread,
)

__all__ = [
    "LARGEST_SHIFT",
    "SMALLEST_SHIFT",
    "block_law",
    "log_moments",
    "ratio_losses",
    "spread_of_mean",
]

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


# Loss distributions --------------------------------------------------------------------------------

_MERGED = 8  # points of the loss grid per cell when rounding down
_NEAR = 32  # points between cells that may trade mass
_BEYOND = 1e-18  # mass under P of losses so large that they are charged as certain failure
_FARTHEST = (
    1e6  # points of the grid beyond which so little mass is charged, too, and not carried along
)


def ratio_losses(
    law: Law, interval: float, method: str, rate: float = 1.0
) -> pld_lib.PrivacyLossDistribution:
    """Loss distribution of (1 - rate) Q + rate P against Q.

    Args:
        law: of dP/dQ under Q, rounded in the same direction.
        interval: spacing of the losses, > 0.
        method: "upper" or "lower".
        rate: chance that P takes the place of Q, in (0, 1].

    Returns:
        dp-accounting's object with both directions; "remove" has the mixture first.
    """
    loss, mass = log_ratio(law, rate), law.mass
    never, certain = law.zero, rate * law.infinite
    if rate < 1 and 0 < law.zero <= _BEYOND and -np.log1p(-rate) > _FARTHEST * interval:
        certain += (1 - rate) * law.zero
    elif rate < 1 and law.zero:
        # Where P has no mass the mixture still has some.
        loss, mass = np.append(np.log1p(-rate), loss), np.append(law.zero, mass)
        never = 0.0
    if method == "upper":
        beyond = np.cumsum((mass * np.exp(loss))[::-1])[::-1] < _BEYOND
        certain += float(np.sum(mass[beyond] * np.exp(loss[beyond])))
        never += float(np.sum(mass[beyond]))
        loss, mass = loss[~beyond], mass[~beyond]
    remove, add = (_upwards if method == "upper" else _downwards)(loss, mass, interval)
    return pld_lib.PrivacyLossDistribution.create_from_rounded_probability(
        remove, certain, interval, method == "upper", add, never, symmetric=False
    )


def _cells(loss, mass, width):
    """Occupied cells [k width, (k + 1) width) of the loss: k, mass under Q and under P."""
    cell, member = np.unique(np.floor(loss / width).astype(int), return_inverse=True)
    return cell, np.bincount(member, mass), np.bincount(member, mass * np.exp(loss))


def _named(index: np.ndarray, mass: np.ndarray) -> dict[int, float]:
    """Masses by point, for dp-accounting."""
    point, member = np.unique(index, return_inverse=True)
    total = np.bincount(member, mass)
    return {int(k): float(m) for k, m in zip(point, total, strict=True) if m > 0}


def _upwards(loss, mass, interval: float):
    cell, mass, moment = _cells(loss, mass, interval)
    ends = np.concatenate(spread(np.exp(interval * cell), mass, moment, interval))
    index = np.append(cell, cell + 1)
    return _named(index, ends * np.exp(interval * index)), _named(-index, ends)


def _downwards(loss, mass, interval: float):
    _, mass, moment = _cells(loss, mass, _MERGED * interval)
    some = moment > 0  # a ratio may be too small for a double
    mass, moment = mass[some], moment[some]
    mean = moment / mass
    if mass.size % 2:
        mass, mean = np.append(mass, 0.0), np.append(mean, mean[-1])
    loss = np.log(mean) / interval
    low, high = slice(0, None, 2), slice(1, None, 2)
    up, down = np.ceil(loss[low]).astype(int), np.floor(loss[high]).astype(int)
    start, end = np.exp(interval * up), np.exp(interval * down)
    with np.errstate(divide="ignore", invalid="ignore"):
        # What the lower cell needs of the upper one if it gives nothing, as a share; and conversely.
        lift = mass[low] * (start - mean[low]) / (mass[high] * (mean[high] - start))
        sink = mass[high] * (mean[high] - end) / (mass[low] * (end - mean[low]))
        trade = (up < down) & (lift <= 1) & (sink <= 1) & (lift * sink < 1)
        # Over a long way a light cell would be lost in a heavy one.
        trade &= loss[high] - loss[low] <= _NEAR
        taken = np.where(trade, lift * (1 - sink) / (1 - lift * sink), 0.0)
        given = np.where(trade, sink * (1 - lift) / (1 - lift * sink), 0.0)
    lower = mass[low] * (1 - given) + mass[high] * taken
    upper = mass[low] * given + mass[high] * (1 - taken)
    index = np.concatenate([up[trade], down[trade]])
    held = np.concatenate([lower[trade], upper[trade]])
    # Pairs that cannot trade are rounded plainly, each direction to its own side.
    rest = np.repeat(~trade, 2)
    rounded, left = loss[rest], mass[rest]
    remove = _named(
        np.append(index, np.floor(rounded).astype(int)),
        np.append(held * np.exp(interval * index), left * mean[rest]),
    )
    add = _named(np.append(-index, np.floor(-rounded).astype(int)), np.append(held, left))
    return remove, add
