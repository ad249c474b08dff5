"""Lesson 3: every solution is accepted, mistakes that people make are rejected, the story's numbers are right."""

from __future__ import annotations

import numpy as np
import pytest

import lessons
from repro.accounting import GaussianMechanism, PoissonGaussian, compose
from reproduce.teaching.lesson3 import ACCOUNTANTS, LESSON, run_ends, trained, two_uploads

RIGHT = lessons.answers("lesson3")


def _noise(epsilon, sigma):
    return GaussianMechanism(sigma).delta(epsilon)


def _compares(settings, share=1.0):
    """A test of accountants that looks at some settings (epsilon, sigma, q, rounds) only."""

    def safe(accountant):
        return all(
            accountant(*at) >= share * run_ends(*at)[0] * (1 - 1e-6) - 1e-12 for at in settings
        )

    return safe


WRONG = {
    "3.1": {
        "upside down": lambda by_weight, by_offset: by_offset / by_weight,
        "difference": lambda by_weight, by_offset: by_weight - by_offset,
        "product": lambda by_weight, by_offset: by_weight * by_offset,
        "weight only": lambda by_weight, by_offset: by_weight,
        "size only": lambda by_weight, by_offset: abs(by_weight / by_offset),
    },
    "3.2": {
        "gain that was possible": lambda accuracy, control, trivial: (
            (control - trivial) / (1 - trivial)
        ),
        "ratio of accuracies": lambda accuracy, control, trivial: control / accuracy,
        "difference": lambda accuracy, control, trivial: accuracy - control,
        "what is left": lambda accuracy, control, trivial: (
            (accuracy - control) / (accuracy - trivial)
        ),
        "upside down": lambda accuracy, control, trivial: (
            (accuracy - trivial) / (control - trivial)
        ),
        "one trivial": lambda accuracy, control, trivial: (control - trivial) / accuracy,
        "gain only": lambda accuracy, control, trivial: control - trivial,
    },
    "3.3": {
        "noise over the rate": lambda epsilon, sigma, q: _noise(epsilon, sigma / q),
        "rate squared": lambda epsilon, sigma, q: (
            q**2 * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "no amplification": lambda epsilon, sigma, q: _noise(epsilon, sigma),
        "q in front only": lambda epsilon, sigma, q: q * _noise(epsilon, sigma),
        "linear": lambda epsilon, sigma, q: q * _noise(epsilon / q, sigma),
        "wrong way": lambda epsilon, sigma, q: q * _noise(np.log1p(np.expm1(epsilon) * q), sigma),
        "no q in front": lambda epsilon, sigma, q: _noise(np.log1p(np.expm1(epsilon) / q), sigma),
        "replaced counted twice": lambda epsilon, sigma, q: (
            q * _noise(np.log1p(np.expm1(epsilon) / q), sigma / 2)
        ),
        "variance": lambda epsilon, sigma, q: q * _noise(np.log1p(np.expm1(epsilon) / q), sigma**2),
    },
    "3.4": {
        "the smaller of both": lambda epsilon, sigma, p: min(p, _noise(epsilon, sigma)),
        "amplified all the same": lambda epsilon, sigma, p: (
            p * _noise(np.log1p(np.expm1(epsilon) * p), sigma)
        ),
        "as a sampling rate": lambda epsilon, sigma, p: (
            p * _noise(np.log1p(np.expm1(epsilon) / p), sigma)
        ),
        "no p": lambda epsilon, sigma, p: _noise(epsilon, sigma),
        "p on epsilon": lambda epsilon, sigma, p: _noise(epsilon / p, sigma),
        "p squared": lambda epsilon, sigma, p: p**2 * _noise(epsilon, sigma),
        "stays away": lambda epsilon, sigma, p: (1 - p) * _noise(epsilon, sigma),
        "p on the noise": lambda epsilon, sigma, p: _noise(epsilon, sigma / p),
    },
    "3.5": {
        "exactly once": lambda q, rounds: rounds * q * (1 - q) ** max(rounds - 1, 0),
        "mean, cut off": lambda q, rounds: min(1.0, q * rounds),
        "never": lambda q, rounds: (1 - q) ** rounds,
        "mean": lambda q, rounds: q * rounds,
        "always": lambda q, rounds: q**rounds,
        "one too many": lambda q, rounds: 1 - (1 - q) ** (rounds + 1),
        "limit": lambda q, rounds: 1 - np.exp(-q * rounds),
        "one round": lambda q, rounds: q,
    },
    "3.6": {
        "no memory": lambda q: [(1 - q) ** 2, 2 * q * (1 - q), q**2],
        "backwards": lambda q: [q, (1 - q) * q, (1 - q) ** 2],
        "first only": lambda q: [1 - q, 0, q],
        "one forgotten": lambda q: [(1 - q) ** 2, q, q],
        "two exchanged": lambda q: [(1 - q) ** 2, q, q * (1 - q)],
        "only two": lambda q: [1 - q, q],
    },
    "3.7": {
        "until the first draw": lambda q, rounds: (1 - (1 - q) ** rounds) / q,
        "mean of the ends": lambda q, rounds: rounds * (1 + q) / 2,
        "draws": lambda q, rounds: q * rounds,
        "all": lambda q, rounds: rounds,
        "after the draw": lambda q, rounds: sum(1 - (1 - q) ** t for t in range(rounds)),
        "one too many": lambda q, rounds: sum(1 - (1 - q) ** t for t in range(1, rounds + 2)),
        "chance times rounds": lambda q, rounds: rounds * (1 - (1 - q) ** rounds),
        "delay": lambda q, rounds: max(0.0, rounds - 1 / q),
        "no draws": lambda q, rounds: sum((1 - q) ** t for t in range(1, rounds + 1)),
    },
    "3.8": {
        "one upload less": lambda epsilon, sigma, rounds: _noise(
            epsilon, sigma / np.sqrt(max(rounds - 1, 1))
        ),
        "one round": lambda epsilon, sigma, rounds: _noise(epsilon, sigma),
        "rounds for root": lambda epsilon, sigma, rounds: _noise(epsilon, sigma / rounds),
        "wrong way": lambda epsilon, sigma, rounds: _noise(epsilon, sigma * np.sqrt(rounds)),
        "deltas added": lambda epsilon, sigma, rounds: min(1, rounds * _noise(epsilon, sigma)),
        "epsilon shared": lambda epsilon, sigma, rounds: _noise(epsilon / rounds, sigma),
        "variance": lambda epsilon, sigma, rounds: _noise(epsilon, sigma**2 / rounds),
    },
    "3.9": {
        "root upside down": lambda sigma, participants: np.sqrt(participants) / sigma,
        "no root": lambda sigma, participants: 1 / (sigma * participants),
        "no averaging": lambda sigma, participants: 1 / sigma,
        "noise not averaged": lambda sigma, participants: 1 / participants / (sigma * participants),
        "move not averaged": lambda sigma, participants: np.sqrt(participants) / sigma,
        "variance": lambda sigma, participants: 1 / (sigma**2 * participants),
        "upside down": lambda sigma, participants: sigma * np.sqrt(participants),
    },
    "3.10": {
        "always safe": lambda accountant: True,
        "never safe": lambda accountant: False,
        "one round only": _compares([(1.0, 2.0, 0.2, 1), (0.1, 2.0, 0.5, 1)]),
        "far from it": _compares([(1.0, 5.0, 0.2, 50)], share=1e-9),
        "always drawn": _compares([(1.0, 5.0, 1.0, 10), (1.0, 5.0, 1.0, 30)]),
        "tight or unsafe": lambda accountant: bool(
            abs(accountant(1.0, 5.0, 0.2, 30) - run_ends(1.0, 5.0, 0.2, 30)[1]) < 1e-9
        ),
        "a number": lambda accountant: accountant(1.0, 5.0, 0.2, 30),
    },
    "3.11": lessons.objections(
        (1, {"q": 0.05, "sigma": 5.0, "t": 10}),
        (2, {"q": 0.05, "sigma": 5.0, "t": 10}),
        (4, {"q": 0.05, "sigma": 1.0, "t": 10}),
        (3, {"q": 0.05, "sigma": 5.0, "t": 1}),  # there it is true
        (3, {"q": 1.0, "sigma": 5.0, "t": 10}),  # and there
        (3, {"q": 0.05, "sigma": 5.0, "t": 2.5}),
    ),
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    assert lessons.mistakes(LESSON, RIGHT, WRONG) == []


def test_the_numbers_of_section_1():
    assert compose(PoissonGaussian(5.0, rate=0.05), 100).delta(1.0) < 1e-9
    low, high = run_ends(1.0, 5.0, 0.05, 100)
    assert 0.39 < low <= high < 0.44


def test_a_memory_never_hides_more():
    """The kept half adds mass to later uploads; at most the record shows in both from the start."""
    for q, sigma in ((0.1, 0.5), (0.5, 0.5), (0.5, 1.0)):
        fresh, kept = (two_uploads(q, sigma, kept=kept).delta(0.5) for kept in (False, True))
        assert fresh < kept <= GaussianMechanism(sigma / np.sqrt(2)).delta(0.5) + 1e-6


def test_the_control_is_as_accurate_as_the_method_under_noise():
    """And sharing helps without noise, so that the control can fail."""
    seeds = range(8)
    gain = {
        noise: np.mean(
            [trained(noise, True, seed=k) - trained(noise, False, seed=k) for k in seeds]
        )
        for noise in (0.0, 0.4)
    }
    assert gain[0.0] > 0.015
    assert gain[0.4] < 0.005


def test_unsafe_accountants_are_below_what_is_reached():
    sound = _compares([(1.0, 5.0, 0.05, 100), (1.0, 5.0, 0.2, 30), (0.1, 2.0, 0.2, 10)])
    assert all(sound(one) for one in ACCOUNTANTS["right"])
    assert not any(sound(one) for one in ACCOUNTANTS["wrong"])
