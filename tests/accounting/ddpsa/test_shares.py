"""Noise in shares against plain summation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import compose
from repro.accounting.ddpsa.shares import LaplaceShares, share_noise

pures = st.floats(0.01, 8.0)
counts = st.integers(1, 12)


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
