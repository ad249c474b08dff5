"""The printed bounds of the partitioning paper: against their literal form, limits and the paper's text."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from repro.accounting.gaussian import sampled_gaussian_rdp
from repro.accounting.partitioning.blocks import log_moments
from repro.accounting.partitioning.printed import (
    ORDERS,
    convert_delta,
    convert_epsilon,
    forward_bound,
    poisson_amplified,
    poisson_rdp,
    reverse_bound,
    reverse_mean_term,
    reverse_spread_term,
    theorem_3_1,
    whole_orders,
)

SIZES = [(1, 1), (2, 1), (5, 2), (6, 6), (40, 13), (1000, 1)]
SIGMAS = [0.3, 1.0, 20.0, 1000.0]
FEW = np.array([2, 3, 17, 256])


# The literal formulas, term by term in high precision, in the paper's own letters.


def printed_forward(alpha, d, k, sigma, c):
    x = mp.mpf(alpha) * mp.mpf(c) ** 2 / (2 * mp.mpf(sigma) ** 2)
    terms = [mp.binomial(k, i) * mp.binomial(d - k, k - i) * mp.exp(x * i) for i in range(k + 1)]
    return mp.log(mp.fsum(terms) / mp.binomial(d, k))


def printed_spread(alpha, d, k, sigma, c):
    ratio = mp.mpf(c) ** 2 * k * (d - k) / (mp.mpf(sigma) ** 2 * d)
    inner = alpha * mp.exp(ratio / d) + 1 - alpha
    return mp.log(mp.exp(alpha * ratio) / inner**d) / (2 * (alpha - 1))


def printed_poisson(alpha, sigma, gamma, c):
    g, x = mp.mpf(gamma), mp.mpf(c) ** 2 / (2 * mp.mpf(sigma) ** 2)
    total = (1 - g) ** (alpha - 1) * (alpha * g - g + 1)
    for i in range(2, alpha + 1):
        total += mp.binomial(alpha, i) * (1 - g) ** (alpha - i) * g**i * mp.exp(x * i * (i - 1))
    return mp.log(total) / (alpha - 1)


@pytest.mark.parametrize("d, k", SIZES)
@pytest.mark.parametrize("sigma", SIGMAS)
def test_terms_of_theorem_3_1_as_printed(d, k, sigma):
    with mp.workdps(60):
        forward = [float(printed_forward(int(x), d, k, sigma, 0.7)) for x in FEW]
        spread = [float(printed_spread(int(x), d, k, sigma, 0.7)) for x in FEW]
        mean = [float(x * mp.mpf(0.7) ** 2 * k**2 / (2 * mp.mpf(sigma) ** 2 * d)) for x in FEW]
    np.testing.assert_allclose(forward_bound(FEW, d, k, sigma, 0.7), forward, rtol=1e-10)
    np.testing.assert_allclose(reverse_mean_term(FEW, d, k, sigma, 0.7), mean, rtol=1e-13)
    got = reverse_spread_term(FEW, d, k, sigma, 0.7)
    np.testing.assert_allclose(got, spread, rtol=1e-9, atol=1e-14 * d)
    both = np.add(mean, spread)
    np.testing.assert_allclose(reverse_bound(FEW, d, k, sigma, 0.7), both, rtol=1e-10)
    want = np.maximum(forward, both)
    np.testing.assert_allclose(theorem_3_1(FEW, d, k, sigma, 0.7), want, rtol=1e-10)


@pytest.mark.parametrize("sigma, rate", [(0.3, 0.1), (2.0, 0.33), (2.0, 1e-4), (1000.0, 0.01)])
def test_theorem_3_11_as_printed(sigma, rate):
    with mp.workdps(60):
        want = [float(printed_poisson(int(x), sigma, rate, 0.7)) for x in FEW]
    np.testing.assert_allclose(poisson_rdp(FEW, sigma, rate, 0.7), want, rtol=1e-11)


def test_theorem_3_11_agrees_with_dp_accounting():
    got = poisson_rdp(ORDERS, 1.3, 0.1)
    np.testing.assert_allclose(got, sampled_gaussian_rdp(1.3, 0.1, ORDERS), rtol=1e-12)


@pytest.mark.parametrize("d, k", [(2, 1), (3, 1), (3, 2), (4, 2)])
@pytest.mark.parametrize("alpha", [2, 3, 4])
def test_forward_bound_covers_the_enumerated_divergence(d, k, alpha):
    """Lemma 3.12 by its definition: all alpha-tuples of centres. Equality at alpha = 2."""
    centres = [m for m in itertools.product((0, 1), repeat=d) if sum(m) == k]
    a = 0.8
    total = 0.0
    for chosen in itertools.product(centres, repeat=alpha):
        pairs = itertools.combinations(chosen, 2)
        total += np.exp(a**2 * sum(np.dot(x, y) for x, y in pairs))
    exact = np.log(total / len(centres) ** alpha) / (alpha - 1)
    bound = forward_bound(alpha, d, k, 1 / a)
    assert bound >= exact * (1 - 1e-12)
    if alpha == 2:
        assert bound == pytest.approx(exact, rel=1e-12)
    else:
        assert bound > exact * 1.001


def test_one_one_and_all_ones_are_plain_gaussians():
    np.testing.assert_allclose(theorem_3_1(FEW, 1, 1, 2.0), FEW / 8, rtol=1e-13)
    np.testing.assert_allclose(forward_bound(FEW, 7, 7, 2.0), 7 * FEW / 8, rtol=1e-13)
    np.testing.assert_allclose(reverse_bound(FEW, 7, 7, 2.0), 7 * FEW / 8, rtol=1e-13)


@given(st.floats(0.3, 50), st.integers(1, 60), st.data(), st.floats(1.01, 3), st.integers(2, 255))
@settings(max_examples=60, deadline=None)
def test_bounds_are_monotone(sigma, d, data, more, alpha):
    k = data.draw(st.integers(1, d))
    value = theorem_3_1(alpha, d, k, sigma)
    slack = 1e-9 * value
    assert theorem_3_1(alpha, d, k, sigma * more) <= value + slack
    assert theorem_3_1(alpha, d, k, sigma, 1 / more) <= value + slack
    assert theorem_3_1(alpha + 1, d, k, sigma) >= value - slack
    if k < d:
        assert forward_bound(alpha, d, k + 1, sigma) >= forward_bound(alpha, d, k, sigma) - slack
    assert poisson_rdp(alpha, sigma, 0.2) <= poisson_rdp(alpha, sigma, 0.2 * more) * (1 + 1e-9)
    assert poisson_rdp(alpha, sigma, 0.2) <= poisson_rdp(alpha + 1, sigma, 0.2) * (1 + 1e-9)


def test_poisson_sampling_of_any_curve():
    curve = theorem_3_1(ORDERS, 3, 1, [[0.5], [2.0]])
    np.testing.assert_allclose(poisson_amplified(ORDERS, curve, 1.0), curve, rtol=1e-12)
    assert np.all(poisson_amplified(ORDERS, curve, 0.0) == 0)
    together = poisson_amplified([2, 9], curve, [0.1, 0.4])
    assert together.shape == (2, 2)
    for row, rate in enumerate([0.1, 0.4]):
        one = poisson_amplified([2, 9], curve[row], rate)
        np.testing.assert_allclose(together[row], one, rtol=1e-13)
        assert poisson_amplified(9, curve[row], rate) == pytest.approx(one[1], rel=1e-13)


def test_shapes_follow_the_arguments():
    assert forward_bound(ORDERS, 5, 2, np.ones((3, 1))).shape == (3, 255)
    assert poisson_rdp(ORDERS, [1.0, 2.0, 3.0], 0.1).shape == (3, 255)
    assert poisson_rdp(5, 1.0, 0.1).shape == ()
    curve = poisson_rdp(ORDERS, [1.0, 2.0, 3.0], 0.1)
    assert convert_epsilon(curve, ORDERS, 1e-5).shape == (3,)
    assert convert_delta(curve, ORDERS, 1.0).shape == (3,)


def test_no_overflow_at_little_noise_and_the_highest_order():
    for d in (2, 1000):
        value = theorem_3_1(256, d, 1, 0.3)
        assert value == pytest.approx(256 / 0.18 - np.log(d), rel=1e-6)
        assert poisson_rdp(256, 0.3, 0.1) == pytest.approx(256 / 0.18 + np.log(0.1), rel=1e-3)


# ---- conversion, Proposition 2.3 -----------------------------------------------------------------


@given(st.floats(0.4, 20), st.floats(1e-12, 0.5), st.integers(1, 3000))
@settings(max_examples=40, deadline=None)
def test_conversions_invert_each_other(sigma, delta, rounds):
    curve = rounds * poisson_rdp(ORDERS, sigma, 0.1)
    epsilon = convert_epsilon(curve, ORDERS, delta)
    assert epsilon == pytest.approx(np.min(curve + np.log(1 / delta) / (ORDERS - 1)), rel=1e-12)
    assert convert_delta(curve, ORDERS, epsilon) == pytest.approx(delta, rel=1e-9)


def test_conversion_never_exceeds_one():
    assert convert_delta([5.0, 6.0], [2, 3], 0.0) == 1.0


# ---- the exact moments, first term of (2) for k = 1 ------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 8, 1000])
@pytest.mark.parametrize("a", [0.01, 0.5, 3.3])
def test_moments_are_coefficients_of_a_power(a, d):
    """l! / d^l [t^l] (sum_n t^n / n! exp(n (n - 1) a^2 / 2))^d, multiplied out in high precision."""
    top = 9
    with mp.workdps(60):
        square = mp.mpf(a) ** 2
        series = [mp.exp(n * (n - 1) * square / 2) / mp.factorial(n) for n in range(top + 1)]
        power = [mp.mpf(1)] + [mp.mpf(0)] * top
        for _ in range(d):
            power = [
                mp.fsum(power[i] * series[n - i] for i in range(n + 1)) for n in range(top + 1)
            ]
        want = [float(mp.log(mp.factorial(n) / mp.mpf(d) ** n * power[n])) for n in range(top + 1)]
    np.testing.assert_allclose(log_moments(a, d, top), want, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
def test_moments_lie_between_one_block_and_the_relaxation(sigma):
    """The heaviest tuples alone from below, Corollary 3.14 from above, up to order 256."""
    order = ORDERS
    for d in (2, 8, 1000):
        rdp = log_moments(1 / sigma, d, 256)[2:] / (order - 1)
        assert np.all(rdp <= forward_bound(order, d, 1, sigma) * (1 + 1e-9))
        assert np.all(rdp >= order / (2 * sigma**2) - np.log(d) - 1e-9)
        assert np.all(rdp >= order / (2 * sigma**2 * d) * (1 - 1e-9))
        assert np.all(np.diff(rdp) > 0)


# ---- the paper's text ----------------------------------------------------------------------------


def noise(curve):
    """sigma at which a curve (function of sigma) converts to (8, 1e-5)."""
    return brentq(lambda s: convert_epsilon(curve(s), ORDERS, 1e-5) - 8, 0.5, 50)


@pytest.mark.parametrize(
    "rounds, k, poisson, balanced", [(2000, 655, 10.20, 10.17), (1000, 100, 2.34, 2.36)]
)
def test_noise_of_section_4_2(rounds, k, poisson, balanced):
    """Orders 2 to 256 and Proposition 2.3 give the printed sigmas, all four to the last digit."""
    sampled = noise(lambda s: rounds * poisson_rdp(ORDERS, s, k / rounds))
    assert round(sampled, 2) == poisson
    assert round(noise(lambda s: theorem_3_1(ORDERS, rounds, k, s)), 2) == balanced


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1, 1.5, 2.5, 0, -3, np.nan, np.inf, "2", None, [2, 2.5]])
def test_orders_must_be_whole(alpha):
    for call in (
        whole_orders,
        lambda x: forward_bound(x, 3, 1, 1.0),
        lambda x: theorem_3_1(x, 3, 1, 1.0),
        lambda x: poisson_rdp(x, 1.0, 0.1),
    ):
        with pytest.raises(ValueError, match="alpha must be"):
            call(alpha)


@pytest.mark.parametrize(
    "changed, name",
    [
        ({"d": 0}, "d"),
        ({"d": 2.0}, "d"),
        ({"d": True}, "d"),
        ({"k": 0}, "k"),
        ({"k": 6}, "k"),
        ({"k": 1.5}, "k"),
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": [1.0, np.nan]}, "sigma"),
        ({"clip": -1.0}, "clip"),
    ],
)
def test_bad_settings_are_named(changed, name):
    for function in (forward_bound, reverse_bound, theorem_3_1):
        with pytest.raises(ValueError, match=f"{name} must be"):
            function(**({"alpha": 3, "d": 5, "k": 2, "sigma": 1.0, "clip": 1.0} | changed))


def test_bad_curves_are_named():
    with pytest.raises(ValueError, match="curve must hold orders 2 to 9"):
        poisson_amplified(9, [1.0, 2.0], 0.1)
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\], got 1.5"):
        poisson_amplified(2, [1.0], 1.5)
    with pytest.raises(ValueError, match="rdp must end in 2 orders"):
        convert_epsilon([1.0], [2, 3], 0.1)
    with pytest.raises(ValueError, match="rdp must be non-negative and finite"):
        convert_epsilon([1.0, np.inf], [2, 3], 0.1)
    with pytest.raises(ValueError, match="alpha must be above 1"):
        convert_delta([1.0, 2.0], [1, 2], 0.1)
    with pytest.raises(ValueError, match=r"delta must be in \(0, 1\)"):
        convert_epsilon([1.0], [2], 0.0)
    with pytest.raises(ValueError, match="epsilon must be non-negative"):
        convert_delta([1.0], [2], -1.0)
