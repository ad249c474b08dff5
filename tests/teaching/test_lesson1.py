"""Lesson 1: every solution is accepted, mistakes that people make are rejected, the story's numbers are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import lessons
from repro.accounting import GaussianMechanism, PoissonGaussian, RandomParticipation
from reproduce.teaching.lesson1 import ACCOUNTANTS, LESSON, one_other, printed

RIGHT = lessons.answers("lesson1")


def _noise(epsilon, sigma):
    return GaussianMechanism(sigma).delta(epsilon)


def _compares(settings, epsilons=(0.05, 0.5), sigmas=(0.5, 1.0), share=1.0):
    """A test of accountants that looks at some settings only."""

    def safe(accountant):
        return all(
            accountant(e, s, p, q, d)
            >= share
            * RandomParticipation(s, p=p, q=q, samples_per_client=d).delta(e, method="lower")
            - 1e-12
            for p, q, d in settings
            for e in epsilons
            for s in sigmas
        )

    return safe


def _repaired(epsilon, sigma, p, q, *, g=_noise, one=1.0):
    w1 = 1 + np.expm1(epsilon) / q
    w2 = w1 + one * np.expm1(epsilon) * (1 - p) / (p * q * (1 - q))
    return p * q * ((1 - q) * g(np.log(w2), sigma) + q * g(np.log(w1), sigma))


WRONG = {
    "1.1": {
        "coins apart": lambda p, q: [1 - p, 1 - q, p * q],
        "order": lambda p, q: [1 - p, p * q, p * (1 - q)],
        "record first": lambda p, q: [1 - q, q * (1 - p), p * q],
        "only two": lambda p, q: [1 - p * q, p * q],
        "no coin for the rest": lambda p, q: [1 - p, p, p * q],
        "sum of rates": lambda p, q: [1 - p, p - q, q],
    },
    "1.2": {
        "no p": lambda clients, records, p, q: clients * records * q,
        "no q": lambda clients, records, p, q: clients * records * p,
        "sum of rates": lambda clients, records, p, q: clients * records * (p + q),
        "clients only": lambda clients, records, p, q: clients * p * q,
        "at least one": lambda clients, records, p, q: clients * p * (1 - (1 - q) ** records),
        "rounded": lambda clients, records, p, q: np.floor(clients * p) * np.floor(records * q),
    },
    "1.3": {
        "logarithms added": lambda epsilon, rate: max(0.0, epsilon + np.log(rate)),
        "rate at the wrong world": lambda epsilon, rate: np.log(
            rate + (1 - rate) * np.exp(epsilon)
        ),
        "multiplied": lambda epsilon, rate: rate * epsilon,
        "without one": lambda epsilon, rate: np.log(rate * np.exp(epsilon)),
        "rate on the wrong side": lambda epsilon, rate: np.log(1 + (np.exp(epsilon) - 1) / rate),
        "base 2": lambda epsilon, rate: np.log2(1 + rate * np.expm1(epsilon)),
        "expm1 forgotten": lambda epsilon, rate: np.log1p(rate * np.exp(epsilon)),
        "rate and rest": lambda epsilon, rate: (1 - rate) + rate * epsilon,
        "squared": lambda epsilon, rate: np.log1p(rate**2 * np.expm1(epsilon)),
    },
    "1.4": {
        "noise over the rate": lambda epsilon, sigma, p, q: _noise(epsilon, sigma / (p * q)),
        "minus one forgotten": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.exp(epsilon) / (p * q)), sigma)
        ),
        "no amplification": lambda epsilon, sigma, p, q: _noise(epsilon, sigma),
        "delta only": lambda epsilon, sigma, p, q: p * q * _noise(epsilon, sigma),
        "epsilon only": lambda epsilon, sigma, p, q: _noise(
            np.log1p(np.expm1(epsilon) / (p * q)), sigma
        ),
        "wrong way": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) * p * q), sigma)
        ),
        "inside q": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "inside p": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / p), sigma)
        ),
        "linear": lambda epsilon, sigma, p, q: p * q * _noise(epsilon / (p * q), sigma),
        "variance": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / (p * q)), sigma**2)
        ),
    },
    "1.5": {
        "silence counted": lambda epsilon, sigma, p, q: (
            1 - p + p * q * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "p q as a rate": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / (p * q)), sigma)
        ),
        "exchanged": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / p), sigma)
        ),
        "without p": lambda epsilon, sigma, p, q: (
            q * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "without q": lambda epsilon, sigma, p, q: (
            p * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "no amplification": lambda epsilon, sigma, p, q: p * _noise(epsilon, sigma),
        "linear": lambda epsilon, sigma, p, q: p * q * _noise(epsilon / q, sigma),
        "variance": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / q), sigma**2)
        ),
    },
    "1.6": {
        "client always there": lambda p, q: [(1 - q) ** 2, 2 * q * (1 - q), q**2],
        "silence forgotten": lambda p, q: [p * (1 - q) ** 2, 2 * p * q * (1 - q), p * q**2],
        "one order only": lambda p, q: [1 - p + p * (1 - q) ** 2, p * q * (1 - q), p * q**2],
        "independent": lambda p, q: [(1 - p * q) ** 2, 2 * p * q * (1 - p * q), (p * q) ** 2],
        "without Ada": lambda p, q: [1 - p * q, p * q, 0],
        "stays away only": lambda p, q: [1 - p, 2 * p * q * (1 - q), p * q**2],
        "backwards": lambda p, q: [p * q**2, 2 * p * q * (1 - q), 1 - p + p * (1 - q) ** 2],
    },
    "1.7": {
        "mean, cut off": lambda p, q, others: min(p, p * q * others),
        "rare records": lambda p, q, others: p * (1 - np.exp(-q * others)),
        "none": lambda p, q, others: p * (1 - q) ** others,
        "independent": lambda p, q, others: 1 - (1 - p * q) ** others,
        "mean": lambda p, q, others: p * q * others,
        "Ada counted": lambda p, q, others: p * (1 - (1 - q) ** (others + 1)),
        "without p": lambda p, q, others: 1 - (1 - q) ** others,
        "p inside": lambda p, q, others: 1 - (1 - q) ** (p * others),
        "exchanged": lambda p, q, others: q * (1 - (1 - p) ** others),
        "all": lambda p, q, others: p * q**others,
    },
    "1.8": {
        "at epsilon 0": lambda epsilon, p, q, same: p * q * (1 - q) if same else p * q,
        "one of two ways": lambda epsilon, p, q, same: (
            p * q * q + p * q * max(0, 1 - q - np.exp(epsilon)) if same else p * q
        ),
        "same forgotten": lambda epsilon, p, q, same: p * q,
        "other way": lambda epsilon, p, q, same: (
            p * q if same else p * q * q + p * q * max(0, 2 * (1 - q) - np.exp(epsilon))
        ),
        "only both": lambda epsilon, p, q, same: p * q * q if same else p * q,
        "no factor": lambda epsilon, p, q, same: (
            p * q * q + p * q * max(0, 2 * (1 - q) - 1) if same else p * q
        ),
        "client always there": lambda epsilon, p, q, same: (
            q * q + q * max(0, 2 * (1 - q) - np.exp(epsilon)) if same else q
        ),
        "negative parts": lambda epsilon, p, q, same: (
            p * q * q + p * q * (2 * (1 - q) - np.exp(epsilon)) if same else p * q
        ),
        "squared": lambda epsilon, p, q, same: p * q * q if same else (p * q) ** 2,
    },
    "1.9": {
        "noise around the mean": lambda threshold, epsilon, sigma, p, q: (
            norm.sf((threshold - p * q) / sigma) - np.exp(epsilon) * norm.sf(threshold / sigma)
        ),
        "factor at the wrong world": lambda threshold, epsilon, sigma, p, q: (
            np.exp(epsilon)
            * (p * q * norm.sf((threshold - 1) / sigma) + (1 - p * q) * norm.sf(threshold / sigma))
            - norm.sf(threshold / sigma)
        ),
        "no factor": lambda threshold, epsilon, sigma, p, q: (
            p * q * (norm.sf((threshold - 1) / sigma) - norm.sf(threshold / sigma))
        ),
        "epsilon for its power": lambda threshold, epsilon, sigma, p, q: RIGHT["1.9"](
            threshold, np.log1p(epsilon), sigma, p, q
        ),
        "always drawn": lambda threshold, epsilon, sigma, p, q: (
            norm.sf((threshold - 1) / sigma) - np.exp(epsilon) * norm.sf(threshold / sigma)
        ),
        "below": lambda threshold, epsilon, sigma, p, q: RIGHT["1.9"](
            -threshold, epsilon, sigma, p, q
        ),
        "only drawn part": lambda threshold, epsilon, sigma, p, q: (
            p * q * norm.sf((threshold - 1) / sigma) - np.exp(epsilon) * norm.sf(threshold / sigma)
        ),
        "variance": lambda threshold, epsilon, sigma, p, q: RIGHT["1.9"](
            threshold, epsilon, sigma**2, p, q
        ),
        "rate q": lambda threshold, epsilon, sigma, p, q: RIGHT["1.9"](
            threshold, epsilon, sigma, 1.0, q
        ),
        "clipped at 0": lambda threshold, epsilon, sigma, p, q: max(
            0.0, RIGHT["1.9"](threshold, epsilon, sigma, p, q)
        ),
    },
    "1.10": lessons.objections(
        (1, {"epsilon": 0.4, "sigma": 0.3, "p": 0.5, "q": 0.5}),
        (2, {"epsilon": 0.4, "sigma": 0.3, "p": 1.0, "q": 0.5}),
        (2, {"epsilon": 1.0, "sigma": 1.0, "p": 0.1, "q": 0.1}),
        (3, {"epsilon": 0.4, "sigma": 0.3, "p": 1.0, "q": 0.5}),
        (4, {"epsilon": 0.4, "sigma": 0.3, "p": 1.0}),
        (4, {"epsilon": 0.4, "sigma": 0.3, "p": 1.0, "q": 1.5}),
    ),
    "1.11": {
        "Mallory": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
        ),
        "the worse of both": lambda epsilon, sigma, p, q: (
            p * q * _noise(np.log1p(np.expm1(epsilon) / q), sigma) * (1 - q)
            + p * q * q * _noise(epsilon, sigma)
        ),
        "p q as a rate": lambda epsilon, sigma, p, q: PoissonGaussian(sigma, rate=p * q).delta(
            epsilon, direction="remove"
        ),
        "printed": lambda epsilon, sigma, p, q: printed(epsilon, sigma, p, q, 1),
        "no logarithm": lambda epsilon, sigma, p, q: _repaired(
            epsilon, sigma, p, q, g=lambda w, s: _noise(np.exp(w), s)
        ),
        "no silence": lambda epsilon, sigma, p, q: _repaired(epsilon, sigma, p, q, one=0.0),
        "silence twice": lambda epsilon, sigma, p, q: _repaired(epsilon, sigma, p, q, one=2.0),
        "first term": lambda epsilon, sigma, p, q: (
            p
            * q
            * _noise(
                np.log1p(np.expm1(epsilon) / q + np.expm1(epsilon) * (1 - p) / (p * q * (1 - q))),
                sigma,
            )
        ),
        "weights exchanged": lambda epsilon, sigma, p, q: (
            p
            * q
            * (
                q * _noise(np.log1p(np.expm1(epsilon) / q * (1 + (1 - p) / (p * (1 - q)))), sigma)
                + (1 - q) * _noise(np.log1p(np.expm1(epsilon) / q), sigma)
            )
        ),
        "variance": lambda epsilon, sigma, p, q: _repaired(epsilon, sigma**2, p, q),
    },
    "1.12": {
        "large epsilon only": _compares(
            [(0.1, 0.1, 10), (0.5, 0.5, 1), (0.9, 0.3, 10)], epsilons=(5.0,)
        ),
        "one other record only": _compares(
            [(0.1, 0.1, 1), (0.5, 0.5, 1), (0.2, 0.8, 1), (0.9, 0.3, 1)]
        ),
        "always safe": lambda accountant: True,
        "never safe": lambda accountant: False,
        "one record only": _compares([(0.5, 0.5, 0), (0.1, 0.1, 0)]),
        "equal rates only": _compares([(0.5, 0.5, 0), (0.5, 0.5, 10)], sigmas=(1.0,)),
        "far from it": _compares([(0.1, 0.1, 10), (0.2, 0.8, 10)], share=0.01),
        "much noise": _compares([(0.5, 0.5, 1)], epsilons=(0.5,), sigmas=(50.0,)),
        "printed as the truth": lambda accountant: bool(
            accountant(0.5, 1.0, 0.1, 0.1, 10) >= printed(0.5, 1.0, 0.1, 0.1, 10)
        ),
        "tight or unsafe": lambda accountant: bool(
            abs(
                accountant(0.5, 1.0, 0.1, 0.1, 10)
                - RandomParticipation(1.0, p=0.1, q=0.1, samples_per_client=10).delta(0.5)
            )
            < 1e-9
        ),
    },
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    assert lessons.mistakes(LESSON, RIGHT, WRONG) == []


def test_the_blackboard_breaks_the_printed_theorem():
    leak = RIGHT["1.9"](1.0, np.log(3), 0.5, 0.5, 0.5)
    assert leak > 1.3 * printed(np.log(3), 0.5, 0.5, 0.5, 1)
    assert RIGHT["1.8"](0.5, 1.0, 0.5, 0) == 2 * RIGHT["1.8"](0.5, 1.0, 0.5, 1)


def test_the_noise_of_section_1_misses_its_promise():
    crowd = RandomParticipation(0.7936, p=0.1, q=0.1, samples_per_client=100)
    assert crowd.epsilon(1e-5, method="lower") > 2
    assert PoissonGaussian(0.7936, rate=0.01).epsilon(1e-5) < 0.5


@pytest.mark.parametrize("angle", [0, 45, 90, 180])
def test_the_game_stays_below_the_repaired_bound(angle):
    for p, q, sigma in ((0.9, 0.5, 0.4), (0.5, 0.5, 0.5)):
        bound = RandomParticipation(sigma, p=p, q=q, samples_per_client=1).delta(0.5)
        assert one_other(p, q, sigma, angle).delta(0.5) <= bound * (1 + 1e-3)


def test_unsafe_accountants_are_below_what_is_reached():
    settings = [(0.1, 0.1, 10), (0.2, 0.8, 10), (0.9, 0.3, 1)]
    sound = _compares(settings, share=1 - 1e-6)
    assert all(sound(one) for one in ACCOUNTANTS["right"])
    assert not any(sound(one) for one in ACCOUNTANTS["wrong"])
