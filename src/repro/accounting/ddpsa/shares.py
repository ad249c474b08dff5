"""Distributed Laplace noise: every client adds a share, and only the sum is Laplace noise.

The discrete Laplace law with ratio r = exp(-1 / scale) is the difference of two geometric laws, and a
geometric law is a sum of n independent negative binomial variables of shape 1/n (it is infinitely
divisible; so is the continuous law, with Gamma variables: Agarwal, Suresh, Yu, Kumar and McMahan use
binomials, Goryczka and Xiong 2015 the Polya law). Whole numbers are what secret sharing adds up, and on
them every divergence is a finite sum.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy.special import betainc, gammaln

from repro._validate import integer, positive
from repro.accounting._discretise import optimistic
from repro.accounting.mechanism import Mechanism, frozen_fields

__all__ = ["LaplaceShares", "share_noise"]

_OUTSIDE = 1e-19  # mass beyond the window on either side
_LARGEST = 60_000  # units in the window
_LARGEST_RATIO = 350.0  # sensitivity / scale, the largest loss


@dataclass(frozen=True, eq=False)
class LaplaceShares(Mechanism):
    """Discrete Laplace noise in shares, of which only those of `honest` clients protect.

    Each client adds the difference of two negative binomial variables of shape 1 / planned, so that
    `planned` clients together add discrete Laplace noise of the given scale. Clients that drop out, or
    that collude with the observer and tell their noise, leave the shares of `honest` clients.

    Formal guarantee: for one coordinate delta(epsilon) is the exact divergence of the noise and the
    noise moved by `sensitivity` units, as a sum over a window that misses a mass below 1e-18, which
    "upper" adds and "lower" leaves out. With honest >= planned the noise is log-concave and a single
    coordinate is what a vector's neighbours should use; with fewer it is not, and no claim is made
    about moves along several coordinates at once.

    Args:
        scale: scale of the full noise in units, > 0: n has probability proportional to
            exp(-|n| / scale) where honest = planned.
        honest: clients whose noise the observer does not know, >= 1.
        planned: clients among which the noise was shared out, >= 1.
        sensitivity: l1 distance in units between neighbours, an integer >= 1.
    """

    scale: float
    _: KW_ONLY
    honest: int
    planned: int
    sensitivity: int = 1

    def __post_init__(self) -> None:
        frozen_fields(self, scale=positive)
        if np.ndim(self.scale):
            raise ValueError(f"scale must be one number, got an array of {np.shape(self.scale)}")
        integer("honest", self.honest, 1)
        integer("planned", self.planned, 1)
        integer("sensitivity", self.sensitivity, 1)
        if self.sensitivity > _LARGEST_RATIO * self.scale:
            raise ValueError(
                f"scale must be at least sensitivity / {_LARGEST_RATIO:g}, or the chances of neighbours "
                f"have no ratio in double precision, got {self.scale!r}"
            )
        if self._reach > _LARGEST:
            raise ValueError(
                f"scale must leave at most {_LARGEST} units that matter, got {self.scale!r} "
                f"({self._reach} units); use a larger unit"
            )

    @property
    def shape(self) -> float:
        """honest / planned: shape of the negative binomial laws whose difference is the noise."""
        return self.honest / self.planned

    @property
    def standard_deviation(self) -> float:
        """Of the noise of the honest clients, in units: sqrt(2 shape r) / (1 - r)."""
        ratio = np.exp(-1 / self.scale)
        return float(np.sqrt(2 * self.shape * ratio) / (1 - ratio))

    @cached_property
    def _reach(self) -> int:
        """Units beyond which one negative binomial variable has less mass than is left out."""
        reach = 64
        while _upper_tail(reach, self.shape, self.scale) > _OUTSIDE and reach <= _LARGEST:
            reach = int(reach * 1.2)
        return reach

    @cached_property
    def _noise(self) -> np.ndarray:
        """Probabilities of -reach, …, reach: the correlation of two negative binomial laws."""
        count = np.arange(self._reach + 1)
        log_mass = gammaln(self.shape + count) - gammaln(self.shape) - gammaln(count + 1)
        log_mass += self.shape * np.log(-np.expm1(-1 / self.scale)) - count / self.scale
        mass = np.exp(log_mass)
        return np.correlate(mass, mass, "full")

    @cached_property
    def _pair(self) -> tuple[np.ndarray, np.ndarray]:
        """The noise moved up by the sensitivity, and the noise, on the same window."""
        pad = np.zeros(self.sensitivity)
        return np.concatenate([pad, self._noise]), np.concatenate([self._noise, pad])

    @cached_property
    def _profile(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses ascending, and at each the divergence and the second law's mass at or above."""
        first, second = self._pair
        both = (first > 0) & (second > 0)
        loss = np.log(first[both]) - np.log(second[both])
        order = np.argsort(loss)
        loss, mass = loss[order], np.cumsum(second[both][order][::-1])[::-1]
        # Between two losses the divergence falls by mass * (e^high - e^low): only positive terms.
        drops = mass[1:] * np.exp(loss[:-1]) * np.expm1(np.diff(loss))
        delta = np.append(np.cumsum(drops[::-1])[::-1], 0.0)
        return loss, delta, mass

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        loss, delta, mass = self._profile
        at = np.minimum(np.searchsorted(loss, epsilon, side="right"), loss.size - 1)
        step = np.maximum(loss[at] - epsilon, 0.0)
        value = delta[at] + mass[at] * np.exp(loss[at]) * -np.expm1(-step)
        # What left the window, and the outcomes of the moved noise beyond the other's window.
        outside = 0.0 if method == "lower" else 4 * _OUTSIDE
        with np.errstate(divide="ignore"):
            return np.log(np.clip(value + outside, 0.0, 1.0))

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of one coordinate, summed over the window, the same in both directions."""
        order = alpha[..., None]
        first, second = self._pair
        both = (first > 0) & (second > 0)
        first, second = np.log(first[both]), np.log(second[both])
        terms = np.exp(order * first + (1 - order) * second)
        return np.maximum(np.log(terms.sum(-1)) / (alpha - 1), 0.0)

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if method != "lower":
            return super().losses(method, interval)
        first, second = self._pair
        both = (first > 0) & (second > 0)
        first, second = first[both], second[both]
        return optimistic((first, second), (second[::-1], first[::-1]), interval)


def _upper_tail(reach: int, shape: float, scale: float) -> float:
    """P(X > reach) of the negative binomial variable X."""
    return float(betainc(reach + 1, shape, np.exp(-1 / scale)))


def share_noise(
    scale: float, size: int | tuple[int, ...], *, planned: int, generator: np.random.Generator
) -> np.ndarray:
    """One client's share of discrete Laplace noise, for experiments.

    numpy's sampler works with doubles: for a release use an exact sampler (`repro.secagg` has one for
    the full noise).

    Args:
        scale: scale of the full noise in units, > 0.
        size: how many, or the shape.
        planned: clients among which the noise is shared out, >= 1.
        generator: the source of randomness.

    Returns:
        int64 of the given shape; the sum over `planned` clients is discrete Laplace.
    """
    stop = -np.expm1(-1 / float(positive("scale", scale)))
    shape = 1 / integer("planned", planned, 1)
    first, second = (generator.negative_binomial(shape, stop, size) for _ in range(2))
    return first - second
