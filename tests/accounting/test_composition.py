"""Composition over rounds: against one round, dp-accounting, brute force and Monte Carlo."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from scipy.stats import binom

import accounting_reference as reference
from repro.accounting import (
    GaussianMechanism,
    InvalidBoundWarning,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.random_participation.mechanisms import CountRevealed

DIRECTIONS = ("remove", "add")
SIGMA, P, Q, D = 2.0, 0.4, 0.4, 3
SCHEME = RandomParticipation(SIGMA, p=P, q=Q, samples_per_client=D)
EPSILON = np.array([0.05, 0.2, 0.5])


@functools.cache
def composed(rounds):
    """Compositions are costly: one object per number of rounds, shared by the tests."""
    return compose(SCHEME, rounds)


@functools.cache
def delta(rounds, method="upper", direction="both"):
    """delta of the composed scheme on EPSILON."""
    return composed(rounds).delta(EPSILON, method=method, direction=direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_one_round_is_the_mechanism(direction):
    got = delta(1, "upper", direction)
    want = SCHEME.delta(EPSILON, direction=direction)
    assert np.all(got >= want * (1 - 1e-9) - 1e-15)
    # losses come from knots of the curve of the least of two bounds, at most 1 % above it here
    np.testing.assert_allclose(got, want, rtol=0.01, atol=1e-13)
    one = CountRevealed(SIGMA, p=P, q=Q, samples_per_client=D)
    got = compose(one, 1).delta(EPSILON, direction=direction)
    want = one.delta(EPSILON, direction=direction)
    assert np.all(got >= want * (1 - 1e-9) - 1e-15)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-13)


def test_one_round_from_below():
    truth = SCHEME.delta(EPSILON, method="lower")
    assert np.all(delta(1, "lower") <= truth * (1 + 1e-6))
    np.testing.assert_allclose(delta(1, "lower"), truth, rtol=0.03)


@pytest.mark.parametrize("rounds", [1, 10, 100])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_lower_stays_below_upper(rounds, direction):
    lower, upper = (delta(rounds, method, direction) for method in ("lower", "upper"))
    assert np.all((0 <= lower) & (lower <= upper) & (upper <= 1))
    assert lower[0] > 0.5 * upper[0] or direction == "add"


def test_epsilon_inverts_delta():
    for target in (1e-3, 1e-9):
        lower, upper = (composed(10).epsilon(target, method=m) for m in ("lower", "upper"))
        assert 0 < lower <= upper
        assert composed(10).delta(upper) <= target * (1 + 1e-9)
    assert composed(10).epsilon(0.999) == 0


def test_more_rounds_leak_more():
    for method in ("upper", "lower"):
        table = np.array([delta(rounds, method) for rounds in (1, 10, 100)])
        assert np.all(np.diff(table, axis=0) > 0)


@pytest.mark.parametrize("rounds", [10, 100])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-12])
def test_composed_gaussians_are_one_gaussian(rounds, delta):
    """The FFT must not sink the upper value below the truth, even at delta = 1e-12; its rounding is charged."""
    one, rounding = GaussianMechanism(1.0), 5e-15 + 9e-16 * rounds
    truth = one.epsilon(delta)
    many = compose(GaussianMechanism(np.sqrt(rounds)), rounds)
    assert truth <= many.epsilon(delta) <= one.epsilon(delta - rounding) + 1e-3
    least = one.epsilon(delta + rounding) - 2e-4 * rounds
    assert least <= many.epsilon(delta, method="lower") <= truth


@pytest.mark.parametrize("rounds", [10, 100])
def test_poisson_agrees_with_dp_accounting(rounds):
    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(0.05, GaussianDpEvent(0.9)), rounds)
    ours = compose(PoissonGaussian(0.9, rate=0.05), rounds)
    np.testing.assert_allclose(
        ours.delta(EPSILON), [accountant.get_delta(e) for e in EPSILON], rtol=2e-4
    )
    assert ours.epsilon(1e-6) == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-4)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_disclosed_participation_by_conditioning_on_the_number_of_rounds(direction):
    """WCS discloses who took part, so k ~ Binomial(T, p) rounds of PoissonGaussian remain."""
    rounds, p, q, sigma = 5, 0.3, 0.2, 1.0
    local = compose(PoissonGaussian(sigma, rate=q), 1)
    want = 0.0
    for k in range(1, rounds + 1):
        local = compose(PoissonGaussian(sigma, rate=q), k)
        want = want + binom.pmf(k, rounds, p) * local.delta(EPSILON, direction=direction)
    got = compose(WeakClientSampling(sigma, p=p, q=q), rounds).delta(EPSILON, direction=direction)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-12)


def collinear_cells(step):
    means, with_record, without = reference.hypotheses(np.ones(1), np.ones((D, 1)), P, Q)
    return reference.density_cells(means, np.stack([with_record, without], axis=1), SIGMA, step).T


@pytest.mark.parametrize("epsilon", [0.05, 0.2])
def test_two_rounds_by_brute_force(epsilon):
    """The product of two collinear rounds, summed over the two-dimensional grid of outputs."""
    one, other = collinear_cells(0.01)
    gain = np.outer(one, one) - np.exp(epsilon) * np.outer(other, other)
    exact = np.maximum(gain, 0).sum()
    explicit = SCHEME.explicit_pld(1.0).self_compose(2)
    remove = pld_lib.PrivacyLossDistribution(explicit._pmf_remove).get_delta_for_epsilon(epsilon)
    assert remove <= exact * (1 + 1e-4)
    assert remove == pytest.approx(exact, rel=0.01)
    assert exact <= composed(2).delta(epsilon, direction="remove") * (1 + 1e-4)


@pytest.mark.parametrize("direction, sign", [("remove", 1), ("add", -1)])
def test_twenty_rounds_by_monte_carlo(direction, sign):
    """Sampled losses of an oblique pair; the bracket must hold at five standard errors."""
    rounds, epsilon, cosine, samples = 20, 0.3, 0.3, 60_000
    rng = np.random.default_rng(5)
    record = np.array([sign * cosine, np.sqrt(1 - cosine**2)])
    means, with_record, without = reference.hypotheses(record, np.tile([1.0, 0.0], (D, 1)), P, Q)
    means, groups = np.unique(means.round(12), axis=0, return_inverse=True)
    one, other = (np.bincount(groups.ravel(), w) for w in (with_record, without))
    if direction == "add":
        one, other = other, one
    loss = np.zeros(samples)
    for _ in range(rounds):
        output = means[rng.choice(len(means), size=samples, p=one / one.sum())]
        output = output + rng.normal(scale=SIGMA, size=output.shape)
        squares = ((output[:, None, :] - means) ** 2).sum(axis=2)
        density = np.exp(-0.5 * squares / SIGMA**2)
        loss += np.log(density @ one) - np.log(density @ other)
    leak = np.maximum(-np.expm1(epsilon - loss), 0)
    mean, error = leak.mean(), leak.std() / np.sqrt(samples)
    explicit = SCHEME.explicit_pld(cosine, interval=1e-3).self_compose(rounds)
    half = explicit._pmf_remove if direction == "remove" else explicit._pmf_add
    below = pld_lib.PrivacyLossDistribution(half).get_delta_for_epsilon(epsilon)
    assert mean - 5 * error <= composed(rounds).delta(epsilon, direction=direction)
    assert below <= mean + 5 * error
    assert below >= 0.95 * (mean - 5 * error)


def test_directions_and_their_maximum():
    for method in ("upper", "lower"):
        add, remove = (delta(10, method, way) for way in ("add", "remove"))
        np.testing.assert_allclose(delta(10, method), np.maximum(add, remove), rtol=1e-9)
        assert not np.allclose(add, remove)


def test_handed_out_distribution_composes_with_dp_accounting():
    """Both halves of the object are usable: ten rounds by hand equal ten rounds by compose."""
    by_hand = SCHEME.pld().self_compose(10)
    assert by_hand.get_delta_for_epsilon(0.5) == pytest.approx(delta(10)[2], rel=1e-3)
    mixed = SCHEME.pld().compose(PoissonGaussian(SIGMA, rate=0.1).pld())
    assert mixed.get_delta_for_epsilon(0.2) > SCHEME.delta(0.2)


def test_rdp_adds_up_and_covers_the_composition():
    alpha = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    rdp = composed(10).rdp(alpha)
    np.testing.assert_allclose(rdp, 10 * SCHEME.rdp(alpha))
    converted = np.min(rdp + np.log(1e6) / (alpha - 1))
    assert composed(10).epsilon(1e-6) <= converted


def test_paper_composes_what_the_formula_implies_and_warns():
    with pytest.warns(InvalidBoundWarning):
        printed = SCHEME.delta(0.05, method="paper")
    with pytest.warns(InvalidBoundWarning):
        value = composed(1).delta(0.05, method="paper")
    assert value == pytest.approx(printed, rel=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InvalidBoundWarning)
        compose(WeakClientSampling(1.0, p=0.3, q=0.2), 2).delta(0.5, method="paper")


def test_no_warning_of_an_overflow_leaks():
    """Chernoff's bound on the tails tries orders that overflow here."""
    run = compose(RandomParticipation(10.0, p=0.05, q=0.2, samples_per_client=100), 10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        upper = run.epsilon(1e-5)
    assert run.epsilon(1e-5, method="lower") < upper < 2
