"""Loss distribution of the Poisson-subsampled Gaussian, rounded upwards: connect the dots.

The same points as dp-accounting's own constructor, which inverts the loss in a Python loop over them;
here the profile is evaluated for all of them at once.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

__all__ = ["sampled_losses"]


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
