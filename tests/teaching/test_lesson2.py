"""Lesson 2: every solution is accepted, mistakes that people make are rejected, the story's numbers are right."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

import lessons
from repro.accounting import (
    BalancedIterationSubsampling,
    ModelSplitting,
    PoissonGaussian,
    compose,
)
from reproduce.teaching.lesson2 import LESSON, one_half

RIGHT = lessons.answers("lesson2")


def _binomial_order_2(iterations, participations, sigma):
    rate = participations / iterations
    return iterations * np.log1p(rate**2 * np.expm1(1 / sigma**2))


def _sizes_only(sampler):
    rng = np.random.default_rng(1)
    return all(sampler(6, 3, rng).sum() == 3 for _ in range(200))


def _shares_only(sampler):
    rng = np.random.default_rng(1)
    shares = np.mean([sampler(6, 3, rng) for _ in range(4000)], axis=0)
    return bool(np.all(np.abs(shares - 0.5) < 0.03))


def _sizes_and_shares(sampler):
    return _sizes_only(sampler) and _shares_only(sampler)


WRONG = {
    "2.1": {
        "one over d": lambda submodels: 1 / submodels,
        "unchanged": lambda submodels: 1.0,
        "grows": lambda submodels: np.sqrt(submodels),
        "one too many": lambda submodels: 1 / np.sqrt(submodels + 1),
        "logarithm": lambda submodels: 1 / (1 + np.log(submodels)),
    },
    "2.2": {
        "half of the exponent": lambda first, second, sigma: (
            (np.exp((first - 0.5) / (2 * sigma**2)) + np.exp((second - 0.5) / (2 * sigma**2))) / 2
        ),
        "logarithm": lambda first, second, sigma: np.log(
            (np.exp((first - 0.5) / sigma**2) + np.exp((second - 0.5) / sigma**2)) / 2
        ),
        "sum": lambda first, second, sigma: (
            np.exp((first - 0.5) / sigma**2) + np.exp((second - 0.5) / sigma**2)
        ),
        "product": lambda first, second, sigma: np.exp((first + second - 1) / sigma**2),
        "exponential of the mean": lambda first, second, sigma: np.exp(
            ((first + second) / 2 - 0.5) / sigma**2
        ),
        "deviation for variance": lambda first, second, sigma: (
            (np.exp((first - 0.5) / sigma) + np.exp((second - 0.5) / sigma)) / 2
        ),
        "larger one": lambda first, second, sigma: np.exp((max(first, second) - 0.5) / sigma**2),
        "half forgotten": lambda first, second, sigma: (
            (np.exp(first / sigma**2) + np.exp(second / sigma**2)) / 2
        ),
        "upside down": lambda first, second, sigma: (
            2 / (np.exp((first - 0.5) / sigma**2) + np.exp((second - 0.5) / sigma**2))
        ),
    },
    "2.3": {
        "two in the exponent": lambda submodels, sigma: np.log1p(
            np.expm1(2 / sigma**2) / submodels
        ),
        "pairs forgotten": lambda submodels, sigma: np.log(
            (submodels - 1 + np.exp(1 / sigma**2)) / submodels**2
        ),
        "no logarithm": lambda submodels, sigma: 1 + np.expm1(1 / sigma**2) / submodels,
        "linear": lambda submodels, sigma: 1 / (submodels * sigma**2),
        "root of d": lambda submodels, sigma: np.log1p(np.expm1(1 / sigma**2) / np.sqrt(submodels)),
        "rate squared": lambda submodels, sigma: np.log1p(np.expm1(1 / sigma**2) / submodels**2),
        "deviation": lambda submodels, sigma: np.log1p(np.expm1(1 / sigma) / submodels),
        "divided only": lambda submodels, sigma: np.log(np.exp(1 / sigma**2) / submodels),
        "mean of logarithms": lambda submodels, sigma: 1 / sigma**2 / submodels,
        "half": lambda submodels, sigma: np.log1p(np.expm1(1 / (2 * sigma**2)) / submodels),
    },
    "2.4": {
        "alpha for alpha - 1": lambda divergence, alpha, delta: (
            divergence + np.log(1 / delta) / alpha
        ),
        "alpha + 1": lambda divergence, alpha, delta: divergence + np.log(1 / delta) / (alpha + 1),
        "base 10 of delta": lambda divergence, alpha, delta: (
            divergence + np.log10(1 / delta) / (alpha - 1)
        ),
        "divergence shared": lambda divergence, alpha, delta: (
            (divergence + np.log(1 / delta)) / (alpha - 1)
        ),
        "alpha": lambda divergence, alpha, delta: divergence * alpha + np.log(1 / delta) / alpha,
        "sign": lambda divergence, alpha, delta: divergence - np.log(1 / delta) / (alpha - 1),
        "no divergence": lambda divergence, alpha, delta: np.log(1 / delta) / (alpha - 1) * 1.5,
        "divergence alone": lambda divergence, alpha, delta: divergence,
        "delta unlogged": lambda divergence, alpha, delta: divergence + 1 / delta / (alpha - 1),
        "order over": lambda divergence, alpha, delta: (alpha - 1) * divergence + np.log(1 / delta),
        "delta itself": lambda divergence, alpha, delta: divergence + np.log(delta) / (alpha - 1),
        "divided twice": lambda divergence, alpha, delta: (
            divergence / (alpha - 1) + np.log(1 / delta) / (alpha - 1) ** 2
        ),
    },
    "2.5": {
        "two times": lambda iterations, participations: (
            2 * comb(participations, 2) / comb(iterations, 2)
        ),
        "independent": lambda iterations, participations: (participations / iterations) ** 2,
        "one": lambda iterations, participations: participations / iterations,
        "replacement": lambda iterations, participations: (
            participations * (participations - 1) / iterations**2
        ),
        "either": lambda iterations, participations: 2 * participations / iterations,
        "one order": lambda iterations, participations: 1 / comb(iterations, 2),
        "one too few": lambda iterations, participations: (participations - 1) / (iterations - 1),
    },
    "2.6": {
        "rate squared": lambda iterations, participations: (participations / iterations) ** 2,
        "half of them": lambda iterations, participations: participations / 2,
        "all": lambda iterations, participations: participations,
        "one less": lambda iterations, participations: (
            participations * (participations - 1) / (iterations - 1)
        ),
        "rate": lambda iterations, participations: participations / iterations,
    },
    "2.7": {
        "shared squared": lambda iterations, participations, sigma: np.log(
            sum(
                comb(participations, h)
                * comb(iterations - participations, participations - h)
                * np.exp(h**2 / sigma**2)
                for h in range(participations + 1)
            )
            / comb(iterations, participations)
        ),
        "nothing shared left out": lambda iterations, participations, sigma: np.log(
            sum(
                comb(participations, h)
                * comb(iterations - participations, participations - h)
                * np.exp(h / sigma**2)
                for h in range(1, participations + 1)
            )
            / comb(iterations, participations)
        ),
        "coins": _binomial_order_2,
        "mean overlap": lambda iterations, participations, sigma: (
            participations**2 / iterations / sigma**2
        ),
        "no division": lambda iterations, participations, sigma: (
            RIGHT["2.7"](iterations, participations, sigma)
            + np.log(comb(iterations, participations))
        ),
        "deviation": lambda iterations, participations, sigma: RIGHT["2.7"](
            iterations, participations, np.sqrt(sigma)
        ),
        "no logarithm": lambda iterations, participations, sigma: np.exp(
            RIGHT["2.7"](iterations, participations, sigma)
        ),
        "all k": lambda iterations, participations, sigma: participations / sigma**2,
        "submodels": lambda iterations, participations, sigma: np.log1p(
            np.expm1(participations / sigma**2) / iterations
        ),
    },
    "2.8": {
        "never": lambda iterations, participations: (1 - participations / iterations) ** iterations,
        "always": lambda iterations, participations: 1.0,
        "limit": lambda iterations, participations: 1 - np.exp(-participations),
        "one iteration": lambda iterations, participations: participations / iterations,
        "k tosses": lambda iterations, participations: (
            1 - (1 - participations / iterations) ** participations
        ),
        "rate 1/T": lambda iterations, participations: 1 - (1 - 1 / iterations) ** iterations,
    },
    "2.9": {
        "added": lambda split, unsplit: split + unsplit,
        "squares": lambda split, unsplit: split**2 + unsplit**2,
        "larger": lambda split, unsplit: max(split, unsplit),
        "split only": lambda split, unsplit: split,
        "mean": lambda split, unsplit: (split + unsplit) / 2,
    },
    "2.10": {
        "all iterations only": lambda sampler: bool(
            np.all(sampler(4, 4, np.random.default_rng(1)))
        ),
        "one participation": lambda sampler: bool(
            abs(
                np.mean(
                    [sampler(6, 1, rng) for rng in [np.random.default_rng(1)] for _ in range(3000)],
                    axis=0,
                )
                - 1 / 6
            ).max()
            < 0.03
        ),
        "always right": lambda sampler: True,
        "always wrong": lambda sampler: False,
        "sizes only": _sizes_only,
        "shares only": _shares_only,
        "sizes and shares": _sizes_and_shares,
        "a number": lambda sampler: 3.0,
    },
    "2.11": lessons.objections(
        (1, {"participations": 2, "sigma": 0.5, "epsilon": 1.0}),
        (2, {"participations": 2, "sigma": 0.5, "epsilon": 1.0}),
        (3, {"participations": 2, "sigma": 0.5, "epsilon": 1.0}),
        (4, {"participations": 2, "sigma": 0.5, "epsilon": 6.0}),  # there it is true
        (4, {"participations": 3, "sigma": 2.0, "epsilon": 3.0}),
        (4, {"participations": 2.5, "sigma": 0.5, "epsilon": 1.0}),
    ),
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    # Sharper conversions are right, too, and one of them is a tenth below this one.
    assert lessons.mistakes(LESSON, RIGHT, WRONG) == ["2.4: a tenth too little"]


def test_a_sharper_conversion_is_accepted():
    def sharper(divergence, alpha, delta):
        return divergence + np.log1p(-1 / alpha) - np.log(delta * alpha) / (alpha - 1)

    assert LESSON.check("2.4", sharper).passed


@pytest.mark.parametrize("sigma", [0.4, 0.6, 1.5])
def test_the_game_attains_the_bound_of_the_library(sigma):
    for epsilon in (0.2, 1.0):
        truth = one_half(sigma).delta(epsilon)
        mechanism = ModelSplitting(sigma, submodels=2)
        low, high = (mechanism.delta(epsilon, method=method) for method in ("lower", "upper"))
        assert low * (1 - 2e-3) <= truth <= high * (1 + 2e-3)


def test_coins_win_at_small_epsilon_and_lose_at_large():
    exactly = BalancedIterationSubsampling(0.5, iterations=10, participations=2)
    coins = compose(PoissonGaussian(0.5, rate=0.2), 10)
    assert coins.delta(1.0) < exactly.delta(1.0, method="lower")
    assert exactly.delta(8.0) < coins.delta(8.0, method="lower")
