"""Adapter of pfl-research: its samplers of users, and its Gaussian mechanism applied centrally.

Runs in an environment of its own with the packages pfl, numpy, scipy, dp-accounting and mpmath.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from importlib import metadata
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from pfl.stats import MappedVectorStatistics

from repro.conformance import Promise

Array = NDArray[np.float64]

NOTES = """\
pfl 0.6.0 (pfl-research) simulates federated learning. Its parts are called here as its loop calls them: a cohort from
a `FederatedDataset`, `postprocess_one_user` and `postprocess_server` of `CentrallyAppliedPrivacyMechanism` around
`GaussianMechanism`, and the average over the cohort. A user is the unit of privacy; the size of the cohort is public.
The printed epsilon is that of `PLDPrivacyAccountant` with the cohort's share of the users as its
`sampling_probability`. This account is that of Poisson sampling. The two samplers of users draw something else:
"random" draws with replacement, so that a user may come twice in a cohort, and "minimize_reuse" goes through the
users in turn, which its documentation says is meant to mimic devices. The first two examinations show that the
account is not that of these samplers: whoever quotes the epsilon for a deployment needs a sampler that fits it. The
third examination takes all users in each round, where both agree. Noise comes from numpy's global generator. Not
examined: other mechanisms, weights of users, adaptive clipping, several workers."""

REPETITIONS = 400

_USERS, _ROUNDS, _MULTIPLIER, _DELTA = 5, 2, 1.2, 1e-5


@dataclass(frozen=True)
class Pfl:
    """Cohorts of users whose statistics are their vectors.

    Attributes:
        promise: see `Promise`.
        sampler: the package's name of the sampler of users.
    """

    promise: Promise
    sampler: str
    can_silence: bool = True

    @property
    def name(self) -> str:
        """The version, the sampler and the cohort."""
        cohort = f"cohorts of {self.promise.divisor:g} out of {self.promise.clients}"
        return f"pfl {metadata.version('pfl')}, sampler {self.sampler}, {cohort}"

    def run(
        self,
        vectors: Array,
        owner: NDArray[np.int64],
        *,
        repetitions: int,
        rounds: int,
        noise: bool,
        seed: int,
    ) -> Array:
        """See `repro.conformance.Engine.run`."""
        random.seed(seed)
        np.random.seed(seed % 2**32)
        promise = self.promise
        multiplier = promise.noise_multiplier if noise else 0.0
        private = CentrallyAppliedPrivacyMechanism(GaussianMechanism(promise.clip, multiplier))
        updates = np.zeros((owner.max() + 1, vectors.shape[1]))
        np.add.at(updates, owner, vectors)
        asked = SimpleNamespace(seed=None, cohort_size=int(promise.divisor))
        released = np.empty((repetitions, rounds, 1, updates.shape[1]))
        for repetition in range(repetitions):
            sampler = get_user_sampler(self.sampler, list(range(len(updates))))
            users = FederatedDataset(lambda user: updates[user], sampler)
            for t in range(rounds):
                total = None
                for update, _ in users.get_cohort(asked.cohort_size):
                    own = MappedVectorStatistics({"weights": update.copy()})
                    own, _ = private.postprocess_one_user(stats=own, user_context=asked)
                    total = own if total is None else total + own
                total, _ = private.postprocess_server(
                    stats=total, central_context=asked, aggregate_metrics=None
                )
                total.average()
                released[repetition, t, 0] = total["weights"]
        return released


def engines() -> list[Pfl]:
    """Two samplers at the account of Poisson sampling, and all users in each round."""
    promise = Promise(
        clients=_USERS,
        records=1,
        rounds=_ROUNDS,
        clip=1.0,
        noise_multiplier=_MULTIPLIER,
        divisor=2,
        unit="client",
        participation=2 / _USERS,
        adjacency="zero_out",
        delta=_DELTA,
    )
    everybody = replace(promise, divisor=_USERS, participation=1.0)
    some, everybody = (replace(p, epsilon=_printed(p.participation)) for p in (promise, everybody))
    return [
        Pfl(some, "random"),
        Pfl(some, "minimize_reuse"),
        Pfl(everybody, "minimize_reuse"),
    ]


def _printed(rate: float) -> float:
    """What the accountant prints for all rounds."""
    given = {"delta": _DELTA, "noise_parameter": _MULTIPLIER}
    return float(PLDPrivacyAccountant(_ROUNDS, rate, "gaussian", **given).epsilon)
