"""10,000 random cases: lower <= truth <= upper for attackers of Poisson sampling and of small discrete pairs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from repro.accounting import PoissonGaussian, compose
from repro.accounting.pmsfl.masks import SampledMask

WAYS = ("remove", "add")


def sampled_rates(generator, sigma, rate, way, count):
    """Exact points on the curve of Poisson sampling: those of random thresholds on the output."""
    edge = generator.uniform(-6, 6 + 1 / sigma, count)
    if way == "remove":
        rest, moved = norm.sf(edge), norm.sf(edge - 1 / sigma)
        return rest, (1 - rate) * rest + rate * moved
    rest, moved = norm.cdf(edge), norm.cdf(edge - 1 / sigma)
    return (1 - rate) * rest + rate * moved, rest


def check_poisson(generator, mechanisms, points, rounds=()):
    for _ in range(mechanisms):
        sigma = float(np.exp(generator.uniform(np.log(0.2), np.log(20))))
        rate = float(10 ** generator.uniform(-4, 0))
        for made in (
            PoissonGaussian(sigma, rate=rate),
            *(compose(PoissonGaussian(sigma, rate=rate), n) for n in rounds),
        ):
            for way in WAYS:
                fpr, tpr = sampled_rates(generator, sigma, rate, way, points)
                assert np.all(made.tpr_at_fpr(fpr, direction=way) >= tpr * (1 - 1e-13)), made
                assert np.all(made.tradeoff(fpr, direction=way) <= (1 - tpr) + 1e-15), made
                if not rounds:
                    low = made.tpr_at_fpr(fpr, method="lower", direction=way)
                    assert np.all(low <= np.maximum(tpr, fpr) * (1 + 1e-12) + 1e-16), made
            low, high = (made.gdp_mu(method=m) for m in ("lower", "upper"))
            assert low <= high


def check_masks(generator, mechanisms, points):
    """Few outcomes: the best test is known from their sorted likelihood ratios."""
    for _ in range(mechanisms):
        first, second = generator.uniform(0.02, 0.98, 2).tolist()
        count = int(generator.integers(1, 5))
        made = SampledMask(first, second=second, count=count)
        outcomes = np.array(np.meshgrid(*[[0, 1]] * count)).reshape(count, -1)
        with_record, without = (
            np.prod(np.where(outcomes, x, 1 - x), axis=0) for x in (first, second)
        )
        for way, (p, q) in zip(WAYS, ((with_record, without), (without, with_record)), strict=True):
            order = np.argsort(-p / q, kind="stable")
            x, y = (np.append(0.0, np.cumsum(side[order])) for side in (q, p))
            fpr = generator.uniform(0, 1, points)
            tpr = np.interp(fpr, x, y)
            low, high = (made.tpr_at_fpr(fpr, method=m, direction=way) for m in ("lower", "upper"))
            assert np.all(low <= tpr * (1 + 1e-12)) and np.all(tpr * (1 - 1e-12) <= high), made
            assert np.max(high - low) <= 0.02, made
            prior = generator.uniform(0.01, 0.99)
            exact = np.minimum(prior * p, (1 - prior) * q).sum()
            risks = [made.bayes_risk(prior, method=m, direction=way) for m in ("upper", "lower")]
            assert risks[0] <= exact * (1 + 1e-9) and exact * (1 - 1e-9) <= risks[1], made


def test_poisson_sampling_in_few_mechanisms_and_many_points():
    check_poisson(np.random.default_rng(0), 10, 400)


def test_masks_in_few_mechanisms_and_many_points():
    check_masks(np.random.default_rng(1), 10, 100)


@pytest.mark.slow
def test_poisson_sampling_in_many_mechanisms():
    check_poisson(np.random.default_rng(2), 250, 10)


@pytest.mark.slow
def test_masks_in_many_mechanisms():
    check_masks(np.random.default_rng(3), 250, 10)


@pytest.mark.slow
def test_many_rounds_give_away_no_less_than_one():
    check_poisson(np.random.default_rng(4), 10, 50, rounds=(1, 7))
