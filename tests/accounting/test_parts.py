"""Compositions of several parts, nested ones, given loss distributions, and curves over the rounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from dp_accounting.pld.common import DifferentialPrivacyParameters
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from repro.accounting import (
    BalancedIterationSubsampling,
    GaussianMechanism,
    ModelSplitting,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
    with_interval,
)
from repro.accounting._losses import profile
from repro.accounting._pld import losses, on_grid, one_sided
from repro.accounting.composition import Composition
from repro.accounting.laplace import SummedLaplace

EPSILON = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
SIGMA = st.floats(2.0, 50.0)


@settings(derandomize=True, deadline=None, max_examples=8)
@given(st.lists(st.tuples(SIGMA, st.integers(1, 20)), min_size=2, max_size=4), st.integers(1, 5))
def test_gaussians_together_are_one_gaussian(parts, rounds):
    """Any number of Gaussian mechanisms is one, of which everything is known in closed form."""
    run = compose([compose(GaussianMechanism(s), n) for s, n in parts], rounds)
    mu = np.sqrt(rounds * sum(n / s**2 for s, n in parts))
    truth = GaussianMechanism(1 / mu)
    fpr = np.array([0.0, 1e-3, 0.1, 0.5, 1.0])
    power = norm.cdf(norm.ppf(fpr) + mu)
    lower, upper = (run.delta(EPSILON, method=m) for m in ("lower", "upper"))
    assert np.all(lower <= truth.delta(EPSILON)) and np.all(truth.delta(EPSILON) <= upper)
    np.testing.assert_allclose(upper, truth.delta(EPSILON), rtol=1e-3, atol=1e-12)
    low, high = (run.epsilon(1e-6, method=m) for m in ("lower", "upper"))
    assert low <= truth.epsilon(1e-6) <= high <= truth.epsilon(1e-6) + 1e-3
    assert low >= truth.epsilon(1e-6) - 0.03
    low, high = (run.tpr_at_fpr(fpr, method=m) for m in ("lower", "upper"))
    assert np.all(low <= power + 1e-15) and np.all(power <= high + 1e-15)
    np.testing.assert_allclose(low, high, atol=0.02)
    exact = 2 * norm.cdf(mu / 2) - 1
    assert run.advantage(method="lower") <= exact <= run.advantage()


RATE = st.floats(1e-3, 0.3)


@settings(derandomize=True, deadline=None, max_examples=8)
@given(
    st.lists(st.tuples(st.floats(0.7, 4.0), RATE, st.integers(1, 30)), min_size=1, max_size=2),
    st.floats(5.0, 40.0),
)
def test_mixed_parts_agree_with_dp_accounting(sampled, scale):
    accountant = PLDAccountant().compose(LaplaceDpEvent(scale), 7)
    parts = [compose(SummedLaplace(scale), 7)]
    for sigma, rate, rounds in sampled:
        accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)), rounds)
        parts.append(compose(PoissonGaussian(sigma, rate=rate), rounds))
    run = compose(parts)
    for direction in ("both", "remove", "add"):
        low, high = (run.delta(EPSILON, method=m, direction=direction) for m in ("lower", "upper"))
        assert np.all(low <= high)
    want = [accountant.get_delta(e) for e in EPSILON]
    np.testing.assert_allclose(run.delta(EPSILON), want, rtol=2e-3, atol=1e-9)
    assert run.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-3, abs=2e-4)
    alpha = np.array([2.0, 5.0])
    np.testing.assert_allclose(run.rdp(alpha), sum(part.rdp(alpha) for part in parts))


def test_nesting_counts_and_order_do_not_matter():
    one, other = GaussianMechanism(3.0), PoissonGaussian(1.0, rate=0.1)
    assert compose(compose(one, 3), 4) == compose(one, 12) == Composition(one, 12)
    assert compose([one, GaussianMechanism(3.0)]) == compose(one, 2)
    nested = compose([one, compose([other, compose(one, 2)], 3)], 2)
    assert {(p.mechanism, p.rounds) for p in nested.parts} == {(one, 14), (other, 6)}
    flat = compose([compose(other, 6), compose(one, 14)])
    np.testing.assert_allclose(nested.delta(EPSILON), flat.delta(EPSILON), rtol=1e-9, atol=1e-14)


def test_lower_bounds_of_several_schemes_stay_below():
    parts = [
        RandomParticipation(2.0, p=0.4, q=0.4, samples_per_client=3),
        WeakClientSampling(2.0, p=0.4, q=0.4),
        ModelSplitting(2.0, submodels=3, rate=0.3),
    ]
    run = compose(parts, 5)
    lower, upper = (run.delta(EPSILON, method=m) for m in ("lower", "upper"))
    assert np.all(lower <= upper) and lower[1] > 0.8 * upper[1]
    for part in parts:
        assert np.all(compose(part, 5).delta(EPSILON, method="lower") <= upper)


def test_a_part_of_tiny_losses_does_not_spoil_the_lower_bound():
    """Rounding downwards drops most losses of such a part; alone, it once was an IndexError."""
    tiny = compose(PoissonGaussian(40.0, rate=2e-5), 78)
    assert tiny.delta(0.0, method="lower") == tiny.delta(0.1, method="lower") == 0.0
    assert compose(tiny, [1, 2]).epsilon(1e-5, method="lower").tolist() == [0.0, 0.0]
    other = compose(GaussianMechanism(5.0), 4)
    want = other.delta(EPSILON, method="lower")
    found = compose([tiny, other]).delta(EPSILON, method="lower")
    np.testing.assert_allclose(found, want, rtol=1e-9, atol=1e-13)
    assert compose([tiny, compose(tiny, 2)]).delta(0.1, method="lower") == 0.0


@pytest.mark.parametrize("method", ["upper", "lower"])
def test_a_curve_is_what_each_number_of_rounds_gives(method):
    rounds = np.array([100, 1, 10, 10])
    for unit in (PoissonGaussian(0.9, rate=0.05), [GaussianMechanism(4.0), SummedLaplace(30.0)]):
        curve = compose(unit, rounds)
        runs = [compose(unit, int(n)) for n in rounds]
        off = (
            2e-2 if method == "lower" else 1e-5
        )  # of epsilon: what the rounding of losses may cost
        values = curve.epsilon(1e-5, method=method)
        np.testing.assert_allclose(values, [r.epsilon(1e-5, method=method) for r in runs], atol=off)
        assert values[1] < values[2] == values[3] < values[0]
        table = curve.delta(EPSILON[:, None], method=method)
        assert table.shape == (5, 4)
        want = np.array([r.delta(EPSILON, method=method) for r in runs]).T
        np.testing.assert_allclose(table, want, atol=0.03 if method == "lower" else 1e-6)
        advantage = curve.advantage(method=method)
        np.testing.assert_array_equal(advantage, table[0])
        assert np.all(curve.tpr_at_fpr(0.1, method=method) <= 0.1 + advantage)
        np.testing.assert_allclose(curve.rdp(3.0), [r.rdp(3.0) for r in runs])


def test_a_curve_from_above_lies_above_the_curve_from_below():
    curve = compose(PoissonGaussian(0.9, rate=0.05), [1, 7, 50])
    for direction in ("both", "add", "remove"):
        low, high = (curve.epsilon(1e-5, method=m, direction=direction) for m in ("lower", "upper"))
        assert np.all(low <= high)


def test_true_positive_rates_are_the_dual_of_the_profile():
    """TPR at FPR a is the least of delta(epsilon) + e^epsilon a, over epsilons of both signs."""
    run = compose(PoissonGaussian(0.8, rate=0.2), 10)
    grid = np.linspace(0, 12, 4001)
    for fpr in (1e-4, 0.01, 0.1):
        dual = np.min(run.delta(grid, direction="remove") + np.exp(grid) * fpr)
        got = run.tpr_at_fpr(fpr, direction="remove")
        assert got <= dual + 1e-12 and got == pytest.approx(dual, rel=1e-4)


LAPLACE = pld_lib.from_laplace_mechanism(5.0, value_discretization_interval=3e-4)


def test_given_losses_of_another_interval_compose():
    run = compose([PoissonGaussian(0.9, rate=0.05), LAPLACE], 10)
    want = compose([PoissonGaussian(0.9, rate=0.05), SummedLaplace(5.0)], 10)
    np.testing.assert_allclose(run.delta(EPSILON), want.delta(EPSILON), rtol=1e-3, atol=1e-9)
    with pytest.raises(ValueError, match="method must be 'upper' for a given loss distribution"):
        run.delta(1.0, method="lower")
    with pytest.raises(ValueError, match="given as loss distributions"):
        run.rdp(2.0)
    below = pld_lib.from_laplace_mechanism(
        5.0, value_discretization_interval=3e-4, pessimistic_estimate=False
    )
    lower = compose([PoissonGaussian(0.9, rate=0.05), below], 10)
    assert np.all(lower.delta(EPSILON, method="lower") <= want.delta(EPSILON))
    with pytest.raises(ValueError, match="method must be 'lower' for a given loss distribution"):
        lower.delta(1.0)


def test_handed_out_losses_compose_with_other_peoples():
    run = compose([GaussianMechanism(5.0), PoissonGaussian(1.0, rate=0.1)], 5)
    by_hand = run.pld(interval=3e-4).compose(LAPLACE)
    want = compose([run, LAPLACE])
    assert by_hand.get_delta_for_epsilon(1.0) == pytest.approx(want.delta(1.0), rel=1e-3)
    assert by_hand.get_delta_for_epsilon(1.0) >= want.delta(1.0) * (1 - 1e-9)


def test_certain_losses_add_up():
    """A mechanism that fails with probability 1e-3 and is else exactly 0.5-DP, of which nothing else is known."""
    fails = pld_lib.from_privacy_parameters(
        privacy_parameters=DifferentialPrivacyParameters(0.5, 1e-3),
        value_discretization_interval=1e-3,
    )
    for rounds, parts in itertools.product(
        (1, 4), itertools.permutations([fails, GaussianMechanism(10.0)])
    ):
        run = compose(parts, rounds)
        assert run.delta(20.0) == pytest.approx(1 - (1 - 1e-3) ** rounds, rel=1e-9)
        assert run.tpr_at_fpr(0.0) == pytest.approx(1 - (1 - 1e-3) ** rounds, rel=1e-6)
    with pytest.raises(ValueError, match="delta must exceed the numerical error"):
        run.epsilon(1e-3)


@settings(derandomize=True, deadline=None, max_examples=25)
@given(
    st.floats(0.5, 5.0),
    RATE,
    st.floats(1e-4, 1e-1),
    st.floats(1e-4, 1e-1),
    st.sampled_from(["upper", "lower"]),
)
def test_another_grid_moves_losses_to_the_safe_side(sigma, rate, old, new, method):
    given_losses = PoissonGaussian(sigma, rate=rate).pld(method=method, interval=old)
    moved = with_interval(given_losses, new)
    for before, after in zip(one_sided(given_losses), one_sided(moved), strict=True):
        at = np.linspace(0, 5, 50)
        first, second = profile(before, at), profile(after, at)
        assert losses(after).interval == new
        assert losses(after).mass.sum() == pytest.approx(losses(before).mass.sum(), rel=1e-12)
        if method == "upper":
            assert np.all(second >= first - 1e-15)
            assert np.all(profile(after, at + new * (1 + 1e-9)) <= first + 1e-12)
        else:
            assert np.all(second <= first + 1e-15)
            assert np.all(second >= profile(before, at + new * (1 + 1e-9)) - 1e-12)
        assert on_grid(after, new) is after


def test_printed_accounts_of_several_papers():
    splitting = ModelSplitting(2.0, submodels=4, rate=0.1)
    balanced = BalancedIterationSubsampling(2.0, iterations=10, participations=4)
    run = compose([compose(splitting, 100), balanced])
    alone = [compose(splitting, 100), compose(balanced)]
    assert run.epsilon(1e-5, method="paper") > max(x.epsilon(1e-5, method="paper") for x in alone)
    curve = compose(splitting, [50, 100])
    np.testing.assert_allclose(
        curve.epsilon(1e-5, method="paper"),
        [compose(splitting, n).epsilon(1e-5, method="paper") for n in (50, 100)],
    )
    with pytest.raises(ValueError, match="papers account differently"):
        compose([splitting, GaussianMechanism(1.0)]).delta(1.0, method="paper")


ONE = GaussianMechanism(2.0)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: compose([]), "parts must hold at least one mechanism"),
        (lambda: compose([ONE, 3]), "parts must be a mechanism.*got 3"),
        (lambda: compose(None), "parts must be a mechanism.*got None"),
        (lambda: compose(compose(ONE, [1, 2]), 2), "with one number of rounds"),
        (lambda: compose([ONE, GaussianMechanism([1.0, 2.0])]), "scalar fields"),
        (lambda: compose(ONE, [1, 0]), r"rounds must be an integer >= 1.*got \[1, 0\]"),
        (lambda: compose(ONE, [1.5]), "rounds must be an integer >= 1"),
        (lambda: compose(ONE, [True]), "rounds must be an integer >= 1"),
        (lambda: compose(ONE, []), "rounds must be an integer >= 1"),
        (lambda: compose(ONE, [[1, 2], [3]]), r"rounds must be an integer >= 1.*got \[\[1, 2\]"),
        (lambda: compose(ONE, np.array([1, 2**63], np.uint64)), "rounds must be at most 1e"),
        (lambda: compose(ONE, [1, 2**70]), "rounds must be at most 1e"),
        (lambda: compose(ONE, [1, 2]).delta([1.0, 2.0, 3.0]), "epsilon.*rounds.*must broadcast"),
        (lambda: compose(ONE, [1, 2]).rdp([2.0, 3.0, 4.0]), "alpha.*rounds.*must broadcast"),
        (lambda: compose(ONE, [1, 2]).pld(), "rounds must be one integer for pld"),
        (lambda: compose(ONE).pld(interval=0.0), "interval must be positive"),
        (lambda: compose(ONE).pld(interval=1e-12), "interval must be at least"),
        (lambda: compose(ONE).pld(method="best"), "method must be one of"),
        (lambda: compose(ONE).tpr_at_fpr(1.5), r"fpr must be in \[0, 1\], got 1.5"),
        (lambda: compose(ONE).advantage(method="best"), "method must be one of"),
        (lambda: compose([ONE, LAPLACE]).delta(1.0, direction="up"), "direction must be one of"),
    ],
)
def test_bad_input_is_named(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_a_number_of_rounds_may_be_any_whole_number():
    for seven in (7, np.int32(7), np.array(7), np.array(7, np.uint64)):
        assert compose(ONE, seven) == compose(ONE, 7)
    assert (
        compose(ONE, np.array([2, 7], object)).delta(1.0)[1] == compose(ONE, [2, 7]).delta(1.0)[1]
    )
