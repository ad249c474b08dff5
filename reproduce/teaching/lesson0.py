"""Exercises of lesson 0: what (epsilon, delta) means. Each property uses a route of its own, not the asked formula."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.stats import norm

from repro.accounting import GaussianMechanism
from reproduce.papers.second_routes import Mixture, grid_divergence
from reproduce.teaching import wrong_proofs
from reproduce.teaching.checks import (
    Answer,
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

_POINTS = 4001  # of grids on a line


def point(value: float) -> Mixture:
    """One certain number, as a mixture on a line."""
    return Mixture(np.ones(1), np.array([[value]]))


def one_number(sigma: float, seed: int = 0) -> Game:
    """The game of this lesson: a sum that Ada's record moves by 1, plus noise."""
    return Game(point(1.0), point(0.0), sigma, seed)


def _integral(epsilon: float, sigma: float, clip: float = 1.0) -> float:
    return grid_divergence(point(clip), point(0.0), sigma, np.exp(epsilon), _POINTS)


def _half_lines(epsilon: float, sigma: float, clip: float) -> float:
    """What the best of many half-lines reaches; the grid reaches over every useful threshold."""
    start = np.linspace(-4, 4, 4001) * sigma + clip / 2 + epsilon * sigma**2 / clip
    gain = norm.sf(start, clip, sigma) - np.exp(epsilon) * norm.sf(start, 0, sigma)
    return float(max(0.0, gain.max()))


def _best_rate(fpr: float, sigma: float) -> float:
    alarms, hits = one_number(sigma).best()
    return float(np.interp(fpr, alarms, hits))


def _worst_pair(fpr: float, epsilon: float, delta: float) -> float:
    """Hits of the best attack on four outcomes whose ratios are as bad as the promise lets them be."""
    big, small = (1 - delta) / (1 + np.exp(-epsilon)), (1 - delta) / (1 + np.exp(epsilon))
    hits = np.cumsum([0.0, delta, big, small, 0.0])
    alarms = np.cumsum([0.0, 0.0, small, big, delta])
    return float(np.interp(fpr, alarms[1:], hits[1:]))


def _coin_ratio(truth: float) -> float:
    table = np.array([[truth, 1 - truth], [1 - truth, truth]])
    return float(np.abs(np.log(table[0] / table[1])).max())


def _belief(prior: float, epsilon: float) -> float:
    """Bayes after the answer "yes" of a coin whose two answers have the ratio e^epsilon."""
    truth = 1 / (1 + np.exp(-epsilon))
    yes = prior * truth, (1 - prior) * (1 - truth)
    return float(yes[0] / sum(yes))


def _widest(low: float, high: float, replaced: float) -> float:
    """Brute force over values, those beyond the ends clipped."""
    values = np.clip(np.linspace(low - 1, high + 1, 301), low, high)
    other = values if replaced else np.zeros(1)
    return float(np.abs(values[:, None] - other).max())


@cache  # a grid in the plane; checks come back to the same parameters
def _two_in_the_plane(sigma: float, rounds: int) -> float:
    """Noise of one release that leaks as much at epsilon 0.5 as two releases, seen as a point in the plane."""
    both = [Mixture(np.ones(1), np.full((1, rounds), value)) for value in (1.0, 0.0)]
    target = grid_divergence(*both, sigma, np.exp(0.5), 401)
    noise = np.geomspace(sigma / 4, sigma, 2000)
    return float(np.interp(-target, -GaussianMechanism(noise).delta(0.5), noise))


def _repeats(answer: Answer, at: dict[str, float]) -> bool:
    """Asked three times `rounds` times is asked 3 `rounds` times."""
    once = answer(sigma=at["sigma"], rounds=3 * at["rounds"])
    again = answer(sigma=answer(**at), rounds=3)
    return bool(abs(once - again) <= 1e-6 * abs(once))


# Releases that a learner's test sorts -------------------------------------------------------------


def _right(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.clip(values, 0, 1).sum() + rng.normal(0, sigma))


