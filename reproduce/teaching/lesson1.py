"""Exercises of lesson 1: random participation. Routes: enumerated coins, grids, and the library's two-sided bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.stats import binom, norm

from repro.accounting import (
    InvalidBoundWarning,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
)
from reproduce.papers.second_routes import client_pair, grid_divergence
from reproduce.teaching import wrong_proofs
from reproduce.teaching.checks import (
    Cases,
    Exercise,
    Lesson,
    between,
    holds,
    limit,
    moves,
    near,
    sorts,
)
from reproduce.teaching.games import Game

Accountant = Callable[..., float]


def one_other(p: float, q: float, sigma: float, angle: float, seed: int = 0) -> Game:
    """Ada's record and one other record of her client, gradients of norm 1 at an angle in degrees.

    At 0 and 180 degrees the game is played on a line, else in the plane.
    """
    turned = np.round([np.cos(np.radians(angle)), np.sin(np.radians(angle))], 12)
    others, record = (turned[:1], [1.0]) if turned[1] == 0 else (turned, [1.0, 0.0])
    with_record, without = client_pair(np.atleast_2d(others), np.array(record), p, q)
    return Game(with_record, without, sigma, seed)


def printed(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    """Theorem 4.1 as the paper prints it, without the library's warning that it is no bound."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidBoundWarning)
        mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=others)
        return float(mechanism.delta(epsilon, method="paper"))


def _coins(p: float, q: float) -> list[float]:
    """Shares of all eight settings of three fair-minded coins: client, Ada's record, one that does not matter."""
    found = np.zeros(3)
    for client in (0, 1):
        for record in (0, 1):
            chance = (p if client else 1 - p) * (q if record else 1 - q)
            found[client * (1 + record)] += chance
    return found.tolist()


def _batch(clients: int, records: int, p: float, q: float) -> float:
    """Mean of the batch, from the law of the number of participating clients."""
    there = np.arange(clients + 1)
    drawn = np.arange(records + 1)
    return float(there @ binom.pmf(there, clients, p) * (drawn @ binom.pmf(drawn, records, q)))


def _sampled_coin(epsilon: float, rate: float) -> float:
    """Loss of a coin with two answers of ratio e^epsilon that is used with a chance, else ignored."""
    truth = 1 / (1 + np.exp(-epsilon))
    other = np.array([1 - truth, truth])
    mixed = rate * np.array([truth, 1 - truth]) + (1 - rate) * other
    return float(np.log(mixed / other).max())


def _alone(epsilon: float, sigma: float, p: float, q: float) -> float:
    with_record, without = client_pair(np.zeros((0, 1)), np.array([1.0]), p, q)
    return grid_divergence(with_record, without, sigma, np.exp(epsilon), 4001)


def _counts(p: float, q: float) -> list[float]:
    """Chances of the sums 0, 1 and 2, all coins enumerated."""
    law, _ = client_pair(np.ones((1, 1)), np.array([1.0]), p, q)
    return [float(law.weights[np.isclose(law.means[:, 0], k)].sum()) for k in range(3)]


def _half_line(threshold: float, epsilon: float, sigma: float, p: float, q: float) -> float:
    """P(S) - e^epsilon Q(S) of the half-line above a threshold, the other record without gradient."""
    pair = client_pair(np.zeros((1, 1)), np.array([1.0]), p, q)
    first, second = (m.weights @ norm.sf(threshold, m.means[:, 0], sigma) for m in pair)
    return float(first - np.exp(epsilon) * second)


def _noiseless(epsilon: float, p: float, q: float, same: int) -> float:
    """The two laws as tables over distinct sums, all coins enumerated."""
    other = np.array([[1.0, 0.0]]) if same else np.array([[0.0, 1.0]])
    pair = client_pair(other, np.array([1.0, 0.0]), p, q)
    places = np.unique(np.vstack([m.means for m in pair]), axis=0)
    tables = [[m.weights[np.all(m.means == place, axis=1)].sum() for place in places] for m in pair]
    first, second = np.array(tables)
    return float(np.maximum(first - np.exp(epsilon) * second, 0).sum())


