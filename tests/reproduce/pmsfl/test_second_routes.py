"""Searches and enumerations of pmsfl at their limits, and the drift of averaged bits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.accounting import GaussianMechanism
from repro.accounting.pmsfl import printed
from repro.accounting.pmsfl import releases as exact
from repro.federated.pmsfl import masks
from reproduce.papers.pmsfl.second_routes import (
    all_masks,
    averaging_errors,
    descend,
    frozen_by_drift,
    inversion_errors,
    masked_loss,
    noised_mask_deltas,
    plain_pairs,
    row_matches,
    score_gradient,
    search_masked_loss,
    shared_masked_loss,
)

units = st.floats(0.02, 0.98)


floors = st.floats(0.01, 0.49)


scores = st.floats(-8, 8)


def test_bits_of_noisy_masks_are_those_of_the_closed_form_and_tell_less_than_the_noise():
    sigma, floor, tried = 0.8, 0.05, np.array([0.0, 0.5, 1.0])
    bits, noisy = noised_mask_deltas(tried, sigma, floor=floor, count=3)
    kept = float(exact.noised_probability(1.0, sigma, floor=floor))
    closed = exact.mask_delta(tried, first=kept, second=1 - kept, count=3)
    assert bits == pytest.approx(closed, rel=1e-6)
    law = GaussianMechanism(sigma, sensitivity=np.sqrt(3)).delta(tried)
    assert noisy == pytest.approx(law, rel=1e-9) and np.all(bits < noisy)


def test_averaging_finds_the_input_and_matches_are_all_found():
    rng = np.random.default_rng(1)
    w, x = rng.normal(size=(40, 4)), rng.uniform(size=4)
    errors = averaging_errors(w, np.full(w.shape, 0.6), x, np.array([1, 10, 4000]), rng)
    assert errors[2] < 0.02 < errors[0]
    sure = averaging_errors(w, np.ones(w.shape), x, np.array([1]), rng)
    assert sure == pytest.approx(0, abs=1e-9)
    mask = rng.integers(0, 2, (40, 4))
    found = row_matches(w, np.stack([x, x + 0.1, 0 * x]), (w * mask) @ x)
    assert np.all(found[0] >= 1) and not np.all(found[1] >= 1)
    assert np.all(found[2][mask.any(1)] == 0)


@settings(deadline=None, max_examples=20)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=2),
       st.lists(st.floats(-2, 2), min_size=2, max_size=2), units, st.floats(0.2, 3))  # fmt: skip
def test_masked_loss_on_a_fine_grid(first, second, keep, epsilon):
    u = np.linspace(-10, 10, 20_001)
    density = []
    for z in (first, second):
        total = 0.0
        for mask in product((0, 1), repeat=2):
            chance = np.prod([keep if m else 1 - keep for m in mask])
            total = total + chance * np.exp(-epsilon * np.abs(u - np.dot(mask, z)))
        density.append(total)
    value = masked_loss(np.array(first), np.array(second), np.array([keep] * 2), epsilon=epsilon)
    found = np.log(density[0] / density[1]).max()
    assert found <= value + 1e-9
    assert value <= found + epsilon * 2e-3


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_repaired_theorem_2_survives_the_search(dimension, epsilon):
    rng = np.random.default_rng(dimension)
    worst = search_masked_loss(rng, dimension=dimension, floor=0.2, epsilon=epsilon, tries=300)
    bound = float(printed.smashed_epsilon(epsilon, dimension=dimension, floor=0.2))
    attained = float(exact.masked_laplace_epsilon(epsilon, keep=0.8))
    assert worst <= bound + 1e-9
    assert 0.98 * attained <= worst <= attained + 1e-9


def test_sensitivity_before_the_mask_is_not_enough():
    z = np.array([1.0, -0.9]) / 0.1  # in units of the unmasked sensitivity
    leak = masked_loss(z, 0 * z, np.full(2, 0.5), epsilon=1.0)
    assert leak > 8 > float(printed.smashed_epsilon(1.0, dimension=2, floor=0.4))


def test_drift_in_closed_form_and_by_simulation():
    assert frozen_by_drift(2, 6)[1:] == pytest.approx(1 - 0.5 ** np.arange(1, 7))
    assert frozen_by_drift(1, 3, start=0.2)[1:] == pytest.approx(1)
    rng = np.random.default_rng(0)
    theta = np.full(50_000, 0.3)
    for share in frozen_by_drift(5, 6, start=0.3)[1:]:
        theta = rng.binomial(5, theta) / 5
        assert np.mean((theta == 0) | (theta == 1)) == pytest.approx(share, abs=0.012)


def test_drift_is_what_sampling_and_averaging_do():
    participants, size = 5, 20_000
    theta, seen = torch.full((size,), 0.5), [0.0]
    for t in range(12):
        generator = torch.Generator().manual_seed(t)
        theta = masks.sample(theta.expand(participants, size), generator).mean(dim=0)
        seen.append(float(masks.frozen(theta).float().mean()))
    assert np.allclose(seen, frozen_by_drift(participants, 12), atol=0.015)
    assert not masks.frozen(masks.kept_inside(theta, 0.01)).any()


def test_limits_of_drift():
    assert frozen_by_drift(1, 3).tolist() == [0.0, 1.0, 1.0, 1.0]
    curve = frozen_by_drift(10, 400)
    assert curve[0] == 0 and np.all(np.diff(curve) >= -1e-12) and curve[-1] == pytest.approx(1)
    assert curve[1] == pytest.approx(2 * 0.5**10)
    # the largest eigenvalue of the chain inside is 1 - 1 / K
    assert (1 - curve[81]) / (1 - curve[80]) == pytest.approx(0.9, rel=1e-6)
    with pytest.raises(ValueError, match="participants"):
        frozen_by_drift(0, 3)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: frozen_by_drift(2, 1, start=[0.5, 0.1]), "start"),
        (lambda: frozen_by_drift(100_000, 1, start=0.5), "participants"),
        (lambda: all_masks(17), "cells"),
        (lambda: masked_loss(np.ones(9), np.ones(9), np.ones(9), epsilon=1.0), "dimension"),
        (lambda: masked_loss(np.ones(1), np.ones(1), [2.0], epsilon=1.0), "keep"),
        (lambda: frozen_by_drift(0, 1, start=0.5), "participants"),
        (lambda: frozen_by_drift(2, 1, start=1.5), "start"),
        (lambda: averaging_errors(np.eye(2), np.eye(2), np.ones(2), np.array([2, 1]), None), "views"),
        (lambda: averaging_errors(np.eye(2), np.eye(2), np.ones(3), np.array([1]), None), "x must"),
        (lambda: inversion_errors(np.eye(2), np.eye(3), np.eye(2), np.ones(2)), "mask"),
        (lambda: row_matches(np.eye(2), np.ones((1, 3)), np.ones(2)), "inputs"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, name):
    with pytest.raises(ValueError, match=name):
        call()


def test_the_gradient_of_the_scores_is_that_of_the_expected_loss_where_it_is_linear():
    rng = np.random.default_rng(3)
    scores, weight = rng.normal(size=(2, 4))
    matrix, target = np.zeros((1, 4)), np.zeros(1)
    known = {"masks": all_masks(4), "weight": weight}
    assert not score_gradient(scores, matrix=matrix, target=target, **known).any()
    one = np.array([[1.0, 0, 0, 0]])
    # d/ds of E (w M - b)^2 / 2 by the estimator: (w theta - b) w theta (1 - theta)
    theta = 1 / (1 + np.exp(-scores[0]))
    found = score_gradient(scores, matrix=one, target=np.array([0.5]), **known)
    wanted = (weight[0] * theta - 0.5) * weight[0] * theta * (1 - theta)
    np.testing.assert_allclose(found, [wanted, 0, 0, 0], rtol=1e-12)


def test_descent_shrinks_a_quadratic_and_adam_is_that_of_torch():
    start = np.array([1.0, -3.0])
    np.testing.assert_allclose(descend(lambda s: s, start, 5, rate=0.1), start * 0.9**5)
    there = torch.tensor(start, requires_grad=True)
    optimiser = torch.optim.Adam([there], lr=0.01)
    for _ in range(20):
        there.grad = there.detach() ** 3
        optimiser.step()
    found = descend(lambda s: s**3, start, 20, rate=0.01, adam=True)
    np.testing.assert_allclose(found, there.detach().numpy(), rtol=1e-9)
    np.testing.assert_array_equal(start, [1.0, -3.0])


def test_the_loss_under_shared_bits_is_that_of_one_output_where_there_is_one():
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 30, 3))
    keep = rng.uniform(size=(30, 3))
    found = shared_masked_loss(first[..., None], second[..., None], keep, epsilon=0.7)
    np.testing.assert_allclose(found, masked_loss(first, second, keep, epsilon=0.7), rtol=1e-9)


def test_a_second_output_without_terms_changes_nothing():
    pair = np.array([[[[0.5, 0.0], [0.3, 0.0]]], [[[0.1, 0.0], [-0.2, 0.0]]]])
    both = shared_masked_loss(*pair, np.full((1, 2), 0.6), epsilon=2.0)
    one = masked_loss(*pair[..., 0], np.full(2, 0.6), epsilon=2.0)
    np.testing.assert_allclose(both, one, rtol=1e-12)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_terms_that_do_not_cancel_leak_no_more_than_one_weight(p):
    pairs, keep = plain_pairs(np.random.default_rng(11), 200, p=p)
    assert np.abs(np.stack([*pairs, pairs[0] - pairs[1]])).sum((-2, -1)).max() <= 1 + 1e-12
    assert keep.max() <= p
    leak = shared_masked_loss(*pairs, keep, epsilon=2.0)
    bound = float(exact.masked_laplace_epsilon(2.0, keep=p))
    assert leak.max() <= bound * (1 + 1e-12)
    assert leak[0] == pytest.approx(bound)


def test_terms_that_cancel_may_leak_more_where_bits_are_rarely_kept():
    pair = np.array([[[[0.0], [0.0]]], [[[1.0], [-1.0]]]])
    leak = shared_masked_loss(*pair, np.full((1, 2), 0.1), epsilon=0.1)
    assert leak > exact.masked_laplace_epsilon(0.1, keep=0.1)
