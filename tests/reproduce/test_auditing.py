"""Lower bounds on epsilon from attacks: closed forms, coverage by simulation, and errors."""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from repro.accounting import GaussianMechanism, PoissonGaussian
from reproduce.papers import auditing
from reproduce.papers.auditing import Roc, counted

N = 20_000


def gaussian_roc(rng, sigma, n=N):
    """Trainings that release N(0, sigma^2) or N(1, sigma^2), scored by the log likelihood ratio."""
    scores = [(2 * (m + sigma * rng.standard_normal(n)) - 1) / (2 * sigma**2) for m in (0, 1)]
    return Roc.of([counted(*scores)])


def randomised_response(rng, epsilon, n):
    """Counts of a test that is right with probability e^epsilon / (1 + e^epsilon)."""
    right = 1 / (1 + math.exp(-epsilon))
    return Roc(rng.binomial(n, [1 - right]), rng.binomial(n, [right]), (n, n))


def test_scores_are_counted_from_the_highest_threshold_down():
    found = counted([0.0, -np.inf, 5.0], [np.inf, 30.0, -1.0, 2.0])
    roc = Roc.of([found, found])
    assert roc.trainings == (6, 8)
    assert roc.true[0] == 4 and roc.false[0] == 0  # what lies beyond the outer edge
    assert roc.true[-1] == 8 and roc.false[-1] == 6
    assert (np.diff(roc.true) >= 0).all() and (np.diff(roc.false) >= 0).all()
    fpr, tpr = roc.rates()
    assert fpr[0] == tpr[0] == 0 and fpr[-1] == tpr[-1] == 1


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="scores with the canary must be numbers"):
        counted([0.0], [math.nan])


@pytest.mark.parametrize("hits", [0, 1, 17, 99, 100])
def test_clopper_pearson_is_the_inverse_of_the_binomial_law(hits):
    end = float(auditing.highest(hits, 100, 0.025))
    if hits == 100:
        assert end == 1.0
    else:
        assert binom.cdf(hits, 100, end) == pytest.approx(0.025, rel=1e-6)


def test_free_bound_covers_and_is_not_empty():
    rng = np.random.default_rng(3)
    found = [auditing.free_epsilon(randomised_response(rng, 1.0, 4000), 0.0)[0] for _ in range(400)]
    assert np.mean(np.array(found) > 1.0) <= 0.05
    assert np.mean(found) > 0.85


def test_p_values_are_valid_and_small_where_the_guarantee_is_wrong():
    rng = np.random.default_rng(5)
    under = [auditing.excess(randomised_response(rng, 1.0, 3000), 1.0, 0.0)[0] for _ in range(100)]
    assert np.mean(np.array(under) < 0.05) <= 0.05
    assert auditing.excess(randomised_response(rng, 1.0, 3000), 0.7, 0.0)[0] < 1e-6
    assert auditing.excess(randomised_response(rng, 1.0, 3000), 0.7, 0.2)[0] > 0.05


@pytest.mark.parametrize("sigma", [0.7, 1.0, 3.0])
def test_the_curve_of_the_gaussian_mechanism(sigma):
    fpr = np.linspace(0.001, 0.999, 60)
    exact = ndtr(ndtri(1 - fpr) - 1 / sigma)
    ours = auditing.missed(GaussianMechanism(sigma), fpr)
    assert (ours <= exact + 1e-12).all()
    np.testing.assert_allclose(ours, exact, atol=2e-4)


def test_the_curve_keeps_the_two_directions_apart():
    """Without the record is the null hypothesis: the curve of brute force, not its symmetric hull."""
    sigma, rate = 0.8, 0.3
    x = np.linspace(-9, 10, 40_001)
    base = np.exp(-0.5 * (x / sigma) ** 2)
    other = (1 - rate) * base + rate * np.exp(-0.5 * ((x - 1) / sigma) ** 2)
    base, other = base / base.sum(), other / other.sum()
    fpr, fnr = 1 - np.cumsum(base), np.cumsum(other)  # reject above x
    some = np.searchsorted(-fpr, [-0.5, -0.2, -0.05, -0.01])
    ours = auditing.missed(PoissonGaussian(sigma, rate=rate), fpr[some])
    np.testing.assert_allclose(ours, fnr[some], atol=1e-3)


def test_the_three_bounds_of_a_right_system():
    rng = np.random.default_rng(7)
    rocs = [gaussian_roc(rng, 1.5, 200_000) for _ in range(2)]
    found = auditing.audit(*rocs, GaussianMechanism, GaussianMechanism(1.5), 1.5, 1e-5)
    assert 0.95 * found.upper < found.implied < found.upper
    assert found.free < found.implied and found.noise > 1.5
    assert found.tpr[1] <= found.tpr[0] <= found.tpr[2]
    assert found.tpr_lower == pytest.approx(found.tpr_upper, abs=2e-3)
    assert found.tpr[1] < found.tpr_limit


@pytest.mark.parametrize("leak", [1.2, 2.0])
def test_too_little_noise_is_found(leak):
    """The trainings have less noise than the bound is told: the implied epsilon is above it."""
    rng = np.random.default_rng(9)
    rocs = [gaussian_roc(rng, 1.5 / leak, 100_000) for _ in range(2)]
    found = auditing.audit(*rocs, GaussianMechanism, GaussianMechanism(1.5), 1.5, 1e-5)
    assert found.implied > found.upper and found.noise < 1.5


def test_no_leak_implies_nothing():
    rng = np.random.default_rng(11)
    rocs = [Roc.of([counted(*rng.standard_normal((2, 500)))]) for _ in range(2)]
    found = auditing.audit(*rocs, GaussianMechanism, GaussianMechanism(1.0), 1.0, 1e-5)
    assert found.implied < 0.5 and found.free < 0.5


def test_the_largest_noise_covers_for_a_sampled_gaussian():
    def family(sigma):
        return PoissonGaussian(sigma, rate=0.3)

    rng = np.random.default_rng(13)
    found = []
    for _ in range(20):
        rocs = []
        for _ in range(2):
            coins = rng.random((2, 20_000)) < 0.3 * np.array([0, 1])[:, None]
            seen = coins + 0.5 * rng.standard_normal((2, 20_000))
            rocs.append(Roc.of([counted(*np.log1p(0.3 * np.expm1((2 * seen - 1) / 0.5)))]))
        _, place = auditing.largest_noise(rocs[0], family, 0.5, 0.95, step=1e-2)
        found.append(auditing.largest_noise(rocs[1].at(place), family, 0.5, 0.95)[0])
    assert np.mean(np.array(found) < 0.5) <= 0.05
    assert np.mean(found) < 0.6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: auditing.highest(0, 0, 0.05), "trials must be an integer >= 1"),
        (
            lambda: Roc(np.array([1]), np.array([1]), (2, 2)).errors(1.5),
            "confidence must be in",
        ),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