def _one(epsilon: float, sigma: float, p: float, q: float, method: str) -> float:
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=1)
    return float(mechanism.delta(epsilon, direction="remove", method=method))


# Accountants that a learner's test sorts -----------------------------------------------------------


def _repaired(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    return float(RandomParticipation(sigma, p=p, q=q, samples_per_client=others).delta(epsilon))


def _told(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    return float(WeakClientSampling(sigma, p=p, q=q).delta(epsilon))


def _local(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    return float(OnlyLocalSampling(sigma, q=q).delta(epsilon))


def _multiplied(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    return float(PoissonGaussian(sigma, rate=p * q).delta(epsilon))


def _swapped(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    """The client's coin and the records' coin in each other's place."""
    return float(WeakClientSampling(sigma, p=q, q=p).delta(epsilon))


def _shared(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    """The bound divided among the client's records."""
    return _repaired(epsilon, sigma, p, q, others) / (others + 1)


def _one_way(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    mechanism = RandomParticipation(sigma, p=p, q=q, samples_per_client=others)
    return float(mechanism.delta(epsilon, direction="add"))


def _one_other_only(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    """The bound for one other record, for any number of them."""
    return _repaired(epsilon, sigma, p, q, min(others, 1))


def _tail(epsilon: float, sigma: float, p: float, q: float, others: int) -> float:
    """Mallory's bound by a tail that falls on both sides: right for large epsilon only."""
    inner = np.log1p(np.expm1(epsilon) / q)
    return float(p * q * np.exp(-((inner * sigma - 1 / (2 * sigma)) ** 2) / 2) / 2)


ACCOUNTANTS = {
    "right": (_repaired, _told, _local),
    "wrong": (_multiplied, printed, _swapped, _shared, _one_way, _one_other_only, _tail),
}
"""Functions that say they bound delta for every data set, in both directions."""

_RATES = {"p": (0.05, 0.95), "q": (0.05, 0.95)}
_SETTING = {"epsilon": (0.0, 1.0), "sigma": (0.3, 1.2)}
_SHARP = {"epsilon": (0.1, 1.0), "sigma": (0.3, 0.8), "p": (0.6, 0.95), "q": (0.1, 0.5)}
"""Where equal gradients are not the worst, so that one formula holds."""


LESSON = Lesson(
    [
        Exercise(
            "1.1",
            "the three cases of a record",
            (
                near("it agrees with all coins enumerated", Cases(**_RATES), _coins, 1e-6),
                holds(
                    "the three chances add up to 1",
                    Cases(**_RATES),
                    lambda answer, at: abs(sum(answer(**at)) - 1) < 1e-9,
                ),
            ),
        ),
        Exercise(
            "1.2",
            "the mean batch",
            (
                near(
                    "it is the mean over all coins",
                    Cases(clients=(1, 40), records=(1, 40), **_RATES),
                    _batch,
                    1e-6,
                ),
                limit("nobody takes part", 0.0, clients=10, records=10, p=0.0, q=0.5),
                limit(
                    "everybody takes part with everything",
                    100.0,
                    clients=10,
                    records=10,
                    p=1.0,
                    q=1.0,
                ),
            ),
        ),
        Exercise(
            "1.3",
            "what a coin in front saves",
            (
                near(
                    "it is the loss of a two-answer coin that is used with this rate",
                    Cases(epsilon=(0.05, 3.0), rate=(0.01, 1.0)),
                    _sampled_coin,
                    1e-6,
                ),
                limit("rate 1 saves nothing", 0.8, epsilon=0.8, rate=1.0),
                limit("rate 0 shows nothing", 0.0, epsilon=0.8, rate=0.0),
            ),
        ),
        Exercise(
            "1.4",
            "a client with one record only",
            (
                near("it is the sum over all events", Cases(**_SETTING, **_RATES), _alone, 2e-3),
                limit(
                    "without noise a drawn record shows",
                    0.25,
                    epsilon=1.0,
                    sigma=0.01,
                    p=0.5,
                    q=0.5,
                ),
                moves(
                    "a larger p leaks more",
                    Cases(**_SETTING, p=(0.1, 0.6), q=(0.2, 0.9)),
                    "p",
                    1.5,
                    True,
                ),
            ),
        ),
        Exercise(
            "1.5",
            "Mallory sees who takes part",
            (
                near(
                    "it is what the library computes for disclosed clients",
                    Cases(**_SETTING, **_RATES),
                    lambda epsilon, sigma, p, q: float(
                        WeakClientSampling(sigma, p=p, q=q).delta(epsilon)
                    ),
                ),
                limit(
                    "without noise a drawn record shows",
                    0.25,
                    epsilon=1.0,
                    sigma=0.01,
                    p=0.5,
                    q=0.5,
                ),
                holds(
                    "Mallory never knows less than Eve, who sees the sum of a client without other records",
                    Cases(**_SETTING, **_RATES),
                    lambda answer, at: bool(
                        answer(**at)
                        >= PoissonGaussian(at["sigma"], rate=at["p"] * at["q"]).delta(at["epsilon"])
                        - 1e-9
                    ),
                ),
            ),
        ),
        Exercise(
            "1.6",
            "one other record: the sums 0, 1 and 2",
            (
                near("it agrees with all coins enumerated", Cases(**_RATES), _counts, 1e-6),
                holds(
                    "the three chances add up to 1",
                    Cases(**_RATES),
                    lambda answer, at: abs(sum(answer(**at)) - 1) < 1e-9,
                ),
            ),
        ),
        Exercise(
            "1.7",
            "who gives the client away",
            (
                near(
                    "it is one minus all ways in which no other record is drawn",
                    Cases(p=(0.01, 1.0), q=(0.01, 0.9), others=(0, 50)),
                    lambda p, q, others: p * (1 - binom.pmf(0, others, q)),
                    1e-6,
                ),
                limit("no other records, nothing given away", 0.0, p=0.5, q=0.5, others=0),
                limit(
                    "many others: whenever the client takes part", 0.3, p=0.3, q=0.5, others=1000
                ),
            ),
        ),
        Exercise(
            "1.8",
            "by hand, without noise",
            (
                near(
                    "it is the sum over the table of all outcomes",
                    Cases(epsilon=(0.0, 2.0), same=(0, 1), **_RATES),
                    _noiseless,
                    1e-6,
                ),
                limit("the blackboard, other directions", 0.5, epsilon=0.1, p=1.0, q=0.5, same=0),
                limit("the blackboard, same direction", 0.25, epsilon=0.1, p=1.0, q=0.5, same=1),
            ),
        ),
        Exercise(
            "1.9",
            "the half-line that breaks the theorem",
            (
                near(
                    "it is P(S) - e^ε Q(S) by all coins",
                    Cases(threshold=(-1.0, 2.0), **_SETTING, **_RATES),
                    _half_line,
                    1e-4,
                ),
                limit(
                    "an event that always happens: 1 - e^ε",
                    1 - np.e,
                    1e-6,
                    threshold=-50.0,
                    epsilon=1.0,
                    sigma=1.0,
                    p=0.5,
                    q=0.5,
                ),
            ),
        ),
        Exercise("1.10", "find the bug: a wrong proof", wrong_proofs.EQUAL_GRADIENTS.refuted()),
        Exercise(
            "1.11",
            "the repaired bound for one other record",
            (
                between(
                    "it lies between what a data set at the worst angle leaks and the repaired theorem",
                    Cases(**_SHARP),
                    lambda **at: 0.998 * _one(**at, method="lower"),
                    lambda **at: 1.0001 * _one(**at, method="upper"),
                ),
                holds(
                    "it is never below what the other record leaks when it has no gradient",
                    Cases(**_SHARP),
                    lambda answer, at: bool(answer(**at) >= 0.999 * _alone(**at)),
                ),
            ),
        ),
        Exercise(
            "1.12",
            "find the bug: is the accountant safe?",
            (
                sorts(
                    "your test accepts every safe accountant and rejects every unsafe one",
                    ACCOUNTANTS["right"],
                    ACCOUNTANTS["wrong"],
                ),
            ),
        ),
    ]
)
