"""Exercises of lesson 4: noise and shares. Routes: small rings enumerated, the library's ring, densities on grids."""

from __future__ import annotations

from itertools import product

import numpy as np

from repro.secagg import Ring
from reproduce.papers.second_routes import Mixture
from reproduce.teaching import wrong_proofs
from reproduce.teaching.checks import Cases, Exercise, Lesson, limit, moves, near, sorts
from reproduce.teaching.games import Game

SECRET = 0.3
"""A value that is no multiple of the step of coarse noise."""


def one_upload(scale: float, seed: int = 0) -> Game:
    """One client's number, which its record moves by 1, with Laplace noise of this scale."""
    inside, outside = (Mixture(np.ones(1), np.array([[m]])) for m in (1.0, 0.0))
    return Game(inside, outside, scale * np.sqrt(2), seed, law="laplace")


def coarse_outputs(secret: float, count: int = 40, seed: int = 0) -> list[float]:
    """A value plus noise whose every value is a multiple of 1/8, as floating-point noise is of its last bit."""
    return (secret + np.random.default_rng(seed).integers(-30, 31, count) / 8).tolist()


def _completing(secret: int, first: int, second: int) -> int:
    return next(x for x in range(7) if (first + second + x - secret) % 7 == 0)


def _ways(modulus: int, servers: int) -> int:
    return sum(sum(shares) % modulus == 1 for shares in product(range(modulus), repeat=servers))


def _signed(element: int, modulus: int) -> int:
    ring = Ring(modulus)
    return int(ring.centre(np.array([element % modulus], dtype=np.uint64))[0])


def _largest(modulus: int, clients: int) -> int:
    """Tried one after the other: the largest size at which both extreme sums come back."""
    fits = [
        size
        for size in range(modulus)
        if all(_signed(sign * size * clients, modulus) == sign * size * clients for sign in (1, -1))
    ]
    return max(fits)


def _rounded(decimals: int, clients: int) -> float:
    values = np.linspace(0, 1, 100 * 10**decimals + 1)
    return clients * float(np.abs(np.round(values, decimals) - values).max())


def _ratio(sensitivity: float, scale: float) -> float:
    """Largest logarithm of the ratio of two densities on a grid."""
    place = np.linspace(-20, 20, 2001) * scale
    return float(((np.abs(place) - np.abs(place - sensitivity)) / scale).max())


def _spread(scale: float, clients: int) -> float:
    """Second moment of one noise on a grid, then independent noises."""
    place = np.linspace(-40, 40, 40_001) * scale
    weight = np.exp(-np.abs(place) / scale)
    return float(np.sqrt(clients * (weight @ place**2) / weight.sum()))


def _broken(chance: float, servers: int) -> float:
    """All settings of honest and corrupt servers."""
    return sum(
        float(np.prod([chance if corrupt else 1 - chance for corrupt in setting]))
        for setting in product((0, 1), repeat=servers)
        if all(setting)
    )


# Programs that a learner's test sorts ---------------------------------------------------------------


