"""From the description of a federation to the mechanism that accounts for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from repro._validate import in_unit, integer, one, positive
from repro.accounting._composed import Composed
from repro.accounting.calibration import calibrate_sigma
from repro.accounting.composition import compose
from repro.accounting.gaussian import GaussianMechanism, PoissonGaussian
from repro.accounting.mechanism import Mechanism
from repro.accounting.partitioning.model_splitting import ModelSplitting
from repro.accounting.random_participation.baselines import OnlyLocalSampling, WeakClientSampling
from repro.accounting.random_participation.mechanisms import RandomParticipation

__all__ = ["Federation"]

_REASONS = {
    "adjacency": {
        "record": "",
        "client": "",
        "replace": "the guarantees here compare data with and without a record. A replaced record is one removed "
        "and one added: twice the epsilon, and a delta of (1 + e^epsilon) times delta",
    },
    "observer": {
        "sums": "",
        "participants": "",
        "uploads": "",
        "draws": "who sees which records are drawn gets no amplification from drawing them in secret; "
        "WeakClientSampling(sigma, p=participation * local_rate, q=1) accounts for this",
        "state": "what a client keeps from round to round remembers records that it drew earlier, so that "
        "rounds do not compose one by one; see repro.accounting.mspafl.run",
    },
    "sampling": {
        "poisson": "",
        "fixed": "no theorem here bounds a fixed number of clients or records per round; with independent "
        "coins of the same rate (sampling='poisson') there is one",
        "shuffled": "no theorem here bounds shuffled batches; with independent coins of the same rate "
        "(sampling='poisson') there is one, and BalancedIterationSubsampling covers a fixed number "
        "of secret participations per record",
    },
}
"""What each choice may be: the words that are covered (no reason), and those that are refused, and why."""


@dataclass(frozen=True)
class Federation:
    """A federation that trains with noise, and what its observer sees.

    In every round each client takes part by an independent coin, each record of a participant is drawn by an
    independent coin, contributions are clipped, and Gaussian noise is added.

        federation = Federation(
            clients=500, records_per_client=100, participation=0.05, local_rate=0.2, rounds=1000
        )
        sigma = federation.noise(epsilon=2, delta=1e-5)
        federation.run(sigma).epsilon(1e-5, method="lower")

    Attributes:
        clients: number of clients, >= 1. The guarantee does not depend on it.
        records_per_client: records of every client, an integer >= 1, or one >= 0 for each client: the largest
            counts.
        rounds: T >= 1.
        participation: probability that a client takes part in a round, in [0, 1].
        local_rate: probability that a participant draws a record, in [0, 1].
        adjacency: "record" (one record more or less) or "client" (all of one client's contributions, or none).
        observer: what is seen of every round, beside what follows from it. "sums": the noisy sum alone, as
            behind a trusted server or secure aggregation. "participants": also who took part. "uploads": every
            upload, each with noise of its own.
        clip: largest norm of what is added or left out: of one record's gradient, or of a client's whole update
            with adjacency "client"; > 0.
        submodels: number of disjoint submodels, of which every client draws one in secret in every round; 1
            where the whole model is trained.
        sampling: "poisson": independent coins. Other schemes are refused, with the reason.

    Raises:
        ValueError: an argument out of range, or a combination that no theorem here covers, with the reason.
    """

    clients: int
    records_per_client: ArrayLike
    rounds: int = 1
    participation: float = 1.0
    local_rate: float = 1.0
    adjacency: str = "record"
    observer: str = "sums"
    clip: float = 1.0
    submodels: int = 1
    sampling: str = "poisson"

    def __post_init__(self) -> None:
        for name, low in (("clients", 1), ("rounds", 1), ("submodels", 1)):
            object.__setattr__(self, name, integer(name, getattr(self, name), low))
        for name, check in (
            ("participation", in_unit),
            ("local_rate", in_unit),
            ("clip", positive),
        ):
            object.__setattr__(self, name, one(check, name, getattr(self, name)))
        if np.ndim(self.records_per_client) == 0:
            held = [integer("records_per_client", self.records_per_client, 1)]
        else:
            held = [integer("records_per_client", n, 0) for n in np.ravel(self.records_per_client)]
            if len(held) != self.clients:
                raise ValueError(
                    f"records_per_client must be an integer or one for each of {self.clients} clients, "
                    f"got {len(held)}"
                )
        largest = integer("largest of records_per_client", max(held), 1)
        object.__setattr__(self, "records_per_client", largest)
        for name, words in _REASONS.items():
            word = getattr(self, name)
            reason = words.get(word) if isinstance(word, str) else None
            if reason != "":
                allowed = " or ".join(repr(key) for key, refused in words.items() if not refused)
                why = f": {reason}" if reason else ""
                raise ValueError(f"{name} must be {allowed}, got {word!r}{why}")
        self._refuse_splitting()

    def _refuse_splitting(self) -> None:
        if self.submodels == 1:
            return
        if self.observer != "sums":
            raise ValueError(
                f"submodels must be 1 for observer {self.observer!r}, got {self.submodels}: an upload shows "
                "which submodel it trains"
            )
        if self.adjacency == "record" and self.records_per_client > 1:
            raise ValueError(
                f"submodels must be 1 for adjacency 'record' and clients with several records, got "
                f"{self.submodels}: a client's records share its submodel, which no theorem here covers"
            )

    @property
    def client_rate(self) -> float:
        """Probability that a participant draws at least one of its records."""
        with np.errstate(divide="ignore"):
            return float(-np.expm1(self.records_per_client * np.log1p(-self.local_rate)))

    def mechanism(self, sigma: float) -> Mechanism:
        """One round.

        A client as a whole contributes whenever it draws a record, and its direction may depend on what it
        draws: divergences from the sum without it are jointly convex, so that one fixed direction is worst. A
        client of one record is that record.

        Args:
            sigma: standard deviation of the noise on what the observer sees, > 0: on the sum, or on every upload
                for observer "uploads".

        Returns:
            the mechanism, with d, the number of the client's other records, filled in.
        """
        p, q, clip = self.participation, self.local_rate, self.clip
        if self.adjacency == "client":
            q = self.client_rate
        if self.observer != "sums":
            return WeakClientSampling(sigma, p=p, q=q, clip=clip)
        if self.submodels > 1:
            return ModelSplitting(sigma, submodels=self.submodels, rate=p * q, clip=clip)
        if self.adjacency == "client" or self.records_per_client == 1:
            return PoissonGaussian(sigma, rate=p * q, sensitivity=clip)
        if p == 1:
            return OnlyLocalSampling(sigma, q=q, clip=clip)
        others = self.records_per_client - 1
        return RandomParticipation(sigma, p=p, q=q, samples_per_client=others, clip=clip)

    def run(self, sigma: float) -> Composed:
        """All rounds; see `mechanism`."""
        return compose(self.mechanism(sigma), self.rounds)

    @property
    def noise_range(self) -> tuple[float, float]:
        """Least and largest sigma that `noise` looks at: 0.01 and 10,000 times the clip."""
        return 1e-2 * self.clip, 1e4 * self.clip

    def noise(
        self,
        *,
        epsilon: float,
        delta: float,
        rtol: float = 1e-3,
        progress: Callable[[float], object] | None = None,
    ) -> float:
        """The smallest sigma whose run is (epsilon, delta)-private, to a relative width of `rtol`.

        `progress` is called with each sigma that is tried.

        Raises:
            ValueError: an argument out of range, or no sigma in [0.01, 10,000] times the clip is the smallest.
        """
        # Where T p q^2 (exp(clip^2 / sigma^2) - 1) has the mu^2 of the target: the limit of many rounds when
        # participants are seen. It only decides where the search starts.
        single = calibrate_sigma(GaussianMechanism, epsilon=epsilon, delta=delta, rtol=1e-3)
        drawn = self.client_rate if self.adjacency == "client" else self.local_rate
        spread = max(single**2 * self.rounds * self.participation * drawn**2, 1e-6)
        guess = self.clip / math.sqrt(math.log1p(1 / spread))
        return calibrate_sigma(
            self.run,
            epsilon=epsilon,
            delta=delta,
            bounds=self.noise_range,
            rtol=rtol,
            guess=guess,
            progress=progress,
        )