def _right_too(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(sigma * rng.standard_normal() + np.minimum(np.maximum(values, 0), 1).sum())


def _unclipped(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.sum(values) + rng.normal(0, sigma))


def _one_end(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.minimum(values, 1).sum() + rng.normal(0, sigma))


def _squared(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.clip(values, 0, 1).sum() + rng.normal(0, sigma**2))


def _frozen(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.clip(values, 0, 1).sum() + np.random.default_rng(0).normal(0, sigma))


def _shrunk(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.clip(values, 0, 1).sum() + rng.normal(0, sigma) / np.sqrt(max(len(values), 1)))


def _noise_first(values: np.ndarray, sigma: float, rng: np.random.Generator) -> float:
    return float(np.clip(values + rng.normal(0, sigma, len(values)), 0, 1).sum())


RELEASES = {
    "right": (_right, _right_too),
    "wrong": (_unclipped, _one_end, _squared, _frozen, _shrunk, _noise_first),
}
"""Programs that say they add N(0, sigma^2) to the sum of values clipped to [0, 1]."""


LESSON = Lesson(
    [
        Exercise(
            "0.1",
            "how often the attacker is right",
            (
                near(
                    "it agrees with the overlap of the two laws, summed on a grid",
                    Cases(sigma=(0.2, 5.0)),
                    lambda sigma: (1 + _integral(0.0, sigma)) / 2,
                ),
                limit("without noise the attacker is always right", 1.0, sigma=0.01),
                limit("much noise leaves only guessing", 0.5, 1e-3, sigma=1e4),
                moves(
                    "more noise, fewer right guesses", Cases(sigma=(0.2, 5.0)), "sigma", 1.5, False
                ),
            ),
        ),
        Exercise(
            "0.2",
            "false alarms of a threshold",
            (
                near(
                    "it is the share of the noise above the threshold",
                    Cases(threshold=(-2.0, 3.0), sigma=(0.4, 3.0)),
                    lambda threshold, sigma: norm.sf(threshold, 0, sigma),
                ),
                limit(
                    "a threshold of 0 has a false alarm in half of the cases",
                    0.5,
                    threshold=0.0,
                    sigma=0.7,
                ),
                moves(
                    "a higher threshold, fewer false alarms",
                    Cases(threshold=(0.1, 2.0), sigma=(0.5, 2.0)),
                    "threshold",
                    1.5,
                    False,
                ),
            ),
        ),
        Exercise(
            "0.3",
            "the best ROC curve",
            (
                near(
                    "no attack on a fine grid of releases is better, and the best is as good",
                    Cases(fpr=(0.01, 0.95), sigma=(0.4, 4.0)),
                    _best_rate,
                    2e-3,
                ),
                limit("who always says “in” hits always", 1.0, 1e-3, fpr=1 - 1e-9, sigma=1.0),
                moves(
                    "more noise, fewer hits",
                    Cases(fpr=(0.02, 0.9), sigma=(0.4, 4.0)),
                    "sigma",
                    1.5,
                    False,
                ),
                moves(
                    "more false alarms, more hits",
                    Cases(fpr=(0.02, 0.4), sigma=(0.4, 4.0)),
                    "fpr",
                    2,
                    True,
                ),
            ),
        ),
        Exercise(
            "0.4",
            "the line that no curve crosses",
            (
                near(
                    "it is what the best attack reaches on the worst four outcomes that the promise allows",
                    Cases(fpr=(0.0, 1.0), epsilon=(0.05, 3.0), delta=(0.0, 0.3)),
                    _worst_pair,
                    1e-6,
                ),
                limit(
                    "no false alarms, then only delta is left", 0.1, fpr=0.0, epsilon=1.0, delta=0.1
                ),
                limit("a rate is never above 1", 1.0, fpr=1.0, epsilon=1.0, delta=0.1),
                moves(
                    "a larger epsilon allows more",
                    Cases(fpr=(0.05, 0.9), epsilon=(0.1, 2.0), delta=(0.0, 0.1)),
                    "epsilon",
                    1.5,
                    True,
                ),
            ),
        ),
        Exercise(
            "0.5",
            "delta of one noisy number",
            (
                between(
                    "it lies between what the best half-line reaches and the sum over all events",
                    Cases(epsilon=(0.0, 2.0), sigma=(0.4, 2.0), clip=(0.5, 2.0)),
                    lambda epsilon, sigma, clip: 0.999 * _half_lines(epsilon, sigma, clip),
                    lambda epsilon, sigma, clip: 1.001 * _integral(epsilon, sigma, clip) + 1e-7,
                ),
                limit("without noise everything shows", 1.0, epsilon=1.0, sigma=0.01, clip=1.0),
                limit("much noise hides everything", 0.0, epsilon=1.0, sigma=100.0, clip=1.0),
                moves(
                    "a longer clip leaks more",
                    Cases(epsilon=(0.0, 1.0), sigma=(0.5, 2.0), clip=(0.5, 2.0)),
                    "clip",
                    1.5,
                    True,
                ),
            ),
        ),
        Exercise(
            "0.6",
            "epsilon of a coin",
            (
                near(
                    "it is the largest ratio of the four chances",
                    Cases(truth=(0.5, 0.99)),
                    _coin_ratio,
                    1e-6,
                ),
                limit("an answer by a fair coin says nothing", 0.0, truth=0.5),
                moves("more truth, more loss", Cases(truth=(0.5, 0.8)), "truth", 1.2, True),
            ),
        ),
        Exercise(
            "0.7",
            "what the attacker may believe afterwards",
            (
                near(
                    "it is Bayes' rule after the most telling answer of a coin with this epsilon",
                    Cases(prior=(0.01, 0.95), epsilon=(0.05, 4.0)),
                    _belief,
                    1e-6,
                ),
                limit("epsilon 0 changes no belief", 0.3, prior=0.3, epsilon=0.0),
                moves(
                    "a larger epsilon, more belief",
                    Cases(prior=(0.1, 0.9), epsilon=(0.1, 2.0)),
                    "epsilon",
                    2,
                    True,
                ),
            ),
        ),
        Exercise(
            "0.8",
            "the noise that a promise needs",
            (
                holds(
                    "with your noise the promise is kept",
                    Cases(epsilon=(0.2, 4.0), delta=(1e-8, 1e-2)),
                    lambda answer, at: bool(
                        answer(**at) > 0
                        and GaussianMechanism(float(answer(**at))).delta(at["epsilon"])
                        <= 1.001 * at["delta"]
                    ),
                ),
                holds(
                    "with one percent less noise it would be broken",
                    Cases(epsilon=(0.2, 4.0), delta=(1e-8, 1e-2)),
                    lambda answer, at: bool(
                        GaussianMechanism(0.99 * float(answer(**at))).delta(at["epsilon"])
                        > at["delta"]
                    ),
                ),
            ),
        ),
        Exercise(
            "0.9",
            "many releases are one with less noise",
            (
                near(
                    "two releases, seen as a point in the plane, leak as much",
                    Cases(sigma=(0.8, 3.0), rounds=(2,)),
                    _two_in_the_plane,
                    5e-3,
                ),
                holds(
                    "asked three times as often is asked three times",
                    Cases(sigma=(1.0, 6.0), rounds=(1, 12)),
                    _repeats,
                ),
                limit("one release is itself", 2.5, sigma=2.5, rounds=1),
                moves(
                    "more releases, less noise",
                    Cases(sigma=(1.0, 6.0), rounds=(1, 12)),
                    "rounds",
                    3,
                    False,
                ),
            ),
        ),
        Exercise(
            "0.10",
            "how far one record moves the sum",
            (
                near(
                    "it is the largest move over all clipped values",
                    Cases(low=(-2.0, 0.0), high=(0.1, 3.0), replaced=(0, 1)),
                    _widest,
                    1e-6,
                ),
                limit("values of -1 to 1, one record added", 1.0, low=-1.0, high=1.0, replaced=0),
                limit(
                    "values of -1 to 1, one record replaced", 2.0, low=-1.0, high=1.0, replaced=1
                ),
            ),
        ),
        Exercise(
            "0.11",
            "find the bug: is the release what it says?",
            (
                sorts(
                    "your test accepts every right release and rejects every wrong one",
                    RELEASES["right"],
                    RELEASES["wrong"],
                ),
            ),
        ),
        Exercise("0.12", "find the bug: a wrong proof", wrong_proofs.BAD_OUTPUTS.refuted()),
    ]
)