def _uniform(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    first = rng.integers(0, modulus, servers - 1)
    return [*first.tolist(), int((secret - first.sum()) % modulus)]


def _last_first(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    return _uniform(secret, servers, modulus, rng)[::-1]


def _one_missing(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    first = rng.integers(0, modulus - 1, servers - 1)
    return [*first.tolist(), int((secret - first.sum()) % modulus)]


def _off_by_one(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    first = rng.integers(0, modulus, servers - 1)
    return [*first.tolist(), int((secret - first.sum()) % (modulus + 1))]


def _bare(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    return [0] * (servers - 1) + [secret % modulus]


def _repeated(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    """One random number for all servers but the last."""
    mask = int(rng.integers(modulus))
    return [mask] * (servers - 1) + [(secret - (servers - 1) * mask) % modulus]


def _near_secret(secret: int, servers: int, modulus: int, rng: np.random.Generator) -> list[int]:
    """The secret split into equal parts, each with a little noise."""
    first = (secret // servers + rng.integers(-1, 2, servers - 1)) % modulus
    return [*first.tolist(), int((secret - first.sum()) % modulus)]


SHARERS = {
    "right": (_uniform, _last_first),
    "wrong": (_one_missing, _off_by_one, _bare, _repeated, _near_secret),
}
"""Programs that say they split a secret so that all servers but one learn nothing."""


LESSON = Lesson(
    [
        Exercise(
            "4.1",
            "the last share",
            (
                near(
                    "all three shares add up to the secret modulo 7, tried one after the other",
                    Cases(secret=(0, 6), first=(0, 6), second=(0, 6)),
                    _completing,
                    0.0,
                ),
            ),
        ),
        Exercise(
            "4.2",
            "how many ways to share one secret",
            (
                near("all ways, counted", Cases(modulus=(2, 7), servers=(2, 4)), _ways, 0.0),
                limit("one server has the secret itself", 1, modulus=7, servers=1),
            ),
        ),
        Exercise(
            "4.3",
            "back to signed numbers",
            (
                near(
                    "the library's ring says the same",
                    Cases(element=(0, 30), modulus=(31,)),
                    _signed,
                    0.0,
                ),
                near("and modulo 7", Cases(element=(0, 6), modulus=(7,)), _signed, 0.0),
            ),
        ),
        Exercise(
            "4.4",
            "how large may a number be",
            (
                near(
                    "the largest size at which no sum wraps, tried one after the other",
                    Cases(modulus=(31, 301), clients=(1, 9)),
                    _largest,
                    0.0,
                ),
            ),
        ),
        Exercise(
            "4.5",
            "what rounding costs",
            (
                near(
                    "the worst of many values",
                    Cases(decimals=(0, 3), clients=(1, 20)),
                    _rounded,
                    1e-6,
                ),
                moves(
                    "more clients, more error",
                    Cases(decimals=(0, 3), clients=(1, 20)),
                    "clients",
                    2,
                    True,
                ),
            ),
        ),
        Exercise(
            "4.6",
            "epsilon of Laplace noise",
            (
                near(
                    "it is the largest ratio of both densities",
                    Cases(sensitivity=(0.1, 5.0), scale=(0.5, 10.0)),
                    _ratio,
                    1e-6,
                ),
            ),
        ),
        Exercise(
            "4.7",
            "the noise of a sum",
            (
                near(
                    "it is the spread of independent noises, summed on a grid",
                    Cases(scale=(0.2, 5.0), clients=(1, 100)),
                    _spread,
                ),
                moves(
                    "more clients, more noise",
                    Cases(scale=(0.2, 5.0), clients=(1, 100)),
                    "clients",
                    2,
                    True,
                ),
            ),
        ),
        Exercise(
            "4.8",
            "what a reader with friends cannot subtract",
            (
                near(
                    "it is the spread of the noises of all others",
                    Cases(scale=(0.2, 5.0), clients=(10, 50), friends=(0, 9)),
                    lambda scale, clients, friends: _spread(scale, clients - friends),
                ),
                limit(
                    "all others are friends: one noise is left",
                    np.sqrt(2),
                    scale=1.0,
                    clients=5,
                    friends=4,
                ),
            ),
        ),
        Exercise(
            "4.9",
            "all servers corrupt",
            (
                near(
                    "all settings of the servers",
                    Cases(chance=(0.01, 0.9), servers=(2, 5)),
                    _broken,
                    1e-9,
                ),
                moves(
                    "more servers, safer",
                    Cases(chance=(0.01, 0.9), servers=(2, 5)),
                    "servers",
                    2,
                    False,
                ),
            ),
        ),
        Exercise(
            "4.10",
            "find the bug: the last digits",
            (
                sorts(
                    "your function tells both values apart by every single output",
                    coarse_outputs(SECRET),
                    coarse_outputs(0.0),
                ),
            ),
        ),
        Exercise(
            "4.11",
            "find the bug: do the shares hide?",
            (
                sorts(
                    "your test accepts every right program and rejects every wrong one",
                    SHARERS["right"],
                    SHARERS["wrong"],
                ),
            ),
        ),
        Exercise("4.12", "find the bug: a wrong proof", wrong_proofs.SUMMED_NOISE.refuted()),
    ]
)
