"""What an attacker can do: closed forms, brute force, conversions, limits, and both ends of every bound."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from repro.accounting import (
    BalancedIterationSubsampling,
    CentralizedShuffling,
    GaussianMechanism,
    InvalidBoundWarning,
    ModelSplitting,
    OnlyLocalSampling,
    PoissonGaussian,
    RandomParticipation,
    WeakClientSampling,
    compose,
)
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.laplace import SummedLaplace
from repro.accounting.mspafl.carried import CarriedRun
from repro.accounting.mspafl.round import AveragedUploads
from repro.accounting.pmsfl.masks import SampledMask

ALPHA = np.concatenate([np.geomspace(1e-9, 1e-3, 13), np.linspace(0.01, 0.99, 50), [0.999, 1.0]])
BOTH = ("lower", "upper")
EVERY = [
    GaussianMechanism(1.3),
    PoissonGaussian(0.8, rate=0.1),
    RandomParticipation(1.0, p=0.3, q=0.2, samples_per_client=3),
    WeakClientSampling(1.0, p=0.3, q=0.2),
    OnlyLocalSampling(0.9, q=0.2),
    CentralizedShuffling(0.9, p=0.3, q=0.5),
    ModelSplitting(0.7, submodels=4, rate=0.2),
    SummedLaplace(1.0),
    SummedLaplace(0.7, clients=4),
    LaplaceShares(20.0, honest=3, planned=5, sensitivity=10),
    AveragedUploads(1.0, p=0.3, q=0.5, clients=5),
    CarriedRun(4.0, rounds=50, p=0.3, q=0.1),
    CarriedRun(4.0, rounds=50, p=0.3, q=0.1, clients=5),
    SampledMask(0.7, second=0.4, count=6),
    compose(PoissonGaussian(0.8, rate=0.1), 10),
    compose(ModelSplitting(0.7, submodels=4, rate=0.2), 5),
    compose([GaussianMechanism(2.0), compose(SummedLaplace(3.0), 4)]),
]
NAMES = [type(x).__name__ for x in EVERY]
SLOW = BalancedIterationSubsampling(1.0, iterations=10, participations=3)
every_target = pytest.mark.parametrize(
    "target", [*EVERY, pytest.param(SLOW, marks=pytest.mark.slow)], ids=[*NAMES, "Balanced"]
)


def sampled(fpr, sigma, rate, direction):
    """Largest true-positive rate against Poisson sampling, from thresholds on the output."""
    if direction == "remove":
        return (1 - rate) * fpr + rate * norm.sf(norm.isf(fpr) - 1 / sigma)
    edge = np.linspace(-40, 40, 400_001)
    accused = (1 - rate) * norm.cdf(edge) + rate * norm.cdf(edge - 1 / sigma)
    return np.interp(fpr, accused, norm.cdf(edge))


def best_test(first, second, fpr):
    """Largest true-positive rate between two lists of probabilities: the likeliest outcomes first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(second > 0, first / second, np.inf), kind="stable")
    x, y = (np.append(0.0, np.cumsum(side[order])) for side in (second, first))
    return np.interp(fpr, x, y)


@every_target
def test_both_ends_of_every_answer(target):
    for direction in ("add", "remove", "both"):
        low, high = (target.tpr_at_fpr(ALPHA, method=m, direction=direction) for m in BOTH)
        assert np.all(ALPHA <= low) and np.all(low <= high * (1 + 1e-13)) and np.all(high <= 1)
        best, worst = (target.tradeoff(ALPHA, method=m, direction=direction) for m in BOTH[::-1])
        assert np.all(0 <= best) and np.all(best <= worst + 1e-15)
        assert np.all(worst <= 1 - ALPHA + 1e-15)
        np.testing.assert_allclose(best, 1 - high, atol=1e-14)
        prior = np.linspace(0, 1, 21)
        risks = [target.bayes_risk(prior, method=m, direction=direction) for m in BOTH[::-1]]
        assert np.all(0 <= risks[0]) and np.all(risks[0] <= risks[1] + 1e-15)
        assert np.all(risks[1] <= np.minimum(prior, 1 - prior))
    low, high = (target.gdp_mu(method=m) for m in BOTH)
    assert 0 < low <= high
    assert target.advantage(method="lower") <= target.advantage()


