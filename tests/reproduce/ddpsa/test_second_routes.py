"""The searches behind ddpsa's derivations, by summation and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import compose
from repro.accounting.ddpsa import printed as theory
from repro.accounting.laplace import SummedLaplace
from reproduce.papers.ddpsa.second_routes import (
    client_shares,
    curious_view,
    distinguishing,
    exposures,
    mutual_information,
    rounded_delta,
    server_sums,
    split_ratio,
    two_scales_delta,
    view_loss,
)

pures = st.floats(0.01, 8.0)
counts = st.integers(1, 12)


def test_rounding_one_value_is_post_processing_and_rounding_several_is_not():
    """A coarse grid hides the noise of the others, so that the sum tells more than the exact sum."""
    for grid in (0.01, 0.5, 2.0):
        one = rounded_delta(0.1, shift=0.5, grid=grid, clients=1)
        assert one <= SummedLaplace(1.0, sensitivity=0.5).delta(0.1) + 1e-9
    exact = SummedLaplace(1.0, sensitivity=0.5, clients=3).delta(0.1)
    assert rounded_delta(0.1, shift=0.5, grid=0.01, clients=3) == pytest.approx(exact, rel=1e-4)
    assert rounded_delta(0.1, shift=0.5, grid=2.0, clients=3) > 1.1 * exact


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


def test_a_curious_parameter_server_needs_every_share():
    same = [(a, (3 - a) % 5) for a in range(5)]  # all with the sum 3
    for seen, bits in (((), 0), ((0,), 0), ((0, 1), 0), ((0, 1, 2), np.log2(5))):
        views = [curious_view(pair, modulus=5, servers=3, seen=seen) for pair in same]
        assert views[0].shape == (5**4, 3 + 2 * len(seen))
        assert mutual_information(views) == pytest.approx(bits, abs=1e-12)


@pytest.mark.parametrize("servers", [2, 3, 4])
def test_exposures_that_a_condition_on_servers_or_links_alone_misses(servers):
    held, stated = exposures(servers)
    assert held.shape == (2**servers, 2**servers, servers)
    assert held.all(-1).sum() == 3**servers  # each path: server, link or both
    assert stated.sum() == 2 * 2**servers - 1
    assert np.all(held.all(-1)[stated])


@settings(deadline=None, max_examples=15)
@given(st.floats(0.05, 2), st.integers(1, 12))
def test_counting_rounds_by_enumeration(epsilon, rounds):
    p = 1 - np.exp(-epsilon / 2) / 2
    outcomes = np.array(list(product((0, 1), repeat=rounds)))
    chances = [np.where(outcomes, x, 1 - x).prod(1) for x in (p, 1 - p)]
    for threshold in range(rounds + 2):
        says = outcomes.sum(1) >= threshold
        right = [chances[0][says].sum(), chances[1][~says].sum()]
        assert distinguishing(threshold, epsilon=epsilon, rounds=rounds) == pytest.approx(right)


def test_counting_is_no_better_than_the_best_test():
    both = distinguishing(6, epsilon=0.5, rounds=11)
    best = compose(SummedLaplace(2.0), 11).delta(0.0)
    assert both[0] == pytest.approx(both[1])
    assert 0.9 * best < both.sum() - 1 <= best
