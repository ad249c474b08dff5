"""The three baselines of random participation: weak client sampling, only local sampling, centralised shuffling.

Source: "Privacy Amplification via Random Participation in Federated Learning" (2022): Theorems 5.1, 5.2
and Corollary 5.3. Letters as in `mechanisms`.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import in_unit, positive, representable
from repro.accounting._pld import losses, one_sided
from repro.accounting.gaussian import (
    PoissonGaussian,
    log_poisson_gaussian,
    sampled_gaussian_rdp,
)
from repro.accounting.mechanism import Mechanism, frozen_fields

__all__ = ["CentralizedShuffling", "OnlyLocalSampling", "WeakClientSampling"]

_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class _TwoRates(Mechanism):
    """Fields of the baselines that depend on both rates but not on the number of records."""

    sigma: float
    _: KW_ONLY
    p: float
    q: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, p=in_unit, q=in_unit, clip=positive)
        representable(self.sigma, "clip", self.clip)


@dataclass(frozen=True, eq=False)
class WeakClientSampling(_TwoRates):
    """Two-level sampling whose participating clients are disclosed (Theorem 5.2).

    Formal guarantee: exact in both directions. Given participation the adversary faces a
    Poisson-subsampled Gaussian of rate q, otherwise nothing, so delta = p times that of
    `PoissonGaussian`; Theorem 5.2 is the "remove" case, and it is attained. It bounds
    `RandomParticipation` for every number of records.

    Args:
        sigma: standard deviation of the noise on the sum, > 0 (scalar or array).
        p: participation rate, q: sampling rate, both in [0, 1] (scalars or arrays).
        clip: largest norm of one record's gradient, > 0.
    """

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        with np.errstate(divide="ignore"):
            log_p = np.log(self.p)
        s = np.divide(self.sigma, self.clip)
        return log_p + log_poisson_gaussian(epsilon, s, self.q, direction)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """log(1 - p + p exp((alpha - 1) r)) / (alpha - 1), r that of the subsampled Gaussian."""
        curve = sampled_gaussian_rdp(
            self.sigma / self.clip, self.q, alpha, method=method, direction=direction
        )
        inner = (alpha - 1) * curve
        with np.errstate(divide="ignore"):
            value = np.logaddexp(np.log1p(-self.p), np.log(self.p) + inner) / (alpha - 1)
        return np.maximum(value, 0.0)  # a mean of ratios of at least 1, up to rounding

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        nothing = pld_lib.identity(interval, pessimistic_estimate=method != "lower")
        if self.p == 0:
            return nothing
        local = PoissonGaussian(self.sigma, rate=self.q, sensitivity=self.clip).losses(
            method, interval
        )
        if method != "lower":
            return local.compute_mixture(nothing, self.p)
        kept = [losses(side) for side in one_sided(local)]
        if not all(side.mass.size for side in kept):
            return nothing  # such small losses were all rounded away
        if (reach := max(abs(side.first) for side in kept)) > 2 * _CELLS:
            raise ValueError(
                f"interval must be at least {interval * reach / _CELLS:.3g} for the losses of "
                f"{self!r}, got {interval!r}"
            )
        return local.compute_mixture(nothing, self.p)

    def loss_reach(self, start: float, rare: float) -> float:
        """See `Release.loss_reach`: that of local sampling, since p alone makes delta small at every loss."""
        if self.p == 0:
            return start
        local = PoissonGaussian(self.sigma, rate=self.q, sensitivity=self.clip)
        return local.loss_reach(start, rare / self.p)


@dataclass(frozen=True, eq=False)
class OnlyLocalSampling(Mechanism):
    """Every client takes part, every record is drawn with probability q (Theorem 5.1).

    Formal guarantee: exact in both directions, that of `PoissonGaussian` with rate q; the
    theorem is the "remove" case.

    Args:
        sigma: standard deviation of the noise on the sum, > 0 (scalar or array).
        q: sampling rate, in [0, 1] (scalar or array).
        clip: largest norm of one record's gradient, > 0.
    """

    sigma: float
    _: KW_ONLY
    q: float
    clip: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, q=in_unit, clip=positive)
        representable(self.sigma, "clip", self.clip)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        return log_poisson_gaussian(epsilon, np.divide(self.sigma, self.clip), self.q, direction)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of the Poisson-subsampled Gaussian of rate q."""
        return sampled_gaussian_rdp(
            self.sigma / self.clip, self.q, alpha, method=method, direction=direction
        )

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        return PoissonGaussian(self.sigma, rate=self.q, sensitivity=self.clip).losses(
            method, interval
        )


@dataclass(frozen=True, eq=False)
class CentralizedShuffling(_TwoRates):
    """Every record of the union is drawn independently with probability p q (Corollary 5.3 as meant).

    Formal guarantee: exact in both directions for independent draws, that of
    `PoissonGaussian` with rate p q. The draws are only independent in the limit of many
    clients: shuffling records among few clients and then sampling clients keeps them correlated,
    and with one client it changes nothing at all. `method="paper"` is the corollary as printed,
    with q where p q is meant, which is a valid but needlessly large bound.

    Args:
        sigma: standard deviation of the noise on the sum, > 0 (scalar or array).
        p: participation rate, q: sampling rate, both in [0, 1] (scalars or arrays).
        clip: largest norm of one record's gradient, > 0.
    """

    def _rate(self, method: str):
        return self.q if method == "paper" else np.multiply(self.p, self.q)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        s = np.divide(self.sigma, self.clip)
        rate = np.broadcast_to(
            self._rate(method), np.broadcast_shapes(np.shape(self.p), np.shape(self.q))
        )
        return log_poisson_gaussian(epsilon, s, rate, direction)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of the Poisson-subsampled Gaussian of rate p q; for "paper" of rate q."""
        rate = self._rate(method)
        return sampled_gaussian_rdp(
            self.sigma / self.clip, rate, alpha, method=method, direction=direction
        )

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        rate = float(self._rate(method))
        return PoissonGaussian(self.sigma, rate=rate, sensitivity=self.clip).losses(
            method, interval
        )
