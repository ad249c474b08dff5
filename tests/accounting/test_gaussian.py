"""Gaussian and Poisson-subsampled Gaussian: exact in both directions, down to tiny delta."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_mechanism
from hypothesis import given, settings
from hypothesis import strategies as st

import accounting_reference as reference
from repro.accounting import (
    CentralizedShuffling,
    GaussianMechanism,
    OnlyLocalSampling,
    PoissonGaussian,
    WeakClientSampling,
)

DIRECTIONS = ("remove", "add")


def gaussian_delta(epsilon, sigma):
    """Balle and Wang 2018, Theorem 8, with 50 digits."""
    with mp.workdps(50):
        e, s = mp.mpf(epsilon), mp.mpf(sigma)
        return float(mp.ncdf(1 / (2 * s) - e * s) - mp.exp(e) * mp.ncdf(-1 / (2 * s) - e * s))


@pytest.mark.parametrize("sigma", [0.05, 0.5, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 1.0, 8.0, 50.0])
def test_gaussian_against_50_digits(sigma, epsilon):
    want = gaussian_delta(epsilon, sigma)
    got = GaussianMechanism(sigma).delta(epsilon)
    assert got == pytest.approx(want, rel=2e-9, abs=1e-300)


def test_gaussian_sensitivity_only_enters_through_the_ratio():
    assert GaussianMechanism(3.0, sensitivity=2.0).delta(0.7) == pytest.approx(
        GaussianMechanism(1.5).delta(0.7), rel=1e-12
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("sigma, q", [(1.0, 0.1), (0.4, 0.5), (2.0, 0.01)])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.3, 2.0])
def test_poisson_by_quadrature_of_the_mixtures(direction, sigma, q, epsilon):
    with mp.workdps(40):
        want = float(reference.subsampled_delta(direction, epsilon, p=1, q=q, sigma=sigma))
    got = PoissonGaussian(sigma, rate=q).delta(epsilon, direction=direction)
    assert got == pytest.approx(want, rel=1e-9, abs=1e-30)


@pytest.mark.parametrize("direction, kind", [("remove", "REMOVE"), ("add", "ADD")])
@pytest.mark.parametrize("rate", [1e-4, 0.03, 1.0])
def test_poisson_agrees_with_dp_accounting(direction, kind, rate):
    loss = privacy_loss_mechanism.GaussianPrivacyLoss(
        0.8, sampling_prob=rate, adjacency_type=privacy_loss_mechanism.AdjacencyType[kind]
    )
    epsilon = np.array([0.0, 0.001, 0.01, 0.5, 3.0])
    want = [loss.get_delta_for_epsilon(e) for e in epsilon]
    got = PoissonGaussian(0.8, rate=rate).delta(epsilon, direction=direction)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-13)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_disclosed_participation_by_quadrature(direction):
    with mp.workdps(30):
        want = float(reference.subsampled_delta(direction, 0.05, p=0.2, q=0.3, sigma=0.9))
    got = WeakClientSampling(0.9, p=0.2, q=0.3).delta(0.05, direction=direction)
    assert got == pytest.approx(want, rel=1e-10)


def test_baselines_are_the_subsampled_gaussian_at_their_rate():
    e = np.geomspace(1e-3, 5, 7)
    np.testing.assert_allclose(
        OnlyLocalSampling(1.0, q=0.2).delta(e), PoissonGaussian(1.0, rate=0.2).delta(e)
    )
    shuffling = CentralizedShuffling(1.0, p=0.3, q=0.2)
    np.testing.assert_allclose(shuffling.delta(e), PoissonGaussian(1.0, rate=0.06).delta(e))
    # The corollary as printed has q in the place of p q.
    np.testing.assert_allclose(
        shuffling.delta(e, method="paper"), PoissonGaussian(1.0, rate=0.2).delta(e)
    )


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    sigma=st.floats(0.05, 1000),
    rate=st.floats(0, 1),
    epsilon=st.floats(0, 50),
    factor=st.floats(1.0, 3.0),
)
def test_poisson_is_monotone(sigma, rate, epsilon, factor):
    base = PoissonGaussian(sigma, rate=rate)
    for direction in DIRECTIONS:
        value = base.delta(epsilon, direction=direction)
        assert 0 <= value <= 1
        slack = 1e-12 + 1e-9 * value
        assert base.delta(epsilon * factor, direction=direction) <= value + slack
        assert (
            PoissonGaussian(sigma * factor, rate=rate).delta(epsilon, direction=direction)
            <= value + slack
        )
        assert (
            PoissonGaussian(sigma, rate=rate / factor).delta(epsilon, direction=direction)
            <= value + slack
        )


@settings(max_examples=30, derandomize=True, deadline=None)
@given(sigma=st.floats(0.2, 100), rate=st.floats(1e-4, 1), exponent=st.floats(-12, -1))
def test_epsilon_inverts_delta(sigma, rate, exponent):
    mechanism, delta = PoissonGaussian(sigma, rate=rate), 10.0**exponent
    epsilon = mechanism.epsilon(delta)
    assert epsilon >= 0
    assert mechanism.delta(epsilon) <= delta * (1 + 1e-14)  # exp(log(delta)) is rounded
    if epsilon > 0:
        assert mechanism.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


def test_rdp_against_its_integral():
    sigma, q, alpha = 1.3, 0.2, 3
    with mp.workdps(25):

        def ratio(z):
            x = reference.normal(z, 0, sigma)
            y = (1 - mp.mpf(q)) * x + mp.mpf(q) * reference.normal(z, 1, sigma)
            return y**alpha / x ** (alpha - 1)

        moment = mp.quad(ratio, mp.linspace(-15, 20, 15))
        want, disclosed = (float(mp.log(m) / (alpha - 1)) for m in (moment, 0.9 + 0.1 * moment))
    assert PoissonGaussian(sigma, rate=q).rdp(alpha) == pytest.approx(want, rel=1e-8)
    assert WeakClientSampling(sigma, p=0.1, q=q).rdp(alpha) == pytest.approx(disclosed, rel=1e-8)
    assert GaussianMechanism(sigma).rdp(alpha) == pytest.approx(alpha / (2 * sigma**2))
