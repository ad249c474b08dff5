"""Exercises of lesson 3: split models. Routes: enumerated draws, the library's bounds of a run, and small trainings."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.optimize import brentq

from repro.accounting import GaussianMechanism, PoissonGaussian, compose
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.mspafl.run import run_delta, server_delta_lower
from reproduce.papers.second_routes import Mixture, grid_divergence
from reproduce.teaching import wrong_proofs
from reproduce.teaching.checks import Cases, Exercise, Lesson, holds, limit, moves, near, sorts
from reproduce.teaching.games import Game

HALF = 0.5
"""The clip: replacing a record then moves an upload by at most 1."""


def two_uploads(q: float, sigma: float, kept: bool, seed: int = 0) -> Game:
    """Two uploads of Ada's client. With `kept` a record that was drawn shows in every later upload too."""
    draws = np.array(list(product((0, 1), repeat=2)))
    chance = q ** draws.sum(1) * (1 - q) ** (2 - draws.sum(1))
    shown = np.maximum.accumulate(draws, axis=1) if kept else draws
    outside = Mixture(np.ones(1), np.zeros((1, 2)))
    return Game(Mixture(chance, shown.astype(float)), outside, sigma, seed)


def run_ends(epsilon: float, sigma: float, q: float, rounds: int) -> tuple[float, float]:
    """What a server that sees every upload is certain to reach, and what nobody exceeds, at one epsilon."""
    setting = {"ratio": 1 / sigma, "p": 1.0, "q": q}
    ends = (f(np.array([epsilon]), rounds, **setting)[0] for f in (server_delta_lower, run_delta))
    low, high = ends
    return float(low), float(high)


def trained(noise: float, share_upload: bool, rounds: int = 40, seed: int = 0) -> float:
    """Test accuracy of two clients that split a logistic model: one half shared with noise, one kept.

    The labels follow from the kept half for the most part. With `share_upload` False the uploads are pure noise.

    Args:
        noise: standard deviation of the noise on an upload.
        share_upload: whether uploads contain what was learned.
        rounds: of training.
        seed: of data and noise.
    """
    rng = np.random.default_rng(seed)
    truth = np.concatenate([np.full(5, 0.3), np.full(5, 1.0)])  # the kept half tells more
    x = rng.normal(size=(2, 1200, 10))
    y = (x @ truth + rng.logistic(size=(2, 1200)) > 0).astype(float)
    weights = np.zeros((2, 10))
    for _ in range(rounds):
        for _ in range(5):  # local steps
            guess = 1 / (1 + np.exp(-np.einsum("cnk,ck->cn", x[:, :600], weights)))
            weights += 0.5 * np.einsum("cn,cnk->ck", y[:, :600] - guess, x[:, :600]) / 600
        uploads = weights[:, :5] * share_upload + noise * rng.normal(size=(2, 5))
        weights[:, :5] = uploads.mean(axis=0)
    right = (np.einsum("cnk,ck->cn", x[:, 600:], weights) > 0) == (y[:, 600:] > 0.5)
    return float(right.mean())


def _remembered(q: float, rounds: int) -> float:
    """The chance of each first draw, added up."""
    return float(sum(q * (1 - q) ** j for j in range(rounds)))


def _touched(q: float, rounds: int) -> float:
    """Mean number of uploads from the first draw on, over all sequences of draws."""
    draws = np.array(list(product((0, 1), repeat=rounds)))
    chance = q ** draws.sum(1) * (1 - q) ** (rounds - draws.sum(1))
    return float(chance @ np.maximum.accumulate(draws, axis=1).sum(1))


def _paths(q: float) -> list[float]:
    game = two_uploads(q, 1.0, kept=True)
    counts = game.inside.means.sum(axis=1)
    return [float(game.inside.weights[counts == k].sum()) for k in range(3)]


def _upload(epsilon: float, sigma: float, q: float) -> float:
    return float(AveragedUploads(sigma, p=1.0, q=q, clients=1, clip=HALF).delta(epsilon))


def _seen(epsilon: float, sigma: float, p: float) -> float:
    return float(AveragedUploads(sigma, p=p, q=1.0, clients=1, clip=HALF).delta(epsilon))


def _all_rounds(epsilon: float, sigma: float, rounds: int) -> float:
    """The sum of all uploads, as two laws on a line."""
    shifted, still = (Mixture(np.ones(1), np.array([[m]])) for m in (float(rounds), 0.0))
    return grid_divergence(shifted, still, sigma * np.sqrt(rounds), np.exp(epsilon), 4001)


def _signal(sigma: float, participants: int) -> float:
    """One client moved by 1 among equals: the average of its change over the deviation of averaged noise."""
    moved = np.zeros(participants)
    moved[0] = 1.0
    covariance = sigma**2 * np.eye(participants)
    each = np.full(participants, 1 / participants)
    return float(moved.mean() / np.sqrt(each @ covariance @ each))


def _record(by_weight: float, by_offset: float) -> float:
    """The record whose squared loss has these gradients: the one place where a line search finds no error."""

    def error(record: float) -> float:
        residual = by_offset  # the derivative by the offset is the residual itself
        return residual * record - by_weight

    return float(brentq(error, -1e4, 1e4, xtol=1e-12))


def _explained(accuracy: float, control: float, trivial: float) -> float:
    """The place of the control on the line from the trivial predictor (0) to the method (1)."""
    return float(np.interp(control, [trivial, accuracy], [0.0, 1.0]))


# Accountants of a run that a learner's test sorts ---------------------------------------------------