@every_target
@pytest.mark.parametrize("method", BOTH)
def test_curve_is_convex_falls_and_has_its_ends(target, method):
    alpha = np.linspace(0, 1, 401)
    for direction in ("add", "remove"):
        beta = target.tradeoff(alpha, method=method, direction=direction)
        assert np.all(np.diff(beta) <= 1e-13)
        # A test that mixes two others is as good as they are on average. A charge for rounding begins where a
        # rate is above 1/2. The best of several roundings and pairs is one curve for each of them.
        if method == "upper":
            assert np.all(np.diff(beta, 2) >= -1e-10)
        assert beta[-1] == 0 and beta[0] <= 1
    both = target.tradeoff(alpha, method=method)
    ways = [target.tradeoff(alpha, method=method, direction=way) for way in ("add", "remove")]
    np.testing.assert_array_equal(both, np.minimum(*ways))


@every_target
def test_the_two_directions_are_inverse_to_each_other(target):
    """Type I and type II errors change places; a lower bound may use other pairs of data sets."""
    beta = target.tradeoff(ALPHA, direction="remove")
    inside = (beta > 1e-6) & (ALPHA > 1e-6)
    back = target.tradeoff(beta[inside], direction="add")
    assert np.all(np.abs(back - ALPHA[inside]) <= 1e-4 * ALPHA[inside] + 1e-6)


@every_target
def test_curve_gives_back_delta(target):
    """delta(epsilon) is the largest TPR - e^epsilon FPR (Dong, Roth and Su 2022, Proposition 2.12)."""
    alpha = np.concatenate([[0.0], np.geomspace(1e-12, 1, 4001)])
    epsilon = np.array([0.0, 0.05, 0.3, 1.0])
    for way in ("remove", "add"):
        tpr = target.tpr_at_fpr(alpha, direction=way)
        back = np.max(tpr - np.exp(epsilon[:, None]) * alpha, axis=1)
        delta = target.delta(epsilon, direction=way)
        np.testing.assert_allclose(back, delta, rtol=2e-3, atol=2e-6)
        tpr = target.tpr_at_fpr(alpha, method="lower", direction=way)
        low = np.max(tpr - np.exp(epsilon[:, None]) * alpha, axis=1)
        assert np.all(low <= delta * (1 + 1e-12) + 1e-15)


@every_target
def test_bayes_risk_is_the_least_weighted_error(target):
    alpha = np.concatenate([[0.0], np.geomspace(1e-12, 1, 4001)])
    for way in ("remove", "add", "both"):
        beta = target.tradeoff(alpha, direction=way)
        for prior in (0.03, 0.3, 0.5, 0.8):
            want = np.min(prior * beta + (1 - prior) * alpha)
            got = target.bayes_risk(prior, direction=way)
            assert got == pytest.approx(want, rel=1e-3, abs=1e-6)
            beta_low = target.tradeoff(alpha, method="lower", direction=way)
            reached = np.min(prior * beta_low + (1 - prior) * alpha)
            risk = target.bayes_risk(prior, method="lower", direction=way)
            assert got <= risk and risk == pytest.approx(reached, rel=0.02)
    assert target.bayes_risk(0.5) == pytest.approx((1 - target.advantage()) / 2)


@every_target
def test_gaussian_curve_dominates_and_no_smaller_one_does(target):
    least = 1e-4
    mu = target.gdp_mu(least_error=least)
    alpha = np.concatenate([np.geomspace(least, 0.5, 3001), 1 - np.geomspace(least, 0.5, 3001)])
    for way in ("remove", "add"):
        beta = target.tradeoff(alpha, direction=way)
        gaussian = norm.cdf(norm.isf(alpha) - mu)
        inside = beta >= least
        assert np.all(beta[inside] >= gaussian[inside] * (1 - 1e-9))
        reached = np.maximum(target.tradeoff(alpha, direction=way), least)
        assert np.max(norm.isf(alpha) - norm.ppf(reached)) >= mu * (1 - 1e-3)
    low = target.gdp_mu(least_error=least, method="lower")
    gains = [
        norm.isf(alpha)
        - norm.ppf(np.maximum(target.tradeoff(alpha, method="lower", direction=way), least))
        for way in ("remove", "add")
    ]
    assert np.max(gains) <= low * (1 + 1e-9) + 1e-12
    assert np.max(gains) >= low * (1 - 1e-3)


