"""The Laplace mechanism, and the sum of several clients' Laplace noise seen from outside."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from numpy.polynomial.laguerre import laggauss
from numpy.polynomial.legendre import leggauss
from scipy.special import expit

from repro._validate import integer, positive
from repro.accounting._discretise import optimistic
from repro.accounting._gaussian import log_diff, log_sum
from repro.accounting._laplace_sums import largest_loss, log_density, log_gain, log_tail, loss_point
from repro.accounting.mechanism import Mechanism, frozen_fields

__all__ = ["SummedLaplace", "log_pure_profile"]

_NODES = 120
_MOST_TERMS = 10**7  # cells of a lower bound, to either side of loss 0, times the terms of an edge
_LEAST_CELLS = 4000
_OVERFLOW = 700.0  # a loss whose exponential is about the largest double
_UNDERFLOW = 1e-250  # less than rounding loses; dp-accounting divides by masses
_MOST_CLIENTS = 30_000  # coefficients of a polynomial are as many
_STEPS = 1000  # cells between loss 0 and the largest


def log_pure_profile(epsilon: np.ndarray, pure: np.ndarray) -> np.ndarray:
    """log delta(epsilon) that `pure`-DP alone implies: that of randomised response.

    delta = [(e^pure - e^epsilon) / (1 + e^pure)]_+ (Kairouz, Oh and Viswanath 2017, Theorem 3.1).
    """
    return log_diff(pure, epsilon) - np.logaddexp(0.0, pure)


@dataclass(frozen=True, eq=False)
class SummedLaplace(Mechanism):
    """Every one of n clients adds Laplace noise to its numbers; only the sum over clients is seen.

    With one client this is the Laplace mechanism. Neighbouring data sets differ in one record of one
    client, which moves that client's vector by at most `sensitivity` in l1; all others are arbitrary
    and known to the observer.

    Formal guarantee: for one coordinate delta(epsilon) is exact, in both directions alike: the noise is
    log-concave, so the worst event is a half-line, whose two probabilities have a closed form. For
    vectors with independent noise in each coordinate and n = 1, a move along a single coordinate
    dominates every other split of the same l1 length (proof in the derivations of ddpsa), so the same
    value is exact there. For n > 1 it is attained by a single coordinate; that no split leaks more is
    checked numerically (`ddpsa_audit.split_ratio`), not proved. "paper" is the profile that the
    clients' own epsilon = sensitivity / scale implies by post-processing, whatever the mechanism; its
    composition is optimal for such knowledge. "upper" and "lower" differ only in how compositions are
    rounded.

    Args:
        scale: scale b of each client's noise, > 0 (scalar or array).
        clients: n, how many independent noise terms the observer cannot subtract, an integer in [1, 30,000].
        sensitivity: largest l1 distance between one client's vectors on neighbours, > 0.

    Source: ddpsa, Definition 4 and Algorithm 2.
    """

    scale: float
    _: KW_ONLY
    clients: int = 1
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        frozen_fields(self, scale=positive, sensitivity=positive)
        integer("clients", self.clients, 1, _MOST_CLIENTS)

    @property
    def pure(self) -> np.ndarray:
        """sensitivity / scale, at most 1e300: the epsilon at which delta becomes 0, however many clients."""
        return np.divide(self.sensitivity, np.maximum(self.scale, 1e-300 * self.sensitivity))

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        epsilon, shift = np.broadcast_arrays(epsilon, self.pure)
        if method == "paper":
            return log_pure_profile(epsilon, shift)
        result = np.full(epsilon.shape, -np.inf)
        some = epsilon < shift
        e, v = epsilon[some], shift[some]
        result[some] = log_gain(e, loss_point(e, v, self.clients), v, self.clients)
        return result

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """That of one coordinate, the same in both directions.

        A plain number, neither bound: Gauss quadrature with 120 nodes on each of three pieces, where the
        integrand is analytic, without a bound on its error.

        For one client it equals Mironov 2017, Proposition 6. "paper" is that of randomised response,
        the profile which the clients' own epsilon implies.
        """
        alpha, shift = np.broadcast_arrays(alpha, self.pure)
        if method == "paper":
            moment = np.logaddexp(alpha * shift, (1 - alpha) * shift) - np.logaddexp(0.0, shift)
            return np.maximum(moment / (alpha - 1), 0.0)
        order, v = alpha[..., None], shift[..., None]
        node, weight = laggauss(_NODES)  # from `v` upwards, and from 0 downwards
        middle, share = leggauss(_NODES)
        x = [v + node, -node + 0 * v, v * (middle + 1) / 2]
        weights = [np.log(weight) + node, np.log(weight) + node, np.log(share * v / 2)]
        terms = [
            w
            + order * log_density(at - v, self.clients)
            + (1 - order) * log_density(at, self.clients)
            for at, w in zip(x, weights, strict=True)
        ]
        value = log_sum(np.concatenate(terms, axis=-1), axis=-1) / (alpha - 1)
        return np.maximum(value, 0.0)

    def loss_step(self, method: str) -> float | None:
        """See `Mechanism.loss_step`."""
        # Rounding up keeps both masses of a cell: its cost is of second order in the step.
        return None if method == "lower" else float(self.pure) / _STEPS

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        shift = float(self.pure)
        if method == "paper":
            first, second = _two_outputs(shift, interval)
        else:
            width = interval
            if method == "lower":  # wider cells tell less, and so do fewer of them
                most = max(_MOST_TERMS // self.clients, _LEAST_CELLS)
                width = max(interval, largest_loss(shift, self.clients, _UNDERFLOW) / most)
            first, second = _cells(shift, self.clients, width)
        if method == "lower":
            # Cells are coarser than outputs: what tells them apart is a lower bound.
            return optimistic((first, second), (second[::-1], first[::-1]), interval)
        masses = _connected(first, second, interval)
        return PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval, True)


def _cells(shift: float, clients: int, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """Masses under both laws of the outputs whose loss lies in [k interval, (k + 1) interval).

    The cells run from k = -c to c - 1 with c the least number that covers the losses that a double can count.
    """
    count = int(np.ceil(min(shift, largest_loss(shift, clients, _UNDERFLOW)) / interval))
    x = loss_point(interval * np.arange(count), np.full(count, shift), clients)
    edge = np.append((shift - x)[:0:-1], x)
    return tuple(_between(edge - move, clients) for move in (shift, 0.0))


def _two_outputs(shift: float, interval: float) -> tuple[np.ndarray, np.ndarray]:
    """The same for randomised response, whose losses are -shift and shift."""
    first = np.zeros(2 * int(np.ceil(shift / interval)))
    first[[0, -1]] = expit(-shift), expit(shift)
    return first, first[::-1]


def _connected(first: np.ndarray, second: np.ndarray, interval: float) -> dict[int, float]:
    """Each cell's mass moved to the cell's two ends so that its mass under both laws is kept.

    The pair that results dominates the one it came from (Doroshenko et al. 2022).
    """
    start = np.arange(first.size) - first.size // 2
    # Beyond `_OVERFLOW` the second law has no mass that a double holds.
    ratio = np.exp(np.minimum(interval * start, _OVERFLOW))
    up = (first - ratio * second) / -np.expm1(-interval)
    up = np.clip(up, 0.0, first)
    masses = np.append(first - up, 0.0)
    masses[1:] += up
    return {k - first.size // 2: float(m) for k, m in enumerate(masses) if m > 0}


def _between(edge: np.ndarray, clients: int) -> np.ndarray:
    """Masses between consecutive edges, and beyond the last at either end; precise in both tails."""
    above, below = np.exp(log_tail(edge, clients)), np.exp(log_tail(-edge, clients))
    masses = np.where(edge[:-1] >= 0, above[:-1] - above[1:], below[1:] - below[:-1])
    masses = np.concatenate([below[:1], masses, above[-1:]])
    return np.where(masses > _UNDERFLOW, masses, 0.0)
