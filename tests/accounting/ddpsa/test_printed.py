"""The guarantees and costs of ddpsa as printed, against simulation and enumeration."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from repro.accounting.ddpsa import printed as theory
from repro.accounting.ddpsa.printed import (
    element_bytes,
    link_bytes,
    parameter_server_shares,
    uploaded,
)
from repro.accounting.ddpsa.shares import LaplaceShares
from repro.accounting.laplace import SummedLaplace
from reproduce.papers.ddpsa.second_routes import (
    client_shares,
)

pures = st.floats(0.01, 8.0)
counts = st.integers(1, 12)


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


def test_the_aggregate_of_one_client_is_its_vector():
    one = theory.aggregate_epsilon(0.1, clients=1, rounds=100, delta=1e-5)
    assert one == pytest.approx(theory.total_epsilon(0.1, 100, delta=1e-5), rel=1e-6)
    found = [theory.aggregate_epsilon(0.1, clients=n, rounds=100, delta=1e-5) for n in (1, 2, 4)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("clients", [1, 2, 6])
def test_equal_scale_has_the_guarantee_of_the_clients_noise(clients):
    own = theory.aggregate_epsilon(0.1, clients=clients, rounds=60, delta=1e-5)
    scale = theory.equal_scale(0.1, clients=clients, rounds=60, delta=1e-5)
    shared = theory.aggregate_epsilon(1 / scale, clients=1, rounds=60, delta=1e-5)
    assert 0.99 * own <= shared <= own * (1 + 1e-9)


def test_after_many_rounds_fisher_information_decides():
    """A second route: two clients' noise has density (1 + |x|) exp(-|x|) / 4, one has information 1."""
    information = 2 * quad(lambda x: x**2 * math.exp(-x) / (4 * (1 + x)), 0, math.inf)[0]
    scale = theory.equal_scale(0.1, clients=2, rounds=400, delta=1e-5) * 0.1
    assert scale == pytest.approx(1 / math.sqrt(information), rel=0.03)
    assert math.sqrt(2) < scale < 2


@pytest.mark.parametrize(
    "change", [{"epsilon": 0.0}, {"clients": 0}, {"rounds": 0}, {"delta": 0.0}, {"delta": 1.0}]
)
def test_guarantees_out_of_range_are_refused(change):
    values = {"epsilon": 0.1, "clients": 2, "rounds": 10, "delta": 1e-5} | change
    epsilon = values.pop("epsilon")
    for function in (theory.aggregate_epsilon, theory.equal_scale):
        with pytest.raises(ValueError, match=next(iter(change))):
            function(epsilon, **values)


def test_a_kept_value_does_not_hide_a_wrong_type():
    """10 and 10.0 are equal and have the same hash: what is kept for one is not for the other."""
    theory.aggregate_epsilon(0.5, clients=2, rounds=10, delta=1e-5)
    with pytest.raises(ValueError, match="rounds"):
        theory.aggregate_epsilon(0.5, clients=2, rounds=10.0, delta=1e-5)
