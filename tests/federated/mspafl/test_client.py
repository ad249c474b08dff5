"""Draws of records follow their laws, and clipping bounds the norm of an upload."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from repro.federated.mspafl.client import RecordDraws, clip_rows


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=4),
    st.floats(1e-3, 1e3),
)
def test_clipping_bounds_the_norm_and_changes_nothing_else(rows, clip):
    rows = np.array(rows)
    clipped = clip_rows(rows, clip)
    norms, after = np.linalg.norm(rows, axis=1), np.linalg.norm(clipped, axis=1)
    assert (after <= clip * (1 + 1e-12)).all()
    short = norms <= clip * (1 - 1e-12)
    assert np.array_equal(clipped[short], rows[short])
    np.testing.assert_allclose(after[~short], clip, rtol=1e-9)
    np.testing.assert_allclose(
        clipped * norms[:, None], rows * after[:, None], rtol=1e-9, atol=1e-290
    )
    assert np.array_equal(clip_rows(rows, math.inf), rows)


def sequences(replacement, held=4, draws=2, rounds=4000, clients=6, seed=0):
    sampler = RecordDraws(clients, held, draws, replacement=replacement)
    rng = np.random.default_rng(seed)
    return np.array([sampler.draw(rng.random((clients, draws))) for _ in range(rounds)])


@pytest.mark.parametrize("replacement", [False, True])
def test_every_sequence_of_draws_is_equally_likely(replacement):
    hands = sequences(replacement)
    code = hands[..., 0] * 4 + hands[..., 1]
    counts = np.bincount(code.ravel(), minlength=16)
    allowed = np.ones(16, bool) if replacement else ~np.eye(4, dtype=bool).ravel()
    assert not counts[~allowed].any()
    assert chisquare(counts[allowed]).pvalue > 1e-4
    # independent of the round before and of the neighbour
    for a, b in ((code[:-1], code[1:]), (code[:, :-1], code[:, 1:])):
        joint = np.bincount((16 * a + b).ravel(), minlength=256).reshape(16, 16)
        assert chisquare(joint[np.ix_(allowed, allowed)].ravel()).pvalue > 1e-4


def test_the_laws_are_exact_on_a_grid_of_uniform_numbers():
    """Each number runs through equal steps: every sequence comes up the same number of times."""
    held, draws, fine = 4, 3, 24  # 24 is a multiple of 4, 3 and 2
    grid = (np.arange(fine) + 0.5) / fine
    uniforms = np.array(list(itertools.product(grid, repeat=draws)))
    for replacement, count in ((True, held**draws), (False, 4 * 3 * 2)):
        sampler = RecordDraws(len(uniforms), held, draws, replacement=replacement)
        hands, times = np.unique(sampler.draw(uniforms), axis=0, return_counts=True)
        assert len(hands) == count and (times == len(uniforms) // count).all()


def test_the_share_of_records_used_is_that_of_theorem_1():
    held, draws = 325, 25
    for replacement, expected in ((False, draws / held), (True, 1 - (1 - 1 / held) ** draws)):
        hands = sequences(replacement, held, draws, rounds=40, clients=100)
        used = np.mean([len(np.unique(hand)) for hand in hands.reshape(-1, draws)]) / held
        assert used == pytest.approx(expected, rel=2e-3 if replacement else 1e-12)


def test_extreme_uniform_numbers_stay_inside():
    for replacement in (False, True):
        sampler = RecordDraws(2, 7, 7, replacement=replacement)
        hands = sampler.draw(np.stack([np.zeros(7), np.full(7, np.nextafter(1.0, 0.0))]))
        assert hands.min() == 0 and hands.max() == 6
