"""The guarantees of ddpsa against quadrature, enumeration, simulation and dp-accounting."""

from __future__ import annotations

from itertools import product

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
from repro.accounting.ddpsa.printed import (
    element_bytes,
    link_bytes,
    parameter_server_shares,
    uploaded,
)
from repro.accounting.ddpsa.shares import LaplaceShares, share_noise
from repro.accounting.laplace import SummedLaplace
from reproduce.papers.ddpsa.second_routes import (
    client_shares,
    mutual_information,
    server_sums,
    split_ratio,
    two_scales_delta,
    view_loss,
)

pures = st.floats(0.01, 8.0)
counts = st.integers(1, 12)


# --- sums of Laplace variables -------------------------------------------------------------------


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


# --- composition theorems ------------------------------------------------------------------------


def test_worked_example_of_the_paper():
    assert theory.advanced_epsilon(0.1, 1000, slack=1e-4) == pytest.approx(24.09, abs=0.005)
    assert theory.total_epsilon(0.1, 1000, method="basic") == pytest.approx(100)


@settings(deadline=None, max_examples=20)
@given(st.floats(0.05, 2.0), st.integers(1, 5), st.floats(0.0, 1.0))
def test_optimal_composition_is_that_of_randomised_response(epsilon, rounds, share):
    """All 2^T answers enumerated under both bits."""
    total = share * rounds * epsilon
    lie = 1 / (1 + np.exp(epsilon))
    answers = np.array(list(product((0, 1), repeat=rounds)))
    first = np.where(answers == 1, 1 - lie, lie).prod(1)
    second = np.where(answers == 1, lie, 1 - lie).prod(1)
    expected = np.maximum(first - np.exp(total) * second, 0).sum()
    assert theory.optimal_delta(total, epsilon, rounds) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=8)
@given(st.floats(0.02, 0.8), st.integers(1, 100), st.sampled_from([1e-7, 1e-5, 1e-2]))
def test_order_of_the_four_totals(epsilon, rounds, delta):
    totals = [
        theory.total_epsilon(epsilon, rounds, delta=delta, method=method)
        for method in ("exact", "optimal", "advanced", "basic")
    ]
    assert totals[0] <= totals[1] * (1 + 1e-3) + 1e-9
    assert totals[1] <= min(totals[2:]) * (1 + 1e-9)
    if totals[1]:
        assert theory.optimal_delta(totals[1], epsilon, rounds) <= delta * (1 + 1e-6)


@given(st.floats(0.1, 50), st.integers(1, 400), st.floats(0.5, 0.999))
def test_budgets_add_up(total, rounds, decay):
    adaptive = theory.adaptive_budget(total, rounds, decay=decay)
    assert adaptive.sum() == pytest.approx(total)
    assert adaptive[1:] == pytest.approx(decay * adaptive[:-1])


# --- the mechanism -------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_a_record_moves_the_clipped_sum_by_at_most_the_clip(seed, clip):
    gradients = np.random.default_rng(seed).standard_cauchy((30, 4))
    clipped = theory.clip_l1(gradients, clip)
    norms = np.abs(clipped).sum(1)
    assert np.all(norms <= clip * (1 + 1e-12))
    small = np.abs(gradients).sum(1) <= clip
    assert np.array_equal(clipped[small], gradients[small])


def test_sensitivities_are_attained():
    scale = theory.laplace_scale(0.1, clip=2.0)
    assert scale == pytest.approx(20.0)
    pairs = {
        "add or remove": [[5.0, 0.0]],
        "replace": [[5.0, 0.0], [5.0, 0.0]],
        "client": [[5.0, 0.0]] * 6,
    }
    for relation, rows in pairs.items():
        moved = np.abs(theory.clip_l1(np.array(rows), 2.0)).sum()
        epsilon = theory.per_round_epsilon(scale, clip=2.0, relation=relation, records=3)
        assert epsilon == pytest.approx(moved / scale)


@settings(deadline=None, max_examples=25)
@given(st.floats(-4, 4), st.floats(0.3, 3), st.floats(0.3, 3), st.floats(0, 3))
def test_two_scales_by_summation(shift, scale, other, epsilon):
    x = np.linspace(-60, 60, 120_001)
    first = np.exp(-np.abs(x - shift) / scale) / (2 * scale)
    second = np.exp(-np.abs(x) / other) / (2 * other)
    expected = np.maximum(first - np.exp(epsilon) * second, 0).sum() * (x[1] - x[0])
    delta = two_scales_delta(epsilon, shift=shift, scale=scale, other=other)
    assert delta == pytest.approx(expected, abs=3e-3)


