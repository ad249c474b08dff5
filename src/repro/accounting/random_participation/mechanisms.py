"""Random participation of clients on top of local sampling.

Source: "Privacy Amplification via Random Participation in Federated Learning" (2022): Theorem
4.1. Letters of the paper: sigma (noise of the sum), p (participation
rate of a client), q (sampling rate of a record, given participation), d (other records of the
differing record's client), C (clip).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

from repro._validate import in_unit, integer, positive, representable
from repro.accounting._discretise import Finish, optimistic, pessimistic
from repro.accounting._roc import Lines, bounding_lines
from repro.accounting.gaussian import PoissonGaussian, log_poisson_gaussian
from repro.accounting.mechanism import Mechanism, frozen_fields
from repro.accounting.random_participation import little_noise
from repro.accounting.random_participation.baselines import WeakClientSampling
from repro.accounting.random_participation.least import hull, log_least_bound, lowered
from repro.accounting.random_participation.lower import (
    WIDEST,
    log_aligned,
    log_oblique_best,
    pair_masses,
)
from repro.accounting.random_participation.upper import log_count_bound

__all__ = [
    "CountRevealed",
    "RandomParticipation",
]

_MOST_SAMPLES = 10**8  # their counts are summed over, a few times the square root of them
_ALWAYS = 10_000  # as many have a gradient in every explicit pair, whether it takes them or not
#: Noise multipliers below these are raised to them, but in closed forms. At 1e-5 the divergence has reached its
#: noiseless value in double precision, up to the epsilon below; a lower bound may always assume more noise.
_NOISELESS = {"upper": 1e-5, "paper": 1e-5, "lower": 0.03}
_NOISELESS_EPSILON = 1e8
_FEW_CELLS = 0.1  # noise multiplier up to which compositions do without grids of millions of cells
_HIDDEN = 1e30  # larger noise multipliers are lowered to it, which is safe above, so that squares stay doubles
_COMPOSED_COSINES = (0.0, 0.3, 0.6, 0.9, 1.0)  # of the pairs that lower bounds on compositions try


@dataclass(frozen=True, eq=False)
class CountRevealed(Mechanism):
    """One iteration of DP-DSGD with random participation, seen by whoever sees only the noisy sum.

    Every client takes part with probability p; every record of a participating client is drawn with
    probability q; gradients are clipped to `clip`; N(0, sigma^2 I) is added to their sum.

    Formal guarantee: for every pair of data sets that differ in one record of a client with
    `samples_per_client` other records, and for each direction, `method="upper"` bounds the
    hockey-stick divergence by the repaired Theorem 4.1 alone (reveal the count, share out the rest, Kahane). The
    noise of published training runs was chosen by this bound; that of `RandomParticipation` is smaller.
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
        hidden = s > _HIDDEN
        if method != "lower":
            s = np.minimum(s, _HIDDEN)
        # Theorem 4.1 states one direction and calls the other "without loss of generality".
        direction = "remove" if method == "paper" else direction
        result = log_poisson_gaussian(epsilon, s, p * q, direction)
        some = np.flatnonzero((p * q > 0) & (d > 0) & ~((method == "lower") & hidden))
        if some.size:
            s = np.maximum(s, _NOISELESS["paper"]) if method == "paper" else s
            chosen = epsilon[some], s[some], p[some], q[some], d
            if method == "paper":
                result[some] = log_aligned(*chosen, direction, charged=False)
            else:
                # A client without other records is one of the data sets, hence below either bound.
                bound = self._log_most if method == "upper" else _log_lower
                result[some] = np.maximum(result[some], bound(*chosen, direction))
        return result.reshape(shape)

    def _log_most(self, epsilon, s, p, q, d: int, direction: str) -> np.ndarray:
        """`_log_upper` where the noise is not too little for it."""
        result = little_noise.log_disclosed_bound(epsilon, s, p, q, direction)
        near = (s >= _NOISELESS["upper"]) | (epsilon <= _NOISELESS_EPSILON)
        s = np.maximum(s, _NOISELESS["upper"])
        result[near] = self._log_upper(epsilon[near], s[near], p[near], q[near], d, direction)
        return result

    _log_upper = staticmethod(log_count_bound)

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
            return self._alone.renyi(alpha, direction, method)
        disclosed = WeakClientSampling(self.sigma, p=self.p, q=self.q, clip=self.clip)
        return disclosed.renyi(alpha, direction, method)

    @property
    def _others(self) -> bool:
        """Whether the client has other records, which tell that it takes part."""
        return self.samples_per_client > 0 and self.p * self.q > 0

    @property
    def _alone(self) -> PoissonGaussian:
        """The release where the client has no other records: one of the data sets."""
        return PoissonGaussian(self.sigma, rate=np.multiply(self.p, self.q), sensitivity=self.clip)

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if not self._others or (method == "lower" and self.sigma > WIDEST * self.clip):
            return self._alone.losses(method, interval)
        if method != "lower":
            return super().losses(method, interval)
        return self.explicit_pld(0.0, interval=interval)

    def lower_pairs(self, interval: float) -> Iterator[PrivacyLossDistribution]:
        """See `Mechanism.lower_pairs`."""
        yield self._alone.losses("lower", interval)
        if self._others and self.sigma <= WIDEST * self.clip:
            for cosine in _COMPOSED_COSINES if self.sigma > _FEW_CELLS * self.clip else (0.0,):
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
        if cosine == 0 and s <= _FEW_CELLS:
            pair = little_noise.side_masses(s, self.p, self.q, self.samples_per_client)
            return optimistic(pair, pair[::-1], interval)
        setting = s, self.p, self.q, int(_telling(s, self.q, self.samples_per_client))
        with_record, without = pair_masses(*setting, cosine)
        with_opposed, without_opposed = pair_masses(*setting, -cosine)
        return optimistic(
            (with_record.ravel(), without.ravel()),
            (without_opposed.ravel(), with_opposed.ravel()),
            interval,
        )