def _never_forgets(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    return float(GaussianMechanism(sigma / np.sqrt(rounds)).delta(epsilon))


def _library(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    return run_ends(epsilon, sigma, q, rounds)[1]


def _every_round_anew(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    return float(compose(PoissonGaussian(sigma, rate=q), rounds).delta(epsilon))


def _only_drawn(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    """As if the record were used in the mean number of its draws."""
    return float(GaussianMechanism(sigma / np.sqrt(q * rounds)).delta(epsilon))


def _rate_in_front(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    return q * _never_forgets(epsilon, sigma, q, rounds)


def _one_round(epsilon: float, sigma: float, q: float, rounds: int) -> float:
    return min(1.0, rounds * float(GaussianMechanism(sigma).delta(epsilon)))


ACCOUNTANTS = {
    "right": (_never_forgets, _library),
    "wrong": (_every_round_anew, _only_drawn, _rate_in_front, _one_round),
}
"""Functions that say they bound delta of a whole run with a kept half."""

_RUNS = {"q": (0.02, 0.9), "rounds": (1, 9)}
_LOSS = {"epsilon": (0.0, 1.0), "sigma": (0.5, 3.0)}


LESSON = Lesson(
    [
        Exercise(
            "3.1",
            "a record out of a gradient",
            (
                near(
                    "a search for the record finds the same",
                    Cases(by_weight=(-3.0, 3.0), by_offset=(0.1, 2.0)),
                    _record,
                    1e-6,
                ),
                limit(
                    "weight and offset alike: the record is 1", 1.0, by_weight=0.7, by_offset=0.7
                ),
                limit(
                    "gradients of opposite sign: a negative record",
                    -2.0,
                    by_weight=1.0,
                    by_offset=-0.5,
                ),
            ),
        ),
        Exercise(
            "3.2",
            "a share for the control",
            (
                near(
                    "it is the place of the control between trivial predictor and method",
                    Cases(accuracy=(0.85, 0.95), control=(0.7, 0.84), trivial=(0.5, 0.69)),
                    _explained,
                    1e-6,
                ),
                limit(
                    "a control as good as the method explains all",
                    1.0,
                    accuracy=0.8,
                    control=0.8,
                    trivial=0.6,
                ),
                limit(
                    "a control as bad as the trivial predictor explains nothing",
                    0.0,
                    accuracy=0.8,
                    control=0.6,
                    trivial=0.6,
                ),
            ),
        ),
        Exercise(
            "3.3",
            "one upload",
            (
                near(
                    "it is the library's loss of one upload",
                    Cases(**_LOSS, q=(0.02, 1.0)),
                    _upload,
                    1e-4,
                ),
                limit("a record that is never drawn", 0.0, 1e-6, epsilon=0.5, sigma=1.0, q=1e-9),
                moves("drawn more often, leaks more", Cases(**_LOSS, q=(0.1, 0.5)), "q", 1.5, True),
            ),
        ),
        Exercise(
            "3.4",
            "the server knows who came",
            (
                near(
                    "it is the library's loss of one upload",
                    Cases(**_LOSS, p=(0.02, 1.0)),
                    _seen,
                    1e-4,
                ),
                limit("a client that never comes", 0.0, 1e-6, epsilon=0.5, sigma=1.0, p=1e-9),
            ),
        ),
        Exercise(
            "3.5",
            "still remembered",
            (
                near("it is the sum over all first draws", Cases(**_RUNS), _remembered, 1e-6),
                limit("no rounds, no memory", 0.0, q=0.3, rounds=0),
                limit("many rounds: for sure", 1.0, q=0.3, rounds=1000),
            ),
        ),
        Exercise(
            "3.6",
            "two uploads and a memory",
            (
                near("it agrees with all draws enumerated", Cases(q=(0.02, 0.98)), _paths, 1e-6),
                holds(
                    "the three chances add up to 1",
                    Cases(q=(0.02, 0.98)),
                    lambda answer, at: abs(sum(answer(**at)) - 1) < 1e-9,
                ),
            ),
        ),
        Exercise(
            "3.7",
            "uploads that depend on the record",
            (
                near("it is the mean over all sequences of draws", Cases(**_RUNS), _touched, 1e-6),
                limit("drawn in every round", 7.0, q=1.0, rounds=7),
                moves("more rounds, more uploads", Cases(**_RUNS), "rounds", 2, True),
            ),
        ),
        Exercise(
            "3.8",
            "drawn in the first round",
            (
                near(
                    "it is the sum over all events",
                    Cases(**_LOSS, rounds=(1, 20)),
                    _all_rounds,
                    2e-3,
                ),
                moves("more rounds leak more", Cases(**_LOSS, rounds=(1, 20)), "rounds", 2, True),
            ),
        ),
        Exercise(
            "3.9",
            "hidden in an average",
            (
                near(
                    "it is the move of the average over the deviation of its noise",
                    Cases(sigma=(0.3, 5.0), participants=(1, 200)),
                    _signal,
                    1e-6,
                ),
                limit("one participant", 2.0, sigma=0.5, participants=1),
            ),
        ),
        Exercise(
            "3.10",
            "find the bug: is the accountant of the run safe?",
            (
                sorts(
                    "your test accepts every safe accountant and rejects every unsafe one",
                    ACCOUNTANTS["right"],
                    ACCOUNTANTS["wrong"],
                ),
            ),
        ),
        Exercise("3.11", "find the bug: a wrong proof", wrong_proofs.KEPT_STATE.refuted()),
    ]
)