def test_a_data_dependent_median_has_no_finite_epsilon():
    norms = [
        np.array([[1.0], [1], [1], [1e6], [1e6], [1e6]]),
        np.array([[1.0], [1], [1], [1e6], [1e6]]),
    ]
    clips = [theory.median_norm(g) for g in norms]
    assert clips == [500_000.5, 1.0]
    assert two_scales_delta(20.0, shift=0.0, scale=clips[0], other=clips[1]) > 0.99
    assert two_scales_delta(0.2, shift=1.0, scale=10.0, other=10.0) == 0.0


def test_splitting_a_move_does_not_help():
    inside = np.linspace(0, 0.5, 5)
    assert split_ratio(inside, pure=1.0, clients=1, pieces=24) < 1.01
    coarse, fine = (split_ratio(inside, pure=1.0, clients=3, pieces=k) for k in (12, 24))
    assert 1 <= fine and (fine - 1) < 0.35 * (coarse - 1)


def test_noise_of_the_average_grows_with_the_clients():
    rng = np.random.default_rng(1)
    for clients in (2, 6):
        noise = rng.laplace(scale=5.0, size=(40_000, clients)) / (600 / clients)
        expected = theory.noise_deviation(5.0, clients=clients, records=600)
        assert noise.mean(1).std() == pytest.approx(expected, rel=0.02)


def test_scale_for_a_target_of_the_sum_meets_it():
    scale = theory.matching_scale(4, epsilon=0.5, delta=1e-5)
    assert SummedLaplace(scale, clients=4).delta(0.5) <= 1e-5
    assert SummedLaplace(scale * 0.999, clients=4).delta(0.5) > 1e-5


# --- noise in shares -----------------------------------------------------------------------------


def test_all_shares_make_the_discrete_laplace_law():
    for planned in (1, 5):
        mechanism = LaplaceShares(8.0, honest=planned, planned=planned, sensitivity=3)
        k = np.arange(-60, 61)
        expected = np.tanh(1 / 16) * np.exp(-np.abs(k) / 8)
        middle = mechanism._noise.size // 2
        assert mechanism._noise[middle - 60 : middle + 61] == pytest.approx(expected, rel=1e-10)
        assert mechanism.delta(3 / 8, method="lower") < 1e-14
        assert mechanism.delta(0.3) > 1e-3
    draws = sum(
        share_noise(8.0, 200_000, planned=5, generator=np.random.default_rng(k)) for k in range(5)
    )
    assert draws.std() == pytest.approx(mechanism.standard_deviation, rel=0.01)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 5), st.floats(0, 1.5))
def test_shares_against_plain_summation(honest, planned, sensitivity, epsilon):
    mechanism = LaplaceShares(4.0, honest=honest, planned=planned, sensitivity=sensitivity)
    first, second = mechanism._pair
    expected = np.maximum(first - np.exp(epsilon) * second, 0).sum()
    low, high = (mechanism.delta(epsilon, method=m) for m in ("lower", "upper"))
    assert low - 1e-13 <= expected <= high + 1e-13
    assert high - low <= 1e-17


def test_missing_shares_cost():
    kinds = [LaplaceShares(50.0, honest=h, planned=10, sensitivity=5) for h in (10, 9, 5, 1)]
    epsilons = [kind.epsilon(1e-5) for kind in kinds]
    assert epsilons == sorted(epsilons) and epsilons[1] > 1.3 * epsilons[0]
    repaired = LaplaceShares(50.0, honest=9, planned=9, sensitivity=5).epsilon(1e-5)
    assert repaired == pytest.approx(epsilons[0], rel=1e-9)
    run = compose(kinds[1], 20)
    assert run.epsilon(1e-5, method="lower") <= run.epsilon(1e-5)
    assert kinds[2].rdp(2.0) > kinds[0].rdp(2.0) > 0


# --- shares --------------------------------------------------------------------------------------


def test_strict_subsets_tell_nothing_and_the_literal_reading_does():
    views = [client_shares(s, modulus=5, servers=3, reading="reduced") for s in range(5)]
    for seen in ([0], [2], [0, 1], [1, 2]):
        assert mutual_information([v[:, seen] for v in views]) < 1e-12
    assert mutual_information(views) == pytest.approx(np.log2(5))
    literal = [client_shares(s, modulus=5, servers=3, reading="literal") for s in range(5)]
    assert mutual_information([v[:, [2]] for v in literal]) > 0.5
    assert all(np.all(v.sum(1) % 5 == s) for s, v in enumerate(literal))


