"""Lesson 4: every solution is accepted, mistakes that people make are rejected, the game obeys the library."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

import lessons
from repro.accounting.laplace import SummedLaplace
from reproduce.teaching.games import Game, allowed
from reproduce.teaching.lesson4 import LESSON, SHARERS, one_upload

RIGHT = lessons.answers("lesson4")


def _sums_only(sharer):
    rng = np.random.default_rng(1)
    return all(sum(sharer(5, 3, 7, rng)) % 7 == 5 for _ in range(500))


def _single_shares(sharer):
    rng = np.random.default_rng(1)
    shares = np.array([sharer(5, 3, 7, rng) for _ in range(7000)])
    counts = np.array([np.bincount(column, minlength=8) for column in shares.T])
    return bool(
        np.all((shares.sum(axis=1) - 5) % 7 == 0) and np.abs(counts[:, :7] - 1000).max() < 200
    )


WRONG = {
    "4.1": {
        "rest with its sign": lambda secret, first, second: int(
            np.fmod(secret - first - second, 7)
        ),
        "the other sign": lambda secret, first, second: (first + second - secret) % 7,
        "no modulus": lambda secret, first, second: secret - first - second,
        "added": lambda secret, first, second: (secret + first + second) % 7,
        "one forgotten": lambda secret, first, second: (secret - first) % 7,
        "other modulus": lambda secret, first, second: (secret - first - second) % 8,
        "secret forgotten": lambda secret, first, second: -(first + second) % 7,
        "absolute": lambda secret, first, second: abs(secret - first - second) % 7,
    },
    "4.2": {
        "order left out": lambda modulus, servers: comb(modulus + servers - 1, servers - 1),
        "all free": lambda modulus, servers: modulus**servers,
        "multiplied": lambda modulus, servers: modulus * (servers - 1),
        "exchanged": lambda modulus, servers: servers ** (modulus - 1),
        "one less": lambda modulus, servers: (modulus - 1) ** (servers - 1),
        "two free": lambda modulus, servers: modulus ** max(servers - 2, 0),
    },
    "4.3": {
        "never negative": lambda element, modulus: element,
        "always moved": lambda element, modulus: element - modulus,
        "half too early": lambda element, modulus: (
            element if element < (modulus - 1) // 2 else element - modulus
        ),
        "centred": lambda element, modulus: element - (modulus - 1) // 2,
        "mirrored": lambda element, modulus: (
            element if element <= modulus // 2 else modulus - element
        ),
        "half too late": lambda element, modulus: (
            element if element <= (modulus + 1) // 2 else element - modulus
        ),
    },
    "4.4": {
        "rounded": lambda modulus, clients: round((modulus - 1) / 2 / clients),
        "ring shared first": lambda modulus, clients: (modulus // clients - 1) // 2,
        "whole ring": lambda modulus, clients: (modulus - 1) // clients,
        "one client": lambda modulus, clients: (modulus - 1) // 2,
        "root": lambda modulus, clients: int((modulus - 1) / 2 / np.sqrt(clients)),
        "not whole": lambda modulus, clients: (modulus - 1) / 2 / clients,
        "one too large": lambda modulus, clients: (modulus - 1) // 2 // clients + 1,
        "multiplied": lambda modulus, clients: (modulus - 1) // 2 * clients,
    },
    "4.5": {
        "uniform noise": lambda decimals, clients: np.sqrt(clients / 12) * 10.0**-decimals,
        "whole place": lambda decimals, clients: clients * 10.0**-decimals,
        "one client": lambda decimals, clients: 0.5 * 10.0**-decimals,
        "root": lambda decimals, clients: np.sqrt(clients) * 0.5 * 10.0**-decimals,
        "base 2": lambda decimals, clients: clients * 0.5 * 2.0**-decimals,
        "sign of the power": lambda decimals, clients: clients * 0.5 * 10.0**decimals,
        "mean error": lambda decimals, clients: clients * 0.25 * 10.0**-decimals,
    },
    "4.6": {
        "multiplied": lambda sensitivity, scale: sensitivity * scale,
        "upside down": lambda sensitivity, scale: scale / sensitivity,
        "deviation": lambda sensitivity, scale: sensitivity / (scale * np.sqrt(2)),
        "variance": lambda sensitivity, scale: sensitivity / scale**2,
        "ratio": lambda sensitivity, scale: np.exp(sensitivity / scale),
        "no sensitivity": lambda sensitivity, scale: 1 / scale,
        "both sides": lambda sensitivity, scale: 2 * sensitivity / scale,
    },
    "4.7": {
        "root of the scale": lambda scale, clients: np.sqrt(2 * clients * scale),
        "deviations added": lambda scale, clients: clients * scale * np.sqrt(2),
        "variance": lambda scale, clients: 2 * clients * scale**2,
        "no two": lambda scale, clients: scale * np.sqrt(clients),
        "central": lambda scale, clients: scale * np.sqrt(2),
        "mean": lambda scale, clients: scale * np.sqrt(2 / clients),
        "two outside": lambda scale, clients: 2 * scale * np.sqrt(clients),
    },
    "4.8": {
        "share of the others": lambda scale, clients, friends: (
            scale * np.sqrt(2 * clients) * (1 - friends / clients)
        ),
        "nobody's friend": lambda scale, clients, friends: scale * np.sqrt(2 * clients),
        "friends' noise": lambda scale, clients, friends: scale * np.sqrt(2 * friends),
        "one more": lambda scale, clients, friends: scale * np.sqrt(2 * (clients - friends - 1)),
        "deviations": lambda scale, clients, friends: scale * np.sqrt(2) * (clients - friends),
        "subtracted": lambda scale, clients, friends: (
            scale * np.sqrt(2 * clients) - scale * np.sqrt(2 * friends)
        ),
        "own only": lambda scale, clients, friends: scale * np.sqrt(2),
    },
    "4.9": {
        "union of bounds": lambda chance, servers: max(0.0, 1 - servers * (1 - chance)),
        "some": lambda chance, servers: 1 - (1 - chance) ** servers,
        "sum": lambda chance, servers: chance * servers,
        "all honest": lambda chance, servers: (1 - chance) ** servers,
        "all but one": lambda chance, servers: chance ** (servers - 1),
        "mean": lambda chance, servers: chance / servers,
        "not broken": lambda chance, servers: 1 - chance**servers,
    },
    "4.10": {
        "always": lambda output: True,
        "never": lambda output: False,
        "size": lambda output: bool(output > 0.15),
        "distance": lambda output: bool(abs(output - 0.3) < abs(output)),
        "whole numbers": lambda output: bool(abs(output - round(output)) > 0.01),
        "the other one": lambda output: not RIGHT["4.10"](output),
    },
    "4.11": {
        "always right": lambda sharer: True,
        "always wrong": lambda sharer: False,
        "sums only": _sums_only,
        "single shares": _single_shares,
        "stops": lambda sharer: sharer(),
        "a number": lambda sharer: 7,
    },
    "4.12": lessons.objections(
        (1, {"scale": 1.0, "clients": 4}),
        (2, {"scale": 0.5, "clients": 10}),
        (3, {"scale": 1.0, "clients": 4}),
        (4, {"scale": 1.0, "clients": 1}),  # there it is true
        (4, {"scale": 1.0, "clients": 0}),
        (4, {"b": 1.0, "n": 4}),
    ),
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    whole = ("4.1", "4.2", "4.3", "4.4")
    assert lessons.mistakes(LESSON, RIGHT, WRONG, whole) == []


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_the_laplace_game_is_the_librarys_mechanism(scale):
    game = one_upload(scale)
    for epsilon in (0.1, 0.9 / scale):
        expected = SummedLaplace(scale, clients=1).delta(epsilon)
        assert game.delta(epsilon) == pytest.approx(expected, abs=2e-4)
    alarms, hits = game.best()
    assert np.all(hits <= allowed(alarms, 1 / scale, 0.0) + 1e-6)
    early = alarms < 0.01
    assert hits[early] == pytest.approx(np.exp(1 / scale) * alarms[early], abs=1e-4)


def test_numbers_by_hand_have_the_spread_of_the_noise():
    drawn = one_upload(2.0, seed=3).numbers(4000)[:, 0]
    assert drawn.std() == pytest.approx(np.sqrt(2 * 2.0**2 + 0.25), rel=0.05)
    with pytest.raises(ValueError, match="law must be one of 'normal', 'laplace', got 'cauchy'"):
        Game(one_upload(1.0).inside, one_upload(1.0).outside, 1.0, law="cauchy")


def test_wrong_sharers_mostly_give_back_the_secret():
    """So that a test of the sum alone would let them pass."""
    back = [_sums_only(sharer) for sharer in SHARERS["wrong"]]
    assert sum(back) == 4
    assert all(_sums_only(sharer) for sharer in SHARERS["right"])
