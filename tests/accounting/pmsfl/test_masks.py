"""A sampled mask as a mechanism: against enumeration, the functions of `releases`, and limits."""

from __future__ import annotations

import numpy as np
import pytest

from repro.accounting import compose
from repro.accounting.pmsfl.masks import SampledMask
from repro.accounting.pmsfl.releases import binary_upload_rdp, mask_delta, mask_epsilon

EPSILON = np.array([0.0, 0.3, 1.0, 4.0])


def enumerated(probability, count):
    outcomes = np.array(np.meshgrid(*[[0, 1]] * count)).reshape(count, -1)
    return np.prod(np.where(outcomes, probability, 1 - probability), axis=0)


@pytest.mark.parametrize("first, second, count", [(0.7, 0.4, 1), (0.9, 0.2, 5), (0.3, 0.5, 8)])
def test_against_all_outcomes(first, second, count):
    made = SampledMask(first, second=second, count=count)
    p, q = (enumerated(x, count) for x in (first, second))
    for way, (one, other) in {"remove": (p, q), "add": (q, p)}.items():
        delta = [np.maximum(one - np.exp(e) * other, 0).sum() for e in EPSILON]
        for method in ("lower", "upper"):
            np.testing.assert_allclose(
                made.delta(EPSILON, direction=way, method=method), delta, rtol=1e-10, atol=1e-15
            )
        divergence = np.log(np.sum(one**3.5 * other**-2.5)) / 2.5
        assert made.rdp(3.5, direction=way) == pytest.approx(divergence)
    low, high = (made.advantage(method=m) for m in ("lower", "upper"))
    assert low == high == pytest.approx(np.abs(p - q).sum() / 2)


def test_agrees_with_the_functions():
    made = SampledMask(0.6, second=0.45, count=30)
    assert made.epsilon(1e-4) == pytest.approx(
        float(mask_epsilon(1e-4, first=0.6, second=0.45, count=30))
    )
    setting = {"first": 0.45, "second": 0.6, "count": 30}
    np.testing.assert_allclose(made.delta(EPSILON, direction="add"), mask_delta(EPSILON, **setting))
    distance = np.sqrt(30) * abs(np.log(0.6 / 0.4) - np.log(0.45 / 0.55))
    assert made.rdp(4.0) <= binary_upload_rdp(4.0, distance)


@pytest.mark.parametrize("rounds", [2, 9])
def test_rounds_are_more_coordinates(rounds):
    run = compose(SampledMask(0.55, second=0.45, count=4), rounds)
    exact = SampledMask(0.55, second=0.45, count=4 * rounds)
    low, high = (run.delta(EPSILON, method=m) for m in ("lower", "upper"))
    truth = exact.delta(EPSILON)
    assert np.all(low <= truth * (1 + 1e-12)) and np.all(truth <= high * (1 + 1e-12) + 1e-15)
    np.testing.assert_allclose(low, high, rtol=0.02, atol=1e-5)
    alpha = np.linspace(0.01, 0.99, 33)
    best, worst = (run.tradeoff(alpha, method=m) for m in ("upper", "lower"))
    assert np.all(best <= exact.tradeoff(alpha, method="lower") + 1e-12)
    assert np.all(exact.tradeoff(alpha) <= worst + 1e-12)


def test_limits():
    same = SampledMask(0.3, second=0.3, count=9)
    assert same.epsilon(1e-6) == 0 and same.tpr_at_fpr(0.2) == pytest.approx(0.2)
    loud = SampledMask(0.99, second=0.01, count=200)
    for method in ("lower", "upper"):
        assert loud.tpr_at_fpr(1e-9, method=method) == pytest.approx(1, abs=1e-9)
        assert compose(loud, 2).tpr_at_fpr(1e-9, method=method) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name, value", [("first", 0.0), ("second", 1.0), ("first", np.nan)])
def test_bad_probability(name, value):
    fields = {"first": 0.3, "second": 0.4} | {name: value}
    with pytest.raises(ValueError, match=rf"{name} must be in \(0, 1\), got {value}"):
        SampledMask(fields["first"], second=fields["second"], count=3)


def test_bad_count_arrays_and_method():
    with pytest.raises(ValueError, match="count must be an integer >= 1, got 0"):
        SampledMask(0.3, second=0.4, count=0)
    with pytest.raises(ValueError, match="SampledMask needs scalar fields"):
        SampledMask([0.3, 0.4], second=0.4, count=3)
    with pytest.raises(ValueError, match="method must be 'upper' or 'lower' for SampledMask"):
        SampledMask(0.3, second=0.4, count=3).delta(1.0, method="paper")