def test_gaussian_closed_form_for_arrays_and_in_all_answers():
    sigma = np.array([0.5, 1.0, 20.0])
    made = GaussianMechanism(sigma, sensitivity=2.0)
    for method in ("upper", "lower", "paper"):
        want = norm.cdf(norm.isf(0.01) - 2 / sigma)
        np.testing.assert_allclose(made.tradeoff(0.01, method=method), want, rtol=1e-12)
        np.testing.assert_allclose(made.tpr_at_fpr(0.01, method=method), 1 - want, rtol=1e-12)
        np.testing.assert_allclose(made.gdp_mu(method=method), 2 / sigma)
        np.testing.assert_allclose(made.advantage(method=method), 2 * norm.cdf(1 / sigma) - 1)
        risk = 0.2 * norm.cdf(-1 / sigma + np.log(4) * sigma / 2)
        risk += 0.8 * norm.cdf(-1 / sigma - np.log(4) * sigma / 2)
        np.testing.assert_allclose(made.bayes_risk(0.2, method=method), risk, rtol=1e-9)
    assert made.tradeoff(np.array([[0.1], [0.2]])).shape == (2, 3)
    assert isinstance(GaussianMechanism(1.0).tradeoff(0.1), float)


@pytest.mark.parametrize("mu", [0.05, 1.0, 4.0])
def test_compositions_of_gaussians_hold_their_closed_form_between_both_ends(mu):
    run = compose(GaussianMechanism(3 / mu), 9)
    truth = GaussianMechanism(1 / mu)
    for ask, wider in (("tradeoff", 2e-3), ("tpr_at_fpr", 2e-3), ("bayes_risk", 2e-3)):
        low, high = sorted([getattr(run, ask)(ALPHA, method=m) for m in BOTH], key=np.sum)
        exact = getattr(truth, ask)(ALPHA)
        assert np.all(low <= exact + 2e-14) and np.all(exact <= high + 2e-14)
        np.testing.assert_allclose(low, high, atol=wider)
    low, high = (run.gdp_mu(method=m) for m in BOTH)
    assert low <= mu <= high and high - low <= 3e-3 * mu


@pytest.mark.parametrize(
    "sigma, rate", [(0.5, 0.01), (1.0, 0.3), (3.0, 0.9), (0.2, 0.5), (1.0, 1.0)]
)
def test_poisson_sampling_against_thresholds_on_the_output(sigma, rate):
    for made in (PoissonGaussian(sigma, rate=rate), compose(PoissonGaussian(sigma, rate=rate))):
        for way in ("remove", "add"):
            exact = sampled(ALPHA, sigma, rate, way)
            low, high = (made.tpr_at_fpr(ALPHA, method=m, direction=way) for m in BOTH)
            assert np.all(low <= exact * (1 + 1e-8)) and np.all(exact <= high * (1 + 1e-8))
            np.testing.assert_allclose(high - low, 0, atol=5e-4)
    fpr = np.geomspace(1e-6, 0.9, 200_001)
    tpr = np.minimum(sampled(fpr, sigma, rate, "remove"), 1 - 1e-6)
    want = np.max(norm.ppf(tpr) - norm.ppf(fpr))
    low, high = (PoissonGaussian(sigma, rate=rate).gdp_mu(method=m) for m in BOTH)
    assert low <= want * (1 + 1e-7) and want <= high
    assert high - low <= 2e-3 * high


def test_the_mu_of_sampling_tends_to_the_unsampled_one():
    """Why tests of minute error rates are left out: they do as if the record were always drawn."""
    made = PoissonGaussian(1.0, rate=0.01)
    mu = [made.gdp_mu(least_error=least) for least in (1e-2, 1e-4, 1e-8, 1e-12)]
    assert mu[0] < 0.1 and np.all(np.diff(mu) > 0) and 0.3 < mu[-1] < 1


