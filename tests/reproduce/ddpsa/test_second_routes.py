"""The searches behind ddpsa's derivations, by summation and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting.ddpsa import printed as theory
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
