"""Random participation of clients on top of local sampling, and its three baselines.

Source: "Privacy Amplification via Random Participation in Federated Learning" (2022): Theorems
4.1, 5.1, 5.2 and Corollary 5.3. Letters of the paper: sigma (noise of the sum), p (participation
rate of a client), q (sampling rate of a record, given participation), d (other records of the
differing record's client), C (clip).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import in_unit, integer, positive, representable
from repro.accounting._binomial import window
from repro.accounting._discretise import optimistic
from repro.accounting._pld import losses, one_sided
from repro.accounting._weights import weights
from repro.accounting.gaussian import (
    PoissonGaussian,
    log_poisson_gaussian,
    sampled_gaussian_rdp,
)
from repro.accounting.mechanism import Mechanism, frozen_fields
from repro.accounting.random_participation.lower import (
    WIDEST,
    log_aligned,
    log_oblique_best,
    pair_masses,
)
from repro.accounting.random_participation.upper import log_split_bound

__all__ = [
    "CentralizedShuffling",
    "OnlyLocalSampling",
    "RandomParticipation",
    "WeakClientSampling",
    "log_count_bound",
]

_CELLS = 4_000_000
_MOST_SAMPLES = 10**8  # their counts are summed over, a few times the square root of them
_ALWAYS = 10_000  # as many have a gradient in every explicit pair, whether it takes them or not
#: Noise multipliers below these are raised to them. At 1e-5 the clip is 1e5 standard deviations wide and
#: the divergence has reached its noiseless value in double precision; a lower bound may always assume
#: more noise, and a coarser grid then suffices.
_NOISELESS = {"upper": 1e-5, "paper": 1e-5, "lower": 0.03}
#: Noise multipliers above this are lowered to it: an upper bound may always assume less noise, and squares of
#: sums of clips stay doubles.
_HIDDEN = 1e30
#: Angles of the explicit pairs that lower bounds on compositions try.
_COMPOSED_COSINES = (0.0, 0.3, 0.6, 0.9, 1.0)


def log_count_bound(
    epsilon: np.ndarray, s: np.ndarray, p: np.ndarray, q: np.ndarray, d: int, direction: str
) -> np.ndarray:
    """log of the repaired Theorem 4.1 (see `upper`), which reveals how many other records were drawn.

    Args:
        epsilon, s, p, q: epsilon >= 0, noise multiplier > 0 and rates in (0, 1], shape (n,).
        d: number of other records, >= 1.
        direction: "add" or "remove".

    Returns:
        shape (n,), -inf where nothing leaks beyond epsilon.
    """
    factor, log_w1, log_w0 = weights(epsilon, p, q, direction)
    result = np.full(epsilon.shape, -np.inf)
    usable = np.flatnonzero(np.isfinite(factor))
    if usable.size == 0:
        return result
    rates, inverse = np.unique(q, return_inverse=True)
    counts, log_b, tail = window(d, rates)
    added = counts + 1 if direction == "remove" else counts
    step = max(1, _CELLS // counts.shape[1])
    for rows in (usable[k : k + step] for k in range(0, usable.size, step)):
        at = inverse[rows]
        bound = log_split_bound(added[at], log_b[at], tail[at], log_w1[rows], log_w0[rows], s[rows])
        result[rows] = factor[rows] + bound
    return result


@dataclass(frozen=True, eq=False)
class RandomParticipation(Mechanism):
    """One iteration of DP-DSGD with random participation, seen by whoever sees only the noisy sum.

    Every client takes part with probability p; every record of a participating client is drawn with
    probability q; gradients are clipped to `clip`; N(0, sigma^2 I) is added to their sum.

    Formal guarantee: for every pair of data sets that differ in one record of a client with
    `samples_per_client` other records, and for each direction, `method="upper"` bounds the
    hockey-stick divergence (repaired Theorem 4.1: reveal the count, share out the rest, Kahane).
    `method="lower"` is attained by an explicit pair: no other records, or others that share one
    gradient at the best of several angles. `method="paper"` is Theorem 4.1 as printed. It is not
    an upper bound: it takes collinear gradients to be the worst, and already orthogonal or absent
    ones leak more.

    Args:
        sigma: standard deviation of the noise on the sum, > 0 (scalar or array).
        p: participation rate, in [0, 1] (scalar or array).
        q: sampling rate, in [0, 1] (scalar or array).
        samples_per_client: d in [0, 10^8], the client's records besides the differing one.
        clip: largest norm of one record's gradient, > 0.

    Raises:
        ValueError: an argument out of range.
    """

    sigma: float
    _: KW_ONLY
    p: float
    q: float
    samples_per_client: int
    clip: float = 1.0

    paper_invalid = (
        "Theorem 4.1 of the random-participation paper is not an upper bound: data sets whose "
        "gradients are not collinear leak more"
    )

    def __post_init__(self) -> None:
        frozen_fields(self, sigma=positive, p=in_unit, q=in_unit, clip=positive)
        representable(self.sigma, "clip", self.clip)
        d = integer("samples_per_client", self.samples_per_client, 0, _MOST_SAMPLES)
        object.__setattr__(self, "samples_per_client", d)

    def log_delta(self, epsilon: np.ndarray, direction: str, method: str) -> np.ndarray:
        """See `Mechanism.log_delta`."""
        s = np.divide(self.sigma, self.clip)
        epsilon, s, p, q = np.broadcast_arrays(epsilon, s, self.p, self.q)
        shape, d = epsilon.shape, self.samples_per_client
        epsilon, s, p, q = (np.array(x, dtype=float).ravel() for x in (epsilon, s, p, q))
        s = np.maximum(s, _NOISELESS[method])
        hidden = s > _HIDDEN
        if method != "lower":
            s = np.minimum(s, _HIDDEN)
        # Theorem 4.1 states one direction and calls the other "without loss of generality".
        direction = "remove" if method == "paper" else direction
        result = log_poisson_gaussian(epsilon, s, p * q, direction)
        some = np.flatnonzero((p * q > 0) & (d > 0) & ~((method == "lower") & hidden))
        if some.size:
            chosen = epsilon[some], s[some], p[some], q[some], d
            if method == "paper":
                result[some] = log_aligned(*chosen, direction, charged=False)
            else:
                # A client without other records is one of the data sets, hence below either bound.
                bound = log_count_bound if method == "upper" else _log_lower
                result[some] = np.maximum(result[some], bound(*chosen, direction))
        return result.reshape(shape)

    def renyi(self, alpha: np.ndarray, direction: str, method: str) -> np.ndarray:
        """Between data sets without other records of the client and disclosed participation.

        The first are one of the data sets, the second dominates all of them. Theorem 4.1 says
        nothing about Renyi divergences, so there is no "paper".
        """
        if method == "paper":
            raise ValueError(
                "method must be 'upper' or 'lower' for the Renyi divergence of "
                f"RandomParticipation, of which the paper prints none, got {method!r}"
            )
        if method == "lower":
            rate = np.multiply(self.p, self.q)
            alone = PoissonGaussian(self.sigma, rate=rate, sensitivity=self.clip)
            return alone.renyi(alpha, direction, method)
        disclosed = WeakClientSampling(self.sigma, p=self.p, q=self.q, clip=self.clip)
        return disclosed.renyi(alpha, direction, method)

    @property
    def _others(self) -> bool:
        """Whether the client has other records, which tell that it takes part."""
        return self.samples_per_client > 0 and self.p * self.q > 0

    @property
    def _alone(self) -> PoissonGaussian:
        """The release where the client has no other records: one of the data sets."""
        return PoissonGaussian(self.sigma, rate=self.p * self.q, sensitivity=self.clip)

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if not self._others or (method == "lower" and self.sigma > WIDEST * self.clip):
            return self._alone.losses(method, interval)
        return (
            self.explicit_pld(0.0, interval=interval)
            if method == "lower"
            else super().losses(method, interval)
        )

    def lower_pairs(self, interval: float) -> Iterator[PrivacyLossDistribution]:
        """See `Mechanism.lower_pairs`."""
        yield self._alone.losses("lower", interval)
        if self._others and self.sigma <= WIDEST * self.clip:
            for cosine in _COMPOSED_COSINES:
                yield self.explicit_pld(cosine, interval=interval)

    def explicit_pld(
        self, cosine: float, *, interval: float = 1e-4
    ) -> pld_lib.PrivacyLossDistribution:
        """Loss distribution, rounded downwards, of the pair whose other records lie at one angle.

        Args:
            cosine: between the differing record's gradient and the others', in [-1, 1]; in the
                "add" direction the others point the opposite way.
            interval: spacing of the discretised losses, > 0.
        """
        s = max(self.sigma / self.clip, _NOISELESS["lower"])
        setting = s, self.p, self.q, int(_telling(s, self.q, self.samples_per_client))
        with_record, without = pair_masses(*setting, cosine)
        with_opposed, without_opposed = pair_masses(*setting, -cosine)
        return optimistic(
            (with_record.ravel(), without.ravel()),
            (without_opposed.ravel(), with_opposed.ravel()),
            interval,
        )


def _log_lower(epsilon, s, p, q, d: int, direction: str) -> np.ndarray:
    """Best explicit pair; all arrays of shape (n,)."""
    used, result = _telling(s, q, d), np.empty(epsilon.shape)
    for number in np.unique(used):
        rows = used == number
        chosen = epsilon[rows], s[rows], p[rows], q[rows], int(number), direction
        result[rows] = np.maximum(log_aligned(*chosen), log_oblique_best(*chosen))
    return result


def _telling(s: np.ndarray, q: np.ndarray, d: int) -> np.ndarray:
    """How many of d other records have a gradient other than zero in the explicit pairs.

    Any number up to d makes a data set. Those that are drawn tell that the client takes part: with m on average,
    their sum lies at least m - 10 sqrt(m) clips away from silence, up to exp(-50). Where that is 20 standard
    deviations of the noise, more records would tell nothing more, and cost time and memory.
    """
    enough = (5 + np.sqrt(45 + 20 * s)) ** 2 / q
    return np.minimum(d, np.maximum(_ALWAYS, 2 ** np.ceil(np.log2(enough)))).astype(int)


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
        local = PoissonGaussian(self.sigma, rate=self.q, sensitivity=self.clip).losses(
            method, interval
        )
        nothing = pld_lib.identity(interval, pessimistic_estimate=method != "lower")
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
