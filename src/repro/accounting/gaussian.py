"""The Gaussian mechanism and its Poisson-subsampled form, exact in both directions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from repro._validate import broadcastable, in_unit, positive, representable
from repro.accounting._gaussian import log_shift_divergence
from repro.accounting._gaussian_losses import sampled_cells, sampled_losses
from repro.accounting._sampled_gaussian import sampled_gaussian
from repro.accounting._weights import weights
from repro.accounting.mechanism import Mechanism, frozen_field

__all__ = [
    "GaussianMechanism",
    "PoissonGaussian",
    "log_poisson_gaussian",
    "orders",
    "sampled_gaussian_rdp",
]


def orders(alpha) -> np.ndarray:
    """Renyi orders as an array, each above 1."""
    array = positive("alpha", alpha)
    if np.any(array <= 1):
        raise ValueError(f"alpha must be above 1, got {alpha!r}")
    return array


def log_poisson_gaussian(epsilon, s, rate, direction: str) -> np.ndarray:
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


def _losses(sigma: float, sensitivity: float, rate: float, method: str, interval: float):
    """The loss distribution at a positive rate, rounded downwards for "lower", else upwards."""
    if method != "lower":
        return sampled_losses(sigma, sensitivity, rate, interval)
    return sampled_cells(sigma, sensitivity, rate, interval)


@dataclass(frozen=True)
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
        frozen_field(self, "sigma", positive("sigma", self.sigma))
        frozen_field(self, "sensitivity", positive("sensitivity", self.sensitivity))
        broadcastable(sigma=self.sigma, sensitivity=self.sensitivity)
        representable(self.sigma, "sensitivity", self.sensitivity)

    def _log_delta(self, epsilon, direction, method):
        return log_shift_divergence(np.divide(self.sensitivity, self.sigma), epsilon)

    def rdp(self, alpha):
        """alpha sensitivity^2 / (2 sigma^2), the same in both directions (Mironov 2017)."""
        return orders(alpha) * np.divide(self.sensitivity, self.sigma) ** 2 / 2

    def _pld(self, method, interval):
        return _losses(self.sigma, self.sensitivity, 1.0, method, interval)


@dataclass(frozen=True)
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
        frozen_field(self, "sigma", positive("sigma", self.sigma))
        frozen_field(self, "rate", in_unit("rate", self.rate))
        frozen_field(self, "sensitivity", positive("sensitivity", self.sensitivity))
        broadcastable(sigma=self.sigma, rate=self.rate, sensitivity=self.sensitivity)
        representable(self.sigma, "sensitivity", self.sensitivity)

    def _log_delta(self, epsilon, direction, method):
        return log_poisson_gaussian(
            epsilon, np.divide(self.sigma, self.sensitivity), self.rate, direction
        )

    def rdp(self, alpha):
        """Renyi divergence of each order, whole or not, to about twelve digits.

        A plain number, neither rounded up nor down: see `_sampled_gaussian`.

        "Remove" is the worse direction (Mironov et al. 2019, Theorem 5).

        Raises:
          ValueError: an order is not above 1, or a field is an array.
        """
        return sampled_gaussian_rdp(self.sigma / self.sensitivity, self.rate, alpha)

    def _pld(self, method, interval):
        if self.rate == 0:
            return pld_lib.identity(interval, pessimistic_estimate=method != "lower")
        return _losses(self.sigma, self.sensitivity, self.rate, method, interval)


def sampled_gaussian_rdp(noise_multiplier: float, rate: float, alpha) -> np.ndarray:
    """Renyi divergence of each order for scalar noise multiplier and rate."""
    alpha = orders(alpha)
    if np.ndim(noise_multiplier) or np.ndim(rate):
        raise ValueError("rdp needs scalar sigma, sensitivity and rate")
    if rate == 0:
        return np.zeros(alpha.shape)
    curve = [sampled_gaussian(float(x), 1 / noise_multiplier, float(rate)) for x in alpha.ravel()]
    return np.reshape(curve, alpha.shape)
