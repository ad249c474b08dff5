"""Loss distributions of the Poisson-subsampled Gaussian, rounded upwards and downwards.

Upwards (connect the dots): the same points as dp-accounting's own constructor, which inverts the loss in
a Python loop over them; here the profile is evaluated for all of them at once. Downwards: cells of outputs.
Neither holds a quadrature.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.special import ndtr

__all__ = ["sampled_cells", "sampled_losses"]

_REACH = 9.5  # standard deviations beyond which less than 1e-20 of a Gaussian lies
_MOST_CELLS = 4_000_000
_MARGIN = 1e-9  # of the interval, by which edges of cells are moved to the safe side
_EDGE_UNITS = 16 * np.finfo(float).eps  # rounding of an edge, relative to its terms


def _profile(loss: GaussianPrivacyLoss, sign: float, epsilon: np.ndarray) -> np.ndarray:
    """Hockey-stick divergence at each epsilon, negative ones included; sign 1 for "remove", -1 for "add"."""
    rate, drawn = loss.sampling_prob, epsilon
    if rate < 1:  # the loss that a draw has where the subsampled loss is epsilon
        gap = sign * epsilon + np.log(1 / rate)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            drawn = sign * (gap + np.log1p(-np.exp(np.log(1 / rate - 1) - gap)))
        drawn = np.where(epsilon == 0, 0.0, drawn)
    inside = np.isfinite(drawn)  # elsewhere the losses of all outcomes are on one side of epsilon
    cut = -0.5 * loss.sensitivity - drawn[inside] * loss.standard_deviation**2 / loss.sensitivity
    if sign < 0:
        cut = loss.sensitivity + cut
    delta = -np.expm1(np.minimum(epsilon, 0.0))
    delta[inside] = loss.mu_upper_cdf(cut) - np.exp(epsilon[inside] + loss.mu_lower_log_cdf(cut))
    return np.clip(delta, 0.0, 1.0)


def _dots(
    sigma: float, sensitivity: float, rate: float, interval: float, sign: float
) -> pld_pmf.PLDPmf:
    way = AdjacencyType.REMOVE if sign > 0 else AdjacencyType.ADD
    loss = GaussianPrivacyLoss(
        sigma, sensitivity=sensitivity, sampling_prob=rate, adjacency_type=way
    )
    bounds = loss.connect_dots_bounds()
    low = math.floor(bounds.epsilon_lower / interval)
    high = math.ceil(bounds.epsilon_upper / interval)
    delta = _profile(loss, sign, interval * np.arange(low, high + 1))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, low, high, delta)


def sampled_losses(
    sigma: float, sensitivity: float, rate: float, interval: float
) -> PrivacyLossDistribution:
    """The loss distribution of both directions, which bounds every composition from above.

    Args:
        sigma: standard deviation of the noise, > 0.
        sensitivity: shift of the mean by a record that is drawn, > 0.
        rate: sampling rate, in (0, 1].
        interval: spacing of the losses, > 0.
    """
    remove = _dots(sigma, sensitivity, rate, interval, 1.0)
    if rate == 1:  # both directions are alike
        return PrivacyLossDistribution(remove)
    return PrivacyLossDistribution(remove, _dots(sigma, sensitivity, rate, interval, -1.0))


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

    Each cell of outputs between two multiples of the interval hands its whole mass, under the first
    distribution, to the lower end of its losses. What lies more than `_REACH` standard deviations
    outside both centres is given away: mass of a low loss is dropped, mass of a high loss takes the
    largest loss on the grid. So no quadrature and no truncation raises the result. Edges carry the
    rounding of doubles: each is moved to the side on which the loss of its cell is larger, by more
    than its own error. A mass is a difference of two tails, so that sums of them are off by a few
    units of rounding, which :class:`repro.accounting.composition.Composition` charges.

    Args:
        sigma: standard deviation of the noise, > 0.
        sensitivity: shift of the mean by a record that is drawn, > 0.
        rate: sampling rate, in (0, 1].
        interval: spacing of the losses, > 0.
    """
    shift = sensitivity / sigma
    ends = np.array([-_REACH, shift + _REACH]) * shift - shift**2 / 2
    if rate < 1:
        ends = np.logaddexp(np.log1p(-rate), np.log(rate) + ends)
    first = math.floor(ends[0] / interval) + 1
    last = min(math.floor(ends[1] / interval), first + _MOST_CELLS)
    index = np.arange(first, max(first, last) + 1)
    margin = _MARGIN * interval
    if rate < 1:  # next to the lowest loss the margin would leave the range of losses
        index = index[index * interval - margin > np.log1p(-rate)]
    if not index.size:
        nothing = pld_pmf.DensePLDPmf(interval, 0, np.ones(1), 0.0, False)
        return PrivacyLossDistribution(nothing)
    edge = {}
    for sign in (1.0, -1.0):
        z = _edges(index * interval + sign * margin, shift, rate)
        edge[sign] = z + sign * _EDGE_UNITS * (shift + np.abs(z))
    with_record = rate * _masses(edge[1.0] - shift, True)
    if rate < 1:
        with_record += (1 - rate) * _masses(edge[1.0], True)
    remove = pld_pmf.DensePLDPmf(interval, int(index[0]), with_record, 0.0, False)
    without = _masses(edge[-1.0], False)[::-1]
    add = pld_pmf.DensePLDPmf(interval, int(-index[-1]), without, 0.0, False)
    return PrivacyLossDistribution(remove, add)


def _masses(edge: np.ndarray, upwards: bool) -> np.ndarray:
    """Standard normal masses of the cells above each ascending edge, or below each."""
    sign = 1.0 if upwards else -1.0
    beyond, before = ndtr(-sign * edge), ndtr(sign * edge)
    if upwards:
        inner = np.where(edge[1:] <= 0, before[1:] - before[:-1], beyond[:-1] - beyond[1:])
        return np.maximum(np.append(inner, beyond[-1]), 0.0)
    inner = np.where(edge[1:] <= 0, beyond[1:] - beyond[:-1], before[:-1] - before[1:])
    return np.maximum(np.append(beyond[:1], inner), 0.0)
