"""Lesson 5: every solution is accepted, mistakes that people make are rejected, the story's numbers are right."""

from __future__ import annotations

import numpy as np
import pytest

import lessons
from repro.accounting.pmsfl import printed, releases
from reproduce.papers.pmsfl.second_routes import averaging_errors, frozen_by_drift, masked_loss
from reproduce.teaching.games import allowed
from reproduce.teaching.lesson5 import LESSON, batch_ends, masked_pixel
from reproduce.teaching.lesson5_programs import BATCH_ACCOUNTANTS, MASKERS

RIGHT = lessons.answers("lesson5")


def _shares_of_ones(masker):
    """A test that looks at the share of ones in each column only."""
    theta = np.array([0.15, 0.3, 0.5, 0.7, 0.85])
    drawn = masker(theta, 4000, np.random.default_rng(1))
    return bool(np.abs(drawn.mean(axis=0) - theta).max() < 0.05)


def _within_a_view(masker):
    """Shares and pairs of columns, not neighbouring views."""
    theta = np.array([0.15, 0.3, 0.5, 0.7, 0.85])
    drawn = masker(theta, 4000, np.random.default_rng(1)) - theta
    pairs = (drawn.T @ drawn / len(drawn))[np.triu_indices(5, 1)]
    return bool(np.abs(drawn.mean(axis=0)).max() < 0.05 and np.abs(pairs).max() < 0.05)


def _always_half(masker):
    drawn = masker(np.full(5, 0.5), 4000, np.random.default_rng(1))
    return bool(np.abs(drawn.mean(axis=0) - 0.5).max() < 0.05)


def _compares(batches, share=1.0, end=0):
    """A test of accountants that looks at some batches only."""

    def safe(accountant):
        settings = [(e, p, b) for e in (0.1, 1.0) for p in (0.2, 0.9) for b in batches]
        return all(accountant(*at) >= share * batch_ends(*at)[end] - 1e-9 for at in settings)

    return safe


