"""Exercises of lesson 2: partitioning. Routes: enumerated choices, mixtures on a grid, and the library's bounds."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from scipy.stats import binom, hypergeom

from repro.accounting import BalancedIterationSubsampling, ModelSplitting
from reproduce.papers.second_routes import Mixture
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


def one_half(sigma: float, seed: int = 0) -> Game:
    """Two submodels: Ada's record moves one of two coordinates by 1, by a secret coin."""
    inside = Mixture(np.array([0.5, 0.5]), np.eye(2))
    return Game(inside, Mixture(np.ones(1), np.zeros((1, 2))), sigma, seed)


def _mean_shift(submodels: int) -> float:
    return float(np.linalg.norm(np.eye(submodels).mean(axis=0)))


def _ratio(first: float, second: float, sigma: float) -> float:
    """Mixture density over the density without Ada, both written out."""
    place = np.array([first, second])

    def density(mean: np.ndarray) -> float:
        return float(np.exp(-np.sum((place - mean) ** 2) / (2 * sigma**2)))

    return (density(np.array([1.0, 0])) + density(np.array([0, 1.0]))) / 2 / density(np.zeros(2))


def _split_order_2(submodels: int, sigma: float) -> float:
    """The library's curve, which knows the law of the ratio and not this closed form."""
    return float(ModelSplitting(sigma, submodels=submodels).rdp(2.0, direction="remove"))


def _both(iterations: int, participations: int) -> float:
    """Share of all draws that hold the first two iterations."""
    draws = list(combinations(range(iterations), participations))
    return sum({0, 1} <= set(draw) for draw in draws) / len(draws)


@cache
def _balanced_order_2(iterations: int, participations: int, sigma: float) -> float:
    """Mean over all pairs of draws of e^(shared iterations / sigma^2), the second moment of the ratio."""
    draws = np.array(
        [
            [k in draw for k in range(iterations)]
            for draw in combinations(range(iterations), participations)
        ]
    )
    shared = draws[0].astype(int) @ draws.T  # by symmetry one draw stands for all
    return float(np.log(np.mean(np.exp(shared / sigma**2))))


def _poisson_order_2(iterations: int, participations: int, sigma: float) -> float:
    """The same mean where each iteration is drawn by a coin of its own."""
    counts = np.arange(iterations + 1)
    chance = binom.pmf(counts, iterations, (participations / iterations) ** 2)
    return float(np.log(chance @ np.exp(counts / sigma**2)))


def _shared(iterations: int, participations: int) -> float:
    counts = np.arange(participations + 1)
    return float(counts @ hypergeom.pmf(counts, iterations, participations, participations))


def _least_epsilon(divergence: float, alpha: float, delta: float) -> float:
    """What the worst release with two outputs really has whose divergence is not above the given one.

    One output has chance p with Ada. Its chance without Ada is halved in on until the divergence is used up.
    """
    chance = np.geomspace(1.001 * delta, 1 - 1e-9, 4000)
    low, high = np.log(chance) - 700 / alpha, np.log(chance)  # of the chance without Ada
    for _ in range(60):
        middle = (low + high) / 2
        rest = np.log1p(-chance), np.log(-np.expm1(middle))
        moment = np.logaddexp(
            alpha * np.log(chance) + (1 - alpha) * middle, alpha * rest[0] + (1 - alpha) * rest[1]
        )
        allowed = moment <= (alpha - 1) * divergence
        low, high = np.where(allowed, low, middle), np.where(allowed, middle, high)
    return float((np.log(chance - delta) - high).max())


def _simple_epsilon(divergence: float, alpha: float, delta: float) -> float:
    """Markov's inequality for (P/Q)^(alpha - 1) under P."""
    return divergence + np.log(1 / delta) / (alpha - 1)


def _noiseless(iterations: int, participations: int) -> float:
    """One minus the chance of no heads in as many tosses."""
    return float(1 - binom.pmf(0, iterations, participations / iterations))


def _balanced_leaks(iterations: int, participations: int) -> float:
    """The library's certified leak of exactly k of T at hardly any noise."""
    mechanism = BalancedIterationSubsampling(
        0.02, iterations=iterations, participations=participations
    )
    return float(mechanism.delta(1.0, method="lower"))


def _moved(split: float, unsplit: float) -> float:
    return float(np.linalg.norm([split, unsplit]))


# Samplers that a learner's test sorts ---------------------------------------------------------------


