"""What this package reads from dp-accounting's loss distributions beyond their public interface.

dp-accounting composes distributions of losses and answers for one epsilon at a time, in a Python loop
over the losses. Whole arrays of epsilons need the masses, which it keeps private. This is the only file
that reads them; a change of dp-accounting's fields is mended here. `self_compositions` does what its
`self_compose` does for many numbers of rounds, and shares between them what does not depend on the number;
it is several times as fast, because it transforms real numbers and groups losses in Chernoff's bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import fft, signal

from repro._validate import integer
from repro.accounting._gaussian import log_sum

__all__ = [
    "Losses",
    "composed_size",
    "convolved",
    "filled",
    "from_places",
    "losses",
    "mixed",
    "on_grid",
    "one_sided",
    "powers",
    "rounded_up",
    "self_composition",
    "self_compositions",
]

_TRUNCATED = 1e-15
"""Mass of the tails that a composition leaves out and charges as certain loss, as dp-accounting does."""

_FEW = 1000
"""Losses that are few enough to be kept without the empty places between them."""

_FARTHEST = 1 << 22
"""Places from 0 within which losses are kept, where all places between them do not fit into memory."""

_GROUPS = 4096
"""Groups of losses in Chernoff's bound, which places the truncated tails by a trace further out."""

_LOG_REST = math.log(2 / _TRUNCATED)
"""Minus the log of what each of the two tails may weigh."""

_SPREAD = 64.0
"""How far the orders of Chernoff's bound reach to both sides of the best one for normal losses."""

_RARE_ORDERS = 2.0 ** (np.arange(-2, 13) / 2)
"""More orders, over the number of losses: best for large losses that are so rare that hardly one is met."""

_LEAST_VARIANCE = 1e-6
"""Variance, in squared places, that is assumed of losses which hardly vary."""

_VANISHED = 1e-30
"""Terms of a Fourier transform that even together are nothing beside its rounding."""


class Losses(NamedTuple):
    """Discretised losses of one direction.

    Attributes:
        interval: spacing of the losses.
        first: the lowest loss in units of the interval.
        mass: probability of the losses first, first + 1, ... times the interval, shape (n,).
        infinite: probability of an infinite loss.
    """

    interval: float
    first: int
    mass: np.ndarray
    infinite: float


def one_sided(
    distribution: PrivacyLossDistribution, direction: str = "both"
) -> list[pld_pmf.PLDPmf]:
    """The losses of one direction, or of both, "remove" first.

    Args:
        distribution: dp-accounting's object.
        direction: "add", "remove" or "both".
    """
    sides = {"remove": distribution._pmf_remove, "add": distribution._pmf_add}
    return [side for name, side in sides.items() if direction in (name, "both")]


def losses(pmf: pld_pmf.PLDPmf) -> Losses:
    """The masses of one direction on consecutive losses; none where rounding downwards has left none."""
    if not pmf.size:
        return Losses(pmf._discretization, 0, np.zeros(0), pmf._infinity_mass)
    if isinstance(pmf, pld_pmf.SparsePLDPmf):  # few losses may span many places
        table = pmf._loss_probs
        place = np.fromiter(table.keys(), int, len(table))
        weight, infinite = np.fromiter(table.values(), float, len(table)), pmf._infinity_mass
        if int(place.max()) - int(place.min()) > 4 * _FARTHEST:
            place, weight, infinite = _nearer(place, weight, infinite, rounded_up(pmf))
        mass = np.zeros(int(place.max() - place.min()) + 1)
        np.add.at(mass, place - place.min(), weight)
        return Losses(pmf._discretization, int(place.min()), mass, infinite)
    dense = pmf.to_dense_pmf()
    return Losses(
        dense._discretization,
        dense._lower_loss,
        np.asarray(dense._probs),
        dense._infinity_mass,
    )


_Distribution = TypeVar("_Distribution", pld_pmf.PLDPmf, PrivacyLossDistribution)


