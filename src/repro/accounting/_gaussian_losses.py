"""Loss distributions of the Poisson-subsampled Gaussian, rounded downwards: cells of outputs, no quadrature."""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import ndtr

from repro.accounting._discretise import contracted

__all__ = ["sampled_cells"]

_REACH = 9.5  # standard deviations beyond which less than 1e-20 of a Gaussian lies
_MOST_CELLS = 4_000_000
_FARTHEST = 2.0**52  # places from loss 0, which doubles still tell apart
_NO_TAIL = 1e3  # standard deviations beyond which a normal tail is 0, and so is its error
_TAIL_UNITS = (
    16 * np.finfo(float).eps
)  # rounding of a tail at t, relative to its value, over (1 + |t|)^2


def _edges(epsilon: np.ndarray, shift: float, rate: float) -> np.ndarray:
    """Outputs, in standard deviations, whose loss under "remove" is epsilon > log(1 - rate)."""
    if rate == 1:
        return shift / 2 + epsilon / shift
    with np.errstate(divide="ignore", over="ignore"):
        log_rate, log_rest = np.log(rate), np.log1p(-rate)
        near = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / rate)
        below = np.log(np.exp(np.minimum(epsilon, 0.0)) - (1 - rate)) - log_rate
        above = epsilon - log_rate + np.log1p(-np.exp(np.minimum(log_rest - epsilon, 0.0)))
    drawn = np.where(epsilon > 1, above, np.where(epsilon < -0.5, below, near))
    return shift / 2 + drawn / shift


def sampled_cells(
    sigma: float, sensitivity: float, rate: float, interval: float
) -> PrivacyLossDistribution:
    """The loss distribution of both directions, rounded downwards.

    Outputs are reported as cells, whose edges have multiples of the interval as losses, and cells as
    multiples (see `contracted`). What lies more than `_REACH` standard deviations outside both centres
    is given away: mass of a low loss is dropped or counts as log(1 - rate), the least loss there is, and mass of a
    high loss takes the largest loss on the grid. So
    no quadrature and no truncation raises the result, and edges need not be exact. A mass is a difference of
    two tails; their rounding is taken from what counts for the adversary and added to what counts against.

    Args:
        sigma: standard deviation of the noise, > 0.
        sensitivity: shift of the mean by a record that is drawn, > 0.
        rate: sampling rate, in (0, 1].
        interval: spacing of the losses, > 0.

    Raises:
        ValueError: the interval is so small that places on the grid are beyond whole numbers of an array.
    """
    shift = sensitivity / sigma
    ends = np.array([-_REACH, shift + _REACH]) * shift - shift**2 / 2
    if rate < 1:
        ends = np.logaddexp(np.log1p(-rate), np.log(rate) + ends)
    if (reach := abs(ends[0])) / interval > _FARTHEST:
        raise ValueError(
            f"interval must be at least {reach / _FARTHEST:.3g} for losses from -{reach:.3g}, got {interval!r}"
        )
    first = math.floor(ends[0] / interval)
    last = min(math.floor(ends[1] / interval), first + _MOST_CELLS)
    index = np.arange(first, max(first, last) + 1)
    if rate < 1:
        index = index[index * interval > np.log1p(-rate)]
    edge = _edges(index * interval, shift, rate)
    index, edge = index[np.isfinite(edge)], edge[np.isfinite(edge)]
    if not index.size:
        nothing = pld_pmf.DensePLDPmf(interval, 0, np.ones(1), 0.0, False)
        return PrivacyLossDistribution(nothing)
    least, most = _masses(edge, shift)
    drawn_least, drawn_most = _masses(edge - shift, shift)
    least_with = (rate * drawn_least + (1 - rate) * least) * (1 - _TAIL_UNITS)
    most_with = (rate * drawn_most + (1 - rate) * most) * (1 + _TAIL_UNITS)
    remove = _with_floor(interval, int(index[0]), rate, least_with, most)
    add = contracted(interval, int(-index[-1]), least[-2::-1], most_with[-2::-1])
    return PrivacyLossDistribution(remove, add)


def _with_floor(
    interval: float, start: int, rate: float, first: np.ndarray, second: np.ndarray
) -> pld_pmf.PLDPmf:
    """`contracted` for cells of which the lowest reaches down to a loss of log(1 - rate), if any bound.

    Args:
        interval: spacing of the losses, > 0.
        start: where the second cell starts, in units of the interval.
        rate: sampling rate, in (0, 1].
        first, second: masses as for `contracted`, shape (n,), n >= 2.
    """
    floor = math.floor(math.log1p(-rate) / interval) if rate < 1 else -math.inf
    floor = min(floor, start - 1)
    if floor < start - 2:  # so far down that the lowest cell lies beyond `_REACH`
        return contracted(interval, start, first[1:], second[1:])
    empty = np.zeros(start - 1 - floor)
    return contracted(interval, floor, *(np.insert(side, 1, empty) for side in (first, second)))


def _masses(edge: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal masses below, between and above ascending edges: at least, and at most; shape (n + 1,).

    `shift` is the size of what was subtracted from the edges, whose rounding counts.
    """
    below, above = np.append(0.0, ndtr(edge)), np.append(ndtr(-edge), 0.0)
    far = np.minimum(np.abs(edge), _NO_TAIL)
    units = _TAIL_UNITS * (1 + far) * (1 + far + shift)
    error_below, error_above = np.append(0.0, units) * below, np.append(units, 0.0) * above
    # Cell i lies between the edges i - 1 and i. From the side on which the tails are small.
    up, down = np.append(below[1:], 1.0), np.append(1.0, above[:-1])
    left = np.append(edge, np.inf) <= 0
    mass = np.where(left, up - below, down - above)
    error = np.where(
        left,
        np.append(error_below[1:], 0.0) + error_below,
        np.append(0.0, error_above[:-1]) + error_above,
    )
    return np.maximum(mass - error, 0.0), np.maximum(mass, 0.0) + error