def _choice(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    used = np.zeros(iterations, dtype=bool)
    used[rng.choice(iterations, participations, replace=False)] = True
    return used


def _ranked(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    return np.argsort(np.argsort(rng.random(iterations))) < participations


def _poisson(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    return rng.random(iterations) < participations / iterations


def _replacing(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    used = np.zeros(iterations, dtype=bool)
    used[rng.integers(0, iterations, participations)] = True
    return used


def _in_a_row(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    used = np.zeros(iterations, dtype=bool)
    used[(rng.integers(iterations) + np.arange(participations)) % iterations] = True
    return used


def _one_a_block(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    ends = np.linspace(0, iterations, participations + 1).astype(int)
    used = np.zeros(iterations, dtype=bool)
    used[rng.integers(ends[:-1], ends[1:])] = True
    return used


def _never_last(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    if participations == iterations:
        return np.ones(iterations, dtype=bool)
    return np.append(_choice(iterations - 1, participations, rng), False)


def _frozen(iterations: int, participations: int, rng: np.random.Generator) -> np.ndarray:
    return _choice(iterations, participations, np.random.default_rng(0))


SAMPLERS = {
    "right": (_choice, _ranked),
    "wrong": (_poisson, _replacing, _in_a_row, _one_a_block, _never_last, _frozen),
}
"""Programs that say they draw exactly k of T iterations, every choice with the same chance."""

_SMALL = Cases(iterations=(5, 10), participations=(2, 4), sigma=(0.7, 2.0))
_SIZES = Cases(iterations=(5, 12), participations=(2, 4))


LESSON = Lesson(
    [
        Exercise(
            "2.1",
            "the shift that remains on average",
            (
                near(
                    "it is the length of the mean of all shifts",
                    Cases(submodels=(1, 50)),
                    _mean_shift,
                    1e-6,
                ),
                limit("one submodel: the whole shift", 1.0, submodels=1),
                moves(
                    "more submodels, a shorter shift",
                    Cases(submodels=(1, 20)),
                    "submodels",
                    2,
                    False,
                ),
            ),
        ),
        Exercise(
            "2.2",
            "the likelihood ratio of two submodels",
            (
                near(
                    "it is the ratio of both densities",
                    Cases(first=(-1.0, 2.0), second=(-1.0, 2.0), sigma=(0.5, 2.0)),
                    _ratio,
                    1e-6,
                ),
                limit(
                    "in the middle between nothing and both: no evidence",
                    1.0,
                    first=0.5,
                    second=0.5,
                    sigma=0.7,
                ),
            ),
        ),
        Exercise(
            "2.3",
            "the second moment of the ratio",
            (
                near(
                    "it is the library's Rényi divergence of order 2",
                    Cases(submodels=(1, 12), sigma=(0.6, 3.0)),
                    _split_order_2,
                    1e-5,
                ),
                limit("one submodel: the Gaussian mechanism", 4.0, submodels=1, sigma=0.5),
                moves(
                    "more submodels leak less",
                    Cases(submodels=(1, 12), sigma=(0.6, 3.0)),
                    "submodels",
                    2,
                    False,
                ),
            ),
        ),
        Exercise(
            "2.4",
            "from Rényi to epsilon",
            (
                between(
                    "it lies between what some release with two outputs really has and Markov's inequality",
                    Cases(divergence=(0.02, 1.5), alpha=(2.0, 20.0), delta=(1e-7, 1e-3)),
                    lambda **at: 0.9999 * _least_epsilon(**at),
                    _simple_epsilon,
                ),
                moves(
                    "a smaller delta, a larger epsilon",
                    Cases(divergence=(0.02, 1.5), alpha=(2.0, 20.0), delta=(1e-7, 1e-3)),
                    "delta",
                    5.0,
                    False,
                ),
            ),
        ),
        Exercise(
            "2.5",
            "two iterations at once",
            (
                near("it is the share of all draws that hold both", _SIZES, _both, 1e-6),
                limit("all iterations", 1.0, iterations=7, participations=7),
                limit("only one iteration", 0.0, iterations=7, participations=1),
            ),
        ),
        Exercise(
            "2.6",
            "iterations that two draws share",
            (
                near("it is the mean over all pairs of draws", _SIZES, _shared, 1e-6),
                limit("all iterations are shared", 7.0, iterations=7, participations=7),
            ),
        ),
        Exercise(
            "2.7",
            "exactly k of T: the second moment",
            (
                near(
                    "it is the mean over all pairs of draws",
                    _SMALL,
                    _balanced_order_2,
                    1e-6,
                ),
                limit("all of three iterations", 3.0, iterations=3, participations=3, sigma=1.0),
                holds(
                    "it is never above that of independent coins",
                    _SMALL,
                    lambda answer, at: bool(answer(**at) <= _poisson_order_2(**at) * (1 + 1e-9)),
                ),
            ),
        ),
        Exercise(
            "2.8",
            "coins that never fall",
            (
                near("it is one minus the chance of no heads", _SIZES, _noiseless, 1e-6),
                holds(
                    "it is below what exactly k of T leaks with hardly any noise",
                    _SIZES,
                    lambda answer, at: bool(answer(**at) < _balanced_leaks(**at)),
                ),
            ),
        ),
        Exercise(
            "2.9",
            "a part that is not split",
            (
                near(
                    "it is the length of both parts side by side",
                    Cases(split=(0.1, 2.0), unsplit=(0.0, 2.0)),
                    _moved,
                    1e-6,
                ),
                limit("no unsplit part", 0.8, split=0.8, unsplit=0.0),
            ),
        ),
        Exercise(
            "2.10",
            "find the bug: exactly k of T?",
            (
                sorts(
                    "your test accepts every right sampler and rejects every wrong one",
                    SAMPLERS["right"],
                    SAMPLERS["wrong"],
                ),
            ),
        ),
        Exercise("2.11", "find the bug: a wrong proof", wrong_proofs.EXACTLY_WINS.refuted()),
    ]
)
