"""Where the printed and the repaired Theorem 4.1 are exact."""

import numpy as np
import pytest

from repro.accounting import RandomParticipation
from reproduce.papers.random_participation.exactness import one_other, right_up_to, wrong_from
from reproduce.papers.random_participation.quadrature import oblique_delta

pytestmark = pytest.mark.filterwarnings("ignore::repro.accounting.InvalidBoundWarning")


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_one_other_record_is_solved(direction, epsilon):
    delta, cosine = one_other(epsilon, direction, p=0.5, q=0.5, sigma=1.0)
    scheme = RandomParticipation(1.0, p=0.5, q=0.5, samples_per_client=1)
    assert delta == pytest.approx(scheme.delta(epsilon, direction=direction), rel=1e-7)
    at = {"d": 1, "p": 0.5, "q": 0.5, "sigma": 1.0}
    assert oblique_delta(epsilon, direction, **at, cosine=cosine) == pytest.approx(delta, rel=1e-5)
    for other in (cosine - 0.1, min(cosine + 0.1, 0.99)):
        assert oblique_delta(epsilon, direction, **at, cosine=other) < delta


def test_beyond_the_last_angle_there_is_no_formula():
    delta, cosine = one_other(1.0, "remove", p=0.1, q=0.1, sigma=1.0)
    assert np.isnan(delta) and cosine > 1
    delta, cosine = one_other(0.3, "add", p=0.5, q=0.5, sigma=1.0)
    assert np.isnan(delta) and cosine < -1
    assert one_other(1.0, "add", p=0.5, q=0.1, sigma=1.0) == (0.0, 0.0)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_for_one_other_record_the_limits_are_the_printed_condition(epsilon):
    q, sigma, alpha = 0.3, 1.5, np.exp(epsilon)
    left = (1 - q) * np.expm1(1 / sigma**2) * (alpha - 1 + q)
    limit = (alpha - 1) / (alpha - 1 + left)
    at = {"d": 1, "q": q, "sigma": sigma}
    assert right_up_to(epsilon, **at) == pytest.approx(limit, rel=1e-10)
    assert wrong_from(epsilon, **at) == pytest.approx(limit, rel=1e-10)


@pytest.mark.parametrize("d", [1, 2, 4])
def test_below_the_limit_the_printed_theorem_is_exact_and_above_the_other_it_is_not(d):
    at = {"d": d, "q": 0.1, "sigma": 1.0}
    right, wrong = right_up_to(0.1, **at), wrong_from(0.1, **at)
    assert 0 < right <= wrong * (1 + 1e-12) <= 1
    below = RandomParticipation(1.0, p=0.9 * right, q=0.1, samples_per_client=d)
    assert below.delta(0.1) == pytest.approx(below.delta(0.1, method="paper"), rel=1e-6)
    between = RandomParticipation(1.0, p=1.1 * right, q=0.1, samples_per_client=d)
    assert d > 1 or between.delta(0.1) > 1.0005 * between.delta(0.1, method="paper")
    rate = min(1.0, 1.1 * wrong)
    printed = RandomParticipation(1.0, p=rate, q=0.1, samples_per_client=d).delta(
        0.1, method="paper"
    )
    turned = max(
        oblique_delta(0.1, "remove", **at, p=rate, cosine=c) for c in (0.8, 0.9, 0.95, 0.98)
    )
    assert turned > 1.0001 * printed