@pytest.mark.parametrize("pure", [0.1, 1.0, 3.0])
def test_laplace_against_its_printed_curve(pure):
    """Dong, Roth and Su 2022, Lemma A.6: two lines and a hyperbola."""
    beta = np.where(ALPHA < 0.5, np.exp(-pure) / (4 * ALPHA), np.exp(-pure) * (1 - ALPHA))
    beta = np.where(ALPHA < np.exp(-pure) / 2, 1 - np.exp(pure) * ALPHA, beta)
    made = SummedLaplace(1 / pure)
    for way in ("remove", "add", "both"):
        best, worst = (made.tradeoff(ALPHA, method=m, direction=way) for m in BOTH[::-1])
        assert np.all(best <= beta + 1e-14) and np.all(beta <= worst + 1e-14)
        np.testing.assert_allclose(best, worst, atol=2e-3)
    assert made.tpr_at_fpr(0.0) <= 1e-12


def test_disclosed_participation_against_brute_force():
    sigma, p, q = 0.8, 0.3, 0.4
    edge = np.linspace(-12, 14, 40_001)
    rest, moved = np.diff(norm.cdf(edge)), np.diff(norm.cdf(edge - 1 / sigma))
    without = np.concatenate([[1 - p], p * rest])
    with_record = np.concatenate([[1 - p], p * ((1 - q) * rest + q * moved)])
    made = WeakClientSampling(sigma, p=p, q=q)
    for way, pair in (("remove", (with_record, without)), ("add", (without, with_record))):
        exact = best_test(*pair, ALPHA)
        low, high = (made.tpr_at_fpr(ALPHA, method=m, direction=way) for m in BOTH)
        assert np.all(exact <= high * (1 + 1e-9)) and np.all(low <= exact * (1 + 1e-6))
        np.testing.assert_allclose(low, high, atol=2e-4)


@pytest.mark.parametrize("rounds", [1, 20])
def test_agrees_with_dp_accounting(rounds):
    """The dual of dp-accounting's own profile, both directions together."""
    accountant = PLDAccountant()
    accountant.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(0.9)), rounds)
    accountant.compose(LaplaceDpEvent(8.0), rounds)
    run = compose([PoissonGaussian(0.9, rate=0.1), SummedLaplace(8.0)], rounds)
    epsilon = np.linspace(0, 8, 321)
    delta = np.array([accountant.get_delta(e) for e in epsilon])
    for fpr in (1e-5, 1e-3, 0.02, 0.1):
        dual = np.min(delta + np.exp(epsilon) * fpr)
        assert run.tpr_at_fpr(fpr) == pytest.approx(dual, rel=2e-3)
        assert run.tpr_at_fpr(fpr, method="lower") <= dual
    assert run.advantage() == pytest.approx(accountant.get_delta(0.0), rel=2e-3)


def test_the_better_direction_changes_with_the_false_positive_rate():
    """Removal has the larger delta at every epsilon, and yet not the larger TPR at every FPR."""
    made = ModelSplitting(0.7, submodels=4, rate=0.2)
    for target in (made, compose(made), compose(made, 3)):
        fpr = np.array([0.001, 0.9])
        remove, add = (target.tpr_at_fpr(fpr, direction=way) for way in ("remove", "add"))
        assert remove[0] > add[0] and remove[1] < add[1] - 0.01
        np.testing.assert_array_equal(target.tpr_at_fpr(fpr), np.maximum(remove, add))


@pytest.mark.parametrize("target", EVERY[:-3], ids=NAMES[:-3])
def test_one_round_composed_is_the_round(target):
    once = compose(target)
    for way in ("remove", "add"):
        ours, theirs = (
            [x.tpr_at_fpr(ALPHA, method=m, direction=way) for m in BOTH] for x in (target, once)
        )
        assert np.all(ours[0] <= theirs[1] * (1 + 1e-9)) and np.all(
            theirs[0] <= ours[1] * (1 + 1e-9)
        )
        np.testing.assert_allclose(ours[1], theirs[1], rtol=5e-3)


def test_limits():
    for made in (PoissonGaussian(1.0, rate=0.0), compose(PoissonGaussian(1.0, rate=0.0), 5)):
        for method in BOTH:
            np.testing.assert_allclose(made.tradeoff(ALPHA, method=method), 1 - ALPHA, atol=1e-12)
            assert made.gdp_mu(method=method) <= 1e-8
            assert made.bayes_risk(0.3, method=method) == pytest.approx(0.3)
    for sigma in (1e2, 1e4, 1e6):
        made = PoissonGaussian(sigma, rate=0.5)
        low, high = (made.gdp_mu(method=m) for m in BOTH)
        assert 0 < low <= high <= 1 / sigma
    loud = PoissonGaussian(1e-3, rate=0.5)
    for method in BOTH:
        assert loud.tpr_at_fpr(0.2, method=method) == pytest.approx(0.6, abs=1e-3)
        assert loud.advantage(method=method) == pytest.approx(0.5)
    assert EVERY[1].bayes_risk([0.0, 1.0]).tolist() == [0.0, 0.0]
    assert EVERY[1].tpr_at_fpr(1.0) == 1 and EVERY[1].tpr_at_fpr(0.0) <= 1e-15


