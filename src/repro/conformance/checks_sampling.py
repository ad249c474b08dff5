"""Is sampling what was promised? Each unit, pairs, sizes, rounds; and records within a client."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from repro.conformance.adapter import Array, Promise
from repro.conformance.findings import (
    Finding,
    binomial,
    exact,
    goodness,
    smallest,
    two_sided,
    worst,
)


@dataclass(frozen=True)
class Scheme:
    """The promised law of who takes part.

    Attributes:
        rate: of each unit in a round.
        same: of two units of one client together in a round.
        apart: of two units of different clients.
        again: of a unit in two given rounds.
        of_client: law of the number of a client's units in a round, shape (units of a client + 1,).
        sizes: law of the number of units in a round, shape (units + 1,).
        fresh: whether rounds are independent.
    """

    rate: float
    same: float
    apart: float
    again: float
    of_client: Array
    sizes: Array
    fresh: bool


@lru_cache(maxsize=64)
def scheme(promise: Promise) -> Scheme:
    """The law that `promise` implies."""
    units, each, clients = promise.units, promise.per_client, promise.clients
    p, q = promise.participation, promise.local_rate
    if promise.sampling == "balanced":
        k, rounds = promise.participations, promise.rounds
        rate = k / rounds
        again = rate * (k - 1) / max(1, rounds - 1)
        of_client = binom.pmf(np.arange(each + 1), each, rate)
        sizes = binom.pmf(np.arange(units + 1), units, rate)
        return Scheme(rate, rate**2, rate**2, again, of_client, sizes, False)
    if promise.unit == "client":
        p *= 1 - (1 - q) ** promise.records if promise.sampling == "poisson" else 1
        q = 1.0
    rate = p * q
    if promise.sampling == "poisson":
        of_client = p * binom.pmf(np.arange(each + 1), each, q)
        of_client[0] += 1 - p
        sizes = np.ones(1)
        for _ in range(clients):
            sizes = np.convolve(sizes, of_client)
        return Scheme(rate, p * q**2, rate**2, rate**2, of_client, sizes, True)
    some, drawn = round(p * clients), round(q * each)
    of_client = np.zeros(each + 1)
    of_client[0], of_client[drawn] = 1 - p, p
    sizes = np.zeros(units + 1)
    sizes[some * drawn] = 1.0
    same = p * q * (drawn - 1) / max(1, each - 1)
    apart = p * (some - 1) / max(1, clients - 1) * q**2
    return Scheme(rate, same, apart, rate**2, of_client, sizes, True)


def check(promise: Promise, present: NDArray[np.bool_], where: str) -> list[Finding]:
    """All checks on who took part.

    Args:
        promise: of the engine.
        present: shape (repetitions, rounds, units).
        where: in what data, for the names of the findings.
    """
    law = scheme(promise)
    found = [_overall(promise, law, present, where), _each(law, present, where)]
    if 0 < law.rate < 1:
        found.append(_sizes(law, present, where))
        found.append(_pairs(promise, law, present, where))
        if promise.per_client > 1 and promise.clients > 1:
            found.append(_within(promise, law, present, where))
        if promise.rounds > 1:
            found.append(_rounds(promise, law, present, where))
    return found


def _overall(promise: Promise, law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    name = f"sampling, rate over all units and rounds, {where}"
    means = present.mean(axis=(1, 2))
    share = float(means.mean())
    evidence = f"rate {share:.4f}, promised {law.rate:.4f}"
    units = np.arange(len(law.sizes))
    variance = law.sizes @ units**2 - (law.sizes @ units) ** 2
    if not law.fresh or variance < 1e-12:
        return exact(name, np.abs(means - law.rate).max() > 1e-9, evidence, 1e-9)
    error = np.sqrt(variance / present.shape[1] / len(means)) / promise.units
    p_value = float(two_sided((share - law.rate) / error))
    return Finding(
        name, evidence, p_value, detects=smallest(error / law.rate, "a relative change of")
    )


def _each(law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    name = f"sampling, each unit in each round, {where}"
    counts = present.sum(axis=0)
    shares = counts / len(present)
    far = shares.ravel()[np.argmax(np.abs(shares - law.rate))]
    evidence = f"the farthest rate is {far:.4f}, promised {law.rate:.4f}"
    if law.rate in (0, 1):
        return exact(name, far != law.rate, evidence, 1e-9)
    if law.fresh:  # rounds together: more power for each unit
        whole = binomial(counts.sum(axis=0), len(present) * len(counts), law.rate)
        values = [*whole, *binomial(counts, len(present), law.rate).ravel()]
    else:
        values = binomial(counts, len(present), law.rate).ravel()
    error = np.sqrt((1 - law.rate) / law.rate / len(present))
    detects = smallest(error, "a relative change for one unit in one round of")
    return Finding(name, evidence, worst(values), detects=detects)


def _one_round(law: Scheme, values: np.ndarray) -> np.ndarray:
    """Independent outcomes, from shape (repetitions, rounds, ...): all rounds, or one of each."""
    if law.fresh:
        return values.reshape(-1, *values.shape[2:])
    places = np.arange(len(values))
    return values[places, places % values.shape[1]]


def _sizes(law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    sizes = _one_round(law, present.sum(axis=2))
    spread = (
        law.sizes @ np.arange(len(law.sizes)) ** 2 - (law.sizes @ np.arange(len(law.sizes))) ** 2
    )
    return Finding(
        f"sampling, number of units in a round, {where}",
        f"variance {sizes.var():.3f}, promised {spread:.3f}",
        goodness(sizes, law.sizes),
        detects=smallest(np.sqrt(2 / len(sizes)), "a relative change of the variance of about"),
    )


def _pairs(promise: Promise, law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    taken = _one_round(law, present).astype(float)
    together = taken.T @ taken
    first, second = np.triu_indices(promise.units, 1)
    same = first // promise.per_client == second // promise.per_client
    promised = np.where(same, law.same, law.apart)
    counts = np.rint(together[first, second]).astype(int)
    values = binomial(counts, len(taken), promised)
    far = int(np.argmin(values))
    error = np.sqrt(promised[far] * (1 - promised[far]) / len(taken))
    return Finding(
        f"sampling, pairs of units in a round, {where}",
        f"units {first[far]} and {second[far]} together in {counts[far] / len(taken):.4f} of the rounds, "
        f"promised {promised[far]:.4f}",
        worst(values),
        detects=smallest(error, "a change for one pair of"),
    )


def _within(promise: Promise, law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    """A client's units, given that it takes part: the nested draw."""
    by_client = present.reshape(*present.shape[:2], promise.clients, promise.per_client).sum(axis=3)
    taken = _one_round(law, by_client)
    values = [goodness(taken[:, k], law.of_client) for k in range(promise.clients)]
    share = float((taken > 0).mean())
    return Finding(
        f"sampling, units of one client in a round, {where}",
        f"a client has units in {share:.4f} of the rounds, promised {1 - law.of_client[0]:.4f}",
        worst(values),
        detects=smallest(
            np.sqrt(law.of_client[0] / (1 - law.of_client[0]) / len(taken)),
            "a relative change of one client's rate of",
        ),
    )


def _rounds(promise: Promise, law: Scheme, present: NDArray[np.bool_], where: str) -> Finding:
    """The same unit in two rounds; every participation counted where the number is promised."""
    name = f"sampling, the same unit in two rounds, {where}"
    if not law.fresh:
        counts = present.sum(axis=1)
        if (counts != promise.participations).any():
            evidence = f"{counts.min()} to {counts.max()} participations, promised {promise.participations}"
            return exact(name, True, evidence, 1e-9)
    pairs = list(combinations(range(present.shape[1]), 2))
    counts = np.stack([(present[:, a] & present[:, b]).sum(axis=0) for a, b in pairs])
    values = binomial(counts, len(present), law.again)
    far = counts.ravel()[np.argmin(values)] / len(present)
    error = np.sqrt(law.again * (1 - law.again) / len(present))
    return Finding(
        name,
        f"the farthest rate is {far:.4f}, promised {law.again:.4f}",
        worst(values),
        detects=smallest(error, "a change for one unit and two rounds of"),
    )
