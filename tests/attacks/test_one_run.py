"""Bounds from one run: theorem against brute force, coverage on mechanisms of known epsilon, errors."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit

from repro.accounting import GaussianMechanism
from repro.attacks import one_run
from repro.attacks.one_run import Scores

RUNS = 300


def responses(rng, epsilon, canaries):
    """Coins and scores of randomised response, which is epsilon-DP in every coin."""
    present = rng.random(canaries) < 0.5
    kept = rng.random(canaries) < expit(epsilon)
    return np.where(kept, present, ~present).astype(float), present


def refuted(scores, present, epsilon, delta):
    """Whether the bound at 95 % lies above `epsilon`."""
    counts = one_run.guess_counts(len(scores))
    tail = 0.05 / len(counts)
    right = [one_run.right_guesses(scores, present, r) for r in counts]
    return any(
        one_run.guess_p_value(v, r, len(scores), epsilon, delta) <= tail
        for v, r in zip(right, counts, strict=True)
    )


def alarms(make, epsilon, delta, seed=1):
    rng = np.random.default_rng(seed)
    return np.mean([refuted(*make(rng), epsilon, delta) for _ in range(RUNS)])


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_randomised_response_is_covered_and_nearly_reached(epsilon):
    assert alarms(lambda rng: responses(rng, epsilon, 600), epsilon, 0.0) <= 0.05
    rng = np.random.default_rng(2)
    scores, present = responses(rng, epsilon, 20_000)
    counts = one_run.guess_counts(20_000)
    right = [one_run.right_guesses(scores, present, r) for r in counts]
    assert 0.85 * epsilon < one_run.guess_epsilon(right, counts, 20_000, 0.0) < epsilon


def test_a_mechanism_that_sometimes_tells_everything_needs_its_delta():
    """Randomised response that tells every coin with chance 0.2 is (1, 0.2)-DP in every coin, not (1, 0)-DP."""

    def make(rng):
        scores, present = responses(rng, 1.0, 40)
        return (present.astype(float), present) if rng.random() < 0.2 else (scores, present)

    assert alarms(make, 1.0, 0.2) <= 0.05
    assert alarms(make, 1.0, 0.0) > 0.1


def test_canaries_that_share_a_coin_are_covered():
    """All or none of the canaries take part in the release: no independence is needed."""

    def make(rng):
        scores, present = responses(rng, 1.0, 400)
        return (scores, present) if rng.random() < 0.5 else (rng.permutation(scores), present)

    assert alarms(make, 1.0, 0.0) <= 0.05


@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_the_gaussian_mechanism_is_covered_by_both_bounds(sigma):
    epsilon = GaussianMechanism(sigma).epsilon(1e-5)
    rng = np.random.default_rng(3)
    over, found = [], []
    for _ in range(RUNS):
        present = rng.random(1000) < 0.5
        scores = present + sigma * rng.standard_normal(1000)
        over.append(refuted(scores, present, epsilon, 1e-5))
        found.append(
            one_run.gaussian_epsilon(Scores.of(scores[present]), Scores.of(scores[~present]), 1e-5)
        )
    assert np.mean(over) <= 0.05
    assert np.mean(np.array(found) > epsilon) <= 0.05
    groups = [Scores.of(shift + sigma * rng.standard_normal(50_000)) for shift in (1, 0)]
    assert 0.85 * epsilon < one_run.gaussian_epsilon(*groups, 1e-5) < epsilon


def test_too_little_noise_is_found():
    rng = np.random.default_rng(4)
    present = rng.random(4000) < 0.5
    scores = present + 0.5 * rng.standard_normal(4000)
    promised = GaussianMechanism(1.5).epsilon(1e-5)
    counts = one_run.guess_counts(4000)
    right = [one_run.right_guesses(scores, present, r) for r in counts]
    assert one_run.guess_epsilon(right, counts, 4000, 1e-5) > 1.05 * promised


def test_no_leak_implies_nothing():
    rng = np.random.default_rng(5)
    present, scores = rng.random(2000) < 0.5, rng.standard_normal(2000)
    counts = one_run.guess_counts(2000)
    right = [one_run.right_guesses(scores, present, r) for r in counts]
    assert one_run.guess_epsilon(right, counts, 2000, 1e-5) < 0.1


def test_the_theorem_bounds_every_deterministic_worst_case():
    """Brute force on 3 canaries: release the coins through randomised response, or all of them with chance d."""
    epsilon, d, m = 0.7, 0.05, 3
    keep = float(expit(epsilon))
    for v in range(m + 1):
        chance = sum(
            keep ** sum(hits) * (1 - keep) ** (m - sum(hits))
            for hits in itertools.product((0, 1), repeat=m)
            if sum(hits) >= v
        )
        exact = (1 - d) * chance + d
        assert one_run.guess_p_value(v, m, m, epsilon, 0.0) == pytest.approx(chance)
        assert one_run.guess_p_value(v, m, m, epsilon, d) >= exact - 1e-12


def test_p_values_rise_with_epsilon_and_delta():
    at = np.linspace(0, 6, 121)
    for v, r in ((30, 40), (350, 400), (40, 40)):
        for delta in (0.0, 1e-5, 1e-3):
            p = [one_run.guess_p_value(v, r, 1000, e, delta) for e in at]
            assert (np.diff(p) >= -1e-12).all()
    assert one_run.guess_p_value(35, 40, 1000, 1.0, 1e-3) > one_run.guess_p_value(
        35, 40, 1000, 1.0, 0.0
    )


def test_guesses_are_the_two_ends():
    scores = [5.0, 4.0, 0.0, -3.0, -4.0, 1.0]
    present = np.array([True, False, True, True, False, False])
    assert one_run.right_guesses(scores, present, 2) == 2
    assert one_run.right_guesses(scores, present, 4) == 2
    assert one_run.guess_counts(1000) == (10, 20, 50, 100, 200, 500, 1000)
    assert one_run.guess_counts(2) == (2,)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: one_run.guess_counts(1), "canaries must be"),
        (lambda: one_run.right_guesses([1.0, 2.0], np.array([True]), 2), "of one shape"),
        (lambda: one_run.right_guesses([1.0, math.nan], np.array([True, False]), 2), "finite"),
        (lambda: one_run.right_guesses([1.0, 2.0, 3.0], np.ones(3, bool), 3), "even, got 3"),
        (lambda: one_run.right_guesses([1.0, 2.0], np.ones(2, bool), 4), "guesses must be"),
        (lambda: one_run.guess_p_value(3, 2, 5, 1.0, 0.0), "right must be"),
        (lambda: one_run.guess_p_value(1, 2, 5, -1.0, 0.0), "epsilon must be"),
        (lambda: one_run.guess_p_value(1, 2, 5, 1.0, 1.5), "delta must be in"),
        (lambda: one_run.guess_epsilon([1], [2, 4], 5, 0.0), "one number for each"),
        (lambda: one_run.guess_epsilon([1], [2], 5, 0.0, 1.0), "confidence must be"),
        (lambda: Scores(1, 0.0, 1.0), "number must be"),
        (lambda: Scores(5, math.inf, 1.0), "mean must be finite"),
        (lambda: Scores(5, 0.0, 0.0), "variance must be"),
        (lambda: one_run.gaussian_epsilon(Scores(5, 0, 1), Scores(5, 0, 1), 0.0), "delta must be"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
