"""Sums of Laplace variables against quadrature, simulation and dp-accounting."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from repro.accounting import GaussianMechanism, compose
from repro.accounting._laplace_sums import log_density, log_tail, loss, loss_point
from repro.accounting.ddpsa import printed as theory
from repro.accounting.laplace import SummedLaplace

pures = st.floats(0.01, 8.0)
counts = st.integers(1, 12)


@pytest.mark.parametrize("count", [2, 5])
def test_density_and_tail_follow_from_the_characteristic_function(count):
    """The law is determined by (1 + t^2)^-n; inverted here by quadrature."""
    for x in (0.0, 0.4, 3.0):
        value = quad(lambda t: (1 + t * t) ** -count, 0, np.inf)[0]
        if x:
            value = quad(lambda t: (1 + t * t) ** -count, 0, np.inf, weight="cos", wvar=x)[0]
        assert np.exp(log_density(x, count)) == pytest.approx(value / np.pi, rel=1e-7)
        tail = quad(lambda t: np.exp(log_density(t, count)), x, np.inf, epsrel=1e-11)[0]
        assert np.exp(log_tail(x, count)) == pytest.approx(tail, rel=1e-9)
    assert np.exp(log_tail(-1.0, count)) + np.exp(log_tail(1.0, count)) == pytest.approx(1)


@settings(deadline=None, max_examples=25)
@given(pures, counts, st.floats(0.0, 0.999))
def test_closed_form_is_the_largest_value_over_half_lines(pure, count, share):
    epsilon = share * pure
    delta = SummedLaplace(1.0, clients=count, sensitivity=pure).delta(epsilon)
    x = np.linspace(-30, 30 + pure, 4001)
    events = np.exp(log_tail(x - pure, count)) - np.exp(epsilon + log_tail(x, count))
    assert events.max() <= delta * (1 + 1e-9) + 1e-15
    assert delta <= events.max() + 1e-3


@settings(deadline=None, max_examples=25)
@given(pures, counts)
def test_pure_epsilon_is_the_same_for_every_number_of_clients(pure, count):
    mechanism = SummedLaplace(1.0, clients=count, sensitivity=pure)
    assert mechanism.delta(pure) == 0.0
    near = 0.9 * pure
    assert mechanism.delta(near) > 0 or log_tail(loss_point(near, pure, count), count) < -700


@settings(deadline=None, max_examples=25)
@given(pures, counts)
def test_one_more_client_never_hurts_and_the_paper_is_never_below(pure, count):
    epsilon = pure * np.linspace(0, 0.99, 9)
    more, fewer = (
        SummedLaplace(1.0, clients=n, sensitivity=pure).delta(epsilon) for n in (count + 1, count)
    )
    assert np.all(more <= fewer * (1 + 1e-12))
    printed = SummedLaplace(1.0, clients=count, sensitivity=pure).delta(epsilon, method="paper")
    assert np.all(fewer <= printed * (1 + 1e-12))


def test_one_client_is_the_laplace_mechanism():
    epsilon = np.linspace(0, 0.5, 6)
    mechanism = SummedLaplace(2.0)
    assert mechanism.delta(epsilon) == pytest.approx(-np.expm1((epsilon - 0.5) / 2), rel=1e-12)
    reference = pld_lib.from_laplace_mechanism(2.0, value_discretization_interval=1e-4)
    assert mechanism.delta(0.2) == pytest.approx(reference.get_delta_for_epsilon(0.2), rel=1e-4)
    alpha = np.array([1.5, 2.0, 8.0])
    moment = alpha * np.exp((alpha - 1) / 2) + (alpha - 1) * np.exp(-alpha / 2)
    assert mechanism.rdp(alpha) == pytest.approx(np.log(moment / (2 * alpha - 1)) / (alpha - 1))


def test_many_clients_are_nearly_gaussian():
    summed = SummedLaplace(1.0, clients=400, sensitivity=3.0)
    gaussian = GaussianMechanism(np.sqrt(800), sensitivity=3.0)
    epsilon = np.array([0.0, 0.05, 0.1])
    assert summed.delta(epsilon) == pytest.approx(gaussian.delta(epsilon), rel=0.01)


@pytest.mark.parametrize("count", [2, 5])
def test_renyi_divergence_by_quadrature(count):
    mechanism = SummedLaplace(1.0, clients=count, sensitivity=1.5)

    def term(x):
        x = float(x)
        return mp.e ** (3 * log_density(x - 1.5, count) - 2 * log_density(x, count))

    expected = mp.log(mp.quad(term, [-60, -10, 0, 0.75, 1.5, 5, 15, 70])) / 2
    assert mechanism.rdp(3.0) == pytest.approx(float(expected), rel=1e-8)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_composition_brackets_the_truth(count):
    mechanism = SummedLaplace(1.0, clients=count, sensitivity=0.3)
    run = compose(mechanism, 40)
    low, high = (run.epsilon(1e-5, method=m) for m in ("lower", "upper"))
    assert low <= high <= low + 0.03
    # A second route that knows no discretisation: losses of sampled outputs, added up.
    rng = np.random.default_rng(count)
    total = np.zeros(100_000)
    for _ in range(40):
        total += loss(0.3 + rng.laplace(size=(100_000, count)).sum(1), 0.3, count)
    epsilon = 0.3 * low
    sampled = np.maximum(-np.expm1(epsilon - total), 0)
    error = 4 * sampled.std() / np.sqrt(sampled.size)
    assert run.delta(epsilon, method="lower") - error <= sampled.mean()
    assert sampled.mean() <= run.delta(epsilon) + error


def test_composed_laplace_agrees_with_dp_accounting():
    reference = pld_lib.from_laplace_mechanism(10.0, value_discretization_interval=1e-4)
    expected = reference.self_compose(1218).get_epsilon_for_delta(1e-5)
    assert theory.total_epsilon(0.1, 1218, delta=1e-5) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("pure", [3e4, 5e7, 1e12])
def test_many_clients_with_next_to_no_noise_hide_nothing_at_tiny_epsilons(pure):
    """Delta was 7e-29 or 1/2: by rounding the search for the worst output had no sign change, and took the far end."""
    count, epsilon = 10_000, np.array([0.0, 1e-12, 1e-9, 1e-6, 0.01, 8.0])
    mechanism = SummedLaplace(1.0, clients=count, sensitivity=pure)
    delta = [mechanism.delta(e) for e in epsilon]
    # Either side of pure / 2 is an event; by Chebyshev's inequality the wrong one is as rare as this.
    rare = 2 * count / (pure / 2) ** 2
    assert np.all(delta >= 1 - (1 + np.exp(epsilon)) * rare)
    assert np.all(np.diff(delta) <= 1e-15)


@pytest.mark.parametrize("count", [2, 10, 100])
def test_a_tiny_shift_by_exact_sums(count):
    """The two tails cancelled: with 100 clients five digits were left."""
    with mp.workdps(50):
        shift, epsilon = mp.mpf(1e-9), mp.mpf(1e-13)
        rate = [mp.binomial(count - 1 + k, k) / mp.mpf(2) ** (count + k) for k in range(count)]
        density = [rate[count - 1 - j] / mp.factorial(j) for j in range(count)][::-1]
        tail = [sum(rate[: count - j]) / mp.factorial(j) for j in range(count)][::-1]
        outer = lambda c, x: mp.polyval(c, abs(x)) * mp.exp(-abs(x))  # noqa: E731
        log_ratio = lambda x: mp.log(outer(density, x - shift) / outer(density, x))  # noqa: E731
        x = mp.findroot(lambda x: log_ratio(x) - epsilon, (shift / 2, 3 * count), solver="anderson")
        above = lambda x: outer(tail, x) if x >= 0 else 1 - outer(tail, x)  # noqa: E731
        expected = above(x - shift) - mp.exp(epsilon) * above(x)
    mechanism = SummedLaplace(1.0, clients=count, sensitivity=1e-9)
    assert mechanism.delta(1e-13) == pytest.approx(float(expected), rel=1e-9, abs=0)


def test_delta_of_a_tiny_shift_falls_as_it_must():
    """It rose by 3e-12, the rounding of two tails. At loss 0 its slope is minus the chance of half of all outputs."""
    at_0, later = SummedLaplace(1.0, clients=10_000, sensitivity=1e-6).delta([0.0, 1e-12])
    assert at_0 == pytest.approx(1e-6 * np.exp(log_density(0.0, 10_000)), rel=1e-9)
    assert at_0 - later == pytest.approx(0.5e-12, rel=1e-3)
