"""Model splitting over many rounds, and the paper's account of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.optimize import brentq

import accounting_reference as reference
from repro.accounting import (
    BalancedIterationSubsampling,
    ModelSplitting,
    PoissonGaussian,
    calibrate_sigma,
    compose,
)
from repro.accounting.partitioning.printed import ORDERS, convert_epsilon, poisson_rdp, theorem_3_1

DIRECTIONS = ("remove", "add")
EPSILON = np.array([0.0, 0.1, 0.5, 1.5])


@pytest.mark.parametrize("sigma, d", [(0.6, 2), (1.0, 8), (3.0, 4), (8.0, 2), (8.0, 8)])
def test_bracket_of_figure_1(sigma, d):
    """T = 1200, rate 0.1, delta = 1e-5: within 0.3 percent at every noise of the figure."""
    run = compose(ModelSplitting(sigma, submodels=d, rate=0.1), 1200)
    lower, upper = (run.epsilon(1e-5, method=m) for m in ("lower", "upper"))
    assert lower <= upper <= 1.003 * lower
    assert run.epsilon(1e-5, method="paper") > upper
    for direction in DIRECTIONS:
        low, high = (run.delta(upper, method=m, direction=direction) for m in ("lower", "upper"))
        assert low <= high <= 1e-5 * (1 + 1e-9)


@pytest.mark.parametrize(
    "mechanism",
    [
        ModelSplitting(0.8, submodels=3, rate=0.2),
        ModelSplitting(0.5, submodels=2, unsplit_clip=0.7),
        ModelSplitting(2.0, submodels=1, rate=0.5),
        BalancedIterationSubsampling(1.5, iterations=6, participations=2),
    ],
)
def test_rounds_are_worse_in_the_direction_that_a_single_one_is(mechanism):
    """Only that direction is composed for "both", so it must never fall behind the other one."""
    run, epsilon = compose(mechanism, 7), np.array([0.0, 0.3, 1.0, 3.0])
    add, remove, both = (run.delta(epsilon, direction=w) for w in ("add", "remove", "both"))
    np.testing.assert_array_equal(both, remove)
    assert np.all(add <= remove * (1 + 1e-9))
    assert np.any(add[1:] < 0.99 * remove[1:])


def test_one_round_of_a_composition_is_the_mechanism():
    mechanism = ModelSplitting(1.1, submodels=3, rate=0.4, unsplit_clip=0.5)
    for method, direction in itertools.product(("upper", "lower"), DIRECTIONS):
        got = compose(mechanism, 1).delta(EPSILON, method=method, direction=direction)
        want = mechanism.delta(EPSILON, method=method, direction=direction)
        np.testing.assert_allclose(got, want, rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("rounds", [10, 300])
def test_unsplit_training_agrees_with_dp_accounting(rounds):
    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(1.2)), rounds)
    ours = compose(ModelSplitting(1.2, submodels=1, rate=0.1), rounds)
    assert ours.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_composed_gaussians_beside_hidden_blocks(direction):
    """Rounds of a common shift only, through the laws: one Gaussian, known in closed form."""
    faint = ModelSplitting(4.0, submodels=2, clip=1e-9, unsplit_clip=1.0)
    truth = PoissonGaussian(1.0, rate=1.0).delta(EPSILON)
    for method in ("lower", "upper"):
        got = compose(faint, 16).delta(EPSILON, method=method, direction=direction)
        np.testing.assert_allclose(got, truth, rtol=4e-3)
        assert np.all(got <= truth) if method == "lower" else np.all(got >= truth)


def test_renyi_divergences_add_up_and_cover_the_composition():
    mechanism = ModelSplitting(1.5, submodels=4, rate=0.2, unsplit_clip=0.5)
    run = compose(mechanism, 200)
    curve = run.rdp(ORDERS, direction="remove")
    np.testing.assert_allclose(curve, 200 * mechanism.rdp(ORDERS, direction="remove"))
    truth = run.epsilon(1e-5, direction="remove")
    assert truth < convert_epsilon(curve, ORDERS, 1e-5) < 1.6 * truth


def test_handed_out_distributions_compose_with_dp_accounting():
    mechanism = ModelSplitting(1.2, submodels=3, rate=0.3)
    by_hand = mechanism.pld().self_compose(30).get_epsilon_for_delta(1e-5)
    assert by_hand == pytest.approx(compose(mechanism, 30).epsilon(1e-5), rel=1e-3)
    mixed = mechanism.pld().compose(PoissonGaussian(2.0, rate=0.1).pld())
    assert mixed.get_delta_for_epsilon(0.2) > mechanism.delta(0.2)
    below = mechanism.pld(method="lower").get_delta_for_epsilon(0.2)
    assert 0.99 * mechanism.delta(0.2) < below <= mechanism.delta(0.2)


def test_calibration_brackets_the_noise():
    """Figure 6: (epsilon, delta) = (5, 1e-6), rate 0.15."""
    low, high, printed = (
        calibrate_sigma(
            lambda s: compose(ModelSplitting(s, submodels=4, rate=0.15), 1000),
            epsilon=5.0,
            delta=1e-6,
            method=method,
            bounds=(0.5, 20),
            rtol=1e-3,
        )
        for method in ("lower", "upper", "paper")
    )
    assert low <= high * (1 + 1e-3) <= 1.003 * low
    assert 1.05 * high < printed < 1.4 * high


# ---- the paper's account -------------------------------------------------------------------------


def test_paper_is_renyi_accounting_as_stated():
    sigma, d, rate, rounds = 1.1, 6, 0.1, 400
    mechanism = ModelSplitting(sigma, submodels=d, rate=rate)
    curve = mechanism.rdp(ORDERS, method="paper")
    literal = np.zeros(len(ORDERS))
    for k, alpha in enumerate(ORDERS[:20]):
        count = np.arange(alpha + 1)
        choose = np.array([float(reference.mp.binomial(int(alpha), int(j))) for j in count])
        split = np.append([0.0, 0.0], theorem_3_1(np.arange(2, alpha + 1), d, 1, sigma))
        gain = np.exp(np.maximum(count - 1, 0) * split)
        total = np.sum(choose * (1 - rate) ** (alpha - count) * rate**count * gain)
        literal[k] = np.log(total) / (alpha - 1)
    np.testing.assert_allclose(curve[:20], literal[:20], rtol=1e-10)
    run = compose(mechanism, rounds)
    epsilon = convert_epsilon(rounds * curve, ORDERS, 1e-5)
    for direction in ("both", *DIRECTIONS):
        assert run.epsilon(1e-5, method="paper", direction=direction) == epsilon
    assert run.delta(epsilon, method="paper") == pytest.approx(1e-5, rel=1e-9)
    np.testing.assert_allclose(run.rdp(ORDERS, method="paper"), rounds * curve)
    assert mechanism.epsilon(1e-5, method="paper") == pytest.approx(
        convert_epsilon(curve, ORDERS, 1e-5), rel=1e-12
    )
    assert mechanism.delta([0.5, 3.0], method="paper").shape == (2,)


def test_noise_of_table_1():
    """Half the clip to each part, one coin for both, 2500 records expected: 6.62e-4 and 5.44e-4."""

    def noise(d):
        def excess(sigma):
            run = ModelSplitting(sigma, submodels=d, rate=0.1, clip=0.5, unsplit_clip=0.5)
            return compose(run, 1000).epsilon(1e-5, method="paper") - 8

        return brentq(excess, 0.5, 5) / 2500

    assert round(1e4 * noise(1), 2) == 6.62
    assert round(1e4 * noise(3), 2) == 5.44


@pytest.mark.parametrize("rate", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 5.0, 40.0])
def test_paper_covers_both_directions(sigma, rate):
    """Its reverse term alone is no bound, but the forward term always was the larger one."""
    orders = np.array([2, 3, 8, 40, 256])
    for d, unsplit in itertools.product((2, 8, 100), (0.0, 0.7)):
        mechanism = ModelSplitting(sigma, submodels=d, rate=rate, unsplit_clip=unsplit)
        printed = mechanism.rdp(orders, method="paper")
        for direction in DIRECTIONS:
            truth = mechanism.rdp(orders, method="lower", direction=direction)
            assert np.all(truth <= printed * (1 + 1e-9))


def test_subsampled_costs_of_both_parts_do_not_add_up():
    """One coin decides on both parts, so the sum of two subsampled costs is below the truth."""
    sigma, rate = 1.0, 0.1
    both = ModelSplitting(sigma, submodels=4, rate=rate, unsplit_clip=1.0)
    split = ModelSplitting(sigma, submodels=4, rate=rate).rdp(2, direction="remove")
    added = split + poisson_rdp(2, sigma, rate)
    assert both.rdp(2, direction="remove") > 1.3 * added
    without_coin = ModelSplitting(sigma, submodels=4, unsplit_clip=1.0).rdp(2, direction="remove")
    split = ModelSplitting(sigma, submodels=4).rdp(2, direction="remove")
    assert without_coin == pytest.approx(split + 1.0, rel=1e-12)