@dataclass(frozen=True, eq=False)
class RandomParticipation(CountRevealed):
    """One iteration of DP-DSGD with random participation, seen by whoever sees only the noisy sum.

    Every client takes part with probability p; every record of a participating client is drawn with
    probability q; gradients are clipped to `clip`; N(0, sigma^2 I) is added to their sum.

    Formal guarantee: for every pair of data sets that differ in one record of a client with
    `samples_per_client` other records, and for each direction, `method="upper"` bounds the
    hockey-stick divergence. It is the least of two bounds: the repaired Theorem 4.1 (`CountRevealed`) and partial
    revelation, in which the adversary sees all drawn records but one (`revelation`). "lower", "paper" and Renyi
    divergences are those of `CountRevealed`.

    Where at most 5 other records are drawn on average and the noise multiplier lies between 0.2 and 4, delta of
    one iteration is smaller than that of `CountRevealed` by a factor of up to 1.8; elsewhere the two agree.

    Args and errors: those of `CountRevealed`.
    """

    _log_upper = staticmethod(log_least_bound)

    @property
    def _count(self) -> CountRevealed:
        return CountRevealed(**{one.name: getattr(self, one.name) for one in fields(self)})

    def _lowered(
        self, epsilon: np.ndarray, direction: str, log_d: np.ndarray | None = None
    ) -> np.ndarray:
        """log of upper bounds at epsilons that rise from 0; `log_d`: the values of `CountRevealed` there."""
        if log_d is None:
            log_d = self._count.log_delta(epsilon, direction, "upper")
        setting = self.sigma / self.clip, self.p, self.q, self.samples_per_client
        return lowered(epsilon, log_d, *setting, direction)

    def _finish(self, direction: str) -> Finish:
        def finish(epsilon: np.ndarray, log_d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            lower = self._lowered(epsilon, direction, log_d)
            if np.array_equal(lower, log_d):
                return np.arange(log_d.size), log_d
            lower = np.minimum.accumulate(lower)
            kept = hull(epsilon, lower)
            return kept, lower[kept]

        return finish

    def losses(self, method: str, interval: float) -> PrivacyLossDistribution:
        """See `Mechanism.losses`."""
        if method != "upper" or not self._others:
            return super().losses(method, interval)
        profiles = (
            partial(self._count.log_delta, direction=way, method=method)
            for way in ("remove", "add")
        )
        return pessimistic(*profiles, interval, (self._finish("remove"), self._finish("add")))

    def _lines(self, method: str) -> Lines:
        if method == "upper" and self._others and method not in self._kept_lines:
            self._kept_lines[method] = bounding_lines(self._lowered)
        return super()._lines(method)

    def loss_reach(self, start: float, rare: float) -> float:
        """See `Release.loss_reach`: that of the larger bound, which costs less."""
        return self._count.loss_reach(start, rare)


def _log_lower(epsilon, s, p, q, d: int, direction: str) -> np.ndarray:
    """Best explicit pair; all arrays of shape (n,)."""
    alone = log_poisson_gaussian(epsilon, s, p * q, direction)
    sides = little_noise.log_sides(epsilon, s, p, q, d, direction)
    result = np.where(s <= little_noise.LITTLE, np.maximum(alone, sides), -np.inf)
    s = np.maximum(s, _NOISELESS["lower"])
    most = little_noise.log_disclosed_bound(epsilon, s, p, q, direction)
    # No grids for a relative gain of next to nothing, or for a delta that is 0 as a double.
    used = np.where((result < most - 1e-9) & (most > -800.0), _telling(s, q, d), 0)
    for number in np.unique(used[used > 0]):
        rows = used == number
        chosen = epsilon[rows], s[rows], p[rows], q[rows], int(number), direction
        found = np.maximum(log_aligned(*chosen), log_oblique_best(*chosen))
        result[rows] = np.maximum(result[rows], found)
    return result


def _telling(s: np.ndarray, q: np.ndarray, d: int) -> np.ndarray:
    """How many of d other records have a gradient other than zero in the explicit pairs; any number makes a data set.

    Those that are drawn tell that the client takes part: with m on average, their sum lies at least m - 10 sqrt(m)
    clips away from silence, up to exp(-50). Where that is 20 deviations of the noise, more would tell nothing more.
    """
    enough = (5 + np.sqrt(45 + 20 * s)) ** 2 / q
    return np.minimum(d, np.maximum(_ALWAYS, 2 ** np.ceil(np.log2(enough)))).astype(int)
