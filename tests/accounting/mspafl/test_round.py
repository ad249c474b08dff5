"""One round of averaged uploads: exact where it says so, a bracket elsewhere, and never negative."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import GaussianMechanism, PoissonGaussian, WeakClientSampling, compose
from repro.accounting.mspafl.round import AveragedUploads
from reproduce.papers.mspafl.second_routes import averaged_round, normals_divergence, search_rounds

RATES = st.floats(0.01, 1.0)


def test_everybody_there_and_everything_used_is_a_gaussian():
    epsilon = np.array([0.0, 0.3, 1.0])
    for method in ("upper", "lower"):
        alone = AveragedUploads(3.0, p=1.0).delta(epsilon, method=method)
        assert alone == pytest.approx(GaussianMechanism(3.0, sensitivity=2.0).delta(epsilon))
    many = AveragedUploads(3.0, p=1.0, clients=16, clip=0.5).delta(epsilon)
    assert many == pytest.approx(GaussianMechanism(12.0).delta(epsilon))


def test_one_client_is_the_sampled_gaussian_in_its_worse_direction():
    epsilon = np.array([0.05, 0.4])
    got = AveragedUploads(2.0, p=1.0, q=0.2).delta(epsilon)
    assert got == pytest.approx(PoissonGaussian(2.0, rate=0.2, sensitivity=2.0).delta(epsilon))
    seen = AveragedUploads(2.0, p=0.3, q=0.2).delta(epsilon)
    assert seen == pytest.approx(0.3 * got)


def test_nothing_leaks_where_nothing_is_sent():
    for gone in (dict(p=0.0), dict(p=0.5, q=0.0)):
        assert AveragedUploads(1.0, clients=5, **gone).delta(0.0) < 1e-29
        assert AveragedUploads(1.0, clients=5, **gone).delta(0.0, method="lower") == 0


@settings(deadline=None, max_examples=40)
@given(
    p=RATES, q=RATES, clients=st.integers(1, 60), sigma=st.floats(0.5, 20), epsilon=st.floats(0, 1)
)
def test_lower_below_upper_below_known_participants(p, q, clients, sigma, epsilon):
    mechanism = AveragedUploads(sigma, p=p, q=q, clients=clients)
    low, high = mechanism.delta(epsilon, method="lower"), mechanism.delta(epsilon)
    known = AveragedUploads(sigma, p=p, q=q, clients=clients, participants_known=True).delta(
        epsilon
    )
    assert 0 <= low <= high * (1 + 1e-9) + 1e-15
    assert high <= known * (1 + 1e-9) + 1e-15
    assert known <= 1


@settings(deadline=None, max_examples=40)
@given(
    p=st.floats(0.01, 0.9),
    q=st.floats(0.01, 0.9),
    by=st.floats(0.01, 0.1),
    clients=st.integers(1, 40),
)
def test_monotone_in_sampling_noise_and_epsilon(p, q, by, clients):
    at = AveragedUploads(3.0, p=p, q=q, clients=clients).delta(0.05)
    assert AveragedUploads(3.0, p=p, q=q + by, clients=clients).delta(0.05) >= at
    assert AveragedUploads(3.0 + by, p=p, q=q, clients=clients).delta(0.05) <= at
    assert AveragedUploads(3.0, p=p, q=q, clients=clients).delta(0.05 + by) <= at


@pytest.mark.parametrize(("clients", "p", "q"), [(2, 0.5, 0.4), (3, 0.3, 1.0), (4, 0.8, 0.2)])
def test_explicit_pair_against_enumerated_check_ins(clients, p, q):
    """The lower bound is the divergence of the pair it describes, integrated on another grid."""
    sigma, alpha = 2.0, np.exp(0.1)
    silent = averaged_round(-np.ones((clients, 1)), np.full(clients, p), sigma)
    uploads = np.append(-np.ones(clients), 1.0)[:, None]
    speaking = averaged_round(uploads, np.full(clients, p), sigma, q)
    found = max(
        normals_divergence(speaking, silent, alpha, 20_001),
        normals_divergence(silent, speaking, alpha, 20_001),
    )
    low = AveragedUploads(sigma, p=p, q=q, clients=clients).delta(0.1, method="lower")
    assert low == pytest.approx(found, rel=2e-3)
    assert low <= found * (1 + 1e-6)


@pytest.mark.parametrize(("clients", "p", "q"), [(1, 0.5, 0.3), (2, 0.4, 0.6), (3, 0.7, 1.0)])
def test_search_stays_below_the_bound(clients, p, q):
    for epsilon in (0.02, 0.4):
        found = search_rounds(
            clients=clients, p=p, q=q, sigma=1.5, epsilon=epsilon, trials=8, seed=1
        )
        assert found <= AveragedUploads(1.5, p=p, q=q, clients=clients).delta(epsilon) * (1 + 1e-3)


def test_bound_by_a_sum_over_participants():
    """The formula of the module, term by term, without its code."""
    from scipy.stats import binom

    sigma, p, q, n, epsilon = 4.0, 0.35, 0.25, 12, 0.03
    total = 0.0
    for k in range(1, n + 1):
        rate = q * k / n
        inner = np.log1p(np.expm1(epsilon) / rate)
        gauss = GaussianMechanism(sigma * np.sqrt(k), sensitivity=2.0).delta(inner)
        total += binom.pmf(k, n, p) * rate * gauss
    assert AveragedUploads(sigma, p=p, q=q, clients=n).delta(epsilon) == pytest.approx(total)


def test_renyi_divergence_at_its_limits():
    alpha = np.array([2.0, 4.0, 32.0])
    plain = AveragedUploads(6.0, p=1.0).rdp(alpha)
    assert plain == pytest.approx(GaussianMechanism(6.0, sensitivity=2.0).rdp(alpha), rel=1e-5)
    sampled = AveragedUploads(6.0, p=1.0, q=0.1).rdp(alpha)
    assert np.all(
        sampled >= PoissonGaussian(6.0, rate=0.1, sensitivity=2.0).rdp(alpha) * (1 - 1e-6)
    )
    assert np.all(sampled <= plain)


def test_composition_between_its_ends():
    mechanism = AveragedUploads(5.0, p=0.5, q=0.3, clients=20)
    run = compose(mechanism, 50)
    low, high = run.epsilon(1e-5, method="lower"), run.epsilon(1e-5)
    assert mechanism.epsilon(1e-5) < low < high
    assert high < 1.25 * low
    known = compose(AveragedUploads(5.0, p=0.5, clients=20, participants_known=True), 50)
    assert high < known.epsilon(1e-5)


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.2), (0.5, 0.5)])
def test_uploads_that_are_seen_compose_as_rounds_of_a_client_that_is_seen(p, q):
    """For one client by another class; with two, by cells, which used to lose up to 4 % over the rounds."""
    one = compose(AveragedUploads(6.0, p=p, q=q), 300)
    seen = compose(WeakClientSampling(6.0, p=p, q=q, clip=2.0), 300)
    epsilon = one.epsilon(1e-4, method="lower")
    assert epsilon == pytest.approx(seen.epsilon(1e-4, method="lower"), rel=1e-3)
    assert epsilon <= one.epsilon(1e-4)
    known = AveragedUploads(6.0, p=p, q=q, clients=2, participants_known=True)
    alone, together = (
        PoissonGaussian(6.0, rate=q, sensitivity=2 / np.sqrt(k)).losses("lower", 1e-4)
        for k in (1, 2)
    )
    there = alone.compute_mixture(together, 1 - p)
    nothing = pld_lib.identity(1e-4, pessimistic_estimate=False)
    exact = there.compute_mixture(nothing, p).self_compose(300).get_epsilon_for_delta(1e-4)
    found = compose(known, 300).epsilon(1e-4, method="lower")
    assert found == pytest.approx(exact, rel=5e-3)


def test_epsilon_inverts_delta_for_arrays():
    sigma = np.array([4.0, 9.0])
    mechanism = AveragedUploads(sigma, p=0.4, q=0.5, clients=10)
    for method in ("upper", "lower"):
        epsilon = mechanism.epsilon(1e-4, method=method)
        assert mechanism.delta(epsilon, method=method) == pytest.approx([1e-4, 1e-4], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(sigma=0.0, p=0.5), "sigma must be positive"),
        (dict(sigma=1.0, p=1.5), "p must be in"),
        (dict(sigma=1.0, p=0.5, q=-1.0), "q must be in"),
        (dict(sigma=1.0, p=0.5, clients=0), "clients must be an integer >= 1"),
        (dict(sigma=1.0, p=0.5, clip=0.0), "clip must be positive"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        AveragedUploads(**arguments)


def test_there_is_no_printed_formula_in_this_class():
    with pytest.raises(ValueError, match="the functions of repro.accounting.mspafl.printed"):
        AveragedUploads(1.0, p=0.5).delta(0.1, method="paper")
    with pytest.raises(ValueError, match="scalar"):
        AveragedUploads(np.ones(2), p=0.5).rdp(2.0)


@pytest.mark.parametrize(
    ("sigma", "p", "q", "clients", "epsilon"),
    [(2.8268, 0.9999953, 0.0067939, 20, 5.0), (92.597, 0.999999999998741, 0.00033976, 5, 0.4)],
)
def test_what_lies_outside_the_cells_is_no_event(sigma, p, q, clients, epsilon):
    """One minus a sum is rounding: as an event it leaked 1e-16 where nothing leaks."""
    mechanism = AveragedUploads(sigma, p=p, q=q, clients=clients)
    lower, upper = (mechanism.delta(epsilon, method=m) for m in ("lower", "upper"))
    assert lower <= upper < 1e-20
