"""Calibration of compositions: rough losses first, the fine ones decide."""

from __future__ import annotations

import numpy as np
import pytest

from repro.accounting import GaussianMechanism, PoissonGaussian, calibrate_sigma, compose
from repro.accounting.composition import Composition

RATE, ROUNDS, RTOL = 0.05, 300, 1e-6


def sampled(sigma):
    return compose(PoissonGaussian(sigma, rate=RATE), ROUNDS)


@pytest.mark.parametrize("method", ["upper", "lower"])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_the_target_is_met_at_the_answer_and_missed_just_below(method, epsilon):
    sigma = calibrate_sigma(sampled, epsilon=epsilon, delta=1e-5, method=method, rtol=RTOL)
    assert sampled(sigma).delta(epsilon, method=method) <= 1e-5
    assert sampled(sigma * (1 - 2 * RTOL)).delta(epsilon, method=method) > 1e-5


def test_composed_gaussians_have_a_closed_form():
    def run(sigma):
        return compose(GaussianMechanism(sigma), 100)

    once = calibrate_sigma(GaussianMechanism, epsilon=1, delta=1e-6)
    assert calibrate_sigma(run, epsilon=1, delta=1e-6) == pytest.approx(10 * once, rel=1e-5)


def test_few_fine_compositions_are_asked(monkeypatch):
    asked = []
    delta = Composition.delta

    def counted(self, *arguments, **options):
        asked.append(self.coarser)
        return delta(self, *arguments, **options)

    monkeypatch.setattr(Composition, "delta", counted)
    calibrate_sigma(sampled, epsilon=1, delta=1e-5)
    assert asked.count(1) <= 7 < asked.count(16)


def test_rough_bounds_are_bounds():
    epsilon = np.array([0.1, 0.5, 1.0])
    fine, rough = sampled(1.0), sampled(1.0).rough()
    assert np.all(rough.delta(epsilon) >= fine.delta(epsilon, method="lower"))
    assert np.all(rough.delta(epsilon, method="lower") <= fine.delta(epsilon))
    joint = compose([PoissonGaussian(1.0, rate=RATE), GaussianMechanism(20.0)], 10)
    assert joint.rough().delta(0.5) == pytest.approx(joint.delta(0.5), rel=1e-2)


def test_an_end_that_misses_the_target_is_named():
    with pytest.raises(ValueError, match="bounds must reach"):
        calibrate_sigma(sampled, epsilon=1, delta=1e-5, bounds=(0.1, 0.5))
    with pytest.raises(ValueError, match="bounds must start below"):
        calibrate_sigma(sampled, epsilon=1, delta=1e-5, bounds=(20, 50))


def test_progress_names_every_noise_that_is_tried():
    tried = []
    found = calibrate_sigma(
        lambda sigma: compose(PoissonGaussian(sigma, rate=0.1), 30),
        epsilon=1.0,
        delta=1e-5,
        rtol=1e-3,
        progress=tried.append,
    )
    assert len(tried) >= 3 and min(tried) <= found <= max(tried)
