"""The smallest noise for a target of risk."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from repro.accounting import GaussianMechanism, PoissonGaussian, calibrate_sigma, compose


def test_targets_of_risk_in_closed_form():
    sigma = calibrate_sigma(GaussianMechanism, advantage=0.3)
    assert sigma == pytest.approx(1 / (2 * norm.ppf(0.65)), rel=1e-6)
    sigma = calibrate_sigma(GaussianMechanism, fpr=0.01, tpr=0.2)
    assert sigma == pytest.approx(1 / (norm.isf(0.01) - norm.isf(0.2)), rel=1e-6)


@pytest.mark.parametrize("target", [{"advantage": 0.1}, {"fpr": 0.05, "tpr": 0.1}])
def test_the_target_is_met_and_hardly_more(target):
    def run(sigma):
        return compose(PoissonGaussian(sigma, rate=0.05), 20)

    def reached(made, method):
        if "tpr" in target:
            return made.tpr_at_fpr(target["fpr"], method=method)
        return made.advantage(method=method)

    goal = target.get("tpr", target.get("advantage"))
    sigma = calibrate_sigma(run, **target, rtol=1e-4)
    assert goal * (1 - 1e-3) <= reached(run(sigma), "upper") <= goal
    lower = calibrate_sigma(run, **target, method="lower", rtol=1e-4)
    assert lower <= sigma * (1 + 1e-4)
    assert reached(run(lower * 0.99), "lower") > goal
    guessed = calibrate_sigma(run, **target, rtol=1e-4, guess=2.0)
    assert guessed == pytest.approx(sigma, rel=2e-4)


def test_one_target_in_three_forms():
    """Gaussian noise for an epsilon and delta has an advantage and a true-positive rate that lead back to it."""
    sigma = calibrate_sigma(GaussianMechanism, epsilon=1.0, delta=1e-5)
    made = GaussianMechanism(sigma)
    assert calibrate_sigma(GaussianMechanism, advantage=made.advantage()) == pytest.approx(sigma)
    tpr = made.tpr_at_fpr(0.1)
    assert calibrate_sigma(GaussianMechanism, fpr=0.1, tpr=tpr) == pytest.approx(sigma)


@pytest.mark.parametrize(
    "target, message",
    [
        ({}, "targets must be epsilon and delta or fpr and tpr or advantage, got none"),
        ({"epsilon": 1.0}, "targets must be .*, got epsilon"),
        ({"tpr": 0.2}, "targets must be .*, got tpr"),
        ({"advantage": 0.2, "fpr": 0.1}, "targets must be .*, got fpr, advantage"),
        ({"epsilon": 1.0, "delta": 1e-5, "advantage": 0.1}, "got epsilon, delta, advantage"),
        ({"advantage": 1.0}, r"advantage must be in \(0, 1\), got 1.0"),
        ({"advantage": np.nan}, r"advantage must be in \(0, 1\), got nan"),
        ({"fpr": 0.0, "tpr": 0.2}, r"fpr must be in \(0, 1\), got 0.0"),
        ({"fpr": 0.2, "tpr": 0.2}, r"tpr must be above fpr = 0.2, got 0.2"),
        ({"fpr": 0.1, "tpr": "0.2"}, r"tpr must be in \(0, 1\), got '0.2'"),
    ],
)
def test_bad_targets(target, message):
    with pytest.raises(ValueError, match=message):
        calibrate_sigma(GaussianMechanism, **target)


def test_targets_out_of_reach():
    with pytest.raises(ValueError, match="bounds must reach a sigma that meets the target"):
        calibrate_sigma(GaussianMechanism, advantage=1e-9)
    with pytest.raises(ValueError, match="meets advantage=0.4 already at sigma=0.01"):
        calibrate_sigma(lambda sigma: PoissonGaussian(sigma, rate=0.3), advantage=0.4)