def test_curves_over_the_rounds():
    run = compose(PoissonGaussian(0.9, rate=0.05), [1, 10, 100])
    for method in BOTH:
        assert np.all(np.diff(run.gdp_mu(method=method)) > 0)
        assert np.all(np.diff(run.tradeoff(0.05, method=method)) < 0)
        table = run.bayes_risk(np.array([[0.1], [0.5]]), method=method)
        assert table.shape == (2, 3) and np.all(np.diff(table, axis=1) <= 0)
        single = compose(PoissonGaussian(0.9, rate=0.05), 100).gdp_mu(method=method)
        assert run.gdp_mu(method=method)[2] == pytest.approx(single, rel=1e-6)


def test_printed_formulas_answer_with_a_warning_at_the_call():
    made = RandomParticipation(1.0, p=0.3, q=0.2, samples_per_client=10)
    for ask in (made.tradeoff, made.tpr_at_fpr):
        with pytest.warns(InvalidBoundWarning) as found:
            value = ask(0.05, method="paper")
        assert 0 < value < 1 and found[0].filename == __file__
    with pytest.warns(InvalidBoundWarning) as found:
        made.gdp_mu(method="paper")
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.tradeoff(0.05)
    printed = ModelSplitting(1.0, submodels=3, rate=0.2)
    assert printed.tpr_at_fpr(0.05, method="paper") >= printed.tpr_at_fpr(0.05, method="lower")
    with pytest.raises(ValueError, match="method must be 'upper' or 'lower' for the losses"):
        compose(printed).tpr_at_fpr(0.05, method="paper")


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, "0.1", None, True, [0.1, 2.0]])
def test_bad_rates_are_named_with_their_value(value):
    for target in (EVERY[0], EVERY[1], compose(EVERY[1], 2)):
        for ask, name in (("tradeoff", "alpha"), ("tpr_at_fpr", "fpr"), ("bayes_risk", "prior")):
            with pytest.raises(ValueError, match=rf"{name} must be in \[0, 1\], got"):
                getattr(target, ask)(value)


@pytest.mark.parametrize("value", [0.0, 1e-13, 0.5, -1e-3, np.nan, "0.1", None, [0.1, 0.2]])
def test_bad_least_error(value):
    allowed = "one number" if isinstance(value, list) else r".*in \[1e-12, 1/2\)"
    for target in (EVERY[0], EVERY[1], compose(EVERY[1], 2)):
        with pytest.raises(ValueError, match=f"least_error must be {allowed}, got"):
            target.gdp_mu(least_error=value)


def test_bad_words_and_shapes():
    for target in (EVERY[0], EVERY[1], compose(EVERY[1], 2)):
        for ask in (target.tradeoff, target.tpr_at_fpr, target.bayes_risk):
            with pytest.raises(ValueError, match="method must be one of .*'best'"):
                ask(0.1, method="best")
            with pytest.raises(ValueError, match="direction must be one of .*'replace'"):
                ask(0.1, direction="replace")
            with pytest.raises(TypeError):
                ask(0.1, "upper")
    with pytest.raises(ValueError, match="curve of the best test needs scalar fields"):
        PoissonGaussian([1.0, 2.0], rate=0.1).tradeoff(0.1)
    with pytest.raises(ValueError, match="gdp_mu needs scalar fields"):
        PoissonGaussian([1.0, 2.0], rate=0.1).gdp_mu()
    with pytest.raises(ValueError, match="must broadcast against each other"):
        GaussianMechanism([1.0, 2.0]).tradeoff([0.1, 0.2, 0.3])
    np.testing.assert_allclose(
        PoissonGaussian([1.0, 2.0], rate=0.1).bayes_risk(0.3),
        [PoissonGaussian(s, rate=0.1).bayes_risk(0.3) for s in (1.0, 2.0)],
    )