def test_unreduced_sums_tell_more_than_the_sum():
    secrets = list(product(range(3), repeat=2))
    told = [
        mutual_information([server_sums(s, modulus=3, servers=2, reduced=r) for s in secrets])
        for r in (True, False)
    ]
    assert told[0] == pytest.approx(np.log2(3))
    assert told[1] > told[0] + 0.01


def test_views_never_lose_more_than_the_client_spends():
    law = np.array([0.4, 0.3, 0.2, 0.1])
    laws, other = np.array([law, np.roll(law, 1)]), np.full(4, 0.25)
    spent = np.log(np.max(laws[0] / laws[1]))
    assert view_loss(laws, law, servers=2, seen=(0,), total=False) < 1e-12
    assert view_loss(laws, law, servers=2, seen=(0, 1), total=True) == pytest.approx(spent)
    assert view_loss(laws, other, servers=2, seen=(0,), total=True) < 1e-12
    assert 0 < view_loss(laws, law, servers=2, seen=(), total=True) < spent


# --- encoding and costs --------------------------------------------------------------------------


def test_ranges_and_errors_of_the_encoding():
    assert theory.quantisation_error(10) == pytest.approx(5e-11)
    assert theory.quantisation_error(10, clients=6) == pytest.approx(3e-10)
    assert theory.quantisation_error(10, clients=6, average=True) == pytest.approx(5e-11)
    # Two clients at the limit still decode; one unit more each wraps.
    modulus, decimals = 101, 1
    limit = theory.representable(modulus, decimals=decimals, clients=2)
    units = round(limit * 10**decimals)
    for extra, right in ((0, True), (1, False)):
        total = 2 * (units + extra)
        centred = (total % modulus + modulus // 2) % modulus - modulus // 2
        assert (centred == total) is right
    assert element_bytes(0.2, decimals=10) == 4
    assert element_bytes(0.2, decimals=10, clients=2) == 5


def test_costs_of_table_3_and_figure_4():
    names = ("No-Private", "LDP", "MPC", "DDP-SA")
    assert [uploaded(m, dimension=3, servers=3) for m in names] == [3, 3, 9, 9]
    sent = link_bytes("DDP-SA", dimension=3, servers=3)
    assert sent == {"PS to clients": 12, "clients to servers": 36, "servers to PS": 36}
    assert parameter_server_shares(sent) == {"PS to clients": 25.0, "servers to PS": 75.0}
    two = parameter_server_shares(link_bytes("MPC", dimension=3, servers=3, clients=2))
    assert two["servers to PS"] == pytest.approx(60.0)
    assert parameter_server_shares(link_bytes("LDP", dimension=3, servers=3))["clients to PS"] == 50


def test_reconstruction_needs_all_servers():
    assert theory.reconstruction_probability(0.1, 3) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: SummedLaplace(0.0), "scale"),
        (lambda: SummedLaplace(1.0, clients=0), "clients"),
        (lambda: SummedLaplace(1.0, sensitivity=-1.0), "sensitivity"),
        (lambda: LaplaceShares(1e9, honest=1, planned=1), "scale"),
        (lambda: LaplaceShares([1.0, 2.0], honest=1, planned=1), "scale"),
        (lambda: LaplaceShares(1.0, honest=0, planned=1), "honest"),
        (lambda: theory.total_epsilon(0.1, 10, method="advanced"), "delta"),
        (lambda: theory.total_epsilon(0.1, 10, method="best"), "method"),
        (lambda: theory.per_round_epsilon(1.0, clip=1.0, relation="swap"), "relation"),
        (lambda: theory.median_norm(np.zeros((3, 2))), "median"),
        (lambda: theory.adaptive_budget(1.0, 3, decay=1.0), "decay"),
        (lambda: theory.reconstruction_probability(1.5, 3), "compromised"),
        (lambda: link_bytes("FedAvg", dimension=3, servers=3), "mechanism"),
        (lambda: client_shares(5, modulus=5, servers=3, reading="reduced"), "secret"),
        (lambda: element_bytes(0.0, decimals=10), "limit"),
    ],
)
def test_bad_input_is_one_clear_error(call, name):
    with pytest.raises(ValueError, match=name):
        call()
