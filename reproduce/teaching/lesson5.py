"""Exercises of lesson 5: masks. Routes: all masks enumerated, densities on grids, quadrature, many digits."""

from __future__ import annotations

from itertools import product

import mpmath as mp
import numpy as np

from repro._validate import integer, positive, probability_open
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
from reproduce.teaching.lesson5_programs import BATCH_ACCOUNTANTS, MASKERS

_FAR = 40.0
"""An output so large that every density is on its straight part."""


def masked_pixel(keep: float, epsilon: float, seed: int = 0) -> Game:
    """One weight under a mask and Laplace noise: Ada's pixel is 1, and 0 without her.

    Args:
        keep: chance that the mask keeps the weight, in (0, 1).
        epsilon: of the noise alone, > 0.
        seed: of the numbers that are judged by hand.

    Raises:
        ValueError: an argument out of range.
    """
    kept, scale = float(probability_open("keep", keep)), 1 / float(positive("epsilon", epsilon))
    inside = Mixture(np.array([kept, 1 - kept]), np.array([[1.0], [0.0]]))
    outside = Mixture(np.ones(1), np.zeros((1, 1)))
    return Game(inside, outside, np.sqrt(2) * scale, seed, law="laplace")


def batch_ends(epsilon: float, keep: float, batch: int) -> tuple[float, float]:
    """What the images of one batch give away behind one mask: reached by an attacker, and proved.

    One weight, kept with chance `keep`; the image in question has the pixel 1 or 0, all others have 1.
    The attacker reads every output far above 1 and sums over the two masks.

    Args:
        epsilon: of the noise on each output, > 0.
        keep: in (0, 1).
        batch: images that pass the mask, >= 1.

    Raises:
        ValueError: an argument out of range.
    """
    epsilon, keep = float(positive("epsilon", epsilon)), float(probability_open("keep", keep))
    seen = np.full(integer("batch", batch, 1), _FAR)
    others = np.ones(len(seen) - 1)
    logs = [
        np.logaddexp(
            np.log1p(-keep) - epsilon * np.abs(seen).sum(),
            np.log(keep) - epsilon * np.abs(seen - pixels).sum(),
        )
        for pixels in (np.append(1.0, others), np.append(0.0, others))
    ]
    return float(logs[0] - logs[1]), epsilon


def _masks(cells: int) -> np.ndarray:
    return np.array(list(product((0.0, 1.0), repeat=int(cells))))


def _chances(masks: np.ndarray, keep: float) -> np.ndarray:
    return np.prod(np.where(masks > 0, keep, 1 - keep), axis=1)


def _fitted(
    first_weight: float, second_weight: float, first_output: float, second_output: float
) -> float:
    weights, outputs = (
        np.array([first_weight, second_weight]),
        np.array([first_output, second_output]),
    )
    return float(np.linalg.lstsq(weights[:, None], outputs)[0][0])


def _spread(term: float, weights: int, keep: float) -> float:
    """Every mask of an output, its chance and its value."""
    masks = _masks(weights)
    value, chance = term * masks.sum(axis=1), _chances(masks, keep)
    return float(np.sqrt(chance @ (value - chance @ value) ** 2))


def _averaged(keep: float, views: int) -> float:
    """Every sequence of masks of one weight."""
    masks = _masks(views)
    error = masks.mean(axis=1) / keep - 1
    return float(np.sqrt(_chances(masks, keep) @ error**2))


def _agreed(keep: float, clients: int) -> float:
    """The chances of all uploads in which every bit equals the first."""
    uploads = _masks(clients)
    return float(_chances(uploads, keep)[np.all(uploads == uploads[:, :1], axis=1)].sum())


def _hidden(distance: float, keep: float, weights: int) -> float:
    """An attacker who tries all masks halves the distance where both images give the same output."""
    masks = _masks(weights)
    first, second = (masks @ np.random.default_rng(7).normal(size=(2, weights)).T).T
    alike = np.isclose(first[:, None], second).any(axis=1)
    return distance / 2 * float(_chances(masks, keep)[alike].sum())


