"""The Gaussian mechanism and its Poisson-subsampled form, exact in both directions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.typing import ArrayLike

from repro._validate import in_unit, positive, representable
from repro.accounting._discretise import pessimistic
from repro.accounting._gaussian import log_shift_divergence
from repro.accounting._gaussian_losses import sampled_cells
from repro.accounting._renyi import orders
from repro.accounting._sampled_gaussian import sampled_gaussian
from repro.accounting._weights import weights
from repro.accounting.mechanism import Mechanism, frozen_fields

__all__ = [
    "GaussianMechanism",
    "PoissonGaussian",
    "log_poisson_gaussian",
    "sampled_gaussian_rdp",
]


def log_poisson_gaussian(
    epsilon: np.ndarray, s: np.ndarray, rate: np.ndarray, direction: str
) -> np.ndarray:
    """log delta of the Poisson-subsampled Gaussian; noise multiplier s, arrays broadcast.

    At one iteration this is two-level sampling with p = 1: Q is one Gaussian and P a mixture of two.
    """
    epsilon, s, rate = np.broadcast_arrays(epsilon, s, rate)
    result = np.full(epsilon.shape, -np.inf)
    some = rate > 0
    factor, log_w1, _ = weights(epsilon[some], np.ones(np.sum(some)), rate[some], direction)
    usable = np.isfinite(factor)
    value = np.full(factor.shape, -np.inf)
    value[usable] = factor[usable] + log_shift_divergence(1 / s[some][usable], log_w1[usable])
    result[some] = value
    return result


_CERTAIN = 1e-12
"""Distance of a rate from 1 below which "upper" takes the rate for 1. The chance 1 - rate, of which the largest
loss in direction "add" is the logarithm, has a relative error of 2^-53 / (1 - rate); delta rises with the rate."""


def _losses(sigma: float, sensitivity: float, rate: float, method: str, interval: float):
    """The loss distribution at a positive rate, rounded downwards for "lower", else upwards."""
    if method != "lower":
        rate = 1.0 if 1 - rate < _CERTAIN else rate
        noise, drawn = np.array(sigma / sensitivity), np.array(rate)
        return pessimistic(
            lambda epsilon: log_poisson_gaussian(epsilon, noise, drawn, "remove"),
            lambda epsilon: log_poisson_gaussian(epsilon, noise, drawn, "add"),
            interval,
        )
    return sampled_cells(sigma, sensitivity, rate, interval)


@dataclass(frozen=True, eq=False)
class GaussianMechanism(Mechanism):
    """Gaussian noise on a query of bounded L2 sensitivity.

    Formal guarantee: delta(epsilon) is exactly the supremum over neighbours of the hockey-stick
    divergence, the same in both directions (Balle and Wang 2018, Theorem 8; Theorem 2.4 of the
    random-participation paper). All three methods coincide.

    Args:
        sigma: standard deviation of the noise, > 0 (scalar or array).
        sensitivity: largest L2 distance between the query's values on neighbours, > 0.
    """

    sigma: float
    _: KW_ONLY
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, sensitivity=positive)
        representable(self.sigma, "sensitivity", self.sensitivity)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        return log_shift_divergence(np.divide(self.sensitivity, self.sigma), epsilon)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """alpha sensitivity^2 / (2 sigma^2), the same in both directions (Mironov 2017)."""
        return alpha * np.divide(self.sensitivity, self.sigma) ** 2 / 2

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        return _losses(self.sigma, self.sensitivity, 1.0, method, interval)

    def gaussian_mu(self) -> float | np.ndarray:
        """sensitivity / sigma (Dong, Roth and Su 2022, Theorem 2.7)."""
        return np.divide(self.sensitivity, self.sigma)


@dataclass(frozen=True, eq=False)
class PoissonGaussian(Mechanism):
    """Every record is drawn independently with the same rate, then Gaussian noise on the sum.

    Formal guarantee: delta(epsilon) is exact in each direction. With the record the output is
    (1 - rate) N(0, sigma^2) + rate N(sensitivity, sigma^2), without it N(0, sigma^2); records that
    both data sets share only shift both (Theorem 2.5; Zhu, Dong and Wang 2022, Theorem 11).

    Args:
        sigma: standard deviation of the noise, > 0 (scalar or array).
        rate: sampling rate in [0, 1]; 0 releases nothing about the record, 1 is the plain Gaussian.
        sensitivity: largest L2 norm of one record's contribution, > 0.
    """

    sigma: float
    _: KW_ONLY
    rate: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, rate=in_unit, sensitivity=positive)
        representable(self.sigma, "sensitivity", self.sensitivity)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        return log_poisson_gaussian(
            epsilon, np.divide(self.sigma, self.sensitivity), self.rate, direction
        )

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of "remove", the worse direction (Mironov et al. 2019, Theorem 5), to about twelve digits.

        A plain number, rounded neither up nor down: see `_sampled_gaussian`.
        """
        noise_multiplier = self.sigma / self.sensitivity
        return sampled_gaussian_rdp(
            noise_multiplier, self.rate, alpha, method=method, direction=direction
        )

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if self.rate == 0:
            return pld_lib.identity(interval, pessimistic_estimate=method != "lower")
        return _losses(self.sigma, self.sensitivity, self.rate, method, interval)


def sampled_gaussian_rdp(
    noise_multiplier: float,
    rate: float,
    alpha: ArrayLike,
    *,
    method: str = "upper",
    direction: str = "both",
) -> np.ndarray:
    """Renyi divergence of the Poisson-subsampled Gaussian mechanism.

    It is that of "remove", exact to about twelve digits. "Remove" is the worse direction (Mironov,
    Talwar and Zhang 2019, Theorem 5), so it is a bound on "add" too, but no lower one.

    Args:
        noise_multiplier: standard deviation of the noise over the sensitivity, a scalar > 0.
        rate: sampling rate, a scalar in [0, 1].
        alpha: orders > 1, whole or not, any shape.
        method: "upper", "lower" or "paper".
        direction: "add", "remove" or "both".

    Returns:
        divergences, shape of alpha.

    Raises:
        ValueError: an order is not above 1, sigma, sensitivity or rate is an array, or a lower bound is
            asked for in the direction "add" at a rate strictly between 0 and 1.
    """
    alpha = orders(alpha)
    if np.ndim(noise_multiplier) or np.ndim(rate):
        raise ValueError("rdp needs scalar sigma, sensitivity and rate")
    if rate == 0:
        return np.zeros(alpha.shape)
    if method == "lower" and direction == "add" and rate < 1:
        raise ValueError(
            "direction must be 'remove' or 'both' for a lower bound on the Renyi divergence of "
            f"Poisson sampling, got {direction!r} with rate {rate!r}"
        )
    curve = [sampled_gaussian(float(x), 1 / noise_multiplier, float(rate)) for x in alpha.ravel()]
    return np.reshape(curve, alpha.shape)