WRONG = {
    "5.1": {
        "lengths": lambda first_weight, second_weight, first_output, second_output: (
            np.hypot(first_output, second_output) / np.hypot(first_weight, second_weight)
        ),
        "mean of quotients": lambda first_weight, second_weight, first_output, second_output: (
            (first_output / first_weight + second_output / second_weight) / 2
        ),
        "first only": lambda first_weight, second_weight, first_output, second_output: (
            first_output / first_weight
        ),
        "sums": lambda first_weight, second_weight, first_output, second_output: (
            (first_output + second_output) / (first_weight + second_weight)
        ),
        "no squares": lambda first_weight, second_weight, first_output, second_output: (
            (first_weight * first_output + second_weight * second_output)
            / (first_weight + second_weight)
        ),
        "not divided": lambda first_weight, second_weight, first_output, second_output: (
            first_weight * first_output + second_weight * second_output
        ),
    },
    "5.2": {
        "root forgotten at the chance": lambda term, weights, keep: (
            term * np.sqrt(weights) * keep * (1 - keep)
        ),
        "variance": lambda term, weights, keep: term**2 * weights * keep * (1 - keep),
        "deviations added": lambda term, weights, keep: term * weights * np.sqrt(keep * (1 - keep)),
        "second moment": lambda term, weights, keep: term * np.sqrt(weights * keep),
        "dropped only": lambda term, weights, keep: term * np.sqrt(weights * (1 - keep)),
        "at a half": lambda term, weights, keep: term * np.sqrt(weights) / 2,
        "mean": lambda term, weights, keep: term * weights * keep,
    },
    "5.3": {
        "no chance": lambda keep, views: 1 / np.sqrt(views),
        "root of the chance only": lambda keep, views: (1 - keep) / np.sqrt(keep * views),
        "no root": lambda keep, views: (1 - keep) / (keep * views),
        "not divided": lambda keep, views: np.sqrt(keep * (1 - keep) / views),
        "one view": lambda keep, views: np.sqrt((1 - keep) / keep),
        "upside down": lambda keep, views: np.sqrt(keep / ((1 - keep) * views)),
        "views for root": lambda keep, views: np.sqrt((1 - keep) / keep) / views,
        "one less": lambda keep, views: np.sqrt((1 - keep) / (keep * max(views - 1, 1))),
    },
    "5.4": {
        "one after the other": lambda keep, clients: (keep**2 + (1 - keep) ** 2) ** (clients - 1),
        "the likelier bit": lambda keep, clients: max(keep, 1 - keep) ** clients,
        "all ones": lambda keep, clients: keep**clients,
        "all zeros": lambda keep, clients: (1 - keep) ** clients,
        "at a half": lambda keep, clients: 2.0 * 0.5**clients,
        "one less": lambda keep, clients: keep ** (clients - 1) + (1 - keep) ** (clients - 1),
        "not all": lambda keep, clients: 1 - keep**clients - (1 - keep) ** clients,
        "multiplied": lambda keep, clients: (keep * (1 - keep)) ** clients,
    },
    "5.5": {
        "all or none": lambda distance, keep, weights: (
            distance / 2 * ((1 - keep) ** weights + keep**weights)
        ),
        "whole distance": lambda distance, keep, weights: distance * (1 - keep) ** weights,
        "all kept": lambda distance, keep, weights: distance / 2 * keep**weights,
        "one dropped": lambda distance, keep, weights: distance / 2 * (1 - keep**weights),
        "added": lambda distance, keep, weights: distance / 2 * (1 - keep) * weights,
        "one weight": lambda distance, keep, weights: distance / 2 * (1 - keep),
        "no chance": lambda distance, keep, weights: distance / 2,
    },
    "5.6": {
        "best case only": lambda epsilon, keep: max(0.0, epsilon + np.log(keep)),
        "epsilon for its power": lambda epsilon, keep: np.log1p(keep * epsilon),
        "times the chance": lambda epsilon, keep: keep * epsilon,
        "noise alone": lambda epsilon, keep: epsilon,
        "no logarithm": lambda epsilon, keep: 1 - keep + keep * np.exp(epsilon),
        "dropped and kept": lambda epsilon, keep: np.log(keep + (1 - keep) * np.exp(epsilon)),
        "nothing dropped": lambda epsilon, keep: np.log(keep * np.exp(epsilon)),
        "other direction": lambda epsilon, keep: -np.log(1 - keep + keep * np.exp(-epsilon)),
        "to the power": lambda epsilon, keep: np.log(1 - keep + keep * np.exp(keep * epsilon)),
    },
    "5.7": {
        "a mask each": lambda epsilon, keep, batch: (
            batch * np.log(1 - keep + keep * np.exp(epsilon))
        ),
        "kept for all": lambda epsilon, keep, batch: np.log(
            1 - keep**batch + keep**batch * np.exp(epsilon)
        ),
        "one image": lambda epsilon, keep, batch: np.log(1 - keep + keep * np.exp(epsilon)),
        "noise alone": lambda epsilon, keep, batch: epsilon,
        "all images differ": lambda epsilon, keep, batch: np.log(
            1 - keep + keep * np.exp(batch * epsilon)
        ),
        "one more": lambda epsilon, keep, batch: np.log(
            (keep * np.exp((batch + 1) * epsilon) + 1 - keep)
            / (keep * np.exp(batch * epsilon) + 1 - keep)
        ),
        "upside down": lambda epsilon, keep, batch: -RIGHT["5.7"](epsilon, keep, batch),
        "shared out": lambda epsilon, keep, batch: (
            np.log(1 - keep + keep * np.exp(batch * epsilon)) / batch
        ),
        "exchanged": lambda epsilon, keep, batch: RIGHT["5.7"](epsilon, 1 - keep, batch),
    },
    "5.8": {
        "logarithms mixed": lambda epsilon, floor, weights: (
            weights * np.log10(floor) + np.log(-np.expm1(-epsilon))
        ),
        "one weight less": lambda epsilon, floor, weights: (
            (weights - 1) * np.log10(floor) + np.log10(-np.expm1(-epsilon))
        ),
        "base e": lambda epsilon, floor, weights: (
            weights * np.log(floor) + np.log(-np.expm1(-epsilon))
        ),
        "power only": lambda epsilon, floor, weights: weights * np.log10(floor),
        "one weight": lambda epsilon, floor, weights: (
            np.log10(floor) + np.log10(-np.expm1(-epsilon))
        ),
        "growth": lambda epsilon, floor, weights: (
            weights * np.log10(floor) + np.log10(np.expm1(epsilon))
        ),
        "kept": lambda epsilon, floor, weights: (
            weights * np.log10(1 - floor) + np.log10(-np.expm1(-epsilon))
        ),
        "epsilon": lambda epsilon, floor, weights: weights * np.log10(floor) + np.log10(epsilon),
    },
    "5.9": {
        "zeros only": lambda epsilon, first, second: max(
            (1 - first) - np.exp(epsilon) * (1 - second),
            (1 - second) - np.exp(epsilon) * (1 - first),
            0,
        ),
        "one plus epsilon": lambda epsilon, first, second: max(
            0,
            first - (1 + epsilon) * second,
            second - (1 + epsilon) * first,
            second - first - epsilon * (1 - second),
            first - second - epsilon * (1 - first),
        ),
        "one way": lambda epsilon, first, second: max(first - np.exp(epsilon) * second, 0),
        "ones only": lambda epsilon, first, second: max(
            first - np.exp(epsilon) * second, second - np.exp(epsilon) * first, 0
        ),
        "no epsilon": lambda epsilon, first, second: abs(first - second),
        "not cut off": lambda epsilon, first, second: first - np.exp(epsilon) * second,
        "both ways added": lambda epsilon, first, second: (
            max(first - np.exp(epsilon) * second, 0) + max(second - np.exp(epsilon) * first, 0)
        ),
        "epsilon taken off": lambda epsilon, first, second: max(abs(first - second) - epsilon, 0),
        "larger": lambda epsilon, first, second: max(first, second),
    },
    "5.10": {
        "deviation 1": lambda alpha, distance: alpha * distance**2 / 2,
        "variance 2": lambda alpha, distance: alpha * distance**2 / 4,
        "no square": lambda alpha, distance: alpha * distance / 8,
        "no order": lambda alpha, distance: distance**2 / 8,
        "order less one": lambda alpha, distance: (alpha - 1) * distance**2 / 8,
        "variance 16": lambda alpha, distance: alpha * distance**2 / 32,
        "at a half, first order": lambda alpha, distance: (
            alpha / 2 * np.log(np.cosh(distance / 2) ** 2)
        ),
    },
    "5.11": {
        "margin under the root": lambda floor, weights: np.sqrt(weights * (1 - 2 * floor)),
        "one coordinate": lambda floor, weights: 1 - 2 * floor,
        "no root": lambda floor, weights: weights * (1 - 2 * floor),
        "one margin": lambda floor, weights: np.sqrt(weights) * (1 - floor),
        "no margin": lambda floor, weights: np.sqrt(weights),
        "squared": lambda floor, weights: weights * (1 - 2 * floor) ** 2,
        "from the middle": lambda floor, weights: np.sqrt(weights) * (0.5 - floor),
    },
    "5.12": {
        "always fresh": lambda masker: True,
        "never fresh": lambda masker: False,
        "shares of ones": _shares_of_ones,
        "within a view": _within_a_view,
        "chances of a half": _always_half,
        "stops": lambda masker: masker(),
        "a number": lambda masker: 7,
    },
    "5.13": {
        "much noise": lambda accountant: (
            accountant(20.0, 0.5, 4) >= batch_ends(20.0, 0.5, 4)[0] - 1
        ),
        "always safe": lambda accountant: True,
        "never safe": lambda accountant: False,
        "one image": _compares((1,)),
        "two images": _compares((1, 2)),
        "far from it": _compares((1, 32), share=0.02),
        "the noise alone": _compares((1, 8), end=1),
        "equal only": lambda accountant: bool(
            abs(accountant(1.0, 0.5, 8) - batch_ends(1.0, 0.5, 8)[0]) < 1e-9
        ),
    },
    "5.14": lessons.objections(
        (1, {"epsilon": 1.0, "keep": 0.5, "batch": 4}),
        (2, {"epsilon": 1.0, "keep": 0.5, "batch": 4}),
        (4, {"epsilon": 1.0, "keep": 0.5, "batch": 4}),
        (3, {"epsilon": 1.0, "keep": 0.5, "batch": 1}),  # there it is true
        (3, {"epsilon": 1.0, "keep": 1.0, "batch": 4}),
        (3.0, {"epsilon": 1.0, "keep": 0.5, "batch": 4}),
    ),
}