def _pixel_epsilon(epsilon: float, keep: float) -> float:
    """Largest log ratio of two densities on a grid."""
    place = np.linspace(-5, 5, 2001)
    empty = np.exp(-epsilon * np.abs(place))
    ink = keep * np.exp(-epsilon * np.abs(place - 1)) + (1 - keep) * empty
    return float(np.abs(np.log(ink / empty)).max())


def _taken_off(epsilon: float, floor: float, weights: int) -> float:
    """The printed formula with so many digits that something is left."""
    with mp.workdps(60 + int(weights * 4)):
        power = mp.mpf(floor) ** int(weights)
        left = mp.log((1 - power) * mp.exp(mp.mpf(epsilon)) + power)
        return float(mp.log10(mp.mpf(epsilon) - left))


def _bit_delta(epsilon: float, first: float, second: float) -> float:
    """All events about one bit, in both directions."""
    chances = [np.array([1 - x, x]) for x in (first, second)]
    return max(
        float(event @ one - np.exp(epsilon) * (event @ other))
        for event in _masks(2)
        for one, other in (chances, chances[::-1])
    )


def _noised_scores(alpha: float, distance: float) -> float:
    """Renyi divergence of two normal laws of deviation 2, by a sum over a grid."""
    reach = 30 + alpha * distance
    place, step = np.linspace(-reach, reach, 60_001, retstep=True)
    logs = [-((place - m) ** 2) / 8 - np.log(2 * np.sqrt(2 * np.pi)) for m in (distance, 0.0)]
    exponent = alpha * logs[0] + (1 - alpha) * logs[1]
    top = exponent.max()
    return float((top + np.log(np.exp(exponent - top).sum() * step)) / (alpha - 1))


def _mask_divergence(alpha: float, first: float, second: float) -> float:
    """Renyi divergence of one bit from another, both outcomes summed, chances from scores."""
    one, other = (np.array([1 / (1 + np.exp(s)), 1 / (1 + np.exp(-s))]) for s in (first, second))
    return float(np.log(np.sum(one**alpha * other ** (1 - alpha))) / (alpha - 1))


def _worst_masks(alpha: float, distance: float) -> float:
    """The pair of bits of this distance that leaks most, from many places."""
    starts = np.linspace(-3 - distance, 3, 121)
    return max(_mask_divergence(alpha, s, s + distance) for s in starts)


def _apart(floor: float, weights: int) -> float:
    """Largest distance of a corner of the cube from the first one."""
    corners = floor + (1 - 2 * floor) * _masks(weights)
    return float(np.linalg.norm(corners - corners[0], axis=1).max())


