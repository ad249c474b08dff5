"""Lesson 0: every solution is accepted, mistakes that people make are rejected, the game obeys the bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import lessons
from repro.accounting import GaussianMechanism
from reproduce.teaching.games import Game, allowed
from reproduce.teaching.lesson0 import LESSON, RELEASES, one_number, point

RIGHT = lessons.answers("lesson0")


def _spread_only(release):
    rng = np.random.default_rng(1)
    seen = [release(np.array([0.5, 9.0, -9.0]), 0.5, rng) for _ in range(2000)]
    return bool(abs(np.std(seen) - 0.5) < 0.03)


def _mean_only(release):
    rng = np.random.default_rng(1)
    seen = [release(np.array([0.5, 0.25, 9.0, -9.0]), 0.5, rng) for _ in range(2000)]
    return bool(abs(np.mean(seen) - 1.75) < 0.05)


def _unit_noise(release):
    rng = np.random.default_rng(1)
    values = np.array([0.5, 0.25, 9.0, -9.0])
    seen = [release(values, 1.0, rng) for _ in range(4000)]
    return bool(abs(np.mean(seen) - 1.75) < 0.1 and abs(np.std(seen) - 1) < 0.05)


def _inside_only(release):
    rng = np.random.default_rng(1)
    seen = [release(np.array([0.5, 0.25]), 0.5, rng) for _ in range(4000)]
    return bool(abs(np.mean(seen) - 0.75) < 0.05 and abs(np.std(seen) - 0.5) < 0.03)


WRONG = {
    "0.1": {
        "both worlds at once": lambda sigma: norm.cdf(1 / (2 * sigma)) ** 2,
        "errors halved": lambda sigma: 1 - norm.sf(1 / (2 * sigma)) / 2,
        "whole distance": lambda sigma: norm.cdf(1 / sigma),
        "variance for deviation": lambda sigma: norm.cdf(1 / (2 * sigma**2)),
        "advantage": lambda sigma: 2 * norm.cdf(1 / (2 * sigma)) - 1,
        "noise upside down": lambda sigma: norm.cdf(sigma / 2),
        "wrong answers": lambda sigma: norm.sf(1 / (2 * sigma)),
        "always 0.69": lambda sigma: 0.6915,
    },
    "0.2": {
        "prior counted in": lambda threshold, sigma: norm.sf(threshold / sigma) / 2,
        "density": lambda threshold, sigma: norm.pdf(threshold / sigma),
        "variance": lambda threshold, sigma: norm.sf(threshold / sigma**2),
        "not scaled": lambda threshold, sigma: norm.sf(threshold),
        "below": lambda threshold, sigma: norm.cdf(threshold / sigma),
        "with Ada": lambda threshold, sigma: norm.sf((threshold - 1) / sigma),
        "both sides": lambda threshold, sigma: 2 * norm.sf(abs(threshold) / sigma),
        "multiplied": lambda threshold, sigma: norm.sf(threshold * sigma),
    },
    "0.3": {
        "threshold not scaled": lambda fpr, sigma: norm.sf((norm.isf(fpr) - 1) / sigma),
        "hits not scaled": lambda fpr, sigma: norm.sf(sigma * norm.isf(fpr) - 1),
        "wrong way": lambda fpr, sigma: norm.cdf(norm.ppf(fpr) - 1 / sigma),
        "variance": lambda fpr, sigma: norm.cdf(norm.ppf(fpr) + 1 / sigma**2),
        "noise upside down": lambda fpr, sigma: norm.cdf(norm.ppf(fpr) + sigma),
        "half distance": lambda fpr, sigma: norm.cdf(norm.ppf(fpr) + 1 / (2 * sigma)),
        "misses": lambda fpr, sigma: 1 - norm.cdf(norm.ppf(fpr) + 1 / sigma),
        "guessing": lambda fpr, sigma: fpr,
        "no noise": lambda fpr, sigma: norm.cdf(norm.ppf(fpr) + 1),
    },
    "0.4": {
        "delta outside": lambda fpr, epsilon, delta: min(
            1, np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - fpr) - delta
        ),
        "second line without delta": lambda fpr, epsilon, delta: min(
            1, np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - fpr)
        ),
        "not above one forgotten": lambda fpr, epsilon, delta: min(
            np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr)
        ),
        "one line": lambda fpr, epsilon, delta: min(1, np.exp(epsilon) * fpr + delta),
        "other line": lambda fpr, epsilon, delta: 1 - np.exp(-epsilon) * (1 - delta - fpr),
        "no delta": lambda fpr, epsilon, delta: min(
            np.exp(epsilon) * fpr, 1 - np.exp(-epsilon) * (1 - fpr)
        ),
        "delta twice": lambda fpr, epsilon, delta: min(
            1, np.exp(epsilon) * fpr + 2 * delta, 1 - np.exp(-epsilon) * (1 - 2 * delta - fpr)
        ),
        "factor on delta": lambda fpr, epsilon, delta: min(
            1, np.exp(epsilon) * (fpr + delta), 1 - np.exp(-epsilon) * (1 - delta - fpr)
        ),
        "epsilon for its power": lambda fpr, epsilon, delta: min(1, epsilon * fpr + delta),
        "base 10": lambda fpr, epsilon, delta: min(
            1, 10**epsilon * fpr + delta, 1 - 10**-epsilon * (1 - delta - fpr)
        ),
        "largest of the lines": lambda fpr, epsilon, delta: min(
            1, max(np.exp(epsilon) * fpr + delta, 1 - np.exp(-epsilon) * (1 - delta - fpr))
        ),
        "above one": lambda fpr, epsilon, delta: np.exp(epsilon) * fpr + delta,
    },
    "0.5": {
        "clip in the middle only": lambda epsilon, sigma, clip: (
            norm.sf((clip / 2 + epsilon * sigma**2 - clip) / sigma)
            - np.exp(epsilon) * norm.sf((clip / 2 + epsilon * sigma**2) / sigma)
        ),
        "clip on epsilon": lambda epsilon, sigma, clip: GaussianMechanism(sigma).delta(
            epsilon * clip
        ),
        "no clip": lambda epsilon, sigma, clip: GaussianMechanism(sigma).delta(epsilon),
        "variance": lambda epsilon, sigma, clip: GaussianMechanism(sigma**2 / clip).delta(epsilon),
        "clip upside down": lambda epsilon, sigma, clip: GaussianMechanism(sigma * clip).delta(
            epsilon
        ),
        "factor at the wrong world": lambda epsilon, sigma, clip: (
            np.exp(epsilon) * norm.cdf(clip / (2 * sigma) - epsilon * sigma / clip)
            - norm.cdf(-clip / (2 * sigma) - epsilon * sigma / clip)
        ),
        "factor forgotten": lambda epsilon, sigma, clip: (
            norm.cdf(clip / (2 * sigma) - epsilon * sigma / clip)
            - norm.cdf(-clip / (2 * sigma) - epsilon * sigma / clip)
        ),
        "worlds exchanged": lambda epsilon, sigma, clip: (
            norm.cdf(-clip / (2 * sigma) - epsilon * sigma / clip)
            - np.exp(epsilon) * norm.cdf(clip / (2 * sigma) - epsilon * sigma / clip)
        ),
        "textbook": lambda epsilon, sigma, clip: (
            1.25 * np.exp(-((epsilon * sigma / clip) ** 2) / 2)
        ),
        "tail only": lambda epsilon, sigma, clip: norm.cdf(
            clip / (2 * sigma) - epsilon * sigma / clip
        ),
        "start at epsilon": lambda epsilon, sigma, clip: (
            norm.sf((epsilon - clip) / sigma) - np.exp(epsilon) * norm.sf(epsilon / sigma)
        ),
        "replaced records": lambda epsilon, sigma, clip: GaussianMechanism(sigma / clip / 2).delta(
            epsilon
        ),
    },
    "0.6": {
        "both answers added": lambda truth: 2 * np.log(truth / (1 - truth)),
        "against a fair coin": lambda truth: np.log(2 * truth),
        "ratio without logarithm": lambda truth: truth / (1 - truth),
        "base 2": lambda truth: np.log2(truth / (1 - truth)),
        "one world": lambda truth: -np.log(truth),
        "upside down": lambda truth: np.log((1 - truth) / truth),
        "difference": lambda truth: 2 * truth - 1,
        "fair coin first": lambda truth: np.log((1 + truth) / (1 - truth)),
        "never": lambda truth: 0.0,
    },
    "0.7": {
        "missing in the prior": lambda prior, epsilon: prior + (1 - prior) * (1 - np.exp(-epsilon)),
        "one for the rest": lambda prior, epsilon: (
            np.exp(epsilon) * prior / (1 + np.exp(epsilon) * prior)
        ),
        "not normalised": lambda prior, epsilon: min(1.0, np.exp(epsilon) * prior),
        "linear": lambda prior, epsilon: prior * (1 + epsilon),
        "odds": lambda prior, epsilon: np.exp(epsilon) * prior / (1 - prior),
        "epsilon for its power": lambda prior, epsilon: (
            epsilon * prior / (1 - prior + epsilon * prior)
        ),
        "no prior": lambda prior, epsilon: 1 / (1 + np.exp(-epsilon)),
        "twice": lambda prior, epsilon: (
            np.exp(2 * epsilon) * prior / (1 - prior + np.exp(2 * epsilon) * prior)
        ),
        "other answer": lambda prior, epsilon: (
            np.exp(-epsilon) * prior / (1 - prior + np.exp(-epsilon) * prior)
        ),
    },
    "0.8": {
        "delta for each order": lambda epsilon, delta: RIGHT["0.8"](epsilon, 2 * delta),
        "through Renyi divergences": lambda epsilon, delta: (
            (np.sqrt(2 * np.log(1 / delta)) + np.sqrt(2 * np.log(1 / delta) + 2 * epsilon))
            / (2 * epsilon)
        ),
        "textbook": lambda epsilon, delta: np.sqrt(2 * np.log(1.25 / delta)) / epsilon,
        "textbook without 1.25": lambda epsilon, delta: np.sqrt(2 * np.log(1 / delta)) / epsilon,
        "variance": lambda epsilon, delta: RIGHT["0.8"](epsilon, delta) ** 2,
        "Laplace": lambda epsilon, delta: 1 / epsilon,
        "half of delta": lambda epsilon, delta: RIGHT["0.8"](epsilon, delta / 2),
        "exchanged": lambda epsilon, delta: RIGHT["0.8"](delta, min(epsilon, 0.5)),
        "a negative number": lambda epsilon, delta: -1.0,
        "nothing": lambda epsilon, delta: 0.0,
    },
    "0.9": {
        "divided": lambda sigma, rounds: sigma / rounds,
        "wrong way": lambda sigma, rounds: sigma * np.sqrt(rounds),
        "variance": lambda sigma, rounds: sigma**2 / rounds,
        "unchanged": lambda sigma, rounds: sigma,
        "one too few": lambda sigma, rounds: sigma / np.sqrt(rounds + 1),
        "logarithm": lambda sigma, rounds: sigma / (1 + np.log(rounds)),
    },
    "0.10": {
        "half of the length, replaced": lambda low, high, replaced: (
            (high - low) / 2 if replaced else max(-low, high)
        ),
        "always added": lambda low, high, replaced: max(abs(low), abs(high)),
        "always replaced": lambda low, high, replaced: high - low,
        "half length": lambda low, high, replaced: (high - low) / (1 if replaced else 2),
        "exchanged": lambda low, high, replaced: max(-low, high) if replaced else high - low,
        "top only": lambda low, high, replaced: high - low if replaced else high,
        "twice the largest": lambda low, high, replaced: max(-low, high) * (1 + replaced),
    },
    "0.11": {
        "always right": lambda release: True,
        "always wrong": lambda release: False,
        "spread only": _spread_only,
        "mean only": _mean_only,
        "noise 1": _unit_noise,
        "values inside only": _inside_only,
        "a number": lambda release: 0.5,
        "stops": lambda release: release(),
    },
    "0.12": lessons.objections(
        (3, {"sigma": 1.0, "epsilon": 1.0}),
        (1, {"sigma": 0.5, "epsilon": 2.0}),
        (2, {"sigma": 2.0, "epsilon": 0.0}),
        (4, {"sigma": 1.0}),
        (4, {"sigma": 0.0, "epsilon": 1.0}),
        (5, {"sigma": 1.0, "epsilon": 1.0}),
    ),
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    assert lessons.mistakes(LESSON, RIGHT, WRONG) == []


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
def test_the_best_attack_keeps_every_promise_and_touches_it(sigma):
    alarms, hits = one_number(sigma).best()
    for epsilon in (0.1, 0.5, 1.0):
        room = allowed(alarms, epsilon, GaussianMechanism(sigma).delta(epsilon)) - hits
        assert room.min() > -1e-6
        assert room[alarms < 0.999].min() < 1e-3


def test_no_attack_is_better_than_the_best_one():
    game = one_number(1.0)
    grid = np.linspace(0, 1, 201)
    best = np.interp(grid, *game.best())
    for score in (np.cos, np.abs, lambda z: z, lambda z: -np.abs(z - 1), np.zeros_like):
        assert np.all(np.interp(grid, *game.curve(score)) <= best + 1e-4)
    assert np.interp(grid, *game.curve(lambda z: 3 * z)) == pytest.approx(best, abs=1e-9)


def test_the_delta_of_the_game_is_that_of_the_mechanism():
    for sigma in (0.4, 1.0, 3.0):
        expected = GaussianMechanism(sigma).delta(0.7)
        assert one_number(sigma).delta(0.7) == pytest.approx(expected, abs=1e-6)


def test_decisions_by_hand_are_counted():
    game = one_number(0.01)  # so little noise that every number tells its world
    truth = "".join("i" if value > 0.5 else "o" for value in game.numbers(20)[:, 0])
    ins = truth.count("i")
    assert 0 < ins < 20
    assert game.judged(truth) == (ins, ins, 0, 20 - ins)
    assert game.judged(truth[:10] + " " + truth[10:]) == game.judged(truth)
    assert game.judged("i" * 20) == (ins, ins, 20 - ins, 20 - ins)
    for spelled in (list(truth), ", ".join(truth), truth[:10].upper() + "\n" + truth[10:]):
        assert game.judged(spelled) == (ins, ins, 0, 20 - ins)
    assert game.judged(None) is None
    with pytest.raises(ValueError, match="letters i and o only, got 'x'"):
        game.judged("x")
    with pytest.raises(ValueError, match="decisions must hold 20 letters, got 21"):
        game.judged("i" * 21)


def test_a_score_of_another_shape_is_refused():
    with pytest.raises(ValueError, match="score must give shape"):
        one_number(1.0).curve(lambda z: z[:3])
    with pytest.raises(ValueError, match="sigma must be positive"):
        Game(point(1.0), point(0.0), 0.0)


def test_releases_are_told_apart_by_attack():
    """The wrong releases do break the promise or the sum; they are no matter of taste."""
    rng = np.random.default_rng(0)
    values = np.array([0.5, 0.25, 9.0, -9.0])
    for release in RELEASES["right"]:
        seen = np.array([release(values, 0.5, rng) for _ in range(4000)])
        assert abs(seen.mean() - 1.75) < 0.04
    assert len(RELEASES["wrong"]) == 6