@pytest.mark.parametrize("number", LESSON.exercises)
def test_the_solution_is_accepted(number):
    found = LESSON.check(number, RIGHT[number])
    assert found.passed, found


def test_mistakes_are_rejected():
    assert sum(map(len, WRONG.values())) >= 80
    assert lessons.mistakes(LESSON, RIGHT, WRONG) == []


@pytest.mark.parametrize(("keep", "epsilon"), [(0.7, 2.0), (0.3, 0.5), (0.95, 1.0)])
def test_the_game_obeys_theorem_2_for_one_weight(keep, epsilon):
    """The best attack stays below the repaired promise and starts along it."""
    game = masked_pixel(keep, epsilon)
    both = float(releases.masked_laplace_epsilon(epsilon, keep=keep))
    assert float(masked_loss(np.ones(1), np.zeros(1), [keep], epsilon=epsilon)) == pytest.approx(
        both
    )
    alarms, hits = game.best()
    assert np.all(hits <= allowed(alarms, both, 0.0) + 1e-6)
    early = alarms < 0.01
    assert hits[early] == pytest.approx(np.exp(both) * alarms[early], abs=1e-4)
    assert game.delta(0.9 * both) > 1e-4 > game.delta(both + 1e-6)


@pytest.mark.parametrize("keep", [0.3, 0.7])
def test_a_batch_undoes_the_mask(keep):
    """One image is Theorem 2; many images leave the noise alone; never more than that."""
    reached = [batch_ends(1.0, keep, batch)[0] for batch in (1, 2, 4, 8, 32, 64)]
    assert reached[0] == pytest.approx(float(releases.masked_laplace_epsilon(1.0, keep=keep)))
    assert np.all(np.diff(reached) > -1e-12) and max(reached) <= 1 + 1e-12
    assert reached[-1] == pytest.approx(1.0, abs=1e-9)