LESSON = Lesson(
    [
        Exercise(
            "5.1",
            "a pixel out of two outputs",
            (
                near(
                    "it is the pixel of the least squared error",
                    Cases(
                        first_weight=(0.2, 2.0),
                        second_weight=(-2.0, 2.0),
                        first_output=(0.1, 3.0),
                        second_output=(-3.0, 3.0),
                    ),
                    _fitted,
                    1e-6,
                ),
            ),
        ),
        Exercise(
            "5.2",
            "how much a mask shakes one output",
            (
                near(
                    "all masks, enumerated",
                    Cases(term=(0.1, 2.0), weights=(1, 9), keep=(0.05, 0.95)),
                    _spread,
                    1e-6,
                ),
                limit("a mask that keeps all is no noise", 0.0, term=1.0, weights=4, keep=1.0),
            ),
        ),
        Exercise(
            "5.3",
            "averaging over views",
            (
                near(
                    "all sequences of masks, enumerated",
                    Cases(keep=(0.1, 0.9), views=(1, 9)),
                    _averaged,
                    1e-6,
                ),
                moves(
                    "more views, less error",
                    Cases(keep=(0.1, 0.9), views=(1, 9)),
                    "views",
                    2,
                    False,
                ),
            ),
        ),
        Exercise(
            "5.4",
            "when all clients agree",
            (
                near(
                    "all uploads of all clients, enumerated",
                    Cases(keep=(0.1, 0.9), clients=(1, 9)),
                    _agreed,
                    1e-6,
                ),
                limit("a certain bit is always agreed on", 1.0, keep=1.0, clients=6),
                moves(
                    "more clients agree less often",
                    Cases(keep=(0.1, 0.9), clients=(1, 9)),
                    "clients",
                    2,
                    False,
                ),
            ),
        ),
        Exercise(
            "5.5",
            "what no attacker gets around",
            (
                near(
                    "an attacker who tries every mask is left with it",
                    Cases(distance=(0.5, 5.0), keep=(0.1, 0.9), weights=(1, 8)),
                    _hidden,
                    1e-6,
                ),
            ),
        ),
        Exercise(
            "5.6",
            "one weight behind a mask and noise",
            (
                near(
                    "it is the largest ratio of both densities",
                    Cases(epsilon=(0.1, 3.0), keep=(0.1, 0.9)),
                    _pixel_epsilon,
                    1e-6,
                ),
                limit("without a mask the noise alone", 1.5, epsilon=1.5, keep=1.0),
            ),
        ),
        Exercise(
            "5.7",
            "one mask for a whole batch",
            (
                near(
                    "it is what an attacker reaches who knows the other images",
                    Cases(epsilon=(0.1, 2.0), keep=(0.2, 0.9), batch=(1, 12)),
                    lambda epsilon, keep, batch: batch_ends(epsilon, keep, batch)[0],
                    1e-6,
                ),
                moves(
                    "more images, less hidden",
                    Cases(epsilon=(0.1, 2.0), keep=(0.2, 0.9), batch=(1, 12)),
                    "batch",
                    2,
                    True,
                ),
            ),
        ),
        Exercise(
            "5.8",
            "the formula at the size of a network",
            (
                near(
                    "the formula of the paper with a thousand digits",
                    Cases(epsilon=(0.1, 3.0), floor=(0.01, 0.4), weights=(20, 250)),
                    _taken_off,
                    1e-6,
                ),
            ),
        ),
        Exercise(
            "5.9",
            "one bit of an upload",
            (
                near(
                    "all events, in both directions",
                    Cases(epsilon=(0.0, 1.5), first=(0.05, 0.95), second=(0.05, 0.95)),
                    _bit_delta,
                    1e-9,
                ),
                limit("equal chances say nothing", 0.0, epsilon=0.0, first=0.3, second=0.3),
            ),
        ),
        Exercise(
            "5.10",
            "a sampled mask is noise of deviation 2",
            (
                near(
                    "two normal laws of deviation 2, summed on a grid",
                    Cases(alpha=(1.5, 8.0), distance=(0.1, 4.0)),
                    _noised_scores,
                ),
                between(
                    "no bit leaks more",
                    Cases(alpha=(1.5, 8.0), distance=(0.1, 4.0)),
                    _worst_masks,
                    lambda alpha, distance: np.inf,
                ),
            ),
        ),
        Exercise(
            "5.11",
            "how far two masks can be apart",
            (
                near(
                    "the corners of a cube, one after the other",
                    Cases(floor=(0.01, 0.4), weights=(1, 10)),
                    _apart,
                    1e-9,
                ),
                holds(
                    "four times the weights, twice the distance",
                    Cases(floor=(0.01, 0.4), weights=(1, 100_000)),
                    lambda answer, case: bool(
                        np.isclose(
                            answer(**{**case, "weights": 4 * case["weights"]}), 2 * answer(**case)
                        )
                    ),
                ),
            ),
        ),
        Exercise(
            "5.12",
            "find the bug: is every mask fresh?",
            (
                sorts(
                    "your test accepts every right program and rejects every wrong one",
                    MASKERS["right"],
                    MASKERS["wrong"],
                ),
            ),
        ),
        Exercise(
            "5.13",
            "find the bug: is the accountant of a batch safe?",
            (
                sorts(
                    "your test accepts every safe program and rejects every unsafe one",
                    BATCH_ACCOUNTANTS["right"],
                    BATCH_ACCOUNTANTS["wrong"],
                ),
            ),
        ),
        Exercise("5.14", "find the bug: a wrong proof", wrong_proofs.BATCH_OF_IMAGES.refuted()),
    ]
)