def self_composition(distribution: _Distribution, count: int) -> _Distribution:
    """The losses of `count` rounds, >= 1, of one direction or of both."""
    if isinstance(distribution, PrivacyLossDistribution):
        remove, add = one_sided(distribution)
        sides = (remove,) if add is remove else (remove, add)
        return PrivacyLossDistribution(*(self_composition(side, count) for side in sides))
    if not distribution.size:
        return distribution
    if count > 1 and count * math.log(max(distribution.size, 2)) <= math.log(_FEW):
        # Term by term, without a Fourier transform. Tails are cut off, unless nothing would be left.
        dense = isinstance(distribution, pld_pmf.DensePLDPmf)
        left = sum(distribution._probs if dense else distribution._loss_probs.values()) ** count
        return distribution.self_compose(count, _TRUNCATED if left > 2 * _TRUNCATED else 0.0)
    return next(self_compositions(distribution, [count]))


def _nearer(
    place: np.ndarray, weight: np.ndarray, infinite: float, up: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Losses within `_FARTHEST` places of 0: the others move to the side that they are rounded to."""
    if up:
        beyond = place > _FARTHEST
        infinite += float(weight[beyond].sum())
        return np.maximum(place[~beyond], -_FARTHEST), weight[~beyond], infinite
    kept = place >= -_FARTHEST
    return np.minimum(place[kept], _FARTHEST), weight[kept], infinite


def mixed(pmf: pld_pmf.PLDPmf, share: float) -> pld_pmf.PLDPmf:
    """These losses with probability `share`, in [0, 1], and 0 otherwise; as `losses`, few enough for memory."""
    interval, first, mass, infinite = losses(pmf)
    place, mass = np.append(first + np.arange(mass.size), 0), np.append(share * mass, 1 - share)
    infinite *= share
    if place.max() - place.min() > 4 * _FARTHEST:
        place, mass, infinite = _nearer(place, mass, infinite, rounded_up(pmf))
    dense = np.bincount(place - place.min(), mass)
    return pld_pmf.DensePLDPmf(interval, int(place.min()), dense, infinite, rounded_up(pmf))


def from_places(
    interval: float, places: np.ndarray, masses: np.ndarray, infinite: float, *, up: bool
) -> pld_pmf.PLDPmf:
    """One direction from its losses in any order.

    Args:
        interval: spacing of the losses, > 0.
        places: losses in units of the interval, integers, each at most once, shape (n,), n >= 1.
        masses: their probabilities, >= 0, shape (n,).
        infinite: probability of an infinite loss.
        up: whether they are rounded upwards, so that they bound from above.
    """
    if places.size <= _FEW:
        table = dict(zip(places.tolist(), masses.tolist(), strict=True))
        return pld_pmf.create_pmf(table, interval, infinite, up)
    low = int(places.min())
    dense = np.zeros(int(places.max()) - low + 1)
    dense[places - low] = masses
    return pld_pmf.DensePLDPmf(interval, low, dense, infinite, up)


def self_compositions(pmf: pld_pmf.PLDPmf, counts: Iterable[int]) -> Iterator[pld_pmf.PLDPmf]:
    """`pmf.self_compose(count)` for each count, up to the rounding of Fourier transforms.

    Chernoff's bound says which losses to keep. It looks at groups of losses, of which dp-accounting looks at each,
    and at orders that serve all counts.

    Args:
        pmf: losses of one direction.
        counts: numbers of rounds, >= 1.
    """
    interval, first, mass, infinite = losses(pmf)
    counts = [integer("count", count, 1) for count in counts]
    moments = _moments(mass, min(counts), max(counts))
    for count in counts:
        if count == 1 or not mass.size:
            yield pmf
            continue
        low, high = _kept(mass.size, count, moments)
        width = high - low + 1
        size = fft.next_fast_len(width, real=True)
        spectrum = fft.rfft(_folded(mass, size), size)
        around = fft.irfft(powers(spectrum, count), size)  # sums modulo the size
        kept = np.roll(around, -(low % size))[:width]
        lost = _TRUNCATED - math.expm1(count * math.log1p(-infinite))
        yield pld_pmf.DensePLDPmf(
            interval, first * count + low, kept, lost, pmf._pessimistic_estimate
        )


def _folded(mass: np.ndarray, size: int) -> np.ndarray:
    """Masses modulo `size` places, shape (size,) or shorter."""
    if mass.size <= size:
        return mass
    return np.append(mass, np.zeros(-mass.size % size)).reshape(-1, size).sum(axis=0)


def powers(spectrum: np.ndarray, count: int) -> np.ndarray:
    """Powers, count >= 1, of the terms of a transform; 0 for those below `_VANISHED`.

    The losses of many rounds are smooth, so that hardly any terms of high frequency are left.
    """
    some = spectrum.real**2 + spectrum.imag**2 > math.exp(2 * math.log(_VANISHED) / count)
    powers = np.zeros_like(spectrum)
    powers[some] = _power(spectrum[some], count)
    return powers


def _power(base: np.ndarray, count: int) -> np.ndarray:
    """base ** count for a whole number >= 1, by squaring: as precise as NumPy's power, in a fifth of its time."""
    result = np.ones_like(base)
    while True:
        if count & 1:
            result *= base
        count >>= 1
        if not count:
            return result
        base = base * base


def composed_size(pmf: pld_pmf.PLDPmf, count: int) -> int:
    """How many losses `count` compositions keep, at most; little memory, whatever the count."""
    mass = losses(pmf).mass
    if count == 1 or mass.size < 2:
        return mass.size
    low, high = _kept(mass.size, count, _moments(mass, count, count))
    return high - low + 1


def _in_groups(mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights whose mean of any convex function is at least that of the masses, shape (n,).

    Neighbours form a group, whose mass goes to its two ends so that its mean is kept.
    """
    mass = np.maximum(mass, 0.0)  # Fourier transforms leave masses a little below 0
    width = -(-mass.size // _GROUPS)
    first = np.arange(0, mass.size, width)
    length = np.minimum(first + width, mass.size) - 1 - first
    total = np.add.reduceat(mass, first)
    lever = np.add.reduceat(mass * (np.arange(mass.size) % width), first)
    up = np.minimum(lever / np.maximum(length, 1), total)
    return np.append(first, first + length), np.append(total - up, up)


class _Moments(NamedTuple):
    """Orders, both signs, upper bounds on the log of the central moment generating function there, and the mean."""

    orders: np.ndarray
    log_moments: np.ndarray
    mean: float


def _moments(mass: np.ndarray, least: int, most: int) -> _Moments | None:
    """What Chernoff's bound needs for `least` to `most` losses; None where all masses are 0."""
    if not np.any(mass > 0):
        return None
    place, weight = _in_groups(mass)
    mean = float(np.average(place, weights=weight))
    variance = float(np.average((place - mean) ** 2, weights=weight))
    # Half octaves around the orders that are best for a normal sum of the most losses, and of the least.
    first, last = (
        math.sqrt(2 * _LOG_REST / (n * max(variance, _LEAST_VARIANCE))) for n in (most, least)
    )
    steps = np.arange(2 * math.log2(first / _SPREAD), 2 * math.log2(last * _SPREAD) + 1)
    order = np.append(2.0 ** (steps / 2), _RARE_ORDERS / mass.size)
    orders = np.concatenate([-order, order])
    with np.errstate(divide="ignore"):
        log_weight = np.log(weight)
    return _Moments(orders, log_sum(orders[:, None] * (place - mean) + log_weight, axis=1), mean)


def _kept(size: int, count: int, moments: _Moments | None) -> tuple[int, int]:
    """The first and last place of a sum of `count` losses that is kept, of (size - 1) count.

    By Chernoff's bound no more than `_TRUNCATED` lies beyond them, whatever orders are tried.
    """
    if moments is None:
        return 0, 0
    orders, log_moments, mean = moments
    ends = (count * log_moments + _LOG_REST) / orders + count * mean
    low = max(0, math.floor(ends[orders < 0].max()))
    high = max(0, min((size - 1) * count, math.ceil(ends[orders > 0].min())))
    # Of losses that are rounded downwards so little may be left that all of it is less than is truncated.
    return min(low, high), high


def filled(pmf: pld_pmf.PLDPmf) -> pld_pmf.PLDPmf:
    """The same losses; where rounding downwards has left none, a loss of 0 of no probability."""
    if pmf.size:
        return pmf
    return pld_pmf.DensePLDPmf(losses(pmf).interval, 0, np.zeros(1), 0.0, rounded_up(pmf))


def rounded_up(pmf: pld_pmf.PLDPmf) -> bool:
    """Whether the losses were rounded upwards ("pessimistic"), so that they bound from above."""
    return pmf._pessimistic_estimate


_LOSS_UNITS = 8 * np.finfo(float).eps
"""Rounding of a loss relative to its size; it is charged when a loss moves to another grid."""


def on_grid(pmf: pld_pmf.PLDPmf, interval: float) -> pld_pmf.PLDPmf:
    """The losses on multiples of another interval, rounded to the side to which they already were.

    Upwards, the mass of a loss goes to the two multiples around it so that its mass under both
    distributions is kept; such a pair dominates the one it came from (Doroshenko et al. 2022). Downwards, it
    goes to the multiple below. So epsilon moves by at most one interval.

    Args:
        pmf: losses of one direction.
        interval: spacing of the new grid, > 0; finer or coarser.
    """
    old, first, mass, infinite = losses(pmf)
    if old == interval:
        return pmf
    # As doubles: on a very fine grid the places are beyond the whole numbers of an array.
    loss = old * (float(first) + np.arange(mass.size))
    margin = _LOSS_UNITS * (np.abs(loss) + interval)
    loss = loss + margin if rounded_up(pmf) else loss - margin
    cell = np.floor(loss / interval).astype(np.int64)
    size = int(cell[-1] - cell[0]) + 2
    place = cell - cell[0]
    if rounded_up(pmf):
        share = np.expm1(-np.maximum(loss - cell * interval, 0.0)) / np.expm1(-interval)
        up = mass * np.clip(share, 0.0, 1.0)
        moved = np.bincount(place, mass - up, size) + np.bincount(place + 1, up, size)
    else:
        moved = np.bincount(place, mass, size)
    return pld_pmf.DensePLDPmf(interval, int(cell[0]), moved, infinite, rounded_up(pmf))


def convolved(first: pld_pmf.PLDPmf, second: pld_pmf.PLDPmf) -> pld_pmf.PLDPmf:
    """The losses of two releases together; both must be on one grid and rounded to the same side.

    Tails are cut off in the safe direction: upwards the high one counts as certain loss, downwards the low one
    is left out.
    """
    interval, low, one, lost = losses(first)
    _, other_low, other, other_lost = losses(second)
    mass = _convolution(one, other)
    infinite = lost + other_lost - lost * other_lost
    size = np.abs(mass)
    left = int(np.searchsorted(np.cumsum(size), _TRUNCATED / 2))
    right = mass.size - int(np.searchsorted(np.cumsum(size[::-1]), _TRUNCATED / 2))
    left = min(left, mass.size - 1)
    right = max(right, left + 1)
    kept, above = mass[left:right].copy(), float(mass[right:].sum())
    if rounded_up(first):
        kept[0] += mass[:left].sum()
        infinite += above
    else:
        kept[-1] += above
    return pld_pmf.DensePLDPmf(interval, low + other_low + left, kept, infinite, rounded_up(first))


def _convolution(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Masses of the sums; the largest masses apart, because a transform's error is relative to them."""
    peak, other_peak = int(np.argmax(one)), int(np.argmax(other))
    rest, other_rest = one.copy(), other.copy()
    rest[peak] = other_rest[other_peak] = 0.0
    mass = signal.fftconvolve(rest, other_rest)
    mass[peak : peak + other.size] += one[peak] * other
    mass[other_peak : other_peak + one.size] += other[other_peak] * rest
    return mass