def test_the_numbers_of_the_story():
    """What the lesson says of the paper's network, by the library's functions and not by the exercises' ones."""
    size, floor = 675_392, 0.01
    taken = printed.smashed_gain_log10(0.1, dimension=size, floor=floor)
    assert RIGHT["5.8"](0.1, floor, size) == pytest.approx(float(taken))
    assert f"{-float(taken):,.0f}" == "1,350,785"
    assert RIGHT["5.5"](1.0, 0.5, size) == 0 and size * np.log10(0.5) < -200_000
    assert RIGHT["5.10"](3.0, 0.7) == pytest.approx(float(releases.binary_upload_rdp(3.0, 0.7)))
    delta = releases.mask_delta(0.4, first=0.8, second=0.3, count=1)
    other = releases.mask_delta(0.4, first=0.3, second=0.8, count=1)
    assert RIGHT["5.9"](0.4, 0.8, 0.3) == pytest.approx(float(max(delta, other)))
    kept = releases.noised_probability(
        1.0, printed.mask_sigma(5.0, 1e-5, floor=floor), floor=floor
    ).item()
    exact = releases.mask_epsilon(1e-5, first=kept, second=1 - kept, count=size)
    assert f"{float(exact):,.0f}" == "205,787"
    frozen = frozen_by_drift(10, 50)
    assert frozen[1] == pytest.approx(RIGHT["5.4"](0.5, 10))
    assert (round(frozen[10], 2), round(frozen[50], 2)) == (0.53, 0.99)


def test_views_average_out_as_one_weight_does():
    """Many inputs of one size: the error of a layer falls as exercise 5.3 says."""
    rng = np.random.default_rng(3)
    weights, x = rng.normal(size=(400, 8)), np.ones(8)
    errors = np.mean(
        [
            averaging_errors(weights, np.full(weights.shape, 0.5), x, np.array([1, 16]), rng)
            for _ in range(30)
        ],
        axis=0,
    )
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_wrong_maskers_mostly_have_the_right_share():
    """So that a test of the shares alone would let them pass; all right ones pass both."""
    assert sum(_shares_of_ones(masker) for masker in MASKERS["wrong"]) == 2
    assert sum(_within_a_view(masker) for masker in MASKERS["wrong"]) == 1
    assert all(_within_a_view(masker) for masker in MASKERS["right"])


def test_wrong_accountants_are_unsafe_somewhere():
    settings = [(e, p, b) for e in (0.1, 1.0) for p in (0.3, 0.8) for b in (1, 2, 3, 16)]
    for kind, accountants in BATCH_ACCOUNTANTS.items():
        for accountant in accountants:
            gaps = [accountant(*at) - batch_ends(*at)[0] for at in settings]
            assert (min(gaps) >= -1e-9) == (kind == "right"), accountant.__name__


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: masked_pixel(1.5, 1.0), "keep must be"),
        (lambda: masked_pixel(0.5, 0.0), "epsilon must be"),
        (lambda: batch_ends(1.0, 0.5, 0), "batch must be"),
        (lambda: batch_ends(-1.0, 0.5, 1), "epsilon must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
