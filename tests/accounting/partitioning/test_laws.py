"""Laws rounded in the convex order: what is stated about each operation, tested as stated."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from repro.accounting.partitioning.blocks import block_law, ratio_losses
from repro.accounting.partitioning.laws import (
    Law,
    average,
    lognormal,
    product,
    ratio_excess,
    ratio_shortfall,
)

THRESHOLDS = np.exp(np.linspace(-3, 6, 50))
BOTH = ("upper", "lower")


def call(a, t):
    """E (X - t)_+ of the lognormal exp(a Z - a^2 / 2), in closed form."""
    point = np.log(t) / a
    return norm.cdf(a / 2 - point) - t * norm.cdf(-a / 2 - point)


def put(a, t):
    return call(a, t) - 1 + t


def assert_brackets(lower, upper, truth, rtol):
    """lower <= truth <= upper up to rounding, and both close to it where it is not negligible."""
    slack = 1e-13 + 1e-12 * truth
    assert np.all(lower <= truth + slack)
    assert np.all(truth <= upper + slack)
    clear = truth > 1e-6
    np.testing.assert_allclose(upper[clear], lower[clear], rtol=rtol)


@pytest.mark.parametrize("a", [1e-4, 0.1, 1.0, 5.0])
def test_lognormal_is_bracketed(a):
    lower, upper = (lognormal(a, a / 40, method) for method in ("lower", "upper"))
    at = np.exp(a * np.linspace(-3, 3, 31))
    rtol = 1e-2
    excesses = ratio_excess(lower, at), ratio_excess(upper, at)
    assert_brackets(*excesses, call(a, at), rtol)
    shortfalls = ratio_shortfall(lower, at), ratio_shortfall(upper, at)
    assert_brackets(*shortfalls, put(a, at), rtol)


def test_product_of_lognormals_is_one_lognormal():
    a, b = 0.6, 1.1
    c = np.hypot(a, b)
    laws = [product(lognormal(a, 0.02, m), lognormal(b, 0.02, m), 0.02, m) for m in BOTH]
    upper, lower = (ratio_excess(law, THRESHOLDS) for law in laws)
    assert_brackets(lower, upper, call(c, THRESHOLDS), 5e-3)


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_average_by_quadrature(share):
    """The first factor is integrated numerically, the second in closed form."""
    a, b = 0.7, 1.3
    z = np.linspace(-12, 12, 4001)
    weight = norm.pdf(z) * (z[1] - z[0])
    rest = (THRESHOLDS[:, None] - share * np.exp(a * z - a**2 / 2)) / (1 - share)
    inner = np.where(rest > 0, call(b, np.maximum(rest, 1e-300)), 1 - rest)
    truth = (1 - share) * inner @ weight
    laws = [average(lognormal(a, 0.02, m), lognormal(b, 0.02, m), share, 0.02, m) for m in BOTH]
    upper, lower = (ratio_excess(law, THRESHOLDS) for law in laws)
    assert_brackets(lower, upper, truth, 5e-3)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_twins_are_averaged_as_strangers_are(share):
    one = lognormal(0.8, 0.03, "upper")
    copy = one._replace(mass=one.mass.copy())
    twins, strangers = (average(one, x, share, 0.03, "upper") for x in (one, copy))
    np.testing.assert_allclose(
        ratio_excess(twins, THRESHOLDS), ratio_excess(strangers, THRESHOLDS), rtol=1e-11
    )


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize(
    "a, d, b", [(0.05, 2, 0.0), (1.0, 8, 0.0), (4.0, 3, 2.0), (0.5, 1000, 0.1)]
)
def test_masses_under_both_hypotheses_sum_to_one(a, d, b, method):
    law = block_law(a, d, method, b=b)
    assert np.all(np.diff(law.value) > 0) and np.all(law.mass > 0)
    assert law.mass.sum() + law.zero == pytest.approx(1, abs=1e-12)
    assert law.mass @ law.value + law.infinite == pytest.approx(1, abs=1e-12)
    assert 0 <= law.zero < 1e-17 and 0 <= law.infinite < 1e-17


@pytest.mark.parametrize("d", [2, 3, 8, 1000])
def test_finer_grids_narrow_the_bracket_from_both_sides(d):
    coarse, fine = (
        [ratio_excess(block_law(0.9, d, m, points=points), THRESHOLDS) for m in BOTH]
        for points in (10, 40)
    )
    assert np.all(fine[0] <= coarse[0] * (1 + 1e-9) + 1e-15)
    assert np.all(fine[1] >= coarse[1] * (1 - 1e-9) - 1e-15)
    clear = fine[1] > 1e-8
    assert np.any(clear)
    np.testing.assert_allclose(fine[0][clear], fine[1][clear], rtol=0.02)


def test_variance_is_kept_to_second_order():
    """Spreading raises the variance, contracting lowers it, both by a share of about 1 / points^2."""
    a, d = 0.5, 8
    truth = np.expm1(a**2) / d
    for points in (20, 40):
        upper, lower = (
            (law.mass * (law.value - 1) ** 2).sum() / truth - 1
            for law in (block_law(a, d, m, points=points) for m in BOTH)
        )
        assert 0 < upper < 1 / points**2
        assert -1 / points**2 < lower < 0


def test_shifts_out_of_range_are_refused():
    with pytest.raises(ValueError, match="norm of at most 20"):
        block_law(19.0, 2, "upper", b=10.0)


# ---- onto loss grids -----------------------------------------------------------------------------


def one_sided(distribution, epsilon, direction):
    half = distribution._pmf_remove if direction == "remove" else distribution._pmf_add
    return np.array(
        [pld_lib.PrivacyLossDistribution(half).get_delta_for_epsilon(e) for e in epsilon]
    )


def of_law(law, rate, epsilon, direction):
    """Divergence of (1 - rate) Q + rate P and Q, by its definition."""
    mixed, t = 1 - rate + rate * law.value, np.exp(epsilon)[:, None]
    gain = mixed - t if direction == "remove" else 1 - t * mixed
    value = np.maximum(gain, 0) @ law.mass
    if direction == "remove":
        return value + rate * law.infinite
    return value + law.zero * np.maximum(1 - t[:, 0] * (1 - rate), 0)


LAWS = st.lists(
    st.tuples(st.floats(-4, 4), st.floats(1e-12, 1)),
    min_size=1,
    max_size=60,
    unique_by=lambda x: x[0],
)


@given(LAWS, st.sampled_from([1.0, 0.9, 0.05]), st.sampled_from([0.3, 0.02, 1e-3]))
@settings(max_examples=150, deadline=None)
def test_any_law_is_bracketed_on_any_grid(points, rate, interval):
    loss, mass = np.array(sorted(points)).T
    law = Law(np.exp(loss), mass / mass.sum())
    mean = law.mass @ law.value
    law = Law(law.value / mean, law.mass)
    epsilon = np.linspace(0, 4, 9)
    for direction in ("remove", "add"):
        truth = of_law(law, rate, epsilon, direction)
        upper, lower = (
            one_sided(ratio_losses(law, interval, method, rate), epsilon, direction)
            for method in BOTH
        )
        assert np.all(upper >= truth - 1e-12)
        assert np.all(lower <= truth + 1e-12)
        # Downwards no mass moves further than across two cells that trade, upwards one interval.
        moved = of_law(law, rate, epsilon + 48 * interval, direction)
        assert np.all(lower >= moved - 1e-12)
        moved = of_law(law, rate, np.maximum(epsilon - interval, 0), direction)
        assert np.all(upper <= moved + 1e-12)


@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_rounding_down_loses_second_order_only(rate):
    """Ten rounds on a grid on which plain rounding down would lose up to ten intervals."""
    law = block_law(0.5, 4, "lower")
    fine, coarse = (
        ratio_losses(law, interval, "lower", rate).self_compose(10).get_epsilon_for_delta(1e-4)
        for interval in (1e-5, 2e-3 * rate)
    )
    assert fine - 2e-3 * rate < coarse <= fine + 1e-9


def test_states_seen_under_one_hypothesis_only():
    law = Law(np.array([0.9, 1.1]), np.array([0.5, 0.49]), 0.01, 1 - 0.5 * 0.9 - 0.49 * 1.1)
    certain = ratio_losses(law, 1e-3, "upper", 1.0)
    assert one_sided(certain, [30.0], "add")[0] == pytest.approx(0.01)
    assert one_sided(certain, [30.0], "remove")[0] == pytest.approx(law.infinite)
    mixed = ratio_losses(law, 1e-3, "upper", 0.2)
    assert one_sided(mixed, [30.0], "remove")[0] == pytest.approx(0.2 * law.infinite)
    assert one_sided(mixed, [30.0], "add")[0] == 0
    truth = of_law(law, 0.2, np.array([0.1]), "add")[0]
    assert one_sided(mixed, [0.1], "add")[0] == pytest.approx(truth, rel=1e-3)
