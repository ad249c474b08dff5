"""Laplace noise behind random masks: what is proved for one output, and where it ends."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting.pmsfl.masked import masked_laplace_bound, masked_laplace_epsilon
from repro.accounting.pmsfl.printed import smashed_epsilon
from reproduce.papers.pmsfl.second_routes import (
    all_masks,
    mask_chances,
    masked_loss,
    search_masked_loss,
)

keeps = st.floats(0.5, 1)


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 60), keeps)
def test_both_formulas_in_high_precision(epsilon, keep):
    with mp.workdps(60):
        p, e = mp.mpf(keep), mp.exp(epsilon)
        lower = mp.log(1 - p + p * e)
        upper = mp.log((p * e + (1 - p) / e) / (p + (1 - p) / e))
    assert float(masked_laplace_epsilon(epsilon, keep=keep)) == pytest.approx(
        float(lower), rel=1e-12
    )
    assert float(masked_laplace_bound(epsilon, keep=keep)) == pytest.approx(
        float(upper), rel=1e-12, abs=1e-15
    )


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-3, 30), st.floats(0.5, 0.999))
def test_the_bound_lies_between_the_attained_value_and_epsilon(epsilon, keep):
    attained = float(masked_laplace_epsilon(epsilon, keep=keep))
    bound = float(masked_laplace_bound(epsilon, keep=keep))
    assert attained <= bound * (1 + 1e-12) and bound <= epsilon
    spared = np.expm1(epsilon - attained), np.expm1(epsilon - bound)
    assert spared[1] >= spared[0] * np.exp(-epsilon) * (1 - 1e-6) - 1e-12


def test_limits_and_extreme_arguments():
    assert masked_laplace_bound(0.0, keep=0.7) == 0 and masked_laplace_bound(3.0, keep=1.0) == 3
    for epsilon in (0.0, 1e-300, 700.0, 710.0, 1e300):
        for keep in (0.0, 1e-300, 1e-17, 0.5, 1.0):
            value = masked_laplace_epsilon(epsilon, keep=keep)
            assert 0 <= value <= epsilon
    assert masked_laplace_epsilon(800.0, keep=0.0) == 0
    assert masked_laplace_epsilon(800.0, keep=1e-300) == pytest.approx(800 + np.log(1e-300))
    shape = masked_laplace_bound(np.ones((3, 1)), keep=[0.5, 0.9]).shape
    assert shape == masked_laplace_epsilon(np.ones((3, 1)), keep=[0.5, 0.9]).shape == (3, 2)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 6), st.floats(0.5, 1), st.integers(0, 10**6))
def test_mean_difference_of_outputs_is_at_most_the_keep_probability(dimension, keep, seed):
    """The lemma in the proof: positive and negative parts of at most 1, bits kept up to p >= 1/2."""
    rng = np.random.default_rng(seed)
    terms = rng.standard_cauchy(dimension)
    terms /= max(np.maximum(terms, 0).sum(), np.maximum(-terms, 0).sum())
    masks = all_masks(dimension)
    law = mask_chances(masks, keep * rng.uniform(size=dimension))
    assert law @ np.abs(masks @ terms) <= keep + 1e-12


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("floor", [0.02, 0.3, 0.48])
def test_the_search_stays_below_the_bound(epsilon, floor):
    rng = np.random.default_rng(7)
    bound = float(masked_laplace_bound(epsilon, keep=1 - floor))
    for dimension in (2, 4):
        worst = search_masked_loss(
            rng, dimension=dimension, floor=floor, epsilon=epsilon, tries=200
        )
        assert worst <= bound


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(0, 6), min_size=2, max_size=5), keeps)
def test_bounds_of_several_outputs_add_to_less_than_the_bound_of_their_sum(parts, keep):
    parts = np.array(parts)
    separate = masked_laplace_bound(parts, keep=keep).sum()
    assert separate <= masked_laplace_bound(parts.sum(), keep=keep) + 1e-12


def test_the_attained_value_is_exceeded_where_the_theorem_ends():
    # keep probabilities below 1/2 only: one positive and one negative term leak more than one term
    pair = np.zeros(2), np.array([1.0, -1.0])
    rare = float(masked_loss(*pair, np.full(2, 0.1), epsilon=0.1))
    assert rare > 1.5 * masked_laplace_epsilon(0.1, keep=0.1)
    # two outputs under the same two bits
    outputs = np.array([[0.5, 0.5], [0.5, -0.5]])
    masks = all_masks(2)
    moved = np.abs(masks @ outputs).sum(1)
    assert moved == pytest.approx([0, 1, 1, 1])
    shared = -np.log(mask_chances(masks, 0.7) @ np.exp(-0.1 * moved))
    assert masked_laplace_bound(0.1, keep=0.7) < shared
    assert shared < smashed_epsilon(0.1, dimension=2, floor=0.3)


def test_losses_of_extreme_inputs():
    far = masked_loss(np.array([1000.0]), np.array([0.0]), np.array([0.5]), epsilon=1.0)
    assert far == pytest.approx(1000 + np.log(0.5))
    assert masked_loss(np.array([800.0]), np.array([0.0]), [1.0], epsilon=1.0) == 800
    many = masked_loss(np.ones((4, 1, 2)), np.zeros((3, 2)), 0.5 * np.ones(2), epsilon=700.0)
    assert many.shape == (4, 3) and np.all(np.isfinite(many))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: masked_laplace_bound(-1.0, keep=0.6), "epsilon"),
        (lambda: masked_laplace_bound(np.inf, keep=0.6), "epsilon"),
        (lambda: masked_laplace_bound(1.0, keep=0.4), "keep"),
        (lambda: masked_laplace_bound(1.0, keep=np.nan), "keep"),
        (lambda: masked_laplace_bound([1.0, 2.0], keep=[0.5] * 3), "broadcast"),
        (lambda: masked_laplace_epsilon("1", keep=0.6), "epsilon"),
        (lambda: masked_loss([np.nan], [1.0], [0.5], epsilon=1.0), "first"),
        (lambda: masked_loss([1.0], "x", [0.5], epsilon=1.0), "second"),
        (lambda: masked_loss(1.0, 2.0, 0.5, epsilon=1.0), "dimension"),
        (lambda: masked_loss([1.0, 2.0], [1.0] * 3, 0.5, epsilon=1.0), "broadcast"),
    ],
)
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()
